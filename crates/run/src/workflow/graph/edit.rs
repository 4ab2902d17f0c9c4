//! What people do to a graph, as the facts that say so. Everything is checked here, before anything is recorded: whoever
//! asks is told what is wrong and where.

use super::outcome::{NORMA, reset_commands, worker_name};
use super::rights::write_within;
use super::{NodeState, State};
use crate::Run;
use crate::view::graph_node_id;
use contract::graph::{
    EdgeInput, EdgeSet, GraphEdit, ModeChanged, NodeAdded, NodeChanged, NodeInput, NodeMessage, NodeWishes,
};
use contract::nearest;
use contract::view::graph::{Capabilities, Edge, EdgeKind, GlobalMode, MessageRole, NodeStatus, Provider, RunMode};
use contract::{Event, Fact, GraphFact, NodeTerms, RepoPath, Timestamp};

/// Longest message, and longest prompt of a node's own: a line of the log has a limit, and both may be written with escapes.
pub const CONTENT_BYTES_MAX: usize = 32 << 10;
const PROMPT_BYTES_MAX: usize = 16 << 10;

/// Why something cannot be done to a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditProblem {
    /// There is no such thing.
    Missing(String),
    /// What is asked for is not of the form that it must have.
    Invalid {
        /// Where, as a JSON pointer into what was asked for.
        pointer: String,
        /// What is wrong.
        message: String,
    },
    /// Not as the run is now.
    Refused(String),
}

impl EditProblem {
    /// In words.
    pub fn message(&self) -> &str {
        match self {
            EditProblem::Missing(message) | EditProblem::Invalid { message, .. } | EditProblem::Refused(message) => {
                message
            }
        }
    }
}

type Edited = Result<Vec<Fact>, EditProblem>;

fn invalid(pointer: &str, message: impl Into<String>) -> EditProblem {
    EditProblem::Invalid { pointer: pointer.to_owned(), message: message.into() }
}

impl Run {
    /// The facts that an edit leads to. They are legal now, all together.
    pub fn edit(&self, edit: &GraphEdit, by: &str) -> Edited {
        let Some(state) = self.graph() else {
            return Err(EditProblem::Refused("this run is no graph that people build".to_owned()));
        };
        if self.status.is_terminal() || !state.is_open() {
            return Err(EditProblem::Refused(format!("the run is {}; start another one", self.status)));
        }
        let facts = facts(self, state, edit, by)?;
        let mut next = self.clone();
        for fact in &facts {
            let event = Event { seq: next.seq + 1, ts: Timestamp::default(), fact: fact.clone() };
            next.advance(&event).map_err(|illegal| EditProblem::Refused(illegal.why))?;
        }
        Ok(facts)
    }
}

fn facts(run: &Run, state: &State, edit: &GraphEdit, by: &str) -> Edited {
    let one = |fact: Fact| Ok(vec![fact]);
    match edit {
        GraphEdit::AddNode { node } => {
            let place = state.nodes.len() as u32;
            let terms = new_terms(run, state, place, node)?;
            one(Fact::Graph(GraphFact::NodeAdded(Box::new(NodeAdded { node: place, terms, by: by.to_owned() }))))
        }
        GraphEdit::PatchNode { node, patch } => patched(run, state, find(state, node)?, patch, by),
        GraphEdit::HoldNode { node, held } => {
            one(Fact::Graph(GraphFact::NodeHeld { node: find(state, node)?.0, held: *held, by: by.to_owned() }))
        }
        GraphEdit::ResetNode { node } => {
            one(Fact::Graph(GraphFact::NodeReset { node: find(state, node)?.0, by: by.to_owned() }))
        }
        GraphEdit::InterruptNode { node, id } => interrupted(find(state, node)?, id, by),
        GraphEdit::RemoveNode { node } => removed(state, find(state, node)?, by),
        GraphEdit::SetEdge { edge, id } => drawn(state, edge, id, by),
        GraphEdit::RemoveEdge { edge } => match state.edges.contains_key(edge) {
            true => one(Fact::Graph(GraphFact::EdgeRemoved { edge: edge.clone(), by: by.to_owned() })),
            false => Err(EditProblem::Missing(format!("there is no edge {edge}"))),
        },
        GraphEdit::Say { id, node, content, interrupt } => said(find(state, node)?, id, content, *interrupt, by),
        GraphEdit::Mode { mode, global_mode } => Ok(modes(state, *mode, *global_mode, by)),
        GraphEdit::Done => one(Fact::Graph(GraphFact::DoneMarked { node: None, by: by.to_owned() })),
    }
}

/// The node of this id, or the only one with this label.
pub fn find<'s>(state: &'s State, name: &str) -> Result<(u32, &'s NodeState), EditProblem> {
    if let Some(found) = state.present().find(|(_, node)| node.terms.id == name) {
        return Ok(found);
    }
    let mut named = state.present().filter(|(_, node)| node.terms.label == name);
    match (named.next(), named.next()) {
        (Some(found), None) => Ok(found),
        (None, _) => Err(EditProblem::Missing(format!("there is no node {name}"))),
        (Some(_), Some(_)) => {
            Err(EditProblem::Refused(format!("more than one node is called {name:?}; name it by its id")))
        }
    }
}

