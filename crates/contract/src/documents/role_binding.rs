//! What a contract bound a role to, as a run's manifest tells it. It is for reading only: nothing is decided by it.

use super::OrNull;
use super::task_contract::{RoleContract, TaskContract};
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use crate::{AgentConfig, CONTRACT_FILE, Slug, Status};
use serde::{Deserialize, Serialize};

/// What the contract bound the role to. Nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBindingSummary {
    /// Always the same: derived from the contract.
    pub authority: ReadModel,
    /// From where.
    pub source: String,
    /// Always the same: the contract.
    pub execution_authority: ExecutionAuthority,
    /// Skills.
    pub skills_bundle_ref: SkillsBinding,
    /// Tools.
    pub mcp_bundle_ref: McpBinding,
    /// Runner, provider and model.
    pub runtime_binding: RuntimeSummary,
}

impl RoleBindingSummary {
    /// What a contract bound the role to that an agent of this name was configured for.
    pub fn new(given: &TaskContract, name: &str, worker: Option<&AgentConfig>) -> RoleBindingSummary {
        let view = given.role_contract.as_ref();
        let reference = |of: fn(&RoleContract) -> &OrNull<String>| view.map(of).cloned().unwrap_or_default();
        let mcp = reference(|view| &view.mcp_bundle_ref);
        RoleBindingSummary {
            authority: ReadModel::ContractDerivedReadModel,
            source: CONTRACT_FILE.to_owned(),
            execution_authority: ExecutionAuthority::TaskContract,
            // norma gives agents no skills, whatever the contract refers to.
            skills_bundle_ref: SkillsBinding {
                status: BundleStatus::Unresolved,
                reference: reference(|view| &view.skills_bundle_ref),
                bundle_id: OrNull(None),
                resolved_skill_set: Vec::new(),
                validation: Validation::FailClosed,
            },
            mcp_bundle_ref: McpBinding {
                status: if mcp.0.is_some() { BundleStatus::Resolved } else { BundleStatus::Unresolved },
                reference: mcp,
                resolved_mcp_tool_set: given.mcp_tool_set.clone(),
                validation: Validation::FailClosed,
            },
            runtime_binding: runtime(given, name, worker),
        }
    }
}

/// Runner, provider and model of the agent, each with where it is said.
fn runtime(given: &TaskContract, name: &str, worker: Option<&AgentConfig>) -> RuntimeSummary {
    let options = given.runtime_options.as_ref();
    let configured = |field: &str, value: Option<String>| value.map(|value| (value, format!("agents.{name}.{field}")));
    let asked = |field: &str, value: Option<String>| value.map(|value| (value, format!("runtime_options.{field}")));
    let runner = asked("runner", options.and_then(|it| it.runner).map(|runner| runner.as_str().to_owned()))
        .or_else(|| configured("type", worker.map(|worker| worker.kind.as_str().to_owned())));
    let provider = asked("provider", options.and_then(|it| it.provider.clone()));
    let model = configured("model", worker.and_then(|worker| worker.model.clone()));
    let known = [&runner, &provider, &model].into_iter().flatten().count();
    let source = |of: &Option<(String, String)>| of.as_ref().map_or("unresolved", |(_, source)| source).to_owned();
    let summary = |of: Option<(String, String)>| OrNull(of.map(|(value, _)| value));
    RuntimeSummary {
        status: match known {
            0 => RuntimeStatus::Unresolved,
            3 => RuntimeStatus::ContractDerived,
            _ => RuntimeStatus::PartiallyResolved,
        },
        authority_scope: ReadModel::ContractDerivedReadModel,
        source: RuntimeSource { runner: source(&runner), provider: source(&provider), model: source(&model) },
        summary: RuntimeNames { runner: summary(runner), provider: summary(provider), model: summary(model) },
        capability: None,
    }
}

