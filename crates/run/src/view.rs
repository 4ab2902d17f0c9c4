//! Every run as a graph to look at, in seed 003's form: a loop has four nodes, a batch a node for each item. A [`Projector`]
//! follows a run's log and tells each fact as the events of a stream; what a client makes of them is the run's graph, which
//! is therefore never anything else than what was told. It is used for history, for those who watch, and by the store,
//! which keeps the parts of the graph beside the log ([`Projector::parts`]).
//!
//! The state that is kept on the way is small and cheap to copy: the nodes, what is waited for, and nothing that only grows.

mod artifact;
mod asked;
mod drawing;
mod facts;
mod graph;
mod intent;
mod node;
mod past;
mod pipeline;
mod plan;
mod session;

use crate::persistent::{Element, PersistentVec};
pub use artifact::{artifact_id, diff_id};
use asked::Waiting;
pub use asked::approval;
use contract::id::derived_uuid;
use contract::view::graph::{Approval, Artifact, Edge, Node, RunGraph};
use contract::view::stream::{NodePatch, RunPatch, StreamBody, StreamEvent};
use contract::{AgentConfig, Event, Role, RunId, SessionEvent, StepRef, Timestamp, Workflow};
pub use drawing::Drawing;
pub use graph::graph_node_id;
pub use intent::{run_name, view_model};
use node::NodeState;
pub use past::Past;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

/// Follows the log of one run and tells it as a stream.
#[derive(Debug, Clone)]
pub struct Projector {
    id: RunId,
    /// The repository, as an absolute path: where the paths of artifacts begin. Empty where they stay relative.
    root: Arc<str>,
    /// The directory of the run, relative to the repository where it lies inside it.
    run_dir: Arc<str>,
    /// The run without its nodes, edges and artifacts; none before its first fact.
    head: Option<Arc<RunGraph>>,
    nodes: PersistentVec<Arc<NodeState>>,
    /// The places of items by their ids.
    places: Arc<BTreeMap<String, u32>>,
    /// Who carries out items, by name.
    workers: Arc<BTreeMap<String, AgentConfig>>,
    /// How many turns are open.
    open: u32,
    /// What a person was asked and has not answered, by its name.
    waiting: BTreeMap<String, Waiting>,
    /// Which node of a graph proposed each of its changes.
    proposed_by: Arc<Vec<u32>>,
    /// The places of the nodes of a plan, by their ids.
    plan_places: Arc<BTreeMap<String, usize>>,
    /// Who works on the nodes of a plan, by its name.
    intent_agent: Option<Arc<str>>,
    /// How many times a node is asked again that broke the protocol.
    protocol_retries: u32,
    /// The node whose turn was committed last: who hands over to the next one of a loop.
    last: Option<usize>,
    /// The nodes that have changed since somebody asked for the parts that have.
    touched: BTreeSet<usize>,
}

impl Element for Arc<NodeState> {
    type Summary = ();

    fn summary(&self) {}
}

/// A node as it was, shared with whoever projected it.
#[derive(Debug, Clone)]
pub struct SharedNode(Arc<NodeState>);

impl Deref for SharedNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0.node
    }
}

/// A part of a run's graph, as the store keeps it.
#[derive(Debug, Clone)]
pub enum Part {
    /// The run without its nodes, edges and artifacts.
    Head(Arc<RunGraph>),
    /// A node as it is now.
    Node(SharedNode),
    /// An edge.
    Edge(Edge),
    /// An artifact.
    Artifact(Box<Artifact>),
    /// Somebody is asked.
    Asked(Box<Approval>),
    /// Nobody is asked any more, by the id of the approval.
    Settled(String),
    /// A node is gone, by its id.
    NodeGone(String),
    /// An edge is gone, by its id.
    EdgeGone(String),
}

/// What a part is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PartKind {
    /// The run itself.
    Head,
    /// A node.
    Node,
    /// An edge.
    Edge,
    /// An artifact.
    Artifact,
    /// A question to a person.
    Asked,
}

