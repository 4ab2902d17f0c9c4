//! A batch that ran out of its minutes, and the run that continues from it; by programs that are on every machine. What
//! models use up is in `real/budgets.rs`.

use crate::batches::{item, with_worker};
use crate::environment::{Output, PATCH, TestEnvironment};
use crate::receipts::verifies_elsewhere;
use contract::Timestamp;
use serde_json::{Value, json};

/// Nothing shorter than a minute can be said, so this waits for one.
#[test]
fn a_batch_that_ran_out_of_minutes_goes_on_where_it_was_cut_off() {
    let env = with_worker("echo $id >> made-$id; test $id = a -o $(wc -l < made-$id) -gt 1 || sleep 600");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        (config["landing"], config["budgets"]["max_minutes"]) = (json!({"mode": "branch"}), json!(1));
    });
    let base = env.git(&["rev-parse", "HEAD"]);
    let items = [item("a", json!({})), item("b", json!({"constraints": {"timeout_ms": 600_000}}))];
    env.write("items.json", &json!(items).to_string());
    let stopped = env.norma(&["batch", "items.json"]);
    assert!(stopped.exits(1).out().contains("--budget max_minutes=4"), "{stopped}");
    let parent = env.last()["run_id"].as_str().unwrap().to_owned();
    env.norma(&["resume", "@last", "--budget", "max_patch_kb=9"]).exits(2);

    let child = env.norma(&["resume", "@last", "--budget", "max_minutes=4"]);
    child.success();
    assert!(child.out().contains("continues run <run>: 1 of 2 stay done"), "{child}");
    let run = env.last();
    let branch = format!("norma/{}", run["run_id"].as_str().unwrap());
    assert_eq!((&run["parent"], &run["landing"]["target"]), (&json!(parent), &json!(format!("refs/heads/{branch}"))));
    assert_eq!(env.git(&["show", &format!("{branch}:made-b")]), "b\nb", "it went on from what was there");
    assert_eq!(env.git(&["show", &format!("{branch}:made-a")]), "a", "it was done once");
    assert_eq!(env.git(&["rev-parse", &format!("{branch}~1")]), env.git(&["rev-parse", &format!("norma/{parent}")]));
    assert_eq!(env.git(&["rev-parse", "HEAD"]), base, "the user's branch is where it was");
    for verb in [&["verify", "@last"][..], &["replay", "@last"], &["verify", &parent], &["replay", &parent]] {
        env.norma(verb).success();
    }
    verifies_elsewhere(&env);
    env.norma(&["undo", "@last"]).success();
    env.norma(&["verify", "@last"]).success();
}

/// Nothing shorter than a minute can be said, but three who work at once use it up in a third of that.
#[test]
fn the_minutes_of_a_batch_hold_over_all_that_work_at_once() {
    let env = with_worker("sleep 600");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        config["budgets"]["max_minutes"] = json!(1);
    });
    let items = ["a", "b", "c"].map(|id| item(id, json!({"constraints": {"timeout_ms": 600_000}})));
    env.write("items.json", &json!(items).to_string());
    env.norma(&["batch", "items.json", "--jobs", "3"]).exits(1);
    assert_eq!(env.last()["status"], "stopped");
    let ms = |time: &Value| serde_json::from_value::<Timestamp>(time.clone()).unwrap().unix_ms();
    let events = env.events();
    let steps = events.iter().filter(|event| event["type"] == "step_committed");
    let worked: u64 = steps.map(|step| ms(&step["ts"]) - ms(&step["payload"]["started_at"])).sum();
    // A minute each would be three; how long it takes to end them depends on the machine.
    assert!((60_000..150_000).contains(&worked), "{worked}");
}

/// Runs norma as somebody at a terminal does.
fn at_a_terminal(env: &TestEnvironment, args: &[&str]) -> Output {
    let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    let typed = format!("'{}' {}", env!("CARGO_BIN_EXE_norma"), words.join(" "));
    env.output_of("script", &["-qec", &typed, "/dev/null"])
}

#[test]
fn a_run_that_somebody_attends_asks_for_more_and_goes_on_as_the_same_run() {
    let env = TestEnvironment::new(
        json!({"check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]], "act": [[{"patch": PATCH}]]}),
    );
    env.configure(|config| config["budgets"]["max_iterations"] = json!(1));
    let waiting = at_a_terminal(&env, &["run", "1"]);
    waiting.exits(3);
    assert!(waiting.raw.contains("waiting for more of a budget"), "{}", waiting.raw);
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("waiting"), &json!("budget_exceeded")));
    // Nobody is told anything new, and nothing is lost, by going on without an answer.
    env.norma(&["resume", "@last"]).exits(3);
    let refused = env.norma(&["resume", "@last", "--budget", "max_iterations=1"]);
    refused.exits(2);
    env.norma(&["resume", "@last", "--budget", "max_iterations=3"]).success();
    assert_eq!(env.last()["run_id"], run["run_id"]);
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 1);
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_run_that_somebody_attends_can_be_ended_at_its_budget() {
    let env = TestEnvironment::new(json!({"check": [[{"verdict": "FAIL"}]]}));
    env.configure(|config| config["budgets"]["max_iterations"] = json!(1));
    at_a_terminal(&env, &["run", "1"]).exits(3);
    env.norma(&["resume", "@last", "--budget", "stop"]).exits(1);
    assert_eq!(env.last()["status"], "stopped");
    env.norma(&["verify", "@last"]).success();
}
