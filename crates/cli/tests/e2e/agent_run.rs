//! The AgentRun contract as its document has it: what a result says, in which order an item is judged, and what comes
//! after what. `docs/conformance.md` names these tests.

use crate::batches::{batch, item, with_worker};
use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use std::path::Path;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

fn state_hash(env: &TestEnvironment) -> Value {
    env.json(&["hash", "HEAD"])["hash"].take()
}

#[test]
fn a_run_result_has_every_field_of_the_document() {
    let env = with_worker("echo more >> src/lib.txt; echo again >> src/lib.txt; rm README.md; echo hi > src/made.txt");
    env.write("t.sh", "echo '===== 3 passed, 1 skipped in 0.01s ====='\n");
    env.commit("a test");
    let before = state_hash(&env);
    let results = batch(&env, &[item("a", json!({"test_command": "sh t.sh"}))], 0);
    let result = &results[0];
    let at = |path: &str| json!([env.root.join(path)]);
    assert_eq!(result["status"], "success");
    assert_eq!(
        (&result["modified_files"], &result["created_files"], &result["deleted_files"]),
        (&at("src/lib.txt"), &at("src/made.txt"), &at("README.md"))
    );
    let metrics = &result["metrics"];
    assert!(metrics["execution_time_ms"].as_u64().unwrap() > 0 && metrics["tool_ops_count"].is_u64(), "{metrics}");
    assert_eq!((&metrics["files_touched"], &metrics["delta_size"]), (&json!(3), &json!(3)));
    assert_eq!((&metrics["tests_passed"], &metrics["tests_failed"]), (&json!(3), &json!(0)));
    assert_eq!(result["test_output"], "===== 3 passed, 1 skipped in 0.01s =====\n");
    assert!(result.get("error").is_none() && result.get("denial_reason").is_none(), "{result}");
    let script = std::fs::read_to_string(result["proof_script"].as_str().unwrap()).unwrap();
    assert!(script.starts_with("#!/usr/bin/env bash\n") && script.contains("\nset -euo pipefail\n"), "{script}");
    // The receipt is made of the state before, the state after, what was done and what the tests said.
    let receipt = read(Path::new(result["receipt_path"].as_str().unwrap()));
    assert_eq!((&receipt["before_hash"], &receipt["after_hash"]), (&before, &result["output_hash"]));
    assert_eq!(state_hash(&env), result["output_hash"]);
    assert_eq!(receipt["tests"]["passed"], 3);
    assert_eq!(receipt["artifacts"].as_array().unwrap().len(), 3);
    let deltas = receipt["deltas"].as_object().unwrap();
    assert_eq!(deltas.len(), 4);
    assert_eq!(deltas.values().map(|delta| delta.as_array().unwrap().len()).sum::<usize>(), 3);
}

#[test]
fn an_item_without_a_test_command_runs_none() {
    let env = with_worker("echo 1 > one");
    let results = batch(&env, &[item("a", json!({}))], 0);
    assert!(results[0].get("test_output").is_none() && results[0]["metrics"].get("tests_passed").is_none());
    assert!(!env.run_dir().join("changes/001/tests").exists());
}

/// What a run that was denied or failed had made is shown, and told as what did not land.
#[test]
fn a_patch_that_did_not_land_is_shown() {
    let env = with_worker("echo 1 > one; echo 2 > two");
    batch(&env, &[item("a", json!({"constraints": {"max_files": 1}}))], 1);
    let shown = env.norma(&["diff", "@last"]);
    assert!(shown.success().raw.contains("+++ b/one") && shown.raw.contains("+++ b/two"), "{shown}");
    assert!(shown.raw_err.contains("changes/001 did not land"), "{shown}");
    let told = env.json(&["diff", "@last"]);
    assert!(told["not_landed"][0]["patch"].as_str().unwrap().contains("+++ b/one"), "{told}");
    batch(&env, &[item("a", json!({"test_command": "test -e three"}))], 1);
    assert!(env.norma(&["diff", "@last"]).success().raw.contains("+++ b/two"));
}

/// Files, then tool operations, then the size of the delta; tests only for what was admitted; and what was refused is not
/// tried again, however many attempts there are.
#[test]
fn admission_comes_before_tests_and_names_what_is_broken_in_order() {
    // The worker itself starts two programs to find out which item it is for.
    let env = with_worker("ls > /dev/null; echo 1 > one; echo 2 > two");
    env.write("t.sh", "exit 0\n");
    env.commit("a test");
    let before = state_hash(&env);
    let limited = |limits: Value| item("a", json!({"constraints": limits, "test_command": "sh t.sh"}));
    for (limits, reason) in [
        (
            json!({"max_files": 1, "max_tool_ops": 1, "max_delta_size": 1}),
            "Exceeded max files: 2 > 1; Exceeded max tool ops: 3 > 1; Exceeded max delta size: 2 > 1",
        ),
        (
            json!({"max_tool_ops": 1, "max_delta_size": 1}),
            "Exceeded max tool ops: 3 > 1; Exceeded max delta size: 2 > 1",
        ),
        (json!({"max_delta_size": 1}), "Exceeded max delta size: 2 > 1"),
    ] {
        let results = batch(&env, &[limited(limits)], 1);
        assert_eq!((&results[0]["status"], &results[0]["denial_reason"]), (&json!("denied"), &json!(reason)));
        assert!(results[0].get("test_output").is_none(), "{results:?}");
        assert!(!env.run_dir().join("changes/001/tests").exists(), "no test of a refused change is run");
        assert_eq!(env.event_types().iter().filter(|kind| *kind == "step_started").count(), 1);
        assert_eq!(state_hash(&env), before);
    }
}