impl Part {
    /// What it says of the run, if it is a part of the graph that this told.
    fn told(body: StreamBody) -> Option<Part> {
        Some(match body {
            StreamBody::EdgeCreated { edge } => Part::Edge(edge),
            StreamBody::EdgeDeleted { edge_id } => Part::EdgeGone(edge_id),
            StreamBody::NodeDeleted { node_id } => Part::NodeGone(node_id),
            StreamBody::ArtifactCreated { artifact, .. } => Part::Artifact(Box::new(artifact)),
            StreamBody::ApprovalRequested(asked) => Part::Asked(Box::new(asked)),
            StreamBody::ApprovalResolved { approval_id, .. } => Part::Settled(approval_id),
            _ => return None,
        })
    }

    /// What it is of, and which one. The run itself has no name.
    pub fn key(&self) -> (PartKind, &str) {
        match self {
            Part::Head(_) => (PartKind::Head, ""),
            Part::Node(node) => (PartKind::Node, &node.id),
            Part::Edge(edge) => (PartKind::Edge, &edge.id),
            Part::Artifact(artifact) => (PartKind::Artifact, &artifact.id),
            Part::Asked(asked) => (PartKind::Asked, &asked.approval_id),
            Part::Settled(id) => (PartKind::Asked, id),
            Part::NodeGone(id) => (PartKind::Node, id),
            Part::EdgeGone(id) => (PartKind::Edge, id),
        }
    }

    /// Whether it says that there is no such part any more.
    fn is_gone(&self) -> bool {
        matches!(self, Part::Settled(_) | Part::NodeGone(_) | Part::EdgeGone(_))
    }

    /// Whether it is on record at once, whoever looks: what people are asked is looked up by itself, and what is removed is gone.
    pub fn is_urgent(&self) -> bool {
        self.is_gone() || self.key().0 == PartKind::Asked
    }
}

impl Projector {
    /// Before the first fact of a run. `root` is the repository as an absolute path, and empty if the paths of artifacts are
    /// to stay relative to it.
    pub fn new(id: RunId, root: &str) -> Projector {
        Projector {
            id,
            root: root.into(),
            run_dir: "".into(),
            head: None,
            nodes: PersistentVec::default(),
            places: Arc::default(),
            workers: Arc::default(),
            open: 0,
            waiting: BTreeMap::new(),
            proposed_by: Arc::default(),
            plan_places: Arc::default(),
            intent_agent: None,
            protocol_retries: 0,
            last: None,
            touched: BTreeSet::new(),
        }
    }

    /// The next fact, as it is told. The events of the same fact are the same whoever projects it, and whenever.
    pub fn apply(&mut self, event: &Event) -> Vec<StreamEvent> {
        let (run, seq) = (self.id, Some(event.seq));
        let told = (0..).zip(self.tell(event)).map(|(place, body): (u32, _)| {
            let id = derived_uuid(&run, &["event", &event.seq.to_string(), &place.to_string()]);
            StreamEvent { id, run_id: run, ts: event.ts, seq, cause_seq: seq, body }
        });
        told.collect()
    }

    /// The same for whoever wants only the parts that it changes: without names for what is told.
    pub fn tell(&mut self, event: &Event) -> Vec<StreamBody> {
        self.told(event, false)
    }

    /// The next fact, for whoever wants to hear only of what comes after it.
    pub fn skip(&mut self, event: &Event) {
        self.told(event, true);
    }

    fn told(&mut self, event: &Event, quiet: bool) -> Vec<StreamBody> {
        let mut out = Out { seq: event.seq, ts: event.ts, quiet, told: Vec::new() };
        self.take(event, &mut out);
        out.told
    }

    /// The run without its nodes, edges and artifacts; none before its first fact.
    pub fn head(&self) -> Option<&RunGraph> {
        self.head.as_deref()
    }

