//! From a task contract to the one item of its run.

use super::super::compile::{Problems, Terms, id, not_trivial, test_words};
use super::super::{AgentRef, AgentRole, Filesystem, Grade, agent_registry::RegisteredAgent};
use super::{OutputKind, ProfileMode, RollbackStrategy, RuntimeOptions, StealthMode, TaskContract, bound, role_view};
use crate::json::{Report, Violation};
use crate::policy::forbidden_word;
use crate::work::{Constraints, Item, NetworkRight, Rights, ShellRight, TestCommand, TestsPolicy};
use crate::{RepoPath, ReviewTerms, Scope, hash};

/// Reads a task contract strictly.
pub fn read(bytes: &[u8]) -> Result<TaskContract, Vec<Violation>> {
    super::super::read(bytes)
}

/// Compiles a task contract, or says everything that is wrong with it.
pub fn compile(contract: &TaskContract, submitted: &[u8], terms: &Terms<'_>) -> Result<Item, Vec<Violation>> {
    let mut report = Report::default();
    let mut problems = Problems::new(&mut report, String::new());
    let item = compile_one(contract, submitted, terms, &mut problems);
    report.into_result().map(|()| item)
}

fn compile_one(contract: &TaskContract, submitted: &[u8], terms: &Terms<'_>, problems: &mut Problems<'_>) -> Item {
    let assigned = &contract.assigned_agent;
    problems.not_blank("/inputs/spec", &contract.inputs.spec);
    registered("/owner_agent", &contract.owner_agent, terms, problems);
    if let Some(agent) = registered("/assigned_agent", assigned, terms, problems) {
        permissions(contract, agent, terms, problems);
    }
    tool_set(contract, terms, problems);
    rollback(contract, terms, problems);
    pack(contract, problems);
    browser(contract, problems);
    role_view::check(contract, terms, problems);
    let read_only = contract.tool_permissions.filesystem == Filesystem::ReadOnly;
    let (artifacts, output_schema) = bound::inputs(contract, terms, problems);
    let retry = &contract.timeout_retry;
    let worker =
        problems.take("/assigned_agent/agent_id", terms.worker(&assigned.agent_id, assigned.role)).unwrap_or_default();
    let item = Item {
        id: problems.take("/task_id", id(&contract.task_id)).unwrap_or_default(),
        agent_id: assigned.agent_id.clone(),
        role: assigned.role.to_string(),
        review: handed_on(contract, &worker, terms, problems),
        worker,
        goal: contract.inputs.spec.clone(),
        needs: Vec::new(),
        scope: Scope {
            allowed_paths: problems.paths("/allowed_paths", &contract.allowed_paths, terms),
            allow_binary: contract.scope.as_ref().is_some_and(|scope| scope.allow_binary),
            ..Scope::default()
        },
        read_only,
        rights: Rights {
            shell: contract.tool_permissions.shell,
            network: contract.tool_permissions.network,
            mcp_tools: contract.tool_permissions.mcp_tools.clone(),
        },
        input_files: Vec::new(),
        output_files: outputs(contract, read_only, terms, problems),
        artifacts,
        tests: tests(contract, terms, problems),
        tests_policy: contract.tests_policy.unwrap_or(TestsPolicy::Guarded),
        constraints: Constraints::default(),
        timeout_ms: problems.wait("/timeout_retry/timeout_sec", retry.timeout_sec.checked_mul(1000)),
        retries: retry.max_retries,
        retry_backoff_ms: problems.wait("/timeout_retry/retry_backoff_sec", retry.retry_backoff_sec.checked_mul(1000)),
        output_schema,
        forbidden_actions: forbidden_actions(contract, problems),
        audit_only: contract.audit_only.unwrap_or_default() || !asks_for_patch(contract),
        thread: thread(assigned, terms, problems),
        sandbox_backend: problems.backend(
            "/runtime_options",
            "/assigned_agent/agent_id",
            contract.runtime_options.as_ref().and_then(|options| options.sandbox_backend),
            (&assigned.agent_id, assigned.role),
            terms,
        ),
        submitted: hash::sha256(submitted),
    };
    problems.size(&item);
    item
}

