//! `norma pipeline`: from a sentence to a merged change. A PM turns it into a contract, a tech lead splits that, workers carry
//! out the parts side by side, reviewers look at them, norma tests, has them fixed and merges them.

use super::batch::parse_jobs;
use super::contract::read;
use super::run::JOBS_DEFAULT;
use super::run::agent;
use super::work::text;
use crate::ending::{ending, exit_code};
use crate::error::{CommandError, Outcome, code};
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::{err, key, out, prompt, safe};
use contract::Config;
use runner::{PipelineWish, Planned, Seats, Start, Typing, Wanted};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Plan, split, carry out, review, test, fix and merge what you want in a sentence
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma pipeline \"make the parser accept trailing commas\"\n  norma pipeline --contract contract.json --reviewer claude --yes\n  norma pipeline --contract contract.json --plan parts.json --yes\n\nRoles are the entries pm, tech_lead, worker and reviewer of \"agents\". Without a PM the contract follows from the repository by\nrules; without a tech lead it stays one; without a reviewer no review is asked for (norma help pipelines)."
)]
pub(crate) struct Args {
    /// What you want, in a sentence
    #[arg(value_name = "SENTENCE", required_unless_present_any = ["contract", "plan"], conflicts_with = "contract")]
    sentence: Option<String>,
    /// A task contract, in place of the PM
    #[arg(long, value_name = "FILE")]
    contract: Option<PathBuf>,
    /// Its parts as {"contracts": [...]}, in place of the tech lead
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Who turns the sentence into a contract
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["contract", "plan"])]
    pm: Option<String>,
    /// Who splits the contract
    #[arg(long, value_name = "AGENT", conflicts_with = "plan")]
    tech_lead: Option<String>,
    /// Who carries out the parts
    #[arg(long, value_name = "AGENT")]
    worker: Option<String>,
    /// Who reviews them
    #[arg(long, value_name = "AGENT")]
    reviewer: Option<String>,
    /// How many contracts are worked on at once
    #[arg(long, short, value_name = "N", default_value_t = JOBS_DEFAULT, value_parser = parse_jobs)]
    jobs: usize,
    /// Start without asking
    #[arg(long)]
    yes: bool,
    /// Approve a wide scope or a protected path of the contract that you wrote
    #[arg(long)]
    yes_wide: bool,
    /// Have the norma that is at work do it, and leave
    #[arg(long)]
    detach: bool,
    /// Leave at once if another norma is at work here
    #[arg(long)]
    no_wait: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = here.context_to_be()?;
        let named = here.config.as_ref().map(|path| here.cwd.join(path));
        let runner::InForce { settings, .. } = runner::settings_in_force(&context, named.as_deref())?;
        let mut wish = self.wish(here)?;
        let has_pm = wish.pm.is_some() || settings.config.agents.contains_key("pm");
        let is_written = wish.contract.is_some() || wish.plan.is_some();
        if !is_written {
            self.survey(here, &context, named.as_deref(), has_pm, &mut wish)?;
        }
        let seats = wish.seats(&settings.config)?;
        if let Some(left) = self.confirm(here, &wish, &seats, &settings.config)? {
            return Ok(left);
        }
        carry_out(here, wish, self.jobs, self.yes_wide, Asks::of(self.no_wait, self.detach))
    }

    fn wish(&self, here: &Surroundings) -> Outcome<PipelineWish> {
        let document = |file: &Option<PathBuf>| {
            file.as_ref().map(|file| text(&safe(&file.to_string_lossy()), read(&here.cwd.join(file))?)).transpose()
        };
        let goal = self.sentence.clone().unwrap_or_default();
        if self.sentence.is_some() && goal.trim().is_empty() {
            return Err(CommandError::usage("the sentence is empty", "say what you want"));
        }
        Ok(PipelineWish {
            goal,
            contract: document(&self.contract)?,
            plan: document(&self.plan)?,
            pm: self.pm.clone(),
            tech_lead: self.tech_lead.clone(),
            worker: self.worker.clone(),
            reviewer: self.reviewer.clone(),
            tests: Vec::new(),
        })
    }

    /// What the repository says by itself: the commands that it is tested by, and without a PM the contract.
    fn survey(
        &self,
        here: &Surroundings,
        context: &runner::Context,
        named: Option<&std::path::Path>,
        has_pm: bool,
        wish: &mut PipelineWish,
    ) -> Outcome<()> {
        let sentence = wish.goal.clone();
        let typing = Typing { cwd: &here.cwd, allow: &[], tests: &[], criteria: &[] };
        let wanted = Wanted {
            sentence: &sentence,
            typing,
            agent: wish.worker.as_deref(),
            model: None,
            budgets: &[],
            answers: &Default::default(),
        };
        let pick = |ready: &[runner::Surveyed]| agent::pick(here, context, ready);
        let planned = match runner::plan(context, (named, here.mode), &wanted, pick) {
            Ok(planned) => planned,
            // A PM looks around by itself.
            Err(_) if has_pm => return Ok(()),
            Err(unplanned) => return Err(unplanned.into()),
        };
        Ok(wish.complete(&planned)?)
    }

    /// Shows what is about to start, and asks for it; the exit code where it was left.
    fn confirm(
        &self,
        here: &Surroundings,
        wish: &PipelineWish,
        seats: &Seats,
        config: &Config,
    ) -> Outcome<Option<ExitCode>> {
        let contract: Option<Value> = wish.contract.as_ref().and_then(|text| serde_json::from_str(text).ok());
        let shown = preview(wish, seats, contract.as_ref(), config);
        if self.yes {
            if !here.json {
                shown.iter().for_each(|line| err(line));
            }
            return Ok(None);
        }
        if here.is_attended() {
            shown.iter().for_each(|line| err(line));
            prompt("r run · q leave ");
            return match key() {
                Some('r' | 'R' | 'y' | 'Y' | '\n' | '\r') => Ok(None),
                _ => {
                    let hint = "start over when you like";
                    Err(CommandError::new(code::WAITING, "left: nothing was started", hint))
                }
            };
        }
        match here.json {
            true => {
                let value = json!({"goal": wish.goal, "seats": seats, "contract": contract, "next": NEXT});
                out(&value.to_string());
            }
            false => {
                shown.iter().for_each(|line| out(line));
                err(&format!("nothing was started\nnext: {NEXT}"));
            }
        }
        Ok(Some(ExitCode::from(code::WAITING)))
    }
}

