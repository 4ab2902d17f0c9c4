//! The first day of a pipeline with real agents: a PM, a tech lead, workers and a reviewer of four makes, and a scripted model
//! behind them. `cargo xtask day1` runs these stories.

use super::{Agent, Lab, answer, lab, shell, then_answer, write};
use crate::environment::Output;
use scripted_model::Step;
use serde_json::{Value, json};

const GOAL: &str = "SCN=it the library says done";

fn test(path: &str) -> Value {
    json!([{"name": "t", "cmd": format!("grep -q done {path}"), "must_pass": true}])
}

/// A lab in which each role is another agent; the worker does this.
fn day(worker: Vec<Step>) -> Option<Lab> {
    let all = [Agent::Claude, Agent::Codex, Agent::Opencode, Agent::Gemini];
    let paths = ["src/lib.txt", "src/more.txt"];
    let whole = json!({"spec": GOAL, "allowed_paths": paths, "acceptance_tests": test("src/lib.txt")});
    let part = json!({"spec": GOAL, "allowed_paths": ["src/lib.txt"], "acceptance_tests": test("src/lib.txt")});
    let review = json!({"verdict": "PASS", "summary": "fine", "findings": []});
    let lab = lab(
        &all,
        [
            ("# Your role: PM", answer(&json!({ "result": whole })).to_vec()),
            ("# Your role: tech lead", answer(&json!({"result": {"contracts": [part]}})).to_vec()),
            ("# Your role: worker", worker),
            ("# Your role: reviewer", answer(&json!({ "result": review })).to_vec()),
        ],
    )?;
    Some(lab)
}

fn pipeline(lab: &Lab) -> Output {
    let seats = ["--pm", "claude", "--tech-lead", "codex", "--worker", "opencode", "--reviewer", "gemini"];
    lab.env.norma(&[&["pipeline", GOAL, "--yes"][..], &seats].concat())
}

fn shown(lab: &Lab) -> Value {
    lab.env.json(&["show"])
}

#[test]
fn a_sentence_is_landed_by_four_agents_and_comes_to_the_same_when_it_is_replayed() {
    let Some(lab) = day(then_answer([write("src/lib.txt", "done\n")])) else { return };
    pipeline(&lab).success();
    assert_eq!(lab.env.git(&["show", "HEAD:src/lib.txt"]), "done");
    let view = shown(&lab);
    assert_eq!(view["reviews"][0]["verdict"], "PASS", "{view}");
    let agents: Vec<&str> =
        view["steps"].as_array().unwrap().iter().filter_map(|step| step["agent"].as_str()).collect();
    assert_eq!(agents, ["claude", "codex", "opencode", "gemini"]);
    lab.env.norma(&["verify", "@last"]).success();
    lab.env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_write_outside_of_the_scope_is_rolled_back() {
    let worker = then_answer([write("src/lib.txt", "done\n"), write("README.md", "mine\n")]);
    let Some(lab) = day(worker) else { return };
    pipeline(&lab).exits(1);
    assert_eq!(lab.env.git(&["show", "HEAD:src/lib.txt"]), "one\ntwo\nthree");
    assert!(lab.env.event_types().iter().any(|kind| kind == "policy_violation"));
    assert_eq!(shown(&lab)["fixes"], json!([]));
}

#[test]
fn a_fix_succeeds_on_the_second_try() {
    let [first, then] = ["half\n", "done\n"].map(|text| Box::new(write("src/lib.txt", text)));
    let Some(lab) = day(then_answer([Step::Flaky { times: 1, first, then }])) else { return };
    pipeline(&lab).success();
    let view = shown(&lab);
    assert_eq!(
        (&view["fixes"][0]["cause"], &view["fixes"][0]["status"]),
        (&json!("tests"), &json!("SUCCESS")),
        "{view}"
    );
    assert_eq!(lab.env.git(&["show", "HEAD:src/lib.txt"]), "done");
    lab.env.norma(&["verify", "@last"]).success();
}

/// What a worker would need from elsewhere does not come, and so its test fails, however often it tries.
#[test]
fn a_host_that_is_not_allowed_is_not_reached() {
    let Some(lab) = day(Vec::new()) else { return };
    let url = format!("http://127.0.0.1:{}/", lab.server.port());
    drop(lab);
    let Some(lab) = day(then_answer([shell(format!("curl -s {url} && echo done > src/lib.txt"))])) else { return };
    pipeline(&lab).exits(1);
    assert_eq!(lab.env.git(&["show", "HEAD:src/lib.txt"]), "one\ntwo\nthree");
}
