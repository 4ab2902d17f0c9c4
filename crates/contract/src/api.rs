//! What programs send to `norma serve`, and the one form of its errors. Each is read strictly, by its schema, so that
//! a client is told every mistake at once and with its place.

mod intake;

pub use intake::{Intake, NewIntake, Question, QuestionId};

use crate::documents::role_binding::RoleContractSummary;
use crate::graph::{EdgeInput, NodeInput, NodeWishes};
use crate::json::Violation;
use crate::review::Side;
use crate::schema::JsonSchema;
use crate::view::graph::{GlobalMode, Position, ResolutionScope, ResolutionStatus, RunMode, Viewport};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// `POST /api/runs`: exactly one of `contract`, `batch`, `goal` and `sentence`; none of them is a graph run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewRun {
    /// A task contract.
    #[schemars(with = "Map<String, Value>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<Map<String, Value>>,
    /// Work items.
    #[schemars(with = "Vec<Map<String, Value>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Vec<Map<String, Value>>>,
    /// What the loop is to reach.
    #[schemars(with = "String", length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// What must hold when it is done, of a goal or a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub acceptance_criteria: Vec<String>,
    /// What to do, in one sentence.
    #[schemars(with = "String", length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Who does it, of a goal or a sentence.
    #[schemars(with = "String", length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What a sentence may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub allow: Vec<String>,
    /// Commands that must succeed, of a sentence or a graph run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub test: Vec<String>,
    /// What a sentence may use up, as `NAME=N`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub budget: Vec<String>,
    /// Of a contract or a batch, whether whoever asks approves what it needs approval for. Of a sentence, whether its
    /// contract is started: without it, it is only shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub yes: bool,
    /// Whether whoever asks approves what the contract of a sentence needs approval for, such as a wide scope.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub yes_wide: bool,
    /// Whether it continues by itself, of a graph run.
    #[schemars(with = "RunMode")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunMode>,
    /// Whether it plans or implements, of a graph run.
    #[schemars(with = "GlobalMode")]
    #[serde(rename = "globalMode", skip_serializing_if = "Option::is_none")]
    pub global_mode: Option<GlobalMode>,
    /// The version of the contract that the client knows.
    #[schemars(with = "String")]
    #[serde(rename = "contractVersion", skip_serializing_if = "Option::is_none")]
    pub contract_version: Option<String>,
}

/// `POST /intents/:id/run`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StartIntent {
    /// Comes back in the view of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub trace_id: Option<String>,
}

/// `POST /runs/:id/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunEvent {
    /// What is answered.
    pub event: RunEventKind,
    /// The answer: of an approval `approve` or `reject`, of a decision one of its choices.
    #[schemars(length(min = 1, max = 2000))]
    pub choice: String,
    /// The node of the plan; left out, the one that has waited longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub node_id: Option<String>,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RunEventKind {
    Approval,
    Decision,
}

/// `POST /api/runs/:id/nodes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddNode {
    /// What it is to be.
    pub node: NodeInput,
    /// The version of the contract that the client knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub contract_version: Option<String>,
}

/// `PATCH /api/runs/:id/nodes/:node`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchNode {
    /// What changes.
    pub patch: NodeWishes,
    /// More of it; what `patch` says counts first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeWishes")]
    pub config: Option<NodeWishes>,
}

/// `POST /api/runs/:id/edges`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetEdge {
    /// The edge.
    pub edge: EdgeInput,
    /// The version of the contract that the client knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub contract_version: Option<String>,
}

/// `POST /api/runs/:id/chat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chat {
    /// Whom; left out, the orchestrator, or the only node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 200))]
    pub node_id: Option<String>,
    /// What, byte for byte.
    #[schemars(length(min = 1))]
    pub content: String,
    /// Whether it ends the turn that the node is in, instead of waiting for the next.
    #[serde(default)]
    pub interrupt: bool,
    /// The version of the contract that the client knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub contract_version: Option<String>,
}

/// `PUT /api/templates/:name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PutTemplate {
    /// What agents are told.
    #[schemars(length(min = 1, max = 65536))]
    pub content: String,
}

/// A contract before it is started. Its sentences are safe to print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractPreview {
    /// As it would be submitted.
    pub contract: Map<String, Value>,
    /// What it starts from.
    pub base: PreviewBase,
    /// Who works.
    pub agent: PreviewAgent,
    /// What may change.
    pub may_write: String,
    /// Commands that must succeed.
    pub tests: Vec<String>,
    /// What can be reached.
    pub network: String,
    /// How long it may take.
    pub time: String,
    /// What it may cost.
    pub money: String,
    /// Why it needs an approval of its own.
    pub needs_approval: Vec<String>,
    /// What else should be known.
    pub notes: Vec<String>,
    /// How to have it run.
    pub next: String,
    /// The role of whoever works, for reading; left out where the registry does not say what it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RoleContractSummary")]
    pub role_contract_summary: Option<RoleContractSummary>,
}