#[test]
fn what_failed_its_tests_can_be_fixed_and_run_again() {
    let env = with_worker("cp wanted made");
    env.write("t.sh", "grep -q good made\n");
    env.write("wanted", "bad\n");
    env.commit("a test");
    let one = || [item("a", json!({"test_command": "sh t.sh"}))];
    let (before, files) = (state_hash(&env), env.repository());
    assert_eq!(batch(&env, &one(), 1)[0]["status"], "failure");
    assert_eq!(state_hash(&env), before);
    let without_list = |mut files: std::collections::BTreeMap<String, _>| {
        files.remove("items.json");
        files
    };
    assert!(without_list(env.repository()) == without_list(files), "every file is as it was, byte for byte");
    env.write("wanted", "good\n");
    env.commit("fixed");
    assert_eq!(batch(&env, &one(), 0)[0]["status"], "success");
}

#[test]
fn an_item_that_takes_too_long_leaves_nothing() {
    let env = with_worker("echo half > src/lib.txt; echo new > made; sleep 100");
    let before = state_hash(&env);
    let results = batch(&env, &[item("a", json!({"constraints": {"timeout_ms": 500}}))], 1);
    assert_eq!(results[0]["status"], "timeout");
    assert_eq!((state_hash(&env), env.root.join("made").exists()), (before, false));
    assert_ne!(env.read("src/lib.txt"), "half\n");
    let help = "increase the timeout or simplify";
    assert!(results[0]["error"].as_str().unwrap().ends_with(help), "{results:?}");
    let said = env.norma(&["batch", "items.json"]);
    assert!(said.exits(1).raw.contains(&format!("  what helps: {help}")), "{said}");
}

#[test]
fn an_agent_whose_tool_fails_leaves_nothing_and_what_may_help_is_said() {
    let env = with_worker("echo half > src/lib.txt; echo new > made; exit 3");
    let before = state_hash(&env);
    let results = batch(&env, &[item("a", json!({}))], 1);
    assert_eq!(results[0]["status"], "failure");
    assert!(results[0]["error"].as_str().unwrap().ends_with("fix the tool input"), "{results:?}");
    assert_eq!((state_hash(&env), env.root.join("made").exists()), (before, false));
    assert_ne!(env.read("src/lib.txt"), "half\n");
    let said = env.norma(&["batch", "items.json"]);
    assert!(said.exits(1).raw.contains("  what helps: fix the tool input"), "{said}");
}

#[test]
fn a_work_item_that_succeeds_shows_its_receipt_and_the_hash_of_its_output() {
    let env = with_worker("echo 1 > one");
    env.write("item.json", &item("a", json!({})).to_string());
    let said = env.norma(&["run", "item.json"]);
    let receipt = read(&env.run_dir().join("changes/001/RECEIPT.json"));
    let (id, hash) = (receipt["id"].as_str().unwrap(), state_hash(&env));
    let expected = format!("receipt: {id}\noutput hash: {}\n", hash.as_str().unwrap());
    assert!(said.success().raw.contains(&expected), "{expected} is not in {}", said.raw);
}

#[test]
fn items_without_dependencies_come_first_and_a_reconciler_of_all_comes_last() {
    let env = with_worker("ls made 2>/dev/null | tr '\\n' ' ' > saw-$id; mkdir -p made; echo > made/$id");
    let needs = |id: &str, agent: &str, needs: &[&str]| item(id, json!({"dependencies": needs, "agent_id": agent}));
    let items = [
        needs("all", "agent-0", &["one", "two", "three"]),
        needs("three", "agent-3", &["one"]),
        needs("two", "agent-2", &[]),
        needs("one", "agent-1", &[]),
    ];
    batch(&env, &items, 0);
    let saw = |id: &str| env.read(&format!("saw-{id}"));
    assert_eq!((saw("one"), saw("two")), (String::new(), String::new()), "level 0 sees the base");
    assert!(saw("three").contains("one ") && saw("all") == "one three two ", "{} {}", saw("three"), saw("all"));
    let order = env.git(&["log", "--format=%s", "-4"]);
    assert_eq!(order.lines().collect::<Vec<_>>(), ["do all", "do three", "do two", "do one"]);
}

#[test]
fn the_runtime_root_can_be_elsewhere() {
    let mut env = with_worker("echo 1 > one");
    env.env.insert("CORTEXPILOT_RUNTIME_ROOT".into(), env.at("elsewhere"));
    env.norma(&["init"]).success();
    assert!(env.dir.join("elsewhere/config.json").is_file());
    assert_eq!(env.json(&["runs"]), json!([]));
}
