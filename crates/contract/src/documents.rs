//! The documents that people and agents write under contract, and those that norma writes of it: one file a kind, each
//! closed (an unknown key is refused) and with a schema in `schemas/`. A field that may be left out is never null,
//! unless its type says so; the schemas keep the two apart.

pub mod agent_registry;
pub mod agent_task_result;
mod compile;
pub mod evidence_bundle;
pub mod evidence_report;
#[cfg(test)]
mod fixture;
mod graph;
pub mod intent;
pub mod orchestrator_event;
pub mod patch;
pub mod plan;
pub mod recipe;
pub mod reexec_report;
pub mod review_report;
pub mod role_binding;
pub mod roles;
pub mod run_manifest;
pub mod run_result;
pub mod sandbox_job;
pub mod task_contract;
pub mod task_result;
pub mod test_report;
pub mod work_item;
pub mod work_report;

pub use agent_registry::AgentRegistry;
pub use agent_task_result::AgentTaskResult;
pub use compile::{ITEM_BYTES_MAX, Kind, Terms, compile, has_form, is_task_contract, limits_of};
pub use evidence_bundle::EvidenceBundle;
pub use evidence_report::EvidenceReport;
pub use intent::{CompileAnswer, CompileOutput, CompileRequest, Intent, Recording};
pub use orchestrator_event::OrchestratorEvent;
pub use patch::Patch;
pub use plan::Plan;
pub use recipe::{Recipe, RecipeStatus};
pub use reexec_report::{Difference, ReexecReport, ReexecStatus};
pub use review_report::ReviewReport;
pub use roles::{ReviewAnswer, TechLeadAnswer, Written};
pub use run_manifest::RunManifest;
pub use run_result::RunResult;
pub use sandbox_job::{SandboxJob, SandboxResult};
pub use task_contract::TaskContract;
pub use task_result::TaskResult;
pub use test_report::TestReport;
pub use work_item::WorkItem;
pub use work_report::WorkReport;

use crate::Digest;
use crate::hash::DigestProblem;
use crate::json::{self, Limits, Violation};
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use crate::schema::{Document, JsonSchema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use std::fmt;

/// Members that a document leaves open.
pub type Open = Map<String, Value>;

/// What an agent is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names say it; a document gives them no other meaning")]
pub enum AgentRole {
    Pm,
    TechLead,
    Worker,
    Reviewer,
    TestRunner,
    Searcher,
    Researcher,
    UiUx,
    Frontend,
    Backend,
    Ai,
    Security,
    Infra,
    Test,
    Ops,
}

impl AgentRole {
    /// The word as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentRole::Pm => "PM",
            AgentRole::TechLead => "TECH_LEAD",
            AgentRole::Worker => "WORKER",
            AgentRole::Reviewer => "REVIEWER",
            AgentRole::TestRunner => "TEST_RUNNER",
            AgentRole::Searcher => "SEARCHER",
            AgentRole::Researcher => "RESEARCHER",
            AgentRole::UiUx => "UI_UX",
            AgentRole::Frontend => "FRONTEND",
            AgentRole::Backend => "BACKEND",
            AgentRole::Ai => "AI",
            AgentRole::Security => "SECURITY",
            AgentRole::Infra => "INFRA",
            AgentRole::Test => "TEST",
            AgentRole::Ops => "OPS",
        }
    }
}

impl fmt::Display for AgentRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An agent in a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct AgentRef {
    /// In which role.
    pub role: AgentRole,
    /// The name of the agent.
    pub agent_id: String,
    /// The session to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_thread_id: Option<String>,
}

/// A file of a run, with its content's digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ArtifactRef {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// What it holds.
    pub sha256: Sha256,
    /// Of which kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// How long it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// What went wrong, and what may help.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Failure {
    /// What.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What a gate said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct GateVerdict {
    /// Whether it passed.
    pub passed: bool,
    /// What it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<Vec<String>>,
}

/// The rights in a contract's words: files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filesystem {
    /// Nothing may change.
    ReadOnly,
    /// What the contract names may change.
    WorkspaceWrite,
}

impl Filesystem {
    /// The word as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Filesystem::ReadOnly => "read-only",
            Filesystem::WorkspaceWrite => "workspace-write",
        }
    }
}

/// What a change may bring besides text in the allowed paths. Each needs a person's approval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeTerms {
    /// Whether files may have binary content.
    pub allow_binary: bool,
}

/// How much is at stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Grade {
    Low,
    Medium,
    High,
}

/// A SHA-256 as others write it: in either case. It is kept and written in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Sha256(pub Digest);

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digest: Result<Digest, DigestProblem> = text.to_ascii_lowercase().parse();
        digest.map(Sha256).map_err(de::Error::custom)
    }
}

/// A value that must be there and may be null.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrNull<T>(pub Option<T>);

/// Reads a document strictly: every violation with its JSON pointer, patterns included.
pub fn read<T: DeserializeOwned + Document>(bytes: &[u8]) -> Result<T, Vec<Violation>> {
    read_value(json::parse(bytes, &Limits::DOCUMENT)?)
}

fn read_value<T: DeserializeOwned + Document>(value: Value) -> Result<T, Vec<Violation>> {
    let form = T::form().made();
    let schema = form.compiled();
    if schema.is_met_by(&value) {
        return json::decode_checked(form.without_reference(value));
    }
    // Our own walk says best what is wrong, but leaves patterns and formats to the schema.
    json::check_value::<T>(&value)?;
    Err(schema.violations(&value))
}

/// What is wrong with an answer that the schema it is bound to cannot say. Only norma's own forms have such rules.
pub fn beyond_form(uri: &str, result: &Value) -> Vec<Violation> {
    match uri {
        intent::ANSWER_SCHEMA => CompileAnswer::read(result.clone()).err().unwrap_or_default(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
