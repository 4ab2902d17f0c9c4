//! norma's own bare repository: everything a change consists of lives here until it lands.
//!
//! It borrows the user's objects through `objects/info/alternates` and never lends any, so the user's `git gc`
//! cannot take away what norma wrote. Objects are read and written in-process, one loose file each: the cost
//! follows the change, never the repository. What was written becomes durable when it is named
//! ([`Objects::pin`], or on record, see `Objects::unsynced`) or handed over ([`Objects::export`]), not before: an object nobody names
//! is no promise.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Seek, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use gix_object::{Exists, Find, Kind, Write};
use gix_odb::{Header as _, loose};
use store::KeptFile;

use super::blob::LARGE_BYTES_MIN;
use super::command::{GitCommand, Place, Program, git};
use super::remembered::{Lines, Remembered};
use super::repository::{Identity, Repository};
use super::tree::{self, Edit, Entry, TreeChange};
use super::{GitError, IoContext, ObjectId, PatchProblem, refs, sync_directory};

/// How much of a blob decides whether it is binary; git's own figure.
const BINARY_PROBE_BYTES: usize = 8000;

/// How many objects, and how much of them, the record takes in place of barriers.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: u64 = 64 * 1024;

/// Overrides every attribute file: what a checkout holds are the bytes of the blobs, whatever the
/// repository's `.gitattributes` asks for.
pub(crate) const RAW_ATTRIBUTES: &str = "* -text !eol -ident -filter !working-tree-encoding\n";

/// As above for norma's own repository, where diffs are made: `.gitattributes` hides nothing there.
const OWN_ATTRIBUTES: &str = "* -text !eol -ident -filter !working-tree-encoding !diff !merge\n";

/// norma's own repository.
#[derive(Debug)]
pub struct Objects {
    /// Its git directory.
    pub dir: PathBuf,
    /// The hash function, the same as the user's.
    pub format: gix_hash::Kind,
    user_objects: PathBuf,
    empty_config: PathBuf,
    program: Program,
    unsynced: Mutex<BTreeSet<ObjectId>>,
    reads: AtomicU64,
    names: AtomicU64,
    /// Handles that nobody reads with at the moment.
    idle: Mutex<Vec<Handles>>,
    pub(super) remembered: Remembered,
}

/// Everything that decides a commit's id.
#[derive(Debug, Clone)]
pub struct CommitSpec {
    /// What the commit contains.
    pub tree: ObjectId,
    /// What it follows.
    pub parents: Vec<ObjectId>,
    /// Who made it: author and committer.
    pub author: Identity,
    /// When, in seconds since 1970; written with the zone +0000.
    pub seconds: i64,
    /// The whole commit message.
    pub message: String,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Removed {
    pub(crate) files: u64,
    /// What that freed.
    pub(crate) bytes: u64,
}

/// A file name in norma's repository that vanishes with the value.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: what stays behind is swept with the directory.
        let _ = fs::remove_file(&self.path);
        let mut lock = self.path.clone().into_os_string();
        lock.push(".lock");
        let _ = fs::remove_file(lock);
    }
}

