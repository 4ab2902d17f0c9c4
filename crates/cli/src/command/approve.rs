//! `norma approve`: a person says yes to what a run waits for.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use contract::ApprovalDecision;
use std::process::ExitCode;

/// Say yes to what a run waits for; it counts for that run and these reasons, once
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma approvals\n  norma approve 019beb59 --reason \"looked at the scope\"")]
pub(crate) struct Args {
    /// Approval id, or a unique prefix of it
    id: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        super::answer(here, &self.id, ApprovalDecision::Granted, self.reason)
    }
}
