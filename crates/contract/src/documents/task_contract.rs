//! `task_contract.v1`: what one agent is to do, where, with which rights and checked against which tests. Nothing else instructs
//! an agent.

mod bound;
mod compile;
mod draft;
mod role_view;

pub use bound::{schema_artifact, schema_of};
pub use compile::{compile, read};
pub use draft::Draft;
pub use role_view::{resolve as resolve_role, resolve_item as resolve_role_of_item};

use super::{AgentRef, AgentRole, Filesystem, Grade, OrNull, ScopeTerms, Sha256};
use crate::Backend;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::{absent_is_not_null, one_or_more_or_null};
use crate::work::{NetworkRight, ShellRight, TestsPolicy};
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct TaskContract {
    /// Unique; fit to be a directory name.
    #[schemars(length(min = 8))]
    pub task_id: String,
    /// What kind of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<TaskType>,
    /// The task that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    /// Who wants it.
    pub owner_agent: AgentRef,
    /// Who is to do it.
    pub assigned_agent: AgentRef,
    /// What to do, and what it relies on.
    pub inputs: Inputs,
    /// What is to come of it.
    pub required_outputs: Vec<RequiredOutput>,
    /// What may change: files, or directories with everything below; no patterns.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub allowed_paths: Vec<String>,
    /// What a change may bring besides text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeTerms>,
    /// Words that no command of it may contain, besides those of policy.
    pub forbidden_actions: Vec<String>,
    /// What must hold of the result.
    #[schemars(length(min = 1))]
    pub acceptance_tests: Vec<AcceptanceTest>,
    /// Whose version of the tests counts; `guarded` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_policy: Option<TestsPolicy>,
    /// What the agent may do.
    pub tool_permissions: ToolPermissions,
    /// How much is at stake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_pack: Option<Grade>,
    /// How long, and how often.
    pub timeout_retry: TimeoutRetry,
    /// How it is taken back.
    pub rollback: Rollback,
    /// What else to look at.
    pub evidence_links: Vec<String>,
    /// Where its logs are.
    pub log_refs: LogRefs,
    /// Who comes after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_chain: Option<HandoffChain>,
    /// The MCP servers that it needs.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub mcp_tool_set: Vec<String>,
    /// Whether it is fine that nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_only: Option<bool>,
    /// How a browser may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser_policy: Option<BrowserPolicy>,
    /// What carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_options: Option<RuntimeOptions>,
    /// The role as it was resolved; it must say what the rest says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_contract: Option<RoleContract>,
}

/// What kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum TaskType {
    Plan,
    Implement,
    Review,
    Test,
    Search,
}

/// What to do, and what it relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// What to do, in words.
    #[schemars(length(min = 1))]
    pub spec: String,
    /// Files that it relies on; the schema that its answer is checked against is one of them.
    pub artifacts: Vec<InputFile>,
}

/// A file that a contract relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// What for.
    pub name: String,
    /// Where, in the repository.
    pub uri: String,
    /// What it must be.
    pub sha256: Sha256,
}

/// Something that is to come of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequiredOutput {
    /// What it is called.
    pub name: String,
    /// Of which kind.
    #[serde(rename = "type")]
    pub kind: OutputKind,
    /// When it is good enough, in words.
    pub acceptance: String,
}

/// Kinds of outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum OutputKind {
    Patch,
    Commit,
    Report,
    Json,
    File,
}

/// One acceptance test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceTest {
    /// What it is called.
    pub name: String,
    /// The command, split as a shell would; nothing only a shell understands.
    pub cmd: String,
    /// Whether the change is refused if it fails.
    pub must_pass: bool,
}

/// What an agent may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolPermissions {
    /// Files.
    pub filesystem: Filesystem,
    /// Commands. Whoever says nothing of them may run none.
    #[serde(default)]
    pub shell: ShellRight,
    /// The network.
    pub network: NetworkRight,
    /// Tools of MCP servers.
    pub mcp_tools: Vec<String>,
}

/// How long, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeoutRetry {
    /// For the turn, and for each test.
    #[schemars(range(min = 1))]
    pub timeout_sec: u64,
    /// How many more times a failed turn is tried.
    #[schemars(range(max = 10))]
    pub max_retries: u32,
    /// How long to wait before that.
    pub retry_backoff_sec: u64,
}

/// How a change is taken back. norma makes none before its gates pass, so there is nothing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Rollback {
    /// How the change is taken back.
    pub strategy: RollbackStrategy,
    /// To which commit.
    pub baseline_ref: String,
    /// The commit to revert, for the strategy that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<String>,
}

/// How a change is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RollbackStrategy {
    /// By going back.
    GitResetHard,
    /// By a commit that undoes it.
    GitRevertCommit,
    /// By leaving the workspace behind.
    WorktreeDrop,
}