impl Objects {
    /// Opens the repository at `dir`, making it first if need be. Safe to call from several processes.
    pub fn open_or_create(dir: &Path, user: &Repository) -> Result<Objects, GitError> {
        let private = |path: &Path| {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).context("create directory", path)
        };
        for part in ["objects/info", "objects/pack", "refs", "info", "tmp"] {
            private(&dir.join(part))?;
        }
        let dir = dir.canonicalize().context("resolve", dir)?;
        let config = dir.join("config");
        if fs::read_to_string(&config).is_ok_and(|found| found != own_config(user.format)) {
            return Err(GitError::FormatMismatch { path: dir, wanted: user.format });
        }
        let objects = Objects {
            empty_config: dir.join("empty-config"),
            user_objects: user.objects_dir(),
            program: user.program.clone(),
            format: user.format,
            unsynced: Mutex::default(),
            reads: AtomicU64::new(0),
            names: AtomicU64::new(0),
            idle: Mutex::default(),
            remembered: Remembered::default(),
            dir,
        };
        objects.settle("empty-config", b"", 0o444)?;
        objects.settle("config", own_config(user.format).as_bytes(), 0o644)?;
        objects.settle("info/attributes", OWN_ATTRIBUTES.as_bytes(), 0o644)?;
        objects.settle("objects/info/alternates", &alternates_line(&objects.user_objects), 0o644)?;
        // HEAD last: with it, git recognizes the directory as a repository.
        objects.settle("HEAD", b"ref: refs/heads/none\n", 0o644)?;
        Ok(objects)
    }

    /// Makes a file have this content, atomically, and only if it has not.
    fn settle(&self, name: &str, content: &[u8], mode: u32) -> Result<(), GitError> {
        let path = self.dir.join(name);
        if fs::read(&path).is_ok_and(|found| found == content) {
            return Ok(());
        }
        self.replace(&path, content, mode)
    }

    /// Makes a file have this content, atomically.
    fn replace(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), GitError> {
        let scratch = self.scratch("file");
        let mut file = fs::File::create(&scratch.path).context("create", &scratch.path)?;
        file.write_all(content).context("write", &scratch.path)?;
        file.set_permissions(fs::Permissions::from_mode(mode)).context("set the mode of", &scratch.path)?;
        file.sync_all().context("sync", &scratch.path)?;
        fs::rename(&scratch.path, path).context("replace", path)
    }

    /// A name nobody else uses, in norma's repository.
    pub(crate) fn scratch(&self, kind: &str) -> Scratch {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        // The address tells two handles of one process apart.
        let handle = std::ptr::from_ref(self).addr();
        let name = format!("{kind}-{}-{handle:x}-{number}", std::process::id());
        Scratch { path: self.dir.join("tmp").join(name) }
    }

    pub(crate) fn git(&self, subcommand: &'static str) -> GitCommand {
        let place = Place::Own { git_dir: &self.dir, empty_config: &self.empty_config };
        git(&self.program, &place, subcommand)
    }

    /// The two object directories a private repository has to borrow from.
    pub(crate) fn directories(&self) -> [PathBuf; 2] {
        [self.dir.join("objects"), self.user_objects.clone()]
    }

    /// The same as the text of an alternates file.
    pub(crate) fn alternates(&self) -> Vec<u8> {
        self.directories().iter().flat_map(|path| alternates_line(path)).collect()
    }

    fn own_store(&self) -> loose::Store {
        loose::Store::at(self.dir.join("objects"), self.format)
    }

    /// Closes what nobody reads with. The next reader opens it again.
    pub(crate) fn let_go(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn reader(&self) -> Result<Reader<'_>, GitError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handles = match idle {
            Some(handles) => handles,
            None => {
                let path = self.dir.join("objects");
                let own = gix_odb::at(&path, self.format).context("open the objects in", &path)?;
                Handles { own, user: OnceCell::new() }
            }
        };
        Ok(Reader { objects: self, handles: Some(handles) })
    }

    /// How many objects were read so far, for tests that hold the cost of a change to its size.
    pub fn objects_read(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: ObjectId) -> Result<ObjectId, GitError> {
        Ok(self.reader()?.commit(commit)?.0)
    }

    /// The commits that a commit follows.
    pub fn parents_of(&self, commit: ObjectId) -> Result<Vec<ObjectId>, GitError> {
        Ok(self.reader()?.commit(commit)?.1)
    }

    /// What differs between two trees, sorted by path bytes; both sides of a move are listed.
    pub fn diff(&self, old_tree: ObjectId, new_tree: ObjectId) -> Result<Vec<TreeChange>, GitError> {
        tree::diff(&self.reader()?, old_tree, new_tree)
    }

    /// The bytes of a blob.
    pub fn read_blob(&self, id: ObjectId) -> Result<Vec<u8>, GitError> {
        self.reader()?.expect(id, Kind::Blob)
    }

    /// An object as git hashes it: its kind, its size, its bytes.
    pub fn raw(&self, id: ObjectId) -> Result<Vec<u8>, GitError> {
        let (kind, bytes) = self.reader()?.find(id)?;
        Ok([format!("{kind} {}\0", bytes.len()).as_bytes(), &bytes].concat())
    }

    /// The size of an object without reading it.
    pub fn size(&self, id: ObjectId) -> Result<u64, GitError> {
        self.reader()?.size(id)
    }

    /// Whether git would call the blob binary: a NUL byte near its beginning.
    pub fn looks_binary(&self, id: ObjectId) -> Result<bool, GitError> {
        Ok(is_binary(&self.blob_beginning(id, BINARY_PROBE_BYTES as u64)?))
    }

    /// What a tree has at a path.
    pub fn tree_entry(&self, tree: ObjectId, path: &[u8]) -> Result<Option<(u32, ObjectId)>, GitError> {
        let found = tree::lookup(&self.reader()?, tree, path)?;
        Ok(found.map(|entry| (entry.mode, entry.id)))
    }

    /// The content of a file of a tree; a link beside it is followed once, and never out of its directory.
    pub fn file_through_links(&self, tree: ObjectId, path: &str) -> Result<Option<ObjectId>, GitError> {
        let entry = self.tree_entry(tree, path.as_bytes())?;
        let entry = match entry {
            Some((tree::MODE_SYMLINK, link)) => {
                let name = String::from_utf8(self.read_blob(link)?).unwrap_or_default();
                let beside = path.rsplit_once('/').map_or(name.clone(), |(dir, _)| format!("{dir}/{name}"));
                match name.contains('/') {
                    true => None,
                    false => self.tree_entry(tree, beside.as_bytes())?,
                }
            }
            entry => entry,
        };
        Ok(entry.filter(|(mode, _)| mode & 0o170_000 == 0o100_000).map(|(_, id)| id))
    }

    /// How many files of a tree are not here, and how many it has; only a partial clone lacks any.
    pub fn missing(&self, tree: ObjectId) -> Result<(u64, u64), GitError> {
        let reader = self.reader()?;
        let (mut missing, mut all) = (0, 0);
        tree::walk(&reader, tree, &mut |_, mode, id| {
            let is_there = mode == tree::MODE_GITLINK || reader.size(id).is_ok();
            (missing, all) = (missing + u64::from(!is_there), all + 1);
        })?;
        Ok((missing, all))
    }

    /// The names in a directory of a tree; none if it has no such directory.
    pub(crate) fn names_in(&self, tree: ObjectId, directory: &[u8]) -> Result<Lines, GitError> {
        let reader = self.reader()?;
        let found = match directory {
            b"" => Some(tree),
            path => {
                tree::lookup(&reader, tree, path)?.filter(|entry| entry.mode == tree::MODE_TREE).map(|entry| entry.id)
            }
        };
        reader.tree_or_nothing(found)
    }

    /// Calls `each` with path, mode and id of everything in a tree but its directories.
    pub fn walk(&self, tree: ObjectId, each: &mut dyn FnMut(&[u8], u32, ObjectId)) -> Result<(), GitError> {
        tree::walk(&self.reader()?, tree, each)
    }

    /// Stores a file's bytes.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<ObjectId, GitError> {
        self.write(Kind::Blob, bytes)
    }

    /// Stores a large file whose id is known, from its beginning.
    pub(crate) fn write_large_blob(&self, id: ObjectId, mut file: &fs::File, size: u64) -> Result<(), GitError> {
        file.rewind().context("read", Path::new("a large file"))?;
        put_large(&self.own_store(), id, &mut file, size)?;
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(())
    }

    /// Makes a tree from another by setting (`Some`) or deleting (`None`) paths.
    pub fn edit(&self, base_tree: ObjectId, edits: &[(Vec<u8>, Option<Entry>)]) -> Result<ObjectId, PatchProblem> {
        let edits: Vec<Edit<'_>> = edits.iter().map(|(path, entry)| (path.as_slice(), *entry)).collect();
        tree::edit(self, &self.reader()?, base_tree, &edits)
    }

    pub(crate) fn write(&self, kind: Kind, bytes: &[u8]) -> Result<ObjectId, GitError> {
        let id = put(&self.own_store(), kind, bytes)?;
        // Even if the object was there before: whoever wrote it may have died before syncing it.
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(id)
    }

    /// Has norma's repository own a copy of an object. git does not write a blob again that the user's
    /// repository has, even if nothing there refers to it and the next `git gc` will drop it.
    pub(crate) fn adopt(&self, reader: &Reader<'_>, id: ObjectId) -> Result<(), GitError> {
        if self.own_store().contains(&id) {
            self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
            return Ok(());
        }
        copy(reader, &self.own_store(), id)?;
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(())
    }

    /// Writes a commit. The same specification gives the same id.
    pub fn commit(&self, spec: &CommitSpec) -> Result<ObjectId, GitError> {
        let mut text = format!("tree {}\n", spec.tree);
        for parent in &spec.parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        let who = format!("{} <{}>", plain(&spec.author.name), plain(&spec.author.email));
        for role in ["author", "committer"] {
            text.push_str(&format!("{role} {who} {} +0000\n", spec.seconds));
        }
        let message = spec.message.replace('\0', "");
        text.push_str(&format!("\n{}\n", message.trim_end_matches('\n')));
        self.write(Kind::Commit, text.as_bytes())
    }

    /// Names an object `refs/norma/<name>` in norma's repository, durably, so that nothing it reaches is lost.
    pub fn pin(&self, name: &str, id: ObjectId) -> Result<(), GitError> {
        self.sync()?;
        let full = pin_name(name);
        let path = self.dir.join(&full);
        let dirs: Vec<&Path> = Path::new(&full).ancestors().skip(1).collect();
        fs::create_dir_all(self.dir.join(dirs[0])).context("create directory", &path)?;
        // Nobody else writes here, and a reference is a file that is replaced whole.
        self.replace(&path, format!("{id}\n").as_bytes(), 0o644)?;
        dirs.iter().try_for_each(|dir| sync_directory(&self.dir.join(dir)))
    }

    /// What `refs/norma/<name>` names.
    pub fn pinned(&self, name: &str) -> Result<Option<ObjectId>, GitError> {
        let full = pin_name(name);
        match refs::ref_in(&self.dir, &full, self.format) {
            Some(found) => Ok(Some(found)),
            None => super::repository::read_ref(self.git("show-ref"), &full),
        }
    }

    /// Removes those of norma's own objects that have at least so many bytes; answers how many. Whoever asks knows that
    /// nothing needs them.
    pub(crate) fn remove_large(&self, ids: &BTreeSet<ObjectId>, bytes_min: u64) -> Result<Removed, GitError> {
        let (store, reader, mut removed) = (self.own_store(), self.reader()?, Removed::default());
        for id in ids.iter().filter(|id| store.contains(id)) {
            if reader.size(*id)? >= bytes_min {
                let path = store.object_path(id);
                removed.bytes += fs::metadata(&path).context("look at", &path)?.len();
                fs::remove_file(&path).context("remove", &path)?;
                removed.files += 1;
            }
        }
        Ok(removed)
    }

    /// What a tree has that another has not: files and trees.
    pub(crate) fn new_objects(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, GitError> {
        tree::new_objects(&self.reader()?, old, new)
    }

    /// What was written so far and may not be on disk, with its bytes as they are in the file: whoever records that it is
    /// there puts them on record, too. Where that is much, or the objects are not those of the state directory that `git` is
    /// part of, it is brought to the disk instead.
    pub(crate) fn unsynced(&self, git: &Path) -> Result<Vec<(ObjectId, KeptFile)>, GitError> {
        let due = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (store, mut files, mut bytes_sum) = (self.own_store(), Vec::with_capacity(due.len()), 0);
        let is_own = due.is_empty() || is_same(git, &self.dir);
        for id in due.iter().take(KEPT_MAX + 1) {
            let path = store.object_path(id);
            bytes_sum += fs::metadata(&path).context("look at", &path)?.len();
            let below = self.dir.parent().and_then(|state| path.strip_prefix(state).ok()).and_then(Path::to_str);
            let Some(below) = below.filter(|_| is_own && bytes_sum <= KEPT_BYTES_MAX && files.len() < KEPT_MAX) else {
                self.sync()?;
                return Ok(Vec::new());
            };
            let bytes = fs::read(&path).context("read", &path)?;
            files.push((*id, KeptFile { path: below.to_owned(), bytes }));
        }
        Ok(files)
    }

    /// These need no barrier any more: they are on record.
    pub(crate) fn forget_unsynced(&self, ids: &[ObjectId]) {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| !ids.contains(id));
    }

    /// Has everything that was written so far on disk.
    pub fn sync(&self) -> Result<(), GitError> {
        let due = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sync_loose(&self.own_store(), &due)?;
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| !due.contains(id));
        Ok(())
    }

    /// Copies a commit, its ancestors that only norma has, and what they contain beyond `base_tree` into the
    /// user's object directory; returns when all of it is durable there.
    pub fn export(&self, user: &Repository, base_tree: ObjectId, commit: ObjectId) -> Result<(), GitError> {
        let reader = self.reader()?;
        let theirs = gix_odb::at(user.objects_dir(), self.format).context("open", &user.objects_dir())?;
        let target = loose::Store::at(user.objects_dir(), self.format);
        let (mut trees, mut lines) = (BTreeMap::new(), Vec::new());
        let mut commits = vec![commit];
        while let Some(commit) = commits.pop() {
            let (tree, mut parents) = reader.commit(commit)?;
            parents.retain(|parent| !theirs.exists(parent));
            if trees.insert(commit, tree).is_none() {
                lines.push((commit, parents.first().copied()));
                commits.extend(parents);
            }
        }
        let mut copied = BTreeSet::new();
        for (commit, parent) in lines.into_iter().rev() {
            // What a commit has beyond its parent: beyond the base it would be all of the commits before it, again for each.
            let before = parent.map_or(base_tree, |parent| trees[&parent]);
            for id in tree::new_objects(&reader, before, trees[&commit])?.into_iter().chain([commit]) {
                if copied.insert(id) {
                    copy(&reader, &target, id)?;
                }
            }
        }
        sync_loose(&target, &copied)
    }
}

