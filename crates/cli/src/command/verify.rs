//! `norma verify`: is a run what its log says?

use crate::error::{Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use std::process::ExitCode;
use store::{Reader, Roster, Verification};

/// Check a run's log, chain and evidence
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma verify @last   # exit 0 verified, 5 not\n  norma verify --all   # every run, and whether one is missing"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    run: Option<String>,
    /// Every run, and whether each that the audit log names is there
    #[arg(long)]
    all: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let (reader, trust) = (Reader::open(&layout)?, here.trust_of(&layout));
        let verified = match &self.run {
            Some(given) => {
                let found = runner::verify_run(&reader, &trust, &reader.find_run(given)?)?;
                here.print(&found, || describe(&found));
                found.verified
            }
            None => {
                let found = runner::verify_all(&reader, &trust)?;
                here.print(&found, || describe_all(&found));
                found.verified
            }
        };
        Ok(if verified { ExitCode::SUCCESS } else { ExitCode::from(code::INTEGRITY) })
    }
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
