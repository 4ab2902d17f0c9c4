//! Each rule over task contracts, with the exact place that a bad one is told.

use super::super::fixture::{BASE, OWN_SCHEMA, THREAD, contract, said, with_agents, with_terms};
use super::*;
use crate::work::Item;
use crate::{AgentConfig, hash, schema};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Compiles the good contract after something was done to it.
fn compiled(edit: impl FnOnce(&mut Value)) -> Result<Item, Vec<String>> {
    let mut document = contract();
    edit(&mut document);
    let bytes = document.to_string().into_bytes();
    let item = with_terms(|terms| read(&bytes).and_then(|contract| compile(&contract, &bytes, terms)));
    item.map_err(|violations| said(&violations))
}

#[track_caller]
fn refused(edit: impl FnOnce(&mut Value), expected: &[&str]) {
    assert_eq!(compiled(edit).unwrap_err(), expected);
}

#[test]
fn a_good_contract_becomes_an_item_that_says_all_of_it() {
    let item = compiled(|_| {}).unwrap();
    assert_eq!((item.id.as_str(), item.agent_id.as_str(), item.role.as_str()), ("task-0001", "agent-1", "WORKER"));
    assert_eq!((item.worker.as_str(), item.goal.as_str()), ("worker", "Say hello."));
    let paths: Vec<&str> = item.scope.allowed_paths.iter().map(|path| path.as_str()).collect();
    assert_eq!(paths, ["src", "docs/hello.md"]);
    assert_eq!(item.tests[0].argv, ["cargo", "test", "-q", "a b"]);
    assert_eq!((item.timeout_ms, item.retries, item.retry_backoff_ms), (900_000, 2, 5_000));
    assert_eq!(item.output_files[0].as_str(), "src/hello.rs");
    assert_eq!(item.artifacts.len(), 1, "norma's own schema is no file of the base");
    assert_eq!(item.artifacts[0].path.as_str(), "docs/notes.md");
    assert_eq!(item.output_schema.unwrap().text, schema::built_in("agent_task_result.v1.json").unwrap());
    assert_eq!(item.rights.mcp_tools, ["codex"]);
    assert!(!item.read_only && !item.audit_only);
    assert_eq!(item.submitted, hash::sha256(contract().to_string().as_bytes()));
}

#[test]
fn a_contract_without_what_may_be_left_out_is_good_too() {
    let optional = [
        "task_type",
        "policy_pack",
        "handoff_chain",
        "audit_only",
        "browser_policy",
        "runtime_options",
        "role_contract",
    ];
    let without = |document: &mut Value| {
        let members = document.as_object_mut().unwrap();
        optional.iter().for_each(|key| assert!(members.remove(*key).is_some(), "{key}"));
    };
    compiled(without).unwrap();
}

#[test]
fn a_missing_field_is_named_whichever_it_is() {
    let required = [
        "task_id",
        "owner_agent",
        "assigned_agent",
        "inputs",
        "required_outputs",
        "allowed_paths",
        "forbidden_actions",
        "acceptance_tests",
        "tool_permissions",
        "timeout_retry",
        "rollback",
        "evidence_links",
        "log_refs",
        "mcp_tool_set",
    ];
    for key in required {
        let found = compiled(|document| drop(document.as_object_mut().unwrap().remove(key))).unwrap_err();
        assert_eq!(found, [format!("(document): missing required key {key:?}")]);
    }
}

#[test]
fn what_the_form_does_not_know_is_refused_with_its_place() {
    refused(
        |document| {
            document["task_id"] = json!("short");
            document["allowed_paths"] = json!([]);
            document["mcp_tool_set"] = json!([""]);
            document["timeout_retry"]["max_retries"] = json!(11);
            document["parent_task_id"] = json!(null);
            document["tool_permissions"]["filesystem"] = json!("danger-full-access");
        },
        &[
            "/allowed_paths: expected at least 1 item, found 0",
            "/mcp_tool_set/0: expected at least 1 character, found 0",
            "/parent_task_id: expected string, found null",
            "/task_id: expected at least 8 characters, found 5",
            "/timeout_retry/max_retries: expected at most 10, found 11",
            "/tool_permissions/filesystem: expected \"read-only\" or \"workspace-write\", found \"danger-full-access\"",
        ],
    );
    refused(
        |document| {
            document["runtime_options"]["provider"] = json!("a b");
            document["inputs"]["artifacts"][1]["sha256"] = json!("00");
        },
        &[
            "/inputs/artifacts/1/sha256: value does not match \"^[a-fA-F0-9]{64}$\"",
            "/runtime_options/provider: value does not match \"^[A-Za-z0-9._-]+$\"",
        ],
    );
}

