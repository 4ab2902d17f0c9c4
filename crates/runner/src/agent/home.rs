//! The private home of an agent for one turn: settings that norma wrote, and copies of the files that hold its sign-in
//! with its provider. A sign-in that the agent renewed is brought back, since the old one may be worth nothing any more.

use crate::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use session::{Kind, Launch};
use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest file of a sign-in.
const SIGN_IN_BYTES_MAX: u64 = 1 << 20;

/// A home on the machine's side.
pub(super) struct Home {
    /// Where it is until it is removed.
    pub(super) dir: PathBuf,
    /// Files of the user's own home that were copied into it, with what they held.
    copied: Vec<(&'static str, Vec<u8>)>,
    user_home: Option<PathBuf>,
}

impl Home {
    /// Makes the home with everything that the launch asks for, over the files of the conversation that goes on.
    pub(super) fn furnish(
        dir: PathBuf,
        launch: &Launch,
        sign_in: Option<(Kind, &Path)>,
        ongoing: Option<&Path>,
    ) -> Result<Home> {
        store::remove_tree(&dir)?;
        match ongoing {
            Some(files) => std::fs::rename(files, &dir).map_err(|source| Error::io("rename", files, source))?,
            None => make_dir(&dir)?,
        }
        let mut home = Home { dir, copied: Vec::new(), user_home: sign_in.map(|(_, home)| home.to_owned()) };
        for (path, content) in &launch.files {
            home.put(path, content)?;
        }
        if let Some((kind, user_home)) = sign_in {
            for file in session::sign_in_files(kind) {
                if let Some(content) = read(&user_home.join(file))? {
                    home.put(file, &content)?;
                    home.copied.push((*file, content));
                }
            }
        }
        Ok(home)
    }

    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        let to = self.dir.join(path);
        make_dir(to.parent().unwrap_or(&self.dir))?;
        let written = File::options().write(true).create(true).truncate(true).mode(0o600).open(&to);
        written.and_then(|mut file| file.write_all(content)).map_err(|source| Error::io("write", &to, source))
    }

    /// Brings back what the agent renewed of its sign-in; what it left is in `changed`, or in the home itself. Only a JSON
    /// document takes the place of one.
    pub(super) fn bring_back(&self, changed: Option<&OwnedFd>) -> Result<Vec<String>> {
        let (Some(user_home), mut notes) = (&self.user_home, Vec::new()) else { return Ok(Vec::new()) };
        for (file, before) in &self.copied {
            let left = match changed {
                Some(layer) => read_below(layer, file),
                None => read(&self.dir.join(file))?,
            };
            let Some(left) = left.filter(|left| left != before) else { continue };
            if serde_json::from_slice::<serde_json::Map<_, _>>(&left).is_err() {
                notes.push(format!("{file}: the agent left something else than a sign-in there; yours was kept"));
                continue;
            }
            notes.push(match replace(&user_home.join(file), before, &left)? {
                true => format!("{file}: the agent renewed its sign-in"),
                false => format!("{file}: the agent renewed its sign-in, but yours has changed meanwhile and was kept"),
            });
        }
        Ok(notes)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What stays behind goes with the run's workspaces.
        let _ = store::remove_tree(&self.dir);
    }
}

pub(super) fn make_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| Error::io("create", dir, source))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    match File::open(path).and_then(|file| file.take(SIGN_IN_BYTES_MAX).read_to_end(&mut content)) {
        Ok(_) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("read", path, source)),
    }
}

/// A file of what an agent changed, reached by names only: a link could lead anywhere.
fn read_below(layer: &OwnedFd, path: &str) -> Option<Vec<u8>> {
    let mut dir = layer.try_clone().ok()?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
        dir = rustix::fs::openat(dir.as_fd(), parent, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    }
    let file = File::from(rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty()).ok()?);
    let mut content = Vec::new();
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    file.take(SIGN_IN_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(content)
}

/// Replaces a file of the user's, whole, unless somebody changed it meanwhile: two agents may have been given the same.
fn replace(path: &Path, before: &[u8], after: &[u8]) -> Result<bool> {
    let failed = |source| Error::io("renew the sign-in in", path, source);
    let lock = path.with_extension("norma-lock");
    let locked = File::options().write(true).create(true).truncate(false).mode(0o600).open(&lock).map_err(failed)?;
    rustix::fs::flock(&locked, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    if read(path)?.as_deref() != Some(before) {
        return Ok(false);
    }
    let tmp = path.with_extension("norma-tmp");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&tmp).map_err(failed)?;
    file.write_all(after).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&tmp, path).map_err(failed)?;
    Ok(true)
}
