//! What keeps norma itself from working, or makes it refuse, with the exit code and the hint that belong to it,
//! whether a verb does it itself or asks the owner over the socket. What an agent does wrong is never an error here:
//! that is an outcome, and goes on record.

use crate::git::GitError;
use run::workflow::graph::edit::EditProblem;
use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

/// Exit codes; the same for every verb.
pub mod exit {
    /// A run or a gate failed, or something was declined.
    pub const FAILED: u8 = 1;
    /// The request makes no sense.
    pub const USAGE: u8 = 2;
    /// A person has to approve first.
    pub const WAITING: u8 = 3;
    /// The machine, the configuration or the lock is not ready.
    pub const ENVIRONMENT: u8 = 4;
    /// What is on record does not verify.
    pub const INTEGRITY: u8 = 5;
    /// Left waiting for a provider's rate limit.
    pub const RATE_LIMITED: u8 = 6;
    /// Ended by SIGINT or SIGTERM.
    pub const INTERRUPTED: u8 = 130;
}

/// What to do about a state directory that was rolled back.
pub const ACCEPT: &str = "restore the newer one; or, to continue with this one: norma verify --accept --reason TEXT";

/// What keeps norma from working. Outcomes of a run are facts, never one of these.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// git could not.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file operation failed.
    #[error("could not {action} {path}")]
    Io {
        /// `open`, `write`, …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The request makes no sense as given.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// The machine or the configuration is not ready for it.
    #[error("{message}")]
    Environment {
        /// What is missing.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// It needs approval first.
    #[error("{message}")]
    Waiting {
        /// To what.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// The state directory is not the one that was left: an older one was put back, or it was rewritten.
    #[error("{0}")]
    RolledBack(String),
    /// norma itself went wrong; only what it was doing is concerned.
    #[error("norma failed: {0}")]
    Panicked(String),
    /// It cannot be done to a graph.
    #[error("{}", .0.message())]
    Edit(EditProblem),
    /// The state directory is about to be let go of.
    #[error("this norma is about to end")]
    Leaving,
    /// It could be done, but not safely, so it was not.
    #[error("{message}")]
    Declined {
        /// What was declined and the reason, for people.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
}

/// The runner's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A request that makes no sense.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// A machine or configuration that is not ready.
    pub fn environment(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Environment { message: message.into(), hint: Some(hint.into()) }
    }

    /// Something that could not be done safely.
    pub fn declined(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Declined { message: message.into(), hint: Some(hint.into()) }
    }

    /// Something that waits for a person.
    pub fn waiting(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Waiting { message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }

    /// The exit code of a verb that ends with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage { .. } | Error::Store(store::Error::Refused(_)) => exit::USAGE,
            Error::Edit(EditProblem::Refused(_)) => exit::FAILED,
            Error::Edit(EditProblem::Missing(_) | EditProblem::Invalid { .. }) => exit::USAGE,
            Error::Declined { .. } => exit::FAILED,
            Error::Waiting { .. } => exit::WAITING,
            Error::Store(store::Error::Damaged { .. }) | Error::RolledBack(_) => exit::INTEGRITY,
            Error::Environment { .. } | Error::Store(_) | Error::Git(_) | Error::Io { .. } => exit::ENVIRONMENT,
            Error::Panicked(_) | Error::Leaving => exit::ENVIRONMENT,
        }
    }

    /// What to do next, where it is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Usage { hint, .. }
            | Error::Environment { hint, .. }
            | Error::Declined { hint, .. }
            | Error::Waiting { hint, .. } => hint.as_deref(),
            Error::Store(error) => store_hint(error),
            Error::Git(error) => git_hint(error),
            Error::RolledBack(_) => Some(ACCEPT),
            Error::Panicked(_) => {
                Some("this is a bug in norma: please report it; `norma resume RUN` continues the run")
            }
            Error::Edit(_) => Some("look at it: norma graph show, or norma intent show"),
            Error::Io { .. } | Error::Leaving => None,
        }
    }

    /// What led to it, the nearest first.
    pub fn causes(&self) -> Vec<String> {
        std::iter::successors(self.source(), |&cause| cause.source()).map(ToString::to_string).collect()
    }
}

fn store_hint(error: &store::Error) -> Option<&'static str> {
    match error {
        store::Error::Damaged { .. } => Some(
            "nothing was changed; `norma verify RUN` names every problem, `norma quarantine RUN` sets a damaged run aside",
        ),
        store::Error::Replaced(_) => {
            Some("Your branch, index and files are unchanged. Restore the state directory, or start over: norma init")
        }
        store::Error::NoState(_) => Some("start a run: norma run \"what you want\"; or make one: norma init"),
        error if error.is_disk_full() => {
            Some("free some space; nothing that was acknowledged is lost, `norma resume @last` continues")
        }
        _ => None,
    }
}

fn git_hint(error: &GitError) -> Option<&str> {
    match error {
        GitError::NotARepository { .. } => Some("norma works in a git repository: git init, or cd to one"),
        GitError::OthersRepository { fix, .. } => Some(fix),
        GitError::BareRepository { .. } => Some("make a checkout of it: git clone, or git worktree add"),
        GitError::NoCommits { .. } => Some("a run starts from a commit: git add … && git commit"),
        GitError::GitMissing => Some("install git"),
        GitError::TooOld { .. } => Some("install a newer git"),
        _ => None,
    }
}
