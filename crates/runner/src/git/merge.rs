//! Merging trees: what one side changed since a common base is put on what the other side made of it, on objects and
//! without an index or a checkout. A path that only one side changed is taken from that side; a text that both changed is
//! merged line by line ([`lines`]); everything else that both changed differently is a conflict, which is named and
//! never resolved. Renames are not followed: a file that one side moved and the other changed is a conflict.
//!
//! `.gitattributes` are not read: a tree that an agent made does not choose how it is merged.

pub(crate) mod lines;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use self::lines::{LineConflict, MergedText, merge_lines};
use super::objects::{Objects, is_binary};
use super::tree::{Entry, TreeChange, join};
use super::{GitError, ObjectId, PatchProblem};

/// A text that is larger is not merged: nobody writes that many lines by hand, and a diff holds three versions of them
/// in memory several times over.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// How many of the conflicting parts of one file a message names.
const PARTS_NAMED_MAX: usize = 3;

/// What became of three trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// A tree with the changes of both sides.
    Tree(ObjectId),
    /// No tree: these paths were changed in two ways. Never empty, sorted by path.
    Conflicts(Vec<Conflict>),
}

/// What became of a path, or of its content, that both sides changed.
enum Both<T> {
    Clean(T),
    Conflict(ConflictKind),
}

/// A path that cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path from the root, exact bytes.
    pub path: Vec<u8>,
    /// Why it cannot.
    pub kind: ConflictKind,
}

/// What both sides did to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictKind {
    /// They changed these lines differently.
    Lines(Vec<LineConflict>),
    /// They added different files.
    BothAdded,
    /// We deleted what they changed.
    DeletedHere,
    /// They deleted what we changed.
    DeletedThere,
    /// They changed the kind or the permissions in different ways, or what they changed is a link or a submodule.
    NotMergeable,
    /// They changed a file that is not text.
    Binary,
    /// They changed a text that is too large to be merged.
    TooLarge,
    /// It would be a file and a directory at once.
    FileAndDirectory,
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ConflictKind::Lines(parts) => return f.write_str(&described(parts)),
            ConflictKind::BothAdded => "both sides added it, with different content",
            ConflictKind::DeletedHere => "it is deleted here and was changed meanwhile",
            ConflictKind::DeletedThere => "it is changed here and was deleted meanwhile",
            ConflictKind::NotMergeable => "both sides changed it, and it is not a plain file",
            ConflictKind::Binary => "both sides changed it, and it is binary",
            ConflictKind::TooLarge => "both sides changed it, and it is too large to be merged",
            ConflictKind::FileAndDirectory => "it would be a file and a directory at once",
        };
        f.write_str(text)
    }
}

/// The conflicting parts as lines of the text that both sides started from, counted from 1.
fn described(parts: &[LineConflict]) -> String {
    let name = |part: &LineConflict| match (part.base.start, part.base.end) {
        (start, end) if start == end => format!("after line {start}"),
        (start, end) if start + 1 == end => format!("line {end}"),
        (start, end) => format!("lines {}-{end}", start + 1),
    };
    let mut names: Vec<String> = parts.iter().take(PARTS_NAMED_MAX).map(name).collect();
    if parts.len() > PARTS_NAMED_MAX {
        names.push(format!("{} more", parts.len() - PARTS_NAMED_MAX));
    }
    format!("both sides changed {} differently", names.join(", "))
}

impl Objects {
    /// Puts what `base → ours` changed on `theirs`, line by line where both changed a text.
    pub fn merge(&self, base: ObjectId, ours: ObjectId, theirs: ObjectId) -> Result<Merged, GitError> {
        let mut edits: Vec<(Vec<u8>, Option<Entry>)> = Vec::new();
        let mut conflicts = Vec::new();
        for change in self.diff(base, ours)? {
            // A directory of theirs is looked at file by file, as ours are.
            let there = self.entry(theirs, &change.path)?.filter(|entry| !entry.is_tree());
            if there == change.new {
                continue;
            }
            if there == change.old {
                edits.push((change.path, change.new));
                continue;
            }
            match self.merge_entry(&change, there)? {
                Both::Clean(entry) => edits.push((change.path, Some(entry))),
                Both::Conflict(kind) => conflicts.push(Conflict { path: change.path, kind }),
            }
        }
        if conflicts.is_empty() {
            conflicts = self.files_and_directories(theirs, &edits)?;
        }
        if !conflicts.is_empty() {
            return Ok(Merged::Conflicts(conflicts));
        }
        match self.edit(theirs, &edits) {
            Ok(tree) => Ok(Merged::Tree(tree)),
            Err(PatchProblem::Git(error)) => Err(error),
            Err(_) => unreachable!("BUG: every path that would be a file and a directory was found before"),
        }
    }