#[test]
fn paths_are_files_or_directories_of_the_repository_and_nothing_wider() {
    let bad = ["**", "src/*", ".", "/", "../etc", "src/..", ".git/hooks", ".norma/config.json", ".NORMA", "a\\b"];
    let found = compiled(|document| document["allowed_paths"] = json!(bad)).unwrap_err();
    let places: Vec<&str> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    let expected: Vec<String> = (0..bad.len()).map(|index| format!("/allowed_paths/{index}")).collect();
    assert_eq!(places, expected);
    assert!(found[7].ends_with("is in the state directory, which is not for agents"), "{}", found[7]);
}

#[test]
fn both_agents_are_registered_in_the_very_role_they_are_named_in() {
    refused(
        |document| {
            document["owner_agent"]["agent_id"] = json!("agent-2");
            document["assigned_agent"]["agent_id"] = json!("nobody");
            document["role_contract"] = json!(null);
            document.as_object_mut().unwrap().remove("role_contract");
        },
        &[
            "/owner_agent: \"agent-2\" is not registered as PM; see policies/agent_registry.json",
            "/assigned_agent: \"nobody\" is not registered as WORKER; see policies/agent_registry.json",
        ],
    );
}

#[test]
fn the_entry_named_like_the_agent_comes_before_the_one_named_like_its_role() {
    let assign = |agent: &'static str, role: &'static str| {
        compiled(move |document| {
            document["assigned_agent"] = json!({"role": role, "agent_id": agent});
            document.as_object_mut().unwrap().remove("role_contract");
        })
    };
    assert_eq!(assign("agent-3", "WORKER").unwrap().worker, "agent-3");
    assert_eq!(assign("agent-4", "WORKER").unwrap().worker, "worker");
    let found = assign("agent-1", "BACKEND").unwrap_err();
    assert!(found.contains(
        &"/assigned_agent/agent_id: no agent is configured for it; add \"agent-1\" or \"backend\" to \"agents\" in \
          config.json"
            .to_owned()
    ));
}

#[test]
fn rights_beyond_the_registry_are_refused_and_not_cut_down() {
    refused(
        |document| {
            let rights = json!({
                "filesystem": "workspace-write", "shell": "untrusted", "network": "on-request",
                "mcp_tools": ["codex", "search", "unheard-of"],
            });
            document["tool_permissions"] = rights;
            document["mcp_tool_set"] = json!(["codex", "other"]);
            document.as_object_mut().unwrap().remove("role_contract");
        },
        &[
            "/tool_permissions/shell: is more than the registry gives \"agent-1\" as WORKER",
            "/tool_permissions/network: is more than the registry gives \"agent-1\" as WORKER",
            "/tool_permissions/mcp_tools/1: the registry gives \"agent-1\" as WORKER no tool \"search\"",
            "/tool_permissions/mcp_tools/2: \"unheard-of\" is not in policies/mcp_allowlist.json",
            "/mcp_tool_set/1: \"other\" is not in policies/mcp_allowlist.json",
        ],
    );
    let stricter = compiled(|document| {
        document["tool_permissions"]["shell"] = json!("deny");
        document["role_contract"]["tool_permissions"]["shell"] = json!("deny");
    });
    assert_eq!(stricter.unwrap().rights.shell, ShellRight::Deny);
}

#[test]
fn a_contract_that_says_nothing_of_commands_allows_none() {
    let silent = compiled(|document| {
        document["tool_permissions"].as_object_mut().unwrap().remove("shell").unwrap();
        document["role_contract"]["tool_permissions"]["shell"] = json!("deny");
    });
    assert_eq!(silent.unwrap().rights.shell, ShellRight::Deny);
}