fn new_terms(run: &Run, state: &State, place: u32, input: &NodeInput) -> Result<NodeTerms, EditProblem> {
    let leads = input.role_template.is_orchestrator();
    let before = Capabilities {
        spawn_nodes: false,
        write_code: true,
        write_docs: true,
        run_commands: true,
        delegate_only: false,
    };
    let session = &input.session;
    let terms = NodeTerms {
        id: graph_node_id(&run.id, place),
        label: input.label.trim().to_owned(),
        role_template: input.role_template.clone(),
        provider: input.provider,
        agent: input.agent.clone(),
        model: input.model.clone(),
        scope: scope(&input.scope, "/scope")?,
        capabilities: input.capabilities.over(before),
        permissions: input.permissions.over(super::outcome::default_permissions(leads)),
        custom_system_prompt: input.custom_system_prompt.clone(),
        resume: session.resume.unwrap_or(true),
        reset_commands: session.reset_commands.clone().unwrap_or_else(reset_commands),
        worker: worker_name(input.provider, input.agent.as_deref()),
    };
    checked(run, state, terms)
}

fn scope(paths: &[String], pointer: &str) -> Result<Vec<RepoPath>, EditProblem> {
    let path = |(place, text): (usize, &String)| {
        let text = text.strip_prefix('/').unwrap_or(text).trim_end_matches('/');
        RepoPath::parse(text).map_err(|problem| invalid(&format!("{pointer}/{place}"), problem.to_string()))
    };
    paths.iter().enumerate().map(path).collect()
}

/// Whether there can be such a node.
fn checked(run: &Run, state: &State, terms: NodeTerms) -> Result<NodeTerms, EditProblem> {
    let contract = &run.started.contract;
    if terms.label.is_empty() {
        return Err(invalid("/label", "a node has a label"));
    }
    if terms.custom_system_prompt.as_ref().is_some_and(|text| text.len() > PROMPT_BYTES_MAX) {
        return Err(invalid("/customSystemPrompt", format!("a prompt has at most {PROMPT_BYTES_MAX} bytes")));
    }
    if terms.agent.is_some() && terms.provider != Provider::Custom {
        return Err(invalid("/agent", "an agent is named with provider custom only"));
    }
    let Some(agent) = contract.workers.get(&terms.worker) else {
        let pointer = if terms.agent.is_some() { "/agent" } else { "/provider" };
        let known: Vec<&str> = contract.workers.keys().map(String::as_str).collect();
        return Err(invalid(pointer, unknown_agent(&terms.worker, &known)));
    };
    if terms.model.is_some() && agent.kind.has_command() && agent.api.is_none() {
        return Err(invalid("/model", format!("{} takes no model; its own command line says which", terms.worker)));
    }
    let can = terms.capabilities;
    let writes = (can.write_code || can.write_docs) && !can.delegate_only;
    let everywhere = write_within(&terms, state.global_mode, contract);
    if writes
        && !terms.scope.is_empty()
        && can.write_code
        && everywhere.is_none()
        && state.global_mode == GlobalMode::Implementation
    {
        return Err(invalid("/scope", "nothing of it is within what this run may change"));
    }
    Ok(terms)
}

/// What to do about an agent that the run does not have: another name was meant, or it is to be added first.
pub(super) fn unknown_agent(name: &str, known: &[&str]) -> String {
    let next = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("norma agent add {name} adds one, for graphs that start from then on"),
    };
    format!("there is no agent {name} in this run, which has {}; {next}", known.join(", "))
}

fn patched(run: &Run, state: &State, (node, at): (u32, &NodeState), patch: &NodeWishes, by: &str) -> Edited {
    let (old, by) = (&*at.terms, by.to_owned());
    let mut new = old.clone();
    if let Some(label) = &patch.label {
        new.label = label.trim().to_owned();
    }
    new.role_template = patch.role_template.clone().unwrap_or(new.role_template);
    new.model = patch.model.clone().or(new.model);
    if let Some(provider) = patch.provider.filter(|provider| *provider != new.provider) {
        (new.provider, new.agent, new.model) = (provider, None, patch.model.clone());
    }
    new.agent = patch.agent.clone().or(new.agent);
    new.worker = worker_name(new.provider, new.agent.as_deref());
    if let Some(paths) = &patch.scope {
        new.scope = scope(paths, "/scope")?;
    }
    new.capabilities = patch.capabilities.map_or(new.capabilities, |wishes| wishes.over(new.capabilities));
    new.permissions = patch.permissions.map_or(new.permissions, |wishes| wishes.over(new.permissions));
    if let Some(session) = &patch.session {
        new.resume = session.resume.unwrap_or(new.resume);
        new.reset_commands = session.reset_commands.clone().unwrap_or(new.reset_commands);
    }
    if let Some(prompt) = &patch.custom_system_prompt {
        new.custom_system_prompt.clone_from(prompt);
    }
    let new = checked(run, state, new)?;
    let mut facts = Vec::new();
    if new != *old {
        let changed = NodeChanged { node, old: old.clone(), new, by: by.clone() };
        facts.push(Fact::Graph(GraphFact::NodeChanged(Box::new(changed))));
    }
    let held = match patch.status {
        Some(NodeStatus::Blocked | NodeStatus::Failed) => Some(true),
        Some(NodeStatus::Idle | NodeStatus::Running) => Some(false),
        None => None,
    };
    facts.extend(held.filter(|held| *held != at.held).map(|held| Fact::Graph(GraphFact::NodeHeld { node, held, by })));
    Ok(facts)
}

