//! Contracts and batches: what lands whole, what leaves no trace, and in which order.

use crate::environment::{TestEnvironment, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A worker that finds out which item it is for and then does what a shell script of the repository says.
const WORKER: &str = r#"#!/bin/sh
request=$(cat)
id=$(printf %s "$request" | sed -n 's/.*"contract":{"id":"\([^"]*\)".*/\1/p')
. agents/do.sh
echo '{"version":1,"status":"ok","summary":"did it"}'
"#;

/// An environment whose worker does this, with `$id` for the item's id.
pub(crate) fn with_worker(script: &str) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write("agents/worker.sh", WORKER);
    env.write("agents/do.sh", script);
    env.git(&["update-index", "--add", "--chmod=+x", "agents/worker.sh"]);
    std::fs::set_permissions(env.root.join("agents/worker.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    env.commit("a worker");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
    });
    env
}

pub(crate) fn item(id: &str, change: Value) -> Value {
    let mut item = json!({"id": id, "agent_id": "agent-1", "description": format!("do {id}"), "dependencies": []});
    for (name, value) in change.as_object().unwrap() {
        item[name] = value.clone();
    }
    item
}

/// Runs items and answers their results.
pub(crate) fn batch(env: &TestEnvironment, items: &[Value], code: i32) -> Vec<Value> {
    env.write("items.json", &Value::from(items.to_vec()).to_string());
    let output = env.norma(&["batch", "items.json", "--jobs", "4", "--json"]);
    output.exits(code);
    serde_json::from_str(&output.raw).unwrap_or_else(|e| panic!("{e}: {}", output.raw))
}

/// A run of two items that have changed the same line, so that the second could not be merged; and its slug.
pub(crate) fn conflicting() -> (TestEnvironment, String) {
    let env = with_worker("echo $id > text");
    env.write("text", "one\n");
    env.commit("a line");
    env.write("items.json", &json!([item("a", json!({})), item("b", json!({}))]).to_string());
    env.norma(&["batch", "items.json", "--jobs", "1", "--json"]);
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    (env, slug)
}

fn statuses(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["status"].as_str().unwrap()).collect()
}

fn state_hash(env: &TestEnvironment) -> String {
    env.json(&["hash", "HEAD"])["hash"].as_str().unwrap().to_owned()
}

#[test]
fn the_usage_example_of_the_document_runs_as_it_stands() {
    let env = with_worker("mkdir -p docs/contracts && echo KnowledgeStore > docs/contracts/KnowledgeStore.contract.md");
    env.write("validate-contract.mjs", "import {readFileSync} from 'node:fs';\nif (!readFileSync(`docs/contracts/${process.argv[2]}.contract.md`, 'utf8').includes(process.argv[2])) process.exit(1);\n");
    env.commit("a validator");
    let results = batch(
        &env,
        &[json!({
            "id": "work-item-1", "agent_id": "agent-1", "description": "Implement KnowledgeStore contract",
            "dependencies": [],
            "constraints": {"max_files": 5, "max_tool_ops": 20, "max_delta_size": 50, "timeout_ms": 60000},
            "budget": {"time_estimate_ms": 30000, "complexity": "medium"},
            "output_files": ["/docs/contracts/KnowledgeStore.contract.md"],
            "test_command": "node validate-contract.mjs KnowledgeStore",
        })],
        0,
    );
    assert_eq!(statuses(&results), ["success"]);
    let made = env.root.join("docs/contracts/KnowledgeStore.contract.md");
    assert_eq!(results[0]["created_files"], json!([made]));
    assert_eq!(results[0]["output_hash"], state_hash(&env));
    let receipt: Value =
        serde_json::from_slice(&std::fs::read(results[0]["receipt_path"].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!(receipt["id"], results[0]["receipt_id"]);
    let message = env.git(&["log", "-1", "--format=%B"]);
    for trailer in ["Norma-Run: ", "Norma-Receipt: sha256:", "Norma-Contract: "] {
        assert!(message.contains(trailer), "{message}");
    }
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn an_item_that_fails_leaves_the_state_bit_for_bit_as_it_was() {
    let env = with_worker(
        "echo x > new; rm README.md; chmod +x src/lib.txt; ln -s /etc/passwd l; echo y >> src/lib.txt; exit 3",
    );
    let (before, repository) = (state_hash(&env), env.repository());
    let results = batch(&env, &[item("a", json!({}))], 1);
    assert_eq!(statuses(&results), ["failure"]);
    assert!(results[0]["error"].as_str().unwrap().contains("exit code 3"));
    assert_eq!(state_hash(&env), before);
    let after = env.repository();
    assert_eq!(
        repository.keys().filter(|key| **key != "items.json").collect::<Vec<_>>(),
        after.keys().filter(|key| *key != "items.json").collect::<Vec<_>>()
    );
    assert!(results[0]["receipt_id"].is_string());
}

#[test]
fn an_agent_that_is_killed_does_not_take_the_others_with_it() {
    let env = TestEnvironment::initialized();
    let (started, killed) = (env.at("b-started"), env.at("a-killed"));
    // One waits until the other has been killed, and that one is not killed before the first one is there.
    let script = format!(
        r#"case "$(cat)" in *'"contract":{{"id":"a"'*) until test -e '{started}'; do sleep 0.01; done; kill -9 $$ ;; esac
touch '{started}'; until test -e '{killed}'; do sleep 0.01; done
echo hi > b.txt; echo '{{"version":1,"status":"ok","summary":"did it"}}'
"#
    );
    std::fs::write(env.dir.join("worker.sh"), script).unwrap();
    env.configure(|config| {
        config["sandbox"] = json!({"backend": "none"});
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["/bin/sh", env.at("worker.sh")]}});
    });
    env.write("items.json", &Value::from(vec![item("a", json!({})), item("b", json!({}))]).to_string());
    let running = env.spawn(&["batch", "items.json", "--jobs", "2", "--json"]);
    env.wait_for("b-started");
    eventually("the killed turn is on record", || {
        env.events().iter().any(|event| event["task_id"] == "a" && event["type"] == "step_committed")
    });
    env.touch("a-killed");
    let output = running.wait();
    output.exits(1);
    let results: Vec<Value> = serde_json::from_str(&output.raw).unwrap();
    assert_eq!(statuses(&results), ["failure", "success"], "{output}");
    assert!(results[0]["error"].as_str().unwrap().contains("signal 9"), "{output}");
    assert_eq!(env.read("b.txt"), "hi\n");
}

