//! Git as norma uses it: objects first, the user's checkout last.
//!
//! Changes are made on git *objects* in a bare repository of norma's own ([`Objects`]) that borrows the
//! user's objects; agents work in private checkouts ([`Checkout`]); the user's branch, index and files are
//! touched by one function only ([`BranchMove::land`]) and its mirror image ([`BranchMove::undo`]).
//!
//! | file | holds |
//! |---|---|
//! | `command.rs` | the one place that starts the program `git`, and its environment |
//! | `repository.rs` | the user's repository: where it is, its HEAD, its refs |
//! | `refs.rs` | references that have files of their own, read without git |
//! | `locate.rs` | where an ordinary repository is, without asking git |
//! | `uncommitted.rs` | which paths of the user's checkout are not committed |
//! | `staged.rs` | what a commit of an index would change |
//! | `objects.rs` | norma's own repository: reading, writing, pinning, exporting objects |
//! | `blob.rs` | the bytes of a blob, piece by piece |
//! | `remembered.rs` | trees and differences of a moment ago |
//! | `tree.rs` | trees: parse, encode, compare, walk, edit |
//! | `contents.rs` | trees and blobs for those who read a whole state |
//! | `merge.rs` | three trees become one, line by line |
//! | `patch.rs` | a patch: what it names, whether it is safe to try, and how it becomes a tree |
//! | `unified.rs` | two trees become a patch |
//! | `configured.rs` | what the user's configuration would have git run: filters, and paths that it names |
//! | `checkout.rs` | private checkouts for agents |
//! | `sweep.rs` | removing files an agent left, without ever following a symlink |
//! | `index_file.rs` | the bytes of an index: a part of it, and a part of it exchanged |
//! | `touched.rs` | the part of the user's index that a landing touches |
//! | `landing.rs` | moving the user's branch and files, and taking that back |
//!
//! Objects are read and written in-process; the program `git` is plumbing for what only it knows (patch
//! application, reference locks, the user's index and filters).

pub(crate) mod blob;
mod checkout;
mod command;
mod committed;
mod configured;
mod contents;
pub(crate) mod index_file;
mod landing;
mod locate;
mod merge;
pub(crate) mod objects;
mod patch;
mod refs;
pub(crate) mod remembered;
mod repository;
mod staged;
pub(crate) mod sweep;
mod touched;
pub(crate) mod tree;
mod uncommitted;
mod unified;

use std::io;
use std::path::{Path, PathBuf};

pub use checkout::Checkout;
pub(crate) use contents::Contents;
pub use gix_hash::ObjectId;
pub use landing::{BranchMove, Land};
pub use merge::lines::LineConflict;
pub use merge::{Conflict, ConflictKind, Merged};
pub(crate) use objects::is_binary;
pub use objects::{CommitSpec, Objects};
pub(crate) use patch::is_git_directory;
pub use patch::{Applied, PatchLimits, PatchProblem};
pub(crate) use refs::BASES;
pub use repository::{DirtyPath, Head, Identity, Repository, Swap, UserEnvironment};
pub use tree::{Entry, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_SYMLINK, MODE_TREE, TreeChange};
pub use unified::{GIT_TEXT_BYTES_MAX, TEXT_BYTES_MAX};

/// What can go wrong between norma and git.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no `git` on PATH.
    #[error("the program git was not found on PATH")]
    GitMissing,
    /// The directory is not inside a work tree.
    #[error("{} is not inside a git work tree: {reason}", dir.display())]
    NotARepository {
        /// Where the search began.
        dir: PathBuf,
        /// What git said.
        reason: String,
    },
    /// git does not work in a repository that belongs to somebody else.
    #[error("git does not trust {}: it belongs to another user", dir.display())]
    OthersRepository {
        /// What git wants to be told is safe.
        dir: PathBuf,
        /// What to do next.
        fix: String,
    },
    /// The repository has no work tree.
    #[error("{} is in a bare repository, which has no files to work on", dir.display())]
    BareRepository {
        /// Where the search began.
        dir: PathBuf,
    },
    /// The branch that HEAD names has no commit.
    #[error("{branch} has no commit yet")]
    NoCommits {
        /// The unborn branch, or HEAD.
        branch: String,
    },
    /// The program could not be started or spoken to.
    #[error("could not run git {command}")]
    Spawn {
        /// The subcommand.
        command: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The program said no.
    #[error("git {command} failed with {status}: {stderr}")]
    Failed {
        /// The subcommand.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote to its standard error.
        stderr: String,
    },
    /// The program's answer was not of the promised form.
    #[error("could not read the answer of git {command}: {detail}")]
    Answer {
        /// The subcommand.
        command: String,
        /// What was expected.
        detail: String,
    },
    /// A file operation failed.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The installed git does not know what norma asks of it.
    #[error("git {found} is too old: {}.{} or later is needed", needed.0, needed.1)]
    TooOld {
        /// What it says its version is.
        found: String,
        /// The first that does.
        needed: (u32, u32),
    },
    /// An object is in neither repository.
    #[error("object {id} is missing")]
    MissingObject {
        /// The object that was asked for.
        id: ObjectId,
    },
    /// An object exists but cannot be used.
    #[error("could not read object {id}: {detail}")]
    BadObject {
        /// The object that was asked for.
        id: ObjectId,
        /// What is wrong with it.
        detail: String,
    },
    /// An object could not be written.
    #[error("could not write an object to {}: {detail}", path.display())]
    WriteObject {
        /// The object directory.
        path: PathBuf,
        /// The error of the system call.
        detail: String,
    },
    /// norma's repository was made for another hash function.
    #[error("{} does not hold {wanted} objects as the user's repository does", path.display())]
    FormatMismatch {
        /// norma's repository.
        path: PathBuf,
        /// The hash function of the user's repository.
        wanted: gix_hash::Kind,
    },
}

/// Puts the path into an I/O error.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, GitError>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, GitError> {
        self.map_err(|error| GitError::Io { action, path: path.to_owned(), source: error.into() })
    }
}

/// Makes the entries of a directory durable.
fn sync_directory(dir: &Path) -> Result<(), GitError> {
    let handle = std::fs::File::open(dir).context("open", dir)?;
    handle.sync_all().context("sync", dir)
}

fn remove_if_there(path: &Path) -> Result<(), GitError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("remove", path),
        _ => Ok(()),
    }
}

/// An id as git's libraries have it.
pub fn id(id: impl Into<contract::ObjectId>) -> ObjectId {
    match id.into() {
        contract::ObjectId::Sha1(bytes) => ObjectId::Sha1(bytes),
        contract::ObjectId::Sha256(bytes) => ObjectId::Sha256(bytes),
    }
}

/// An id as norma records it, by what it names.
pub fn recorded<T: From<contract::ObjectId>>(id: ObjectId) -> T {
    T::from(match id {
        ObjectId::Sha1(bytes) => contract::ObjectId::Sha1(bytes),
        ObjectId::Sha256(bytes) => contract::ObjectId::Sha256(bytes),
        _ => unreachable!("BUG: git has two kinds of ids"),
    })
}
