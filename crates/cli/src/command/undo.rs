//! `norma undo`: takes a landing back.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::Request;
use std::process::ExitCode;

/// Undo a landing, if the branch has not moved since
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma undo @last")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last")]
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        super::change_run(here, &self.run, |run| Request::Undo { run })
    }
}
