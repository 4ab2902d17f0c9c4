//! A run that is asked for in a sentence over HTTP: the contract that the command line proposes, shown first and started
//! only with an approval.

use super::client::{Served, serve};
use crate::batches::with_worker;
use crate::environment::{TestEnvironment, eventually};
use serde_json::{Value, json};

const SENTENCE: &str = "add a line to src/lib.txt";

fn served() -> (TestEnvironment, Served) {
    let env = with_worker("echo more >> src/lib.txt");
    let served = serve(&env);
    (env, served)
}

fn ask(served: &Served, more: Value) -> super::client::Answer {
    let mut body = json!({"sentence": SENTENCE});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    served.ask("POST", "/api/runs", Some(&body))
}

#[test]
fn without_a_yes_the_contract_is_shown_as_the_command_line_prints_it_and_nothing_is_started() {
    let (env, served) = served();
    let mut shown = ask(&served, json!({})).with(200);
    let printed = env.norma(&["run", SENTENCE, "--json"]);
    printed.exits(3);
    let mut printed: Value = serde_json::from_str(&printed.raw).unwrap();
    let [over_http, typed] = [&mut shown, &mut printed].map(|it| it["next"].take());
    assert_eq!(shown, printed);
    assert_eq!(over_http, json!("the same with \"yes\": true starts it"));
    assert_eq!(typed, json!("the same with --yes runs it"));
    assert_eq!(shown["contract"]["allowed_paths"], json!(["src/lib.txt"]));
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
    // What is shown is a work item that can be started as it is.
    let batch = json!({"batch": [shown["contract"]]});
    let run = served.ask("POST", "/api/runs", Some(&batch)).with(201)["run"].clone();
    assert_eq!(run["goal"].as_str().unwrap_or(SENTENCE), SENTENCE);
}

#[test]
fn with_a_yes_it_is_started_and_what_it_changed_is_named() {
    let (env, served) = served();
    let body = json!({"yes": true, "agent": "worker", "allow": ["src"], "test": ["grep -q more src/lib.txt"],
        "budget": ["max_minutes=5"]});
    let run = ask(&served, body).with(201)["run"].clone();
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    eventually("it has come to its end", || served.get(&path)["run"]["status"] == "completed");
    assert!(env.read("src/lib.txt").ends_with("more\n"));
    let ended = served.get(&path)["run"].clone();
    let artifacts = ended["artifacts"].as_object().unwrap().values();
    let diff = artifacts.into_iter().find(|artifact| artifact["kind"] == "diff").unwrap();
    assert_eq!(diff["metadata"]["filesChanged"], json!(["src/lib.txt"]), "{diff}");
    let node = ended["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(node["permissions"]["cliPermissionsMode"], json!("skip"), "nobody is asked: {node}");
    assert_eq!(node["capabilities"]["runCommands"], json!(true), "{node}");
}

#[test]
fn a_wide_scope_needs_an_approval_of_its_own() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    let served = serve(&env);
    let wide = json!({"sentence": "make it new", "allow": ["src"], "yes": true});
    let refused = served.ask("POST", "/api/runs", Some(&wide)).with(409);
    assert!(refused["details"]["causes"][0].as_str().unwrap().contains("more than 50 % of the tree"), "{refused}");
    assert!(refused["details"]["hint"].as_str().unwrap().contains("yes_wide"), "{refused}");
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
    let mut approved = wide.clone();
    approved["yes_wide"] = json!(true);
    let run = served.ask("POST", "/api/runs", Some(&approved)).with(201)["run"].clone();
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    eventually("it has come to its end", || served.get(&path)["run"]["status"] == "completed");
    let used = &served.get("/api/approvals?all=1")["approvals"][0];
    assert_eq!((&used["state"], &used["by"]), (&json!("used"), &json!("Ada <ada@example.org>")), "{used}");
}

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let (_env, served) = served();
    for (more, pointer, said) in [
        (json!({"allow": ["src", "scr"]}), "/allow/1", "did you mean src?"),
        (json!({"allow": ["../elsewhere"]}), "/allow/0", "outside of the repository"),
        (json!({"allow": ["."]}), "/allow/0", "the whole repository"),
        (json!({"test": ["true"]}), "/test/0", "succeeds whatever was done"),
        (json!({"test": ["no-such-program x"]}), "/test/0", "was not found"),
        (json!({"agent": "workr"}), "/agent", "there is no agent"),
        (json!({"budget": ["max_files=1"]}), "/budget", "is not a budget"),
        (json!({"acceptance_criteria": ["it is good"], "test": []}), "/acceptance_criteria", "judges it"),
        (json!({"sentence": ""}), "/sentence", ""),
        (json!({"goal": "another"}), "", "exactly one"),
        (json!({"test": [7]}), "/test/0", ""),
    ] {
        let refused = ask(&served, more.clone()).with(400);
        let violations = refused["details"]["violations"].as_array().unwrap();
        let found = violations.iter().find(|violation| violation["pointer"] == pointer);
        let found = found.unwrap_or_else(|| panic!("{more}: {refused}"));
        assert!(found["message"].as_str().unwrap().contains(said), "{more}: {refused}");
    }
    for stray in ["allow", "test", "budget"] {
        let refused = served.ask("POST", "/api/runs", Some(&json!({"goal": "x", stray: ["y"]}))).with(400);
        assert_eq!(refused["details"]["violations"][0]["pointer"], json!(format!("/{stray}")));
    }
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
}