/// Where the logs of a task are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRefs {
    /// Of which run.
    pub run_id: String,
    /// Below the run's directory.
    pub paths: LogPaths,
}

/// Where each log is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct LogPaths {
    /// What the agent's program told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_jsonl: Option<String>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_transcript: Option<String>,
    /// The difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_diff: Option<String>,
    /// What the tests printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_log: Option<String>,
    /// Ties it to tracing tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Who comes after a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct HandoffChain {
    /// Whether anybody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<AgentRole>>,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub max_handoffs: Option<u32>,
}

/// How a browser may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct BrowserPolicy {
    /// With which profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_mode: Option<ProfileMode>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_ref: Option<ProfileRef>,
    /// Where its cookies are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie_ref: Option<CookieRef>,
    /// How it shows itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stealth_mode: Option<StealthMode>,
    /// How it behaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_behavior: Option<HumanBehavior>,
}

/// With which profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileMode {
    /// A new one.
    Ephemeral,
    /// One that is there.
    AllowProfile,
    /// A new one with cookies.
    CookieFile,
}

/// Where a profile is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ProfileRef {
    /// In which directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_dir: Option<String>,
    /// Under which name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_name: Option<String>,
}

/// Where cookies are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct CookieRef {
    /// In which file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie_path: Option<String>,
}

/// How a browser shows itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StealthMode {
    /// As what it is.
    None,
    /// Less so.
    Lite,
    /// As something else.
    Plugin,
}

/// How a browser behaves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct HumanBehavior {
    /// Whether like a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How much so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Grade>,
}

/// What carries a task out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct RuntimeOptions {
    /// Which runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Which provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    pub provider: Option<String>,
    /// The way the agent is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// Whether tests that cannot fail are refused; they are, unless this says false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_acceptance: Option<bool>,
    /// What confines the agent and the tests, in place of what the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_backend: Option<Backend>,
}

/// Runners that documents name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Runner {
    /// An agents library.
    #[serde(rename = "agents")]
    Agents,
    /// A program with an interactive session.
    #[serde(rename = "app-server")]
    AppServer,
    /// The same in another spelling.
    #[serde(rename = "app_server")]
    AppServerSnake,
    /// The Codex command line.
    #[serde(rename = "codex")]
    Codex,
    /// The Claude command line.
    #[serde(rename = "claude")]
    Claude,
}

impl Runner {
    /// The word as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Runner::Agents => "agents",
            Runner::AppServer => "app-server",
            Runner::AppServerSnake => "app_server",
            Runner::Codex => "codex",
            Runner::Claude => "claude",
        }
    }
}

/// How a task is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Execution {
    /// Whether tools are asked first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_first: Option<bool>,
}

/// The role of the assigned agent as it was resolved. It decides nothing; it must agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleContract {
    /// The agent that has the role.
    pub identity: Identity,
    /// What for.
    #[schemars(length(min = 1))]
    pub purpose: String,
    /// Where its prompt is.
    pub system_prompt_ref: OrNull<String>,
    /// Where its skills are named.
    pub skills_bundle_ref: OrNull<String>,
    /// Where its tools are named.
    pub mcp_bundle_ref: OrNull<String>,
    /// Runner, provider and model.
    pub runtime_binding: RuntimeBinding,
    /// What it may do.
    pub tool_permissions: RolePermissions,
    /// The MCP servers that it needs.
    #[schemars(inner(length(min = 1)))]
    pub resolved_mcp_tool_set: Vec<String>,
    /// Who comes after it.
    pub handoff: Handoff,
    /// When nothing may continue.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub fail_closed_conditions: Vec<String>,
}

/// Who fills a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Which role.
    pub role: AgentRole,
    /// The name of the agent.
    #[schemars(length(min = 1))]
    pub agent_id: String,
}

/// Runner, provider and model, where they are known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeBinding {
    /// The runner.
    pub runner: OrNull<String>,
    /// The provider.
    pub provider: OrNull<String>,
    /// The model.
    pub model: OrNull<String>,
}

/// What a role may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolePermissions {
    /// Files.
    pub filesystem: Filesystem,
    /// Commands.
    pub shell: ShellRight,
    /// The network.
    pub network: NetworkRight,
}

/// Who comes after a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// Whether it may hand over.
    pub eligible: bool,
    /// Who must come.
    pub required_downstream_roles: Vec<AgentRole>,
    /// Who comes, in order.
    pub chain_roles: Vec<AgentRole>,
    /// How many at most.
    #[schemars(schema_with = "one_or_more_or_null")]
    pub max_handoffs: OrNull<u64>,
}

#[cfg(test)]
mod tests;
