//! Graphs that people build: what a node is, what is sent to it, and what its agent may ask for. These are the parts of the
//! facts of a `graph` run; how such a run is shown is in `view/graph.rs`, whose words they share.

use crate::schema::JsonSchema;
use crate::view::graph::{
    Capabilities, Edge, EdgeKind, Envelope, GlobalMode, MessageRole, NodeStatus, Permissions, PermissionsMode, Phase,
    Provider, ResolutionStatus, RunMode,
};
use crate::view::stream::StallEvidence;
use crate::work::TestCommand;
use crate::{ApprovalId, ApprovalWait, Digest, ItemAdded, ItemBase, RepoPath, Role, RunId, StepRef, Timestamp, TreeId};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use std::fmt;

/// The template of the node that leads a graph, in any case.
pub const ORCHESTRATOR: &str = "orchestrator";

/// Where documents are, unless the configuration says otherwise.
pub const DOCS_ROOT: &str = "docs";

/// What a graph run was started with; part of its contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphTerms {
    /// Whether it goes on by itself, at first.
    pub mode: RunMode,
    /// Whether its nodes may change code, at first.
    pub global_mode: GlobalMode,
    /// The tests that every change must pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestCommand>,
    /// Where documents are.
    pub docs_root: RepoPath,
    /// When a run counts as stalled.
    pub stall: StallLimits,
}

/// How many times in a row a node may do the same before its run counts as stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StallLimits {
    /// Give the same answer.
    #[schemars(range(min = 2, max = 1000))]
    pub same_output: u32,
    /// Make the same change.
    #[schemars(range(min = 2, max = 1000))]
    pub same_diff: u32,
    /// Fail the same tests.
    #[schemars(range(min = 2, max = 1000))]
    pub same_failure: u32,
}

impl Default for StallLimits {
    fn default() -> StallLimits {
        StallLimits { same_output: 3, same_diff: 3, same_failure: 3 }
    }
}

/// The name of a role, as templates have it: a letter, then at most 31 letters, digits, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct RoleName(#[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"))] String);

impl RoleName {
    /// Longest name.
    const LENGTH_MAX: usize = 32;

    /// A name of that form; none otherwise.
    pub fn parse(text: &str) -> Option<RoleName> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = text.len() <= RoleName::LENGTH_MAX
            && text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
            && text.bytes().all(inner);
        fits.then(|| RoleName(text.to_owned()))
    }

    /// The role of a node where nobody says another.
    pub fn implementer() -> RoleName {
        RoleName("implementer".to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is who leads a graph.
    pub fn is_orchestrator(&self) -> bool {
        self.0.eq_ignore_ascii_case(ORCHESTRATOR)
    }
}

impl From<Role> for RoleName {
    fn from(role: Role) -> RoleName {
        RoleName(role.as_str().to_owned())
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for RoleName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RoleName, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom("a role is a letter and at most 31 letters, digits, `_` or `-`");
        RoleName::parse(&text).ok_or_else(wrong)
    }
}

/// A node as its run has it: a standing contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeTerms {
    /// UUID.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// Which template its role is described by.
    pub role_template: RoleName,
    /// Whose command line takes its turns.
    pub provider: Provider,
    /// The entry of `agents` that it uses, where somebody named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, where somebody named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it says that it changes; nothing said, whatever its capabilities let it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<RepoPath>,
    /// What it may do.
    pub capabilities: Capabilities,
    /// What it is asked about.
    pub permissions: Permissions,
    /// What takes the place of its role's prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_system_prompt: Option<String>,
    /// Whether its conversation continues from turn to turn.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub resume: bool,
    /// What makes it forget its conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset_commands: Vec<String>,
    /// Who takes its turns: an entry of the contract's `workers`.
    pub worker: String,
}

fn yes() -> bool {
    true
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

/// A node was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAdded {
    /// Its place, from 0.
    pub node: u32,
    /// What it is.
    pub terms: NodeTerms,
    /// Who made it.
    pub by: String,
}

