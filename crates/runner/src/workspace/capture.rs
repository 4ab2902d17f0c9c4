//! Making a tree of what an agent left.
//!
//! Only for when every process that could write there is dead. What is found is compared with the base, so an entry
//! that is merely there (touched, linked, copied up and left as it was) is no change. The result is made by editing
//! the base tree: the cost is that of the changes.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use contract::Digest;

use super::line_endings::AutoCrlf;
use super::stat_cache::StatCache;
use super::walk::{View, Walk};
use crate::git::objects::Objects;
use crate::git::tree::{self, Edit};
use crate::git::{GitError, ObjectId, PatchProblem, TreeChange};

/// The largest file that becomes part of a change, unless told otherwise: reviews and receipts have to carry it.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// All files of a change together.
const TOTAL_BYTES_MAX: u64 = 256 << 20;

/// How many ignored files are listed one by one; build directories have tens of thousands.
const IGNORED_FILES_MAX: usize = 1_000;

/// How many more are known by name alone, so that the gate sees a protected one among them.
const IGNORED_NAMES_MAX: usize = 100_000;

/// How much of ignored files is read to get their digests.
const IGNORED_BYTES_MAX: u64 = 64 << 20;

/// What a capture leaves out, and where it stops.
#[derive(Debug, Clone)]
pub struct CaptureRules {
    /// norma's state directory as a path from the root, if it lies in the tree. Never looked at.
    pub state_directory: Option<Vec<u8>>,
    /// The largest file that may change.
    pub file_bytes_max: u64,
    /// The most that all changed files may have together.
    pub total_bytes_max: u64,
    /// How many paths may differ before nothing more is looked at: what would be refused is not read to its end.
    pub paths_max: usize,
    /// Files that are part of a change even where they are ignored, as with `git add --force`: those that a contract
    /// names one by one.
    pub named: BTreeSet<Vec<u8>>,
    /// Whether files that a build makes are left out as ignored files are, where `named` says nothing of them.
    pub leaves_builds_out: bool,
    /// Whether new directories that tools fill are left out, such as caches, unless something in them is named.
    pub leaves_caches_out: bool,
    /// Has line endings stored as `git add` would; as they are without.
    pub line_endings: Option<AutoCrlf>,
    /// How many ignored files are listed.
    pub ignored_files_max: usize,
    /// How many more are kept by name.
    pub ignored_names_max: usize,
    /// How many bytes of ignored files are hashed.
    pub ignored_bytes_max: u64,
}

impl Default for CaptureRules {
    fn default() -> CaptureRules {
        CaptureRules {
            state_directory: None,
            file_bytes_max: FILE_BYTES_MAX,
            total_bytes_max: TOTAL_BYTES_MAX,
            paths_max: usize::MAX,
            named: BTreeSet::new(),
            leaves_builds_out: false,
            leaves_caches_out: false,
            line_endings: None,
            ignored_files_max: IGNORED_FILES_MAX,
            ignored_names_max: IGNORED_NAMES_MAX,
            ignored_bytes_max: IGNORED_BYTES_MAX,
        }
    }
}

impl CaptureRules {
    /// Whether a path is named, or one above or below it.
    pub(super) fn speaks_of(&self, path: &[u8]) -> bool {
        let mut above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        above.any(|path| self.named.contains(path)) || self.names(path)
    }

    /// Whether a path is named, or one below it.
    pub(super) fn names(&self, path: &[u8]) -> bool {
        if self.named.contains(path) {
            return true;
        }
        let below = [path, b"/"].concat();
        self.named.range(below.clone()..).next().is_some_and(|named| named.starts_with(&below))
    }
}