/// The full name of what is pinned under a name.
fn pin_name(name: &str) -> String {
    format!("refs/norma/{name}")
}

/// Whether git would call a file with this content binary.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0)
}

/// Writes a loose object, or marks the one that is there as fresh so that a `git gc` under way spares it.
pub(super) fn put(store: &loose::Store, kind: Kind, bytes: &[u8]) -> Result<ObjectId, GitError> {
    let failed = |error: String| GitError::WriteObject { path: store.path().to_owned(), detail: error };
    let id = gix_object::compute_hash(store.object_hash(), kind, bytes).map_err(|error| failed(error.to_string()))?;
    if is_fresh(store, id) {
        return Ok(id);
    }
    store.write_buf(kind, bytes).map_err(|error| failed(error.to_string()))
}

/// Copies an object, a large one piece by piece.
fn copy(reader: &Reader<'_>, to: &loose::Store, id: ObjectId) -> Result<(), GitError> {
    let size = reader.size(id)?;
    if size < LARGE_BYTES_MIN {
        let (kind, bytes) = reader.find(id)?;
        return put(to, kind, &bytes).map(drop);
    }
    put_large(to, id, &mut reader.blob(id)?, size)
}

/// Writes a blob of this id piece by piece.
fn put_large(store: &loose::Store, id: ObjectId, from: &mut dyn Read, size: u64) -> Result<(), GitError> {
    if is_fresh(store, id) {
        return Ok(());
    }
    let failed = |error: String| GitError::WriteObject { path: store.path().to_owned(), detail: error };
    match store.write_stream(Kind::Blob, size, from).map_err(|error| failed(error.to_string()))? {
        same if same == id => Ok(()),
        other => Err(failed(format!("it became {other}"))),
    }
}

