//! `norma resume`: goes on with a paused run, or from the tree of a stopped one.

use super::run::{Interrupts, Session, trusted_settings, wait_for_lock};
use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use contract::{Budgets, Status, Usd};
use run::Run;
use runner::Order;
use std::process::ExitCode;
use store::Reader;

/// Go on with a paused run; with --budget, from where a stopped one ended
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  norma resume @last\n  norma resume @last --budget max_iterations=10")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
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
        let slug = reader.find_run(&self.run)?;
        let session = Session { here, context: &context, owner: &owner, settings, interrupts };
        let view = if self.budget.is_empty() {
            session.resume(&slug, super::run::JOBS_DEFAULT)?
        } else {
            session.start(child(reader.load(&slug)?.0, &self.budget)?)?
        };
        Ok(session.finish(&view))
    }
}

fn child(parent: Run, given: &[String]) -> Outcome<Order> {
    if parent.status != Status::Stopped {
        let message = format!("run {} is {}; only a stopped run can be given more", parent.id.slug(), parent.status);
        return Err(CommandError::usage(message, "a paused run goes on without --budget"));
    }
    let contract = &parent.started.contract;
    Ok(Order {
        goal: contract.goal.clone(),
        criteria: contract.acceptance_criteria.clone(),
        task: contract.task_id,
        budgets: Some(budgets(contract.budgets.clone(), given)?),
        parent: Some(Box::new(parent)),
        agent: None,
    })
}

fn budgets(mut budgets: Budgets, given: &[String]) -> Outcome<Budgets> {
    for text in given {
        let bad = || CommandError::usage(format!("{text:?} is not a budget"), "for example --budget max_iterations=10");
        let (name, number) = text.split_once('=').ok_or_else(bad)?;
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
