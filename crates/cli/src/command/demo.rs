//! `norma demo`: everything once, on a small repository of its own.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use std::process::ExitCode;

/// See norma work on a small repository in a temporary folder (needs only git and sh)
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma demo")]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        crate::demo::run(here)
    }
}
