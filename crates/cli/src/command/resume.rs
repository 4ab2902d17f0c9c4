//! `norma resume`: goes on with a paused run, or from the tree of a stopped one.

use super::run::{Interrupts, JOBS_DEFAULT, Session, trusted_settings, wait_for_lock};
use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use crate::text::out;
use contract::{Budgets, RunView, Status, Usd, Workflow};
use run::Run;
use runner::Order;
use std::process::ExitCode;
use store::Reader;

/// Budgets that items are not held to: each says itself how large its change may be, and there are no rounds.
const ONLY_OF_THE_LOOP: [&str; 4] = ["max_iterations", "max_patch_kb", "max_changed_files", "max_risky_files"];

/// Go on with a paused run; with --budget, from where a stopped one ended
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
    /// A new limit for a run that was stopped by its budget; makes a new run from its tree (can be repeated)
    #[arg(long, value_name = "NAME=N")]
    budget: Vec<String>,
    /// Do not wait if another norma is at work; exit 4
    #[arg(long)]
    no_wait: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let interrupts = Interrupts::install()?;
        let context = here.context()?;
        let settings = trusted_settings(here, &context)?;
        let owner = wait_for_lock(here, &context, self.no_wait)?;
        let reader = Reader::open(&context.layout)?;
        let session = Session { here, context: &context, owner: &owner, settings, interrupts };
        let Some(run) = &self.run else { return session.resume_all(&reader) };
        let slug = reader.find_run(run)?;
        let view = match self.budget.is_empty() {
            true => session.resume(&slug, JOBS_DEFAULT)?,
            false => session.start_child(reader.load(&slug)?.0, &self.budget)?,
        };
        session.finish(&view)
    }
}

impl Session<'_> {
    /// Resumes every paused run; answers the code of the first that did not succeed. One that is interrupted ends it.
    fn resume_all(&self, reader: &Reader) -> Outcome<ExitCode> {
        let paused = reader.open_runs()?.into_iter().filter(|(run, _)| run.status == Status::Paused);
        let slugs: Vec<String> = paused.map(|(run, _)| run.id.slug().to_string()).collect();
        if slugs.is_empty() && !self.here.json {
            out("no run is paused");
        }
        let mut failed = None;
        for slug in slugs {
            let view = self.resume(&slug, JOBS_DEFAULT)?;
            let ended = self.finish(&view)?;
            if view.status != Status::Succeeded {
                failed = failed.or(Some(ended));
            }
            if view.status == Status::Paused {
                break;
            }
        }
        Ok(failed.unwrap_or(ExitCode::SUCCESS))
    }

    /// A new run from the tree of a stopped one, with more to use up.
    fn start_child(&self, parent: Run, given: &[String]) -> Outcome<RunView> {
        self.require_own(&parent, "it is not gone on from")?;
        let contract = &parent.started.contract;
        let example = match contract.workflow {
            Workflow::Pdca => "for example --budget max_iterations=10",
            Workflow::Batch => "for example --budget max_tokens=200000",
        };
        let budgets = budgets(contract.workflow, contract.budgets.clone(), given)
            .map_err(|problem| CommandError::usage(problem, example))?;
        match contract.workflow {
            Workflow::Batch => {
                let view = self.start_after(&parent, budgets, JOBS_DEFAULT)?;
                self.say_yes_again(view, &parent.id.slug(), JOBS_DEFAULT)
            }
            Workflow::Pdca => self.start(Order {
                goal: contract.goal.clone(),
                criteria: contract.acceptance_criteria.clone(),
                task: contract.task_id,
                budgets: Some(budgets),
                parent: Some(Box::new(parent)),
                agent: None,
            }),
        }
    }
}

/// The budgets that were, with those that are given in their place, or what is wrong with one.
fn budgets(workflow: Workflow, mut budgets: Budgets, given: &[String]) -> Result<Budgets, String> {
    for text in given {
        let bad = || format!("{text:?} is not a budget");
        let (name, number) = text.split_once('=').ok_or_else(bad)?;
        if workflow == Workflow::Batch && ONLY_OF_THE_LOOP.contains(&name) {
            return Err(format!(
                "{name} is a budget of the loop; contracts have max_tokens, max_cost_usd and max_minutes"
            ));
        }
        if name == "max_cost_usd" {
            budgets.max_cost_usd = Some(Usd::parse(number).filter(|amount| amount.0 > 0).ok_or_else(bad)?);
            continue;
        }
        if name == "max_tokens" {
            budgets.max_tokens = Some(number.parse().ok().filter(|number| *number > 0).ok_or_else(bad)?);
            continue;
        }
        let number: u32 = number.parse().ok().filter(|number| *number > 0).ok_or_else(bad)?;
        match name {
            "max_iterations" => budgets.max_iterations = number,
            "max_patch_kb" => budgets.max_patch_kb = Some(number),
            "max_changed_files" => budgets.max_changed_files = Some(number),
            "max_risky_files" => budgets.max_risky_files = Some(number),
            "max_minutes" => budgets.max_minutes = Some(number),
            _ => return Err(bad()),
        }
    }
    Ok(budgets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(workflow: Workflow, given: &[&str], expected: Result<(u32, Option<u64>), &str>) {
        let before = serde_json::from_str(r#"{"max_iterations": 5, "max_tokens": 7}"#).unwrap();
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        match (budgets(workflow, before, &given), expected) {
            (Ok(found), Ok(expected)) => assert_eq!((found.max_iterations, found.max_tokens), expected),
            (Err(problem), Err(words)) => assert!(problem.contains(words), "{problem}"),
            (found, _) => panic!("{given:?}: {found:?}"),
        }
    }

    #[test]
    fn what_is_given_takes_the_place_of_what_was() {
        check(Workflow::Batch, &["max_tokens=9", "max_minutes=1"], Ok((5, Some(9))));
        check(Workflow::Batch, &["max_cost_usd=0.50"], Ok((5, Some(7))));
        check(Workflow::Pdca, &["max_iterations=12"], Ok((12, Some(7))));
    }

    #[test]
    fn a_budget_that_cannot_apply_is_named() {
        for name in ONLY_OF_THE_LOOP {
            check(Workflow::Batch, &[&format!("{name}=3")], Err("is a budget of the loop"));
            check(Workflow::Pdca, &[&format!("{name}=0")], Err("is not a budget"));
        }
        for text in ["max_tokens", "max_tokens=", "max_tokens=0", "max_tokens=-1", "max_cost_usd=x", "tokens=1"] {
            check(Workflow::Batch, &[text], Err("is not a budget"));
        }
    }
}
