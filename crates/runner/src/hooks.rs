//! Git hooks of the user's repository: `pre-commit` and `pre-push` hold what people commit and push by hand to the active
//! contract. Installing keeps the hooks that are there: they are renamed aside, run first, and come back with
//! uninstalling. Nothing here is ever overwritten that norma did not write.

mod gate;
mod script;

pub use gate::{Judged, Pushed, Refusal, Subject, judge, layout_for};
pub use script::Mode;

use crate::git::Repository;
use crate::{Error, Result};
use script::Found;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the name of a hook that was here before ends with.
const ASIDE: &str = ".before-norma";

/// A hook is a few lines; whatever is larger is not norma's.
const SCRIPT_BYTES_MAX: u64 = 64 << 10;

/// A hook that norma installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// Before a commit is made.
    PreCommit,
    /// Before refs are pushed.
    PrePush,
}

impl Hook {
    /// Every one of them.
    pub const ALL: [Hook; 2] = [Hook::PreCommit, Hook::PrePush];

    /// Its file name, as git has it.
    pub fn name(self) -> &'static str {
        match self {
            Hook::PreCommit => "pre-commit",
            Hook::PrePush => "pre-push",
        }
    }
}

/// What is there of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// The hook that this is about.
    pub hook: Hook,
    /// Its file.
    pub path: PathBuf,
    /// How norma's hook judges; none if it is not installed.
    pub mode: Option<Mode>,
    /// The hook that was here before, where there is one; it runs first.
    pub before: Option<PathBuf>,
}

/// What is installed.
pub fn status(user: &Repository) -> Result<Vec<Installed>> {
    let dir = user.hooks_dir()?;
    Hook::ALL.iter().map(|hook| Place::new(&dir, *hook).installed()).collect()
}

/// Installs both hooks, or none if one of them cannot be; done again, it changes nothing but the mode. `norma` is the
/// program that they call.
pub fn install(user: &Repository, norma: &Path, mode: Mode) -> Result<Vec<Installed>> {
    if let Some(scope) = user.shared_hooks()? {
        return Err(Error::declined(
            format!(
                "core.hooksPath is set in the {scope} configuration, so these hooks are those of other repositories too"
            ),
            "give this one its own: git config --local core.hooksPath .git/hooks",
        ));
    }
    let dir = user.hooks_dir()?;
    let places = Hook::ALL.map(|hook| Place::new(&dir, hook));
    for place in &places {
        place.require_room()?;
    }
    std::fs::create_dir_all(&dir).map_err(|source| Error::io("create", &dir, source))?;
    places.iter().try_for_each(|place| place.install(norma, mode))?;
    status(user)
}

/// Takes norma's hooks away and puts back those that were there before; answers what is there now.
pub fn uninstall(user: &Repository) -> Result<Vec<Installed>> {
    let dir = user.hooks_dir()?;
    let places = Hook::ALL.map(|hook| Place::new(&dir, hook));
    for place in &places {
        place.require_unchanged()?;
    }
    places.iter().try_for_each(Place::uninstall)?;
    status(user)
}

/// Where a hook is, and where one that was there before is kept.
struct Place {
    hook: Hook,
    path: PathBuf,
    aside: PathBuf,
}

impl Place {
    fn new(dir: &Path, hook: Hook) -> Place {
        let path = dir.join(hook.name());
        Place { hook, path, aside: dir.join(format!("{}{ASIDE}", hook.name())) }
    }

    fn installed(&self) -> Result<Installed> {
        let mode = match self.found()? {
            Found::Ours(mode) => Some(mode),
            Found::Nothing | Found::Theirs | Found::Changed => None,
        };
        let before = is_there(&self.aside)?.then(|| self.aside.clone());
        Ok(Installed { hook: self.hook, path: self.path.clone(), mode, before })
    }

    fn found(&self) -> Result<Found> {
        let failed = |source| Error::io("read", &self.path, source);
        match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
            Err(source) => Err(failed(source)),
            // norma writes files; a link is somebody's own arrangement.
            Ok(meta) if !meta.is_file() || meta.len() > SCRIPT_BYTES_MAX => Ok(Found::Theirs),
            Ok(_) => Ok(script::found(self.hook, &std::fs::read(&self.path).map_err(failed)?)),
        }
    }

    fn require_unchanged(&self) -> Result<()> {
        match self.found()? {
            Found::Changed => Err(Error::declined(
                format!("{} was changed since norma wrote it", self.path.display()),
                "keep what you want of it elsewhere, delete it, and try again",
            )),
            Found::Nothing | Found::Theirs | Found::Ours(_) => Ok(()),
        }
    }

    /// Refuses where something would be lost.
    fn require_room(&self) -> Result<()> {
        self.require_unchanged()?;
        if self.found()? == Found::Theirs && is_there(&self.aside)? {
            return Err(Error::declined(
                format!("{} and {} are both there, and neither is norma's", self.path.display(), self.aside.display()),
                "keep one of them elsewhere, and try again",
            ));
        }
        Ok(())
    }

    fn install(&self, norma: &Path, mode: Mode) -> Result<()> {
        if self.found()? == Found::Theirs {
            rename(&self.path, &self.aside)?;
        }
        let text = script::render(self.hook, norma, mode);
        let tmp = self.path.with_extension(format!("tmp-{}", std::process::id()));
        let failed = |source| Error::io("write", &tmp, source);
        let options = std::fs::File::options().write(true).create(true).truncate(true).mode(0o755).clone();
        options.open(&tmp).and_then(|mut file| file.write_all(&text)).map_err(failed)?;
        rename(&tmp, &self.path)
    }

    fn uninstall(&self) -> Result<()> {
        // Where norma's hook is gone already, somebody else arranges things here; what is aside stays for them.
        if !matches!(self.found()?, Found::Ours(_)) {
            return Ok(());
        }
        match is_there(&self.aside)? {
            true => rename(&self.aside, &self.path),
            false => std::fs::remove_file(&self.path).map_err(|source| Error::io("remove", &self.path, source)),
        }
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(|source| Error::io("rename", from, source))
}

/// Whether there is anything at all, a link that leads nowhere too.
fn is_there(path: &Path) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::io("look at", path, source)),
    }
}