/// Has a sentence that a contract was proposed for go through a pipeline instead.
pub(crate) fn of_sentence(
    here: &Surroundings,
    sentence: &str,
    planned: &Planned<'_>,
    yes_wide: bool,
    asks: Asks,
) -> Outcome<ExitCode> {
    let mut wish = PipelineWish { goal: sentence.to_owned(), ..PipelineWish::default() };
    wish.complete(planned)?;
    let config = &planned.settings.config;
    let contract: Option<Value> = wish.contract.as_ref().and_then(|text| serde_json::from_str(text).ok());
    preview(&wish, &wish.seats(config)?, contract.as_ref(), config).iter().for_each(|line| err(line));
    carry_out(here, wish, JOBS_DEFAULT, yes_wide, asks)
}

fn carry_out(here: &Surroundings, wish: PipelineWish, jobs: usize, yes_wide: bool, asks: Asks) -> Outcome<ExitCode> {
    let mut session = Session::at(here, here.context_or_private()?, asks)?;
    let approved_by = yes_wide.then(|| session.person());
    let view = session.carry_out_to_result(Start::Pipeline { wish: Box::new(wish), jobs, approved_by })?;
    if session.leaves() {
        return session.leave(&view, yes_wide);
    }
    let (reader, run) = (session.reader()?, session.run(&view.run_id)?);
    session.print(&view, || ending(&reader, &view, &run, None))?;
    Ok(exit_code(&view))
}

/// How to have it run.
const NEXT: &str = "the same with --yes runs it";

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// What is about to start, in a few lines.
fn preview(wish: &PipelineWish, seats: &Seats, contract: Option<&Value>, config: &Config) -> Vec<String> {
    let goal = match (wish.goal.is_empty(), contract) {
        (true, Some(contract)) => contract["inputs"]["spec"].as_str().unwrap_or_default().to_owned(),
        _ => wish.goal.clone(),
    };
    let somebody = |seat: &Option<String>, else_: &str| seat.clone().unwrap_or_else(|| else_.to_owned());
    let (pm, parts) = match (&wish.plan, contract) {
        (Some(_), _) => ("a person".to_owned(), "a person".to_owned()),
        (None, Some(_)) if wish.goal.is_empty() => ("a person".to_owned(), somebody(&seats.tech_lead, "stays one")),
        (None, _) => (somebody(&seats.pm, "rules"), somebody(&seats.tech_lead, "stays one")),
    };
    let reviewers = match seats.reviewers.is_empty() {
        true => "not requested".to_owned(),
        false => format!("{} (quorum {})", seats.reviewers.join(", "), config.pipeline.quorum),
    };
    let listed = |key: &str| contract.map(|it| strings(&it[key])).filter(|it| !it.is_empty());
    let paths = listed("allowed_paths").map_or_else(|| "what the contract names".to_owned(), |paths| paths.join(", "));
    let tests = contract.map(|it| it["acceptance_tests"].as_array().cloned().unwrap_or_default());
    let tests: Vec<String> =
        tests.unwrap_or_default().iter().filter_map(|it| it["cmd"].as_str().map(str::to_owned)).collect();
    let tests = if tests.is_empty() { "what the contract names".to_owned() } else { tests.join(" · ") };
    let lines = [
        ("pipeline", goal),
        ("contract", format!("{pm} · split: {parts}")),
        ("agent", format!("{} · review: {reviewers}", seats.worker)),
        ("may write", paths),
        ("tests", tests),
        ("network", "the models of these agents only".to_owned()),
    ];
    lines.into_iter().map(|(name, what)| format!("{name:<10} {}", safe(&what))).collect()
}