#[test]
fn the_answer_is_bound_to_the_schema_of_its_role() {
    let found = compiled(|document| drop(document["inputs"]["artifacts"].as_array_mut().unwrap().remove(0)));
    let found = found.unwrap_err();
    let add = serde_json::to_string(&schema_artifact(AgentRole::Worker)).unwrap();
    assert_eq!(found, [format!("/inputs/artifacts: no schema for the answer; add {add}")]);

    let rebound = |name: &str, uri: &str, text: &[u8]| {
        let artifact = json!({"name": name, "uri": uri, "sha256": hash::sha256(text).to_string()});
        compiled(|document| document["inputs"]["artifacts"][0] = artifact)
    };
    let review = schema::built_in("review_report.v1.json").unwrap().as_bytes();
    assert_eq!(
        rebound("output_schema", "schemas/review_report.v1.json", review).unwrap_err(),
        ["/inputs/artifacts/0/uri: WORKER answers by schemas/agent_task_result.v1.json, or by a schema of the \
          repository's own"]
    );
    let own = rebound("Output_Schema.Worker", "schemas/own.json", OWN_SCHEMA).unwrap();
    assert_eq!(own.output_schema.unwrap().text.as_bytes(), OWN_SCHEMA);
    let unsealed =
        compiled(|document| drop(document["inputs"]["artifacts"][0].as_object_mut().unwrap().remove("sha256")));
    let unsealed = unsealed.unwrap_err();
    assert!(unsealed[0].starts_with("/inputs/artifacts/0") && unsealed[0].contains("sha256"), "{unsealed:?}");
    let stale = rebound("output_schema", "schemas/own.json", b"another").unwrap_err();
    let actual = hash::sha256(OWN_SCHEMA);
    assert_eq!(stale, [format!("/inputs/artifacts/0/sha256: the file's SHA-256 is {actual}")]);
    let prose = rebound("output_schema", "docs/notes.md", super::super::fixture::NOTES).unwrap_err();
    assert!(prose[0].starts_with("/inputs/artifacts/0/uri: not a JSON Schema that can be used:"), "{prose:?}");
    // Bound for somebody else, it binds nothing here.
    assert!(
        rebound("output_schema.pm", "schemas/own.json", OWN_SCHEMA).unwrap_err()[0].starts_with("/inputs/artifacts:")
    );
    let twice = compiled(|document| {
        let artifact = document["inputs"]["artifacts"][0].clone();
        document["inputs"]["artifacts"].as_array_mut().unwrap().push(artifact);
    });
    assert_eq!(twice.unwrap_err(), ["/inputs/artifacts: more than one schema is bound"]);
}

#[test]
fn each_role_has_its_schema() {
    for (role, expected) in [
        (AgentRole::Reviewer, "schemas/review_report.v1.json"),
        (AgentRole::TestRunner, "schemas/test_report.v1.json"),
        (AgentRole::Test, "schemas/test_report.v1.json"),
        (AgentRole::Pm, "schemas/agent_task_result.v1.json"),
    ] {
        assert_eq!(schema_artifact(role).uri, expected);
    }
}

#[test]
fn an_input_is_there_and_is_what_the_contract_says() {
    refused(
        |document| {
            document["inputs"]["artifacts"][1]["sha256"] = json!("0".repeat(64));
            let outside = json!({"name": "x", "uri": "../x", "sha256": "0".repeat(64)});
            let missing = json!({"name": "y", "uri": "docs/none.md", "sha256": "0".repeat(64)});
            document["inputs"]["artifacts"].as_array_mut().unwrap().extend([outside, missing]);
        },
        &[
            &format!("/inputs/artifacts/1/sha256: the file's SHA-256 is {}", hash::sha256(b"notes\n")),
            "/inputs/artifacts/2/uri: path \"../x\" contains a `..` component",
            "/inputs/artifacts/3/uri: there is no file \"docs/none.md\" in the commit",
        ],
    );
}