/// A node is another one from its next turn on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeChanged {
    /// Its place.
    pub node: u32,
    /// What it was.
    pub old: NodeTerms,
    /// What it is.
    pub new: NodeTerms,
    /// Who changed it.
    pub by: String,
}

/// Something that a node is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeMessage {
    /// UUID.
    pub id: String,
    /// The place of the node that it is for.
    pub node: u32,
    /// Who says it: a person, or norma.
    pub role: MessageRole,
    /// Byte for byte.
    pub content: String,
    /// Whether it ends the turn that is under way, and comes first in the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt: bool,
    /// Whether the node gets a turn for it; what does not waits for its next one.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub starts: bool,
    /// The change that it tells of, where norma tells a node that one of its changes was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u32>,
    /// Who sent it.
    pub by: String,
}

/// Whether whoever sends something wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// No.
    None,
    /// If there is something to say.
    #[default]
    Optional,
    /// The answer starts a turn of whoever asked.
    Required,
}

impl Expectation {
    fn is_default(&self) -> bool {
        *self == Expectation::default()
    }
}

/// What one node sends to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoffSent {
    /// As it is delivered.
    pub envelope: Envelope,
    /// The turn that it comes from; none of one that a person has sent for a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepRef>,
    /// Whether it only tells: it waits for the next turn of whoever gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub report: bool,
    /// Whether an answer is wanted.
    #[serde(default, skip_serializing_if = "Expectation::is_default")]
    pub response: Expectation,
}

/// The modes of a run were changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeChanged {
    /// What they were.
    pub old: (RunMode, GlobalMode),
    /// What they are.
    pub new: (RunMode, GlobalMode),
    /// Who changed them.
    pub by: String,
}

/// A run is about to do something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseChanged {
    /// What it was about to do.
    pub old: Phase,
    /// What it is about to do.
    pub new: Phase,
    /// Why, in words.
    pub why: String,
}

/// A run does the same again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stalled {
    /// The place of the node that does.
    pub node: u32,
    /// What repeats itself.
    pub evidence: StallEvidence,
}

/// A person is asked what the agent of a node wished for in a turn that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAsked {
    /// The turn that wished for it.
    pub step: StepRef,
    /// The approval.
    pub wait: ApprovalWait,
}

/// What the agent of a node asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeWish {
    /// That it may run a command. norma does not run it.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
        /// Where.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The reason, in its words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another node.
    Spawn(Box<SpawnWish>),
    /// An edge between two nodes.
    Edge(Box<EdgeInput>),
}

/// A node that an agent wants to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpawnWish {
    /// What it is to be called.
    pub label: String,
    /// Which role it has.
    pub role_template: RoleName,
    /// Whose command line takes its turns.
    pub provider: Provider,
    /// The entry of `agents`, where `provider` is `custom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it is told first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
}

/// What was answered to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAnswered {
    /// The approval.
    pub approval: ApprovalId,
    /// How.
    pub status: ResolutionStatus,
    /// Who answered; nobody, where its time passed.
    pub by: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command that may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
}

/// What a node has made is to become part of the run's line: from here on it is an item of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeProposed {
    /// The item.
    pub added: ItemAdded,
    /// The place of the node.
    pub node: u32,
    /// Its last turn.
    pub step: StepRef,
    /// The commit of the run's line that it was made on.
    pub base: ItemBase,
    /// The tree.
    pub tree: TreeId,
}

/// What a turn of a node changed in its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnDelta {
    /// The paths, as far as they fit.
    pub files: Vec<String>,
    /// How many there are.
    pub count: u64,
    /// SHA-256 of the patch.
    pub sha256: Digest,
}

/// What the agent of a node answers besides its words: the `result` of its answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeResult {
    /// What it hands to others.
    pub handoffs: Vec<WishedHandoff>,
    /// A command that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<WishedCommand>,
    /// A node that it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn: Option<SpawnWish>,
    /// An edge that it asks for; its id is norma's to give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<EdgeInput>,
    /// Whether what it has made is to be judged and to become part of the run.
    pub change: bool,
    /// Whether it is done; of the orchestrator, whether the run is.
    pub done: bool,
}

