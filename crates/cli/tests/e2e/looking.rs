//! Verbs that look: what runs and waits, what was printed, which configuration counts; tasks that are changed or removed;
//! and what happens where something was typed wrong.

use crate::batches::with_worker;
use crate::environment::TestEnvironment;
use crate::terminals::waiting_run;
use serde_json::{Value, json};

#[test]
fn status_says_what_runs_waits_and_needs_somebody_with_the_command_for_each() {
    let env = TestEnvironment::new(json!({}));
    insta::assert_snapshot!(env.norma(&["status"]), @"
    ready      task 1  make two loud
                 norma run 1
    [exit 0]
    ");
    let running = waiting_run(&env, &["run", "1"]);
    let now = env.json(&["status"]);
    let run = env.last()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(now["running"][0]["run_id"], json!(run));
    assert_eq!(now["running"][0]["turns"], json!(["do"]));
    assert_eq!(now["owner"]["pid"], json!(running.pid()));
    running.signal("INT");
    running.wait().exits(130);
    let now = env.json(&["status"]);
    assert_eq!(now["paused"][0]["commands"], json!([format!("norma resume {run}"), format!("norma cancel {run}")]));
    assert_eq!((&now["running"], &now["owner"], &now["needs_you"]), (&json!([]), &Value::Null, &json!([])));
    insta::assert_snapshot!(env.norma(&["status"]), @"
    paused     <run>  make two loud (interrupted)
                 norma resume <run> · norma cancel <run>
    [exit 0]
    ");
}

#[test]
fn status_names_approvals_that_are_needed() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    env.norma(&["run", "--goal", "new", "--agent", "worker", "--allow", "src"]).exits(3);
    let now = env.json(&["status"]);
    let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(now["needs_you"][0]["commands"][0], json!(format!("norma approve {id}")));
    assert_eq!(now["needs_you"][0]["kind"], "approval");
    assert!(env.norma(&["status"]).raw.starts_with("needs you "), "{now}");
    env.norma(&["approve", &id]).success();
    let now = env.json(&["status"]);
    assert!(now["needs_you"][0]["commands"][0].as_str().unwrap().starts_with("norma resume "), "{now}");
}

#[test]
fn logs_are_those_of_agents_and_tests() {
    let env = with_worker("echo 'I look at it' >&2; echo four >> src/lib.txt");
    env.write("t.sh", "echo '1 passed'; printf '\\033]0;title\\007oops\\n' >&2\n");
    env.commit("a test");
    env.norma(&["run", "--goal", "x", "--agent", "worker", "--allow", "src/lib.txt", "--test", "sh t.sh"]).success();
    insta::assert_snapshot!(env.norma(&["logs"]), @r#"
    == steps/001-worker/logs/stderr.txt
    I look at it
    == steps/001-worker/logs/stdout.txt
    {"version":1,"status":"ok","summary":"did it"}
    == changes/001/tests/1/stderr.log
    ]0;titleoops
    == changes/001/tests/1/stdout.log
    1 passed
    [exit 0]
    "#);
    assert_eq!(env.norma(&["logs", "@last", "--step", "1"]).raw, env.norma(&["logs"]).raw);
    let none = env.norma(&["logs", "--step", "7"]);
    assert_eq!(none.success().raw, "nothing was printed; what happened: norma events\n");
    let lines: Vec<Value> =
        env.norma(&["logs", "--json"]).raw.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(
        lines.iter().any(|log| log["path"] == "steps/001-worker/logs/stderr.txt" && log["text"] == "I look at it\n")
    );
    assert!(lines.iter().all(|log| log["step"] == 1), "{lines:?}");
    let shown = at_a_terminal(&env, "logs");
    assert!(shown.contains("\\u{1b}]0;title\\u{7}oops") && !shown.contains("\u{1b}]0"), "{shown:?}");
    let followed = env.norma(&["logs", "--follow"]);
    assert_eq!(followed.success().raw, env.norma(&["logs"]).raw);
}

fn at_a_terminal(env: &TestEnvironment, verb: &str) -> String {
    let typed = format!("'{}' {verb}", env!("CARGO_BIN_EXE_norma"));
    env.output_of("script", &["-qec", &typed, "/dev/null"]).raw
}

#[test]
fn the_status_of_a_repository_that_never_saw_norma_says_how_to_start() {
    let env = TestEnvironment::unseen();
    assert!(env.norma(&["status"]).success().raw.contains("norma run \"what you want\""));
    assert_eq!(env.json(&["status"])["running"], json!([]));
    assert!(!env.root.join(".norma").exists());
}

#[test]
fn the_configuration_is_shown_with_where_each_value_is_from() {
    let env = TestEnvironment::initialized();
    env.write(".norma/config.json", r#"{"budgets": {"max_iterations": 9}, "landing": {"mode": "branch"}}"#);
    let value = |shown: &Value, key: &str| -> Value {
        let values = shown["values"].as_array().unwrap();
        values.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("no {key}: {shown}")).clone()
    };
    let shown = env.json(&["config", "show"]);
    assert_eq!(shown["trusted"], false);
    assert_eq!(
        value(&shown, "budgets.max_iterations"),
        json!({"key": "budgets.max_iterations", "value": 9, "origin": "repository_untrusted"})
    );
    env.norma(&["trust"]).success();
    let shown = env.json(&["config", "show", "--origin"]);
    assert_eq!(
        value(&shown, "landing.mode"),
        json!({"key": "landing.mode", "value": "branch", "origin": "repository"})
    );
    assert_eq!(value(&shown, "limits.step_seconds")["origin"], "default");
    let text = env.norma(&["config", "show", "--origin"]);
    assert!(text.raw.contains("budgets.max_iterations") && text.raw.contains("# repository, trusted"), "{text}");
    assert!(!env.norma(&["config", "show"]).raw.contains('#'));
    std::fs::write(env.dir.join("other.json"), r#"{"budgets": {"max_iterations": 2}}"#).unwrap();
    let shown = env.json(&["--config", &env.at("other.json"), "config", "show"]);
    assert_eq!(value(&shown, "budgets.max_iterations")["origin"], "command_line");
    // Where the repository has none, the user's own counts.
    std::fs::remove_file(env.root.join(".norma/config.json")).unwrap();
    std::fs::create_dir_all(env.dir.join("home/.config/norma")).unwrap();
    std::fs::write(env.dir.join("home/.config/norma/config.json"), r#"{"default_agent": "claude"}"#).unwrap();
    let shown = env.json(&["config", "show"]);
    assert_eq!(value(&shown, "default_agent"), json!({"key": "default_agent", "value": "claude", "origin": "user"}));
}

#[test]
fn a_key_that_is_misspelt_and_an_agent_that_is_not_there_are_told_what_was_meant() {
    let env = with_worker("true");
    env.write(".norma/config.json", r#"{"budgets": {"max_iteratoins": 9}}"#);
    let refused = env.norma(&["config", "show"]);
    assert!(refused.exits(2).raw_err.contains("did you mean \"max_iterations\"?"), "{refused}");
}

#[test]
fn a_task_can_be_changed_and_removed_while_no_run_works_on_it() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["task", "add", "second"]).success();
    env.norma(&["task", "link", "2", "--depends-on", "1"]).success();
    insta::assert_snapshot!(env.norma(&["task", "rm", "1"]), @"
    ! error: task 2 waits for task 1, so it is not removed
    [exit 2]
    ");
    env.norma(&["task", "edit", "2", "--goal", "another", "--ac", "it holds"]).success();
    let task = env.json(&["task", "show", "2"]);
    assert_eq!((&task["goal"], &task["acceptance_criteria"][0]["text"]), (&json!("another"), &json!("it holds")));
    env.norma(&["task", "edit", "2", "--no-ac"]).success();
    assert_eq!(env.json(&["task", "show", "2"])["acceptance_criteria"], json!([]));
    env.norma(&["task", "edit", "2"]).exits(2);
    env.norma(&["task", "rm", "2"]).success();
    env.norma(&["task", "show", "2"]).exits(2);
    // A number is not given again, and the log has all of it.
    assert_eq!(env.json(&["task", "add", "third"]), json!({"id": 3}));
    env.norma(&["reindex"]).success();
    let ids: Vec<Value> = env.json(&["task", "list"]).as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(3)]);
    let running = waiting_run(&env, &["run", "1"]);
    for refused in [["task", "rm", "1"].as_slice(), &["task", "edit", "1", "--goal", "x"]] {
        let output = env.norma(refused);
        assert!(output.raw_err.contains("a run of task 1 has not ended"), "{output}");
    }
    env.touch("go");
    running.wait().success();
    env.norma(&["task", "rm", "1"]).success();
    env.norma(&["show"]).success();
    env.norma(&["verify", "--all"]).success();
}

#[test]
fn the_newest_run_is_meant_where_none_is_named() {
    let env = TestEnvironment::with_patch(crate::environment::PATCH);
    env.norma(&["run", "1"]).success();
    for verb in ["show", "diff", "events", "verify", "why", "logs"] {
        let (named, plain) = (env.norma(&[verb, "@last"]), env.norma(&[verb]));
        assert_eq!(plain.success().raw, named.raw, "{verb}");
    }
    env.norma(&["undo"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
}

#[test]
fn usage_errors_are_json_where_json_was_asked_for() {
    let env = TestEnvironment::initialized();
    for args in
        [["rnu", "--json"].as_slice(), &["--json", "show", "--nope"], &["task", "show", "--json"], &["batch", "--json"]]
    {
        let output = env.norma(args);
        output.exits(2);
        assert_eq!(output.raw_err, "", "{args:?}");
        let value: Value = serde_json::from_str(&output.raw).unwrap_or_else(|e| panic!("{e}: {output}"));
        assert!(value["error"].as_str().is_some_and(|it| !it.is_empty()), "{value}");
        assert_eq!(value["code"], 2);
        assert!(value["details"].is_object(), "{value}");
    }
    let value = env.json(&["statsu"]);
    assert!(value["details"]["hint"].as_str().unwrap().contains("status"), "{value}");
    // Help is no error, and text stays text.
    assert!(env.norma(&["show", "--help", "--json"]).success().raw.contains("Usage: norma show"));
    assert!(env.norma(&["rnu"]).exits(2).raw_err.contains("unrecognized subcommand"));
}

#[test]
fn doctor_is_content_where_contracts_can_run() {
    let env = with_worker("true");
    let output = env.norma(&["doctor"]);
    assert!(output.success().raw.contains("warn  agents     no agent for plan, do, check, act"), "{output}");
    let unseen = TestEnvironment::unseen();
    let told = unseen.json(&["doctor"]);
    let state = told["checks"].as_array().unwrap().iter().find(|check| check["name"] == "state").unwrap().clone();
    assert_eq!(state["status"], "info", "{state}");
    assert!(told["checks"].as_array().unwrap().iter().any(|check| check["name"] == "agent"), "{told}");
}