    /// Its nodes, in the order of the contract, or in which they were made.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.states().map(|state| &state.node)
    }

    fn states(&self) -> impl Iterator<Item = &Arc<NodeState>> {
        self.nodes.iter().filter(|state| !state.removed)
    }

    /// What this fact changes of the graph at once, whoever looks; the rest can be found again in the log.
    pub fn tell_urgent(&mut self, event: &Event) -> Vec<Part> {
        self.told(event, true).into_iter().filter_map(Part::told).collect()
    }

    /// What was just told has changed of the graph, each part once as it is now; always with the run itself.
    pub fn parts(&mut self, told: Vec<StreamBody>) -> Vec<Part> {
        let mut parts: Vec<Part> = told.into_iter().filter_map(Part::told).collect();
        let touched = std::mem::take(&mut self.touched);
        let nodes = touched.into_iter().filter_map(|place| self.nodes.get(place)).filter(|state| !state.removed);
        parts.extend(nodes.map(|state| Part::Node(SharedNode(Arc::clone(state)))));
        parts.extend(self.head.clone().map(Part::Head));
        parts
    }
}

/// The run as a graph, from its whole log; none if that is empty.
pub fn graph(id: RunId, root: &str, events: &[Event]) -> Option<RunGraph> {
    let mut past = Past::new(id, root);
    for event in events {
        past.apply(event);
    }
    past.graph()
}

/// What an agent is in the middle of, which is on no record: a piece of a message or of a thought. `id` must be one that
/// nothing else has.
pub fn delta(run: &RunId, id: String, ts: Timestamp, step: StepRef, event: &SessionEvent) -> Option<StreamEvent> {
    let node_id = node_id(run, step);
    let body = match event {
        SessionEvent::MessageDelta { text } => StreamBody::MessageDelta { node_id, delta: text.clone() },
        SessionEvent::Thought { text } => StreamBody::ThinkingDelta { node_id, delta: text.clone() },
        _ => return None,
    };
    Some(StreamEvent { id, run_id: *run, ts, seq: None, cause_seq: None, body })
}

/// The id of the node that takes a turn.
pub fn node_id(run: &RunId, step: StepRef) -> String {
    match (step.node, step.item) {
        (Some(place), _) if matches!(step.role, Role::Decide | Role::Execute) => plan::plan_node_id(run, place),
        (Some(place), _) => graph_node_id(run, place),
        (None, Some(place)) => item_node_id(run, place),
        (None, None) => derived_uuid(run, &["node", step.role.as_str()]),
    }
}

fn item_node_id(run: &RunId, place: u32) -> String {
    derived_uuid(run, &["node", "item", &place.to_string()])
}

/// Whether it is told of at once, whoever listens: what people are asked is looked up by itself, and what is removed is gone.
fn is_urgent(body: &StreamBody) -> bool {
    matches!(
        body,
        StreamBody::ApprovalRequested(_)
            | StreamBody::ApprovalResolved { .. }
            | StreamBody::NodeDeleted { .. }
            | StreamBody::EdgeDeleted { .. }
    )
}

/// What is told of one fact.
struct Out {
    seq: u64,
    ts: Timestamp,
    /// Whether nobody listens but for what is urgent.
    quiet: bool,
    told: Vec<StreamBody>,
}

impl Out {
    fn tell(&mut self, body: StreamBody) {
        if !self.quiet || is_urgent(&body) {
            self.told.push(body);
        }
    }
}

/// Changing what is shown, and telling the difference.
impl Projector {
    /// Changes the run itself. Even where nothing else differs, it was updated now.
    fn change_run(&mut self, out: &mut Out, change: impl FnOnce(&mut RunGraph)) {
        self.change_run_and_nodes(out, Vec::new(), change);
    }

