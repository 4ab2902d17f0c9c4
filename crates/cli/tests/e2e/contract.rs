//! `norma contract`: documents that are good, documents that are not, and what is left of either.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use store::{Layout, Reader};

/// An environment whose configuration names a worker.
fn with_worker() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.configure(|config| {
        let agent = config["agents"]["do"].clone();
        config["agents"]["worker"] = agent;
    });
    env
}

/// A contract that norma made itself, changed by `change`.
fn written(env: &TestEnvironment, change: impl FnOnce(&mut Value)) {
    let made = env.norma(&["contract", "new", "--goal", "Say hello.", "--allow", "src", "--test", "make test"]);
    let mut contract: Value = serde_json::from_str(&made.success().raw).unwrap();
    contract["task_id"] = json!("task-0001");
    change(&mut contract);
    env.write("contract.json", &contract.to_string());
}

/// What the state directory's log says of refused documents.
fn refusals(env: &TestEnvironment) -> Vec<Value> {
    let lines = Reader::open(&Layout::new(&env.root, None)).unwrap().audit_lines().unwrap();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "contract_refused").collect()
}

#[test]
fn a_contract_that_norma_made_is_good_and_said_in_six_lines() {
    let env = with_worker();
    let new = ["contract", "new", "--goal", "Say hello.", "--allow", "src", "--test", "make test", "-o", "hello.json"];
    assert!(env.norma(&new).success().raw.ends_with(
        "written to hello.json
next: norma contract check hello.json
"
    ));
    env.norma(&new).exits(2);
    written(&env, |_| {});
    insta::assert_snapshot!(env.norma(&["contract", "check", "contract.json"]), @r#"
    valid: contract.json (task_contract, 1 item(s))
    items: task-0001
    agents: WORKER worker by "worker"
    may change: src
    tests: make test
    sha256: <hash>
    [exit 0]
    "#);
    let checked = env.json(&["contract", "check", "hello.json"]);
    assert_eq!((&checked["ok"], &checked["kind"]), (&json!(true), &json!("task_contract")));
    assert_eq!(checked["items"][0]["worker"], "worker");
    let role = &checked["role_contract"];
    assert_eq!(role["identity"], json!({"role": "WORKER", "agent_id": "worker"}));
    assert!(role["purpose"].is_string() && role["fail_closed_conditions"].is_array(), "{role}");
    assert!(refusals(&env).is_empty());
}

#[test]
fn a_contract_is_made_and_checked_where_norma_has_never_been() {
    let env = TestEnvironment::unseen();
    let own = env.dir.join("home/.config/norma/config.json");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(own, json!({"agents": {"worker": {"type": "exec", "cmd": ["true"]}}}).to_string()).unwrap();
    let made = env.norma(&["contract", "new", "--goal", "Say hello.", "--allow", "src", "--test", "make test"]);
    let contract: Value = serde_json::from_str(&made.success().raw).unwrap();
    assert_eq!(contract.get("$schema"), None, "there is no state directory that could have it");
    env.write("contract.json", &contract.to_string());
    env.norma(&["contract", "check", "contract.json"]).success();
    env.write("contract.json", "{}");
    env.norma(&["contract", "check", "contract.json"]).exits(2);
    assert!(!env.root.join(".norma").exists());
}

#[test]
fn everything_wrong_is_said_at_once_and_the_refusal_is_on_record() {
    let env = with_worker();
    written(&env, |contract| {
        contract["assigned_agent"]["agent_id"] = json!("mallory");
        contract["allowed_paths"] = json!(["src/**", ".norma"]);
        contract["tool_permissions"]["network"] = json!("allow");
        contract["acceptance_tests"][0]["cmd"] = json!("make && sudo make install");
        contract["inputs"]["artifacts"][0]["sha256"] = json!("0".repeat(64));
        contract["rollback"]["baseline_ref"] = json!("v1\u{1b}[2J");
    });
    insta::assert_snapshot!(env.norma(&["contract", "check", "contract.json"]), @r#"
    ! error: contract.json is not valid; nothing was run:
    !   /assigned_agent: "mallory" is not registered as WORKER; see policies/agent_registry.json
    !   /rollback/baseline_ref: a run starts from HEAD, which is <hash>; write "HEAD", or check it out first
    !   /inputs/artifacts/0/sha256: the file's SHA-256 is <hash>
    !   /allowed_paths/0: "src/**" is a glob; name a file or a directory, which stands for everything below it
    !   /allowed_paths/1: ".norma" is in the state directory, which is not for agents
    !   /acceptance_tests/0/cmd: '&' (character 6) means something to a shell, and there is none; quote it with '…', or use a script
    ! next: what each field may be: norma help contracts
    [exit 2]
    "#);
    let refused = env.norma(&["--json", "contract", "check", "contract.json"]);
    let refused: Value = serde_json::from_str(&refused.exits(2).raw).unwrap();
    let records = refusals(&env);
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(record["payload"]["sha256"], refused["sha256"]);
        assert_eq!(record["payload"]["kind"], "task_contract");
        assert_eq!(record["payload"]["violations"], refused["violations"]);
        assert_eq!(record["payload"]["event_type"], "policy_violation");
    }
    env.norma(&["reindex"]).success();
}

#[test]
fn a_contract_that_binds_no_schema_is_refused_and_that_is_on_record() {
    let env = with_worker();
    written(&env, |contract| contract["inputs"]["artifacts"] = json!([]));
    env.norma(&["run", "contract.json"]).exits(2);
    written(&env, |contract| drop(contract.as_object_mut().unwrap().remove("inputs")));
    env.norma(&["run", "contract.json"]).exits(2);
    let [unbound, formless] = &refusals(&env)[..] else { panic!("two are on record") };
    assert_eq!(unbound["payload"]["event_type"], "policy_violation");
    assert_eq!(unbound["payload"]["violations"][0]["pointer"], "/inputs/artifacts", "{unbound}");
    assert_eq!(formless["payload"]["event_type"], "gate_failed", "{formless}");
    assert_eq!(env.json(&["runs"]), json!([]), "nothing was run");
}

#[test]
fn what_policy_forbids_is_no_test_and_files_are_those_of_the_commit() {
    let env = with_worker();
    env.write("docs/notes.md", "not committed\n");
    written(&env, |contract| {
        contract["acceptance_tests"][0]["cmd"] = json!("sudo make test");
        let notes = json!({"name": "notes", "uri": "docs/notes.md", "sha256": "0".repeat(64)});
        contract["inputs"]["artifacts"].as_array_mut().unwrap().push(notes);
    });
    insta::assert_snapshot!(env.norma(&["contract", "check", "contract.json"]), @r#"
    ! error: contract.json is not valid; nothing was run:
    !   /inputs/artifacts/1/uri: there is no file "docs/notes.md" in the commit; commit it first
    !   /acceptance_tests/0/cmd: rule another-user of forbidden_actions.json refuses it: acts with the rights of another user
    ! next: what each field may be: norma help contracts
    [exit 2]
    "#);
}

#[test]
fn a_batch_is_good_or_refused_as_a_whole() {
    let env = with_worker();
    let item = |id: &str, after: &[&str]| json!({"id": id, "agent_id": "agent-1", "description": "Do it.", "dependencies": after});
    env.write("batch.json", &json!([item("a", &[]), item("b", &["a"])]).to_string());
    insta::assert_snapshot!(env.norma(&["contract", "check", "batch.json"]), @r#"
    valid: batch.json (work_items, 2 item(s))
    items: a, b (after a)
    agents: WORKER agent-1 by "worker"
    may change: everything that policy does not protect
    tests: none
    sha256: <hash>
    [exit 0]
    "#);
    env.write("batch.json", &json!([item("a", &["b"]), item("b", &["a"]), item("B", &["c"])]).to_string());
    insta::assert_snapshot!(env.norma(&["contract", "check", "batch.json"]), @r#"
    ! error: batch.json is not valid; nothing was run:
    !   /2/id: another item is called "B" too
    !   /2/dependencies/0: there is no item "c" in this batch
    !   /0/dependencies: these items wait for each other: a → b → a
    ! next: what each field may be: norma help contracts
    [exit 2]
    "#);
    env.norma(&["contract", "activate", "batch.json"]).exits(2);
    assert_eq!(refusals(&env).len(), 2);
}

#[test]
fn only_a_contract_that_checks_becomes_active_and_it_is_kept_byte_for_byte() {
    let env = with_worker();
    insta::assert_snapshot!(env.norma(&["contract", "show"]), @r"
    ! error: no contract is active
    ! next: to set one: norma contract activate FILE
    [exit 2]
    ");
    written(&env, |_| {});
    insta::assert_snapshot!(env.norma(&["contract", "activate", "contract.json"]), @r"
    task-0001 is active; to end that: norma contract clear
    [exit 0]
    ");
    assert_eq!(env.read(".norma/active/contract.json"), env.read("contract.json"));
    env.norma(&["contract", "show"]).success();
    let active = env.read("contract.json");
    written(&env, |contract| contract["allowed_paths"] = json!(["/"]));
    env.norma(&["contract", "activate", "contract.json"]).exits(2);
    assert_eq!(env.read(".norma/active/contract.json"), active);
    insta::assert_snapshot!(env.norma(&["contract", "clear"]), @r"
    no contract is active now
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["contract", "clear"]), @r"
    no contract was active
    [exit 0]
    ");
    env.norma(&["contract", "show"]).exits(2);
}

#[test]
fn what_is_no_document_is_refused_with_what_to_do() {
    let env = with_worker();
    insta::assert_snapshot!(env.norma(&["contract", "check", "none.json"]), @r"
    ! error: could not read $DIR/repo/none.json: No such file or directory (os error 2)
    ! next: name a file with a task contract or work items
    [exit 2]
    ");
    env.write("a.json", r#"{"task_id": "x", "task_id": "y"}"#);
    insta::assert_snapshot!(env.norma(&["contract", "check", "a.json"]), @r"
    ! error: a.json is not valid; nothing was run:
    !   /task_id: duplicate key
    ! next: what each field may be: norma help contracts
    [exit 2]
    ");
    env.write("a.json", "7");
    insta::assert_snapshot!(env.norma(&["contract", "check", "a.json"]), @r#"
    ! error: a.json is not valid; nothing was run:
    !   (document): this is neither a task contract (an object with "task_id") nor work items (an array of objects with "id")
    ! next: what each field may be: norma help contracts
    [exit 2]
    "#);
    env.write("a.json", &format!("\"{}\"", "x".repeat(1 << 20)));
    insta::assert_snapshot!(env.norma(&["contract", "check", "a.json"]), @r"
    ! error: $DIR/repo/a.json is larger than 1048576 bytes
    ! next: name a file with a task contract or work items
    [exit 2]
    ");
    insta::assert_snapshot!(env.norma(&["contract", "new", "--goal", "g", "--allow", "src", "--test", "true"]), @r"
    ! error: that contract is not valid; nothing was run:
    !   /acceptance_tests/0/cmd: `true` succeeds whatever was done; name a command that can fail
    ! next: what each field may be: norma help contracts
    [exit 2]
    ");
    let nobody = ["contract", "new", "--goal", "g", "--allow", "src", "--test", "make", "--agent", "nobody"];
    insta::assert_snapshot!(env.norma(&nobody), @r#"
    ! error: "nobody" is not registered as WORKER; see policies/agent_registry.json
    ! next: name another one with --agent
    [exit 2]
    "#);
}