/// Something that an agent hands to another node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WishedHandoff {
    /// The id of a node, or a label that only one has; empty for whoever leads the graph.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// In words.
    pub message: String,
    /// Whether it only tells, whatever the edge is for: it starts no turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub report: bool,
    /// What a program reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Map<String, Value>>,
    /// Files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<crate::view::graph::ArtifactRef>,
    /// Whether what it tells of succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::view::graph::PayloadStatus>,
    /// Whether an answer is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Expectation>,
    /// The context pack that goes with it.
    #[serde(rename = "contextRef", default, skip_serializing_if = "Option::is_none")]
    pub context_ref: Option<String>,
}

/// A command that an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WishedCommand {
    /// Program and arguments.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The reason that it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The file in a turn's directory that says what whoever continues from there has to know.
pub const CONTEXT_PACK: &str = "contextpack.json";

/// How context packs are referred to: this and the artifact's id.
pub const CONTEXT_SCHEME: &str = "contextpack://pack/";

/// What whoever continues from a turn has to know. norma makes one of every turn of a node that answered, unless its agent has
/// left one of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextPack {
    /// 1.
    pub version: u32,
    /// The id of the artifact that it is.
    pub pack_id: String,
    /// UUID.
    pub run_id: RunId,
    /// The node whose turn it was.
    pub node_id: String,
    /// When.
    pub created_at: Timestamp,
    /// What the run is for.
    pub goal: String,
    /// What has to hold in the end: criteria and tests.
    pub definition_of_done: Vec<String>,
    /// Whether code is changed.
    pub global_mode: GlobalMode,
    /// Whether the run goes on by itself.
    pub node_mode: RunMode,
    /// Where documents are.
    pub docs_root: String,
    /// What the node said.
    pub summary: String,
    /// What the turn changed, as far as it is listed.
    pub relevant_files: Vec<PackFile>,
    /// What the turn was told.
    pub inputs: Vec<PackInput>,
    /// What it left.
    pub artifacts: Vec<PackArtifact>,
    /// What the node may do.
    pub constraints: PackConstraints,
}

/// A file that matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackFile {
    /// From the repository's root.
    pub path: String,
    /// In a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A message or a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackInput {
    /// Its id.
    pub payload_id: String,
}

/// An artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PackArtifact {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: crate::view::graph::ArtifactKind,
}

/// What a node may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackConstraints {
    /// All there is, where none is named.
    pub allowed_paths: Vec<String>,
    /// What of them is not changed all the same.
    pub denied_paths: Vec<String>,
    /// Whether it changes files.
    pub writes: bool,
    /// Whether it runs commands.
    pub runs_commands: bool,
}

/// The file in a turn's directory that says which of norma's tools its agent has called: a [`NodeCall`] a line.
pub const CALLS_FILE: &str = "calls.jsonl";

/// A call of one of the tools that norma gives to the agent of a node. It says what a [`NodeResult`] says, while the turn is
/// under way; both are followed when it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", content = "arguments", rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeCall {
    /// Hands work to another node.
    SendHandoff(WishedHandoff),
    /// Tells another node something, and starts no turn of it.
    Report(WishedReport),
    /// Asks for another node.
    SpawnNode(SpawnWish),
    /// Asks for an edge.
    CreateEdge(EdgeInput),
    /// Asks for a command.
    Ask(WishedCommand),
}

/// Something that an agent tells another node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WishedReport {
    /// Whom; whoever leads the graph where nobody is named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// In words.
    pub message: String,
    /// Whether what it tells of succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::view::graph::PayloadStatus>,
    /// Files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<crate::view::graph::ArtifactRef>,
}

