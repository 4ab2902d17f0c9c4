//! `norma events`: the log of a run, line by line, as it is stored.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{out, safe};
use contract::EventLine;
use std::process::ExitCode;
use std::time::Duration;
use store::Reader;

/// How many lines are read at once.
const PAGE: u64 = 1000;

/// How often a follower looks for more.
const POLL: Duration = Duration::from_millis(100);

/// Print the log of a run
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma events @last --follow\n  norma events @last --json | jq .type")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
    /// Go on until the run has ended
    #[arg(long)]
    follow: bool,
    /// Only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let reader = Reader::open(&layout)?;
        let slug = reader.find_run(&self.run)?;
        let mut after = self.after;
        loop {
            // Asked before reading, so that the last lines are not missed.
            let ended =
                reader.run(&slug)?.is_none_or(|view| here.truthful(&layout, view).status != contract::Status::Running);
            let lines = reader.lines(&slug, after, PAGE)?;
            for line in &lines {
                after += 1;
                if here.json { out(line) } else { out(&readable(line)) }
            }
            if lines.is_empty() && (!self.follow || ended) {
                return Ok(ExitCode::SUCCESS);
            }
            if lines.is_empty() {
                std::thread::sleep(POLL);
            }
        }
    }
}

fn readable(line: &str) -> String {
    match EventLine::parse(line.as_bytes()) {
        Ok(event) => format!("{:>4}  {}  {:<16}  {}", event.seq, event.ts, event.kind, safe(&event.message)),
        Err(_) => format!("      unreadable: {}", safe(line)),
    }
}
