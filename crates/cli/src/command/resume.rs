//! `norma resume`: continues a paused run, or a stopped one from its tree.

use super::run::JOBS_DEFAULT;
use crate::error::{Outcome, code};
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
        let Some(run) = &self.run else {
            return resume_all(here, self.no_wait);
        };
        let run = here.reader()?.find_run(run)?;
        if self.budget.is_empty() && here.reader()?.is_graph(&run)? {
            return resume_graph(here, run);
        }
        let mut session = Session::open(here, Asks::of(self.no_wait, false))?;
        let (jobs, budgets) = (JOBS_DEFAULT, self.budget);
        let view = session.carry_out_to_result(match budgets.is_empty() {
            true => Start::Resume { run, jobs, approved_by: None },
            false => Start::Extend { run, budgets, jobs, by: session.person() },
        })?;
        session.finish(&view)
    }
}

/// A graph goes on until somebody says that it is done: nobody waits here for that, and whoever owns the state directory
/// carries it on. One that was interrupted a server continues by itself, perhaps before it is asked to.
fn resume_graph(here: &Surroundings, run: String) -> Outcome<ExitCode> {
    let mut session = Session::open(here, Asks::AndLeaves)?;
    let resumed =
        session.carry_out_to_result(Start::Resume { run: run.clone(), jobs: JOBS_DEFAULT, approved_by: None });
    let view = match resumed {
        Err(error) if error.code == code::FAILED => {
            let now = session.reader()?.run(&run)?.filter(|view| !view.status.is_terminal());
            now.ok_or(error)?
        }
        resumed => resumed?,
    };
    session.finish(&view)
}

/// Resumes every paused run, graphs first; answers the code of the first that did not succeed. One that is interrupted ends
/// it.
fn resume_all(here: &Surroundings, no_wait: bool) -> Outcome<ExitCode> {
    let graphs = left_graphs(here)?;
    let has_graphs = !graphs.is_empty();
    for graph in graphs {
        resume_graph(here, graph)?;
    }
    // Whoever opens it as its owner finds what was left running, and pauses it.
    let mut session = Session::open(here, Asks::of(no_wait, false))?;
    let reader = session.reader()?;
    let paused =
        reader.open_runs()?.into_iter().filter(|(run, _)| run.status == Status::Paused && run.graph().is_none());
    let others: Vec<String> = paused.map(|(run, _)| run.id.slug().to_string()).collect();
    if others.is_empty() && !has_graphs && !here.json {
        out("no run is paused");
    }
    let mut failed = None;
    for run in others {
        let view = session.carry_out_to_result(Start::Resume { run, jobs: JOBS_DEFAULT, approved_by: None })?;
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

/// The graphs that are paused, and those that somebody was carrying out who is gone.
fn left_graphs(here: &Surroundings) -> Outcome<Vec<String>> {
    let reader = here.reader()?;
    let is_alone = !runner::is_owned(reader.layout());
    let is_left = |status: Status| status == Status::Paused || (status == Status::Running && is_alone);
    let open = reader.open_runs()?.into_iter().map(|(run, _)| run);
    Ok(open.filter(|run| run.graph().is_some() && is_left(run.status)).map(|run| run.id.slug().to_string()).collect())
}
