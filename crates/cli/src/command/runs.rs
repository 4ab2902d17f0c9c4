//! `norma runs`: the newest runs, or all of them. Programs get as many as people do, and are told on stderr that there are
//! more: who wants the newest run should not wait for ten thousand others.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::short;
use contract::RunView;
use std::process::ExitCode;
use store::Reader;

/// How many runs are listed unless somebody asks for another number.
const SHOWN: u64 = 30;

/// List runs, newest first
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma runs\n  norma runs --all --json | jq '.[] | select(.status == \"failed\") | .run_id'"
)]
pub(crate) struct Args {
    /// How many of the newest
    #[arg(long, value_name = "N", default_value_t = SHOWN)]
    limit: u64,
    /// All of them, not only the newest
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let reader = Reader::open(&layout)?;
        let limit = (!self.all).then_some(self.limit.min(i64::MAX as u64));
        let mut runs = reader.runs(limit)?;
        here.truthful(&layout, runs.iter_mut());
        for damage in reader.damaged_runs()? {
            for run in runs.iter_mut().filter(|run| run.run_id == damage.run_id) {
                run.damaged = Some(damage.why.clone());
            }
        }
        let more = reader.run_count()?.saturating_sub(runs.len() as u64);
        let more = (more > 0).then(|| format!("… and {more} more: norma runs --all"));
        let printed = here.print(&runs, || {
            if runs.is_empty() && more.is_none() {
                return "no runs yet; start one: norma run \"what you want\"".to_owned();
            }
            runs.iter().map(line).chain(more.clone()).collect::<Vec<_>>().join("\n")
        });
        if let Some(more) = more.filter(|_| here.json) {
            crate::text::err(&more);
        }
        Ok(printed)
    }
}

fn line(run: &RunView) -> String {
    let landed = if run.landed.is_some() { "landed" } else { "" };
    let verdict = run.verdict.map_or("-", contract::Verdict::as_str);
    let reason = run.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}  {:<9}  {verdict:<4}  {landed:<6}  {}{reason}", run.run_id, run.word(), short(&run.goal, 60))
}
