//! What a pipeline does where nothing goes wrong, and where somebody is not there.

use super::world::{ALL, PM, REVIEWER, WORKER, all_but, column, holds, pipeline, shown, world, world_with};
use crate::environment::TestEnvironment;
use serde_json::json;

/// The files as the branch has them.
fn landed(env: &TestEnvironment) -> [String; 2] {
    ["a", "b"].map(|name| env.git(&["show", &format!("HEAD:src/{name}.txt")]))
}

#[test]
fn a_sentence_is_planned_split_worked_on_reviewed_tested_and_merged() {
    let env = world(&ALL);
    pipeline(&env).success();
    assert_eq!(landed(&env).map(|text| text.trim().to_owned()), ["done", "done"]);
    let view = shown(&env);
    assert_eq!(view["status"], "succeeded");
    assert_eq!(
        column(&view, "stages", "stage"),
        ["S0", "S1", "S2", "S2", "S3", "S3", "S4", "S4", "S4", "S6"],
        "{}",
        view["stages"]
    );
    assert!(column(&view, "stages", "status").iter().all(|status| status == "SUCCESS"), "{}", view["stages"]);
    assert_eq!(column(&view, "contracts", "task_id"), ["pipeline-task", "pipeline-task-1", "pipeline-task-2"]);
    assert_eq!(column(&view, "contracts", "parent_task_id"), ["", "pipeline-task", "pipeline-task"]);
    assert_eq!(view["contracts"][1]["allowed_paths"], json!(["src/a.txt"]));
    assert_eq!(column(&view, "reviews", "verdict"), ["PASS", "PASS"]);
    assert_eq!(view["fixes"], json!([]));
    let kinds = env.event_types();
    for kind in ["STATE_TRANSITION", "REVIEW_RESULT", "REVIEWER_GATE_RESULT", "TEST_RESULT", "OUTPUT_SCHEMA_ENFORCED"] {
        assert!(kinds.iter().any(|it| it == kind), "{kind} is not in {kinds:?}");
    }
    let run = env.run_dir();
    let contract: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("tasks/pipeline-task-1.json")).unwrap()).unwrap();
    assert_eq!(contract["parent_task_id"], "pipeline-task");
    assert_eq!(contract["inputs"]["spec"], "src/a.txt says done");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("reviews/pipeline-task-1.json")).unwrap()).unwrap();
    assert_eq!((&report["verdict"], &report["produced_diff"]), (&json!("PASS"), &json!(false)));
    assert_eq!(report["reviewer"]["agent_id"], "reviewer");
    assert!(run.join("reviews/pipeline-task-1/findings.json").is_file());
    holds(&env);
}

/// Whoever writes contracts writes nothing else, whatever it tries.
#[test]
fn those_who_write_contracts_change_nothing_and_are_told_what_norma_fills() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let pm = r#"
try: put("src/a.txt", "mine\n")
except OSError: pass
import socket
try:
    socket.create_connection(("127.0.0.1", PORT), 1)
    sys.exit("it reached something else than its model")
except OSError: pass
skeleton = q["context"]["skeleton"]
assert skeleton["task_id"] == "pipeline-task" and skeleton["inputs"]["artifacts"][0]["sha256"]
skeleton["inputs"]["spec"] = "a says done"
skeleton["allowed_paths"] = ["src/a.txt"]
skeleton["acceptance_tests"] = test("grep -q done src/a.txt")
say(skeleton)"#
        .replace("PORT", &port);
    let env = world(&[("pm", &pm), ("worker", WORKER)]);
    pipeline(&env).success();
    let view = shown(&env);
    assert_eq!(landed(&env).map(|text| text.trim().to_owned()), ["done", "to do"]);
    assert_eq!(column(&view, "contracts", "task_id"), ["pipeline-task"]);
    assert_eq!(view["stages"][1]["status"], "SUCCESS", "nobody splits it, so it stays one");
    holds(&env);
}