/// The commit that a run starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewBase {
    /// Object id.
    pub commit: String,
    /// Ref of the branch, if HEAD is on one.
    pub branch: Option<String>,
    /// Files that are not part of the run.
    pub uncommitted: u64,
}

/// The agent of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewAgent {
    /// As it is configured, or as it is known.
    pub name: String,
    /// The model, where norma says which.
    pub model: Option<String>,
    /// How it reaches its model.
    pub reach: String,
}

/// `PATCH /api/runs/:id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchRun {
    /// What is wished for.
    pub patch: RunWish,
}

/// What somebody wishes of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunWish {
    /// That it pauses, or continues.
    #[schemars(with = "WishedStatus")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WishedStatus>,
    /// Of a graph run only.
    #[schemars(with = "RunMode")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunMode>,
    /// Of a graph run only.
    #[schemars(with = "GlobalMode")]
    #[serde(rename = "globalMode", skip_serializing_if = "Option::is_none")]
    pub global_mode: Option<GlobalMode>,
    /// Where its graph is drawn; says nothing about the run.
    #[schemars(with = "LayoutWish")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutWish>,
}

/// What of a graph somebody has moved.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayoutWish {
    /// Whether everything else is where it would be drawn by itself again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub afresh: bool,
    /// Where nodes are, by their id; those that are not named stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub positions: BTreeMap<String, Position>,
    /// What part of it is seen.
    #[schemars(with = "Viewport")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewport: Option<Viewport>,
}

/// The states that can be wished for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WishedStatus {
    /// It continues.
    Running,
    /// It pauses at its next step.
    Paused,
    /// Its work is done, of a graph run: what was made is judged, and it comes to its end.
    Completed,
}

/// `POST /api/approvals/:id/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveApproval {
    /// What is answered.
    pub resolution: AnswerGiven,
}

/// What a person answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnswerGiven {
    /// The answer.
    pub status: ResolutionStatus,
    /// What may happen instead; only with `modified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ModifiedArgs")]
    pub modified_args: Option<ModifiedArgs>,
    /// How far an approval goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ResolutionScope")]
    pub scope: Option<ResolutionScope>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 2000))]
    pub reason: Option<String>,
}

/// What may happen instead: one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModifiedArgs {
    /// The command as one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 2000))]
    pub cmd: Option<String>,
    /// The command as its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub argv: Option<Vec<String>>,
}

/// `POST /api/runs/:id/resume`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeRun {
    /// New limits, as `NAME=N`, of a run that its budget holds or has stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub budget: Vec<String>,
    /// How many items are worked on at once.
    #[schemars(with = "u32", range(min = 1, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
}

/// `POST /api/runs/:id/fork`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRun {
    /// The last event of the run that the new one knows of.
    #[schemars(range(min = 1))]
    pub seq: u64,
}

/// `POST /api/runs/:id/changes/:change/comments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewComment {
    /// A file of the change.
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// The line, from 1.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub line: u32,
    /// Which side of the difference the line is on; the new one where nothing is said.
    #[serde(default)]
    pub side: Side,
    /// What should be different.
    #[schemars(length(min = 1, max = 4000))]
    pub text: String,
}

/// `POST /api/runs/:id/changes/:change/send-back`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SendBack {
    /// Who fixes it, where it takes a run; whoever made the change if nobody is named.
    #[schemars(with = "String", length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether the run is started: without it, its contract is only shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub yes: bool,
    /// Whether whoever asks approves what the contract needs approval for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub yes_wide: bool,
}

/// `POST /api/runs/:id/replay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplayRun {
    /// How much is done again.
    pub mode: ReplayHow,
}

/// How much of a run is done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayHow {
    /// Everything is judged again on its evidence; nothing is started.
    #[default]
    Rehydrate,
    /// Its contract is carried out again as a run of its own, which lands nothing.
    Reexec,
}

/// Every answer that is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// What is wrong, for people.
    pub error: String,
    /// The same for programs.
    pub code: String,
    /// More about it.
    pub details: ProblemDetails,
}

/// More about an error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProblemDetails {
    /// What is wrong with the body, each with its JSON pointer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// What led to it, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub hint: Option<String>,
    /// Where the run is that does not allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<String>,
}
