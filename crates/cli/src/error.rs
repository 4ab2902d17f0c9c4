//! What a person or a program is told when something did not work: what happened, why, and what to do next.

use crate::text::out;
use runner::git::GitError;
use runner::{Part, Unplanned};
use std::process::ExitCode;

/// Exit codes; the same for every verb.
pub(crate) use runner::exit as code;

/// An error at the edge.
pub(crate) struct CommandError {
    pub(crate) code: u8,
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

    /// What the owner answered, in its words.
    pub(crate) fn refused(code: u8, message: String, causes: Vec<String>, hint: Option<String>) -> CommandError {
        CommandError { code, message, causes, hint }
    }

    /// What went wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
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

/// What clap has to say: help and versions as they are, and usage errors in the form that was asked for.
pub(crate) fn misused(error: &clap::Error) -> ExitCode {
    let asked_for_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if !error.use_stderr() || !asked_for_json {
        // As with any other text: whoever does not want it has closed the pipe.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(code::USAGE));
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let rest = lines.filter(|line| !line.starts_with("For more information")).map(str::to_owned);
    let (tips, causes): (Vec<String>, Vec<String>) =
        rest.partition(|line| line.starts_with("tip:") || line.starts_with("Usage:"));
    let hint = tips.join("; ");
    CommandError { code: code::USAGE, message, causes, hint: Some(hint).filter(|hint| !hint.is_empty()) }.report(true)
}

impl From<runner::Error> for CommandError {
    fn from(error: runner::Error) -> CommandError {
        let (message, causes) = (error.to_string(), error.causes());
        CommandError { code: error.exit_code(), message, causes, hint: error.hint().map(str::to_owned) }
    }
}

/// What was typed is named by its flag.
impl From<Unplanned> for CommandError {
    fn from(unplanned: Unplanned) -> CommandError {
        let (flag, error) = match unplanned {
            Unplanned::Contract(submitted) => return crate::command::contract::refusal("that contract", *submitted),
            Unplanned::At(Part::Allow(_), error) => ("--allow ", error),
            Unplanned::At(Part::Test(_), error) => ("--test ", error),
            Unplanned::At(_, error) | Unplanned::Other(error) => ("", error),
        };
        let told = CommandError::from(error);
        CommandError { message: format!("{flag}{}", told.message), ..told }
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
