//! `norma approve`: a person approves what a run waits for.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use contract::{ApprovalDecision, ApprovalTerms};
use std::process::ExitCode;

/// Approve what a run waits for, for that run and these reasons only
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma approvals\n  norma approve 019beb59 --reason \"looked at the scope\"\n  norma approve 019beb59 --contract                 # and do not ask again\n  norma approve 019beb59 --instead \"cargo test -q\"   # run this command instead"
)]
pub(crate) struct Args {
    /// Approval id, or a unique prefix of it
    id: String,
    /// Allow once (default)
    #[arg(long, conflicts_with = "contract")]
    once: bool,
    /// Allow it for the rest of the run
    #[arg(long)]
    contract: bool,
    /// Run this command instead of the requested one
    #[arg(long, value_name = "COMMAND")]
    instead: Option<String>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let terms = ApprovalTerms { lasting: self.contract, instead: self.instead };
        super::answer(here, &self.id, ApprovalDecision::Granted, self.reason, terms)
    }
}
