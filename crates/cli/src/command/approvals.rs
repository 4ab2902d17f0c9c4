//! `norma approvals`: what runs wait for, and what was said.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::{ApprovalView, lines_of_reason};
use std::process::ExitCode;

/// List what needs your approval
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma approvals\n  norma approvals --all --json")]
pub(crate) struct Args {
    /// Include those that were answered, used or expired
    #[arg(long)]
    all: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let found = here.reader()?.approvals(!self.all)?;
        Ok(here.print(&found, || match found.is_empty() {
            true if self.all => "no approvals yet".to_owned(),
            true => "nothing needs approval".to_owned(),
            false => found.iter().map(describe).collect::<Vec<_>>().join("\n"),
        }))
    }
}

/// One approval. The id is whole: they begin with the time, so those of one evening begin alike.
fn describe(asked: &ApprovalView) -> String {
    let mut lines = vec![format!("{}  {:<7}  run {}  until {}", asked.id, asked.state, asked.run_id, asked.expires_at)];
    let reasons = asked.reasons.iter().flat_map(|reason| lines_of_reason(reason));
    lines.extend(reasons.map(|line| format!("    {}", safe(line))));
    if let (Some(decision), Some(by)) = (asked.decision, &asked.by) {
        let why = asked.reason.as_ref().map(|reason| format!(": {}", safe(reason))).unwrap_or_default();
        lines.push(format!("    {} by {}{why}", decision.as_str(), safe(by)));
    }
    lines.join("\n")
}
