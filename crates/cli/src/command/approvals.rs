//! `norma approvals`: what runs wait for, and what was said.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::{ApprovalId, ApprovalState, ApprovalView, lines_of_reason};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use store::Reader;

/// List what needs your approval
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma approvals\n  norma approvals --all --json\n  norma approvals --watch")]
pub(crate) struct Args {
    /// Include those that were answered, used or expired
    #[arg(long, conflicts_with = "watch")]
    all: bool,
    /// Go on, and print each as it is asked; Ctrl-C ends it
    #[arg(long)]
    watch: bool,
}

/// How often somebody who watches looks.
const POLL: Duration = Duration::from_millis(200);

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if self.watch {
            return watch(here);
        }
        let found = here.reader()?.approvals(!self.all)?;
        Ok(here.print(&found, || match found.is_empty() {
            true if self.all => "no approvals yet".to_owned(),
            true => "nothing needs approval".to_owned(),
            false => found.iter().map(describe).collect::<Vec<_>>().join("\n"),
        }))
    }
}

/// Prints what is asked, once each, and how it was answered.
fn watch(here: &Surroundings) -> Outcome<ExitCode> {
    let (reader, mut told): (Reader, BTreeMap<ApprovalId, ApprovalState>) = (here.reader()?, BTreeMap::new());
    loop {
        let found = reader.approvals(false)?;
        for asked in found.iter().rev() {
            let before = told.insert(asked.id, asked.state);
            let is_news = match before {
                None => asked.state == ApprovalState::Pending,
                Some(before) => before != asked.state,
            };
            if is_news {
                here.print(asked, || describe(asked));
            }
        }
        std::thread::sleep(POLL);
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
