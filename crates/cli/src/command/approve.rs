//! `norma approve`: a person approves what a run waits for.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use contract::{ApprovalDecision, ApprovalTerms};
use std::process::ExitCode;

/// Approve what a run waits for; it counts for that run and these reasons, once
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma approvals\n  norma approve 019beb59 --reason \"looked at the scope\"\n  norma approve 019beb59 --contract                 # and do not ask again for the same\n  norma approve 019beb59 --instead \"cargo test -q\"   # this command, not that one"
)]
pub(crate) struct Args {
    /// Approval id, or a unique prefix of it
    id: String,
    /// Let it happen this once, which is what counts unless told otherwise
    #[arg(long, conflicts_with = "contract")]
    once: bool,
    /// Let the run do the same again without asking
    #[arg(long)]
    contract: bool,
    /// Let this command run instead of the one that was asked for
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
