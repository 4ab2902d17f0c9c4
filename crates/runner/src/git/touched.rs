//! The part of the user's index that a landing touches.
//!
//! git reads, compares and writes an index whole, so that a landing of one file would cost what the repository weighs.
//! Here git works on an index that holds the touched paths alone, and on trees that hold nothing else: the same
//! commands with the same checks, on the user's own files. What became of the entries is then exchanged among those of
//! the user's index, which is replaced in one piece, as git does it, under git's own lock.
//!
//! The lock appears complete: it is a second name of a file that has all of the new index, and which this process keeps
//! locked. So whoever finds such a pair that nobody keeps locked knows that a killed norma left it ([`release`]).

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gix_odb::loose;

use super::command::GitCommand;
use super::index_file::IndexFile;
use super::objects::{self, Objects};
use super::repository::Repository;
use super::tree::{self, Edit, Entry, TreeChange};
use super::{GitError, IoContext, ObjectId, PatchProblem, remove_if_there};

/// Of more paths, git does not take much longer with the whole index.
const PATHS_MAX: usize = 2_000;

/// How often the index is read again because somebody replaced it, or waited for because somebody is at it, and for how
/// long each time.
const TRIES_MAX: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// What the new index is called until it has its lock.
const NEW: &str = "norma-index";

/// The touched part of an index, and of two trees.
pub(super) struct Touched<'a> {
    user: &'a Repository,
    changes: &'a [TreeChange],
    /// The user's index as it was read.
    whole: Arc<IndexFile>,
    /// A directory that vanishes with the value.
    dir: Scratch,
    pub(super) from: ObjectId,
    pub(super) to: ObjectId,
}

/// What became of the user's index.
pub(super) enum Exchanged {
    Done,
    /// It is as it was; why.
    Refused(String),
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: what stays behind is swept with norma's other temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl<'a> Touched<'a> {
    /// Takes the touched part; `None` where the index is of a form that only git writes, or very much of it is touched.
    pub(super) fn take(
        user: &'a Repository,
        objects: &Objects,
        changes: &'a [TreeChange],
    ) -> Result<Option<Touched<'a>>, GitError> {
        let Some(index) = IndexFile::read(&user.index(), user.format)? else { return Ok(None) };
        let is_before = changes.iter().all(|change| index.has(&change.path, change.old));
        // While another git is at work, git's own refusal says so best.
        if lock_of(user).exists() {
            return Ok(None);
        }
        if changes.len() > PATHS_MAX || index.is_young() || !is_before {
            return Ok(None);
        }
        let dir = Scratch(objects.scratch("landing").path.clone());
        let store = dir.0.join("objects");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&store).context("create directory", &store)?;
        let mut sorted: Vec<&TreeChange> = changes.iter().collect();
        sorted.sort_by(|left, right| left.path.cmp(&right.path));
        let path = dir.0.join("index");
        let found = index.only(sorted.iter().filter_map(|change| index.entry(&change.path)));
        let mut file = File::create(&path).context("create", &path)?;
        file.write_all(&found).context("write", &path)?;
        // As old as the one that git compared: it looks again at files which are not older.
        file.set_modified(index.modified_at).context("set the time of", &path)?;
        let store = loose::Store::at(store, user.format);
        let (Some(from), Some(to)) =
            (alone(objects, &store, changes, |it| it.old)?, alone(objects, &store, changes, |it| it.new)?)
        else {
            return Ok(None);
        };
        Ok(Some(Touched { user, changes, whole: Arc::new(index), dir, from, to }))
    }

    /// A git command that sees the touched part as the index.
    pub(super) fn git(&self, subcommand: &'static str) -> GitCommand {
        self.user.git(subcommand).small_index(&self.index()).borrowing(&self.dir.0.join("objects"))
    }

    fn index(&self) -> PathBuf {
        self.dir.0.join("index")
    }

    /// Puts what git made of the touched part into the user's index. `locked` is told when the lock is taken.
    pub(super) fn exchange(&self, locked: &mut dyn FnMut()) -> Result<Exchanged, GitError> {
        let refused = |why: &str| Ok(Exchanged::Refused(why.to_owned()));
        let (path, lock) = (self.user.index(), lock_of(self.user));
        let Some(new) = IndexFile::read(&self.index(), self.user.format)? else {
            return refused("git left an index that norma cannot read");
        };
        if !self.changes.iter().all(|change| new.has(&change.path, change.new)) {
            return refused("git made something else of the files");
        }
        let paths: Vec<&[u8]> = self.changes.iter().map(|change| change.path.as_slice()).collect();
        let mut found = Arc::clone(&self.whole);
        for _ in 0..TRIES_MAX {
            if !found.is_at(&path) {
                found = match IndexFile::read(&path, self.user.format)? {
                    Some(index) => Arc::new(index),
                    None => return refused("the index has another form now"),
                };
            }
            let is_before = self.changes.iter().all(|change| found.has(&change.path, change.old));
            let Some((pieces, at)) = found.exchange(&paths, &new).filter(|_| is_before) else {
                return refused("the index was changed meanwhile");
            };
            let prepared = Prepared::write(self.user, &pieces, found.mode)?;
            prepared.file.set_modified(at).and_then(|()| prepared.file.sync_all()).context("write", &prepared.path)?;
            let Some(lock) = prepared.lock(&lock).context("lock", &path)? else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if found.is_at(&path) {
                locked();
                return lock.replace(&path).context("replace", &path).map(|()| Exchanged::Done);
            }
        }
        refused("another git is at work: there is an index.lock")
    }
}

