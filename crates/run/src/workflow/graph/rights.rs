//! What a node may do: its capabilities under the mode of its run, as rights of a turn and as the terms of its changes. They
//! are held by the sandbox and the gates; its prompt only says the same in words.

use crate::workflow::graph::NodeState;
use contract::view::graph::{Capabilities, GlobalMode, Permissions, PermissionsMode};
use contract::work::{NetworkRight, Rights, ShellRight, TestsPolicy};
use contract::{AgentType, Contract, Item, NodeTerms, RepoPath, Scope};

/// Where a node may write: nowhere, or below these paths; below none of them means anywhere.
pub fn write_within(terms: &NodeTerms, mode: GlobalMode, contract: &Contract) -> Option<Vec<RepoPath>> {
    let Capabilities { write_code, write_docs, delegate_only, .. } = terms.capabilities;
    let of_run = &contract.scope.allowed_paths;
    if delegate_only {
        return None;
    }
    if write_code && mode == GlobalMode::Implementation {
        return within(of_run, &terms.scope);
    }
    let docs = contract.graph.as_ref().map(|graph| graph.docs_root.clone()).filter(|_| write_docs)?;
    within(&within(of_run, &[docs])?, &terms.scope)
}

/// The only places that the kernel lets a node write to: none of them for one that changes nothing, documents for one that
/// changes no code. Who changes code writes to all of its workspace, and the gates judge what came of it.
pub fn write_roots(terms: &NodeTerms, mode: GlobalMode, contract: &Contract) -> Option<Vec<RepoPath>> {
    let Capabilities { write_code, delegate_only, .. } = terms.capabilities;
    let is_free = write_code && !delegate_only && mode == GlobalMode::Implementation;
    let within = write_within(terms, mode, contract);
    if is_free && within.is_some() { None } else { Some(within.unwrap_or_default()) }
}

/// What a node may not change of what it may write to: documents, where it changes code only.
fn denied(terms: &NodeTerms, contract: &Contract) -> Vec<RepoPath> {
    let only_code = terms.capabilities.write_code && !terms.capabilities.write_docs;
    contract.graph.iter().filter(|_| only_code).map(|graph| graph.docs_root.clone()).collect()
}

/// Whether a node may write anywhere, for whoever has no contract at hand but where documents are.
pub(super) fn may_write(terms: &NodeTerms, mode: GlobalMode, docs_root: Option<&RepoPath>) -> bool {
    let Capabilities { write_code, write_docs, delegate_only, .. } = terms.capabilities;
    !delegate_only && (write_code && mode == GlobalMode::Implementation || write_docs && docs_root.is_some())
}

/// What lies within both; none if nothing does. An empty list is everything.
fn within(outer: &[RepoPath], inner: &[RepoPath]) -> Option<Vec<RepoPath>> {
    if outer.is_empty() || inner.is_empty() {
        return Some(if outer.is_empty() { inner } else { outer }.to_vec());
    }
    let narrower = |one: &RepoPath, other: &RepoPath| match (holds(one, other), holds(other, one)) {
        (true, _) => Some(other.clone()),
        (_, true) => Some(one.clone()),
        _ => None,
    };
    let both: Vec<RepoPath> =
        outer.iter().flat_map(|one| inner.iter().filter_map(move |other| narrower(one, other))).collect();
    (!both.is_empty()).then_some(both)
}

/// Whether a path is another one or lies below it.
fn holds(outer: &RepoPath, inner: &RepoPath) -> bool {
    let rest = inner.as_str().strip_prefix(outer.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether two nodes say that they change some of the same; those that say nothing meet when their changes are merged.
pub fn overlap(one: &NodeTerms, other: &NodeTerms) -> bool {
    one.scope.iter().any(|path| other.scope.iter().any(|it| holds(path, it) || holds(it, path)))
}

/// Which commands a node may have run.
pub fn shell(terms: &NodeTerms) -> ShellRight {
    let Capabilities { run_commands, delegate_only, .. } = terms.capabilities;
    match (run_commands && !delegate_only, terms.permissions.cli_permissions_mode) {
        (false, _) => ShellRight::Deny,
        (true, PermissionsMode::Skip) => ShellRight::Never,
        (true, PermissionsMode::Gated) => ShellRight::OnRequest,
    }
}

/// What a node is asked about, where the strictest of all that have a say wins.
pub fn effective(terms: &NodeTerms, kind: Option<AgentType>) -> Permissions {
    Permissions {
        cli_permissions_mode: permissions_mode(shell(terms), kind),
        spawn_requires_approval: spawn_requires_approval(terms),
    }
}

/// Whether a person approves before a node makes another: always, unless it leads its graph and its permissions say otherwise.
pub fn spawn_requires_approval(terms: &NodeTerms) -> bool {
    terms.permissions.spawn_requires_approval || !terms.role_template.is_orchestrator()
}

/// What is in force: under `never` a program that cannot ask asks nobody. An agent that can asks norma, whatever its contract
/// says of commands, and norma a person about tools that no rule knows.
pub(crate) fn permissions_mode(shell: ShellRight, kind: Option<AgentType>) -> PermissionsMode {
    match (shell, kind) {
        (ShellRight::Never, None | Some(AgentType::Exec)) => PermissionsMode::Skip,
        _ => PermissionsMode::Gated,
    }
}

/// The terms of a node's turns and changes. `number` tells its changes apart.
pub fn item(contract: &Contract, node: &NodeState, mode: GlobalMode, number: usize) -> Item {
    let terms = &node.terms;
    let allowed = write_within(terms, mode, contract);
    let graph = contract.graph.as_ref();
    let goal = if contract.goal.is_empty() { terms.label.clone() } else { contract.goal.clone() };
    let (id, timeout_ms) = (format!("{}-{number}", slug(&terms.label)), u64::from(contract.limits.step_seconds) * 1000);
    Item {
        agent_id: terms.id.clone(),
        role: terms.role_template.as_str().to_ascii_uppercase(),
        read_only: allowed.is_none(),
        scope: Scope {
            allowed_paths: allowed.unwrap_or_default(),
            denied_paths: denied(terms, contract),
            ..contract.scope.clone()
        },
        rights: Rights { shell: shell(terms), network: NetworkRight::Deny, mcp_tools: Vec::new() },
        tests: graph.map(|graph| graph.tests.clone()).unwrap_or_default(),
        tests_policy: TestsPolicy::Guarded,
        ..Item::of_run(id, terms.worker.clone(), goal, timeout_ms, contract.digest())
    }
}

/// A label as part of a directory's name.
fn slug(label: &str) -> String {
    const CHARS_MAX: usize = 40;
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = label.chars().map(word).take(CHARS_MAX).collect();
    let text = text.trim_matches('-');
    if text.is_empty() { "node".to_owned() } else { text.to_owned() }
}
