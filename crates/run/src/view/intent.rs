//! `RunViewModel.v0` of a run: a pure function of its log, so that the same state is the same bytes, whoever asks and whenever.
//! Steps are in the order in which they began; each has an artifact at least, with the SHA-256 of what it left.

use crate::Run;
use crate::workflow::intent::{COMPILE, NodeState, PATCH, Stage, State};
use contract::documents::plan::{NodeKind, Work};
use contract::documents::{Open, Plan};
use contract::hash::sha256;
use contract::id::derived_uuid;
use contract::intent::{OutputFile, WAIT_PREFIX};
use contract::view::intent::{RunViewModel, ViewStatus};
use contract::{Digest, Event, Fact, IntentFact, RunId, Status, StepRef, Timestamp, TurnEnd, Wait};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The view of a run, from its whole log; none if that is empty or contradicts itself.
pub fn view_model(id: RunId, events: &[Event]) -> Option<RunViewModel> {
    let run = Run::fold(id, events).ok()?;
    let is_intent = run.intent().is_some();
    let mut steps = Steps { id, is_intent, order: Vec::new(), by_key: BTreeMap::new(), names: BTreeMap::new() };
    for event in events {
        steps.take(event);
    }
    let ends = |event: &&Event| event.fact.run_state().is_some_and(|(status, _)| status.is_terminal());
    let end = events.iter().find(ends);
    if let Some(end) = end.filter(|_| run.status != Status::Succeeded) {
        match run.intent() {
            _ if steps.order.is_empty() => steps.never_began(is_intent, end),
            Some(intent) => steps.never_reached(intent, end.ts),
            None => {}
        }
    }
    if let Some(intent) = run.intent() {
        steps.settle(intent);
    }
    let is_queued = run.status == Status::Running && steps.order.is_empty();
    let status = if is_queued { ViewStatus::Queued } else { run.status.into() };
    let (steps, artifacts) = steps.shown();
    let trace_id = run.started.contract.intent.as_ref().and_then(|terms| terms.trace_id.clone());
    Some(RunViewModel { run_id: run_name(&id), status, steps, artifacts, trace_id })
}

/// The id of a run as this view has it.
pub fn run_name(id: &RunId) -> String {
    format!("run_{}", id.digits())
}

/// Which step: its public name, and the node or the turn that it is.
type Key = (Kind, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Compile,
    Patch,
    Plan,
    Node,
    /// A turn of another workflow.
    Turn,
}

/// A step while the log is read.
#[derive(Default)]
struct Step {
    name: &'static str,
    phase: &'static str,
    node: Option<(String, NodeKind)>,
    role: Option<String>,
    attempt: u32,
    started: Option<Timestamp>,
    finished: Option<Timestamp>,
    status: &'static str,
    output: Option<Value>,
    error: Option<String>,
    artifacts: Vec<Value>,
}

struct Steps {
    id: RunId,
    is_intent: bool,
    /// The places of the plan's nodes.
    names: BTreeMap<String, u32>,
    order: Vec<Key>,
    by_key: BTreeMap<Key, Step>,
}

impl Steps {
    fn step(&mut self, key: Key, ts: Timestamp) -> &mut Step {
        let order = &mut self.order;
        self.by_key.entry(key).or_insert_with(|| {
            order.push(key);
            let (name, phase) = match key.0 {
                Kind::Compile => ("CompileST", "compilation"),
                Kind::Patch => ("ApplyPatchST", "patching"),
                Kind::Plan => ("DecideST", "planning"),
                Kind::Node | Kind::Turn => ("ExecuteST", "execution"),
            };
            Step { name, phase, status: "running", attempt: 1, started: Some(ts), ..Step::default() }
        })
    }

    fn take(&mut self, event: &Event) {
        let ts = event.ts;
        match &event.fact {
            Fact::StepStarted { step, .. } => self.started(*step, ts),
            Fact::StepCommitted(done) => {
                let (ok, summary) = (done.end == TurnEnd::Answered, done.summary.clone());
                let step = self.step(self.key_of(done.step), ts);
                step.attempt = done.step.attempt;
                match (done.end, ok) {
                    (TurnEnd::Interrupted, _) => step.status = "interrupted",
                    (_, true) => step.end("succeeded", ts),
                    (_, false) => {
                        step.end("failed", ts);
                        step.error = Some(summary.clone());
                    }
                }
                step.output = ok.then(|| json!({ "summary": summary }));
            }
            Fact::ReconciledStep { step, .. } | Fact::StepInterrupted { step } => {
                self.step(self.key_of(*step), ts).status = "interrupted";
            }
            Fact::ItemAdded(added) if self.is_intent => {
                if let Some(contract::Earlier::Done { run, .. }) = &added.earlier {
                    let step = self.step((Kind::Compile, 0), ts);
                    step.end("succeeded", ts);
                    step.output = Some(json!({ "run": run }));
                }
            }
            Fact::ItemEnded(ended) if self.is_intent && ended.item == PATCH => {
                let id = self.id;
                let step = self.step((Kind::Patch, 0), ts);
                let ok = ended.reason.is_none();
                step.end(if ok { "succeeded" } else { "failed" }, ts);
                step.error = (!ok).then(|| ended.message.clone());
                step.output = ok.then(|| json!({"files": ended.paths, "tree": ended.after}));
                let dir = format!("changes/{:03}", ended.change);
                step.artifacts.push(artifact(&id, "receipt", ended.receipt.sha256, Some((&dir, "RECEIPT.json"))));
            }
            Fact::Asked(wait) => self.asked(wait, ts),
            Fact::Answered(said) => self.answered(&said.wait.0, &said.choice, &said.by, ts),
            Fact::Intent(fact) => self.intent(fact, ts),
            _ => {}
        }
    }

