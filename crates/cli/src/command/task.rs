//! `norma task`: what people want done.

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{safe, short};
use clap::Subcommand;
use contract::{TaskStatus, TaskView};
use runner::Request;
use std::process::ExitCode;

/// Add, list, show, link, edit, finish and remove tasks
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma task add \"make the tests pass\" --ac \"cargo test passes\"\n  norma task link 2 --depends-on 1\n  norma task edit 1 --goal \"make all tests pass\"\n  norma task rm 2"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Add a task; its id is the last line
    Add {
        /// What you want
        goal: String,
        /// What must hold when it is done (can be repeated)
        #[arg(long, value_name = "TEXT")]
        ac: Vec<String>,
    },
    /// List tasks; without options, those to do
    List {
        /// Only tasks in this state
        #[arg(long, value_name = "STATUS", value_parser = ["todo", "doing", "done", "failed", "stopped"])]
        status: Option<String>,
        /// Tasks in any state
        #[arg(long, conflicts_with = "status")]
        all: bool,
    },
    /// Show one task
    Show {
        /// Task id
        id: i64,
    },
    /// Make a task wait for others
    Link {
        /// The task that waits
        id: i64,
        /// What it waits for (can be repeated)
        #[arg(long, value_name = "ID", required = true, num_args = 1..)]
        depends_on: Vec<i64>,
    },
    /// Mark a task as done
    Done {
        /// Task id
        id: i64,
    },
    /// Change what a task asks for; a run that has begun is not changed
    Edit {
        /// Task id
        id: i64,
        /// What you want now
        #[arg(long, value_name = "TEXT", required_unless_present_any = ["ac", "no_ac"])]
        goal: Option<String>,
        /// What must hold when it is done, in place of all that had to (can be repeated)
        #[arg(long, value_name = "TEXT")]
        ac: Vec<String>,
        /// No criteria any more
        #[arg(long, conflicts_with = "ac")]
        no_ac: bool,
    },
    /// Remove a task; its runs and their evidence stay
    Rm {
        /// Task id
        id: i64,
    },
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Add { goal, ac } => add(here, goal, ac),
            Verb::List { status, all } => list(here, status.as_deref(), all),
            Verb::Show { id } => show(here, id),
            Verb::Link { id, depends_on } => change(here, Request::TaskLink { task: id, depends_on }),
            Verb::Done { id } => change(here, Request::TaskDone { task: id }),
            Verb::Edit { id, goal, ac, no_ac } => edit(here, id, goal, ac, no_ac),
            Verb::Rm { id } => change(here, Request::TaskRemove { task: id }),
        }
    }
}

/// Refuses an empty goal or criterion.
pub(super) fn require_words(goal: &str, criteria: &[String]) -> Outcome<()> {
    if goal.trim().is_empty() || criteria.iter().any(|text| text.trim().is_empty()) {
        return Err(CommandError::usage(
            "goal and criteria must not be empty",
            "norma task add \"what you want\" --ac \"how to tell\"",
        ));
    }
    Ok(())
}

fn add(here: &Surroundings, goal: String, criteria: Vec<String>) -> Outcome<ExitCode> {
    require_words(&goal, &criteria)?;
    let (_, id) = here.request(Request::TaskAdd { goal, criteria })?;
    Ok(here.print(&serde_json::json!({"id": id}), || id.to_string()))
}

fn edit(here: &Surroundings, task: i64, goal: Option<String>, ac: Vec<String>, no_ac: bool) -> Outcome<ExitCode> {
    require_words(goal.as_deref().unwrap_or("unchanged"), &ac)?;
    let criteria = (no_ac || !ac.is_empty()).then_some(ac);
    change(here, Request::TaskEdit { task, goal, criteria })
}

fn change(here: &Surroundings, request: Request) -> Outcome<ExitCode> {
    let (message, id) = here.request(request)?;
    Ok(here.print(&serde_json::json!({"id": id, "message": message}), || message.clone()))
}

fn list(here: &Surroundings, status: Option<&str>, all: bool) -> Outcome<ExitCode> {
    let status = match (status, all) {
        (Some(word), _) => TaskStatus::from_word(word),
        (None, true) => None,
        (None, false) => Some(TaskStatus::Todo),
    };
    let tasks = here.reader()?.tasks(status)?;
    Ok(here.print(&tasks, || {
        if tasks.is_empty() {
            return "no tasks; add one: norma task add \"what you want\"".to_owned();
        }
        tasks.iter().map(line).collect::<Vec<_>>().join("\n")
    }))
}

fn line(task: &TaskView) -> String {
    let waits: Vec<String> = task.depends_on.iter().map(ToString::to_string).collect();
    let after = if waits.is_empty() { String::new() } else { format!("  (after {})", waits.join(", ")) };
    format!("{:>4}  {:<7}  {}{after}", task.id, task.status.as_str(), short(&task.goal, 80))
}

fn show(here: &Surroundings, id: i64) -> Outcome<ExitCode> {
    let task = here.reader()?.task(id)?;
    let task = task.ok_or_else(|| {
        CommandError::new(code::USAGE, format!("there is no task {id}"), "norma task list --all shows them")
    })?;
    Ok(here.print(&task, || {
        let mut text = format!("{}\n", line(&task));
        for criterion in &task.acceptance_criteria {
            text.push_str(&format!("      {}: {}\n", criterion.id, safe(&criterion.text)));
        }
        match &task.run_id {
            Some(run) => text.push_str(&format!("last run: {run}")),
            None => text.push_str(&format!("next: norma run {id}")),
        }
        text
    }))
}