impl From<WishedReport> for WishedHandoff {
    fn from(report: WishedReport) -> WishedHandoff {
        let WishedReport { to, message, status, artifacts } = report;
        WishedHandoff {
            to,
            message,
            report: true,
            structured: None,
            artifacts,
            status,
            response: None,
            context_ref: None,
        }
    }
}

/// A person or an agent has drawn an edge, or changed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeSet {
    /// The edge.
    pub edge: Edge,
    /// What it was, if there was one of this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Edge>,
    /// Who did it.
    pub by: String,
}

/// Something that a person does to a graph. Nodes are named by their id, or by a label that only one has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GraphEdit {
    /// Make a node.
    AddNode {
        /// What it is to be.
        node: Box<NodeInput>,
    },
    /// Have a node be another one from its next turn on.
    PatchNode {
        /// The node.
        node: String,
        /// What changes.
        patch: Box<NodeWishes>,
    },
    /// Let a node have turns, or not.
    HoldNode {
        /// The node.
        node: String,
        /// Whether it gets none.
        held: bool,
    },
    /// Have a node forget its conversation.
    ResetNode {
        /// The node.
        node: String,
    },
    /// End the turn that a node is in.
    InterruptNode {
        /// The node.
        node: String,
        /// The id of the message that tells it so.
        id: String,
    },
    /// Remove a node and its edges.
    RemoveNode {
        /// The node.
        node: String,
    },
    /// Draw an edge, or change the one of this id.
    SetEdge {
        /// The edge.
        edge: EdgeInput,
        /// The id that it gets where it has none.
        id: String,
    },
    /// Remove an edge.
    RemoveEdge {
        /// Its id.
        edge: String,
    },
    /// Tell a node something.
    Say {
        /// The id that the message gets.
        id: String,
        /// Whom.
        node: String,
        /// What, byte for byte.
        content: String,
        /// Whether it ends the turn that the node is in.
        interrupt: bool,
    },
    /// Change how the graph goes on.
    Mode {
        /// Whether by itself.
        mode: Option<RunMode>,
        /// Whether its nodes may change code.
        global_mode: Option<GlobalMode>,
    },
    /// The work is done: what was made is judged, and the run comes to its end.
    Done,
}

/// A node that somebody asks for. What is left out is as the seed has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeInput {
    /// What people call it.
    #[schemars(length(min = 1, max = 200))]
    pub label: String,
    /// Which template its role is described by.
    #[serde(default = "RoleName::implementer")]
    pub role_template: RoleName,
    /// Whose command line takes its turns.
    #[serde(default = "custom")]
    pub provider: Provider,
    /// The entry of `agents` that it uses; with `custom` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub agent: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub model: Option<String>,
    /// What it says that it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub scope: Vec<String>,
    /// What it may do.
    #[serde(default)]
    pub capabilities: CapabilityWishes,
    /// What it is asked about.
    #[serde(default)]
    pub permissions: PermissionWishes,
    /// Its conversation.
    #[serde(default)]
    pub session: SessionWishes,
    /// What takes the place of its role's prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 65536))]
    pub custom_system_prompt: Option<String>,
}

fn custom() -> Provider {
    Provider::Custom
}

/// Capabilities that somebody asks for; what is left out stays, or is as the seed has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CapabilityWishes {
    /// Make other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub spawn_nodes: Option<bool>,
    /// Change code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub write_code: Option<bool>,
    /// Change documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub write_docs: Option<bool>,
    /// Run commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub run_commands: Option<bool>,
    /// Nothing but hand work to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub delegate_only: Option<bool>,
}

impl CapabilityWishes {
    /// What comes of them.
    pub fn over(&self, before: Capabilities) -> Capabilities {
        Capabilities {
            spawn_nodes: self.spawn_nodes.unwrap_or(before.spawn_nodes),
            write_code: self.write_code.unwrap_or(before.write_code),
            write_docs: self.write_docs.unwrap_or(before.write_docs),
            run_commands: self.run_commands.unwrap_or(before.run_commands),
            delegate_only: self.delegate_only.unwrap_or(before.delegate_only),
        }
    }
}

