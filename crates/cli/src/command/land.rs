//! `norma land`: moves a passed run's result onto the branch.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::Request;
use std::process::ExitCode;

/// Move the result of a passed run onto your branch
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma land @last")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        super::change_run(here, &self.run, |run| Request::Land { run })
    }
}
