//! `task_result.v1`: what came of a task, as norma tells it.

use super::{AgentRole, ArtifactRef, Failure, GateVerdict, OrNull};
use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct TaskResult {
    /// The run's slug.
    #[schemars(length(min = 1))]
    pub run_id: String,
    /// The task.
    #[schemars(length(min = 1))]
    pub task_id: String,
    /// Which try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// Who did it.
    pub producer: Producer,
    /// How it ended.
    pub status: TaskOutcome,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// In words.
    pub summary: String,
    /// Files of it.
    pub artifacts: Vec<ArtifactRef>,
    /// From what to what.
    pub git: ResultGit,
    /// What each gate said.
    pub gates: ResultGates,
    /// What to do now.
    pub next_steps: NextSteps,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<OrNull<Failure>>,
}

/// Who made a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Producer {
    /// In which role.
    pub role: ProducerRole,
    /// The agent that made it.
    pub agent_id: String,
    /// The session it was made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_thread_id: Option<String>,
}

/// A role of an agent, or norma itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProducerRole {
    /// An agent.
    Agent(AgentRole),
    /// norma.
    Orchestrator(Orchestrator),
}

impl ProducerRole {
    /// The word as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            ProducerRole::Agent(role) => role.as_str(),
            ProducerRole::Orchestrator(Orchestrator::Orchestrator) => "ORCHESTRATOR",
        }
    }
}

impl PartialEq<AgentRole> for ProducerRole {
    fn eq(&self, role: &AgentRole) -> bool {
        *self == ProducerRole::Agent(*role)
    }
}

impl fmt::Display for ProducerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The one word for norma itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Orchestrator {
    /// norma.
    Orchestrator,
}

/// How a task ended, in upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskOutcome {
    /// Done.
    Success,
    /// Not done.
    Failed,
    /// Something else is needed first.
    Blocked,
    /// Not tried.
    Skipped,
}

/// The trees of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultGit {
    /// The commit that it started from.
    #[schemars(length(min = 1))]
    pub baseline_ref: String,
    /// What it came to.
    #[schemars(length(min = 1))]
    pub head_ref: String,
    /// The list of the paths that differ.
    pub changed_files: ArtifactRef,
    /// The difference.
    pub patch: ArtifactRef,
}

/// What each gate said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultGates {
    /// What changed is what may change.
    pub diff_gate: GateVerdict,
    /// Nothing was done that policy forbids.
    pub policy_gate: GateVerdict,
    /// A reviewer agrees.
    pub review_gate: GateVerdict,
    /// The tests pass.
    pub tests_gate: GateVerdict,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextSteps {
    /// What to do, for example a command.
    pub suggested_action: String,
    /// Why that is suggested.
    pub notes: String,
}
