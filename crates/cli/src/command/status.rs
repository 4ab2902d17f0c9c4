//! `norma status`: what runs, what waits, what needs a person, and the command for each.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{duration, safe, short};
use contract::{ApprovalView, RunView, Status, Timestamp, WaitKind, lines_of_reason};
use run::Run;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use store::Reader;

/// How many tasks that are ready are listed for people.
const TASKS_MAX: usize = 10;

/// Show what runs, what waits and what needs you, with the command for each
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  norma status\n  norma status --json | jq '.needs_you'")]
pub(crate) struct Args {}

/// What programs read.
#[derive(Default, Serialize)]
struct Now {
    /// The process that owns the state directory, if there is one.
    owner: Option<Owner>,
    /// What somebody has to answer or decide.
    needs_you: Vec<Needed>,
    /// What is being worked on.
    running: Vec<Going>,
    /// What can be continued.
    paused: Vec<Going>,
    /// Tasks that could be run.
    ready: Vec<Ready>,
}

#[derive(Serialize)]
struct Owner {
    command: String,
    pid: u32,
    since: String,
}

#[derive(Serialize)]
struct Needed {
    run_id: String,
    goal: String,
    /// `approval`, `budget`, …
    kind: String,
    reasons: Vec<String>,
    expires_at: Option<Timestamp>,
    commands: Vec<String>,
}

#[derive(Serialize)]
struct Going {
    run_id: String,
    goal: String,
    reason: Option<contract::Reason>,
    /// What its open turns are, as `worker` or `worker of ITEM`.
    turns: Vec<String>,
    since: Timestamp,
    commands: Vec<String>,
}

#[derive(Serialize)]
struct Ready {
    task_id: i64,
    goal: String,
    commands: Vec<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        if !layout.exists() {
            let text = "no run here yet; start one: norma run \"what you want\"";
            return Ok(here.print(&Now::default(), || text.to_owned()));
        }
        let reader = Reader::open(&layout)?;
        let owned = runner::is_owned(&layout);
        let owner = store::owner_of(&layout).filter(|_| owned);
        let owner = owner.map(|it| Owner { command: it.command, pid: it.pid, since: it.since.to_string() });
        let mut now = Now { owner, ..Now::default() };
        let asked = reader.approvals(true)?;
        for (run, _) in reader.open_runs()? {
            let slug = run.id.slug();
            let Some(mut view) = reader.run(&slug)? else { continue };
            here.truthful(&layout, std::iter::once(&mut view));
            now.add(&view, &run, &asked);
        }
        let ids = reader.ready_tasks()?;
        let tasks = reader.tasks(None)?;
        now.ready = tasks
            .into_iter()
            .filter(|task| ids.contains(&task.id))
            .map(|task| Ready { task_id: task.id, commands: vec![format!("norma run {}", task.id)], goal: task.goal })
            .collect();
        Ok(here.print(&now, || describe(&now)))
    }
}

impl Now {
    fn add(&mut self, view: &RunView, run: &Run, asked: &[ApprovalView]) {
        let slug = view.run_id.to_string();
        let mine: Vec<&ApprovalView> = asked.iter().filter(|it| it.run_id == view.run_id).collect();
        for it in &mine {
            let commands = vec![format!("norma approve {}", it.id), format!("norma deny {} --reason TEXT", it.id)];
            let (kind, expires_at) = (WaitKind::Approval.to_string(), Some(it.expires_at));
            let (run_id, goal, reasons) = (slug.clone(), view.goal.clone(), it.reasons.clone());
            self.needs_you.push(Needed { run_id, goal, kind, reasons, expires_at, commands });
        }
        match (view.status, run.waits_for()) {
            (Status::Waiting, _) if run.intent().is_some_and(|intent| intent.questions().next().is_some()) => {
                for (wait, commands) in crate::cause::questions(run) {
                    let (kind, reasons, goal) = (wait.kind.to_string(), wait.reasons, view.goal.clone());
                    let (run_id, expires_at) = (slug.clone(), wait.deadline);
                    self.needs_you.push(Needed { run_id, goal, kind, reasons, expires_at, commands });
                }
            }
            (Status::Waiting, Some(wait)) if mine.is_empty() => {
                let more = run.used_up().map_or_else(|| "NAME=N".to_owned(), |used| used.more());
                let commands = match wait.kind {
                    WaitKind::Budget => vec![
                        format!("norma resume {slug} --budget {more}"),
                        format!("norma resume {slug} --budget stop"),
                    ],
                    _ => vec![format!("norma resume {slug}")],
                };
                let (kind, reasons, goal) = (wait.kind.to_string(), wait.reasons.clone(), view.goal.clone());
                self.needs_you.push(Needed { run_id: slug, goal, kind, reasons, expires_at: wait.deadline, commands });
            }
            (Status::Waiting, _) => {}
            (Status::Paused, _) => {
                let commands = vec![format!("norma resume {slug}"), format!("norma cancel {slug}")];
                self.paused.push(going(view, run, commands));
            }
            _ => {
                let commands = vec![format!("norma events {slug} --follow"), format!("norma cancel {slug}")];
                self.running.push(going(view, run, commands));
            }
        }
    }
}

fn going(view: &RunView, run: &Run, commands: Vec<String>) -> Going {
    let turn = |open: &std::sync::Arc<run::OpenTurn>| match open.step.item {
        Some(place) => format!("{} of {}", open.step.role, run.items()[place as usize].item.id),
        None => open.step.role.to_string(),
    };
    let turns = run.open_turns().iter().filter(|_| view.status == Status::Running).map(turn).collect();
    let (run_id, goal, reason) = (view.run_id.to_string(), view.goal.clone(), view.reason);
    Going { run_id, goal, reason, turns, since: view.created_at, commands }
}

fn describe(now: &Now) -> String {
    let mut text = String::new();
    for it in &now.needs_you {
        text.push_str(&format!("needs you  {}  {} ({})\n", it.run_id, short(&it.goal, 60), it.kind));
        for line in it.reasons.iter().flat_map(|reason| lines_of_reason(reason)) {
            text.push_str(&format!("             {}\n", safe(line)));
        }
        text.push_str(&commands(&it.commands));
    }
    for it in &now.running {
        let turns = if it.turns.is_empty() { String::new() } else { format!(" · {}", safe(&it.turns.join(", "))) };
        let elapsed = duration(Duration::from_millis(store::now().unix_ms().saturating_sub(it.since.unix_ms())));
        text.push_str(&format!("running    {}  {} · {elapsed}{turns}\n", it.run_id, short(&it.goal, 60)));
        text.push_str(&commands(&it.commands));
    }
    for it in &now.paused {
        let reason = it.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        text.push_str(&format!("paused     {}  {}{reason}\n", it.run_id, short(&it.goal, 60)));
        text.push_str(&commands(&it.commands));
    }
    for it in now.ready.iter().take(TASKS_MAX) {
        text.push_str(&format!("ready      task {}  {}\n", it.task_id, short(&it.goal, 60)));
        text.push_str(&commands(&it.commands));
    }
    if now.ready.len() > TASKS_MAX {
        text.push_str(&format!("           … and {} more: norma task list\n", now.ready.len() - TASKS_MAX));
    }
    if text.is_empty() {
        text.push_str("nothing runs, waits or needs you; look back: norma runs\n");
    }
    if let Some(owner) = &now.owner {
        text.push_str(&format!("at work: `{}` (pid {}, since {})\n", safe(&owner.command), owner.pid, owner.since));
    }
    text
}

fn commands(commands: &[String]) -> String {
    format!("             {}\n", commands.join(" · "))
}
