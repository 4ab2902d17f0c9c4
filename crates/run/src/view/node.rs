//! Nodes: who fills the roles of a loop and who carries out the items of a batch, with what they may do. Rights are those
//! that a turn is given (`spec.rs`), so a node never shows more than its agent has.

use crate::workflow::graph::rights::permissions_mode;
use contract::documents::plan::{NodeSpec, Work};
use contract::view::graph::{
    Capabilities, Connection, ConnectionStatus, Node, NodeStatus, Permissions, Provider, Session,
};
use contract::work::ShellRight;
use contract::{AgentConfig, AgentType, Earlier, Item, ItemAdded, Role, RunId, StepRef, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node, and what is remembered of it.
#[derive(Debug, Clone)]
pub(super) struct NodeState {
    pub(super) node: Node,
    /// The kind of its agent.
    pub(super) kind: Option<AgentType>,
    /// What it is asked for.
    pub(super) goal: Arc<str>,
    /// The places of the items that it needs.
    pub(super) needs: Arc<[u32]>,
    /// Whether it was told its goal.
    pub(super) briefed: bool,
    /// The turn that is open.
    pub(super) turn: Option<Turn>,
    /// What came of its last turn.
    pub(super) last: Option<LastTurn>,
    /// Whether its item has come to its end.
    pub(super) ended: bool,
    /// Whether somebody has removed it.
    pub(super) removed: bool,
    /// Protocol errors in a row, of a node of a graph.
    pub(super) protocol_errors: u32,
}

/// A turn that is open.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// Whether its agent has said something.
    pub(super) said: bool,
    /// The approvals that its agent waits for, by its own name for the request.
    pub(super) asked: BTreeMap<String, String>,
    /// How many inputs it has taken.
    pub(super) taken: u32,
    /// Whether somebody has interrupted it.
    pub(super) interrupted: bool,
}

/// What came of a turn, for whoever is handed it.
#[derive(Debug, Clone)]
pub(super) struct LastTurn {
    pub(super) summary: String,
    pub(super) ok: bool,
    pub(super) reason: Option<&'static str>,
    /// The artifact with what it changed.
    pub(super) diff: String,
}

impl NodeState {
    pub(super) fn of_role(
        run: &RunId,
        role: Role,
        goal: &Arc<str>,
        agent: Option<&AgentConfig>,
        ts: Timestamp,
    ) -> NodeState {
        let step = StepRef { index: 0, role, iteration: 1, attempt: 1, item: None, node: None };
        let works = matches!(role, Role::Do | Role::Act);
        let kind = agent.map_or(AgentType::Exec, |agent| agent.kind);
        let shell = if works || kind == AgentType::Exec { ShellRight::Never } else { ShellRight::Deny };
        let (label, template) = match role {
            Role::Plan => ("Plan", "planner"),
            Role::Do => ("Do", "implementer"),
            Role::Check => ("Check", "reviewer"),
            Role::Act => ("Act", "implementer"),
            Role::Reviewer => ("Reviewer", "reviewer"),
            Role::Pm | Role::TechLead => ("Planner", "planner"),
            Role::Worker | Role::Node | Role::Decide | Role::Execute => ("Worker", "implementer"),
        };
        let node =
            node(run, super::node_id(run, step), (label.to_owned(), template.to_owned()), agent, (works, shell), ts);
        NodeState::new(node, agent, Arc::clone(goal), Arc::default())
    }

    pub(super) fn of_item(
        run: &RunId,
        added: &ItemAdded,
        agent: Option<&AgentConfig>,
        needs: Arc<[u32]>,
        ts: Timestamp,
    ) -> NodeState {
        let item = &added.item;
        let (id, names) = (super::item_node_id(run, added.index), (item.id.clone(), template(item)));
        let mut node = node(run, id, names, agent, (!item.read_only, item.rights.shell), ts);
        let done = match &added.earlier {
            Some(Earlier::Done { run, .. }) => Some(format!("done in run {run}")),
            Some(Earlier::Unfinished { .. }) | None => None,
        };
        let ended = done.is_some();
        if let Some(summary) = done {
            node.summary = summary;
            node.connection = Some(connection(ConnectionStatus::Disconnected, None));
        }
        NodeState { ended, ..NodeState::new(node, agent, item.goal.as_str().into(), needs) }
    }