#[test]
fn the_resolved_role_says_what_the_contract_says() {
    refused(
        |document| {
            let view = &mut document["role_contract"];
            view["identity"] = json!({"role": "REVIEWER", "agent_id": "agent-2"});
            let rights = json!({"filesystem": "read-only", "shell": "deny", "network": "allow"});
            view["tool_permissions"] = rights;
            view["resolved_mcp_tool_set"] = json!(["codex", "search"]);
            view["runtime_binding"] = json!({"runner": null, "provider": "x", "model": "any"});
            view["handoff"]["chain_roles"] = json!([]);
            view["handoff"]["max_handoffs"] = json!(null);
        },
        &[
            "/role_contract/identity/role: does not say what /assigned_agent/role says",
            "/role_contract/identity/agent_id: does not say what /assigned_agent/agent_id says",
            "/role_contract/tool_permissions/filesystem: does not say what /tool_permissions/filesystem says",
            "/role_contract/tool_permissions/shell: does not say what /tool_permissions/shell says",
            "/role_contract/tool_permissions/network: does not say what /tool_permissions/network says",
            "/role_contract/resolved_mcp_tool_set: does not say what /mcp_tool_set says",
            "/role_contract/runtime_binding/runner: does not say what /runtime_options/runner says",
            "/role_contract/runtime_binding/provider: does not say what /runtime_options/provider says",
            "/role_contract/handoff/chain_roles: does not say what /handoff_chain/roles says",
            "/role_contract/handoff/max_handoffs: does not say what /handoff_chain/max_handoffs says",
        ],
    );
    refused(
        |document| {
            let view = &mut document["role_contract"];
            view["system_prompt_ref"] = json!("docs/notes.md#/a");
            view["skills_bundle_ref"] = json!("/etc/passwd");
            view["mcp_bundle_ref"] = json!("schemas/own.json#/none");
        },
        &[
            "/role_contract/system_prompt_ref: a part of a file cannot be referred to here",
            "/role_contract/skills_bundle_ref: path \"/etc/passwd\" is absolute",
            "/role_contract/mcp_bundle_ref: there is no list at \"/none\" of that file",
        ],
    );
}

#[test]
fn a_contract_without_a_resolved_role_is_shown_one_that_it_could_carry() {
    let mut document = contract();
    document.as_object_mut().unwrap().remove("role_contract");
    let resolved = |document: &Value| {
        let read = read(document.to_string().as_bytes()).unwrap();
        serde_json::to_value(with_terms(|terms| resolve_role(&read, terms))).unwrap()
    };
    let view = resolved(&document);
    let expected = json!({
        "identity": {"role": "WORKER", "agent_id": "agent-1"},
        "purpose": "Makes the change that a contract asks for, within its paths.",
        "system_prompt_ref": null,
        "skills_bundle_ref": null,
        "mcp_bundle_ref": null,
        "runtime_binding": {"runner": "app-server", "provider": "open.ai_1-x", "model": null},
        "tool_permissions": {"filesystem": "workspace-write", "shell": "never", "network": "deny"},
        "resolved_mcp_tool_set": ["codex"],
        "handoff": {
            "eligible": true, "required_downstream_roles": ["REVIEWER", "TEST_RUNNER"],
            "chain_roles": ["REVIEWER"], "max_handoffs": 1,
        },
        "fail_closed_conditions": [
            "The contract does not check.",
            "The answer does not fit the bound schema.",
            "Something changed outside the allowed paths.",
        ],
    });
    assert_eq!(view, expected);
    // What is shown is in order for the contract itself, and what a contract brings is what is shown.
    compiled(|document| document["role_contract"] = view).unwrap();
    assert_eq!(resolved(&contract()), contract()["role_contract"]);
}

#[test]
fn a_run_starts_from_the_commit_that_is_checked_out() {
    compiled(|document| document["rollback"]["baseline_ref"] = json!(BASE)).unwrap();
    refused(
        |document| {
            document["rollback"] = json!({"strategy": "git_reset_hard", "baseline_ref": "v1", "target_ref": " "})
        },
        &[
            &format!(
                "/rollback/baseline_ref: a run starts from HEAD, which is {BASE}; write \"HEAD\", or check it out first"
            ),
            "/rollback/target_ref: is blank",
            "/rollback/target_ref: only git_revert_commit has a target",
        ],
    );
    let revert = json!({"strategy": "git_revert_commit", "baseline_ref": "HEAD", "target_ref": "v1"});
    compiled(|document| document["rollback"] = revert).unwrap();
}

