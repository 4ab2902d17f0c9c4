//! `norma run`: carries out a sentence, a task, a contract, a goal, or every task that is ready.

pub(crate) mod agent;
mod nothing;
mod preflight;
mod sentence;
mod shown;
mod what;

use super::work::{Document, Work};
use crate::error::Outcome;
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::{err, out, safe};
use contract::Status;
use runner::{Draft, InForce, Preview, Start, Typed, Typing};
use std::process::ExitCode;
use what::What;

/// How many items are worked on at once, unless told otherwise.
pub(crate) const JOBS_DEFAULT: usize = 2;

/// Run what you want in a sentence, a task, a contract, a goal, or every ready task
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma run \"let the parser accept floats\"   # norma proposes the contract; one key runs it\n  norma run \"fix the parser\" --agent claude --allow src --test \"cargo test\" --yes\n  norma run 1\n  norma run contract.json\n  norma run --goal \"fix the parser\" --ac \"cargo test passes\"   # plan, do, check, act\n  norma run \"fix the parser\" --yes --detach   # and norma watch\n  norma run --continue   # every ready task, dependencies first, past failures\n\nA flag that does not apply to what is run is an error."
)]
pub(crate) struct Args {
    /// A task (all digits), a file with a contract, a work item or a batch, or what you want, in a sentence
    #[arg(conflicts_with = "goal", value_name = "TASK|FILE|SENTENCE")]
    what: Option<String>,
    /// Run this goal: in the plan-do-check-act loop, or with --allow or --test under a contract
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// What must hold when it is done (can be repeated); judged by tests, or by the loop's check
    #[arg(long, value_name = "TEXT")]
    ac: Vec<String>,
    /// Who does it: an entry of "agents", or codex, claude, gemini or opencode
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model, instead of the agent's own choice
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What may change: a file, or a directory with everything below (can be repeated)
    #[arg(long, value_name = "PATH")]
    allow: Vec<String>,
    /// A command that must succeed on the result (can be repeated)
    #[arg(long, value_name = "COMMAND")]
    test: Vec<String>,
    /// What it may use up, such as max_cost_usd=2 or max_tokens=200000 (can be repeated)
    #[arg(long, value_name = "NAME=N")]
    budget: Vec<String>,
    /// How: plan, do, check and act in a loop, or one agent under contract
    #[arg(long, value_enum)]
    workflow: Option<How>,
    /// Start over even if an interrupted run could be continued
    #[arg(long)]
    new: bool,
    /// Without a task: continue with the next one after a failure
    #[arg(long = "continue")]
    go_on: bool,
    /// Do nothing if another norma is at work here; exit 4
    #[arg(long, conflicts_with = "detach")]
    no_wait: bool,
    /// Hand it to whoever owns the state directory, else to a new server in the background, and leave
    #[arg(long)]
    detach: bool,
    /// Run the proposed contract without asking; a wide scope needs --yes-wide as well
    #[arg(long, short = 'y')]
    yes: bool,
    /// Approve what a contract needs approval for, such as a wide scope, as if you were asked; it goes on record as yours
    #[arg(long)]
    yes_wide: bool,
}

/// How a goal is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// plan, do, check and act, round and round
    Pdca,
    /// one agent, one change, your tests
    Contract,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.what(&here.cwd)? {
            What::Nothing(word) => Err(nothing::no_such(here, &word)),
            What::Sentence(words) => sentence::run(self, &words, here),
            What::Contract(goal) => self.contract(&goal, here),
            What::File(file) => self.work(Document::File(file.into()), None).run(here),
            What::Loop(goal) => self.pdca(goal, here),
            What::Task(task) => {
                let mut session = Session::open(here, self.asks())?;
                let view = session.carry_out_to_result(Start::Task { task, new: self.new, agent: None })?;
                session.finish(&view)
            }
            What::Ready => all(&mut Session::open(here, self.asks())?, self.go_on),
        }
    }

    fn work(&self, document: Document, typed: Option<Typed>) -> Work {
        let (new, asks, yes_wide) = (self.new, self.asks(), self.yes_wide);
        Work { document, jobs: JOBS_DEFAULT, new, asks, yes_wide, many: false, typed }
    }

    fn asks(&self) -> Asks {
        Asks::of(self.no_wait, self.detach)
    }

    /// What was typed about a contract.
    fn typing<'a>(&'a self, here: &'a Surroundings) -> Typing<'a> {
        Typing { cwd: &here.cwd, allow: &self.allow, tests: &self.test, criteria: &self.ac }
    }

    /// A contract that was typed: nothing is proposed, and everything is checked before an agent starts.
    fn contract(&self, goal: &str, here: &Surroundings) -> Outcome<ExitCode> {
        super::task::require_words(goal, &self.ac)?;
        let context = here.context_to_be()?;
        let named = here.config.as_ref().map(|path| here.cwd.join(path));
        let InForce { mut settings, unused } = runner::settings_in_force(&context, named.as_deref())?;
        let agent = agent::choose(here, &context, &settings.config, self.agent.as_deref())?;
        let typed = Typed { agent: agent.name, model: self.model.clone(), budgets: self.budget.clone() };
        typed.apply(&mut settings)?;
        let preview = Preview::open(&context)?;
        let (draft, notes) = Draft::typed(&preview, &settings, &self.typing(here), (goal, &typed.agent))?;
        let document = draft.document()?.to_string().into_bytes();
        if let Ok([item]) = preview.submit(&settings, &document)?.items.as_deref() {
            let shown = preview.shown(&settings.config)?;
            if !here.json {
                notes.iter().chain(&unused).for_each(|note| err(&format!("note: {}", safe(note))));
            }
            preflight::tell_base_tests(here, &here.context_or_private()?, &settings, &shown, item)?;
        }
        self.work(Document::Typed(document), Some(typed)).run(here)
    }

    /// The loop for a goal. With an agent that is named it needs no configuration of the repository.
    fn pdca(&self, goal: String, here: &Surroundings) -> Outcome<ExitCode> {
        super::task::require_words(&goal, &self.ac)?;
        let context = here.context_to_be()?;
        let context = match (&self.agent, context.layout.exists()) {
            (Some(name), false) => {
                let settings = runner::own_settings(&context)?;
                agent::choose(here, &context, &settings.config, Some(name))?;
                here.context_or_private()?
            }
            _ => here.context()?,
        };
        let mut session = Session::at(here, context, self.asks())?;
        let start = Start::Goal { goal, criteria: self.ac.clone(), agent: self.agent.clone() };
        let view = session.carry_out_to_result(start)?;
        session.finish(&view)
    }
}

/// Every ready task, dependencies first. A task that was tried in this round is not tried again.
fn all(session: &mut Session<'_>, go_on: bool) -> Outcome<ExitCode> {
    let mut tried = Vec::new();
    let mut worst = ExitCode::SUCCESS;
    loop {
        let ready = session.reader()?.ready_tasks()?;
        let Some(task) = ready.into_iter().find(|task| !tried.contains(task)) else { break };
        tried.push(task);
        let view = session.carry_out_to_result(Start::Task { task, new: false, agent: None })?;
        let code = session.finish(&view)?;
        if view.status != Status::Succeeded {
            worst = code;
            if !go_on || view.status == Status::Paused {
                return Ok(worst);
            }
        }
    }
    if tried.is_empty() && !session.here.json {
        out("no task is ready; add one: norma task add \"what you want\"");
    }
    Ok(worst)
}
