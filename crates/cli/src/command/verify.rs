//! `norma verify`: is a run what its log says?

use crate::error::{Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use std::process::ExitCode;
use store::{Reader, Verification};

/// Check a run's log, chain and evidence
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma verify @last   # exit 0 verified, 5 not")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let reader = Reader::open(&layout)?;
        let slug = reader.find_run(&self.run)?;
        let verified = runner::verify_run(&reader, &here.trust_of(&layout), &slug)?;
        here.print(&verified, || describe(&verified));
        Ok(if verified.verified { ExitCode::SUCCESS } else { ExitCode::from(code::INTEGRITY) })
    }
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
