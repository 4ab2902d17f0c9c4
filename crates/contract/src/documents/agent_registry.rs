//! `agent_registry.v1`: who there is, in which role, with which rights at most. It is a policy: no contract gives an
//! agent more than the registry does.

use super::task_result::ProducerRole;
use super::{AgentRole, Filesystem, OrNull};
use crate::json::Violation;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use crate::work::{NetworkRight, ShellRight};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

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

impl AgentRegistry {
    /// Name of the file in `policies/`.
    pub const FILE: &'static str = "agent_registry.json";

    /// What counts where there is no such file, and what a new state directory starts with.
    pub const BUILTIN: &'static str = include_str!("../policy/agent_registry.json");

    /// The same, read. A batch asks for it once for each of its items.
    pub fn builtin() -> &'static AgentRegistry {
        static BUILTIN: LazyLock<AgentRegistry> = LazyLock::new(|| {
            AgentRegistry::parse(AgentRegistry::BUILTIN.as_bytes()).expect("BUG: the registry that norma brings is one")
        });
        &BUILTIN
    }

    /// Reads the document; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<AgentRegistry, Vec<Violation>> {
        let registry: AgentRegistry = super::read(bytes)?;
        let mut seen = BTreeSet::new();
        let again = registry.agents.iter().zip(0..).filter(|(agent, _)| !seen.insert((&agent.agent_id, agent.role)));
        let problem = |(agent, at): (&RegisteredAgent, usize)| Violation {
            pointer: format!("/agents/{at}"),
            message: format!("{:?} is registered as {} already", agent.agent_id, agent.role),
        };
        let problems: Vec<Violation> = again.map(problem).collect();
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    /// The agent in this very role.
    pub fn find(&self, agent_id: &str, role: AgentRole) -> Option<&RegisteredAgent> {
        self.agents.iter().find(|agent| agent.agent_id == agent_id && agent.role == role)
    }

    /// The same, or that there is none, with the one that was probably meant.
    pub fn require(&self, agent_id: &str, role: AgentRole) -> Result<&RegisteredAgent, String> {
        let others = || self.agents.iter().filter(|agent| agent.role == role).map(|agent| agent.agent_id.as_str());
        self.find(agent_id, role).ok_or_else(|| {
            let meant = crate::nearest(agent_id, others()).map(|meant| format!("; did you mean {meant:?}?"));
            let meant = meant.unwrap_or_else(|| "; see policies/agent_registry.json".to_owned());
            format!("{agent_id:?} is not registered as {role}{meant}")
        })
    }
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
    /// The name that contracts use for the agent.
    pub agent_id: String,
    /// In which role; `ORCHESTRATOR` is norma itself, which no contract is assigned to.
    pub role: ProducerRole,
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

impl Defaults {
    /// The widest that a contract may give of files.
    pub fn filesystem(&self) -> Filesystem {
        match self.sandbox {
            Platform::ReadOnly => Filesystem::ReadOnly,
            Platform::WorkspaceWrite | Platform::DangerFullAccess => Filesystem::WorkspaceWrite,
        }
    }

    /// The widest that a contract may give of commands.
    pub fn shell(&self) -> ShellRight {
        match self.approval_policy {
            ApprovalPolicy::Never => ShellRight::Never,
            ApprovalPolicy::Untrusted => ShellRight::Untrusted,
            ApprovalPolicy::OnRequest => ShellRight::OnRequest,
        }
    }
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
    /// When nothing may continue.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub fail_closed_conditions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in() -> AgentRegistry {
        AgentRegistry::parse(AgentRegistry::BUILTIN.as_bytes()).unwrap()
    }

    #[test]
    fn the_default_gives_each_role_no_more_than_it_needs() {
        let registry = built_in();
        let rights = |role| {
            let defaults = &registry.find("agent-1", role).unwrap().defaults;
            (defaults.filesystem(), defaults.shell(), defaults.network)
        };
        for role in [AgentRole::Pm, AgentRole::TechLead, AgentRole::Reviewer] {
            assert_eq!(rights(role), (Filesystem::ReadOnly, ShellRight::Never, NetworkRight::Deny), "{role}");
        }
        for role in [AgentRole::Worker, AgentRole::TestRunner, AgentRole::Security] {
            assert_eq!(rights(role), (Filesystem::WorkspaceWrite, ShellRight::Never, NetworkRight::Deny), "{role}");
        }
        for role in [AgentRole::Searcher, AgentRole::Researcher] {
            assert_eq!(rights(role), (Filesystem::WorkspaceWrite, ShellRight::Never, NetworkRight::Allow), "{role}");
        }
        let norma = registry.agents.iter().find(|agent| agent.role.as_str() == "ORCHESTRATOR").unwrap();
        let rights = (norma.defaults.filesystem(), norma.defaults.shell(), norma.defaults.network);
        assert_eq!(rights, (Filesystem::WorkspaceWrite, ShellRight::Never, NetworkRight::Deny));
        for name in (0..10).map(|number| format!("agent-{number}")).chain(["worker".to_owned()]) {
            assert!(registry.find(&name, AgentRole::Worker).is_some(), "{name}");
        }
        assert!(registry.find("agent-2", AgentRole::Reviewer).is_none());
        assert_eq!(registry.role_contracts.unwrap().0.len(), 15);
    }

    #[test]
    fn a_pair_stands_once_and_a_role_has_a_name() {
        let mut registry = serde_json::to_value(built_in()).unwrap();
        registry["agents"][3] = registry["agents"][0].clone();
        let said = |registry: &serde_json::Value| {
            let problems = AgentRegistry::parse(registry.to_string().as_bytes()).unwrap_err();
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(said(&registry), [r#"/agents/3: "agent-0" is registered as WORKER already"#]);
        registry["role_contracts"]["worker"] = registry["role_contracts"]["WORKER"].clone();
        assert!(said(&registry)[0].starts_with("/role_contracts: Additional properties are not allowed"));
    }
}