/// The turn ends; what it had taken stays taken, and the node reads in its next turn that this one was ended.
fn interrupted((node, at): (u32, &NodeState), id: &str, by: &str) -> Edited {
    if at.turn.is_none() {
        return Err(EditProblem::Refused(format!("node {} is not at work", at.terms.label)));
    }
    let content = format!("Your turn was interrupted by {by}.");
    let (role, id) = (MessageRole::System, id.to_owned());
    let (starts, change, by) = (false, None, NORMA.to_owned());
    Ok(vec![Fact::Graph(GraphFact::MessageSent(Box::new(NodeMessage {
        id,
        node,
        role,
        content,
        interrupt: true,
        starts,
        change,
        by,
    })))])
}

/// Its edges go first, so that whoever watches never sees an edge without its nodes.
fn removed(state: &State, (node, at): (u32, &NodeState), by: &str) -> Edited {
    let of_node = |edge: &&Edge| edge.from == at.terms.id || edge.to == at.terms.id;
    let edges = state.edges.values().filter(of_node);
    let gone = edges.map(|edge| Fact::Graph(GraphFact::EdgeRemoved { edge: edge.id.clone(), by: by.to_owned() }));
    Ok(gone.chain([Fact::Graph(GraphFact::NodeRemoved { node, by: by.to_owned() })]).collect())
}

pub(super) fn drawn(state: &State, input: &EdgeInput, id: &str, by: &str) -> Edited {
    let end = |name: &str, pointer: &str| {
        find(state, name).map_err(|problem| invalid(pointer, problem.message())).map(|(_, node)| node)
    };
    if input.id.as_deref().is_some_and(|id| !contract::id::is_uuid(id)) {
        return Err(invalid("/id", "the id of an edge is a UUID in lower case"));
    }
    let (from, to) = (end(&input.from, "/from")?, end(&input.to, "/to")?);
    if from.terms.id == to.terms.id {
        return Err(invalid("/to", "an edge connects two nodes"));
    }
    let towards_leader = if to.leads() && !from.leads() { EdgeKind::Report } else { EdgeKind::Handoff };
    let kind = input.kind.unwrap_or(towards_leader);
    let label = input.label.as_deref().filter(|label| !label.is_empty());
    let edge = Edge {
        id: input.id.clone().unwrap_or_else(|| id.to_owned()),
        from: from.terms.id.clone(),
        to: to.terms.id.clone(),
        bidirectional: input.bidirectional.unwrap_or(true),
        kind,
        label: label.unwrap_or(kind.default_label()).to_owned(),
    };
    let old = state.edges.get(&edge.id).cloned();
    if old.as_ref() == Some(&edge) {
        return Ok(Vec::new());
    }
    Ok(vec![Fact::Graph(GraphFact::EdgeSet(Box::new(EdgeSet { edge, old, by: by.to_owned() })))])
}

fn said((node, at): (u32, &NodeState), id: &str, content: &str, interrupt: bool, by: &str) -> Edited {
    if content.len() > CONTENT_BYTES_MAX {
        return Err(invalid("/content", format!("a message has at most {CONTENT_BYTES_MAX} bytes")));
    }
    if content.is_empty() {
        return Err(invalid("/content", "a message says something"));
    }
    // What a command line would take for its own command is one here, too.
    if at.terms.reset_commands.iter().any(|command| *command == content.trim()) {
        return Ok(vec![Fact::Graph(GraphFact::NodeReset { node, by: by.to_owned() })]);
    }
    let (role, id, content) = (MessageRole::User, id.to_owned(), content.to_owned());
    let (starts, change, by) = (true, None, by.to_owned());
    Ok(vec![Fact::Graph(GraphFact::MessageSent(Box::new(NodeMessage {
        id,
        node,
        role,
        content,
        interrupt,
        starts,
        change,
        by,
    })))])
}

fn modes(state: &State, mode: Option<RunMode>, global_mode: Option<GlobalMode>, by: &str) -> Vec<Fact> {
    let old = (state.mode, state.global_mode);
    let new = (mode.unwrap_or(old.0), global_mode.unwrap_or(old.1));
    let changed =
        (new != old).then(|| Fact::Graph(GraphFact::ModeChanged(ModeChanged { old, new, by: by.to_owned() })));
    changed.into_iter().collect()
}
