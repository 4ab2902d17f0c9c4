//! `norma intent run`: carries an intent out through the owner of the state directory, as `POST /intents` and
//! `POST /intents/:id/run` do. Where nobody owns it, a server is started first.

use crate::command::contract::read_from;
use crate::command::serve::background::ensure_owner;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::documents::Intent;
use runner::{Request, Start, Started};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is said to whoever named no intent.
const HINT: &str = "name a file with an intent, - for stdin, or the id of one that is kept (norma help intents)";

#[derive(clap::Args)]
pub(super) struct Args {
    /// A file with an intent, - for stdin, or the id of one that is kept
    #[arg(required_unless_present = "retry")]
    intent: Option<PathBuf>,
    /// Try again what this run failed at, as a run of its own
    #[arg(long, value_name = "RUN", conflicts_with = "intent")]
    retry: Option<String>,
    /// Comes back in the view of the run
    #[arg(long, value_name = "TEXT")]
    trace_id: Option<String>,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.context()?.layout;
        if let Some(run) = &self.retry {
            let run = here.reader()?.find_run(run)?;
            ensure_owner(here, &layout)?;
            return started(here, Start::Retry { run }, None);
        }
        let given = self.intent.clone().unwrap_or_default();
        let named = given.to_string_lossy().into_owned();
        let id = match contract::intent::is_intent_id(&named) {
            true => {
                ensure_owner(here, &layout)?;
                named
            }
            false => {
                let intent = read(here, &given)?;
                ensure_owner(here, &layout)?;
                let by = here.person(&here.repository()?);
                let (_, value) = here.request(Request::IntentCreate { intent: Box::new(intent), by })?;
                value["intentId"].as_str().unwrap_or_default().to_owned()
            }
        };
        started(here, Start::Intent { intent: id.clone(), trace_id: self.trace_id }, Some(&id))
    }
}

fn read(here: &Surroundings, file: &Path) -> Outcome<Intent> {
    let shown = file.to_string_lossy();
    let bytes = match file == Path::new("-") {
        true => read_from(Ok(std::io::stdin().lock()), "stdin", HINT)?,
        false => read_from(std::fs::File::open(here.cwd.join(file)), &shown, HINT)?,
    };
    Intent::read(&bytes).map_err(|problems| {
        let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        let message = format!("{} is not a valid intent:{lines}", safe(&shown));
        CommandError::usage(message, "fix it: norma help intents, norma schema intent")
    })
}

fn started(here: &Surroundings, start: Start, intent: Option<&str>) -> Outcome<ExitCode> {
    let layout = here.context()?.layout;
    let sender = Box::new(here.sender().without_the_rest(&layout));
    let (_, value) = here.request(Request::Start { sender, start })?;
    let started: Started = serde_json::from_value(value).map_err(|why| {
        CommandError::new(code::ENVIRONMENT, format!("the owner said something unknown: {why}"), "try again")
    })?;
    let value = json!({"intent_id": intent, "run_id": started.run_id, "notes": started.notes});
    Ok(here.print(&value, || {
        let kept = intent.map(|id| format!("intent {id}\n")).unwrap_or_default();
        format!("{kept}next: norma intent show {0}\n{0}", started.run_id)
    }))
}
