//! `norma intent show`: a run as `GET /runs/:id` shows it, or its steps as lines.

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{safe, short};
use contract::documents::Open;
use contract::view::intent::RunViewModel;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Run id, a unique prefix of it, @last, or the id of an intent
    #[arg(default_value = "@last")]
    run: String,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let reader = here.reader()?;
        let slug = super::find_run(&reader, &self.run)?;
        let (id, events, _) = reader.log(&slug)?;
        let view = run::view::view_model(id, &events);
        let unknown = || CommandError::new(code::INTEGRITY, format!("run {slug} has no view"), "norma verify");
        let view = view.ok_or_else(unknown)?;
        Ok(here.print(&json!(view), || drawn(&slug, &view)))
    }
}

fn drawn(slug: &str, view: &RunViewModel) -> String {
    let status = json!(view.status);
    let mut text = format!("{slug}  {}\n", status.as_str().unwrap_or_default());
    for step in &view.steps {
        text.push_str(&line(step));
    }
    for step in view.steps.iter().filter(|step| word(step, "status") == "waiting") {
        let choices = &step["output"]["question"]["choices"];
        let choices: Vec<&str> = choices.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (node, choices) = (safe(word(step, "nodeId")), safe(&choices.join("|")));
        let _ = writeln!(text, "next: norma intent answer {slug} {choices} --node {node}");
    }
    text.trim_end().to_owned()
}

fn line(step: &Open) -> String {
    let said = ["summary", "choice", "why"].iter().find_map(|name| step.get("output")?.get(name)?.as_str());
    let said = said.or_else(|| step.get("error")?.as_str()).unwrap_or_default();
    let name = word(step, "stepId");
    format!("  {name:<13} {:<16} {:<11} {}\n", short(word(step, "nodeId"), 16), word(step, "status"), short(said, 80))
}

fn word<'s>(step: &'s Open, name: &str) -> &'s str {
    step.get(name).and_then(Value::as_str).unwrap_or_default()
}