/// Who comes after the worker: a reviewer, where the chain names one, and the tests, which norma runs. What a chain can say and
/// nobody here does is refused, rather than left undone in silence.
fn handed_on(
    contract: &TaskContract,
    worker: &str,
    terms: &Terms<'_>,
    problems: &mut Problems<'_>,
) -> Option<ReviewTerms> {
    let own = [contract.owner_agent.role, contract.assigned_agent.role];
    let chain = contract.handoff_chain.iter().filter(|chain| chain.enabled != Some(false));
    let roles: Vec<AgentRole> = chain.clone().flat_map(|chain| chain.roles.iter().flatten()).copied().collect();
    let mut review = None;
    for (index, role) in roles.iter().enumerate() {
        let pointer = format!("/handoff_chain/roles/{index}");
        let stage = |role: &AgentRole| match role {
            AgentRole::Pm => 0,
            AgentRole::TechLead => 1,
            AgentRole::Reviewer => 3,
            AgentRole::TestRunner => 4,
            _ => 2,
        };
        if index > 0 && stage(role) <= stage(&roles[index - 1]) {
            problems.add(
                &pointer,
                format!(
                    "{role} cannot come after {}: PM, TECH_LEAD, a worker, REVIEWER, TEST_RUNNER",
                    roles[index - 1]
                ),
            );
        }
        match role {
            AgentRole::TestRunner => {}
            AgentRole::Reviewer => match (terms.reviewers)(worker) {
                Some(reviewers) => review = Some(reviewers),
                None => {
                    problems.add(&pointer, "no reviewer is configured; add \"reviewer\" to \"agents\" in config.json")
                }
            },
            role if own.contains(role) => {}
            AgentRole::Pm | AgentRole::TechLead => {
                let message =
                    format!("{role} comes before this contract: have it carried out by norma pipeline --contract FILE");
                problems.add(&pointer, message);
            }
            role => {
                let message = format!(
                    "no agent takes over as {role}: norma runs only the assigned agent; leave the role out, or set \
                     handoff_chain.enabled to false"
                );
                problems.add(&pointer, message);
            }
        }
    }
    let most = chain.filter_map(|chain| chain.max_handoffs).next();
    if let Some(most) = most.filter(|most| roles.len() > *most as usize) {
        problems.add("/handoff_chain/max_handoffs", format!("is {most}, and {} roles are named", roles.len()));
    }
    review
}

/// What is at stake bounds what may be asked for: with `medium`, nothing is reached unasked and no command runs without an
/// approval; with `high`, nothing is reached, no command needs an approval, and the change's own tests alone never count.
fn pack(contract: &TaskContract, problems: &mut Problems<'_>) {
    let Some(pack) = contract.policy_pack else { return };
    let (shell, network, word) = match pack {
        Grade::Low => return,
        Grade::Medium => (ShellRight::Untrusted, NetworkRight::OnRequest, "medium"),
        Grade::High => (ShellRight::Never, NetworkRight::Deny, "high"),
    };
    let asked = &contract.tool_permissions;
    let mut refuse = |pointer: &str| problems.add(pointer, format!("is more than policy_pack {word:?} allows"));
    if asked.shell > shell {
        refuse("/tool_permissions/shell");
    }
    if asked.network > network {
        refuse("/tool_permissions/network");
    }
    if pack == Grade::High && contract.tests_policy == Some(TestsPolicy::Candidate) {
        refuse("/tests_policy");
    }
}

/// An agent has a home of its own that is gone after the turn, so that a browser in it has a new profile and shows itself as
/// what it is. Nothing else can be asked for.
fn browser(contract: &TaskContract, problems: &mut Problems<'_>) {
    let Some(browser) = &contract.browser_policy else { return };
    let other = |field: &str, asked: bool| asked.then(|| format!("/browser_policy/{field}"));
    let found = [
        other("profile_mode", browser.profile_mode.is_some_and(|mode| mode != ProfileMode::Ephemeral)),
        other("profile_ref", browser.profile_ref.is_some()),
        other("cookie_ref", browser.cookie_ref.is_some()),
        other("stealth_mode", browser.stealth_mode.is_some_and(|mode| mode != StealthMode::None)),
        other("human_behavior", browser.human_behavior.as_ref().is_some_and(|it| it.enabled == Some(true))),
    ];
    for pointer in found.into_iter().flatten() {
        let message = "norma gives agents no browser but what runs in their own sandbox, with a new profile each turn; leave it \
                       out, or say profile_mode \"ephemeral\" and stealth_mode \"none\"";
        problems.add(&pointer, message.to_owned());
    }
}

/// The conversation that the assigned agent continues; an empty name is none.
fn thread(assigned: &AgentRef, terms: &Terms<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let thread = assigned.codex_thread_id.as_deref().filter(|thread| !thread.is_empty())?;
    if let Some(why) = terms.not_continued(thread, &assigned.agent_id, assigned.role) {
        problems.add("/assigned_agent/codex_thread_id", why);
    }
    Some(thread.to_owned())
}

/// The agent in this very role, as the registry has it.
fn registered<'a>(
    pointer: &str,
    agent: &AgentRef,
    terms: &Terms<'a>,
    problems: &mut Problems<'_>,
) -> Option<&'a RegisteredAgent> {
    problems.take(pointer, terms.registry.require(&agent.agent_id, agent.role))
}