/// Permissions that somebody asks for; what is left out stays, or is as the seed has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PermissionWishes {
    /// Whether its agent's requests reach a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PermissionsMode")]
    pub cli_permissions_mode: Option<PermissionsMode>,
    /// Whether a person approves before it makes another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub spawn_requires_approval: Option<bool>,
}

impl PermissionWishes {
    /// What comes of them.
    pub fn over(&self, before: Permissions) -> Permissions {
        Permissions {
            cli_permissions_mode: self.cli_permissions_mode.unwrap_or(before.cli_permissions_mode),
            spawn_requires_approval: self.spawn_requires_approval.unwrap_or(before.spawn_requires_approval),
        }
    }
}

/// What somebody asks for of a node's conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionWishes {
    /// Whether it continues from turn to turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub resume: Option<bool>,
    /// What makes the agent forget it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", inner(length(min = 1, max = 200)))]
    pub reset_commands: Option<Vec<String>>,
    /// The agent's own name for it, which only the agent gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub session_id: Option<String>,
}

/// What somebody changes of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeWishes {
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub label: Option<String>,
    /// Which template its role is described by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RoleName")]
    pub role_template: Option<RoleName>,
    /// Whose command line takes its turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Provider")]
    pub provider: Option<Provider>,
    /// The entry of `agents` that it uses; with `custom` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub agent: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub model: Option<String>,
    /// What it says that it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub scope: Option<Vec<String>>,
    /// What it may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CapabilityWishes")]
    pub capabilities: Option<CapabilityWishes>,
    /// What it is asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PermissionWishes")]
    pub permissions: Option<PermissionWishes>,
    /// Its conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SessionWishes")]
    pub session: Option<SessionWishes>,
    /// What takes the place of its role's prompt; null takes it away.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Option<String>")]
    pub custom_system_prompt: Option<Option<String>>,
    /// A wish, never a state: `blocked` stops the node, `idle` lets it go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeStatus")]
    pub status: Option<NodeStatus>,
    /// Goes with `status`, and is norma's to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub summary: Option<String>,
}

/// Tells null from nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// An edge that somebody draws. What is left out is as the seed has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeInput {
    /// UUID; the same again changes the edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 64))]
    pub id: Option<String>,
    /// A node.
    #[schemars(length(min = 1, max = 200))]
    pub from: String,
    /// Another.
    #[schemars(length(min = 1, max = 200))]
    pub to: String,
    /// Whether results go back over it, too; they do where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub bidirectional: Option<bool>,
    /// What goes over it: a report towards whoever leads, else work.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EdgeKind")]
    pub kind: Option<EdgeKind>,
    /// `task`, `report` or other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 200))]
    pub label: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_name_that_can_be_part_of_a_path() {
        for good in ["a", "Orchestrator", "qa-lead_2", &"x".repeat(32)] {
            assert_eq!(RoleName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "2nd", "-a", "a b", "a/b", "ä", ".", &"x".repeat(33)] {
            assert_eq!(RoleName::parse(bad), None, "{bad}");
            assert!(serde_json::from_value::<RoleName>(bad.into()).is_err());
        }
        assert!(RoleName::parse("ORCHESTRATOR").unwrap().is_orchestrator());
        assert!(!RoleName::parse("planner").unwrap().is_orchestrator());
    }

    #[test]
    fn the_answer_of_a_node_needs_to_say_nothing_besides_words() {
        let read: NodeResult = serde_json::from_str("{}").unwrap();
        assert_eq!(read, NodeResult::default());
        let read: NodeResult = serde_json::from_str(r#"{"handoffs":[{"to":"B","message":"go"}],"done":true}"#).unwrap();
        assert_eq!((read.handoffs.len(), read.done, read.change), (1, true, false));
    }
}
