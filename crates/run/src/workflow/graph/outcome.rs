//! What an answer of a node leads to, besides its words: what is handed to others, what a person is asked, what is proposed.
//! These facts are recorded with the turn, in the same commit, so that nothing of an answer is lost or done twice.

use crate::Run;
use crate::bounded::cut;
use crate::view::graph_node_id;
use crate::workflow::graph::edit::{drawn, find, unknown_agent};
use crate::workflow::graph::references::{diff_of, pack_of};
use crate::workflow::graph::rights::{item, spawn_requires_approval};
use crate::workflow::graph::{NodeState, NodeTurn, State, Wished};
use contract::graph::{
    ChangeProposed, EdgeInput, EdgeSet, Expectation, HandoffSent, NodeAdded, NodeAnswered, NodeMessage, NodeResult,
    NodeWish, SpawnWish, WishedHandoff,
};
use contract::id::derived_uuid;
use contract::view::graph::{
    ArtifactRef, Capabilities, Edge, EdgeKind, Envelope, EnvelopeKind, MessageRole, Payload, PayloadStatus,
    Permissions, PermissionsMode, Provider, ResolutionStatus,
};
use contract::{Addition, Fact, GraphFact, ItemAdded, ItemBase, NodeTerms, RunId, StepRef, Timestamp, TreeId};

/// Longest message that is handed over, in characters, and most bytes of what a program reads: a line of the log has a limit.
const MESSAGE_CHARS_MAX: usize = 8000;
const STRUCTURED_BYTES_MAX: usize = 32 << 10;

/// Longest reference: a scheme and an id.
const REFERENCE_CHARS_MAX: usize = 200;

/// Most handoffs, and most artifacts of one: an agent that has more to say says it in a file.
const HANDOFFS_MAX: usize = 64;

/// Who sends what nobody else does.
pub const NORMA: &str = "norma";

/// A turn that has ended, as far as others are concerned.
pub struct Ended<'e> {
    /// Which turn.
    pub step: StepRef,
    /// When.
    pub at: Timestamp,
    /// What its agent said, as a person reads it.
    pub summary: &'e str,
    /// Whether it did what was asked.
    pub ok: bool,
    /// Why not.
    pub reason: Option<&'e str>,
    /// What it answered besides.
    pub result: &'e NodeResult,
    /// What of its calls to norma's tools was not understood, or was too much.
    pub refused: &'e [String],
    /// What it made of its workspace, where it may change something.
    pub tree: Option<TreeId>,
}

/// What came of an answer: facts, and what was not followed.
#[derive(Debug, Default)]
pub struct Led {
    /// To be recorded with the turn.
    pub facts: Vec<Fact>,
    /// For the turn's own notes.
    pub notes: Vec<String>,
}

/// What the end of a turn leads to. `run` is the run in which the turn is still open.
pub fn led_to(run: &Run, ended: &Ended<'_>) -> Led {
    let Some((state, place, node, turn)) = parts(run, ended.step) else { return Led::default() };
    let mut led = Led::default();
    let from = From { run, state, place, node, turn, ended };
    if !ended.refused.is_empty() {
        from.refuse(&mut led, "what you called", &cut(&ended.refused.join("; "), MESSAGE_CHARS_MAX));
    }
    from.hand_over(&mut led);
    if !ended.ok || node.removed {
        return led;
    }
    from.ask(&mut led);
    from.spawn(&mut led);
    from.connect(&mut led);
    if ended.result.change {
        from.propose(&mut led);
    }
    if ended.result.done {
        led.facts.push(Fact::Graph(GraphFact::DoneMarked { node: Some(place), by: node.terms.label.clone() }));
    }
    led
}

fn parts(run: &Run, step: StepRef) -> Option<(&State, u32, &NodeState, &NodeTurn)> {
    let state = run.graph()?;
    let place = step.node?;
    let node = state.nodes.get(place as usize)?;
    let turn = node.turn.as_deref().filter(|turn| turn.step == step)?;
    Some((state, place, node, turn))
}

/// One turn that has ended, and where.
struct From<'f> {
    run: &'f Run,
    state: &'f State,
    place: u32,
    node: &'f NodeState,
    turn: &'f NodeTurn,
    ended: &'f Ended<'f>,
}

