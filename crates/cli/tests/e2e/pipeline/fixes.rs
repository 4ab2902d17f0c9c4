//! What a pipeline does about a change that does not pass.

use super::world::{all_but, column, holds, pipeline, shown, world};
use crate::environment::eventually;
use serde_json::{Value, json};

/// A worker whose first change of each task fails its test.
pub(super) const SECOND_TRY: &str = r#"
for path in q["contract"]["scope"]["allowed_paths"]:
    put(path, "done\n" if "-fix-" in task else get(path) + "half\n")
say()"#;

#[test]
fn a_change_that_fails_its_tests_is_fixed_by_a_contract_of_its_own() {
    let env = world(&all_but("worker", SECOND_TRY));
    pipeline(&env).success();
    let view = shown(&env);
    let mut fixes = column(&view, "fixes", "task_id");
    fixes.sort();
    assert_eq!(fixes, ["pipeline-task-1-fix-1", "pipeline-task-2-fix-1"]);
    assert_eq!(column(&view, "fixes", "cause"), ["tests", "tests"]);
    assert_eq!(view["fixes"][0]["attempt"], 1);
    assert!(column(&view, "fixes", "status").iter().all(|it| it == "SUCCESS"));
    let kinds = env.event_types();
    for kind in ["FIX_LOOP_TRIGGERED", "FIX_LOOP_ATTEMPT"] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), 2, "{kind} in {kinds:?}");
    }
    let path = env.run_dir().join("tasks/pipeline-task-1-fix-1.json");
    let contract: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(contract["parent_task_id"], "pipeline-task-1");
    let artifacts = contract["inputs"]["artifacts"].as_array().unwrap();
    let failed: Vec<&Value> = artifacts.iter().filter(|it| it["name"] == "failed_evidence").collect();
    assert!(failed.iter().any(|it| it["uri"].as_str().unwrap().ends_with("gates.json")), "{artifacts:?}");
    let gates = failed.iter().find(|it| it["uri"].as_str().unwrap().ends_with("gates.json")).unwrap();
    let bytes = std::fs::read(env.root.join(gates["uri"].as_str().unwrap())).unwrap();
    assert_eq!(gates["sha256"], contract::hash::sha256(&bytes).to_string());
    holds(&env);
}

#[test]
fn a_change_that_a_reviewer_blocks_is_fixed_and_the_next_agent_sees_what_was_found() {
    let worker = r#"
fixing = "-fix-" in task
if fixing: assert "a.txt:1 too short" in q["context"]["notes"] or "b.txt" in task or "-2-" in task, q["context"]["notes"]
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "done, and more\n" if fixing else "done\n")
say()"#;
    let reviewer = r#"
assert "+done" in q["context"]["review"]["diff"] and q["contract"]["id"] == q["context"]["review"]["task_id"]
short = get("src/a.txt") == "done\n" and "src/a.txt" in q["context"]["review"]["files"]
found = [{"path": "src/a.txt", "line": 1, "severity": "blocking", "message": "too short"}, {"path": "src/a.txt", "severity": "note", "message": "odd"}]
say({"verdict": "FAIL", "summary": "short", "findings": found}) if short else passes()"#;
    let mut agents = all_but("worker", worker);
    agents.retain(|(role, _)| *role != "reviewer");
    agents.push(("reviewer", reviewer));
    let env = world(&agents);
    pipeline(&env).success();
    let view = shown(&env);
    assert_eq!(column(&view, "fixes", "cause"), ["review"]);
    assert_eq!(column(&view, "fixes", "parent_task_id"), ["pipeline-task-1"]);
    let report = env.run_dir().join("reviews/pipeline-task-1.json");
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(report["scope_check"]["violations"], json!(["blocking: src/a.txt:1 too short"]));
    assert_eq!(report["evidence"][0]["path"], "reviews/pipeline-task-1/findings.json");
    let findings = env.run_dir().join("reviews/pipeline-task-1/findings.json");
    let findings: Value = serde_json::from_slice(&std::fs::read(findings).unwrap()).unwrap();
    assert_eq!(findings.as_array().unwrap().len(), 2);
    holds(&env);
}