    fn entry(&self, tree: ObjectId, path: &[u8]) -> Result<Option<Entry>, GitError> {
        Ok(self.tree_entry(tree, path)?.map(|(mode, id)| Entry { mode, id }))
    }

    /// Paths that would be a file and a directory at once: files below a file of theirs, or in place of a directory of
    /// theirs that does not become empty.
    fn files_and_directories(
        &self,
        theirs: ObjectId,
        edits: &[(Vec<u8>, Option<Entry>)],
    ) -> Result<Vec<Conflict>, GitError> {
        let leaving: BTreeSet<&[u8]> =
            edits.iter().filter(|(_, new)| new.is_none()).map(|(path, _)| path.as_slice()).collect();
        let mut conflicts = Vec::new();
        for (path, _) in edits.iter().filter(|(_, new)| new.is_some()) {
            let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
            let mut clashes = false;
            for dir in above.filter(|dir| !leaving.contains(dir)) {
                clashes |= self.entry(theirs, dir)?.is_some_and(|entry| !entry.is_tree());
            }
            if let Some(dir) = self.entry(theirs, path)?.filter(|entry| entry.is_tree()) {
                let stays = |name: &[u8]| !leaving.contains(join(path, name).as_slice());
                self.walk(dir.id, &mut |name, _, _| clashes |= stays(name))?;
            }
            if clashes {
                conflicts.push(Conflict { path: path.clone(), kind: ConflictKind::FileAndDirectory });
            }
        }
        Ok(conflicts)
    }

    /// What becomes of a path that both sides changed, and not to the same thing.
    fn merge_entry(&self, change: &TreeChange, there: Option<Entry>) -> Result<Both<Entry>, GitError> {
        let (old, new, there) = match (change.old, change.new, there) {
            (Some(old), Some(new), Some(there)) => (old, new, there),
            (None, ..) => return Ok(Both::Conflict(ConflictKind::BothAdded)),
            (_, None, _) => return Ok(Both::Conflict(ConflictKind::DeletedHere)),
            (_, _, None) => return Ok(Both::Conflict(ConflictKind::DeletedThere)),
        };
        let sides = [old, new, there];
        let mode = three_way(sides.map(|entry| entry.mode));
        let plain = sides.iter().all(|entry| entry.mode & 0o170_000 == 0o100_000);
        let Some(mode) = mode.filter(|_| plain) else { return Ok(Both::Conflict(ConflictKind::NotMergeable)) };
        let id = match three_way(sides.map(|entry| entry.id)) {
            Some(id) => Both::Clean(id),
            None => self.merge_blobs(sides.map(|entry| entry.id))?,
        };
        Ok(match id {
            Both::Clean(id) => Both::Clean(Entry { mode, id }),
            Both::Conflict(kind) => Both::Conflict(kind),
        })
    }

    fn merge_blobs(&self, [base, ours, theirs]: [ObjectId; 3]) -> Result<Both<ObjectId>, GitError> {
        for id in [base, ours, theirs] {
            if self.size(id)? > TEXT_BYTES_MAX {
                return Ok(Both::Conflict(ConflictKind::TooLarge));
            }
        }
        let (base, ours, theirs) = (self.read_blob(base)?, self.read_blob(ours)?, self.read_blob(theirs)?);
        if [&base, &ours, &theirs].into_iter().any(|bytes| is_binary(bytes)) {
            return Ok(Both::Conflict(ConflictKind::Binary));
        }
        match merge_lines(&base, &ours, &theirs) {
            MergedText::Clean(text) => self.write_blob(&text).map(Both::Clean),
            MergedText::Conflicts(parts) => Ok(Both::Conflict(ConflictKind::Lines(parts))),
        }
    }
}

/// What a value becomes that at most one side changed, or both in the same way.
fn three_way<T: PartialEq + Copy>([base, ours, theirs]: [T; 3]) -> Option<T> {
    match () {
        () if ours == theirs || theirs == base => Some(ours),
        () if ours == base => Some(theirs),
        () => None,
    }
}
