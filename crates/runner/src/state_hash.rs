//! One digest of a whole state: a BLAKE3 Merkle tree over names, kinds, executable bits and contents. The same
//! files give the same digest whether they are read from git objects or from a directory.

use crate::git::{MODE_EXECUTABLE, MODE_GITLINK, MODE_SYMLINK, ObjectId, Objects};
use crate::{Error, Result};
use contract::hash::{Hasher, digest};
use contract::{Digest, Domain};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Not part of a state: the repository itself, and norma's own directory.
const LEFT_OUT: [&[u8]; 2] = [b".git", b".norma"];

enum Node {
    Leaf(u8, Digest),
    Dir(BTreeMap<Vec<u8>, Node>),
}

/// The state hash of a git tree.
pub fn hash_tree(objects: &Objects, tree: ObjectId) -> Result<Digest> {
    let mut entries = Vec::new();
    objects.walk(tree, &mut |path, mode, id| entries.push((path.to_vec(), mode, id)))?;
    let mut root = BTreeMap::new();
    for (path, mode, id) in entries {
        let leaf = match mode {
            MODE_GITLINK => Node::Leaf(b's', digest(Domain::State, id.as_bytes())),
            MODE_SYMLINK => Node::Leaf(b'l', digest(Domain::State, &objects.read_blob(id)?)),
            MODE_EXECUTABLE => Node::Leaf(b'x', digest(Domain::State, &objects.read_blob(id)?)),
            _ => Node::Leaf(b'f', digest(Domain::State, &objects.read_blob(id)?)),
        };
        insert(&mut root, &path, leaf);
    }
    root.retain(|name, _| !LEFT_OUT.contains(&name.as_slice()));
    Ok(fold(&root))
}

fn insert(dir: &mut BTreeMap<Vec<u8>, Node>, path: &[u8], leaf: Node) {
    match path.iter().position(|byte| *byte == b'/') {
        None => drop(dir.insert(path.to_vec(), leaf)),
        Some(at) => {
            let child = dir.entry(path[..at].to_vec()).or_insert_with(|| Node::Dir(BTreeMap::new()));
            if let Node::Dir(below) = child {
                insert(below, &path[at + 1..], leaf);
            }
        }
    }
}

fn fold(dir: &BTreeMap<Vec<u8>, Node>) -> Digest {
    let mut hasher = Hasher::new(Domain::State);
    for (name, node) in dir {
        let (kind, digest) = match node {
            Node::Leaf(kind, digest) => (*kind, *digest),
            Node::Dir(below) => (b'd', fold(below)),
        };
        hasher.field(name).field(&[kind]).field(digest.as_bytes());
    }
    hasher.finish()
}

/// The state hash of a directory as it is; empty directories count, links are not followed.
pub fn hash_dir(dir: &Path) -> Result<Digest> {
    Ok(fold(&read_dir(dir, true)?))
}

fn read_dir(dir: &Path, top: bool) -> Result<BTreeMap<Vec<u8>, Node>> {
    let failed = |source| Error::io("read", dir, source);
    let mut nodes = BTreeMap::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().as_bytes().to_vec();
        if !(top && LEFT_OUT.contains(&name.as_slice())) {
            nodes.insert(name, read_entry(&entry.path())?);
        }
    }
    Ok(nodes)
}

fn read_entry(path: &Path) -> Result<Node> {
    let failed = |source| Error::io("read", path, source);
    let meta = std::fs::symlink_metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return Ok(Node::Dir(read_dir(path, false)?));
    }
    if meta.is_symlink() {
        let target = std::fs::read_link(path).map_err(failed)?;
        return Ok(Node::Leaf(b'l', digest(Domain::State, target.as_os_str().as_bytes())));
    }
    if !meta.is_file() {
        return Ok(Node::Leaf(b'?', digest(Domain::State, b"")));
    }
    let kind = if meta.permissions().mode() & 0o100 != 0 { b'x' } else { b'f' };
    Ok(Node::Leaf(kind, digest(Domain::State, &std::fs::read(path).map_err(failed)?)))
}
