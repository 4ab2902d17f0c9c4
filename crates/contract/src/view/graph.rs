//! A run as a graph to look at: seed 003's state of runs, nodes, edges and artifacts. Every run of every workflow has this
//! form; what makes it is in `run::view`. Members that are not there are left out and never null. What the seed does not
//! name is norma's own and optional, so that a client which knows only the seed passes over it.

use crate::schema::JsonSchema;
use crate::{AgentType, Reason, RepoPath, RunId, Slug, Status, Timestamp, Workflow};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The version of the contract that this form is: seed 003's.
pub const CONTRACT_VERSION: &str = "1";

/// A run, with everything of it that is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunGraph {
    /// UUID.
    pub id: RunId,
    /// Always `1`.
    pub contract_version: String,
    /// Where it is.
    pub status: RunStatus,
    /// What it is about to do.
    pub phase: Phase,
    /// Whether it goes on by itself.
    pub mode: RunMode,
    /// Whether its nodes may change code.
    pub global_mode: GlobalMode,
    /// When it started.
    pub created_at: Timestamp,
    /// When anything but the words of its nodes last changed.
    pub updated_at: Timestamp,
    /// norma's own: the run's other spelling.
    pub slug: Slug,
    /// norma's own: what it is for.
    pub goal: String,
    /// norma's own: which workflow carries it out.
    pub workflow: Workflow,
    /// norma's own: the canonical status, of which [`RunGraph::status`] is a coarser spelling.
    pub state: Status,
    /// norma's own: why it has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// norma's own: the same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// norma's own: the last event of its log that this is the state after. Only what was read whole says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// norma's own: whether nodes, edges and artifacts were left out, since there are too many of them for a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// norma's own: where people have drawn it. Only what was read whole says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<GraphLayout>,
    /// By their id.
    pub nodes: BTreeMap<String, Node>,
    /// By their id.
    pub edges: BTreeMap<String, Edge>,
    /// By their id.
    pub artifacts: BTreeMap<String, Artifact>,
}

/// Where people have drawn a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphLayout {
    /// Where nodes are that somebody has moved, by their id.
    pub positions: BTreeMap<String, Position>,
    /// What part of it was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
    /// When somebody last moved something.
    pub updated_at: Timestamp,
}

/// A place on the canvas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Position {
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub x: f64,
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub y: f64,
}

/// What part of the canvas is seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Viewport {
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub x: f64,
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub y: f64,
    #[schemars(range(min = 0.01, max = 100))]
    pub zoom: f64,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted, not started.
    Queued,
    /// Under way, or held by an approval or a question: the node that waits is blocked.
    Running,
    /// Held; it can be resumed.
    Paused,
    /// Every gate passed.
    Completed,
    /// It ended otherwise.
    Failed,
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> RunStatus {
        match status {
            Status::Queued => RunStatus::Queued,
            Status::Running | Status::Waiting => RunStatus::Running,
            Status::Paused => RunStatus::Paused,
            Status::Succeeded => RunStatus::Completed,
            Status::Failed | Status::Denied | Status::TimedOut | Status::Stopped | Status::Canceled => {
                RunStatus::Failed
            }
        }
    }
}

/// What a run is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Phase {
    /// It is being set up, and no agent has started.
    Boot,
    /// Agents work.
    Execute,
    /// What they made is judged.
    Verify,
    /// Documents are brought up to date.
    DocsSync,
    /// It succeeded.
    Done,
}

/// Whether a run goes on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunMode {
    /// It does.
    Auto,
    /// A person says what comes next.
    Interactive,
}

/// Whether the nodes of a run may change code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum GlobalMode {
    /// None of them.
    Planning,
    /// Those whose capabilities say so.
    Implementation,
}

/// A role filled by an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// UUID.
    pub id: String,
    /// Its run.
    pub run_id: RunId,
    /// What people call it.
    pub label: String,
    /// Such as `implementer`.
    pub role_template: String,
    /// Whose command line takes its turns.
    pub provider: Provider,
    /// Where it is.
    pub status: NodeStatus,
    /// What it is doing or did last, in a few words.
    pub summary: String,
    /// When it last did something; of one that has not, when it was made.
    pub last_activity_at: Timestamp,
    /// What it may do.
    pub capabilities: Capabilities,
    /// What it is asked about: the strictest of all that have a say.
    pub permissions: Permissions,
    /// Its conversation.
    pub session: Session,
    /// Whether its agent is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
    /// How many inputs wait for its next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox_count: Option<u32>,
    /// What takes the place of its role's prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_system_prompt: Option<String>,
    /// norma's own: the agent that takes its turns, by its name in the configuration; outside of graphs, its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// norma's own: the model, as the agent says, or else as it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// norma's own: what it says that it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<RepoPath>,
}

/// Whose command line takes the turns of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Codex.
    Codex,
    /// Claude.
    Claude,
    /// Gemini.
    Gemini,
    /// Any other program.
    Custom,
}

impl From<AgentType> for Provider {
    fn from(kind: AgentType) -> Provider {
        match kind {
            AgentType::Codex => Provider::Codex,
            AgentType::Claude => Provider::Claude,
            AgentType::Gemini => Provider::Gemini,
            AgentType::Exec | AgentType::Opencode | AgentType::Acp => Provider::Custom,
        }
    }
}

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It has no turn.
    Idle,
    /// Its agent works.
    Running,
    /// Somebody has to answer first.
    Blocked,
    /// Its last turn, or what came of it, did not succeed.
    Failed,
}

