//! The layers below workspaces: which there are, who uses them, and which may go.
//!
//! ```text
//! cache/<uid>/
//!   layers/<tree>-<commit>-<history>/   layer.json and files/, complete or not there
//!   locks/<the same name>               locked, shared, for as long as a stand uses the layer
//!   making.lock                         locked by whoever makes or removes layers
//!   new/  trash/                        under way; what is found there without the lock being held is left over
//! ```
//! The cache belongs to one user: files of another owner could not be changed through the overlay, so one run under
//! `sudo` would spoil it for everybody.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::difference::{self, Difference};
use super::layer::{self, Below, Layer, Making};
use super::private_git::Position;
use super::{Progress, Secret};
use crate::git::objects::{Objects, Reader};
use crate::git::{GitError, IoContext, ObjectId, sweep};
use contract::History;

/// How many layers a stand has at most. A lookup may have to ask each of them.
const DEPTH_MAX: usize = 8;

/// How many of the layers used last are compared with a new tree; every base is, too.
const CANDIDATES_MAX: usize = 4;

/// A difference of more than a quarter of the files is not worth being a layer, unless it is small anyway.
const CHANGES_MIN: usize = 5_000;

/// A difference this small is taken without looking for a smaller one.
const CHANGES_NEAR: usize = 32;

/// How often a layer that vanishes while it is being taken is looked for again.
const TRIES_MAX: u32 = 8;

/// Layers in use: as long as this value lives, nobody removes them.
#[derive(Debug)]
pub struct Stand {
    /// The directories to lay over each other, from the top. Read-only.
    pub lower: Vec<PathBuf>,
    /// What HEAD names inside.
    pub commit: ObjectId,
    /// What the files are.
    pub tree: ObjectId,
    /// The names of the layers, from the top.
    pub layers: Vec<String>,
    /// Tracked files whose name says that they hold a secret, as exact paths from the root.
    pub secrets: Vec<Vec<u8>>,
    top: Layer,
    /// One locked file per layer.
    held: Vec<File>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Layers.
    pub layers: usize,
    /// Somebody was making a layer, so nothing was looked at.
    pub busy: bool,
}

/// The layers of one user.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    boot: String,
}

