//! `test_report.v1`: what the acceptance tests of a contract said, command by command.

use super::{ArtifactRef, Failure, OrNull};
use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct TestReport {
    /// The run's slug.
    #[schemars(length(min = 1))]
    pub run_id: String,
    /// The task.
    #[schemars(length(min = 1))]
    pub task_id: String,
    /// Which try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// Who ran them.
    pub runner: TestRunner,
    /// When the first began.
    pub started_at: Timestamp,
    /// When the last ended.
    pub finished_at: Timestamp,
    /// What came of it.
    pub status: TestStatus,
    /// Each command.
    pub commands: Vec<CommandReport>,
    /// Files of it.
    pub artifacts: Vec<ArtifactRef>,
    /// What was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<TestSummary>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<OrNull<Failure>>,
}

/// Who ran the tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRunner {
    /// In which role.
    pub role: TestRunnerRole,
    /// Who.
    pub agent_id: String,
}

/// Who may run tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TestRunnerRole {
    /// An agent.
    TestRunner,
    /// norma.
    Orchestrator,
}

/// What came of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TestStatus {
    /// Every one that must pass does.
    Pass,
    /// One that must pass does not.
    Fail,
    /// One could not be run to its end.
    Error,
    /// None was run.
    Skipped,
}

/// What came of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct CommandReport {
    /// What it is called.
    pub name: String,
    /// Program and arguments.
    #[schemars(length(min = 1))]
    pub cmd_argv: Vec<String>,
    /// Whether the change is refused if it fails.
    pub must_pass: bool,
    /// How long it might have taken.
    #[schemars(range(min = 0))]
    pub timeout_sec: f64,
    /// What it ended with; 124 for a passed deadline, 127 where it could not be started.
    pub exit_code: i64,
    /// How long it took.
    #[schemars(range(min = 0))]
    pub duration_sec: f64,
    /// Where it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What it printed.
    pub stdout: ArtifactRef,
    /// What it complained of.
    pub stderr: ArtifactRef,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct TestSummary {
    /// Passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}
