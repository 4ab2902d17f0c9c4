//! The first day of a pipeline with real agents: a PM, a tech lead, workers and a reviewer of four makes, and a scripted model
//! behind them. `cargo xtask day1` runs these stories.

use super::{Agent, Lab, answer, lab, shell, then_answer, write};
use crate::environment::Output;
use crate::load_server::so_many;
use crate::pipeline::kills::{killed_after, moment};
use scripted_model::Step;
use serde_json::{Value, json};
use std::time::Duration;

/// What the library says before anybody works on it.
const BEFORE: &str = "one\ntwo\nthree";

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

/// How a pipeline is started.
const START: [&str; 11] = [
    "pipeline",
    GOAL,
    "--yes",
    "--pm",
    "claude",
    "--tech-lead",
    "codex",
    "--worker",
    "opencode",
    "--reviewer",
    "gemini",
];

fn pipeline(lab: &Lab) -> Output {
    lab.env.norma(&START)
}

/// A worker that does what it is told.
fn happy() -> Vec<Step> {
    then_answer([write("src/lib.txt", "done\n")])
}

/// One that also writes where it may not.
fn outside() -> Vec<Step> {
    then_answer([write("src/lib.txt", "done\n"), write("README.md", "mine\n")])
}

/// One whose change fails its test at first.
fn second_try() -> Vec<Step> {
    let [first, then] = ["half\n", "done\n"].map(|text| Box::new(write("src/lib.txt", text)));
    then_answer([Step::Flaky { times: 1, first, then }])
}

/// One that needs something of a host that is not allowed.
fn elsewhere() -> Vec<Step> {
    then_answer([shell("curl -s http://127.0.0.1:9/ && echo done > src/lib.txt")])
}

fn shown(lab: &Lab) -> Value {
    lab.env.json(&["show"])
}

#[test]
fn a_sentence_is_landed_by_four_agents_and_comes_to_the_same_when_it_is_replayed() {
    let Some(lab) = day(happy()) else { return };
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
    let Some(lab) = day(outside()) else { return };
    pipeline(&lab).exits(1);
    assert_eq!(lab.env.git(&["show", "HEAD:src/lib.txt"]), BEFORE);
    assert!(lab.env.event_types().iter().any(|kind| kind == "policy_violation"));
    assert_eq!(shown(&lab)["fixes"], json!([]));
}

#[test]
fn a_fix_succeeds_on_the_second_try() {
    let Some(lab) = day(second_try()) else { return };
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
    let Some(lab) = day(elsewhere()) else { return };
    pipeline(&lab).exits(1);
    assert_eq!(lab.env.git(&["show", "HEAD:src/lib.txt"]), BEFORE);
}

/// How many events the shortest of these stories has.
const EVENTS: usize = 40;

/// A norma that is killed at a moment that a seed chooses, and resumed: the story ends as it does undisturbed. One kill of one story
/// here, five of each in the long series (`cargo xtask soak pipeline`).
#[test]
fn a_story_whose_norma_is_killed_ends_as_it_should() {
    let stories = [(happy(), "done"), (second_try(), "done"), (outside(), BEFORE), (elsewhere(), BEFORE)];
    for (story, (worker, said)) in stories.into_iter().take(so_many(1, 4)).enumerate() {
        for seed in 0..so_many(1, 5) as u64 {
            let Some(lab) = day(worker.clone()) else { return };
            let moment = moment(seed + 5 * story as u64, EVENTS);
            killed_after(&lab.env, &START, moment);
            let found = lab.env.git(&["show", "HEAD:src/lib.txt"]);
            assert_eq!(found, said, "story {story}, killed after event {moment}");
            assert_eq!(
                lab.env.git(&["status", "--porcelain", "--untracked-files=no"]),
                "",
                "story {story}, killed after event {moment}"
            );
            lab.env.norma(&["verify", "@last"]).success();
            assert_eq!(lab.env.json(&["runs"]).as_array().unwrap().len(), 1, "it is the same run");
            // The story of the replay: one that is killed changes nothing, and the next comes to the same end.
            let replay = lab.env.spawn(&["replay", "@last"]);
            std::thread::sleep(Duration::from_millis(moment as u64 * 5));
            replay.signal("KILL");
            drop(replay.wait());
            lab.env.norma(&["replay", "@last"]).success();
            println!("story {story}: killed after event {moment}, resumed, replayed");
        }
    }
}