impl Cache {
    /// Opens the cache below `dir`, making it if need be.
    pub(super) fn open(dir: &Path) -> Result<Cache, GitError> {
        let owner = rustix::process::geteuid();
        let dir = dir.join(owner.as_raw().to_string());
        for part in ["layers", "locks"] {
            let part = dir.join(part);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&part).context("create directory", &part)?;
        }
        let found = fs::symlink_metadata(&dir).context("look at", &dir)?;
        if !found.is_dir() || found.uid() != owner.as_raw() {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user");
            return Err(GitError::Io { action: "use", path: dir, source });
        }
        let boot = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(boot).context("read", boot)?.trim().to_owned();
        Ok(Cache { dir: dir.canonicalize().context("resolve", &dir)?, boot })
    }

    fn layer_dir(&self, name: &str) -> PathBuf {
        self.dir.join("layers").join(name)
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.dir.join("locks").join(name)
    }

    /// The layers that show a position, made if they are not there.
    pub(super) fn stand(
        &self,
        objects: &Objects,
        position: Position,
        is_secret: Secret,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Stand, GitError> {
        let name = name_of(position);
        if let Some(stand) = self.take(&name)? {
            return Ok(stand);
        }
        let _making = self.wait_for_making()?;
        // Whoever had the lock may have made it.
        if let Some(stand) = self.take(&name)? {
            return Ok(stand);
        }
        self.clear_leftovers()?;
        self.discard(&name)?;
        self.make(objects, position, &name, is_secret, progress)?;
        let lost = || GitError::Io {
            action: "use",
            path: self.layer_dir(&name),
            source: io::Error::new(io::ErrorKind::NotFound, "it is gone as soon as it was made"),
        };
        self.take(&name)?.ok_or_else(lost)
    }

    /// Makes a layer under a temporary name and gives it its own when it is complete.
    fn make(
        &self,
        objects: &Objects,
        position: Position,
        name: &str,
        is_secret: Secret,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), GitError> {
        let new = self.dir.join("new");
        fs::create_dir(&new).context("create directory", &new)?;
        let making = Making { objects, position, dir: &new, is_secret, boot: &self.boot };
        match self.nearest(&objects.reader()?, position)? {
            Some((below, difference)) => {
                let (commit, tree) = (below.commit, below.tree);
                let below = Below {
                    name: &below.layers[0],
                    dir: &self.layer_dir(&below.layers[0]),
                    layer: &below.top,
                    position: Position { commit, tree, history: position.history },
                };
                making.thin(&below, &difference)?;
            }
            None => making.base(progress)?,
        }
        let dir = self.layer_dir(name);
        fs::rename(&new, &dir).context("rename to", &dir)
    }

    /// Takes a layer and all below it into use; `None` if one of them is not there or cannot be trusted any more.
    fn take(&self, name: &str) -> Result<Option<Stand>, GitError> {
        let Some(lock) = self.hold(name)? else {
            return Ok(None);
        };
        let Some(top) = Layer::read(&self.layer_dir(name), &self.boot) else {
            return Ok(None);
        };
        lock.set_modified(SystemTime::now()).context("touch", &self.lock_path(name))?;
        let mut held = vec![lock];
        let mut layers = vec![name.to_owned()];
        for below in &top.below {
            let Some(lock) = self.hold(below)? else {
                return Ok(None);
            };
            held.push(lock);
            layers.push(below.clone());
        }
        let id = |hex: &str| ObjectId::from_hex(hex.as_bytes()).ok();
        let (Some(commit), Some(tree)) = (id(&top.commit), id(&top.tree)) else {
            return Ok(None);
        };
        let lower = layers.iter().map(|name| layer::files_of(&self.layer_dir(name))).collect();
        Ok(Some(Stand { lower, commit, tree, layers, secrets: top.secrets(), top, held }))
    }

    /// Locks a layer against removal; `None` if it is not there.
    fn hold(&self, name: &str) -> Result<Option<File>, GitError> {
        let dir = self.layer_dir(name);
        for _ in 0..TRIES_MAX {
            if !dir.is_dir() {
                return Ok(None);
            }
            let path = self.lock_path(name);
            let file = lock_file(&path)?;
            file.lock_shared().context("lock", &path)?;
            if is_at(&file, &path) {
                return Ok(dir.is_dir().then_some(file));
            }
        }
        Ok(None)
    }

    fn wait_for_making(&self) -> Result<File, GitError> {
        let path = self.dir.join("making.lock");
        let file = lock_file(&path)?;
        file.lock().context("lock", &path)?;
        Ok(file)
    }

    /// Removes what a killed process left. Only for who holds the lock.
    fn clear_leftovers(&self) -> Result<(), GitError> {
        let (new, trash) = (self.dir.join("new"), self.dir.join("trash"));
        if new.exists() || trash.exists() { sweep::remove(&new, &trash) } else { Ok(()) }
    }

    /// Removes a layer nobody uses, and answers whether it did. Only for who holds the lock.
    fn discard(&self, name: &str) -> Result<bool, GitError> {
        let dir = self.layer_dir(name);
        if !dir.exists() {
            return Ok(false);
        }
        let path = self.lock_path(name);
        let lock = lock_file(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error).context("lock", &path),
        }
        sweep::remove(&dir, &self.dir.join("trash"))?;
        fs::remove_file(&path).context("remove", &path)?;
        Ok(true)
    }

    /// The layers there are, the one used last first.
    fn by_use(&self) -> Result<Vec<(String, Layer)>, GitError> {
        let dir = self.dir.join("layers");
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir).context("list", &dir)? {
            let name = entry.context("list", &dir)?.file_name().to_string_lossy().into_owned();
            let used = fs::metadata(self.lock_path(&name)).and_then(|lock| lock.modified()).ok();
            found.push((used, name));
        }
        found.sort_by(|left, right| right.cmp(left));
        let read = |name: String| Layer::read(&self.layer_dir(&name), &self.boot).map(|layer| (name, layer));
        Ok(found.into_iter().filter_map(|(_, name)| read(name)).collect())
    }

    /// The stand a position differs least from, and how; `None` if a new base is better.
    fn nearest(&self, reader: &Reader<'_>, position: Position) -> Result<Option<(Stand, Difference)>, GitError> {
        let mut best: Option<(Stand, Difference)> = None;
        let mut thin = 0;
        for (name, layer) in self.by_use()?.into_iter().filter(|(_, layer)| layer.history == position.history) {
            let is_base = layer.below.is_empty();
            thin += usize::from(!is_base);
            if !is_base && (thin > CANDIDATES_MAX || layer.below.len() + 1 >= DEPTH_MAX) {
                continue;
            }
            let Some(stand) = self.take_quietly(&name)? else {
                continue;
            };
            let worth = CHANGES_MIN.max(layer.files as usize / 4);
            let most = best.as_ref().map_or(worth, |(_, best)| best.changes.len().saturating_sub(1).min(worth));
            if let Some(found) = difference::between(reader, stand.tree, position.tree, most)? {
                let near = found.changes.len() <= CHANGES_NEAR;
                best = Some((stand, found));
                if near {
                    break;
                }
            }
        }
        Ok(best)
    }

    /// Takes a layer to look at it, which is not a use.
    fn take_quietly(&self, name: &str) -> Result<Option<Stand>, GitError> {
        let used = fs::metadata(self.lock_path(name)).and_then(|lock| lock.modified()).ok();
        let stand = self.take(name)?;
        if let (Some(stand), Some(used)) = (&stand, used) {
            stand.held[0].set_modified(used).context("touch", &self.lock_path(name))?;
        }
        Ok(stand)
    }

    /// Removes every layer but the `keep` used last and those below them, and whatever is in use.
    pub(super) fn gc(&self, keep: usize) -> Result<Removed, GitError> {
        let path = self.dir.join("making.lock");
        let making = lock_file(&path)?;
        match making.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Removed { layers: 0, busy: true }),
            Err(TryLockError::Error(error)) => return Err(error).context("lock", &path),
        }
        self.clear_leftovers()?;
        let layers = self.by_use()?;
        let kept = layers.iter().take(keep);
        let kept: Vec<String> =
            kept.flat_map(|(name, layer)| [name].into_iter().chain(&layer.below).cloned()).collect();
        let mut names = self.names()?;
        names.retain(|name| !kept.contains(name));
        // The highest first: a layer never outlives one it stands on.
        let depth =
            |name: &String| layers.iter().find(|(other, _)| other == name).map_or(0, |(_, one)| one.below.len());
        names.sort_by_key(|name| std::cmp::Reverse(depth(name)));
        let mut removed = Removed::default();
        for name in names {
            removed.layers += usize::from(self.discard(&name)?);
        }
        Ok(removed)
    }

    fn names(&self) -> Result<Vec<String>, GitError> {
        let dir = self.dir.join("layers");
        let entries = fs::read_dir(&dir).context("list", &dir)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().context("list", &dir)
    }
}

/// Everything that decides what a layer shows.
fn name_of(position: Position) -> String {
    let history = match position.history {
        History::Shallow => "shallow",
        History::Full => "full",
    };
    format!("{}-{}-{history}", position.tree, position.commit)
}

fn lock_file(path: &Path) -> Result<File, GitError> {
    File::options().create(true).truncate(false).write(true).read(true).open(path).context("open", path)
}

/// Whether a lock is still the one that others would find: it is removed together with its layer.
fn is_at(file: &File, path: &Path) -> bool {
    let key = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(found)) => key(held) == key(found),
        _ => false,
    }
}