/// A case of work as its latest run tells it: for reading, by a contract that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowCaseReadModel {
    /// Always the same: derived from the contract.
    pub authority: ReadModel,
    /// Always the same: nothing can be changed by it.
    pub access: ReadOnly,
    /// Always the same: the contract.
    pub execution_authority: ExecutionAuthority,
    /// The first run of the case.
    pub workflow_id: Slug,
    /// The run that it is told from.
    pub run_id: Slug,
    /// Where that run is.
    pub status: Status,
    /// What its contract bound the role to.
    pub role_binding_summary: RoleBindingSummary,
}

/// The one access that a read model gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOnly {
    /// For reading.
    ReadOnly,
}

/// The role of a contract before it is started, as a preview shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleContractSummary {
    /// Always the same: derived from the contract.
    pub authority: ReadModel,
    /// Always the same: the contract.
    pub execution_authority: ExecutionAuthority,
    /// The role as it was resolved.
    pub role_contract: RoleContract,
}

impl From<RoleContract> for RoleContractSummary {
    fn from(role_contract: RoleContract) -> RoleContractSummary {
        let authority = ReadModel::ContractDerivedReadModel;
        RoleContractSummary { authority, execution_authority: ExecutionAuthority::TaskContract, role_contract }
    }
}

/// The one authority of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadModel {
    /// Derived from the contract.
    ContractDerivedReadModel,
}

/// The one authority over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionAuthority {
    /// The contract.
    TaskContract,
}

/// The skills of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillsBinding {
    /// Whether they were found.
    pub status: BundleStatus,
    /// Where they are named.
    #[serde(rename = "ref")]
    pub reference: OrNull<String>,
    /// As which bundle.
    pub bundle_id: OrNull<String>,
    /// What they are.
    pub resolved_skill_set: Vec<String>,
    /// How strictly.
    pub validation: Validation,
}

/// The tools of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpBinding {
    /// Whether they were found.
    pub status: BundleStatus,
    /// Where they are named.
    #[serde(rename = "ref")]
    pub reference: OrNull<String>,
    /// What they are.
    pub resolved_mcp_tool_set: Vec<String>,
    /// How strictly.
    pub validation: Validation,
}

/// Whether a bundle was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BundleStatus {
    /// No.
    Unresolved,
    /// Yes.
    Resolved,
    /// Yes, in the registry.
    RegistryBacked,
}

/// How strictly a bundle is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Validation {
    /// What is not right is refused.
    FailClosed,
}

/// Runner, provider and model of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct RuntimeSummary {
    /// Whether they are known.
    pub status: RuntimeStatus,
    /// Always the same: derived from the contract.
    pub authority_scope: ReadModel,
    /// From where.
    pub source: RuntimeSource,
    /// What they are.
    pub summary: RuntimeNames,
    /// What that can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
}

/// Whether runner, provider and model are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeStatus {
    /// None is.
    Unresolved,
    /// Some are.
    PartiallyResolved,
    /// All are, from the contract.
    ContractDerived,
}

/// Where each is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSource {
    /// The runner.
    pub runner: String,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// What each is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeNames {
    /// The runner.
    pub runner: OrNull<String>,
    /// The provider.
    pub provider: OrNull<String>,
    /// The model.
    pub model: OrNull<String>,
}

/// What a provider can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    /// Always the same.
    pub status: CapabilityStatus,
    /// By which way.
    pub lane: Lane,
    /// In which dialect.
    pub compat_api_mode: String,
    /// Whether it is known.
    pub provider_status: ProviderStatus,
    /// As what.
    pub provider_inventory_id: OrNull<String>,
    /// Whether it can call tools.
    pub tool_execution: ToolExecution,
    /// Anything else.
    pub notes: Vec<String>,
}

/// The one state of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapabilityStatus {
    /// It can be looked at.
    Previewable,
}

/// By which way a provider is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// The usual one.
    StandardProviderPath,
    /// One for chats.
    SwitchyardChatCompatible,
}

/// Whether a provider is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderStatus {
    /// Nobody said which.
    Unresolved,
    /// It is.
    Allowlisted,
    /// It is not.
    Unsupported,
}

/// Whether tools can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolExecution {
    /// By the usual way only.
    ProviderPathRequired,
    /// No.
    FailClosed,
}