    fn change_run_and_nodes(&mut self, out: &mut Out, nodes: Vec<Node>, change: impl FnOnce(&mut RunGraph)) {
        let Some(head) = self.head.as_mut() else { return };
        if out.quiet {
            let after = Arc::make_mut(head);
            change(after);
            after.updated_at = out.ts;
            return;
        }
        let before = Arc::clone(head);
        let after = Arc::make_mut(head);
        change(after);
        after.updated_at = out.ts;
        let state = (before.state, before.reason, &before.message) != (after.state, after.reason, &after.message);
        let patch = RunPatch {
            status: differs(&before.status, &after.status),
            phase: differs(&before.phase, &after.phase),
            mode: differs(&before.mode, &after.mode),
            global_mode: differs(&before.global_mode, &after.global_mode),
            updated_at: Some(after.updated_at),
            state: state.then_some(after.state),
            reason: after.reason.filter(|_| state),
            message: after.message.clone().filter(|_| state),
            nodes: nodes.into_iter().map(|node| (node.id.clone(), node)).collect(),
            edges: BTreeMap::new(),
        };
        let (phase, previous_phase) = (after.phase, before.phase);
        let mode = (patch.mode, patch.global_mode);
        if phase != previous_phase {
            out.tell(StreamBody::RunPhase { phase, previous_phase });
        }
        if mode != (None, None) {
            out.tell(StreamBody::RunMode { mode: mode.0, global_mode: mode.1 });
        }
        out.tell(StreamBody::RunPatch { patch: Box::new(patch) });
    }

    /// What is not told is not written either.
    fn touch(&mut self, places: std::ops::Range<usize>, out: &Out) {
        if !out.quiet {
            self.touched.extend(places);
        }
    }

    /// Changes a node.
    fn change_node(&mut self, place: usize, out: &mut Out, change: impl FnOnce(&mut NodeState)) {
        if place >= self.nodes.len() {
            return;
        }
        let patch = self.nodes.update(place, |slot| {
            let before = Arc::clone(slot);
            change(Arc::make_mut(slot));
            difference(&before.node, &slot.node).map(|patch| (slot.node.id.clone(), patch))
        });
        if let Some((node_id, patch)) = patch {
            self.touch(place..place + 1, out);
            out.tell(StreamBody::NodePatch { node_id, patch: Box::new(patch) });
        }
    }

    /// Changes a node that has come to another point of its work, and says so.
    fn progress(&mut self, place: usize, out: &mut Out, change: impl FnOnce(&mut NodeState)) {
        self.change_node(place, out, change);
        if let Some(state) = self.nodes.get(place) {
            let Node { id, status, summary, .. } = &state.node;
            out.tell(StreamBody::NodeProgress { node_id: id.clone(), status: *status, summary: summary.clone() });
        }
    }

    /// The place of the node that takes a turn.
    fn place(&self, step: StepRef) -> usize {
        match step.node.or(step.item) {
            Some(place) if step.node.is_some() && !self.is_graph() => plan::BEFORE_PLAN + place as usize,
            Some(place) => place as usize,
            None => Role::PDCA.iter().position(|role| *role == step.role).unwrap_or(usize::MAX),
        }
    }

    fn is_graph(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.workflow == Workflow::Graph)
    }

    fn is_loop(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.workflow == Workflow::Pdca)
    }
}

fn differs<T: PartialEq + Clone>(before: &T, after: &T) -> Option<T> {
    (before != after).then(|| after.clone())
}

/// What of a node has changed; none if nothing has.
fn difference(before: &Node, after: &Node) -> Option<NodePatch> {
    let patch = NodePatch {
        label: differs(&before.label, &after.label),
        role_template: differs(&before.role_template, &after.role_template),
        provider: differs(&before.provider, &after.provider),
        custom_system_prompt: differs(&before.custom_system_prompt, &after.custom_system_prompt)
            .map(Option::unwrap_or_default),
        status: differs(&before.status, &after.status),
        summary: differs(&before.summary, &after.summary),
        last_activity_at: differs(&before.last_activity_at, &after.last_activity_at),
        capabilities: differs(&before.capabilities, &after.capabilities),
        permissions: differs(&before.permissions, &after.permissions),
        session: differs(&before.session, &after.session),
        connection: differs(&before.connection, &after.connection).flatten(),
        inbox_count: differs(&before.inbox_count, &after.inbox_count).flatten(),
        model: differs(&before.model, &after.model).flatten(),
    };
    (patch != NodePatch::default()).then_some(patch)
}

/// The beginning of the first line: what fits beside a node.
fn short(text: &str) -> String {
    const CHARS_MAX: usize = 140;
    let line = text.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(CHARS_MAX).collect();
    if line.chars().count() > CHARS_MAX {
        short.push('…');
    }
    short
}
