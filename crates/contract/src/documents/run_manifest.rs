//! `run_manifest.v1`: a run as a whole: from what, by which tasks, with which evidence.

use super::role_binding::RoleBindingSummary;
use super::{AgentRole, ArtifactRef, Grade, Sha256};
use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct RunManifest {
    /// The run's slug.
    #[schemars(length(min = 8))]
    pub run_id: String,
    /// The task that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Where it stands.
    pub status: RunStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// What was asked for, in words.
    #[schemars(length(min = 1))]
    pub user_request: String,
    /// Ties it to tracing tools.
    #[schemars(length(min = 8))]
    pub trace_id: String,
    /// Whether it was only a try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<bool>,
    /// What carried it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<ManifestRunner>,
    /// How much was at stake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_pack: Option<Grade>,
    /// From what to what.
    pub repo: ManifestRepo,
    /// What made it.
    pub versions: Versions,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ManifestModel>,
    /// What the contract bound the role to, for reading only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_binding_summary: Option<RoleBindingSummary>,
    /// Its tasks.
    #[schemars(length(min = 1))]
    pub tasks: Vec<ManifestTask>,
    /// Its files.
    pub artifacts: Vec<ArtifactRef>,
    /// The SHA-256 of every file of evidence, by path.
    #[schemars(extend("required" = EVIDENCE))]
    pub evidence_hashes: BTreeMap<String, Sha256>,
    /// What it can be checked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<Integrity>,
    /// Where tracing tools have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The workflow engine's view, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<ManifestWorkflow>,
    /// What was observed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observability: Option<Observability>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// The evidence without which no run is complete.
pub const EVIDENCE: [&str; 6] = [
    "contract.json",
    "events.jsonl",
    "patch.diff",
    "diff_name_only.txt",
    "reports/review_report.json",
    "reports/test_report.json",
];

/// Where a run stands; a report says FAILED where this says FAILURE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStatus {
    /// Not at its end.
    Running,
    /// Done.
    Success,
    /// Not done.
    Failure,
}

/// What carried a run out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ManifestRunner {
    /// The name of the program that carried out the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it spoke MCP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_only: Option<bool>,
    /// How it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// From what to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ManifestRepo {
    /// Where the repository is.
    pub root: String,
    /// The commit that it started from.
    pub baseline_ref: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_url: Option<String>,
    /// The branch that it lands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_ref: Option<String>,
}

/// What made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Versions {
    /// The version of the documents.
    pub contracts_schema: String,
    /// norma's version.
    pub orchestrator: String,
    /// The agent's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_cli: Option<String>,
    /// Its library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_sdk: Option<String>,
    /// Python's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The model that was asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ManifestModel {
    /// The name of the model, as its provider spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How freely it chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// From how much of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub top_p: Option<f64>,
    /// Where chance began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ManifestTask {
    /// The id of the task within the run.
    pub task_id: String,
    /// Who is to do it.
    pub role: AgentRole,
    /// Where it stands.
    pub status: ManifestTaskStatus,
    /// Its contract.
    pub contract: ArtifactRef,
    /// Who does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_agent_id: Option<String>,
    /// In which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ArtifactRef>,
    /// What a reviewer said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_report: Option<ArtifactRef>,
    /// What the tests said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_report: Option<ArtifactRef>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ManifestTaskStatus {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Done.
    Success,
    /// Not done.
    Failed,
    /// Something else is needed first.
    Blocked,
    /// Not tried.
    Skipped,
}

/// What a run can be checked with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Integrity {
    /// The contract's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_sha256: Option<Sha256>,
    /// Where the contract's signature is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_signature_path: Option<String>,
    /// That file's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_signature_sha256: Option<Sha256>,
    /// Where the chain over the events is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_hashchain_path: Option<String>,
    /// This document's digest, without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_sha256: Option<Sha256>,
}

/// Where tracing tools have it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Trace {
    /// Under which id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Where the trace can be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_url: Option<String>,
}

/// The workflow engine's view.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ManifestWorkflow {
    /// Which workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// In which queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_queue: Option<String>,
    /// Of which tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
}

/// What was observed with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Observability {
    /// Whether anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether the library was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_otel: Option<bool>,
    /// Whether it was printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console_enabled: Option<bool>,
    /// Whether the run would fail without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Where it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// The protocol that it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_protocol: Option<String>,
}
