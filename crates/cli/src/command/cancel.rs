//! `norma cancel`: ends a run, from any terminal.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::Request;
use std::process::ExitCode;

/// End a run; its evidence stays
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma cancel @last")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        super::change_run(here, &self.run, |run| Request::Cancel { run })
    }
}
