//! The resolved role of a task contract is for reading. It decides nothing: norma derives it from what does, and where a
//! contract brings one that says something else than the contract around it, somebody has been told the wrong thing. That
//! is refused.

use super::super::compile::{Problems, Terms};
use super::super::{AgentRegistry, AgentRole, Filesystem, OrNull};
use super::{Handoff, Identity, RoleContract, RolePermissions, Runner, RuntimeBinding, TaskContract};
use crate::{AgentConfig, Item, RepoPath};
use serde_json::Value;

/// Holds the resolved role to the rest of the contract.
pub(super) fn check(contract: &TaskContract, terms: &Terms<'_>, problems: &mut Problems<'_>) {
    let Some(view) = &contract.role_contract else { return };
    for (pointer, said, _) in drifts(contract, view).into_iter().filter(|(_, _, agrees)| !agrees) {
        problems.add(&format!("/role_contract{pointer}"), format!("does not say what {said} says"));
    }
    for (name, reference, fragments) in [
        ("system_prompt_ref", &view.system_prompt_ref, false),
        ("skills_bundle_ref", &view.skills_bundle_ref, true),
        ("mcp_bundle_ref", &view.mcp_bundle_ref, true),
    ] {
        if let Some(reference) = &reference.0 {
            problems.take(&format!("/role_contract/{name}"), resolves(reference, fragments, terms));
        }
    }
}

/// The role that a contract gives its agent: as the contract brings it, which was checked, or else as contract, registry
/// and configuration say it. None where the registry does not say what the role is for.
pub fn resolve(contract: &TaskContract, terms: &Terms<'_>) -> Option<RoleContract> {
    if let Some(view) = &contract.role_contract {
        return Some(view.clone());
    }
    let (assigned, rights) = (&contract.assigned_agent, &contract.tool_permissions);
    let role = terms.registry.role_contracts.as_ref()?.0.get(assigned.role.as_str())?;
    let options = contract.runtime_options.as_ref();
    let worker = terms.worker(&assigned.agent_id, assigned.role).ok();
    let chain = contract.handoff_chain.as_ref();
    Some(RoleContract {
        identity: Identity { role: assigned.role, agent_id: assigned.agent_id.clone() },
        purpose: role.purpose.clone(),
        system_prompt_ref: role.system_prompt_ref.clone(),
        skills_bundle_ref: role.skills_bundle_ref.clone(),
        mcp_bundle_ref: role.mcp_bundle_ref.clone(),
        runtime_binding: RuntimeBinding {
            runner: OrNull(options.and_then(|options| options.runner).map(|runner| runner.as_str().to_owned())),
            provider: OrNull(options.and_then(|options| options.provider.clone())),
            model: OrNull(worker.and_then(|worker| terms.agents.get(&worker)?.model.clone())),
        },
        tool_permissions: RolePermissions {
            filesystem: rights.filesystem,
            shell: rights.shell,
            network: rights.network,
        },
        resolved_mcp_tool_set: contract.mcp_tool_set.clone(),
        handoff: Handoff {
            eligible: role.handoff_eligible,
            required_downstream_roles: role.required_downstream_roles.clone(),
            chain_roles: chain.and_then(|chain| chain.roles.clone()).unwrap_or_default(),
            max_handoffs: OrNull(chain.and_then(|chain| chain.max_handoffs).map(u64::from)),
        },
        fail_closed_conditions: role.fail_closed_conditions.clone(),
    })
}