/// Whether an object is there, marked as fresh so that a `git gc` under way spares it.
fn is_fresh(store: &loose::Store, id: ObjectId) -> bool {
    let Ok(file) = fs::File::open(store.object_path(&id)) else { return false };
    // Not ours to touch in a repository of another owner; then its age stays what it is.
    let _ = file.set_modified(SystemTime::now());
    true
}

/// Whether two names are of one directory.
fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    inode(one).is_some_and(|found| inode(other) == Some(found))
}

/// Makes loose objects and the directories that name them durable.
fn sync_loose(store: &loose::Store, ids: &BTreeSet<ObjectId>) -> Result<(), GitError> {
    let mut directories = BTreeSet::new();
    for id in ids {
        let path = store.object_path(id);
        fs::File::open(&path).and_then(|file| file.sync_all()).context("sync", &path)?;
        directories.extend(path.parent().map(Path::to_owned));
    }
    if !ids.is_empty() {
        directories.insert(store.path().to_owned());
    }
    directories.iter().try_for_each(|dir| sync_directory(dir))
}

/// The open objects. A handle that does not find an object looks for new packs before it says so.
struct Handles {
    own: gix_odb::Handle,
    /// Opened when something is not found in norma's.
    user: OnceCell<gix_odb::Handle>,
}

