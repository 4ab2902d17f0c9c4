//! Plans that decide and ask: branches, skips, approvals, and what counts where nobody answers in time.

use super::world::{World, node, plan, run_true, statuses, step, world};
use crate::environment::eventually;
use serde_json::{Value, json};

fn branches() -> Value {
    plan(&[
        node("pick", "decision", &[], json!({"choices": ["left", "right"]})),
        node("l", "compute", &["pick"], json!({"cmd": ["true"], "when": {"pick": "left"}})),
        node("r", "compute", &["pick"], json!({"cmd": ["true"], "when": {"pick": "right"}})),
        run_true("after_r", &["r"]),
        run_true("join", &["l", "r"]),
        node("idle", "io", &["join"], json!({"noop": true})),
    ])
}

#[test]
fn a_decision_is_stored_before_its_branch_and_what_was_not_chosen_is_skipped() {
    let world = world(&branches());
    let run = world.started();
    let view = world.until(&run, "waiting_input");
    assert_eq!(statuses(&view, &["pick"]), ["waiting"]);
    assert_eq!(step(&view, "pick")["output"]["question"]["choices"], json!(["left", "right"]));
    let wrong = world.answer(&run, &json!({"event": "decision", "choice": "up"})).with(400);
    assert_eq!(wrong["details"]["violations"][0]["pointer"], "/choice");
    assert_eq!(world.view(&run)["status"], "waiting_input");
    world.answer(&run, &json!({"event": "decision", "choice": "right", "nodeId": "pick"})).with(202);
    let view = world.until(&run, "succeeded");
    let names = ["pick", "l", "r", "after_r", "join", "idle"];
    assert_eq!(statuses(&view, &names), ["succeeded", "skipped", "succeeded", "succeeded", "succeeded", "succeeded"]);
    assert_eq!(step(&view, "pick")["output"]["choice"], "right");
    let types = world.env.event_types();
    let at = |word: &str| types.iter().position(|kind| kind == word).unwrap();
    assert!(at("answered") < at("plan_node_skipped"), "{types:?}");
    world.env.norma(&["verify", "@last"]).success();
    world.env.norma(&["replay", "@last"]).success();
}

