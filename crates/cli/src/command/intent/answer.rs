//! `norma intent answer`: answers what the plan of a run waits for, as `POST /runs/:id/events` does.

use crate::command::serve::background::ensure_owner;
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use ::run::Run;
use ::run::workflow::intent::NodeState;
use clap::ValueEnum;
use contract::api::RunEventKind;
use contract::{Wait, WaitKind};
use runner::{IntentEvent, Request};
use serde_json::json;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Run id, a unique prefix of it, @last, or the id of an intent
    run: String,
    /// approve or reject, or one of the choices of a decision
    choice: String,
    /// What is answered; what has this choice and has waited longest without
    #[arg(long, value_enum)]
    event: Option<Kind>,
    /// The node of the plan; the one that has waited longest without
    #[arg(long, value_name = "ID")]
    node: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Approval,
    Decision,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let reader = here.reader()?;
        let run = super::find_run(&reader, &self.run)?;
        let kind = match self.event {
            Some(Kind::Approval) => RunEventKind::Approval,
            Some(Kind::Decision) => RunEventKind::Decision,
            None => self.meant(&reader.load(&run)?.0),
        };
        ensure_owner(here, &here.context()?.layout)?;
        let by = here.person(&here.repository()?);
        let event = IntentEvent { kind, choice: self.choice, node: self.node };
        let (message, value) = here.request(Request::IntentAnswer { run: run.clone(), event, by })?;
        Ok(here.print(&json!({"run_id": run, "message": message, "value": value}), || message.clone()))
    }

    /// Which kind of question is answered: the oldest that has this choice, else the oldest.
    fn meant(&self, run: &Run) -> RunEventKind {
        let is_meant = |node: &NodeState| self.node.as_deref().is_none_or(|name| name == node.spec.id);
        let questions = || run.intent().into_iter().flat_map(|intent| intent.questions());
        let open = || questions().filter(|(node, _)| is_meant(node)).map(|(_, wait)| wait);
        let word = self.choice.as_str();
        let has = |wait: &&Wait| match wait.kind {
            WaitKind::Approval => matches!(word, "approve" | "approved" | "reject" | "denied"),
            _ => wait.choices.iter().any(|choice| choice == word),
        };
        match open().find(has).or_else(|| open().next()).map(|wait| wait.kind) {
            Some(WaitKind::Decision) => RunEventKind::Decision,
            _ => RunEventKind::Approval,
        }
    }
}