    fn started(&mut self, turn: StepRef, ts: Timestamp) {
        let key = self.key_of(turn);
        let step = self.step(key, ts);
        (step.status, step.attempt, step.finished) = ("running", turn.attempt, None);
        if key.0 == Kind::Turn {
            step.role = Some(turn.role.as_str().to_owned());
        }
    }

    fn intent(&mut self, fact: &IntentFact, ts: Timestamp) {
        let id = self.id;
        match fact {
            IntentFact::PatchProposed(proposed) => {
                let step = self.step((Kind::Patch, 0), ts);
                step.artifacts.push(artifact(&id, "patch", proposed.sha256, None));
                if let Some(contract::Earlier::Done { run, .. }) = &proposed.added.earlier {
                    step.end("succeeded", ts);
                    step.output = Some(json!({ "run": run }));
                }
            }
            IntentFact::PlanMade(planned) => {
                let Ok(Ok((specs, order))) = Plan::read(planned.plan.as_bytes()).map(|plan| plan.spell_out()) else {
                    return;
                };
                self.names = specs.iter().map(|spec| spec.id.clone()).zip(0..).collect();
                let names: Vec<&str> = order.iter().map(|place| specs[*place as usize].id.as_str()).collect();
                let step = self.step((Kind::Plan, 0), ts);
                step.end("succeeded", ts);
                step.output = Some(json!({ "order": names }));
                step.artifacts.push(artifact(&id, "plan_card", sha256(planned.plan.as_bytes()), None));
            }
            IntentFact::PlanRefused { problems, .. } => {
                let step = self.step((Kind::Plan, 0), ts);
                step.end("failed", ts);
                step.error = Some(problems.join("; "));
            }
            IntentFact::PlanNodePassed { node } => self.node(*node, ts).end("succeeded", ts),
            IntentFact::PlanNodeSkipped { node, why } => {
                let step = self.node(*node, ts);
                step.end("skipped", ts);
                step.output = Some(json!({ "why": why }));
            }
            IntentFact::PlanNodeDecided { node, choice } => self.node(*node, ts).choose(choice, "agent", ts),
            IntentFact::PlanNodeExpired { node, choice } => self.node(*node, ts).choose(choice, "timeout", ts),
            IntentFact::PlanNodeCarried { node, run, choice, summary } => {
                let step = self.node(*node, ts);
                step.end("succeeded", ts);
                step.output = Some(json!({"run": run, "choice": choice, "summary": summary}));
            }
            IntentFact::TurnOutput { step, files } => self.left(*step, files, ts),
            IntentFact::PlanHeld { .. } => {}
        }
    }

    fn node(&mut self, node: u32, ts: Timestamp) -> &mut Step {
        self.step((Kind::Node, node), ts)
    }

    fn left(&mut self, turn: StepRef, files: &[OutputFile], ts: Timestamp) {
        let (id, dir) = (self.id, format!("steps/{}", turn.dir_name()));
        let step = self.step(self.key_of(turn), ts);
        for file in files {
            let kind = match file.path.as_str() {
                "logs/stdout.txt" => "stdout",
                "logs/stderr.txt" => "stderr",
                "output.json" => "raw",
                _ => "file",
            };
            let mut shown = artifact(&id, kind, file.sha256, Some((&dir, &file.path)));
            shown["path"] = json!(file.path);
            step.artifacts.push(shown);
        }
    }

    fn asked(&mut self, wait: &Wait, ts: Timestamp) {
        let Some(key) = self.key_of_wait(&wait.id.0) else { return };
        let step = self.step(key, ts);
        step.status = "waiting";
        step.output = Some(json!({"question": wait}));
    }

    fn answered(&mut self, wait: &str, choice: &str, by: &str, ts: Timestamp) {
        let Some(key) = self.key_of_wait(wait) else { return };
        self.step(key, ts).choose(choice, by, ts);
    }

    /// The node whose question it is.
    fn key_of_wait(&self, wait: &str) -> Option<Key> {
        Some((Kind::Node, *self.names.get(wait.strip_prefix(WAIT_PREFIX)?)?))
    }

