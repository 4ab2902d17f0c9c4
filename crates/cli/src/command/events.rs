//! `norma events`: the log of a run, line by line, as it is stored.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{out, safe};
use contract::EventLine;
use runner::{Delta, Line, Lines};
use serde_json::json;
use std::process::ExitCode;
use store::Reader;

/// How many lines are read at once.
const PAGE: u64 = 1000;

/// Print the log of a run
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma events @last --follow\n  norma events @last --json | jq .type")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last")]
    run: String,
    /// Continue until the run stops, with what its agents are doing
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
        let print = |line: &str| if here.json { out(line) } else { out(&readable(line)) };
        loop {
            loop {
                let lines = reader.lines(&slug, after, PAGE)?;
                lines.iter().for_each(|line| print(line));
                after += lines.len() as u64;
                if lines.is_empty() {
                    break;
                }
            }
            let Some(mut told) = (if self.follow { Lines::follow(&layout, &slug, after)? } else { None }) else {
                return Ok(ExitCode::SUCCESS);
            };
            loop {
                match told.wait()? {
                    Line::Event(line) => {
                        print(&line);
                        after += 1;
                    }
                    Line::Uncommitted(delta) => uncommitted(here, &delta),
                    Line::Over(_) => return Ok(ExitCode::SUCCESS),
                    // Whoever was too slow, or whose owner is gone, asks again.
                    Line::Lost => break,
                }
            }
        }
    }
}

/// What is on no record, marked as such.
fn uncommitted(here: &Surroundings, delta: &Delta) {
    if here.json {
        return out(&json!({ "uncommitted": delta }).to_string());
    }
    if let Delta::Agent { event, .. } = delta {
        out(&format!("   ~  not recorded              {:<16}  {}", "", safe(&event.message())));
    }
}

pub(super) fn readable(line: &str) -> String {
    match EventLine::parse(line.as_bytes()) {
        Ok(event) => format!("{:>4}  {}  {:<16}  {}", event.seq, event.ts, event.kind, safe(&event.message)),
        Err(_) => format!("      unreadable: {}", safe(line)),
    }
}
