//! What keeps norma itself from working, or makes it refuse. What an agent does wrong is never an error here:
//! that is an outcome, and goes on record.

use crate::git::GitError;
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
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
        /// Why.
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
    /// A person has to say yes first.
    #[error("{message}")]
    Waiting {
        /// To what.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// It could be done, but not safely, so it was not.
    #[error("{message}")]
    Declined {
        /// Why.
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

    /// What to do next, where it is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Usage { hint, .. }
            | Error::Environment { hint, .. }
            | Error::Declined { hint, .. }
            | Error::Waiting { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }
}
