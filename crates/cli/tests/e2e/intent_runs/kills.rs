//! A server that is killed anywhere across a plan with one decision and one approval: the same terminal view, each step once,
//! one question each. `NORMA_SOAK` kills it twenty times (`cargo xtask soak server`).

use super::world::{World, node, plan, run_true, world_with};
use crate::load_server::{Dice, so_many};
use serde_json::{Value, json};
use std::time::Duration;

/// The view without what differs from run to run.
fn normalised(view: &Value) -> Value {
    let mut view = view.clone();
    view["runId"] = Value::Null;
    for step in view["steps"].as_array_mut().unwrap() {
        for name in ["startedAt", "finishedAt", "attempt"] {
            step.as_object_mut().unwrap().remove(name);
        }
    }
    // The files of a turn have the time that it took.
    view["artifacts"] = json!(view["artifacts"].as_array().unwrap().iter().map(|it| &it["kind"]).collect::<Vec<_>>());
    view
}

/// Answers whatever is asked, until the end; kills the server after so long, as often as is left.
fn to_the_end(mut world: World, run: &str, kills: &mut u32, dice: &mut Dice) -> (World, Value) {
    loop {
        if *kills > 0 && dice.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(dice.below(60)));
            *kills -= 1;
            world = world.killed();
        }
        let view = world.view(run);
        let status = view["status"].as_str().unwrap().to_owned();
        if ["succeeded", "failed", "canceled"].contains(&status.as_str()) {
            return (world, view);
        }
        let waiting = view["steps"].as_array().unwrap().iter().find(|step| step["status"] == "waiting");
        if let Some(kind) = waiting.filter(|_| status == "waiting_input").map(|step| step["kind"].clone()) {
            let choice = if kind == "decision" { "b" } else { "approve" };
            let status = world.answer(run, &json!({"event": kind, "choice": choice})).status;
            assert!([202, 409].contains(&status), "{status}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_is_killed_across_a_plan_takes_the_same_branch_and_asks_once() {
    let when = |choice: &str| json!({"cmd": ["true"], "when": {"pick": choice}});
    let answer = plan(&[
        run_true("first", &[]),
        node("pick", "decision", &["first"], json!({"choices": ["a", "b"]})),
        node("a", "compute", &["pick"], when("a")),
        node("b", "compute", &["pick"], when("b")),
        node("ask", "approval", &["a", "b"], json!({})),
        run_true("last", &["ask"]),
    ]);
    let mut world = world_with(&answer, |config| config["intents"] = json!({"mode": "live"}));
    let mut dice = Dice(17);
    let (mut kills, mut expected): (u32, Option<Value>) = (so_many(3, 20) as u32, None);
    let (mut rounds, total) = (0, kills);
    while kills > 0 || rounds < 2 {
        let run = world.start(&world.intent(&format!("round {rounds}")));
        let mut left = if rounds == 0 { 0 } else { kills };
        let before = left;
        let view;
        (world, view) = to_the_end(world, &run, &mut left, &mut dice);
        kills -= before - left;
        assert_eq!(view["status"], "succeeded", "{view:#}");
        let shown = normalised(&view);
        assert_eq!(*expected.get_or_insert(shown.clone()), shown);
        let log = world.env.events();
        let asked: Vec<&Value> = log.iter().filter(|event| event["type"] == "asked").collect();
        assert_eq!(asked.len(), 2, "one decision and one approval");
        let done = |node: u32| {
            let is_it = |event: &&Value| {
                event["type"] == "step_committed"
                    && event["payload"]["step"]["node"] == node
                    && event["payload"]["end"] == "answered"
            };
            log.iter().filter(is_it).count()
        };
        assert_eq!([0, 2, 3, 5].map(done), [1, 0, 1, 1], "each step once, and one branch");
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(world.view(&run), view, "nothing follows an end, and the same state has the same bytes");
        }
        if rounds == 0 {
            world = world.killed();
            assert_eq!(world.view(&run), view, "nothing follows an end, whoever shows it");
        }
        world.env.norma(&["verify", "@last"]).success();
        rounds += 1;
    }
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{total} kills in {rounds} runs\n").as_bytes());
}