impl std::fmt::Debug for Handles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handles")
    }
}

/// Reads objects for the length of one operation, with handles that the next one takes over: opening them costs
/// more than reading a small object, and [`Objects`] stays free to be shared between threads.
pub(crate) struct Reader<'a> {
    objects: &'a Objects,
    /// There until it is dropped.
    handles: Option<Handles>,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.objects.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.handles.take());
    }
}

impl Reader<'_> {
    fn handles(&self) -> &Handles {
        self.handles.as_ref().expect("BUG: the handles are there until the reader is dropped")
    }

    fn own(&self) -> &gix_odb::Handle {
        &self.handles().own
    }

    /// The user's objects opened directly. The library resolves relative alternates of an alternate against
    /// the wrong directory, so a repository that borrows by a relative path is only readable this way.
    fn user(&self) -> Result<&gix_odb::Handle, GitError> {
        let user = &self.handles().user;
        if user.get().is_none() {
            let path = &self.objects.user_objects;
            let odb = gix_odb::at(path, self.objects.format).context("open the objects in", path)?;
            let _ = user.set(odb);
        }
        Ok(user.get().expect("BUG: the handle was just set"))
    }

    pub(crate) fn objects(&self) -> &Objects {
        self.objects
    }

    /// Counts an object that is read.
    pub(crate) fn count_read(&self) {
        self.objects.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn find(&self, id: ObjectId) -> Result<(Kind, Vec<u8>), GitError> {
        self.count_read();
        let mut bytes = Vec::new();
        let found = self.own().try_find(&id, &mut bytes).map_err(|error| bad(id, &error))?.map(|data| data.kind);
        if let Some(kind) = found {
            return Ok((kind, bytes));
        }
        let found = self.user()?.try_find(&id, &mut bytes).map_err(|error| bad(id, &error))?.map(|data| data.kind);
        found.map(|kind| (kind, bytes)).ok_or(GitError::MissingObject { id })
    }

    pub(crate) fn expect(&self, id: ObjectId, wanted: Kind) -> Result<Vec<u8>, GitError> {
        let (kind, bytes) = self.find(id)?;
        if kind == wanted { Ok(bytes) } else { Err(bad(id, &format!("it is a {kind}, not a {wanted}"))) }
    }

    pub(crate) fn size(&self, id: ObjectId) -> Result<u64, GitError> {
        let header = self.own().try_header(&id).map_err(|error| bad(id, &error))?;
        let header = match header {
            Some(header) => Some(header),
            None => self.user()?.try_header(&id).map_err(|error| bad(id, &error))?,
        };
        header.map(|header| header.size()).ok_or(GitError::MissingObject { id })
    }

    /// What a tree has, in git's order.
    pub(crate) fn tree(&self, id: ObjectId) -> Result<Lines, GitError> {
        // git knows the empty tree without storing it.
        if id == ObjectId::empty_tree(self.objects.format) {
            return Ok(Lines::default());
        }
        if let Some(known) = self.objects.remembered.tree(id) {
            // Somebody goes through it all the same.
            self.count_read();
            return Ok(known);
        }
        let lines = Lines::new(tree::parse(id, &self.expect(id, Kind::Tree)?)?);
        self.objects.remembered.keep_tree(id, &lines);
        Ok(lines)
    }

    /// The same where there may be no directory.
    pub(crate) fn tree_or_nothing(&self, id: Option<ObjectId>) -> Result<Lines, GitError> {
        id.map_or_else(|| Ok(Lines::default()), |id| self.tree(id))
    }

    /// A commit's tree and parents.
    pub(crate) fn commit(&self, id: ObjectId) -> Result<(ObjectId, Vec<ObjectId>), GitError> {
        let bytes = self.expect(id, Kind::Commit)?;
        let field = |line: &[u8], name: &[u8]| line.strip_prefix(name).and_then(|hex| ObjectId::from_hex(hex).ok());
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let tree = lines.next().and_then(|line| field(line, b"tree "));
        let tree = tree.ok_or_else(|| bad(id, &"the commit is malformed"))?;
        Ok((tree, lines.map_while(|line| field(line, b"parent ")).collect()))
    }
}

