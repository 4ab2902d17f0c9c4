//! What all parts come to is held to the tests of the contract that they are parts of.

use super::world::{PM, all_but, column, holds, pipeline, shown, world_of};
use serde_json::json;

/// A PM whose contract has a test for each file, one of them for a file that is fine as it is.
const STRICT_PM: &str = r#"say({"spec": "both files say done", "allowed_paths": ["src/a.txt", "src/b.txt", "src/kept.txt"],
    "acceptance_tests": [{"name": p, "cmd": "grep -q %s src/%s.txt" % (w, p), "must_pass": True} for p, w in [("a", "done"), ("b", "done"), ("kept", "kept")]]})"#;

/// A tech lead whose parts prove next to nothing.
const LAX_TECH_LEAD: &str = r#"say({"contracts": [{"spec": "src/%s.txt says done" % x, "allowed_paths": ["src/%s.txt" % x] + (["src/kept.txt"] if x == "b" else []),
    "acceptance_tests": test("test -s src/%s.txt" % x)} for x in "ab"]})"#;

fn lax(worker: &'static str) -> crate::environment::TestEnvironment {
    let agents: Vec<_> = all_but("pm", STRICT_PM)
        .into_iter()
        .map(|(role, body)| match role {
            "tech_lead" => (role, LAX_TECH_LEAD),
            "worker" => (role, worker),
            _ => (role, body),
        })
        .collect();
    world_of(&agents, &[("src/kept.txt", "kept\n")], |_| {})
}

#[test]
fn what_fails_the_tests_of_the_whole_is_fixed_under_the_contract_of_the_whole() {
    let worker = r#"
if "-fix-" in task:
    assert task == "pipeline-task-fix-1" and "tests: b:" in q["context"]["notes"], q["context"]["notes"]
    put("src/b.txt", "done\n")
elif "src/a.txt" in q["contract"]["scope"]["allowed_paths"]: put("src/a.txt", "done\n")
else: put("src/b.txt", "nearly\n")
say()"#;
    let env = lax(worker);
    pipeline(&env).success();
    let view = shown(&env);
    assert_eq!(column(&view, "fixes", "task_id"), ["pipeline-task-fix-1"]);
    assert_eq!(column(&view, "fixes", "parent_task_id"), ["pipeline-task"]);
    assert_eq!(
        column(&view, "contracts", "task_id"),
        ["pipeline-task", "pipeline-task-1", "pipeline-task-2", "pipeline-task-fix-1"]
    );
    let whole = json!({"stage": "S4", "task_id": "pipeline-task", "status": "FAILED"});
    assert!(view["stages"].as_array().unwrap().contains(&whole), "{}", view["stages"]);
    assert_eq!(["a", "b"].map(|name| env.git(&["show", &format!("HEAD:src/{name}.txt")])), ["done", "done"]);
    holds(&env);
}

/// Parts that pass their own tests are no result where the contract's fail.
#[test]
fn nothing_lands_where_the_tests_of_the_whole_fail_to_the_end() {
    let worker = r#"
for path in q["contract"]["scope"]["allowed_paths"]:
    if "kept" not in path: put(path, "nearly %s\n" % task)
say()"#;
    let env = lax(worker);
    let head = env.git(&["rev-parse", "HEAD"]);
    pipeline(&env).exits(1);
    let view = shown(&env);
    assert_eq!((&view["status"], &view["reason"]), (&json!("failed"), &json!("tests_failed")));
    assert_eq!(column(&view, "fixes", "task_id"), ["pipeline-task-fix-1", "pipeline-task-fix-2"]);
    assert_eq!(env.event("FIX_LOOP_EXHAUSTED")["task_id"], "pipeline-task");
    assert_eq!(env.git(&["rev-parse", "HEAD"]), head);
    holds(&env);
}

/// The part that makes a test of the whole fail is the one that does not land.
#[test]
fn a_part_that_breaks_what_passed_before_it_is_found_and_the_others_land() {
    let worker = r#"
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "done %s\n" % task)
say()"#;
    let env = lax(worker);
    pipeline(&env).exits(1);
    let view = shown(&env);
    assert_eq!(
        column(&view, "fixes", "task_id"),
        ["pipeline-task-2-fix-1", "pipeline-task-2-fix-2"],
        "the first part broke nothing"
    );
    assert_eq!(env.git(&["show", "HEAD:src/a.txt"]), "done pipeline-task-1");
    assert_eq!(["b", "kept"].map(|name| env.git(&["show", &format!("HEAD:src/{name}.txt")])), ["to do", "kept"]);
    let tried = env.event("FIX_LOOP_EXHAUSTED")["tried"].to_string();
    assert!(tried.contains("a test of the whole that passes without this change"), "{tried}");
    holds(&env);
}

/// One that nobody split is its own whole.
#[test]
fn a_contract_that_stays_one_is_tested_once() {
    let worker = r#"
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "done\n")
say()"#;
    let agents = [("pm", PM), ("worker", worker)];
    let env = world_of(&agents, &[], |_| {});
    pipeline(&env).success();
    assert_eq!(env.event_types().iter().filter(|kind| *kind == "TEST_RESULT").count(), 1);
}