impl From<'_> {
    /// What its agent hands over; where it says nothing of that, its result goes along its edges.
    fn hand_over(&self, led: &mut Led) {
        if self.node.removed {
            return;
        }
        if self.ended.ok && !self.ended.result.handoffs.is_empty() {
            let all = &self.ended.result.handoffs;
            if all.len() > HANDOFFS_MAX {
                self.refuse(led, &format!("handoffs from {} on", HANDOFFS_MAX + 1), "an answer has at most that many");
            }
            for (number, wished) in all.iter().take(HANDOFFS_MAX).enumerate() {
                match self.explicit(number, wished) {
                    Ok(sent) => led.facts.push(Fact::Graph(GraphFact::HandoffSent(Box::new(sent)))),
                    Err(why) => self.refuse(led, &format!("handoff {}", number + 1), &why),
                }
            }
            return;
        }
        // A failure is told to whoever asked, and goes nowhere else.
        let goes_on = self.ended.ok && (self.turn.is_asked_by_person() || self.turn.causes().next().is_some());
        for (other, kind) in self.neighbours() {
            let replied = self.turn.causes().find(|(from, _)| self.id_of(*from) == other);
            let sent = match replied {
                Some((_, asked)) => self.reply(&other, asked),
                None if goes_on => self.result_to(&other, kind == EdgeKind::Report, Expectation::default()),
                None => continue,
            };
            led.facts.push(Fact::Graph(GraphFact::HandoffSent(Box::new(sent))));
        }
    }

    fn id_of(&self, place: u32) -> &str {
        self.state.nodes.get(place as usize).map_or("", |node| node.terms.id.as_str())
    }

    /// The ids of the nodes that it can send something to, with what goes over the edge; each once.
    fn neighbours(&self) -> Vec<(String, EdgeKind)> {
        let own = &self.node.terms.id;
        let mut found: Vec<(String, EdgeKind)> = Vec::new();
        for edge in self.state.edges.values() {
            let other = match (edge.from == *own, edge.to == *own && edge.bidirectional) {
                (true, _) => (&edge.to, edge.kind),
                // What comes back over an edge for work tells what came of it.
                (_, true) => (&edge.from, EdgeKind::Report),
                _ => continue,
            };
            if !found.iter().any(|(id, _)| id == other.0) {
                found.push((other.0.clone(), other.1));
            }
        }
        found
    }

    /// A reply goes back over the edge that the work came over, and starts no turn unless one was asked for.
    fn reply(&self, to: &str, asked: &HandoffSent) -> HandoffSent {
        self.result_to(to, asked.response != Expectation::Required, Expectation::None)
    }

    fn result_to(&self, to: &str, report: bool, response: Expectation) -> HandoffSent {
        let status = PayloadStatus { ok: self.ended.ok, reason: self.ended.reason.map(str::to_owned) };
        let payload = Payload {
            message: self.ended.summary.to_owned(),
            structured: None,
            artifacts: self.ended.ok.then(|| diff_of(&self.run.id, self.ended.step)).into_iter().collect(),
            status: Some(status),
        };
        HandoffSent { envelope: self.envelope(to, payload, None), step: Some(self.ended.step), report, response }
    }

    fn envelope(&self, to: &str, payload: Payload, number: Option<usize>) -> Envelope {
        let index = self.ended.step.index.to_string();
        let number = number.map_or_else(|| to.to_owned(), |number| number.to_string());
        Envelope {
            kind: EnvelopeKind::Handoff,
            id: derived_uuid(&self.run.id, &["handoff", &index, &number]),
            from_node_id: self.node.terms.id.clone(),
            to_node_id: to.to_owned(),
            created_at: self.ended.at,
            payload,
            context_ref: self.ended.ok.then(|| pack_of(&self.run.id, self.ended.step)),
        }
    }

    fn explicit(&self, number: usize, wished: &WishedHandoff) -> Result<HandoffSent, String> {
        let to = self.find(&wished.to)?;
        let structured =
            wished.structured.as_ref().map_or(0, |it| serde_json::to_string(it).map_or(usize::MAX, |it| it.len()));
        if structured > STRUCTURED_BYTES_MAX || wished.artifacts.len() > HANDOFFS_MAX {
            return Err("it is too large; put it into a file and say where that is".to_owned());
        }
        let edge = self.state.edge_between(&self.node.terms.id, &to);
        let edge = edge.ok_or_else(|| format!("there is no edge to {}", wished.to))?;
        let forth = edge.from == self.node.terms.id;
        let replied = self.turn.causes().find(|(from, _)| *self.id_of(*from) == *to);
        let report = match replied {
            _ if wished.report => true,
            Some((_, asked)) => asked.response != Expectation::Required,
            None => forth && edge.kind == EdgeKind::Report,
        };
        let payload = Payload {
            message: cut(&wished.message, MESSAGE_CHARS_MAX),
            structured: wished.structured.clone(),
            artifacts: wished.artifacts.iter().map(bounded_reference).collect(),
            status: wished.status.clone(),
        };
        let envelope = self.envelope(&to, payload, Some(number));
        let context_ref = wished.context_ref.as_ref().map(|given| cut(given, REFERENCE_CHARS_MAX));
        let envelope = Envelope { context_ref: context_ref.or(envelope.context_ref.clone()), ..envelope };
        Ok(HandoffSent { envelope, step: Some(self.ended.step), report, response: wished.response.unwrap_or_default() })
    }

    /// The id of the node that an agent means.
    fn find(&self, name: &str) -> Result<String, String> {
        if name.is_empty() {
            let leader = self.state.leader().map(|(_, node)| node.terms.id.clone());
            return leader.ok_or_else(|| "nobody leads this graph; say to which node it goes".to_owned());
        }
        find(self.state, name).map(|(_, node)| node.terms.id.clone()).map_err(|problem| problem.message().to_owned())
    }

    /// Says to the node what of its answer was not followed; it reads that in its next turn.
    fn refuse(&self, led: &mut Led, what: &str, why: &str) {
        let id = derived_uuid(&self.run.id, &["refused", &self.ended.step.index.to_string(), what]);
        led.notes.push(format!("{what} was refused: {why}"));
        led.facts.push(system_message(id, self.place, format!("{what} was refused: {why}"), false));
    }

    fn ask(&self, led: &mut Led) {
        let Some(ask) = &self.ended.result.ask else { return };
        let wish = NodeWish::Command { argv: ask.command.clone(), cwd: ask.cwd.clone(), reason: ask.reason.clone() };
        match ask.command.is_empty() {
            true => self.refuse(led, "ask", "a command has a program"),
            false => self.wish(led, "ask", wish),
        }
    }

    fn spawn(&self, led: &mut Led) {
        let Some(wish) = &self.ended.result.spawn else { return };
        if !self.node.terms.capabilities.spawn_nodes {
            return self.refuse(led, "spawn", "this node may not make others (spawnNodes)");
        }
        if spawn_requires_approval(&self.node.terms) {
            return self.wish(led, "spawn", NodeWish::Spawn(Box::new(wish.clone())));
        }
        match spawned(self.run, self.ended.step, wish, self.ended.at) {
            Ok(facts) => led.facts.extend(facts),
            Err(why) => self.refuse(led, "spawn", &why),
        }
    }

    /// Who may make nodes may connect them, and needs the same approval for it.
    fn connect(&self, led: &mut Led) {
        let Some(wish) = &self.ended.result.edge else { return };
        if !self.node.terms.capabilities.spawn_nodes {
            return self.refuse(led, "edge", "this node may not change the graph (spawnNodes)");
        }
        if wish.id.is_some() {
            return self.refuse(led, "edge", "the id of an edge is norma's to give");
        }
        match connected(self.run, self.ended.step, wish) {
            Ok(_) if spawn_requires_approval(&self.node.terms) => {
                self.wish(led, "edge", NodeWish::Edge(Box::new(wish.clone())));
            }
            Ok(facts) => led.facts.extend(facts),
            Err(why) => self.refuse(led, "edge", &why),
        }
    }

    /// Has a person asked; of several things only for the first.
    fn wish(&self, led: &mut Led, what: &str, wish: NodeWish) {
        if led.facts.iter().any(|fact| matches!(fact, Fact::Graph(GraphFact::NodeWished { .. }))) {
            return self.refuse(led, what, "a turn asks a person for one thing; ask again in the next one");
        }
        led.facts.push(Fact::Graph(GraphFact::NodeWished { step: self.ended.step, wish }));
    }

    fn propose(&self, led: &mut Led) {
        let Some(tree) = self.ended.tree.filter(|tree| *tree != self.turn.base.tree) else {
            led.notes.push("it asked for a change and has changed nothing".to_owned());
            return;
        };
        led.facts.push(proposal(self.run, self.place, self.ended.step, self.turn.base.clone(), tree));
    }
}

