//! A workspace where there is no overlay: a private directory of its own, and a walk over all of it.
//!
//! It costs what the repository weighs, but gives the same results: the walk is the same, with one more meaning for
//! what is absent. After turns that were to change nothing, and of which nothing was heard, there is no walk. For an agent that is confined it is made as the base of layers is, with a repository that holds what
//! may be seen and nothing else; one that nothing confines gets a checkout that borrows objects.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode};

use super::capture::{CaptureRules, Captured, capture_as};
use super::layer::{self, Making};
use super::private_git::Position;
use super::stat_cache::StatCache;
use super::walk::View;
use super::watch::Watch;
use super::{History, Secret, only_in_git};
use crate::git::objects::Objects;
use crate::git::tree::MODE_GITLINK;
use crate::git::{Checkout, GitError, IoContext, ObjectId, sweep};

/// A private directory and what is known of its files.
#[derive(Debug)]
pub struct PlainWorkspace {
    /// Where the agent works.
    pub dir: PathBuf,
    /// Tracked files that it may not see, as exact paths.
    pub secrets: Vec<Vec<u8>>,
    made: Made,
    tree: ObjectId,
    cache: StatCache,
    watched: Watched,
}

/// What is heard of the files.
#[derive(Debug)]
enum Watched {
    /// Nothing; they are looked at.
    Not,
    /// They were found to be exactly those of the tree, and this since.
    Since(Watch),
    /// Nothing, since this system cannot.
    Never,
}

/// How the files are made.
#[derive(Debug)]
enum Made {
    /// By git, as a checkout.
    Checkout(Checkout),
    /// As the base of layers, in this directory.
    Base { place: PathBuf, history: History, is_secret: Secret },
}

/// A layer that is never used again needs no mark of when the machine was started.
const NO_BOOT: &str = "";

impl PlainWorkspace {
    /// Makes a checkout of `tree` in a directory that does not exist yet.
    pub fn create(objects: &Objects, dir: &Path, commit: ObjectId, tree: ObjectId) -> Result<PlainWorkspace, GitError> {
        let checkout = Checkout::create(objects, dir, commit, tree)?;
        let dir = checkout.dir.clone();
        PlainWorkspace::of(Made::Checkout(checkout), dir, tree, objects)
    }

    /// Makes the files of `tree` in a directory below `place`, which does not exist yet, with a repository of their own
    /// that lacks what the agent may not see.
    pub fn create_apart(
        objects: &Objects,
        place: &Path,
        (commit, tree): (ObjectId, ObjectId),
        history: History,
        is_secret: Secret,
    ) -> Result<PlainWorkspace, GitError> {
        let secrets = make_base(objects, place, Position { commit, tree, history }, is_secret)?;
        let place = place.canonicalize().context("resolve", place)?;
        let dir = layer::files_of(&place);
        let mut made = PlainWorkspace::of(Made::Base { place, history, is_secret }, dir, tree, objects)?;
        made.secrets = secrets;
        Ok(made)
    }

    fn of(made: Made, dir: PathBuf, tree: ObjectId, objects: &Objects) -> Result<PlainWorkspace, GitError> {
        let cache = StatCache::default();
        let watched = Watched::Not;
        let mut workspace = PlainWorkspace { dir, secrets: Vec::new(), made, tree, cache, watched };
        workspace.remember(objects)?;
        Ok(workspace)
    }

    /// Makes the files exactly those of another tree, whatever was done to them.
    pub fn advance(&mut self, objects: &Objects, commit: ObjectId, tree: ObjectId) -> Result<(), GitError> {
        match &self.made {
            Made::Checkout(checkout) => checkout.advance(objects, commit, tree)?,
            Made::Base { place, history, is_secret } => {
                sweep::remove(place, &place.with_extension("trash"))?;
                let position = Position { commit, tree, history: *history };
                self.secrets = make_base(objects, place, position, *is_secret)?;
            }
        }
        self.tree = tree;
        if let Watched::Since(_) = self.watched {
            self.watched = Watched::Not;
        }
        self.remember(objects)
    }

    /// What was made of the files since then, and what is in the agent's git alone. Only for when every process that
    /// could write there is dead. One that was to change nothing usually did not, and then no file is looked at.
    pub fn capture_with_git(
        &mut self,
        objects: &Objects,
        rules: &CaptureRules,
        read_only: bool,
    ) -> Result<Captured, GitError> {
        match &self.watched {
            Watched::Since(watch) if read_only && watch.is_quiet() => return Ok(Captured::nothing(self.tree)),
            Watched::Since(_) => self.watched = Watched::Not,
            Watched::Not | Watched::Never => {}
        }
        let root = self.open()?;
        let watch = if read_only { self.watch() } else { None };
        let mut captured = self.walk(objects, rules, &root)?;
        let has_changes = captured.tree != self.tree;
        captured.odd.extend(only_in_git(objects, self.tree, root.as_fd(), has_changes)?);
        if let Some(watch) = watch.filter(|watch| captured == Captured::nothing(self.tree) && watch.is_quiet()) {
            self.watched = Watched::Since(watch);
        }
        Ok(captured)
    }

    /// What was made of the files alone.
    pub fn capture(&mut self, objects: &Objects, rules: &CaptureRules) -> Result<Captured, GitError> {
        let root = self.open()?;
        self.walk(objects, rules, &root)
    }

    fn walk(&mut self, objects: &Objects, rules: &CaptureRules, root: &OwnedFd) -> Result<Captured, GitError> {
        capture_as(objects, self.tree, root.as_fd(), rules, View::Whole, Some(&mut self.cache))
    }

    fn open(&self) -> Result<OwnedFd, GitError> {
        let dir = &self.dir;
        // The agent may have taken even norma's permission to look into it. A link in its place is not followed.
        if std::fs::symlink_metadata(dir).context("look at", dir)?.is_dir() {
            rustix::fs::chmod(dir, Mode::RWXU).context("set the mode of", dir)?;
        }
        sweep::open_directory(dir)
    }

    /// Listens to what is done to the files, unless it is known that this cannot be had.
    fn watch(&mut self) -> Option<Watch> {
        if let Watched::Never = self.watched {
            return None;
        }
        let watch = Watch::over(&self.dir);
        if let Err(error) = &watch {
            let dir = self.dir.display();
            tracing::info!(target: "norma::workspace", "{dir} cannot be watched, so all its files are looked at: {error}");
            self.watched = Watched::Never;
        }
        watch.ok()
    }

    /// Notes what the files look like now that they are known to be those of the tree.
    fn remember(&mut self, objects: &Objects) -> Result<(), GitError> {
        let root = sweep::open_directory(&self.dir)?;
        self.cache.begin();
        objects.walk(self.tree, &mut |path, mode, id| {
            let stat = rustix::fs::statat(&root, path, AtFlags::SYMLINK_NOFOLLOW);
            if let (Ok(stat), true) = (stat, mode != MODE_GITLINK) {
                self.cache.put(path, &stat, id);
            }
        })
    }
}

/// Makes a base that is nobody else's; what of it is covered.
fn make_base(objects: &Objects, place: &Path, position: Position, is_secret: Secret) -> Result<Vec<Vec<u8>>, GitError> {
    std::fs::create_dir_all(place).context("create directory", place)?;
    let making = Making { objects, position, dir: place, is_secret, boot: NO_BOOT };
    Ok(making.base(&mut |_| ())?.secrets())
}
