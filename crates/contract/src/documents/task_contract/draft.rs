//! A new task contract from what a person says in a line: the rest is the least that does it.

use super::super::{AgentRef, AgentRegistry, AgentRole};
use super::{
    AcceptanceTest, Inputs, LogPaths, LogRefs, OutputKind, RequiredOutput, Rollback, RollbackStrategy, TaskContract,
    TaskType, TimeoutRetry, ToolPermissions, schema_artifact,
};
use crate::policy::McpAllowlist;
use crate::work::NetworkRight;

/// How long a turn may take unless somebody says otherwise.
const TIMEOUT_SEC: u64 = 900;

/// What a person says.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Unique.
    pub task_id: String,
    /// What to do.
    pub goal: String,
    /// What may change.
    pub allowed_paths: Vec<String>,
    /// What must succeed, one command each.
    pub tests: Vec<String>,
    /// Who is to do it, as a worker.
    pub agent_id: String,
}

impl Draft {
    /// The contract, or why there can be none.
    pub fn contract(self, registry: &AgentRegistry, mcp: &McpAllowlist) -> Result<TaskContract, String> {
        let role = AgentRole::Worker;
        let worker = registry.require(&self.agent_id, role)?;
        let server = mcp.allow.iter().find(|name| mcp.allows(name));
        let server = server.ok_or("policies/mcp_allowlist.json allows nothing, and a contract names a server")?;
        let owner = registry.agents.iter().find(|agent| agent.role == AgentRole::Pm);
        let owner = owner.map_or((&worker.agent_id, role), |owner| (&owner.agent_id, AgentRole::Pm));
        let agent = |agent_id: &str, role| AgentRef { role, agent_id: agent_id.to_owned(), codex_thread_id: None };
        let test = |(index, cmd)| AcceptanceTest { name: format!("test-{index}"), cmd, must_pass: true };
        Ok(TaskContract {
            task_id: self.task_id,
            task_type: Some(TaskType::Implement),
            parent_task_id: None,
            owner_agent: agent(owner.0, owner.1),
            assigned_agent: agent(&worker.agent_id, role),
            inputs: Inputs { spec: self.goal, artifacts: vec![schema_artifact(role)] },
            required_outputs: vec![RequiredOutput {
                name: "patch.diff".to_owned(),
                kind: OutputKind::Patch,
                acceptance: "The acceptance tests pass.".to_owned(),
            }],
            allowed_paths: self.allowed_paths,
            scope: None,
            forbidden_actions: Vec::new(),
            acceptance_tests: (1..).zip(self.tests).map(test).collect(),
            tests_policy: None,
            tool_permissions: ToolPermissions {
                filesystem: worker.defaults.filesystem(),
                shell: worker.defaults.shell(),
                network: NetworkRight::Deny,
                mcp_tools: Vec::new(),
            },
            policy_pack: None,
            timeout_retry: TimeoutRetry { timeout_sec: TIMEOUT_SEC, max_retries: 0, retry_backoff_sec: 0 },
            rollback: Rollback {
                strategy: RollbackStrategy::WorktreeDrop,
                baseline_ref: "HEAD".to_owned(),
                target_ref: None,
            },
            evidence_links: Vec::new(),
            log_refs: LogRefs { run_id: String::new(), paths: LogPaths::default() },
            handoff_chain: None,
            mcp_tool_set: vec![server.clone()],
            audit_only: None,
            browser_policy: None,
            runtime_options: None,
            role_contract: None,
        })
    }
}