fn bounded_reference(artifact: &ArtifactRef) -> ArtifactRef {
    ArtifactRef { kind: artifact.kind, reference: cut(&artifact.reference, REFERENCE_CHARS_MAX) }
}

/// What a node has made, as a change of the run.
pub(super) fn proposal(run: &Run, place: u32, step: StepRef, base: ItemBase, tree: TreeId) -> Fact {
    let state = run.graph().expect("BUG: only a graph has nodes");
    let index = state.changes.len();
    let node = &state.nodes[place as usize];
    let item = item(&run.started.contract, node, state.global_mode, index + 1);
    let addition = Some(Addition::new(&state.contract_digest(&run.started), &item, None));
    let added = ItemAdded { index: index as u32, item, earlier: None, addition };
    Fact::Graph(GraphFact::ChangeProposed(Box::new(ChangeProposed { added, node: place, step, base, tree })))
}

/// The facts that make the node which an agent wishes for, connect it, and tell it what to do.
fn spawned(run: &Run, step: StepRef, wish: &SpawnWish, at: Timestamp) -> Result<Vec<Fact>, String> {
    let state = run.graph().ok_or("only a graph has nodes")?;
    let parent = state.node(step.node.ok_or("only a node makes others")?)?;
    let index = step.index.to_string();
    let node = state.nodes.len() as u32;
    let id = graph_node_id(&run.id, node);
    let worker = worker_name(wish.provider, wish.agent.as_deref());
    if !run.started.contract.workers.contains_key(&worker) {
        let known: Vec<&str> = run.started.contract.workers.keys().map(String::as_str).collect();
        return Err(unknown_agent(&worker, &known));
    }
    let terms = NodeTerms {
        id: id.clone(),
        label: wish.label.clone(),
        role_template: wish.role_template.clone(),
        provider: wish.provider,
        agent: wish.agent.clone(),
        model: None,
        scope: parent.terms.scope.clone(),
        // Never more than whoever makes it has, and no nodes of its own.
        capabilities: Capabilities { spawn_nodes: false, delegate_only: false, ..parent.terms.capabilities },
        permissions: Permissions {
            cli_permissions_mode: parent.terms.permissions.cli_permissions_mode,
            spawn_requires_approval: true,
        },
        custom_system_prompt: None,
        resume: true,
        reset_commands: reset_commands(),
        worker,
    };
    let by = parent.terms.label.clone();
    let edge = Edge {
        id: derived_uuid(&run.id, &["spawn-edge", &index]),
        from: parent.terms.id.clone(),
        to: id.clone(),
        bidirectional: true,
        kind: EdgeKind::Handoff,
        label: EdgeKind::Handoff.default_label().to_owned(),
    };
    let mut facts = vec![
        Fact::Graph(GraphFact::NodeAdded(Box::new(NodeAdded { node, terms, by: by.clone() }))),
        Fact::Graph(GraphFact::EdgeSet(Box::new(EdgeSet { edge, old: None, by }))),
    ];
    if !wish.instructions.is_empty() {
        let payload = Payload {
            message: cut(&wish.instructions, MESSAGE_CHARS_MAX),
            structured: None,
            artifacts: Vec::new(),
            status: None,
        };
        let envelope = Envelope {
            kind: EnvelopeKind::Handoff,
            id: derived_uuid(&run.id, &["spawn-task", &index]),
            from_node_id: parent.terms.id.clone(),
            to_node_id: id,
            created_at: at,
            payload,
            context_ref: None,
        };
        let (report, response) = (false, Expectation::default());
        facts.push(Fact::Graph(GraphFact::HandoffSent(Box::new(HandoffSent {
            envelope,
            step: Some(step),
            report,
            response,
        }))));
    }
    Ok(facts)
}

