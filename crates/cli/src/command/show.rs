//! `norma show`: one run, its steps and where its evidence is.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{block, duration, left_out, safe, short, short_id, short_ref, used};
use contract::{ItemStatus, RunDetails, RunView, StepView, TestsView};
use run::Run;
use std::process::ExitCode;
use std::time::Duration;

/// Show a run: its steps, its verdict, where its evidence is
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma show @last")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last")]
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let (reader, mut view) = super::view(here, &self.run)?;
        view.damaged = reader.damage(&view.run_id)?.map(|damage| damage.why);
        // Of a damaged log nothing more can be told than the view has.
        let run = reader.load(&view.run_id).ok().map(|(run, _)| run);
        Ok(here.print(&view, || describe(&view, run.as_ref())))
    }
}

fn describe(view: &RunView, run: Option<&Run>) -> String {
    let mut text = format!("run {} · {}", view.run_id, view.word());
    if let Some(reason) = view.reason.filter(|_| view.damaged.is_none()) {
        text.push_str(&format!(" ({reason})"));
    }
    text.push_str(&format!(
        " · verdict {} · iteration {}\n",
        view.verdict.map_or("-", contract::Verdict::as_str),
        view.iteration
    ));
    if let Some(why) = &view.damaged {
        let next = if view.quarantined { "" } else { "; set it aside: norma quarantine RUN --reason TEXT" };
        text.push_str(&format!("its log is damaged, so the following may be wrong: {}{next}\n", safe(why)));
    }
    text.push_str(&format!("goal: {}\n", safe(&view.goal)));
    if let Some(message) = &view.message {
        text.push_str(&format!("      {}\n", block(message, "      ")));
    }
    for step in view.steps.iter().flatten() {
        text.push_str(&line(step, run));
        text.extend(spoken(step));
    }
    text.extend(run.map(items));
    text.extend(view.details.as_ref().map(|it| details(it, view.result.is_some() && has_items(run))));
    let landed = match (&view.landed, &view.result, &view.landing) {
        (Some(commit), ..) => format!("landed {}", short_id(commit)),
        (None, Some(commit), Some(landing)) => {
            format!("result {} on branch {}, not landed", short_id(commit), short_ref(&landing.target))
        }
        (None, Some(commit), None) => format!("result {}, not landed", short_id(commit)),
        (None, None, _) => "no result".to_owned(),
    };
    text.push_str(&format!("base {} · {landed} · sandbox {}\n", short_id(view.base), view.sandbox));
    text.push_str(&format!("evidence: {}", view.run_dir));
    text
}

fn has_items(run: Option<&Run>) -> bool {
    run.is_some_and(|run| !run.items().is_empty())
}

/// How the items ended that did not succeed; of a run with one, the run says it.
fn items(run: &Run) -> String {
    let failed = run.items().iter().filter(|_| run.items().len() > 1).filter_map(|state| {
        let ended = state.ended().filter(|ended| ended.status != ItemStatus::Success)?;
        let reason = ended.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        Some(format!("item {} {}{reason}: {}\n", safe(&state.item.id), ended.status, short(&ended.message, 120)))
    });
    failed.collect()
}

/// What is told of a run by itself: its tests, what was left out of its changes, what it used. Of a change that nothing
/// has tried, that is said.
fn details(details: &RunDetails, changed: bool) -> String {
    let untested = || if changed { "no test was run\n".to_owned() } else { String::new() };
    let mut text = details.tests.as_ref().map_or_else(untested, tests);
    for item in &details.left_out_of {
        text.push_str(&left_out(&item.task_id, &item.left_out));
    }
    if let Some(usage) = &details.usage {
        text.push_str(&format!("used: {}\n", used(usage)));
    }
    text
}

fn tests(tests: &TestsView) -> String {
    let commands: Vec<String> = tests.commands.iter().map(|line| safe(line)).collect();
    match (tests.ran, tests.passed) {
        (false, _) => "no test was run\n".to_owned(),
        (true, true) => format!("tests: passed: {}\n", commands.join(", ")),
        (true, false) => format!("tests: not passed: {}\n", commands.join(", ")),
    }
}

/// Who took a turn with an interactive session; of others there is nothing to tell.
fn spoken(step: &StepView) -> Option<String> {
    let agent = step.agent.filter(|_| step.session_id.is_some() || step.usage.is_some())?;
    let model = step.model.as_ref().map(|model| format!(" with {}", safe(model))).unwrap_or_default();
    let session = step.session_id.as_ref().map(|id| format!(" · session {}", safe(id))).unwrap_or_default();
    let usage = step.usage.as_ref().map(|usage| format!(" · {}", used(usage))).unwrap_or_default();
    Some(format!("          {}{model}{session}{usage}\n", agent.as_str()))
}

fn line(step: &StepView, run: Option<&Run>) -> String {
    let of = run.and_then(|run| of_item(run, step.index)).unwrap_or_default();
    let ended = step.ended_at.map_or(step.started_at, |at| at).unix_ms();
    let took = duration(Duration::from_millis(ended.saturating_sub(step.started_at.unix_ms())));
    let attempt = if step.attempt > 1 { format!(" (attempt {})", step.attempt) } else { String::new() };
    let summary = step.summary.as_deref().map(|summary| short(summary, 90)).unwrap_or_default();
    format!("{:>3} {:<5} {:<4} {took:>6}  {of}{summary}{attempt}\n", step.index, step.role, step.status.as_str())
}

/// The item that a step is about, where there are several.
fn of_item(run: &Run, index: u32) -> Option<String> {
    let record = run.steps().iter().find(|record| record.step.index == index).filter(|_| run.items().len() > 1)?;
    Some(format!("{}: ", safe(&run.items().get(record.step.item? as usize)?.item.id)))
}
