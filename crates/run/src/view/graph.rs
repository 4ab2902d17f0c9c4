//! Graphs that people build, as they are told: nodes and edges that come and go, what is sent to nodes, and what their
//! agents wish for. What is shown of a node's inbox follows the same rules as the inbox itself.

use super::asked::Waiting;
use super::node::NodeState;
use super::{Out, Projector, short};
use crate::workflow::graph::rights::effective;
use contract::graph::{
    EdgeSet, HandoffSent, ModeChanged, NodeAdded, NodeAnswered, NodeAsked, NodeChanged, NodeMessage, PhaseChanged,
    Stalled,
};
use contract::id::derived_uuid;
use contract::view::graph::{
    Connection, ConnectionStatus, Message, Node, NodeStatus, Resolution, ResolutionStatus, Session,
};
use contract::view::stream::StreamBody;
use contract::{AgentType, GraphFact, ItemEnded, ItemStatus, NodeTerms, RunId, StepCommitted, Timestamp, TurnEnd};
use serde_json::{Map, json};
use std::sync::Arc;

/// The id of a node that somebody made, by its place.
pub fn graph_node_id(run: &RunId, place: u32) -> String {
    derived_uuid(run, &["node", "graph", &place.to_string()])
}

/// A node of a graph as it is shown: with the permissions that hold, which may be stricter than those that were asked for.
fn shown(run: &RunId, terms: &NodeTerms, kind: Option<AgentType>, ts: Timestamp) -> Node {
    Node {
        id: terms.id.clone(),
        run_id: *run,
        label: terms.label.clone(),
        role_template: terms.role_template.to_string(),
        provider: terms.provider,
        status: NodeStatus::Idle,
        summary: "idle".to_owned(),
        last_activity_at: ts,
        capabilities: terms.capabilities,
        permissions: effective(terms, kind),
        session: Session { session_id: String::new(), reset_commands: terms.reset_commands.clone() },
        connection: Some(Connection {
            status: ConnectionStatus::Idle,
            streaming: false,
            last_heartbeat_at: None,
            last_output_at: None,
        }),
        inbox_count: Some(0),
        custom_system_prompt: terms.custom_system_prompt.clone(),
        agent: Some(terms.worker.clone()),
        model: terms.model.clone(),
        scope: terms.scope.clone(),
    }
}

/// Has a node show what it is now.
fn show(node: &mut Node, terms: &NodeTerms, kind: Option<AgentType>) {
    let Node { status, summary, last_activity_at, session, connection, inbox_count, .. } = node.clone();
    let fresh = shown(&node.run_id, terms, kind, last_activity_at);
    let session = Session { reset_commands: fresh.session.reset_commands.clone(), ..session };
    *node = Node { status, summary, session, connection, inbox_count, ..fresh };
}

impl Projector {
    /// A fact that only a graph has.
    pub(super) fn graph_fact(&mut self, fact: &GraphFact, out: &mut Out) {
        match fact {
            GraphFact::NodeAdded(added) => self.node_added(added, out),
            GraphFact::NodeChanged(changed) => self.node_changed(changed, out),
            GraphFact::NodeHeld { node, held, .. } => self.node_held(*node as usize, *held, out),
            GraphFact::NodeReset { node, .. } => self.progress(*node as usize, out, |state| {
                state.node.session.session_id = String::new();
                state.node.summary = "reset: its conversation begins anew".to_owned();
            }),
            GraphFact::NodeRemoved { node, .. } => self.node_removed(*node as usize, out),
            GraphFact::EdgeSet(set) => self.edge_set(set, out),
            GraphFact::EdgeRemoved { edge, .. } => {
                out.tell(StreamBody::EdgeDeleted { edge_id: edge.clone() });
                self.change_run(out, |_| ());
            }
            GraphFact::MessageSent(message) => self.message_sent(message, out),
            GraphFact::HandoffSent(sent) => self.handoff_sent(sent, out),
            GraphFact::NodeAsked(asked) => self.node_asked(asked, out),
            GraphFact::NodeAnswered(answered) => self.node_answered(answered, out),
            GraphFact::ModeChanged(ModeChanged { new: (mode, global_mode), .. }) => {
                self.change_run(out, |run| (run.mode, run.global_mode) = (*mode, *global_mode));
            }
            GraphFact::PhaseChanged(PhaseChanged { new, .. }) => self.change_run(out, |run| run.phase = *new),
            GraphFact::DoneMarked { node: Some(node), .. } => {
                self.progress(*node as usize, out, |state| {
                    state.node.summary = short(&format!("done: {}", state.node.summary))
                });
            }
            GraphFact::DoneMarked { node: None, .. } => self.change_run(out, |_| ()),
            GraphFact::ChangeProposed(proposed) => {
                Arc::make_mut(&mut self.proposed_by).push(proposed.node);
                self.progress(proposed.node as usize, out, |state| state.node.summary = "change is judged".to_owned());
            }
            GraphFact::RunStalled(stalled) => self.stalled(stalled, out),
            GraphFact::NodeWished { .. } => {}
        }
    }

