//! What a person is asked: approvals within a turn and of the run itself, and questions that are none. The reasons of an
//! approval are what the person is shown and what their answer is bound to, so everything that is told of it is read from
//! them and from nothing else.

use super::{Out, Projector, short};
use crate::gate::command;
use contract::id::derived_uuid;
use contract::view::graph::{Approval, NodeStatus, Resolution, ResolutionStatus, Tool};
use contract::view::stream::StreamBody;
use contract::{Answered, ApprovalWait, REASON_DIFFERENCE, RunId, StepRef, Wait};
use serde_json::{Map, Value, json};

/// Something that a person was asked and has not answered.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    /// Which node waits.
    pub(super) place: usize,
    /// Whether it is one of its turns that does, and not the run.
    pub(super) in_turn: bool,
    /// Whether it is a node of a graph that does, whose turn is over.
    pub(super) of_node: bool,
    /// Whether it is an approval, and not a question.
    pub(super) is_approval: bool,
    /// Who approved it, once somebody has.
    pub(super) by: Option<String>,
}

impl Projector {
    /// A turn cannot continue without an approval.
    pub(super) fn approval_asked(&mut self, step: StepRef, wait: &ApprovalWait, out: &mut Out) {
        let place = self.place(step);
        let id = wait.approval.to_string();
        let request = request_of(&wait.reasons).map(str::to_owned);
        self.change_node(place, out, |state| {
            if let (Some(turn), Some(request)) = (state.turn.as_mut(), request) {
                turn.asked.insert(request, id);
            }
        });
        self.ask(Waiting { place, in_turn: true, of_node: false, is_approval: true, by: None }, wait, out);
    }

    /// The run cannot continue without an approval: the first node that has not come to its end waits for it.
    pub(super) fn run_waiting(&mut self, wait: &ApprovalWait, out: &mut Out) {
        let id = wait.approval.to_string();
        let of_run = |waiting: &Waiting| !waiting.in_turn && !waiting.of_node;
        self.lapse_where(|other, waiting| of_run(waiting) && other != id, "something else is asked", out);
        let place = self.first_open();
        self.ask(Waiting { place, in_turn: false, of_node: false, is_approval: true, by: None }, wait, out);
    }

    /// Asked again under the same name it is the same question, and is told once.
    pub(super) fn ask(&mut self, waiting: Waiting, wait: &ApprovalWait, out: &mut Out) {
        let place = waiting.place;
        let id = wait.approval.to_string();
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        if self.waiting.contains_key(&id) {
            return;
        }
        self.waiting.insert(id, waiting);
        out.tell(StreamBody::ApprovalRequested(approval(&self.id, node_id, wait, &self.root)));
        self.block(place, wait.reasons.first().map_or("approval", String::as_str), out);
    }

    fn block(&mut self, place: usize, why: &str, out: &mut Out) {
        let ts = out.ts;
        self.progress(place, out, |state| {
            state.node.status = NodeStatus::Blocked;
            state.node.summary = short(why);
            state.touch(ts);
        });
    }

    /// Within a turn it is settled when the agent is told, which is what happens next.
    pub(super) fn approval_used(&mut self, id: &str, by: &str, out: &mut Out) {
        let Some(waiting) = self.waiting.get_mut(id) else { return };
        waiting.by = Some(by.to_owned());
        if waiting.in_turn {
            return;
        }
        let place = waiting.place;
        let resolution = resolved(ResolutionStatus::Approved, Some(by.to_owned()), None);
        self.settle(id, resolution, out);
        self.release(place, "approved", out);
    }

    /// Nobody waits for an approval any more.
    pub(super) fn settle(&mut self, id: &str, resolution: Resolution, out: &mut Out) {
        let Some(waiting) = self.waiting.remove(id) else { return };
        let Some(node_id) = self.nodes.get(waiting.place).map(|state| state.node.id.clone()) else { return };
        out.tell(StreamBody::ApprovalResolved { approval_id: id.to_owned(), node_id, resolution });
    }

    /// A node whose run has waited has nothing to wait for any more.
    pub(super) fn release(&mut self, place: usize, summary: &str, out: &mut Out) {
        let still = self.waiting.values().any(|waiting| waiting.place == place);
        self.progress(place, out, |state| {
            if state.node.status == NodeStatus::Blocked && !still {
                state.node.status = if state.turn.is_some() { NodeStatus::Running } else { NodeStatus::Idle };
                summary.clone_into(&mut state.node.summary);
            }
        });
    }

    /// The turn of a node is over: what was asked in it lapses.
    pub(super) fn lapse_of_turn(&mut self, place: usize, out: &mut Out) {
        self.lapse_where(|_, waiting| waiting.in_turn && waiting.place == place, "the turn is over", out);
    }

    /// A node is gone, and what it asked with it.
    pub(super) fn lapse_of_node(&mut self, place: usize, out: &mut Out) {
        self.lapse_where(|_, waiting| waiting.place == place, "the node is gone", out);
    }

    /// The run is over, and nothing is waited for any more.
    pub(super) fn lapse_all(&mut self, out: &mut Out) {
        self.lapse_where(|_, _| true, "the run is over", out);
    }