/// What an agent made of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The new tree, in norma's repository.
    pub tree: ObjectId,
    /// How it differs from the base, sorted by path bytes.
    pub changes: Vec<TreeChange>,
    /// Files that both the base's rules and the candidate's ignore, and what a build made; not part of the tree.
    pub ignored: Vec<IgnoredFile>,
    /// The names of those that there is no room for in the list, as far as there is room for names.
    pub ignored_names: Vec<Vec<u8>>,
    /// How many more of those there are.
    pub ignored_more: u64,
    /// How many bytes those have.
    pub ignored_more_bytes: u64,
    /// Where ignored files are: the outermost directory that the rules ignore, or the file itself. All of them, unlike
    /// the list of files.
    pub ignored_at: Vec<Vec<u8>>,
    /// What cannot be part of a tree. Where it took the place of a file, that file counts as deleted.
    pub odd: Vec<Odd>,
    /// The size of all changed files together.
    pub bytes: u64,
}

impl Captured {
    /// What somebody left who did nothing.
    pub fn nothing(tree: ObjectId) -> Captured {
        Captured {
            tree,
            changes: Vec::new(),
            ignored: Vec::new(),
            ignored_names: Vec::new(),
            ignored_more: 0,
            ignored_more_bytes: 0,
            ignored_at: Vec::new(),
            odd: Vec::new(),
            bytes: 0,
        }
    }
}

/// A file that `.gitignore` rules leave out, or that a build made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredFile {
    /// The path from the root, exact bytes.
    pub path: Vec<u8>,
    /// Its size; for a link, that of its target's name.
    pub size: u64,
    /// SHA-256 of its content; `None` if that was more than may be hashed.
    pub sha256: Option<Digest>,
}

/// Something that has no place in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// The path from the root, exact bytes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: OddKind,
    /// The rules ignore it.
    pub ignored: bool,
}

/// Why something has no place in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OddKind {
    /// A `.git`, or what some file system takes for it, below the top.
    NestedRepository,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device, or something stranger.
    Device,
    /// More bytes than allowed, alone or with those before it.
    TooLarge,
    /// A directory nested too deeply; what is in it was not looked at.
    TooDeep,
    /// One more than may differ; what comes after it was not looked at.
    TooMany,
    /// Something that was staged or committed in the agent's own repository, and that no file stands for.
    OnlyInGit,
}

/// Reads the upper directory of an overlay that was mounted, with user xattrs, on a stand at `base_tree`. The
/// descriptor must be open for reading. Nothing outside of that directory is ever opened, and no link is followed.
pub fn capture(
    objects: &Objects,
    base_tree: ObjectId,
    upper: BorrowedFd<'_>,
    rules: &CaptureRules,
) -> Result<Captured, GitError> {
    capture_as(objects, base_tree, upper, rules, View::Upper, None)
}

pub(super) fn capture_as(
    objects: &Objects,
    base_tree: ObjectId,
    root: BorrowedFd<'_>,
    rules: &CaptureRules,
    view: View,
    cache: Option<&mut StatCache>,
) -> Result<Captured, GitError> {
    let reader = objects.reader()?;
    let found = Walk::new(objects, &reader, rules, view, cache).run(root, base_tree)?;
    let edits: Vec<Edit<'_>> = found.edits.iter().map(|(path, entry)| (path.as_slice(), *entry)).collect();
    let tree = if edits.is_empty() {
        base_tree
    } else {
        tree::edit(objects, &reader, base_tree, &edits).map_err(unexpected)?
    };
    Ok(Captured {
        tree,
        changes: tree::diff(&reader, base_tree, tree)?,
        ignored: found.ignored,
        ignored_names: found.ignored_names,
        ignored_more: found.ignored_more,
        ignored_more_bytes: found.ignored_more_bytes,
        ignored_at: found.ignored_at,
        odd: found.odd,
        bytes: found.bytes,
    })
}

/// A directory on disk has no conflicts, so neither have the edits made from one.
fn unexpected(problem: PatchProblem) -> GitError {
    match problem {
        PatchProblem::Git(error) => error,
        other => GitError::Answer { command: "capture".to_owned(), detail: other.to_string() },
    }
}
