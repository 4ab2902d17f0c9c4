//! `norma quarantine`: sets a damaged run aside, so that nothing stumbles over it any more. Nothing is deleted.

use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use runner::Request;
use std::process::ExitCode;
use store::Reader;

/// Set a damaged run aside, so that its task can be run again; nothing is deleted
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma doctor   # names damaged runs\n  norma quarantine 20260123-145501-1a2b3c --reason \"the disk lost a block\""
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if self.reason.trim().is_empty() {
            return Err(CommandError::usage("the reason is empty", "give a reason for the record"));
        }
        let user = here.repository()?;
        let run = find(&Reader::open(&here.layout_of(&user))?, &self.run)?;
        let (reason, by) = (self.reason, here.person(&user));
        let (message, value) = here.request(Request::Quarantine { run, reason, by })?;
        Ok(here.print(&value, || message))
    }
}

/// A run that was removed from the database is known to the audit log alone, by its whole name.
fn find(reader: &Reader, given: &str) -> Outcome<String> {
    match reader.missing_runs()?.into_iter().find(|missing| missing.run_id == given) {
        Some(missing) => Ok(missing.run_id),
        None => Ok(reader.find_run(given)?),
    }
}