#[test]
fn tests_are_commands_that_can_fail_and_one_of_them_counts() {
    let tests = json!([
        {"name": "a", "cmd": "true", "must_pass": false},
        {"name": "b", "cmd": "a && b", "must_pass": false},
        {"name": "c", "cmd": "git push origin", "must_pass": false},
        {"name": "d", "cmd": " ", "must_pass": false},
        {"name": "e", "cmd": "sudo make", "must_pass": false},
    ]);
    refused(
        |document| document["acceptance_tests"] = tests,
        &[
            "/acceptance_tests/0/cmd: `true` succeeds whatever was done; name a command that can fail",
            "/acceptance_tests/1/cmd: '&' (character 3) means something to a shell, and there is none; quote it with \
             '…', or use a script",
            "/acceptance_tests/2/cmd: contains \"git push\", which the contract itself forbids",
            "/acceptance_tests/3/cmd: there is no command in it",
            "/acceptance_tests/4/cmd: sudo may not be started",
            "/acceptance_tests: none of the tests must pass",
        ],
    );
    let lax = compiled(|document| {
        document["runtime_options"]["strict_acceptance"] = json!(false);
        document["acceptance_tests"][0]["cmd"] = json!("true");
    });
    assert_eq!(lax.unwrap().tests[0].argv, ["true"]);
}

#[test]
fn what_could_never_be_met_or_kept_is_refused() {
    refused(
        |document| {
            document["task_id"] = json!("../../../x");
            document["inputs"]["spec"] = json!(" \n");
            document["forbidden_actions"] = json!([" "]);
            document["timeout_retry"]["timeout_sec"] = json!(9_007_199_254_740_991_u64);
            document["required_outputs"][1]["name"] = json!("/");
        },
        &[
            "/inputs/spec: is blank",
            "/task_id: \"../../../x\" becomes a directory: letters, digits, `.`, `_` and `-`, not a `.` first",
            "/required_outputs/1/name: \"/\" would allow the whole repository",
            "/timeout_retry/timeout_sec: longer than a week",
            "/forbidden_actions/0: is blank",
        ],
    );
    refused(
        |document| {
            document["tool_permissions"]["filesystem"] = json!("read-only");
            document["role_contract"]["tool_permissions"]["filesystem"] = json!("read-only");
        },
        &["/required_outputs/0/type: nothing may change under a read-only contract"],
    );
    let long = compiled(|document| document["inputs"]["spec"] = json!("x".repeat(130 << 10))).unwrap_err();
    assert!(long[0].starts_with("(document): is "), "{long:?}");
}

#[test]
fn what_is_at_stake_bounds_what_may_be_asked_for() {
    let refusals = |pack: &str, (shell, network, tests): (&str, &str, &str)| {
        let found = compiled(|document| {
            document["policy_pack"] = json!(pack);
            document["tests_policy"] = json!(tests);
            for rights in ["/tool_permissions", "/role_contract/tool_permissions"] {
                let rights = document.pointer_mut(rights).unwrap();
                (rights["shell"], rights["network"]) = (json!(shell), json!(network));
            }
        });
        let said = |problem: &String| problem.split_once(": is more than policy_pack").map(|(at, _)| at.to_owned());
        found.err().unwrap_or_default().iter().filter_map(said).collect::<Vec<_>>()
    };
    let (shell, network) = ("/tool_permissions/shell", "/tool_permissions/network");
    let widest = ("on-request", "allow", "candidate");
    assert_eq!(refusals("low", widest), [""; 0]);
    assert_eq!(refusals("medium", widest), [shell, network]);
    assert_eq!(refusals("medium", ("untrusted", "on-request", "candidate")), [""; 0]);
    assert_eq!(refusals("high", ("untrusted", "on-request", "candidate")), [shell, network, "/tests_policy"]);
    assert_eq!(refusals("high", ("never", "deny", "both")), [""; 0]);
}

