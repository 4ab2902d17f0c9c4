//! `norma deny`: a person says no to what a run waits for.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use contract::{ApprovalDecision, ApprovalTerms};
use std::process::ExitCode;

/// Deny what a run waits for
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma deny 019beb59 --reason \"src is too much; name the files\"")]
pub(crate) struct Args {
    /// Approval id, or a unique prefix of it
    id: String,
    /// Why, for the record and for the agent
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        super::answer(here, &self.id, ApprovalDecision::Denied, Some(self.reason), ApprovalTerms::default())
    }
}
