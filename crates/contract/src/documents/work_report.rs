//! `work_report.v1`: a task in brief, for counting. It does not stand for the task's result.

use super::{GateVerdict, Open, Sha256};
use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct WorkReport {
    /// The task.
    #[schemars(length(min = 1))]
    pub task_id: String,
    /// How it ended.
    pub status: WorkStatus,
    /// Where the patch is.
    pub patch_ref: String,
    /// What it changes, in words.
    pub diff_summary: String,
    /// Why it failed, or empty.
    pub failure_reason: String,
    /// Where the evidence is, by name.
    pub evidence_refs: Open,
    /// The run's slug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The commit that it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_ref: Option<String>,
    /// What it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_ref: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Which try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// Who reports; specialists report as workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ReportingRole>,
    /// The patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<SmallRef>,
    /// The list of the paths that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<SmallRef>,
    /// What the gates said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<WorkGates>,
    /// The evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<WorkEvidence>,
    /// What to do now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_actions: Option<NextActions>,
    /// When the work began and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<Span>,
    /// What was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Open>,
}

/// How a task ended, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkStatus {
    /// Done.
    Success,
    /// Not done.
    Fail,
    /// Ended before it was done.
    Aborted,
}

/// Who reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ReportingRole {
    Pm,
    TechLead,
    Worker,
    Reviewer,
    TestRunner,
    Orchestrator,
}

/// A file with its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct SmallRef {
    /// Where the file is, below the run directory.
    #[schemars(length(min = 1))]
    pub path: String,
    /// What it holds.
    pub sha256: Sha256,
    /// How long it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of which kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
}

/// What the gates said, as far as they were asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct WorkGates {
    /// What changed is what may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_gate: Option<GateVerdict>,
    /// No command was started that may not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_gate: Option<ToolGate>,
}

/// What the gate over commands said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ToolGate {
    /// Whether it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// What it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<Vec<String>>,
}

/// The evidence, as far as there is some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct WorkEvidence {
    /// What the agent's program told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_events_jsonl: Option<SmallRef>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript_md: Option<SmallRef>,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id_txt: Option<SmallRef>,
    /// Ties it to tracing tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id_txt: Option<SmallRef>,
    /// norma's own events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator_events_jsonl: Option<SmallRef>,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct NextActions {
    /// What to do, the most useful first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Vec<String>>,
    /// Paths that a next contract may want to allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_allowed_paths_delta: Option<Vec<String>>,
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Span {
    /// From.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// To.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}
