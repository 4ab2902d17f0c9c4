//! `norma run`: carries out a task, a goal, or every task that is ready.

use super::work::{Document, Work};
use crate::error::{CommandError, Outcome};
use crate::session::Session;
use crate::surroundings::Surroundings;
use crate::text::out;
use contract::Status;
use runner::Start;
use std::process::ExitCode;

/// How many items are worked on at once, unless told otherwise.
pub(crate) const JOBS_DEFAULT: usize = 2;

/// Most files that a typed contract without paths may change.
const TYPED_FILES_MAX: u64 = 50;

/// How long the agent of a typed contract may take.
const TYPED_MS: u64 = 60 * 60 * 1000;

/// Run a task, a contract, a goal, or every task that is ready
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma run 1\n  norma run contract.json\n  norma run --goal \"fix the parser\" --agent claude --allow src --test \"cargo test\"   # one agent under contract\n  norma run --goal \"fix the parser\" --ac \"cargo test passes\"   # plan, do, check, act\n  norma run --continue   # every ready task, dependencies first, past failures"
)]
pub(crate) struct Args {
    /// A task id (all digits), or a file with a contract or a work item
    #[arg(conflicts_with = "goal")]
    what: Option<String>,
    /// Make a task of this goal and run it
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// What must hold when it is done (can be repeated)
    #[arg(long, value_name = "TEXT", requires = "goal")]
    ac: Vec<String>,
    /// Who does it: an entry of "agents", or codex, claude, gemini or opencode
    #[arg(long, value_name = "NAME", requires = "goal")]
    agent: Option<String>,
    /// What may change: a file, or a directory with everything below (can be repeated); makes it a contract
    #[arg(long, value_name = "PATH", requires = "goal")]
    allow: Vec<String>,
    /// A command that must succeed on the result (can be repeated); makes it a contract
    #[arg(long, value_name = "COMMAND", requires = "goal")]
    test: Vec<String>,
    /// How: plan, do, check and act in a loop, or one agent under contract
    #[arg(long, value_enum, requires = "goal")]
    workflow: Option<How>,
    /// Start over even if an interrupted run of the task could be continued
    #[arg(long)]
    new: bool,
    /// Without a task: continue with the next one after a failure
    #[arg(long = "continue")]
    go_on: bool,
    /// Do nothing if another norma is at work here; exit 4
    #[arg(long)]
    no_wait: bool,
    /// Approve what a contract needs approval for, such as a wide scope, as if you were asked; it goes on record as yours
    #[arg(long)]
    yes_wide: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if let Some(file) = self.what.as_deref().filter(|what| !what.bytes().all(|b| b.is_ascii_digit())) {
            let (new, no_wait, yes_wide) = (self.new, self.no_wait, self.yes_wide);
            let document = Document::File(file.into());
            return Work { document, jobs: JOBS_DEFAULT, new, no_wait, yes_wide, many: false }.run(here);
        }
        if let Some(document) = self.contract()? {
            let (new, no_wait, yes_wide) = (self.new, self.no_wait, self.yes_wide);
            return Work { document, jobs: JOBS_DEFAULT, new, no_wait, yes_wide, many: false }.run(here);
        }
        if let Some(goal) = &self.goal {
            super::task::require_words(goal, &self.ac)?;
        }
        let mut session = Session::open(here, self.no_wait)?;
        let view = match (&self.what, &self.goal) {
            (Some(task), _) => {
                let task =
                    task.parse().map_err(|_| CommandError::usage("that number is too large", "norma task list"))?;
                session.carry_out(&Start::Task { task, new: self.new, agent: None })?
            }
            (None, Some(goal)) => {
                let (goal, criteria, agent) = (goal.clone(), self.ac.clone(), self.agent.clone());
                session.carry_out(&Start::Goal { goal, criteria, agent })?
            }
            (None, None) => {
                return all(&mut session, self.go_on);
            }
        };
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
        let view = session.carry_out(&Start::Task { task, new: false, agent: None })?;
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

/// How a goal is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// plan, do, check and act, round and round
    Pdca,
    /// one agent, one change, your tests
    Contract,
}

impl Args {
    /// The work item that was typed, unless the loop is meant.
    fn contract(&self) -> Outcome<Option<Document>> {
        let Some(goal) = &self.goal else { return Ok(None) };
        let typed = !self.allow.is_empty() || !self.test.is_empty();
        let is_contract = self.workflow.map_or(typed, |how| how == How::Contract);
        if !is_contract {
            return match typed {
                true => Err(CommandError::usage("--allow and --test make a contract", "leave out --workflow pdca")),
                false => Ok(None),
            };
        }
        super::task::require_words(goal, &self.ac)?;
        let Some(agent) = &self.agent else {
            return Err(CommandError::usage(
                "no agent given",
                "use --agent claude, codex, gemini, opencode, or an entry of \"agents\"",
            ));
        };
        let criteria: String = self.ac.iter().map(|text| format!("\n- {text}")).collect();
        let description = match criteria.is_empty() {
            true => goal.clone(),
            false => format!("{goal}\n\nIt is done when:{criteria}"),
        };
        let mut item = serde_json::json!({
            "id": "goal",
            "agent_id": agent,
            "description": description,
            // One person's goal, not one of many small items: the limits are there to stop what runs away.
            "constraints": {"max_tool_ops": 2000, "timeout_ms": TYPED_MS},
        });
        match self.allow.is_empty() {
            true => item["constraints"]["max_files"] = TYPED_FILES_MAX.into(),
            false => item["allowed_paths"] = self.allow.clone().into(),
        }
        if !self.test.is_empty() {
            item["test_commands"] = self.test.clone().into();
        }
        Ok(Some(Document::Typed(item.to_string().into_bytes())))
    }
}
