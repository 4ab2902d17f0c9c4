//! `norma why`: what decided about a run, and what would allow it.

use crate::cause::{Cause, causes};
use crate::ending::word;
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{block, safe};
use contract::{Reason, RunView, Status};
use serde::Serialize;
use std::process::ExitCode;

/// Show which rule, path and evidence decided about a run, and what would allow it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  norma why\n  norma why @last --json | jq '.causes[].rule'")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last")]
    run: String,
}

/// What programs read.
#[derive(Serialize)]
struct Why<'w> {
    run_id: &'w str,
    status: Status,
    reason: Option<Reason>,
    message: Option<&'w str>,
    causes: &'w [Cause],
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let (reader, view) = super::view(here, &self.run)?;
        let (run, _) = reader.load(&view.run_id)?;
        let (_, events, _) = reader.log(&view.run_id)?;
        let causes = causes(&reader, &view, &run, &events);
        let RunView { run_id, status, reason, message, .. } = &view;
        let (status, reason, message) = (*status, *reason, message.as_deref());
        let value = Why { run_id: run_id.as_str(), status, reason, message, causes: &causes };
        Ok(here.print(&value, || describe(&view, &causes)))
    }
}

fn describe(view: &RunView, causes: &[Cause]) -> String {
    let reason = view.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let mut text = format!("run {} · {}{reason}\n", view.run_id, view.word());
    if causes.is_empty() {
        let message = view.message.as_deref().map(|message| format!(": {}", block(message, "  "))).unwrap_or_default();
        text.push_str(&format!("nothing was refused{message}\n"));
    }
    causes.iter().for_each(|cause| text.push_str(&described(cause, &view.run_dir)));
    text
}

/// One cause, a line for each thing that is known of it.
fn described(cause: &Cause, run_dir: &str) -> String {
    let mut text = format!("\n{}\n", block(&cause.message, "  "));
    let mut line = |name: &str, value: Option<String>| {
        text.extend(value.map(|value| format!("  {name:<9} {value}\n")));
    };
    let status = cause.status.map(|status| format!(" ({status})")).unwrap_or_default();
    line("item", cause.item.as_ref().map(|item| format!("{}{status}", safe(item))));
    line("gate", cause.gate.map(|gate| gate.to_string()));
    line("rule", cause.rule.map(word));
    line("path", cause.path.as_deref().map(safe));
    line("evidence", cause.evidence.as_ref().map(|path| format!("{run_dir}/{}", safe(path))));
    for (index, shown) in cause.log.iter().enumerate() {
        line(if index == 0 { "log" } else { "" }, Some(format!("| {shown}")));
    }
    line(if cause.rule.is_some() { "allow" } else { "help" }, Some(block(&cause.allowed_by, "            ")));
    text
}