/// No contract gives an agent more than the registry does; whoever asks for more is told, not cut down.
fn permissions(contract: &TaskContract, agent: &RegisteredAgent, terms: &Terms<'_>, problems: &mut Problems<'_>) {
    let (asked, most) = (&contract.tool_permissions, &agent.defaults);
    let wider = [
        ("filesystem", asked.filesystem > most.filesystem()),
        ("shell", asked.shell > most.shell()),
        ("network", asked.network > most.network),
    ];
    for (right, _) in wider.into_iter().filter(|(_, wider)| *wider) {
        let message = format!("is more than the registry gives {:?} as {}", agent.agent_id, agent.role);
        problems.add(&format!("/tool_permissions/{right}"), message);
    }
    let own =
        agent.capabilities.as_ref().and_then(|capabilities| capabilities.mcp_tools.as_deref()).unwrap_or_default();
    problems.each("/tool_permissions/mcp_tools", &asked.mcp_tools, |tool| match own.contains(tool) {
        _ if !terms.mcp.allows(tool) => Err(format!("{tool:?} is not in policies/mcp_allowlist.json")),
        false => Err(format!("the registry gives {:?} as {} no tool {tool:?}", agent.agent_id, agent.role)),
        true => Ok(()),
    });
}

fn tool_set(contract: &TaskContract, terms: &Terms<'_>, problems: &mut Problems<'_>) {
    problems.each("/mcp_tool_set", &contract.mcp_tool_set, |server| match terms.mcp.allows(server) {
        true => Ok(()),
        false => Err(format!("{server:?} is not in policies/mcp_allowlist.json")),
    });
}

/// Every run starts from the commit that is checked out; a contract that means another one means another run.
fn rollback(contract: &TaskContract, terms: &Terms<'_>, problems: &mut Problems<'_>) {
    let rollback = &contract.rollback;
    if ![terms.base, "HEAD"].contains(&rollback.baseline_ref.as_str()) {
        let message = format!("a run starts from HEAD, which is {}; write \"HEAD\", or check it out first", terms.base);
        problems.add("/rollback/baseline_ref", message);
    }
    let Some(target) = &rollback.target_ref else { return };
    problems.not_blank("/rollback/target_ref", target);
    if rollback.strategy != RollbackStrategy::GitRevertCommit {
        problems.add("/rollback/target_ref", "only git_revert_commit has a target");
    }
}

fn asks_for_patch(contract: &TaskContract) -> bool {
    contract.required_outputs.iter().any(|output| matches!(output.kind, OutputKind::Patch | OutputKind::Commit))
}

/// Files that must be there afterwards; a read-only contract that asks for a change could never be met.
fn outputs(contract: &TaskContract, read_only: bool, terms: &Terms<'_>, problems: &mut Problems<'_>) -> Vec<RepoPath> {
    let mut files = Vec::new();
    for (index, output) in contract.required_outputs.iter().enumerate() {
        match output.kind {
            OutputKind::Patch | OutputKind::Commit if read_only && contract.audit_only != Some(true) => problems
                .add(&format!("/required_outputs/{index}/type"), "nothing may change under a read-only contract"),
            OutputKind::File => {
                let path = crate::policy::allowed_path_outside(&output.name, terms.state_dir);
                files.extend(problems.take(&format!("/required_outputs/{index}/name"), path));
            }
            _ => {}
        }
    }
    files
}

fn tests(contract: &TaskContract, terms: &Terms<'_>, problems: &mut Problems<'_>) -> Vec<TestCommand> {
    let strict = |options: &RuntimeOptions| options.strict_acceptance;
    let strict = contract.runtime_options.as_ref().and_then(strict).unwrap_or(true);
    let mut tests = Vec::new();
    for (index, test) in contract.acceptance_tests.iter().enumerate() {
        let pointer = format!("/acceptance_tests/{index}/cmd");
        let argv = test_words(&test.cmd, terms).and_then(|argv| if strict { not_trivial(argv) } else { Ok(argv) });
        let command = |argv| TestCommand { name: test.name.clone(), argv, must_pass: test.must_pass, of_whole: false };
        let Some(argv) = problems.take(&pointer, argv) else { continue };
        if let Some(word) = forbidden_word(&argv, &contract.forbidden_actions) {
            problems.add(&pointer, format!("contains {word:?}, which the contract itself forbids"));
        }
        tests.push(command(argv));
    }
    if !contract.acceptance_tests.iter().any(|test| test.must_pass) {
        problems.add("/acceptance_tests", "none of the tests must pass");
    }
    tests
}

/// A blank word would be in every command.
fn forbidden_actions(contract: &TaskContract, problems: &mut Problems<'_>) -> Vec<String> {
    for (index, word) in contract.forbidden_actions.iter().enumerate() {
        problems.not_blank(&format!("/forbidden_actions/{index}"), word);
    }
    contract.forbidden_actions.clone()
}