#[test]
fn admission_refuses_in_the_words_of_the_document() {
    let env = with_worker("echo 1 > one; echo 2 > two");
    let before = state_hash(&env);
    let limited = |limits: Value| item("a", json!({"constraints": limits}));
    let results = batch(&env, &[limited(json!({"max_files": 1}))], 1);
    assert_eq!((statuses(&results)[0], &results[0]["denial_reason"]), ("denied", &json!("Exceeded max files: 2 > 1")));
    let results = batch(&env, &[limited(json!({"max_delta_size": 1}))], 1);
    assert_eq!(results[0]["denial_reason"], "Exceeded max delta size: 2 > 1");
    assert_eq!(state_hash(&env), before);
    assert_eq!(statuses(&batch(&env, &[limited(json!({"max_files": 2}))], 0)), ["success"]);
}

#[test]
fn a_test_that_fails_drops_the_change_and_its_output_is_kept() {
    let env = with_worker("echo 1 > one");
    env.write("t.sh", "echo junk > junk; echo it was bad; exit 1\n");
    env.commit("a test");
    let before = state_hash(&env);
    let results = batch(&env, &[item("a", json!({"test_command": "sh t.sh"}))], 1);
    assert_eq!(statuses(&results), ["failure"]);
    assert!(results[0]["error"].as_str().unwrap().starts_with("Tests failed"), "{results:?}");
    assert_eq!(results[0]["test_output"], "it was bad\n");
    assert_eq!(state_hash(&env), before);
    let types = env.event_types();
    assert!(types.contains(&"gate_failed".to_owned()), "{types:?}");
}

#[test]
fn what_is_expected_or_needed_and_missing_is_named() {
    let env = with_worker("echo 1 > one");
    let results = batch(&env, &[item("a", json!({"output_files": ["/two"]}))], 1);
    assert_eq!(statuses(&results), ["failure"]);
    assert!(results[0]["error"].as_str().unwrap().contains("two"));
    let results = batch(&env, &[item("a", json!({"input_files": ["nowhere"]}))], 1);
    assert_eq!(statuses(&results), ["denied"]);
    assert!(!env.event_types().contains(&"step_started".to_owned()), "no agent was started");
}

#[test]
fn an_item_that_takes_too_long_times_out() {
    let env = with_worker("sleep 100");
    let results = batch(&env, &[item("a", json!({"constraints": {"timeout_ms": 300}}))], 1);
    assert_eq!(statuses(&results), ["timeout"]);
}