    /// What nobody approved is denied.
    fn lapse_where(&mut self, lapses: impl Fn(&str, &Waiting) -> bool, why: &str, out: &mut Out) {
        let lapsed = self.waiting.iter().filter(|(id, waiting)| lapses(id, waiting));
        let lapsed: Vec<(String, Waiting)> = lapsed.map(|(id, waiting)| (id.clone(), waiting.clone())).collect();
        for (id, waiting) in lapsed {
            if waiting.is_approval {
                self.settle(&id, resolved(ResolutionStatus::Denied, None, Some(why.to_owned())), out);
            }
            self.waiting.remove(&id);
            // Where a turn is over, what came of it is told of its node anyway.
            if !waiting.in_turn {
                self.release(waiting.place, why, out);
            }
        }
    }

    pub(super) fn question_asked(&mut self, wait: &Wait, out: &mut Out) {
        let place = match wait.about {
            Some(step) => self.place(step),
            None => self.asking_node(&wait.id.0).unwrap_or_else(|| self.first_open()),
        };
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        let question_id = wait.id.to_string();
        if self.waiting.contains_key(&question_id) {
            return;
        }
        let in_turn = wait.about.is_some();
        self.waiting
            .insert(question_id.clone(), Waiting { place, in_turn, of_node: false, is_approval: false, by: None });
        let (kind, reasons, choices) = (wait.kind, wait.reasons.clone(), wait.choices.clone());
        out.tell(StreamBody::QuestionAsked { node_id, question_id, kind, reasons, choices });
        self.block(place, wait.reasons.first().map_or(wait.kind.as_str(), String::as_str), out);
    }

    pub(super) fn question_answered(&mut self, said: &Answered, out: &mut Out) {
        let question_id = said.wait.to_string();
        let Some(waiting) = self.waiting.remove(&question_id) else { return };
        out.tell(StreamBody::QuestionAnswered { question_id, choice: said.choice.clone(), by: said.by.clone() });
        if let Some(text) = &said.text {
            self.tell_message(waiting.place, text, out);
        }
        self.release(waiting.place, "answered", out);
    }

    fn first_open(&self) -> usize {
        self.nodes.iter().position(|state| !state.ended).unwrap_or(0)
    }
}

fn resolved(status: ResolutionStatus, by: Option<String>, reason: Option<String>) -> Resolution {
    Resolution { status, modified_args: None, scope: None, by, reason }
}

/// What a person is asked to approve: the exact command and where it runs, the exact difference, or the reasons.
pub fn approval(run: &RunId, node_id: String, wait: &ApprovalWait, root: &str) -> Approval {
    let id = wait.approval.to_string();
    let (name, args) = what(&wait.reasons, root);
    Approval {
        tool: Tool { id: derived_uuid(run, &["asked", &id]), name, args },
        approval_id: id,
        node_id,
        context: Some(wait.reasons.join("\n")).filter(|text| !text.is_empty()),
        expires_at: Some(wait.expires_at),
    }
}

fn what(reasons: &[String], root: &str) -> (String, Map<String, Value>) {
    let named = |name: &str| reasons.iter().find_map(|reason| reason.strip_prefix(name));
    let mut args = Map::new();
    if let Some(line) = named("command: ") {
        // A line for a shell is what a shell would be given.
        let argv = command::split(line).unwrap_or_else(|_| ["sh", "-c", line].map(str::to_owned).to_vec());
        args.extend([("cmd".to_owned(), json!(line)), ("argv".to_owned(), json!(argv))]);
        args.insert("cwd".to_owned(), json!(named("directory: ").unwrap_or(root)));
        return ("command".to_owned(), args);
    }
    if let Some(tool) = named("tool: ") {
        let arguments = named("arguments: ").and_then(|text| serde_json::from_str(text).ok());
        if let Some(Value::Object(arguments)) = arguments {
            args = arguments;
        }
        let paths: Vec<&str> = reasons.iter().filter_map(|reason| reason.strip_prefix("path: ")).collect();
        if !paths.is_empty() {
            args.insert("paths".to_owned(), json!(paths));
        }
        args.extend(named("directory: ").map(|cwd| ("cwd".to_owned(), json!(cwd))));
        return (tool.to_owned(), args);
    }
    if let Some(diff) = named(REASON_DIFFERENCE) {
        let reasons: Vec<&String> = reasons.iter().filter(|reason| !reason.starts_with(REASON_DIFFERENCE)).collect();
        args.extend([("diff".to_owned(), json!(diff)), ("reasons".to_owned(), json!(reasons))]);
        return ("change".to_owned(), args);
    }
    args.insert("reasons".to_owned(), json!(reasons));
    ("run".to_owned(), args)
}

/// The agent's own name for the request that an approval is about: the last word of the reason that names its turn.
fn request_of(reasons: &[String]) -> Option<&str> {
    let turn = reasons.iter().rev().find_map(|reason| reason.strip_prefix("step: "))?;
    turn.split_once(' ').map(|(_, request)| request)
}