/// The role of an item that is no task contract's: what is known of it without one. None where the registry does not say what
/// the role is for.
pub fn resolve_item(item: &Item, registry: &AgentRegistry, worker: Option<&AgentConfig>) -> Option<RoleContract> {
    let role: AgentRole = serde_json::from_value(item.role.clone().into()).ok()?;
    let known = registry.role_contracts.as_ref()?.0.get(role.as_str())?.clone();
    let filesystem = if item.read_only { Filesystem::ReadOnly } else { Filesystem::WorkspaceWrite };
    Some(RoleContract {
        identity: Identity { role, agent_id: item.agent_id.clone() },
        purpose: known.purpose,
        system_prompt_ref: known.system_prompt_ref,
        skills_bundle_ref: known.skills_bundle_ref,
        mcp_bundle_ref: known.mcp_bundle_ref,
        runtime_binding: RuntimeBinding {
            runner: OrNull(worker.map(|worker| worker.kind.as_str().to_owned())),
            provider: OrNull(None),
            model: OrNull(worker.and_then(|worker| worker.model.clone())),
        },
        tool_permissions: RolePermissions { filesystem, shell: item.rights.shell, network: item.rights.network },
        resolved_mcp_tool_set: item.rights.mcp_tools.clone(),
        handoff: Handoff {
            eligible: known.handoff_eligible,
            required_downstream_roles: known.required_downstream_roles,
            chain_roles: Vec::new(),
            max_handoffs: OrNull(None),
        },
        fail_closed_conditions: known.fail_closed_conditions,
    })
}

/// Each place of the view, the place that decides, and whether they agree.
fn drifts(contract: &TaskContract, view: &RoleContract) -> Vec<(&'static str, &'static str, bool)> {
    let (assigned, rights) = (&contract.assigned_agent, &contract.tool_permissions);
    let options = contract.runtime_options.as_ref();
    let runner = options.and_then(|options| options.runner).map(Runner::as_str);
    let provider = options.and_then(|options| options.provider.as_deref());
    let chain = contract.handoff_chain.as_ref();
    let roles = chain.and_then(|chain| chain.roles.as_deref()).unwrap_or_default();
    let handoffs = chain.and_then(|chain| chain.max_handoffs).map(u64::from);
    let binding = &view.runtime_binding;
    vec![
        ("/identity/role", "/assigned_agent/role", view.identity.role == assigned.role),
        ("/identity/agent_id", "/assigned_agent/agent_id", view.identity.agent_id == assigned.agent_id),
        (
            "/tool_permissions/filesystem",
            "/tool_permissions/filesystem",
            view.tool_permissions.filesystem == rights.filesystem,
        ),
        ("/tool_permissions/shell", "/tool_permissions/shell", view.tool_permissions.shell == rights.shell),
        ("/tool_permissions/network", "/tool_permissions/network", view.tool_permissions.network == rights.network),
        ("/resolved_mcp_tool_set", "/mcp_tool_set", view.resolved_mcp_tool_set == contract.mcp_tool_set),
        ("/runtime_binding/runner", "/runtime_options/runner", binding.runner.0.as_deref() == runner),
        ("/runtime_binding/provider", "/runtime_options/provider", binding.provider.0.as_deref() == provider),
        ("/handoff/chain_roles", "/handoff_chain/roles", view.handoff.chain_roles == roles),
        ("/handoff/max_handoffs", "/handoff_chain/max_handoffs", view.handoff.max_handoffs.0 == handoffs),
    ]
}

/// A reference names a file of the commit; after `#`, a JSON pointer to a list in it that is not empty.
fn resolves(reference: &str, fragments: bool, terms: &Terms<'_>) -> Result<(), String> {
    let (file, fragment) = match reference.split_once('#') {
        Some((file, fragment)) => (file, Some(fragment)),
        None => (reference, None),
    };
    let path = RepoPath::parse(file).map_err(|problem| problem.to_string())?;
    let bytes = terms.bytes(&path)?;
    let Some(pointer) = fragment else { return Ok(()) };
    if !fragments {
        return Err("a part of a file cannot be referred to here".to_owned());
    }
    let document = crate::json::parse(&bytes, &crate::Limits::DOCUMENT).map_err(|found| found[0].to_string())?;
    match document.pointer(pointer).and_then(Value::as_array) {
        Some(list) if !list.is_empty() => Ok(()),
        _ => Err(format!("there is no list at {pointer:?} of that file")),
    }
}