/// The facts that draw the edge which an agent wishes for.
fn connected(run: &Run, step: StepRef, wish: &EdgeInput) -> Result<Vec<Fact>, String> {
    let state = run.graph().ok_or("only a graph has nodes")?;
    let by = state.node(step.node.ok_or("only a node connects others")?)?.terms.label.clone();
    let id = derived_uuid(&run.id, &["edge", &step.index.to_string()]);
    let named = |name: &str| find(state, name).map(|(_, node)| node.terms.id.as_str());
    if let (Ok(from), Ok(to)) = (named(&wish.from), named(&wish.to))
        && state.edge_between(from, to).is_some()
    {
        return Err(format!("there is an edge from {:?} to {:?} already", wish.from, wish.to));
    }
    drawn(state, wish, &id, &by).map_err(|problem| problem.message().to_owned())
}

/// What makes an agent forget its conversation, where nobody says otherwise.
pub fn reset_commands() -> Vec<String> {
    ["/new", "/clear"].map(str::to_owned).to_vec()
}

/// The entry of the contract's workers that a node uses.
pub fn worker_name(provider: Provider, agent: Option<&str>) -> String {
    match provider {
        Provider::Codex => "codex".to_owned(),
        Provider::Claude => "claude".to_owned(),
        Provider::Gemini => "gemini".to_owned(),
        Provider::Custom => agent.unwrap_or("custom").to_owned(),
    }
}