    /// A node of a plan.
    pub(super) fn of_plan(
        run: &RunId,
        spec: &NodeSpec,
        place: u32,
        agent: Option<&AgentConfig>,
        ts: Timestamp,
    ) -> NodeState {
        let id = super::plan::plan_node_id(run, place);
        let by_agent = match &spec.work {
            Work::Turn | Work::Decision { by_agent: true, .. } => agent,
            _ => None,
        };
        let names = (spec.id.clone(), spec.kind.as_str().to_owned());
        let node = node(run, id, names, by_agent, (false, ShellRight::Never), ts);
        let needs = spec.awaits().map(|place| super::plan::BEFORE_PLAN as u32 + place).collect();
        NodeState { briefed: true, ..NodeState::new(node, by_agent, spec.id.as_str().into(), needs) }
    }

    fn new(node: Node, agent: Option<&AgentConfig>, goal: Arc<str>, needs: Arc<[u32]>) -> NodeState {
        let (turn, last, removed) = (None, None, false);
        let kind = agent.map(|agent| agent.kind);
        NodeState { node, kind, goal, needs, briefed: false, turn, last, ended: false, removed, protocol_errors: 0 }
    }

    /// A node that somebody made; what it is asked for is sent to it.
    pub(super) fn of_graph(node: Node, kind: Option<AgentType>) -> NodeState {
        NodeState { briefed: true, kind, ..NodeState::new(node, None, Arc::from(""), Arc::default()) }
    }

    /// More waits for its next turn.
    pub(super) fn receive(&mut self, count: u32) {
        self.node.inbox_count = Some(self.node.inbox_count.unwrap_or_default() + count);
    }

    /// Has it be at work, or not.
    pub(super) fn connect(&mut self, status: ConnectionStatus) {
        let before = self.node.connection.as_ref();
        let heard = before.and_then(|before| before.last_output_at);
        // Whoever starts or ends a turn was alive then.
        let alive = match status {
            ConnectionStatus::Connected | ConnectionStatus::Idle => Some(self.node.last_activity_at),
            ConnectionStatus::Disconnected => before.and_then(|before| before.last_heartbeat_at),
        };
        self.node.connection = Some(Connection { last_heartbeat_at: alive, ..connection(status, heard) });
    }

    /// It did something.
    pub(super) fn touch(&mut self, ts: Timestamp) {
        self.node.last_activity_at = ts;
    }

    /// Its agent was heard.
    pub(super) fn hear(&mut self, ts: Timestamp) {
        self.touch(ts);
        self.node.connection = Some(connection(ConnectionStatus::Connected, Some(ts)));
    }
}

/// Workers implement; what else a document calls a role is what it is called here.
fn template(item: &Item) -> String {
    match item.role.to_ascii_lowercase() {
        role if role == "worker" || role.is_empty() => "implementer".to_owned(),
        role => role,
    }
}

fn node(
    run: &RunId,
    id: String,
    (label, role_template): (String, String),
    agent: Option<&AgentConfig>,
    (write, shell): (bool, ShellRight),
    ts: Timestamp,
) -> Node {
    let kind = agent.map(|agent| agent.kind);
    Node {
        id,
        run_id: *run,
        label,
        role_template,
        provider: kind.map_or(Provider::Custom, Provider::from),
        status: NodeStatus::Idle,
        summary: "waiting".to_owned(),
        last_activity_at: ts,
        capabilities: Capabilities {
            spawn_nodes: false,
            write_code: write,
            write_docs: write,
            run_commands: shell != ShellRight::Deny,
            delegate_only: false,
        },
        permissions: Permissions { cli_permissions_mode: permissions_mode(shell, kind), spawn_requires_approval: true },
        session: Session { session_id: String::new(), reset_commands: reset_commands(kind) },
        connection: Some(connection(ConnectionStatus::Idle, None)),
        inbox_count: Some(0),
        custom_system_prompt: None,
        agent: kind.map(|kind| kind.as_str().to_owned()),
        model: agent.and_then(|agent| agent.model.clone()),
        scope: Vec::new(),
    }
}

/// A program has no conversation that it could forget.
fn reset_commands(kind: Option<AgentType>) -> Vec<String> {
    match kind {
        None | Some(AgentType::Exec) => Vec::new(),
        Some(_) => ["/new", "/clear"].map(str::to_owned).to_vec(),
    }
}

fn connection(status: ConnectionStatus, heard: Option<Timestamp>) -> Connection {
    Connection {
        status,
        streaming: status == ConnectionStatus::Connected,
        last_heartbeat_at: heard,
        last_output_at: heard,
    }
}