#[test]
fn an_agent_decides_between_the_choices_that_it_is_told_and_works_on_what_it_is_told() {
    let world = world(&plan(&[
        node("pick", "decision", &[], json!({"choices": ["left", "right"], "by": "agent"})),
        node("l", "compute", &["pick"], json!({"when": {"pick": "left"}})),
        node("r", "compute", &["pick"], json!({"when": {"pick": "right"}})),
    ]));
    let run = world.started();
    let view = world.until(&run, "succeeded");
    assert_eq!(statuses(&view, &["pick", "l", "r"]), ["succeeded", "succeeded", "skipped"]);
    assert_eq!(step(&view, "pick")["output"], json!({"by": "agent", "choice": "left"}));
    let said = step(&view, "l")["output"]["summary"].as_str().unwrap();
    assert_eq!(said, "daily brief: This is node \"l\" (compute) of the plan of this intent.");
    let input =
        world.env.read(&format!("{}/steps/002-decide/input.json", world.env.last()["run_dir"].as_str().unwrap()));
    let input: Value = serde_json::from_str(&input).unwrap();
    assert_eq!((&input["step"]["role"], &input["context"]["choices"]), (&json!("decide"), &json!(["left", "right"])));
    world.env.norma(&["verify", "@last"]).success();
    world.env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_choice_that_is_none_fails_its_node() {
    let world = world(&plan(&[node("pick", "decision", &[], json!({"choices": ["up", "down"], "by": "agent"}))]));
    let run = world.started();
    let view = world.until(&run, "failed");
    let why = step(&view, "pick")["error"].as_str().unwrap();
    assert!(why.contains("/result/choice: expected one of up, down"), "{why}");
}

#[test]
fn what_is_rejected_ends_the_run_and_the_rest_never_starts() {
    let world =
        world(&plan(&[node("ask", "approval", &[], json!({})), run_true("beside", &[]), run_true("after", &["ask"])]));
    let run = world.started();
    let view = world.until(&run, "waiting_input");
    assert_eq!(statuses(&view, &["beside", "ask"]), ["succeeded", "waiting"]);
    world.answer(&run, &json!({"event": "approval", "choice": "denied"})).with(202);
    let view = world.until(&run, "failed");
    assert_eq!(statuses(&view, &["ask", "beside", "after"]), ["failed", "succeeded", "skipped"]);
    assert!(!world.env.event_types().iter().any(|kind| kind == "plan_node_skipped"), "nothing happened to it");
    let of = |artifact: &&Value| artifact["nodeId"] == "after";
    assert!(view["artifacts"].as_array().unwrap().iter().any(|it| of(&it)), "every step has an artifact: {view:#}");
}

#[test]
fn without_a_node_the_oldest_open_question_of_its_kind_is_answered() {
    let world = world(&plan(&[
        node("first", "decision", &[], json!({})),
        // Before `old` in the order of the plan, and asked after it.
        node("young", "approval", &["first"], json!({})),
        node("old", "approval", &[], json!({})),
        node("never", "approval", &["young", "old"], json!({})),
    ]));
    let run = world.started();
    world.until(&run, "waiting_input");
    world.answer(&run, &json!({"event": "decision", "choice": "no"})).with(202);
    let asked = |world: &World, name: &str| {
        let view = world.view(&run);
        let steps = view["steps"].as_array().unwrap().clone();
        view["status"] == "waiting_input" && steps.iter().any(|it| it["nodeId"] == name && it["status"] == "waiting")
    };
    eventually("it is asked", || asked(&world, "young"));
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(202);
    eventually("it waits again", || world.view(&run)["status"] == "waiting_input");
    assert_eq!(statuses(&world.view(&run), &["old", "young"]), ["succeeded", "waiting"]);
    world.answer(&run, &json!({"event": "approval", "choice": "reject"})).with(202);
    let view = world.until(&run, "failed");
    assert_eq!(statuses(&view, &["old", "young", "never"]), ["succeeded", "failed", "skipped"]);
}

#[test]
fn several_questions_are_open_at_once_and_each_can_be_answered() {
    let world = world(&plan(&[
        node("a", "approval", &[], json!({})),
        node("b", "approval", &[], json!({})),
        node("d", "decision", &["b"], json!({})),
    ]));
    let run = world.started();
    let view = world.until(&run, "waiting_input");
    assert_eq!(statuses(&view, &["a", "b"]), ["waiting", "waiting"]);
    world.answer(&run, &json!({"event": "decision", "choice": "yes"})).with(409);
    world.answer(&run, &json!({"event": "approval", "choice": "approve", "nodeId": "b"})).with(202);
    eventually("d is asked", || {
        let view = world.view(&run);
        view["steps"].as_array().unwrap().iter().any(|step| step["nodeId"] == "d") && view["status"] == "waiting_input"
    });
    world.answer(&run, &json!({"event": "decision", "choice": "yes"})).with(202);
    world.until(&run, "waiting_input");
    world.answer(&run, &json!({"event": "approval", "choice": "approved"})).with(202);
    world.until(&run, "succeeded");
    let asked = world.env.event_types().iter().filter(|kind| *kind == "asked").count();
    assert_eq!(asked, 3, "nothing is asked twice");
    world.env.norma(&["verify", "@last"]).success();
}

#[test]
fn where_nobody_answers_in_time_the_plan_says_what_counts() {
    let asks = |word: &str| json!({"timeout_ms": 300, "on_timeout": word});
    let choices = json!({"choices": ["x", "y"], "timeout_ms": 300, "on_timeout": "y"});
    let world = world(&plan(&[
        node("ask", "approval", &[], asks("approve")),
        node("pick", "decision", &["ask"], choices),
        node("last", "approval", &["pick"], asks("reject")),
    ]));
    let run = world.started();
    let view = world.until(&run, "failed");
    assert_eq!(step(&view, "ask")["output"], json!({"by": "timeout", "choice": "approve"}));
    assert_eq!(step(&view, "pick")["output"], json!({"by": "timeout", "choice": "y"}));
    assert_eq!(statuses(&view, &["last"]), ["failed"]);
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(409);
    assert_eq!(world.env.event_types().iter().filter(|kind| *kind == "plan_node_expired").count(), 3);
    world.env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_command_that_a_rule_asks_about_waits_for_approval_and_one_that_is_refused_runs_nothing() {
    let world = world(&plan(&[node("odd", "compute", &[], json!({"cmd": ["seq", "3"]}))]));
    let run = world.started();
    let view = world.until(&run, "waiting_input");
    let question = &step(&view, "odd")["output"]["question"];
    assert!(question["reasons"][0].as_str().unwrap().contains("seq 3"), "{view:#}");
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(202);
    let view = world.until(&run, "succeeded");
    assert_eq!(step(&view, "odd")["output"]["summary"], "3");

    world.env.write(
        "agents/answer.json",
        &plan(&[run_true("first", &[]), node("bad", "compute", &[], json!({"cmd": ["sudo", "true"]}))]).to_string(),
    );
    world.env.commit("a plan that is refused");
    let run = world.start(&world.intent("something else"));
    let view = world.until(&run, "failed");
    let why = step(&view, "DecideST")["error"].as_str().unwrap();
    assert!(why.contains("/plan/nodes/1/budget/cmd: rule "), "{why}");
    assert_eq!(view["steps"].as_array().unwrap().len(), 2, "nothing of the plan was started: {view:#}");
}