/// The facts that a person's answer leads to: the node is told, and what it wished for is done where that is norma's to do.
pub fn answered(run: &Run, wished: &Wished, answered: NodeAnswered, at: Timestamp) -> Vec<Fact> {
    let Some(place) = wished.step.node else { return Vec::new() };
    let word = match answered.status {
        ResolutionStatus::Approved => "approved",
        ResolutionStatus::Denied => "denied",
        ResolutionStatus::Modified => "modified",
    };
    let mut text = format!("approval answered: {word}");
    let granted = answered.status != ResolutionStatus::Denied;
    match (&wished.wish, &answered.argv) {
        (NodeWish::Command { argv, .. }, given) if granted => {
            let argv = given.as_ref().unwrap_or(argv);
            text.push_str(&format!("\nargv: {}", serde_json::to_string(argv).expect("BUG: words are plain data")));
        }
        (NodeWish::Command { argv, .. }, _) => text.push_str(&format!("\ncommand: {}", contract::policy::join(argv))),
        (NodeWish::Spawn(wish), _) => text.push_str(&format!("\nspawn: {}", wish.label)),
        (NodeWish::Edge(wish), _) => text.push_str(&format!("\nedge: {} to {}", wish.from, wish.to)),
    }
    if let Some(reason) = answered.reason.as_deref().filter(|reason| !reason.is_empty()) {
        text.push_str(&format!("\nreason: {reason}"));
    }
    let id = derived_uuid(&run.id, &["answered", &wished.step.index.to_string()]);
    let made = match &wished.wish {
        NodeWish::Spawn(wish) if granted => Some(spawned(run, wished.step, wish, at)),
        NodeWish::Edge(wish) if granted => Some(connected(run, wished.step, wish)),
        NodeWish::Spawn(_) | NodeWish::Edge(_) | NodeWish::Command { .. } => None,
    };
    if let Some(Err(why)) = &made {
        text.push_str(&format!("\nit could not be made: {why}"));
    }
    let mut facts =
        vec![Fact::Graph(GraphFact::NodeAnswered(Box::new(answered))), system_message(id, place, text, true)];
    facts.extend(made.and_then(Result::ok).into_iter().flatten());
    facts
}

/// Something that norma tells a node.
pub(super) fn system_message(id: String, node: u32, content: String, starts: bool) -> Fact {
    let (role, by) = (MessageRole::System, NORMA.to_owned());
    Fact::Graph(GraphFact::MessageSent(Box::new(NodeMessage {
        id,
        node,
        role,
        content,
        interrupt: false,
        starts,
        change: None,
        by,
    })))
}

/// The message that tells a node that a change of it was refused.
pub(super) fn refusal(run: &RunId, place: u32, change: u32, why: &str) -> Fact {
    let id = derived_uuid(run, &["change-refused", &change.to_string()]);
    let content = format!("Your change was refused and is not part of the run: {why}\nIt is still in your workspace.");
    let (role, by, change) = (MessageRole::System, NORMA.to_owned(), Some(change));
    let told = NodeMessage { id, node: place, role, content, interrupt: false, starts: true, change, by };
    Fact::Graph(GraphFact::MessageSent(Box::new(told)))
}

/// The permissions of a node that asks for nothing special.
pub fn default_permissions(leads: bool) -> Permissions {
    Permissions { cli_permissions_mode: PermissionsMode::Gated, spawn_requires_approval: !leads }
}