/// What a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Make other nodes.
    pub spawn_nodes: bool,
    /// Change code.
    pub write_code: bool,
    /// Change documents.
    pub write_docs: bool,
    /// Run commands.
    pub run_commands: bool,
    /// Nothing but hand work to others.
    pub delegate_only: bool,
}

/// What a node is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// Whether its agent's requests reach a person.
    pub cli_permissions_mode: PermissionsMode,
    /// Whether a person approves before it makes another node.
    pub spawn_requires_approval: bool,
}

/// Whether an agent's requests reach a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionsMode {
    /// Nobody is asked: what is allowed runs where it is confined, and the rest is refused.
    Skip,
    /// What needs an approval waits for it.
    Gated,
}

/// The conversation of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The agent's own name for it; empty while it has none.
    pub session_id: String,
    /// What makes the agent forget it.
    pub reset_commands: Vec<String>,
}

/// Whether the agent of a node is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Whether it is.
    pub status: ConnectionStatus,
    /// Whether it is in the middle of a turn.
    pub streaming: bool,
    /// When it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_at: Option<Timestamp>,
    /// When it last said something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Timestamp>,
}

/// Whether the agent of a node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    /// Its process runs.
    Connected,
    /// It has nothing to do.
    Idle,
    /// Its run is over.
    Disconnected,
}

/// Where a node's result goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// UUID.
    pub id: String,
    /// A node.
    pub from: String,
    /// Another.
    pub to: String,
    /// Whether results go back over it, too.
    pub bidirectional: bool,
    /// What goes over it.
    #[serde(rename = "type")]
    pub kind: EdgeKind,
    /// `task`, `report` or other words.
    pub label: String,
}

/// What goes over an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// Work.
    Handoff,
    /// What came of it.
    Report,
}

impl EdgeKind {
    /// What an edge of this kind is called unless somebody says otherwise.
    pub fn default_label(self) -> &'static str {
        match self {
            EdgeKind::Handoff => "task",
            EdgeKind::Report => "report",
        }
    }
}

/// A file that a turn or a change left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// UUID.
    pub id: String,
    /// Its run.
    pub run_id: RunId,
    /// Whose it is.
    pub node_id: String,
    /// What it is.
    pub kind: ArtifactKind,
    /// Its file's name.
    pub name: String,
    /// Where it is, as an absolute path.
    pub path: String,
    /// When it was committed.
    pub created_at: Timestamp,
    /// What can be said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ArtifactMetadata>,
    /// norma's own: the turn that left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// norma's own: the change that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u32>,
    /// norma's own: whether there is no file, since there is nothing to put into it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty: bool,
}

/// How artifacts are referred to: this and the artifact's id.
pub const ARTIFACT_SCHEME: &str = "artifact://";

/// What an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// What a turn changed.
    Diff,
    /// What an agent was told.
    Prompt,
    /// What a process printed.
    Log,
    /// What was said in a session.
    Transcript,
    /// What an agent was given to know.
    Contextpack,
    /// What was judged, and a receipt of it.
    Report,
}

/// What can be said of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactMetadata {
    /// The paths that a diff changes, as far as the log has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<Vec<String>>,
    /// In a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// What one node hands to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Always a handoff.
    pub kind: EnvelopeKind,
    /// UUID.
    pub id: String,
    /// Who hands it over.
    pub from_node_id: String,
    /// Who gets it.
    pub to_node_id: String,
    /// When.
    pub created_at: Timestamp,
    /// What.
    pub payload: Payload,
    /// The context pack that goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_ref: Option<String>,
}

/// What an envelope is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeKind {
    /// Work, or what came of it.
    Handoff,
}

/// What is in an envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// In a few words.
    pub message: String,
    /// What a program reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Map<String, Value>>,
    /// Files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
    /// Whether what it tells of succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PayloadStatus>,
}

/// A reference to an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactRef {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ArtifactKind,
    /// [`ARTIFACT_SCHEME`] and its id.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// Whether what a payload tells of succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PayloadStatus {
    /// Whether it did.
    pub ok: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a person, an agent or norma said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// UUID.
    pub id: String,
    /// Its run.
    pub run_id: RunId,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Who said it.
    pub role: MessageRole,
    /// Byte for byte.
    pub content: String,
    /// Whether it does not wait for the end of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<bool>,
    /// When.
    pub created_at: Timestamp,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// A person.
    User,
    /// An agent.
    Assistant,
    /// norma.
    System,
}

/// What an agent wants to use, or uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// UUID of this use of it.
    pub id: String,
    /// What the agent calls it.
    pub name: String,
    /// With which arguments. Of a command that needs approval: `cmd`, `argv` and `cwd`.
    pub args: Map<String, Value>,
}

/// Something that waits for a person: an entry of `GET /api/approvals`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// UUID.
    pub approval_id: String,
    /// Who waits.
    pub node_id: String,
    /// For what.
    pub tool: Tool,
    /// Why it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// norma's own: nobody can answer from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// How.
    pub status: ResolutionStatus,
    /// What may be done instead: `cmd` or `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_args: Option<Map<String, Value>>,
    /// norma's own: how far it goes; `once` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ResolutionScope>,
    /// norma's own: who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// norma's own: why, in their words or norma's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How an approval was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionStatus {
    /// It may.
    Approved,
    /// It may not, or nobody said that it may.
    Denied,
    /// Something else may.
    Modified,
}

/// How far an approval goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionScope {
    /// For what was asked.
    #[default]
    Once,
    /// For the same again, under this contract.
    Contract,
}