#[test]
fn a_browser_is_what_an_agent_has_anyway_or_the_contract_is_refused() {
    let pointers = |browser: Value| {
        let found = compiled(|document| document["browser_policy"] = browser).err().unwrap_or_default();
        found.iter().filter_map(|it| Some(it.split_once(": ")?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(pointers(json!({})), [""; 0]);
    let same = json!({"profile_mode": "ephemeral", "stealth_mode": "none", "human_behavior": {"enabled": false}});
    assert_eq!(pointers(same), [""; 0]);
    let other = json!({
        "profile_mode": "allow_profile", "profile_ref": {"profile_dir": "p"}, "cookie_ref": {"cookie_path": "c"},
        "stealth_mode": "lite", "human_behavior": {"enabled": true, "level": "high"},
    });
    let fields = ["profile_mode", "profile_ref", "cookie_ref", "stealth_mode", "human_behavior"];
    assert_eq!(pointers(other), fields.map(|field| format!("/browser_policy/{field}")));
}

#[test]
fn a_contract_that_asks_for_no_patch_may_leave_all_as_it_is() {
    let audit = compiled(|document| document["required_outputs"] = json!([])).unwrap();
    assert!(audit.audit_only);
    let said = compiled(|document| document["audit_only"] = json!(true)).unwrap();
    assert!(said.audit_only);
}

#[test]
fn what_a_person_says_in_a_line_becomes_a_good_contract() {
    let draft = |agent_id: &str| Draft {
        task_id: "task-0002".to_owned(),
        goal: "Say hello.".to_owned(),
        allowed_paths: vec!["src".to_owned()],
        tests: vec!["cargo test".to_owned()],
        agent_id: agent_id.to_owned(),
    };
    with_terms(|terms| {
        let contract = draft("agent-3").contract(terms.registry, terms.mcp).unwrap();
        let bytes = serde_json::to_vec(&contract).unwrap();
        assert_eq!(read(&bytes).unwrap(), contract);
        assert_eq!(compile(&contract, &bytes, terms).unwrap().worker, "agent-3");
        assert!(draft("nobody").contract(terms.registry, terms.mcp).is_err());
    });
}

#[test]
fn what_nobody_carries_out_is_refused_with_its_place() {
    let found = compiled(|document| {
        document["handoff_chain"]["enabled"] = json!(true);
    });
    let found = found.unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("/handoff_chain/roles/0: no reviewer is configured"), "{found:?}");
}

/// The item of a contract that names a conversation, or why there is none, with a worker of this configuration.
fn continued(thread: &str, worker: &Value) -> Result<Item, Vec<String>> {
    let mut document = contract();
    document["assigned_agent"]["codex_thread_id"] = json!(thread);
    let bytes = document.to_string().into_bytes();
    let edit = |agents: &mut BTreeMap<String, AgentConfig>| {
        agents.insert("worker".to_owned(), serde_json::from_value(worker.clone()).unwrap());
    };
    let item = with_agents(edit, |terms| read(&bytes).and_then(|contract| compile(&contract, &bytes, terms)));
    item.map_err(|violations| said(&violations))
}

#[test]
fn a_contract_continues_a_conversation_that_is_kept_with_an_agent_of_its_type() {
    let codex = json!({"type": "codex"});
    assert_eq!(continued(THREAD, &codex).unwrap().thread.as_deref(), Some(THREAD));
    assert_eq!(continued("", &codex).unwrap().thread, None, "an empty name is none");
    let not = |thread: &str, worker: &Value| continued(thread, worker).unwrap_err().join("\n");
    let place = "/assigned_agent/codex_thread_id: ";
    let kept_here =
        |thread: &str, kind: &str| format!("{place}no conversation {thread:?} with an agent of type {kind} is");
    assert!(not("another", &codex).starts_with(&kept_here("another", "codex")), "{}", not("another", &codex));
    let claude = json!({"type": "claude"});
    assert!(not(THREAD, &claude).starts_with(&kept_here(THREAD, "claude")), "{}", not(THREAD, &claude));
    let fresh = json!({"type": "codex", "resume": false});
    assert!(
        not(THREAD, &fresh).starts_with(&format!("{place}agents.worker.resume is false")),
        "{}",
        not(THREAD, &fresh)
    );
}

#[test]
fn binary_files_are_allowed_by_name() {
    assert!(!compiled(|_| {}).unwrap().scope.allow_binary);
    let item = compiled(|document| document["scope"] = json!({"allow_binary": true})).unwrap();
    assert!(item.scope.allow_binary);
}