#[test]
fn levels_follow_each_other_and_what_a_failure_holds_up_is_denied() {
    // Each says which of the others it can see.
    let env = with_worker(
        "[ $id != bad ] || exit 1; ls made 2>/dev/null | tr '\\n' ' ' > saw-$id; mkdir -p made; echo > made/$id",
    );
    let needs = |id: &str, needs: &[&str]| item(id, json!({"dependencies": needs}));
    let items = [
        needs("c", &["a", "b"]),
        needs("a", &[]),
        needs("b", &[]),
        needs("bad", &[]),
        needs("late", &["bad"]),
        needs("never", &["late"]),
    ];
    let results = batch(&env, &items, 1);
    assert_eq!(statuses(&results), ["success", "success", "success", "failure", "denied", "denied"]);
    assert_eq!(results[4]["denial_reason"], "dependency_failed: bad did not succeed");
    assert_eq!(
        (env.read("saw-a"), env.read("saw-b"), env.read("saw-c")),
        (String::new(), String::new(), "a b ".into())
    );
    assert_eq!(env.git(&["log", "--format=%s", "-3"]).lines().collect::<Vec<_>>(), ["do c", "do b", "do a"]);
    assert_eq!(env.last()["reason"], "items_failed");
}

#[test]
fn of_two_items_that_touch_the_same_file_the_first_lands_and_the_second_is_not_forced() {
    let env = with_worker("echo $id > src/lib.txt");
    let results = batch(&env, &[item("one", json!({})), item("two", json!({}))], 1);
    assert_eq!(statuses(&results), ["success", "denied"]);
    assert!(results[1]["denial_reason"].as_str().unwrap().contains("src/lib.txt"));
    assert_eq!(env.read("src/lib.txt"), "one\n");
}

#[test]
fn items_that_declare_the_same_paths_follow_each_other_and_both_land() {
    let env = with_worker("echo $id >> src/lib.txt");
    let declared = |id: &str| item(id, json!({"allowed_paths": ["src/lib.txt"]}));
    let results = batch(&env, &[declared("one"), declared("two")], 0);
    assert_eq!(statuses(&results), ["success", "success"]);
    assert!(env.read("src/lib.txt").ends_with("one\ntwo\n"));
}

#[test]
fn a_change_outside_its_paths_is_a_violation_and_a_reader_may_change_nothing() {
    let env = with_worker("echo $id > made-$id");
    let results =
        batch(&env, &[item("a", json!({"allowed_paths": ["src/lib.txt"]})), item("b", json!({"read_only": true}))], 1);
    assert_eq!(statuses(&results), ["denied", "denied"]);
    assert!(results[0]["denial_reason"].as_str().unwrap().contains("made-a"));
    assert_eq!(env.event_types().iter().filter(|kind| *kind == "policy_violation").count(), 2);
}

#[test]
fn a_batch_that_makes_no_sense_is_refused_whole_with_every_problem() {
    let env = with_worker("true");
    let needs = |id: &str, needs: &[&str]| item(id, json!({"dependencies": needs}));
    let items = [needs("a", &["b"]), needs("b", &["a"]), needs("c", &["nobody"]), needs("c", &[])];
    env.write("items.json", &Value::from(items.to_vec()).to_string());
    let refused = env.norma(&["batch", "items.json"]);
    refused.exits(2);
    for word in ["nobody", "/3/id", "/0"] {
        assert!(refused.err().contains(word), "{}", refused.err());
    }
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 0);
}

#[test]
fn the_same_change_does_not_land_twice_unless_it_is_asked_to() {
    let env = with_worker("echo 1 > one");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        config["landing"] = json!({"mode": "branch"});
    });
    let first = batch(&env, &[item("a", json!({}))], 0);
    let second = batch(&env, &[item("a", json!({}))], 1);
    assert_eq!(statuses(&second), ["denied"]);
    let pointer = first[0]["receipt_id"].as_str().unwrap();
    let why = second[0]["denial_reason"].as_str().unwrap();
    assert!(why.contains(pointer) && why.contains("has it already") && !why.contains("landed"), "{why}");
    let run = first[0]["receipt_path"].as_str().unwrap().split('/').nth_back(3).unwrap().to_owned();
    let shown = env.norma(&["show", &run]).to_string();
    assert!(shown.contains(&format!("on branch norma/{}, not landed", "<run>")), "{shown}");
    env.norma(&["batch", "items.json", "--new"]).success();
    assert_eq!(
        statuses(&batch(&env, &[item("other", json!({}))], 0)),
        ["success"],
        "another item with the same change"
    );
}

