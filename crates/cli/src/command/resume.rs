//! `norma resume`: continues a paused run, or a stopped one from its tree.

use super::run::JOBS_DEFAULT;
use crate::error::Outcome;
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::out;
use contract::Status;
use runner::Start;
use std::process::ExitCode;

/// Continue a paused run; with --budget, one that its budget holds or has stopped
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma resume @last\n  norma resume --all   # every paused run, oldest first\n  norma resume @last --budget max_iterations=10   # the loop\n  norma resume @last --budget max_tokens=200000   # a contract or a batch: what succeeded stays done"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    run: Option<String>,
    /// Every paused run, oldest first
    #[arg(long, conflicts_with = "budget")]
    all: bool,
    /// A new limit: for a run that waits for more of a budget, or `stop`; or for one that its budget has stopped, as a
    /// new run from its tree (can be repeated)
    #[arg(long, value_name = "NAME=N")]
    budget: Vec<String>,
    /// Exit with code 4 if another norma is running here
    #[arg(long)]
    no_wait: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let mut session = Session::open(here, Asks::of(self.no_wait, false))?;
        let Some(run) = &self.run else {
            return resume_all(&mut session);
        };
        let (run, jobs, budgets) = (session.reader()?.find_run(run)?, JOBS_DEFAULT, self.budget);
        let view = session.carry_out(&match budgets.is_empty() {
            true => Start::Resume { run, jobs, approved_by: None },
            false => Start::Extend { run, budgets, jobs, by: session.person() },
        })?;
        session.finish(&view)
    }
}

/// Resumes every paused run; answers the code of the first that did not succeed. One that is interrupted ends it.
fn resume_all(session: &mut Session<'_>) -> Outcome<ExitCode> {
    let paused = session.reader()?.open_runs()?.into_iter().filter(|(run, _)| run.status == Status::Paused);
    let slugs: Vec<String> = paused.map(|(run, _)| run.id.slug().to_string()).collect();
    if slugs.is_empty() && !session.here.json {
        out("no run is paused");
    }
    let mut failed = None;
    for run in slugs {
        let view = session.carry_out(&Start::Resume { run, jobs: JOBS_DEFAULT, approved_by: None })?;
        let ended = session.finish(&view)?;
        if view.status != Status::Succeeded {
            failed = failed.or(Some(ended));
        }
        if view.status == Status::Paused {
            break;
        }
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}