#[test]
fn a_review_that_nobody_was_asked_for_is_blocked_and_blocks_nothing() {
    let env = world(&[("pm", PM), ("worker", WORKER)]);
    pipeline(&env).success();
    let view = shown(&env);
    assert_eq!(column(&view, "reviews", "verdict"), ["BLOCKED"]);
    assert_eq!(view["reviews"][0]["summary"], "not requested");
    let of = |stage: &str| {
        let stages = view["stages"].as_array().unwrap().iter();
        stages.filter(|it| it["stage"] == stage).map(|it| it["status"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((of("S3"), of("S4")), (vec![json!("BLOCKED")], vec![json!("SUCCESS")]));
}

#[test]
fn a_person_stands_in_for_who_writes_contracts() {
    let env = world(&[("worker", WORKER), ("reviewer", REVIEWER)]);
    let plan = json!({"contracts": [
        {"spec": "a", "allowed_paths": ["src/a.txt"], "acceptance_tests": [{"name": "t", "cmd": "grep -q done src/a.txt", "must_pass": true}]},
        {"spec": "b", "allowed_paths": ["src/b.txt"], "acceptance_tests": [{"name": "t", "cmd": "grep -q done src/b.txt", "must_pass": true}]},
    ]});
    std::fs::write(env.dir.join("plan.json"), plan.to_string()).unwrap();
    env.norma(&["pipeline", "both say done", "--plan", &env.at("plan.json"), "--yes"]).success();
    assert_eq!(landed(&env).map(|text| text.trim().to_owned()), ["done", "done"]);
    let contract = env.norma(&[
        "contract",
        "new",
        "--goal",
        "a again",
        "--allow",
        "src/a.txt",
        "--test",
        "grep -q done src/a.txt",
    ]);
    std::fs::write(env.dir.join("contract.json"), contract.success().raw.clone()).unwrap();
    env.norma(&["pipeline", "--contract", &env.at("contract.json"), "--yes"]).success();
    let view = shown(&env);
    assert_eq!(column(&view, "reviews", "verdict"), ["PASS"]);
    holds(&env);
}

/// Nothing starts before somebody has seen what would.
#[test]
fn a_pipeline_that_nobody_confirms_is_shown_and_not_started() {
    let env = world(&ALL);
    let left = env.norma(&["pipeline", "both files say done", "--json"]);
    left.exits(3);
    let value: serde_json::Value = serde_json::from_str(&left.raw).unwrap();
    assert_eq!(
        value["seats"],
        json!({"pm": "pm", "tech_lead": "tech_lead", "worker": "worker", "reviewers": ["reviewer"]})
    );
    assert_eq!(env.json(&["runs"]), json!([]));
    env.norma(&["pipeline"]).exits(2);
    env.norma(&["pipeline", "x y", "--worker", "nobody", "--yes"]).exits(4);
}

/// As many reviewers as the configuration says, and as many of them as it says must let a change pass.
#[test]
fn a_quorum_of_reviewers_decides() {
    let strict = r#"say({"verdict": "FAIL", "summary": "no", "findings": []})"#;
    let agents = [&ALL[..], &[("reviewer2", strict)]].concat();
    let env = world_with(&agents, |config| config["pipeline"] = json!({"reviewers": 2, "quorum": 1}));
    pipeline(&env).success();
    assert_eq!(column(&shown(&env), "reviews", "verdict"), ["PASS", "FAIL", "PASS", "FAIL"]);
    let env = world_with(&agents, |config| config["pipeline"] = json!({"reviewers": 2, "quorum": 2}));
    pipeline(&env).exits(1);
    assert_eq!(shown(&env)["reason"], "items_failed");
    let env = TestEnvironment::initialized();
    env.write(
        ".norma/config.json",
        &json!({"budgets": {"max_iterations": 1}, "pipeline": {"reviewers": 1, "quorum": 2}}).to_string(),
    );
    assert!(env.norma(&["trust"]).err().contains("/pipeline/quorum"));
}

/// One worker under one contract is reviewed, too, where its chain names a reviewer.
#[test]
fn a_contract_that_is_handed_on_to_a_reviewer_is_reviewed_or_refused() {
    let worker = r#"put("src/a.txt", "done\n")
say({"task_id": task, "status": "SUCCESS", "summary": "s", "evidence_refs": {}, "failure": None})"#;
    let env = world(&all_but("worker", worker));
    let contract =
        env.norma(&["contract", "new", "--goal", "a", "--allow", "src/a.txt", "--test", "grep -q done src/a.txt"]);
    let mut contract: serde_json::Value = serde_json::from_str(&contract.success().raw).unwrap();
    contract["handoff_chain"] = json!({"enabled": true, "roles": ["WORKER", "REVIEWER", "TEST_RUNNER"]});
    std::fs::write(env.dir.join("contract.json"), contract.to_string()).unwrap();
    env.norma(&["run", &env.at("contract.json")]).success();
    assert_eq!(column(&shown(&env), "reviews", "verdict"), ["PASS"]);
    holds(&env);
    let alone = world(&[("worker", WORKER)]);
    std::fs::write(alone.dir.join("contract.json"), contract.to_string()).unwrap();
    let refused = alone.norma(&["run", &alone.at("contract.json")]);
    refused.exits(2);
    assert!(refused.err().contains("/handoff_chain/roles/1: no reviewer is configured"), "{}", refused.err());
}

/// What was typed is reviewed, too, where there is somebody for it.
#[test]
fn a_sentence_under_one_contract_is_reviewed_where_a_reviewer_is_configured() {
    let env = world(&[("worker", WORKER), ("reviewer", REVIEWER)]);
    let typed = ["run", "a says done", "--allow", "src/a.txt", "--test", "grep -q done src/a.txt", "--yes"];
    let ran = env.norma(&typed);
    ran.success();
    assert!(ran.err().contains("reviewed by reviewer before it is tested"), "{}", ran.err());
    assert_eq!(column(&shown(&env), "reviews", "verdict"), ["PASS"]);
    holds(&env);
}

/// The same sentence over HTTP: shown first, and with `run` and `pipeline` it goes through every stage.
#[test]
fn a_pipeline_is_started_over_http() {
    let env = world(&ALL);
    let served = crate::serve::serve(&env);
    let body = json!({"sentence": "both files say done", "pipeline": true});
    served.ask("POST", "/api/intake", Some(&body)).with(200);
    assert_eq!(served.get("/api/runs")["runs"], json!([]), "nothing was started");
    let body = json!({"sentence": "both files say done", "pipeline": true, "run": true});
    let run = served.ask("POST", "/api/intake", Some(&body)).with(201)["run"]["slug"].as_str().unwrap().to_owned();
    crate::environment::eventually("it has landed", || {
        served.get(&format!("/api/runs/{run}?view=norma"))["status"] == "succeeded"
    });
    assert_eq!(landed(&env).map(|text| text.trim().to_owned()), ["done", "done"]);
    let view = served.get(&format!("/api/runs/{run}?view=norma"));
    assert_eq!(column(&view, "reviews", "verdict"), ["PASS", "PASS"]);
}

/// Whoever is shown the one contract of a sentence can have it go through a pipeline instead, with one key.
#[test]
fn the_contract_of_a_sentence_is_handed_to_a_pipeline_with_a_key() {
    let env = world(&ALL);
    let norma = env!("CARGO_BIN_EXE_norma");
    let typed =
        format!("echo p | script -qec \"'{norma}' run 'src/a.txt and src/b.txt say done' --agent worker\" /dev/null");
    let said = env.output_of("sh", &["-c", &typed]);
    said.success();
    assert!(said.raw.contains("p pipeline"), "{}", said.raw);
    assert_eq!(landed(&env).map(|text| text.trim().to_owned()), ["done", "done"]);
    assert_eq!(column(&shown(&env), "reviews", "verdict"), ["PASS", "PASS"]);
}
