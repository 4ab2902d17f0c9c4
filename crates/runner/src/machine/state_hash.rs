//! One digest of a whole state: a BLAKE3 Merkle tree over names, kinds, executable bits and contents. The same
//! files give the same digest whether they are read from git objects or from a directory.
//!
//! A directory's digest is that of its entries in the order of their names' bytes, each as name, kind and digest:
//!
//! | kind | what | digest |
//! |---|---|---|
//! | `f`, `x` | a file, an executable one | of its bytes |
//! | `l` | a symbolic link | of its target |
//! | `d` | a directory | of its entries |
//! | `s` | a submodule, which only git trees have | of the commit's id |
//! | `?` | a socket, a pipe or a device, which only directories on disk have | of nothing |
//!
//! So it depends on nothing but what is in it, and whoever knows a tree by its git id knows its digest: a [`Memo`]
//! keeps them, and hashing a tree again after a change costs what was changed.

mod memo;

use crate::git::tree::Line;
use crate::git::{Contents, Entry, MODE_GITLINK, MODE_SYMLINK, MODE_TREE, ObjectId, Objects};
use crate::{Error, Result};
use contract::hash::{Hasher, digest};
use contract::{Digest, Domain};
pub use memo::Memo;
use memo::Of;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Not part of a state: the repository itself, and norma's own directory.
const LEFT_OUT: [&[u8]; 2] = [b".git", b".norma"];

/// Deepest nesting of directories. A git tree can be made deeper than any path; this is far beyond real ones and
/// well within a thread's stack and the descriptors of a process, one of which is open for each level on disk.
const DEPTH_MAX: usize = 256;

/// Bytes of a file hashed at once.
const READ_BYTES: usize = 128 * 1024;

/// One name in a directory.
struct Node {
    name: Vec<u8>,
    kind: u8,
    digest: Digest,
}

/// The digest of a directory.
fn fold(mut nodes: Vec<Node>) -> Digest {
    nodes.sort_by(|left, right| left.name.cmp(&right.name));
    let mut hasher = Hasher::new(Domain::State);
    for node in &nodes {
        hasher.field(&node.name).field(&[node.kind]).field(node.digest.as_bytes());
    }
    hasher.finish()
}

fn is_left_out(name: &[u8], depth: usize) -> bool {
    depth == 0 && LEFT_OUT.contains(&name)
}

fn check_depth(depth: usize, place: &str) -> Result<()> {
    if depth < DEPTH_MAX {
        return Ok(());
    }
    Err(Error::declined(
        format!("{place} is nested deeper than {DEPTH_MAX} directories"),
        "a state that deep cannot be checked out either",
    ))
}

/// The state hash of a git tree.
pub fn hash_tree(objects: &Objects, tree: ObjectId) -> Result<Digest> {
    hash_tree_with(objects, tree, &mut Memo::empty())
}

/// The same, with what is known already; what is found out is put into the memo.
pub fn hash_tree_with(objects: &Objects, tree: ObjectId, memo: &mut Memo) -> Result<Digest> {
    // Without the names that are left out the root is another directory than the tree.
    if let Some(known) = memo.get(Of::State, &tree) {
        return Ok(known);
    }
    let found = GitTree { contents: Contents::open(objects)?, memo: &mut *memo }.fold(tree, 0)?;
    memo.put(Of::State, &tree, found);
    Ok(found)
}

/// A walk over git objects.
struct GitTree<'a> {
    contents: Contents<'a>,
    memo: &'a mut Memo,
}

