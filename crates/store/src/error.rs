//! What can keep the store from working. Every I/O error names its path; what to do about it is said at the
//! edge, by the command line.

use std::io;
use std::path::{Path, PathBuf};

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("could not {action} {path}")]
    Io {
        /// `open`, `write`, …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite failed.
    #[error("database: {0}")]
    Sql(#[from] rusqlite::Error),
    /// A commit failed; nothing of it is there, and this process writes nothing more.
    #[error("could not commit: {0}")]
    Commit(String),
    /// The writer has stopped after a failed commit.
    #[error("the store has stopped after a failed commit")]
    Stopped,
    /// The database is no longer where it was opened; nothing more is written.
    #[error("{0} was removed or replaced while norma was running, so nothing more is written")]
    Replaced(PathBuf),
    /// The stored log contradicts itself or its state machine.
    #[error("the log of {log} is damaged: {why}")]
    Damaged {
        /// Which log.
        log: String,
        /// What is wrong.
        why: String,
    },
    /// Somebody else appended first.
    #[error("the log of {log} has {found} events, not {expected}")]
    Conflict {
        /// Which log.
        log: String,
        /// What the caller thought.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// The SQLite library is too old to be trusted with WAL.
    #[error("SQLite {found} is too old; {needed} or later is needed")]
    SqliteTooOld {
        /// Linked.
        found: String,
        /// Wanted.
        needed: &'static str,
    },
    /// The database was written by a later norma.
    #[error("norma.db has schema version {found}, this norma knows {known}")]
    SchemaTooNew {
        /// In the file.
        found: i64,
        /// Known here.
        known: i64,
    },
    /// There is no state directory.
    #[error("no state directory at {0}")]
    NoState(PathBuf),
    /// A request that cannot be carried out as things are.
    #[error("{0}")]
    Refused(String),
}

/// The store's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the disk is full, which a person can fix.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Error::Sql(rusqlite::Error::SqliteFailure(e, _)) => e.code == rusqlite::ErrorCode::DiskFull,
            Error::Commit(why) => why.contains("full"),
            _ => false,
        }
    }
}

/// Puts the path into an I/O error.
pub trait IoContext<T> {
    /// `could not {action} {path}`.
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { action, path: path.to_owned(), source })
    }
}

impl<T> IoContext<T> for rustix::io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(io::Error::from).at(action, path)
    }
}

impl From<contract::SlugProblem> for Error {
    fn from(problem: contract::SlugProblem) -> Error {
        Error::Refused(problem.to_string())
    }
}
