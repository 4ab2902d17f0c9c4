//! The difference of two trees as a layer needs it: what to write, what to hide, and which objects are new.
//!
//! Found in one pass that reads only trees that differ, and given up once it is larger than the caller can use.

use crate::git::objects::Reader;
use crate::git::tree::{MODE_GITLINK, differing, join};
use crate::git::{Entry, GitError, ObjectId, TreeChange, is_git_directory};

/// How one tree differs from another.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Everything but directories that differs, sorted by path bytes.
    pub(super) changes: Vec<TreeChange>,
    /// Names to hide; a removed directory is one of them, what was in it is not.
    pub(super) hidden: Vec<Vec<u8>>,
    /// Trees the old side does not have at the same place.
    pub(super) trees: Vec<ObjectId>,
}

/// Two directories at one path.
struct Pair {
    path: Vec<u8>,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    /// The old one cannot be seen any more, so nothing in it has to be hidden.
    gone: bool,
}

/// Compares two trees; `None` if more than `changes_max` paths differ.
pub(super) fn between(
    reader: &Reader<'_>,
    old: ObjectId,
    new: ObjectId,
    changes_max: usize,
) -> Result<Option<Difference>, GitError> {
    let mut found = Difference::default();
    let mut due = Vec::new();
    if old != new {
        due.push(Pair { path: Vec::new(), old: Some(old), new: Some(new), gone: false });
    }
    while let Some(pair) = due.pop() {
        found.trees.extend(pair.new);
        let (old, new) = (reader.tree_or_nothing(pair.old)?, reader.tree_or_nothing(pair.new)?);
        for (name, [old, new]) in differing(&old, &new) {
            check_name(pair.new, name)?;
            compare(&pair, join(&pair.path, name), old, new, &mut found, &mut due);
        }
        if found.changes.len() > changes_max {
            return Ok(None);
        }
    }
    found.changes.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(Some(found))
}

fn compare(
    pair: &Pair,
    path: Vec<u8>,
    old: Option<Entry>,
    new: Option<Entry>,
    found: &mut Difference,
    due: &mut Vec<Pair>,
) {
    let tree = |side: Option<Entry>| side.filter(|entry| entry.is_tree());
    let leaf = |side: Option<Entry>| side.filter(|entry| !entry.is_tree());
    // A submodule is an empty directory, and merges with the directory it replaces: what was in that is hidden
    // name by name.
    let merges = new.is_some_and(|entry| entry.is_tree() || entry.mode == MODE_GITLINK);
    if new.is_none() && !pair.gone {
        found.hidden.push(path.clone());
    }
    if tree(old).is_some() || tree(new).is_some() {
        let id = |side| tree(side).map(|entry| entry.id);
        due.push(Pair { path: path.clone(), old: id(old), new: id(new), gone: pair.gone || !merges });
    }
    if leaf(old).is_some() || leaf(new).is_some() {
        found.changes.push(TreeChange { path, old: leaf(old), new: leaf(new) });
    }
}

/// Refuses names that would lead out of the directory or into the repository itself. git never makes such trees.
pub(super) fn check_name(tree: Option<ObjectId>, name: &[u8]) -> Result<(), GitError> {
    match tree {
        Some(id) if matches!(name, b"." | b"..") || is_git_directory(name) => {
            let detail = format!("it names {:?}", String::from_utf8_lossy(name));
            Err(GitError::BadObject { id, detail })
        }
        _ => Ok(()),
    }
}