    fn kind_of(&self, terms: &NodeTerms) -> Option<AgentType> {
        self.workers.get(&terms.worker).map(|agent| agent.kind)
    }

    fn node_added(&mut self, added: &NodeAdded, out: &mut Out) {
        let kind = self.kind_of(&added.terms);
        let node = shown(&self.id, &added.terms, kind, out.ts);
        self.touch(self.nodes.len()..self.nodes.len() + 1, out);
        self.nodes.push(Arc::new(NodeState::of_graph(node.clone(), kind)));
        self.change_run_and_nodes(out, vec![node], |_| ());
    }

    fn node_changed(&mut self, changed: &NodeChanged, out: &mut Out) {
        let (kind, is_other) = (self.kind_of(&changed.new), changed.old.worker != changed.new.worker);
        self.change_node(changed.node as usize, out, |state| {
            show(&mut state.node, &changed.new, kind);
            state.kind = kind;
            if is_other {
                state.node.session.session_id = String::new();
            }
        });
    }

    fn node_held(&mut self, place: usize, held: bool, out: &mut Out) {
        self.progress(place, out, |state| match held {
            true => (state.node.status, state.node.summary) = (NodeStatus::Blocked, "stopped".to_owned()),
            false if state.node.status == NodeStatus::Blocked => {
                (state.node.status, state.node.summary) = (NodeStatus::Idle, "idle".to_owned());
            }
            false => {}
        });
    }

    fn node_removed(&mut self, place: usize, out: &mut Out) {
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        self.lapse_of_node(place, out);
        self.nodes.update(place, |state| Arc::make_mut(state).removed = true);
        self.touched.remove(&place);
        out.tell(StreamBody::NodeDeleted { node_id });
        self.change_run(out, |_| ());
    }

    fn edge_set(&mut self, set: &EdgeSet, out: &mut Out) {
        out.tell(StreamBody::EdgeCreated { edge: set.edge.clone() });
        self.change_run(out, |_| ());
    }

    fn message_sent(&mut self, sent: &NodeMessage, out: &mut Out) {
        let place = sent.node as usize;
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        let message = Message {
            id: sent.id.clone(),
            run_id: self.id,
            node_id: Some(node_id),
            role: sent.role,
            content: sent.content.clone(),
            interrupt: Some(sent.interrupt),
            created_at: out.ts,
        };
        out.tell(StreamBody::MessageUser { message });
        self.change_node(place, out, |state| {
            if let Some(turn) = state.turn.as_mut().filter(|_| sent.interrupt) {
                turn.interrupted = true;
            }
            state.receive(1);
        });
    }

    fn handoff_sent(&mut self, sent: &HandoffSent, out: &mut Out) {
        let node_id = sent.envelope.from_node_id.clone();
        out.tell(StreamBody::HandoffSent { node_id, envelope: Box::new(sent.envelope.clone()) });
        let to = self.nodes.iter().position(|state| state.node.id == sent.envelope.to_node_id);
        if let Some(place) = to {
            self.change_node(place, out, |state| state.receive(1));
        }
    }

