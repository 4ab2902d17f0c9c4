//! A shelf: directories that are complete or not there, and that stay while somebody uses them.
//!
//! ```text
//! layers/<name>   complete
//! locks/<name>    locked, shared, for as long as somebody uses it
//! making.lock     locked by whoever makes or removes something
//! new/  trash/    under way; what is found there without the lock being held is left over
//! ```
//! A shelf belongs to one user: files of another owner could not be changed through an overlay, so one run under
//! `sudo` would spoil it for everybody.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::git::{GitError, IoContext, sweep};

/// How often a directory that vanishes while it is being taken is looked for again.
const TRIES_MAX: u32 = 8;

/// What of a directory says what it is: without it, it is not used.
const DOCUMENT: &str = "layer.json";

/// The unit in which a file system says what a file takes up.
const BLOCK_BYTES: u64 = 512;

#[derive(Debug, Clone)]
pub(super) struct Shelf {
    dir: PathBuf,
}

impl Shelf {
    /// Opens the shelf of the user norma runs as, below `cache`; makes it if need be.
    pub(super) fn open(cache: &Path, part: Option<&str>) -> Result<Shelf, GitError> {
        let owner = rustix::process::geteuid().as_raw();
        let mut dir = cache.join(owner.to_string());
        dir.extend(part);
        for part in ["layers", "locks"] {
            let part = dir.join(part);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&part).context("create directory", &part)?;
        }
        let found = fs::symlink_metadata(&dir).context("look at", &dir)?;
        if !found.is_dir() || found.uid() != owner {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user");
            return Err(GitError::Io { action: "use", path: dir, source });
        }
        Ok(Shelf { dir: dir.canonicalize().context("resolve", &dir)? })
    }

    /// Where the directories are.
    pub(super) fn layers(&self) -> PathBuf {
        self.dir.join("layers")
    }

    pub(super) fn dir_of(&self, name: &str) -> PathBuf {
        self.layers().join(name)
    }

    /// What a directory says that it is; `None` if it is not there, or says nothing.
    pub(super) fn document_of(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir_of(name).join(DOCUMENT)).ok()
    }

    pub(super) fn lock_path(&self, name: &str) -> PathBuf {
        self.dir.join("locks").join(name)
    }

    /// Keeps a directory from being removed; `None` if it is not there.
    pub(super) fn hold(&self, name: &str) -> Result<Option<File>, GitError> {
        let dir = self.dir_of(name);
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

    /// Waits until nobody else makes or removes something.
    pub(super) fn wait_for_making(&self) -> Result<File, GitError> {
        let path = self.dir.join("making.lock");
        let file = lock_file(&path)?;
        file.lock().context("lock", &path)?;
        Ok(file)
    }

    /// The same without waiting; `None` if somebody does.
    pub(super) fn try_making(&self) -> Result<Option<File>, GitError> {
        let path = self.dir.join("making.lock");
        let file = lock_file(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).context("lock", &path),
        }
    }

    /// Makes the directory in which something new is made. Only for who holds the lock.
    pub(super) fn begin(&self) -> Result<PathBuf, GitError> {
        let new = self.dir.join("new");
        fs::create_dir(&new).context("create directory", &new)?;
        Ok(new)
    }

    /// Gives it its name, now that it is complete.
    pub(super) fn finish(&self, name: &str) -> Result<(), GitError> {
        let dir = self.dir_of(name);
        fs::rename(self.dir.join("new"), &dir).context("rename to", &dir)
    }

    /// Removes what a killed process left. Only for who holds the lock.
    pub(super) fn clear_leftovers(&self) -> Result<(), GitError> {
        let (new, trash) = (self.dir.join("new"), self.dir.join("trash"));
        if new.exists() || trash.exists() { sweep::remove(&new, &trash) } else { Ok(()) }
    }

    /// Removes a directory nobody uses, and answers how many bytes that freed; `None` if it stays. Only for who holds
    /// the lock.
    pub(super) fn discard(&self, name: &str) -> Result<Option<u64>, GitError> {
        let dir = self.dir_of(name);
        if !dir.exists() {
            return Ok(None);
        }
        let path = self.lock_path(name);
        let lock = lock_file(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).context("lock", &path),
        }
        let bytes = bytes_in(&dir);
        sweep::remove(&dir, &self.dir.join("trash"))?;
        fs::remove_file(&path).context("remove", &path)?;
        Ok(Some(bytes))
    }

    /// Gives a directory that is not to be used any more another name, under which it is removed as soon as nobody
    /// uses it. Only for who holds the lock.
    pub(super) fn set_aside(&self, name: &str) -> Result<(), GitError> {
        let aside = (1..).map(|number| format!("{name}.{number}")).find(|aside| !self.dir_of(aside).exists());
        let aside = aside.expect("BUG: there is always another number");
        let (from, to) = (self.dir_of(name), self.dir_of(&aside));
        // Who uses it holds the file, wherever that is.
        let (lock, lock_aside) = (self.lock_path(name), self.lock_path(&aside));
        drop(lock_file(&lock)?);
        fs::rename(&lock, &lock_aside).context("rename", &lock)?;
        fs::rename(&from, &to).context("rename", &from)?;
        let document = to.join(DOCUMENT);
        match fs::remove_file(&document) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).context("remove", &document),
            _ => {}
        }
        self.discard(&aside).map(drop)
    }

    /// Has a name be free for something new: what is there is removed, or set aside if somebody uses it. A process that another
    /// thread is about to start counts, too, until it is started: it has the locks of this one. Only for who holds the lock.
    pub(super) fn free(&self, name: &str) -> Result<(), GitError> {
        match self.discard(name)? {
            None if self.dir_of(name).exists() => self.set_aside(name),
            _ => Ok(()),
        }
    }

    pub(super) fn names(&self) -> Result<Vec<String>, GitError> {
        let dir = self.layers();
        let entries = fs::read_dir(&dir).context("list", &dir)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().context("list", &dir)
    }

    /// The names, the one used last first.
    pub(super) fn names_by_use(&self) -> Result<Vec<String>, GitError> {
        let used = |name: &String| fs::metadata(self.lock_path(name)).and_then(|lock| lock.modified()).ok();
        let mut found: Vec<_> = self.names()?.into_iter().map(|name| (used(&name), name)).collect();
        found.sort_by(|left, right| right.cmp(left));
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

/// What the removal of a directory frees. Files with another name elsewhere stay, and what cannot be looked at is
/// not counted: the number is for people.
fn bytes_in(dir: &Path) -> u64 {
    let (mut bytes, mut due) = (0, vec![dir.to_owned()]);
    while let Some(dir) = due.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => due.push(entry.path()),
                Ok(found) if found.nlink() == 1 => bytes += found.blocks() * BLOCK_BYTES,
                _ => {}
            }
        }
    }
    bytes
}

fn lock_file(path: &Path) -> Result<File, GitError> {
    File::options().create(true).truncate(false).write(true).read(true).open(path).context("open", path)
}

/// Whether a lock is still the one that others would find: it is removed together with its directory.
fn is_at(file: &File, path: &Path) -> bool {
    let key = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(found)) => key(held) == key(found),
        _ => false,
    }
}
