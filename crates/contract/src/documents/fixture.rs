//! What the tests of compiling share: a contract that is good, and what it is held against.

use super::compile::Terms;
use super::task_contract::schema_artifact;
use super::{AgentRegistry, AgentRole};
use crate::json::Violation;
use crate::policy::McpAllowlist;
use crate::{AgentConfig, AgentType, RepoPath, hash};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The commit that every test starts from.
pub(super) const BASE: &str = "1111111111111111111111111111111111111111";

/// The one file of that commit, beside a schema of the repository's own.
pub(super) const NOTES: &[u8] = b"notes\n";

/// A schema of the repository's own.
pub(super) const OWN_SCHEMA: &[u8] = br#"{"type":"object","required":["done"]}"#;

/// A task contract that is good, with every part that may be left out.
pub(super) fn contract() -> Value {
    json!({
        "task_id": "task-0001",
        "task_type": "IMPLEMENT",
        "owner_agent": {"role": "PM", "agent_id": "agent-1"},
        "assigned_agent": {"role": "WORKER", "agent_id": "agent-1", "codex_thread_id": ""},
        "inputs": {"spec": "Say hello.", "artifacts": [
            serde_json::to_value(schema_artifact(AgentRole::Worker)).unwrap(),
            {"name": "notes", "uri": "/docs/notes.md", "sha256": hash::sha256(NOTES).to_string().to_uppercase()},
        ]},
        "required_outputs": [
            {"name": "patch.diff", "type": "patch", "acceptance": "It says hello."},
            {"name": "src/hello.rs", "type": "file", "acceptance": "It is there."},
        ],
        "allowed_paths": ["src/", "/docs/hello.md"],
        "forbidden_actions": ["git push"],
        "acceptance_tests": [{"name": "unit", "cmd": "cargo test -q 'a b'", "must_pass": true}],
        "tool_permissions": {
            "filesystem": "workspace-write", "shell": "never", "network": "deny", "mcp_tools": ["codex"],
        },
        "policy_pack": "low",
        "timeout_retry": {"timeout_sec": 900, "max_retries": 2, "retry_backoff_sec": 5},
        "rollback": {"strategy": "worktree_drop", "baseline_ref": "HEAD"},
        "evidence_links": [],
        "log_refs": {"run_id": "", "paths": {}},
        "handoff_chain": {"enabled": false, "roles": ["REVIEWER"], "max_handoffs": 1},
        "mcp_tool_set": ["codex"],
        "audit_only": false,
        "browser_policy": {"profile_mode": "ephemeral", "stealth_mode": "none"},
        "runtime_options": {"runner": "app-server", "provider": "open.ai_1-x", "strict_acceptance": true},
        "role_contract": {
            "identity": {"role": "WORKER", "agent_id": "agent-1"},
            "purpose": "Makes changes.",
            "system_prompt_ref": "docs/notes.md",
            "skills_bundle_ref": null,
            "mcp_bundle_ref": "schemas/own.json#/required",
            "runtime_binding": {"runner": "app-server", "provider": "open.ai_1-x", "model": null},
            "tool_permissions": {"filesystem": "workspace-write", "shell": "never", "network": "deny"},
            "resolved_mcp_tool_set": ["codex"],
            "handoff": {
                "eligible": true, "required_downstream_roles": [], "chain_roles": ["REVIEWER"], "max_handoffs": 1,
            },
            "fail_closed_conditions": ["Anything is unclear."],
        },
    })
}

/// A conversation with codex that is kept.
pub(super) const THREAD: &str = "0199-thread";

/// Calls `each` with the terms of a state directory that nobody has changed.
pub(super) fn with_terms<T>(each: impl FnOnce(&Terms<'_>) -> T) -> T {
    with_agents(|_| {}, each)
}

/// The same with other agents in its configuration.
pub(super) fn with_agents<T>(
    edit: impl FnOnce(&mut BTreeMap<String, AgentConfig>),
    each: impl FnOnce(&Terms<'_>) -> T,
) -> T {
    let registry = AgentRegistry::parse(AgentRegistry::BUILTIN.as_bytes()).unwrap();
    let mcp = McpAllowlist::parse(McpAllowlist::BUILTIN.as_bytes()).unwrap();
    let agent: AgentConfig = serde_json::from_value(json!({"type": "exec", "cmd": ["agent"]})).unwrap();
    let mut agents = BTreeMap::from([("worker".to_owned(), agent.clone()), ("agent-3".to_owned(), agent)]);
    edit(&mut agents);
    let state_dir = RepoPath::parse(".norma").unwrap();
    let file = |path: &RepoPath| match path.as_str() {
        "docs/notes.md" => Ok(NOTES.to_vec()),
        "schemas/own.json" => Ok(OWN_SCHEMA.to_vec()),
        other => Err(format!("there is no file {other:?} in the commit")),
    };
    let refusal = |argv: &[String]| (argv[0] == "sudo").then(|| "sudo may not be started".to_owned());
    let state_dir = Some(&state_dir);
    each(&Terms {
        registry: &registry,
        agents: &agents,
        sandbox: &crate::SandboxConfig::default(),
        mode: crate::Mode::Development,
        mcp: &mcp,
        present: &["here".to_owned()].into(),
        state_dir,
        base: BASE,
        is_directory: &|path| path.as_str() == "src",
        file: &file,
        refusal: &refusal,
        reviewers: &|_| None,
        has_thread: &|thread, kind| thread == THREAD && kind == AgentType::Codex,
    })
}

/// The violations as people see them.
pub(super) fn said(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}
