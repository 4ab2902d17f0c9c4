//! What happens to a run, as a stream: seed 003's events, flat objects with `id`, `runId`, `ts` and `type`. They are a
//! projection of the run's log; one fact may be several of them, which share `cause_seq`. Only deltas are of no fact.

use super::graph::{
    Approval, Artifact, Capabilities, Connection, Edge, Envelope, GlobalMode, Message, Node, NodeStatus, Permissions,
    Phase, Provider, Resolution, RunMode, RunStatus, Session, Tool,
};
use crate::schema::JsonSchema;
use crate::work::Gate;
use crate::{Reason, RunId, Status, Timestamp, Usage, WaitKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One event of a run's stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamEvent {
    /// UUID: of an event that is on record it follows from run, fact and place, so it is the same whenever it is told.
    pub id: String,
    /// Its run.
    pub run_id: RunId,
    /// When it was recorded.
    pub ts: Timestamp,
    /// norma's own: from where on to continue; deltas have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// norma's own: the fact of the run's log that it tells of.
    #[serde(rename = "cause_seq", default, skip_serializing_if = "Option::is_none")]
    pub cause_seq: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub body: StreamBody,
}

/// What happened, by its `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum StreamBody {
    /// Members of the run have changed; nodes, edges and artifacts are merged by their id.
    #[serde(rename = "run.patch")]
    RunPatch {
        /// Those that have.
        patch: Box<RunPatch>,
    },
    /// The run is about to do something else.
    #[serde(rename = "run.phase")]
    RunPhase {
        /// What.
        phase: Phase,
        /// What it was before.
        previous_phase: Phase,
    },
    /// Somebody changed how the run goes on.
    #[serde(rename = "run.mode")]
    RunMode {
        /// Whether by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<RunMode>,
        /// Whether its nodes may change code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        global_mode: Option<GlobalMode>,
    },
    /// The run does the same again and again, and is paused.
    #[serde(rename = "run.stalled")]
    RunStalled {
        /// What repeats itself.
        evidence: StallEvidence,
    },
    /// Members of a node have changed.
    #[serde(rename = "node.patch")]
    NodePatch {
        /// Which node.
        node_id: String,
        /// Those that have.
        patch: Box<NodePatch>,
    },
    /// A node has come to another point of its work.
    #[serde(rename = "node.progress")]
    NodeProgress {
        /// Which node.
        node_id: String,
        /// Where it is.
        status: NodeStatus,
        /// In a few words.
        summary: String,
    },
    /// A node is gone, and its edges with it.
    #[serde(rename = "node.deleted")]
    NodeDeleted {
        /// Which node.
        node_id: String,
    },
    /// There is an edge, or it has changed.
    #[serde(rename = "edge.created")]
    EdgeCreated {
        /// The edge.
        edge: Edge,
    },
    /// An edge is gone.
    #[serde(rename = "edge.deleted")]
    EdgeDeleted {
        /// Which edge.
        edge_id: String,
    },
    /// A node was handed something.
    #[serde(rename = "handoff.sent")]
    HandoffSent {
        /// Who hands it over.
        node_id: String,
        /// What.
        envelope: Box<Envelope>,
    },
    /// A person told a node something.
    #[serde(rename = "message.user")]
    MessageUser {
        /// What, byte for byte.
        message: Message,
    },
    /// An agent is in the middle of a message.
    #[serde(rename = "message.assistant.delta")]
    MessageDelta {
        /// Whose agent.
        node_id: String,
        /// What is added to what it said before.
        delta: String,
    },
    /// An agent has said something, whole; takes the place of the pieces before.
    #[serde(rename = "message.assistant.final")]
    MessageFinal {
        /// Whose agent.
        node_id: String,
        /// What it said, or what norma says of a turn in which it did not come to say anything.
        content: String,
        /// norma's own: how it ended, where that is not by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<MessageEnd>,
    },
    /// norma's own: a piece of what a model thinks, as far as it shows that.
    #[serde(rename = "message.assistant.thinking.delta")]
    ThinkingDelta {
        /// Whose agent.
        node_id: String,
        /// What is added.
        delta: String,
    },
    /// An agent wants to use a tool.
    #[serde(rename = "tool.proposed")]
    ToolProposed {
        /// Whose agent.
        node_id: String,
        /// What.
        tool: Tool,
    },
    /// An agent uses a tool.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// Whose agent.
        node_id: String,
        /// What.
        tool: Tool,
    },
    /// A tool is done.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// Whose agent.
        node_id: String,
        /// Which use of which tool.
        tool_id: String,
        /// Whether it did what it was asked.
        result: ToolResult,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ToolError>,
    },
    /// A person has to approve something. Told once.
    #[serde(rename = "approval.requested")]
    ApprovalRequested(Approval),
    /// It was answered, or nobody waits for it any more.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        /// What.
        approval_id: String,
        /// Who waited.
        node_id: String,
        /// How.
        resolution: Resolution,
    },
    /// There is another artifact.
    #[serde(rename = "artifact.created")]
    ArtifactCreated {
        /// Whose.
        node_id: String,
        /// The artifact.
        artifact: Artifact,
    },
    /// norma's own: a gate refused what a node made or asked for.
    #[serde(rename = "gate.failed")]
    GateFailed {
        /// Which node.
        node_id: String,
        /// Which gate.
        gate: Gate,
        /// Whether contract or policy forbids it, and not only that it did not work.
        violation: bool,
        /// What it found.
        findings: Vec<String>,
    },
    /// norma's own: somebody has to answer something that is no approval.
    #[serde(rename = "question.asked")]
    QuestionAsked {
        /// Who waits.
        node_id: String,
        /// Its name within the run.
        question_id: String,
        /// What is waited for.
        kind: WaitKind,
        /// Why it is asked, one line each.
        reasons: Vec<String>,
        /// What can be answered; where there are none, the answer is a text.
        choices: Vec<String>,
    },
    /// norma's own: it was answered.
    #[serde(rename = "question.answered")]
    QuestionAnswered {
        /// Its name within the run.
        question_id: String,
        /// One of the choices; empty where there are none.
        choice: String,
        /// Who answered.
        by: String,
    },
    /// norma's own: what the model of a node has used in this turn so far.
    #[serde(rename = "telemetry.usage")]
    Usage {
        /// Which node.
        node_id: String,
        /// Replaces an earlier count of the same turn.
        usage: Usage,
    },
}