fn bad(id: ObjectId, detail: &dyn std::fmt::Display) -> GitError {
    GitError::BadObject { id, detail: detail.to_string() }
}

/// A name or address without what would end the field early.
fn plain(text: &str) -> String {
    let cleaned: String = text.chars().filter(|letter| !matches!(letter, '<' | '>' | '\n' | '\0')).collect();
    cleaned.trim().to_owned()
}

/// The whole configuration of norma's repository: what git must know, and defaults that depend on the machine.
pub(crate) fn own_config(format: gix_hash::Kind) -> String {
    format!("{}\tbare = true\n[gc]\n\tauto = 0\n", core_config(format))
}

/// What both norma's and an agent's repository say about themselves.
pub(crate) fn core_config(format: gix_hash::Kind) -> String {
    let (version, extension) = match format {
        gix_hash::Kind::Sha256 => (1, "[extensions]\n\tobjectformat = sha256\n"),
        _ => (0, ""),
    };
    format!(
        "{extension}[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tsymlinks = true\n\
         \tignorecase = false\n\tprecomposeunicode = false\n\tprotectHFS = true\n\tprotectNTFS = true\n\
         \tautocrlf = false\n\ttrustctime = true\n\tlogallrefupdates = false\n"
    )
}

/// One line of an alternates file; quoted, since a path may begin with `#` or contain a newline.
fn alternates_line(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().all(|byte| !byte.is_ascii_control() && *byte != b'"' && *byte != b'\\') {
        return [bytes, b"\n"].concat();
    }
    [quoted(path).as_slice(), b"\n"].concat()
}

/// A path as git reads it between quotes.
pub(super) fn quoted(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let mut line = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            byte if byte.is_ascii_control() => line.extend(format!("\\{byte:03o}").bytes()),
            byte => line.push(*byte),
        }
    }
    line.push(b'"');
    line
}