#[test]
fn a_task_contract_runs_and_its_answer_is_held_to_its_schema() {
    let result = r#"{"task_id":"t","status":"SUCCESS","summary":"s","evidence_refs":{},"failure":null}"#;
    for (answer, status) in [(result, "success"), (r#"{"task_id":7}"#, "failure")] {
        let env = with_worker(&format!(
            "echo x >> src/lib.txt; echo '{{\"version\":1,\"status\":\"ok\",\"result\":{answer}}}'; exit 0"
        ));
        let new = [
            "contract",
            "new",
            "--goal",
            "say x",
            "--allow",
            "src/lib.txt",
            "--test",
            "test -s src/lib.txt",
            "-o",
            "c.json",
        ];
        env.norma(&new).success();
        let output = env.norma(&["run", "c.json", "--json"]);
        let value: Value = serde_json::from_str(&output.raw).unwrap();
        assert_eq!(value["status"], status, "{value}");
        env.norma(&["verify", "@last"]).success();
        // Right after the turn is on record, so is what its answer was worth.
        let (events, types) = (env.events(), env.event_types());
        let turn = types.iter().position(|kind| kind == "step_committed").unwrap();
        let next = &events[turn + 1];
        match status {
            "success" => {
                let bound = &env.json(&["contract", "check", "c.json"])["items"][0]["output_schema"];
                assert_eq!(next["event_type"], "OUTPUT_SCHEMA_ENFORCED", "{types:?}");
                assert_eq!(next["payload"]["sha256"], bound["sha256"]);
            }
            _ => {
                assert_eq!(next["event_type"], "protocol_error", "{types:?}");
                let failed = events.iter().find(|event| event["event_type"] == "gate_failed").unwrap();
                assert_eq!(failed["payload"]["gate"], "output");
                assert!(!types.iter().any(|kind| kind == "OUTPUT_SCHEMA_ENFORCED"), "{types:?}");
            }
        }
        env.norma(&["replay", "@last"]).success();
    }
}

#[test]
fn a_wide_contract_waits_for_a_person_and_goes_on_once_somebody_said_yes() {
    let env = with_worker("echo $id > src/new.txt");
    env.with_most_in_src();
    env.write("items.json", &json!([item("a", json!({"allowed_paths": ["src"]}))]).to_string());
    let waiting = env.norma(&["batch", "items.json", "--json"]);
    waiting.exits(3);
    let value: Value = serde_json::from_str(&waiting.raw).unwrap();
    assert_eq!((&value["status"], &value["results"]), (&json!("waiting"), &json!([])));
    assert_eq!(value["approvals"][0]["id"], env.json(&["approvals"])[0]["id"]);
    env.norma(&["resume", "@last"]).exits(3);
    let asked = env.json(&["approvals"]);
    let id = asked[0]["id"].as_str().unwrap().to_owned();
    env.norma(&["approve", &id]).success();
    env.norma(&["batch", "items.json"]).success();
    assert_eq!(env.read("src/new.txt"), "a\n");
    env.norma(&["approve", &id]).exits(2);
    env.norma(&["verify", "@last"]).success();

    // More reasons than a line of the log has room for.
    let wide = |n: u32| item(&format!("w{n}"), json!({"allowed_paths": ["src"]}));
    env.write("items.json", &Value::from((0..50).map(wide).collect::<Vec<_>>()).to_string());
    env.norma(&["batch", "items.json"]).exits(3);
    let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    env.norma(&["deny", &id, "--reason", "too much"]).success();
    env.norma(&["batch", "items.json"]).exits(1);
    assert_eq!((&env.last()["status"], &env.last()["reason"]), (&json!("denied"), &json!("approval_denied")));
}

/// Killed at some moment and started again, a batch ends every item exactly once, on one line of commits.
#[test]
fn a_hundred_items_end_exactly_once_however_often_norma_is_killed() {
    // Slow enough that it has not ended when it is killed for the last time.
    let env = with_worker("sleep 0.3; echo $id > made-$id");
    let items: Vec<Value> = (0..100).map(|n| item(&format!("i{n}"), json!({}))).collect();
    env.write("items.json", &Value::from(items).to_string());
    let base = env.git(&["rev-parse", "HEAD"]).trim().to_owned();
    for kill_after in [150, 900, 400, 1700] {
        let running = env.spawn(&["batch", "items.json", "--jobs", "8"]);
        std::thread::sleep(std::time::Duration::from_millis(kill_after));
        running.signal("KILL");
        running.wait();
    }
    let output = env.norma(&["batch", "items.json", "--jobs", "8", "--json"]);
    output.success();
    let results: Vec<Value> = serde_json::from_str(&output.raw).unwrap();
    assert!(statuses(&results).iter().all(|status| *status == "success"), "{results:?}");
    let ended: Vec<Value> = env.events().into_iter().filter(|event| event["type"] == "item_ended").collect();
    let places: BTreeSet<u64> = ended.iter().map(|event| event["payload"]["item"].as_u64().unwrap()).collect();
    assert_eq!((results.len(), ended.len(), places.len()), (100, 100, 100));
    let line = env.git(&["log", "--format=%s %P", &format!("{base}..HEAD")]);
    let mut expected: Vec<String> = (0..100).map(|n| format!("do i{n}")).collect();
    expected.sort_by(|one, other| other.cmp(one));
    let subjects: Vec<&str> = line.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(subjects, expected, "one parent each, in order");
    assert_eq!(env.json(&["runs"]).as_array().unwrap().iter().filter(|run| run["status"] == "succeeded").count(), 1);
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_script_that_a_test_command_starts_must_pass_as_the_base_has_it() {
    let env = with_worker("printf '#!/bin/sh\\nexit 0\\n' > tests/t.sh; echo wrong > a.txt");
    env.write("tests/t.sh", "#!/bin/sh\ngrep -q right a.txt\n");
    env.git(&["update-index", "--add", "--chmod=+x", "tests/t.sh"]);
    std::fs::set_permissions(env.root.join("tests/t.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.commit("a test");
    let members = json!({"allowed_paths": ["a.txt", "tests/t.sh"], "test_command": "./tests/t.sh"});
    let mut strict = members.clone();
    strict["tests_policy"] = json!("both");
    let refused = batch(&env, &[item("a", strict)], 1);
    let why = refused[0]["error"].as_str().unwrap();
    assert!(why.contains("test_command with the baseline's tests: exit code 1"), "{why}");
    env.norma(&["replay", "@last"]).success();
    let mut own = members.clone();
    own["tests_policy"] = json!("candidate");
    batch(&env, &[item("b", own)], 0);
    env.git(&["revert", "--no-edit", "HEAD"]);
    // An honest change of the test: what it asks for holds by the old version, too.
    env.write("agents/do.sh", "echo '# more' >> tests/t.sh; echo right > a.txt");
    env.commit("another");
    batch(&env, &[item("c", members)], 0);
    env.norma(&["replay", "@last"]).success();
}

/// More items than a document of one contract has room for, or a batch once could have; what is sealed in pieces, too.
#[test]
fn a_batch_of_more_than_a_thousand_items_runs_is_sealed_shown_checked_and_replayed() {
    let env = TestEnvironment::initialized();
    let response = r#"{"version":1,"status":"ok","summary":"x","files":[],"next_actions":[],"errors":[]}"#;
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["/bin/echo", response]}});
        config["sandbox"] = json!({"backend": "none"});
    });
    let named = |place: usize| format!("i{place}");
    let needs = |place: usize| place.checked_sub(40).map(named).into_iter().collect::<Vec<_>>();
    let words = "w".repeat(1000);
    let items: Vec<Value> = (0..1040)
        .map(|place| {
            let change = json!({"read_only": true, "dependencies": needs(place), "description": words});
            item(&named(place), change)
        })
        .collect();
    let results = batch(&env, &items, 0);
    let ids = results.iter().map(|result| result["id"].as_str().unwrap().to_owned());
    assert!(ids.eq((0..1040).map(named)), "in the order of the file");
    assert!(results.iter().all(|result| result["status"] == "success"));
    let db = rusqlite::Connection::open(env.root.join(".norma/norma.db")).unwrap();
    let copies = "SELECT (SELECT COUNT(*) FROM artifacts), (SELECT COUNT(*) FROM copies)";
    let copies: (i64, i64) = db.query_row(copies, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert!(copies.0 > 5_000 && copies.1 == 0, "{copies:?}");
    assert!(env.norma(&["show", "@last"]).success().raw.contains("1040 worker"));
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}