/// How a message ended that did not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageEnd {
    /// The turn was cut off.
    Interrupted,
    /// The turn failed.
    Failed,
}

/// Whether a tool did what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// As the agent says.
    pub ok: bool,
    /// norma's own: what it said, the beginning and the end of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What went wrong with a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolError {
    /// In words.
    pub message: String,
}

/// What repeats itself in a run that stalls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StallEvidence {
    /// What the node says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<String>,
    /// What it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_hash: Option<String>,
    /// What fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_failure: Option<String>,
    /// What it said last.
    pub summaries: Vec<String>,
}

/// Members of a run that have changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPatch {
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// What it is about to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Whether it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunMode>,
    /// Whether its nodes may change code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_mode: Option<GlobalMode>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// norma's own: the canonical status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Status>,
    /// norma's own: why it has this status. Goes with [`RunPatch::state`]: without a reason there, it has none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// norma's own: the same in words, which go with [`RunPatch::state`] in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Nodes that are new or have changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Node>,
    /// Edges that are new or have changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub edges: BTreeMap<String, Edge>,
}

/// Members of a node that have changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePatch {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which template its role is described by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_template: Option<String>,
    /// Whose command line takes its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// What takes the place of its role's prompt; empty if nothing does any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_system_prompt: Option<String>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeStatus>,
    /// In a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When it last did something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Timestamp>,
    /// What it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// What it is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Whether its agent is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
    /// How many inputs wait for its next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox_count: Option<u32>,
    /// norma's own: the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}
