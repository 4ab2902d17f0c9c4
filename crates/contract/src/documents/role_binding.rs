//! What a contract bound a role to, as a run's manifest tells it. It is for reading only: nothing is decided by it.

use super::OrNull;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
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