    fn key_of(&self, step: StepRef) -> Key {
        match (step.node, step.item) {
            (Some(node), _) if self.is_intent => (Kind::Node, node),
            (None, Some(COMPILE)) if self.is_intent => (Kind::Compile, 0),
            _ => (Kind::Turn, step.index),
        }
    }

    /// What the plan says of each node: its name, and which of the public names its step has.
    fn settle(&mut self, intent: &State) {
        for (node, place) in intent.nodes().iter().zip(0..) {
            let Some(step) = self.by_key.get_mut(&(Kind::Node, place)) else { continue };
            describe(step, node);
        }
    }

    /// A run that ended before its first step says why in the step that never began.
    fn never_began(&mut self, is_intent: bool, end: &Event) {
        let key = if is_intent { (Kind::Compile, 0) } else { (Kind::Turn, 0) };
        let step = self.step(key, end.ts);
        step.end("failed", end.ts);
        step.error = Some(end.fact.message());
    }

    /// The nodes that nobody began or answered when the run ended are skipped.
    fn never_reached(&mut self, intent: &State, ts: Timestamp) {
        for (place, node) in intent.in_order().filter(|(_, node)| node.stage == Stage::Waiting) {
            let step = self.node(place, ts);
            // What was cut off says so.
            if step.status == "interrupted" {
                continue;
            }
            step.end("skipped", ts);
            let question = step.output.as_ref().and_then(|output| output.get("question"));
            let mut output = json!({"why": "the run ended before it"});
            if let Some(question) = question.filter(|_| node.choice.is_none()) {
                output["question"] = question.clone();
            }
            step.output = Some(output);
        }
    }

    fn shown(mut self) -> (Vec<Open>, Vec<Open>) {
        let (mut steps, mut artifacts) = (Vec::new(), Vec::new());
        for key in &self.order {
            let Some(step) = self.by_key.remove(key) else { continue };
            let (shown, left) = step.shown();
            steps.push(shown);
            artifacts.extend(left);
        }
        (steps, artifacts)
    }
}

fn describe(step: &mut Step, node: &NodeState) {
    step.node = Some((node.spec.id.clone(), node.spec.kind));
    if matches!(node.spec.work, Work::Decision { .. } | Work::Approval) {
        (step.name, step.phase) = ("DecideST", "planning");
    }
    // An approved command has its turn before it.
    if node.stage == Stage::Waiting && step.status == "succeeded" {
        (step.status, step.finished) = ("queued", None);
    }
    if let Stage::Failed(_) = node.stage {
        step.status = "failed";
        step.error = step.error.take().or_else(|| Some(node.summary.clone()));
    }
}

fn artifact(run: &RunId, kind: &str, sha256: Digest, file: Option<(&str, &str)>) -> Value {
    let mut shown = json!({"kind": kind, "sha256": sha256});
    if let Some((dir, path)) = file {
        shown["uri"] = json!(format!("artifact://{}", derived_uuid(run, &["artifact", dir, path])));
    }
    shown
}

impl Step {
    fn end(&mut self, status: &'static str, ts: Timestamp) {
        (self.status, self.finished) = (status, Some(ts));
    }

    fn choose(&mut self, choice: &str, by: &str, ts: Timestamp) {
        let chosen = json!({"by": by, "choice": choice});
        let bytes = contract::json::canonical(&chosen).expect("BUG: two texts have a canonical form");
        self.artifacts.push(json!({"kind": "decision", "sha256": sha256(&bytes), "inline": chosen}));
        self.output = Some(chosen);
        self.end("succeeded", ts);
    }

    fn shown(self) -> (Open, Vec<Open>) {
        let mut shown = Open::new();
        let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
        put("stepId", json!(self.name));
        put("phase", json!(self.phase));
        put("status", json!(self.status));
        put("attempt", json!(self.attempt));
        if let Some((id, kind)) = &self.node {
            put("nodeId", json!(id));
            put("kind", json!(kind));
        }
        self.role.iter().for_each(|role| put("role", json!(role)));
        self.started.iter().for_each(|ts| put("startedAt", json!(ts)));
        self.finished.iter().for_each(|ts| put("finishedAt", json!(ts)));
        self.output.iter().for_each(|output| put("output", output.clone()));
        self.error.iter().for_each(|error| put("error", json!(error)));
        let none = json!({"kind": "none", "sha256": sha256(b"")});
        let left = if self.artifacts.is_empty() { vec![none] } else { self.artifacts };
        let named = left.into_iter().filter_map(|mut artifact| {
            artifact["stepId"] = json!(self.name);
            if let Some((id, _)) = &self.node {
                artifact["nodeId"] = json!(id);
            }
            artifact.as_object().cloned()
        });
        let artifacts = named.collect();
        (shown, artifacts)
    }
}
