//! `norma runs`: every run, newest first.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::short;
use contract::RunView;
use std::process::ExitCode;
use store::Reader;

/// How many runs people are shown at once.
const SHOWN: u64 = 30;

/// List runs, newest first
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma runs\n  norma runs --json | jq '.[] | select(.status == \"failed\") | .run_id'"
)]
pub(crate) struct Args {
    /// All of them, not only the newest
    #[arg(long)]
    all: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let reader = Reader::open(&layout)?;
        let limit = (!self.all && !here.json).then_some(SHOWN);
        let mut runs = reader.runs(limit)?;
        here.truthful(&layout, runs.iter_mut());
        for damage in reader.damaged_runs()? {
            for run in runs.iter_mut().filter(|run| run.run_id == damage.run_id) {
                run.damaged = Some(damage.why.clone());
            }
        }
        let count = reader.run_count()?;
        Ok(here.print(&runs, || {
            if runs.is_empty() {
                return "no runs yet; start one: norma run \"what you want\"".to_owned();
            }
            let mut lines: Vec<String> = runs.iter().map(line).collect();
            if count > runs.len() as u64 {
                lines.push(format!("… and {} more: norma runs --all", count - runs.len() as u64));
            }
            lines.join("\n")
        }))
    }
}

fn line(run: &RunView) -> String {
    let landed = if run.landed.is_some() { "landed" } else { "" };
    let verdict = run.verdict.map_or("-", contract::Verdict::as_str);
    let reason = run.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}  {:<9}  {verdict:<4}  {landed:<6}  {}{reason}", run.run_id, run.word(), short(&run.goal, 60))
}
