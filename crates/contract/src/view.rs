//! What people and programs are shown of a run or a task. Views are made from the index tables; a browser or a
//! script gets nothing it would have to compute. [`graph`] and [`stream`] are a run as seed 003 has it.

pub mod graph;
pub mod intent;
pub mod pipeline;
pub mod stream;

#[cfg(test)]
mod tests;

use crate::documents::role_binding::{RoleBindingSummary, WorkflowCaseReadModel};
use crate::receipt::LeftOut;
use crate::schema::JsonSchema;
use crate::{
    AcceptanceCriterion, AgentType, CommitId, Landing, Reason, Role, RunId, Slug, Status, StepStatus, TaskStatus,
    Timestamp, Usage, Verdict,
};
use serde::{Deserialize, Serialize};

/// A run, as `norma show --json` prints it and `norma runs --json` lists it (there without `steps`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// Slug.
    pub run_id: Slug,
    /// UUID.
    pub id: RunId,
    /// What it is for.
    pub goal: String,
    /// Canonical word.
    pub status: Status,
    /// Why it has this status, as one of the known words.
    pub reason: Option<Reason>,
    /// Why, in words.
    pub message: Option<String>,
    /// The last verdict that counts.
    pub verdict: Option<Verdict>,
    /// Round of the loop.
    pub iteration: u32,
    /// When it started.
    pub created_at: Timestamp,
    /// When it reached a terminal status.
    pub ended_at: Option<Timestamp>,
    /// Its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepView>>,
    /// What only `show` tells.
    #[serde(flatten)]
    pub details: Option<RunDetails>,
    /// The commit it started from.
    pub base: CommitId,
    /// The commit it made.
    pub result: Option<CommitId>,
    /// The commit that a ref of the user's was moved to; none if it was not, or was taken back.
    pub landed: Option<CommitId>,
    /// How it landed.
    pub landing: Option<Landing>,
    /// Its task.
    pub task_id: Option<i64>,
    /// The run it continues.
    pub parent: Option<Slug>,
    /// What confined its agents.
    pub sandbox: String,
    /// Where its evidence is.
    pub run_dir: String,
    /// What is wrong with its log, which then tells nothing that could be relied on: the rest is what was shown last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    /// Whether a person set it aside because it is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
}

impl RunView {
    /// One word for how the run is: its status, unless its log cannot be relied on.
    pub fn word(&self) -> &'static str {
        match (self.quarantined, &self.damaged) {
            (true, _) => "quarantined",
            (false, Some(_)) => "damaged",
            (false, None) => self.status.as_str(),
        }
    }
}

/// What is told of a run by itself, and not in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunDetails {
    /// What came of the tests that its contract asks for; null if it asks for none.
    pub tests: Option<TestsView>,
    /// Ignored files that agents left beside changes that succeeded: at most 100 for each change.
    pub left_out: Vec<String>,
    /// The same item by item, for people.
    #[serde(skip)]
    pub left_out_of: Vec<LeftOutView>,
    /// The ids of the receipts of its changes, in order.
    pub receipts: Vec<String>,
    /// What its models used; null if nobody counted.
    pub usage: Option<Usage>,
    /// What its task contract bound the role to, for reading; left out where none was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_binding_read_model: Option<RoleBindingSummary>,
    /// The case that it is the latest run of, for reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_case_read_model: Option<WorkflowCaseReadModel>,
    /// What reviewers and a pipeline came to, where there are any.
    #[serde(flatten)]
    pub pipeline: Option<pipeline::PipelineView>,
}

/// What came of the tests of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TestsView {
    /// Whether any was run.
    pub ran: bool,
    /// Whether those of every item were run, and passed.
    pub passed: bool,
    /// The commands that were run, each as one line.
    pub commands: Vec<String>,
}

/// What an item's agent left out of its change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutView {
    /// The item's id.
    pub task_id: String,
    /// Its change.
    pub change: u32,
    /// The ignored files.
    pub left_out: LeftOut,
}

/// A turn of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Directory number.
    pub index: u32,
    /// Whose turn.
    pub role: Role,
    /// Round of the loop.
    pub iteration: u32,
    /// Try of this role in this round.
    pub attempt: u32,
    /// How it ended.
    pub status: StepStatus,
    /// Why, unless it is fine.
    pub reason: Option<Reason>,
    /// Its evidence.
    pub dir: String,
    /// When it was opened.
    pub started_at: Timestamp,
    /// When it was committed.
    pub ended_at: Option<Timestamp>,
    /// What the agent says it did.
    pub summary: Option<String>,
    /// What kind of agent took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentType>,
    /// The model, as the agent says, or else as it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's own name for the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What its model used, where somebody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Small integer.
    pub id: i64,
    /// What somebody wants done.
    pub goal: String,
    /// Where it is.
    pub status: TaskStatus,
    /// What must hold.
    pub acceptance_criteria: Vec<AcceptanceCriterion>,
    /// Tasks that must be done first.
    pub depends_on: Vec<i64>,
    /// Its last run.
    pub run_id: Option<Slug>,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// One thing that was checked of a run or a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked, such as `chain`.
    pub name: &'static str,
    /// What is wrong; empty = it holds.
    pub problems: Vec<String>,
}
