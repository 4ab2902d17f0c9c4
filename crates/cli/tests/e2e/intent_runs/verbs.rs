//! The verbs are thin clients of the owner, as the routes are.

use super::world::{environment, node, plan, run_true};
use crate::environment::eventually;
use serde_json::json;

#[test]
fn an_intent_is_run_shown_and_answered_at_the_terminal() {
    let env = environment(&plan(&[run_true("a", &[]), node("ask", "approval", &["a"], json!({}))]), |_| {});
    env.write("intent.json", r#"{"goal":"daily brief","inputs":{},"constraints":{}}"#);
    env.write("bad.json", r#"{"goal":"","inputs":{},"constraints":{}}"#);
    let refused = env.norma(&["intent", "run", "bad.json"]);
    refused.exits(2);
    assert!(refused.raw_err.contains("/goal: "), "{refused}");
    let started = env.json(&["intent", "run", "intent.json", "--trace-id", "t-1"]);
    let run = started["run_id"].as_str().unwrap();
    let show = || env.json(&["intent", "show", run]);
    eventually("it waits", || show()["status"] == "waiting_input");
    assert_eq!(show()["traceId"], "t-1");
    let shown = env.norma(&["intent", "show", started["intent_id"].as_str().unwrap()]);
    assert!(
        shown.success().raw.contains(&format!("next: norma intent answer {run} approve|reject --node ask")),
        "{shown}"
    );
    // Whoever looks what needs them is told how to answer.
    let answer = format!("norma intent answer {run} approve --node ask");
    let needed = &env.json(&["status"])["needs_you"][0];
    assert_eq!((&needed["kind"], &needed["commands"][0]), (&json!("approval"), &json!(answer)));
    let why = env.norma(&["why", run]);
    assert!(why.raw.contains(&answer), "{why}");
    for more in [&["--event", "approval"][..], &[]] {
        let wrong = env.norma(&[&["intent", "answer", run, "maybe"], more].concat());
        assert!(wrong.exits(2).raw_err.contains("say approve or reject"), "{wrong}");
    }
    env.norma(&["intent", "answer", run, "approve"]).success();
    eventually("it has succeeded", || show()["status"] == "succeeded");
    env.norma(&["intent", "answer", run, "approve"]).exits(1);
    env.norma(&["intent", "run", "--retry", run]).exits(1);
    let again = env.json(&["intent", "run", started["intent_id"].as_str().unwrap()]);
    assert_eq!(again["run_id"], run, "an intent is carried out once");
    env.norma(&["serve", "--stop"]).success();
}

#[test]
fn an_answer_is_for_the_question_that_has_it_as_a_choice() {
    let choices = json!({"choices": ["approve", "it's late"]});
    let env =
        environment(&plan(&[node("pick", "decision", &[], choices), node("ask", "approval", &[], json!({}))]), |_| {});
    env.write("intent.json", r#"{"goal":"daily brief","inputs":{},"constraints":{}}"#);
    let started = env.json(&["intent", "run", "intent.json"]);
    let intent = started["intent_id"].as_str().unwrap();
    let show = || env.json(&["intent", "show", intent]);
    eventually("it waits", || show()["status"] == "waiting_input");
    let commands = env.json(&["status"])["needs_you"][0]["commands"].clone();
    let run = started["run_id"].as_str().unwrap();
    assert_eq!(commands[1], format!(r"norma intent answer {run} 'it'\''s late' --node pick"));
    env.norma(&["intent", "answer", intent, "it's late"]).success();
    eventually("it waits for the other", || show()["status"] == "waiting_input");
    env.norma(&["intent", "answer", intent, "approved"]).success();
    eventually("it has succeeded", || show()["status"] == "succeeded");
    env.norma(&["serve", "--stop"]).success();
}
