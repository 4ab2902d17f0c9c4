//! `agent_registry.v1`: who there is, in which role, with which rights at most. It is a policy: no contract gives an
//! agent more than the registry does.

use super::{AgentRole, OrNull, absent_is_not_null};
use crate::work::NetworkRight;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct AgentRegistry {
    /// Version of the form.
    pub version: RegistryVersion,
    /// Who there is.
    #[schemars(length(min = 1))]
    pub agents: Vec<RegisteredAgent>,
    /// What each role is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_contracts: Option<RoleContracts>,
}

/// The one version of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistryVersion {
    /// Version 1.
    V1,
}

/// An agent in one role; it may be there once for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct RegisteredAgent {
    /// Who.
    pub agent_id: String,
    /// In which role.
    pub role: AgentRole,
    /// Its own settings, or empty.
    pub codex_home: String,
    /// What it may do at most.
    pub defaults: Defaults,
    /// What it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// What an agent may do at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Files.
    pub sandbox: Platform,
    /// Commands.
    pub approval_policy: ApprovalPolicy,
    /// The network.
    pub network: NetworkRight,
}

/// What the platform can give. No contract can even ask for the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// Nothing may change.
    ReadOnly,
    /// What the contract names may change.
    WorkspaceWrite,
    /// Anything.
    DangerFullAccess,
}

/// Which commands need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Each.
    Untrusted,
    /// Those that ask for one.
    OnRequest,
    /// None that needs one is run.
    Never,
}

/// What an agent may call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Capabilities {
    /// Tools of MCP servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_tools: Option<Vec<String>>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// What each role is for, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleContracts(pub BTreeMap<String, RoleDefaults>);

impl JsonSchema for RoleContracts {
    fn schema_name() -> Cow<'static, str> {
        "RoleContracts".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::RoleContracts").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let role = generator.subschema_for::<RoleDefaults>();
        json_schema!({"type": "object", "patternProperties": {"^[A-Z_]+$": role}, "additionalProperties": false})
    }
}

/// What a role is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleDefaults {
    /// What for.
    #[schemars(length(min = 1))]
    pub purpose: String,
    /// Where its prompt is.
    pub system_prompt_ref: OrNull<String>,
    /// Where its skills are named.
    pub skills_bundle_ref: OrNull<String>,
    /// Where its tools are named.
    pub mcp_bundle_ref: OrNull<String>,
    /// Whether it may hand over.
    pub handoff_eligible: bool,
    /// Who must come after it.
    pub required_downstream_roles: Vec<AgentRole>,
    /// When nothing may go on.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub fail_closed_conditions: Vec<String>,
}
