//! `norma gc`: removes what nobody needs any more.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::Request;
use std::process::ExitCode;

/// Remove what ended runs left in your repository; events and evidence are kept
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma gc")]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let (message, removed) = here.request(Request::Gc)?;
        Ok(here.print(&serde_json::json!({"removed": removed}), || message))
    }
}