#[test]
fn a_task_that_is_not_fixed_in_time_is_given_up_and_the_others_land() {
    let worker = r#"
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "bad\n" if "a.txt" in path else "done\n")
say()"#;
    let env = world(&all_but("worker", worker));
    pipeline(&env).exits(1);
    let view = shown(&env);
    assert_eq!(column(&view, "fixes", "task_id"), ["pipeline-task-1-fix-1", "pipeline-task-1-fix-2"]);
    assert!(column(&view, "fixes", "status").iter().all(|it| it == "FAILED"));
    let exhausted = env.event("FIX_LOOP_EXHAUSTED");
    assert_eq!((&exhausted["attempts"], &exhausted["task_id"]), (&json!(2), &json!("pipeline-task-1")));
    assert_eq!(exhausted["tried"].as_array().unwrap().len(), 3);
    assert_eq!(env.git(&["show", "HEAD:src/b.txt"]).trim(), "done");
    assert_eq!(env.git(&["show", "HEAD:src/a.txt"]).trim(), "to do");
    holds(&env);
}

#[test]
fn a_change_outside_of_its_scope_is_never_fixed_or_reviewed() {
    let worker = r#"put("src/other.txt", "mine\n"); put("src/a.txt", "done\n"); put("src/b.txt", "done\n"); say()"#;
    let env = world(&all_but("worker", worker));
    pipeline(&env).exits(1);
    let view = shown(&env);
    assert_eq!((&view["fixes"], &view["reviews"]), (&json!([]), &json!([])));
    let kinds = env.event_types();
    assert!(kinds.iter().any(|it| it == "policy_violation"));
    assert!(!kinds.iter().any(|it| it.starts_with("FIX_LOOP") || it.starts_with("REVIEW")), "{kinds:?}");
    assert_eq!(env.git(&["show", "HEAD:src/a.txt"]).trim(), "to do");
    holds(&env);
}

/// Two parts that share a file, which their tech lead has declared.
#[test]
fn parts_that_share_a_path_follow_each_other_where_that_is_declared() {
    let tech_lead = r#"say({"contracts": [{"spec": x, "allowed_paths": ["src/a.txt"], "file_lock": True,
    "acceptance_tests": test("grep -q %s src/a.txt" % x)} for x in ["one", "two"]]})"#;
    let worker = r#"put("src/a.txt", get("src/a.txt") + q["goal"].split()[0] + " done\n"); say()"#;
    let agents: Vec<_> = all_but("tech_lead", tech_lead)
        .into_iter()
        .map(|(role, body)| (role, if role == "worker" { worker } else { body }))
        .collect();
    let env = world(&agents);
    pipeline(&env).success();
    assert_eq!(env.git(&["show", "HEAD:src/a.txt"]), "to do\none done\ntwo done");
}

/// Killed while a worker fixes something: nothing is lost, and nothing is done twice.
#[test]
fn a_pipeline_that_is_killed_continues_where_it_was() {
    let worker = r#"
import time
fixing = "-fix-" in task
if fixing and not os.path.exists("/tmp/never"):
    open(os.path.join(q["paths"]["step_dir"], "at-work"), "w").write("x")
    time.sleep(2)
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "done\n" if fixing else "half\n")
say()"#;
    let env = world(&all_but("worker", worker));
    let running = env.spawn(&["pipeline", "both files say done", "--yes"]);
    eventually("a fix is under way", || {
        let log = env.root.join(".norma/runs");
        let runs = std::fs::read_dir(log).into_iter().flatten().flatten();
        runs.into_iter().any(|run| {
            std::fs::read_to_string(run.path().join("events.jsonl")).is_ok_and(|text| text.contains("FIX_LOOP_ATTEMPT"))
        })
    });
    running.signal("KILL");
    drop(running.wait());
    env.norma(&["resume", "@last"]).success();
    let view = shown(&env);
    assert_eq!(view["status"], "succeeded");
    assert_eq!(column(&view, "fixes", "attempt").len(), 2);
    let kinds = env.event_types();
    assert_eq!(kinds.iter().filter(|it| *it == "FIX_LOOP_ATTEMPT").count(), 2);
    assert_eq!(kinds.iter().filter(|it| *it == "contract_made").count(), 3);
    holds(&env);
}
