//! The patch of an intent: one change, all or nothing, which lands when the run has succeeded.

use super::world::{node, plan, run_true, statuses, step, world, world_with};
use crate::environment::PATCH;
use serde_json::{Value, json};

fn with_patch(nodes: &[Value]) -> Value {
    let mut answer = plan(nodes);
    answer["patch"] = json!({"files": [{"path": "src/lib.txt", "diff": PATCH}], "tests": ["grep -q TWO src/lib.txt"]});
    answer["tests"] = json!(["grep -q one src/lib.txt"]);
    answer
}

#[test]
fn a_patch_is_judged_like_any_change_and_lands_when_the_plan_is_done() {
    let see = node("see", "compute", &[], json!({"cmd": ["grep", "TWO", "src/lib.txt"]}));
    let world = world(&with_patch(&[see, node("ask", "approval", &["see"], json!({}))]));
    let before = world.env.repository();
    let run = world.started();
    let view = world.until(&run, "waiting_input");
    assert_eq!(statuses(&view, &["CompileST", "ApplyPatchST", "DecideST", "see"]), ["succeeded"; 4]);
    assert_eq!(step(&view, "see")["output"]["summary"], "TWO");
    assert_eq!(step(&view, "ApplyPatchST")["output"]["files"], json!(["src/lib.txt"]));
    assert_eq!(world.env.read("src/lib.txt"), "one\ntwo\nthree\n", "the branch has not moved yet");
    let without_own = |mut found: std::collections::BTreeMap<String, String>| {
        let refs = found.get("refs").cloned().unwrap_or_default();
        let refs: Vec<&str> = refs.lines().filter(|line| !line.contains("refs/norma")).collect();
        found.insert("refs".to_owned(), refs.join("\n"));
        found
    };
    assert_eq!(without_own(world.env.repository()), without_own(before));
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(202);
    world.until(&run, "succeeded");
    assert_eq!(world.env.read("src/lib.txt"), "one\nTWO\nthree\n");
    let ended = world.env.events().into_iter().filter(|event| event["type"] == "item_ended").collect::<Vec<_>>();
    let gates: Vec<&str> =
        ended[1]["payload"]["gates"].as_array().unwrap().iter().map(|gate| gate["gate"].as_str().unwrap()).collect();
    assert_eq!(gates, ["inputs", "output", "scope", "admission", "outputs", "tests"]);
    for verb in ["verify", "replay"] {
        world.env.norma(&[verb, "@last"]).success();
    }
    crate::environment::eventually("it is sealed", || {
        world.env.norma(&["export", "@last", "-o", "run.norma"]).code() == Some(0)
    });
    let verify = crate::environment::norma_verify().to_str().unwrap();
    world.env.norma(&["keys", "export", "-o", "keys/norma.pem"]).success();
    world.env.output_of(verify, &["run.norma", "--trust", "keys"]).success();
}

#[track_caller]
fn refused(change: impl FnOnce(&mut Value), expected: &str) {
    let mut answer = with_patch(&[run_true("never", &[])]);
    change(&mut answer);
    let world = world(&answer);
    let run = world.started();
    let view = world.until(&run, "failed");
    let why = step(&view, "ApplyPatchST")["error"].as_str().unwrap();
    assert!(why.contains(expected), "{why}");
    assert_eq!(statuses(&view, &["never"]), ["skipped"]);
    assert_eq!(world.env.read("src/lib.txt"), "one\ntwo\nthree\n");
    world.env.norma(&["verify", "@last"]).success();
    world.env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_patch_that_does_not_fit_or_fails_its_tests_leaves_no_trace() {
    refused(|it| it["patch"]["files"][0]["diff"] = json!(PATCH.replace("two", "zwei")), "src/lib.txt");
    refused(|it| it["tests"] = json!(["grep -q nowhere src/lib.txt"]), "Tests failed");
    refused(|it| it["patch"]["files"][0]["path"] = json!("src/other.txt"), "which the patch does not name");
}

#[test]
fn what_a_patch_may_change_is_what_the_configuration_lets_change() {
    let world = world_with(&with_patch(&[run_true("never", &[])]), |config| {
        config["scope"] = json!({"allowed_paths": ["docs"]});
    });
    let run = world.started();
    let view = world.until(&run, "failed");
    let why = step(&view, "ApplyPatchST")["error"].as_str().unwrap();
    assert!(why.contains("src/lib.txt"), "{why}");
}