impl GitTree<'_> {
    fn fold(&mut self, tree: ObjectId, depth: usize) -> Result<Digest> {
        check_depth(depth, &format!("tree {tree}"))?;
        let mut nodes = Vec::new();
        for Line { name, entry } in self.contents.tree(tree)?.iter() {
            if !is_left_out(name, depth) {
                let (kind, digest) = self.entry(*entry, depth)?;
                nodes.push(Node { name: name.to_vec(), kind, digest });
            }
        }
        Ok(fold(nodes))
    }

    fn entry(&mut self, Entry { mode, id }: Entry, depth: usize) -> Result<(u8, Digest)> {
        match mode {
            MODE_TREE => Ok((b'd', self.subtree(id, depth + 1)?)),
            MODE_GITLINK => Ok((b's', digest(Domain::State, id.as_bytes()))),
            MODE_SYMLINK => Ok((b'l', self.blob(id)?)),
            mode => Ok((file_kind(mode), self.blob(id)?)),
        }
    }

    fn subtree(&mut self, id: ObjectId, depth: usize) -> Result<Digest> {
        if let Some(known) = self.memo.get(Of::Tree, &id) {
            return Ok(known);
        }
        let found = self.fold(id, depth)?;
        self.memo.put(Of::Tree, &id, found);
        Ok(found)
    }

    fn blob(&mut self, id: ObjectId) -> Result<Digest> {
        if let Some(known) = self.memo.get(Of::Blob, &id) {
            return Ok(known);
        }
        let mut hasher = Hasher::new(Domain::State);
        self.contents.pieces(id, &mut |piece| {
            hasher.update(piece);
        })?;
        let found = hasher.finish();
        self.memo.put(Of::Blob, &id, found);
        Ok(found)
    }
}

/// A file is executable if its owner may execute it, which is all that git keeps.
fn file_kind(mode: u32) -> u8 {
    if mode & 0o100 != 0 { b'x' } else { b'f' }
}

/// The state hash of a directory as it is; empty directories count, links are not followed.
///
/// Every name is opened in its directory and never by its path, so nothing that is moved meanwhile leads elsewhere.
/// One thread: on small files opening takes the time, and a second thread was measured to gain nothing.
pub fn hash_dir(dir: &Path) -> Result<Digest> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| Error::io("open", dir, e.into()))?;
    let mut walk = Walk { place: dir.to_owned(), buffer: vec![0; READ_BYTES] };
    walk.fold(&opened, 0)
}

/// A walk over files.
struct Walk {
    /// Where it is, for errors.
    place: PathBuf,
    buffer: Vec<u8>,
}

impl Walk {
    fn fold(&mut self, dir: &OwnedFd, depth: usize) -> Result<Digest> {
        check_depth(depth, &self.place.display().to_string())?;
        let names = names_in(dir).map_err(|e| Error::io("list", &self.place, e.into()))?;
        let mut nodes = Vec::new();
        for name in names.into_iter().filter(|name| !is_left_out(name.as_bytes(), depth)) {
            self.place.push(std::ffi::OsStr::from_bytes(name.as_bytes()));
            let (kind, digest) = self.entry(dir, &name, depth)?;
            self.place.pop();
            nodes.push(Node { name: name.into_bytes(), kind, digest });
        }
        Ok(fold(nodes))
    }

    fn entry(&mut self, dir: &OwnedFd, name: &CString, depth: usize) -> Result<(u8, Digest)> {
        let failed = |place: &Path, error: rustix::io::Errno| Error::io("read", place, error.into());
        let looked = rustix::fs::statat(dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        let kind = FileType::from_raw_mode(looked.map_err(|e| failed(&self.place, e))?.st_mode);
        let open = |flags| rustix::fs::openat(dir, name.as_c_str(), flags | OPEN, Mode::empty());
        match kind {
            FileType::Directory => {
                let below = open(OFlags::DIRECTORY).map_err(|e| failed(&self.place, e))?;
                Ok((b'd', self.fold(&below, depth + 1)?))
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir, name.as_c_str(), Vec::new());
                Ok((b'l', digest(Domain::State, target.map_err(|e| failed(&self.place, e))?.as_bytes())))
            }
            FileType::RegularFile => {
                let file = open(OFlags::empty()).map_err(|e| failed(&self.place, e))?;
                self.file(&file).map_err(|e| failed(&self.place, e))
            }
            _ => Ok((b'?', digest(Domain::State, b""))),
        }
    }

    fn file(&mut self, file: &OwnedFd) -> rustix::io::Result<(u8, Digest)> {
        let stat = rustix::fs::fstat(file)?;
        // It was a file a moment ago. What took its place must not be waited for.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(rustix::io::Errno::STALE);
        }
        let mut hasher = Hasher::new(Domain::State);
        loop {
            match rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *self.buffer))? {
                0 => return Ok((file_kind(stat.st_mode), hasher.finish())),
                count => drop(hasher.update(&self.buffer[..count])),
            }
        }
    }
}

/// How what is in a directory is opened: itself, not what it leads to, and without waiting for a pipe's other end.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

fn names_in(dir: impl AsFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
