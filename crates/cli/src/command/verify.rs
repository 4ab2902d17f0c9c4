//! `norma verify`: is a run what its log says?

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use runner::Owner;
use std::process::ExitCode;
use store::{Reader, Roster, Verification};

/// Check a run's log, chain and evidence
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma verify @last   # exit 0 verified, 5 not\n  norma verify --all   # every run, and whether one is missing\n  norma verify --accept --reason \"restored from Monday's backup\"   # accept a state directory that was rolled back"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last", conflicts_with_all = ["all", "accept"])]
    run: String,
    /// Every run, and whether each that the audit log names is there
    #[arg(long)]
    all: bool,
    /// Accept a state directory that is older than its last checkpoint, or was rewritten; this is recorded
    #[arg(long, requires = "reason", conflicts_with = "all")]
    accept: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", requires = "accept")]
    reason: Option<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if let Some(reason) = self.reason {
            return accept(here, reason);
        }
        let layout = here.layout_of(&here.repository()?);
        let (reader, trust) = (Reader::open(&layout)?, here.trust_of(&layout));
        let verified = match self.all {
            false => {
                let found = runner::verify_run(&reader, &trust, &reader.find_run(&self.run)?)?;
                here.print(&found, || describe(&found));
                found.verified
            }
            true => {
                let found = runner::verify_all(&reader, &trust)?;
                here.print(&found, || describe_all(&found));
                found.verified
            }
        };
        Ok(if verified { ExitCode::SUCCESS } else { ExitCode::from(code::INTEGRITY) })
    }
}

fn accept(here: &Surroundings, reason: String) -> Outcome<ExitCode> {
    if reason.trim().is_empty() {
        return Err(CommandError::usage("the reason is empty", "give a reason for the record"));
    }
    let context = here.context()?;
    let head = Owner::accept_rollback(&context, reason, here.person(&context.user))?;
    Ok(here.print(&head, || format!("accepted; recorded as line {} of the audit log", head.seq)))
}

/// A line for each run; of one that does not verify, everything that is wrong.
fn describe_all(found: &Roster) -> String {
    let mut text = String::new();
    for run in &found.runs {
        match run.verified {
            true => text.push_str(&format!("{}  verified\n", run.run_id)),
            false => text.push_str(&format!("{}  NOT verified\n{}\n", run.run_id, describe(run))),
        }
    }
    for missing in &found.missing {
        text.push_str(&format!("{}  MISSING: {}\n", missing.run_id, safe(&missing.why)));
    }
    for aside in &found.quarantined {
        text.push_str(&format!("{}  set aside by {}: {}\n", aside.run_id, safe(&aside.by), safe(&aside.reason)));
    }
    let verdict = if found.verified { "verified" } else { "NOT verified" };
    text.push_str(&format!("{verdict}: {} runs, {} missing", found.runs.len(), found.missing.len()));
    text
}

fn describe(verified: &Verification) -> String {
    let mut text = String::new();
    for check in &verified.checks {
        let word = if check.problems.is_empty() { "ok" } else { "FAILED" };
        text.push_str(&format!("{:<14} {word}\n", check.name));
        for problem in &check.problems {
            text.push_str(&format!("               {}\n", safe(problem)));
        }
    }
    let verdict = if verified.verified { "verified" } else { "NOT verified" };
    text.push_str(&format!("{verdict}: {} events, {} files", verified.events, verified.files));
    text
}