/// A tree of the touched paths as one side has them; `None` if they cannot be in one tree.
fn alone(
    objects: &Objects,
    store: &loose::Store,
    changes: &[TreeChange],
    side: impl Fn(&TreeChange) -> Option<Entry>,
) -> Result<Option<ObjectId>, GitError> {
    let edits: Vec<Edit<'_>> = changes.iter().filter_map(|it| Some((it.path.as_slice(), Some(side(it)?)))).collect();
    let put = |bytes: &[u8], _| objects::put(store, gix_object::Kind::Tree, bytes);
    match tree::edit_with(&put, &objects.reader()?, ObjectId::empty_tree(objects.format), &edits) {
        Ok(tree) => Ok(Some(tree)),
        Err(PatchProblem::Git(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// A new index under a name of its own, which goes with the value.
struct Prepared {
    path: PathBuf,
    file: File,
}

impl Prepared {
    fn write(user: &Repository, pieces: &[Cow<'_, [u8]>], mode: u32) -> Result<Prepared, GitError> {
        let path = user.git_dir.join(NEW);
        // Never written to again: after a kill it may be another name of the index.
        remove_if_there(&path)?;
        let file = File::create_new(&path).context("create", &path)?;
        file.lock().context("lock", &path)?;
        let prepared = Prepared { path, file: file.try_clone().context("open", &user.git_dir)? };
        let permissions = fs::Permissions::from_mode(mode & 0o777);
        file.set_permissions(permissions).context("write", &prepared.path)?;
        let mut file = BufWriter::new(file);
        pieces.iter().try_for_each(|piece| file.write_all(piece)).context("write", &prepared.path)?;
        file.flush().context("write", &prepared.path)?;
        Ok(prepared)
    }
}

impl Prepared {
    /// Takes git's lock of the index; `None` if somebody has it.
    fn lock<'l>(&self, lock: &'l Path) -> io::Result<Option<Locked<'l>>> {
        match fs::hard_link(&self.path, lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            linked => linked.map(|()| Some(Locked(Some(lock)))),
        }
    }
}

/// git's lock of the index, which goes with the value unless it becomes the index.
struct Locked<'l>(Option<&'l Path>);

impl Locked<'_> {
    fn replace(mut self, index: &Path) -> io::Result<()> {
        let Some(lock) = self.0 else { return Ok(()) };
        fs::rename(lock, index)?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            let _ = fs::remove_file(lock);
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_of(user: &Repository) -> PathBuf {
    user.git_dir.join("index.lock")
}

/// Removes what a norma that was killed while it replaced the index left, its lock included. A lock of anybody else's stays.
pub(super) fn release(user: &Repository) -> Result<(), GitError> {
    let (new, lock) = (user.git_dir.join(NEW), lock_of(user));
    let Ok(file) = File::open(&new) else { return Ok(()) };
    if file.try_lock().is_err() {
        return Ok(());
    }
    let key = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
    if key(&new).is_some() && key(&new) == key(&lock) {
        remove_if_there(&lock)?;
    }
    remove_if_there(&new)
}
