//! What a person or a program is told when something did not work: what happened, why, and what to do next.

use crate::text::out;
use runner::git::GitError;
use std::error::Error as _;
use std::process::ExitCode;

/// Exit codes; the same for every verb.
pub(crate) mod code {
    /// A run or a gate failed, or something was declined.
    pub(crate) const FAILED: u8 = 1;
    /// The request makes no sense.
    pub(crate) const USAGE: u8 = 2;
    /// A person has to say yes first.
    pub(crate) const WAITING: u8 = 3;
    /// The machine, the configuration or the lock is not ready.
    pub(crate) const ENVIRONMENT: u8 = 4;
    /// Recorded evidence does not verify.
    pub(crate) const INTEGRITY: u8 = 5;
    /// Ended by SIGINT or SIGTERM.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// An error at the edge.
pub(crate) struct CommandError {
    code: u8,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

/// The result of a verb.
pub(crate) type Outcome<T = ExitCode> = Result<T, CommandError>;

impl CommandError {
    pub(crate) fn new(code: u8, message: impl Into<String>, hint: impl Into<String>) -> CommandError {
        CommandError { code, message: message.into(), causes: Vec::new(), hint: Some(hint.into()) }
    }

    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> CommandError {
        CommandError::new(code::USAGE, message, hint)
    }

    pub(crate) fn refused(code: u8, message: String, hint: Option<String>) -> CommandError {
        CommandError { code, message, causes: Vec::new(), hint }
    }

    /// Prints it, as text on stderr or as JSON on stdout, and answers the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if json {
            let details = serde_json::json!({"causes": self.causes, "hint": self.hint});
            out(&serde_json::json!({"error": self.message, "code": self.code, "details": details}).to_string());
        } else {
            let mut text = format!("error: {}", self.message);
            for cause in &self.causes {
                text.push_str(&format!("\n  because: {cause}"));
            }
            if let Some(hint) = &self.hint {
                text.push_str(&format!("\nnext: {hint}"));
            }
            crate::text::err(&text);
        }
        ExitCode::from(self.code)
    }
}

impl From<runner::Error> for CommandError {
    fn from(error: runner::Error) -> CommandError {
        let (code, hint) = classify(&error);
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        CommandError { code, message: error.to_string(), causes, hint: error.hint().map(str::to_owned).or(hint) }
    }
}

impl From<store::Error> for CommandError {
    fn from(error: store::Error) -> CommandError {
        runner::Error::from(error).into()
    }
}

impl From<GitError> for CommandError {
    fn from(error: GitError) -> CommandError {
        runner::Error::from(error).into()
    }
}

fn classify(error: &runner::Error) -> (u8, Option<String>) {
    let hint = |text: &str| Some(text.to_owned());
    match error {
        runner::Error::Usage { .. } => (code::USAGE, None),
        runner::Error::Declined { .. } => (code::FAILED, None),
        runner::Error::Waiting { .. } => (code::WAITING, None),
        runner::Error::Store(store::Error::Refused(_)) => (code::USAGE, None),
        runner::Error::Store(store::Error::Damaged { .. }) => {
            (code::INTEGRITY, hint("nothing was changed; `norma verify` names every problem"))
        }
        runner::Error::Store(store::Error::Replaced(_)) => (
            code::ENVIRONMENT,
            hint(
                "your branch, index and files are as they were; put the state directory back, or start anew: norma init",
            ),
        ),
        runner::Error::Store(store::Error::NoState(_)) => (code::ENVIRONMENT, hint("make one: norma init")),
        runner::Error::Store(error) if error.is_disk_full() => (
            code::ENVIRONMENT,
            hint("free some space; nothing that was acknowledged is lost, `norma resume @last` goes on"),
        ),
        runner::Error::Git(GitError::NotARepository { .. }) => {
            (code::ENVIRONMENT, hint("norma works in a git repository: git init, or cd to one"))
        }
        runner::Error::Git(GitError::BareRepository { .. }) => {
            (code::ENVIRONMENT, hint("make a checkout of it: git clone, or git worktree add"))
        }
        runner::Error::Git(GitError::NoCommits { .. }) => {
            (code::ENVIRONMENT, hint("a run starts from a commit: git add … && git commit"))
        }
        runner::Error::Git(GitError::GitMissing) => (code::ENVIRONMENT, hint("install git")),
        _ => (code::ENVIRONMENT, None),
    }
}
