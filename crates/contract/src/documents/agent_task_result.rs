//! `agent_task_result.v1`: what an agent answers with under contract, in every role that has no report of its own.

use super::task_result::TaskOutcome;
use super::{Failure, Open, OrNull};
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct AgentTaskResult {
    /// The task.
    #[schemars(length(min = 1))]
    pub task_id: String,
    /// How it ended, as the agent sees it.
    pub status: TaskOutcome,
    /// In words.
    pub summary: String,
    /// Where the evidence is, by name.
    pub evidence_refs: Open,
    /// What went wrong.
    pub failure: OrNull<Failure>,
    /// Contracts that the agent proposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contracts: Option<Vec<Open>>,
    /// What the next role should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_payload: Option<Open>,
}
