//! `norma reindex`: rebuilds the index tables from the logs.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::Request;
use std::process::ExitCode;

/// Rebuild the index tables from the logs
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma reindex")]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let (message, runs) = here.request(Request::Reindex)?;
        Ok(here.print(&serde_json::json!({"runs": runs}), || message))
    }
}