    /// A turn takes everything that waits for its node.
    pub(super) fn take_inbox(&mut self, place: usize, out: &mut Out) {
        self.change_node(place, out, |state| {
            let count = state.node.inbox_count.unwrap_or_default();
            if let Some(turn) = state.turn.as_mut() {
                turn.taken = count;
            }
            state.node.inbox_count = Some(0);
        });
    }

    /// Whether what a turn had taken waits for its node again.
    pub(super) fn gives_back(&self, place: usize, done: &StepCommitted) -> bool {
        let Some(state) = self.nodes.get(place) else { return false };
        match done.end {
            TurnEnd::Interrupted => !state.turn.as_ref().is_some_and(|turn| turn.interrupted),
            TurnEnd::ProtocolError => state.protocol_errors < self.protocol_retries,
            TurnEnd::Answered | TurnEnd::Failed | TurnEnd::TimedOut => false,
        }
    }

    /// The turn of a node is over, one way or another.
    pub(super) fn close_node_turn(&mut self, place: usize, gives_back: bool, failed_protocol: bool, out: &mut Out) {
        self.change_node(place, out, |state| {
            let taken = state.turn.as_ref().map_or(0, |turn| turn.taken);
            if gives_back {
                state.receive(taken);
            }
            state.protocol_errors = if failed_protocol && gives_back { state.protocol_errors + 1 } else { 0 };
        });
    }

    fn node_asked(&mut self, asked: &NodeAsked, out: &mut Out) {
        let Some(place) = asked.step.node.map(|place| place as usize) else { return };
        self.ask(Waiting { place, in_turn: false, of_node: true, is_approval: true, by: None }, &asked.wait, out);
    }

    fn node_answered(&mut self, answered: &NodeAnswered, out: &mut Out) {
        let id = answered.approval.to_string();
        let Some(place) = self.waiting.get(&id).map(|waiting| waiting.place) else { return };
        let instead = answered.argv.as_ref().filter(|_| answered.status == ResolutionStatus::Modified);
        let resolution = Resolution {
            status: answered.status,
            modified_args: instead.map(|argv| Map::from_iter([("argv".to_owned(), json!(argv))])),
            scope: None,
            by: Some(answered.by.clone()).filter(|by| !by.is_empty()),
            reason: answered.reason.clone(),
        };
        self.settle(&id, resolution, out);
        let word = match answered.status {
            ResolutionStatus::Approved => "approved",
            ResolutionStatus::Denied => "denied",
            ResolutionStatus::Modified => "approved with changes",
        };
        self.release(place, word, out);
    }

    fn stalled(&mut self, stalled: &Stalled, out: &mut Out) {
        out.tell(StreamBody::RunStalled { evidence: stalled.evidence.clone() });
        self.progress(stalled.node as usize, out, |state| {
            (state.node.status, state.node.summary) = (NodeStatus::Blocked, "stalled".to_owned());
        });
    }

    /// A change of a graph is judged: its node stays what it is.
    pub(super) fn graph_change_ended(&mut self, ended: &ItemEnded, out: &mut Out) {
        let place = self.node_of_item(ended.item);
        let ok = ended.status == ItemStatus::Success;
        self.reports(place, ended.change, ended.step, true, out);
        let summary = match (ok, ended.message.is_empty()) {
            (true, _) => "change passed every gate".to_owned(),
            (false, true) => format!("change refused: {}", ended.status),
            (false, false) => short(&format!("change refused: {}", ended.message)),
        };
        let ts = out.ts;
        self.progress(place, out, |state| {
            state.node.summary = summary;
            state.touch(ts);
        });
        self.change_run(out, |_| ());
    }

    /// The place of the node that a change belongs to.
    pub(super) fn node_of_item(&self, item: u32) -> usize {
        match self.is_graph() {
            true => self.proposed_by.get(item as usize).map_or(usize::MAX, |place| *place as usize),
            false => item as usize,
        }
    }
}
