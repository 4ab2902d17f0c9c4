//! Models that do not answer as they should: every trouble ends in its own reason within its deadline, and whatever the
//! agent had written by then lands nowhere.

use super::{Agent, for_each_agent, for_each_protocol, item, lab, then_answer, write};
use scripted_model::{Script, Step};
use serde_json::{Value, json};

for_each_agent!(every_trouble_has_its_reason);
for_each_protocol!(a_limit_holds_the_run_until_it_is_over, a_limit_in_the_middle_of_a_turn_is_waited_out);

/// Silence that is taken for a hang.
const IDLE_SECONDS: u32 = 20;

fn status(code: u16, retry_after: Option<u64>) -> Step {
    Step::Status { code, body: None, retry_after }
}

fn every_trouble_has_its_reason(agent: Agent) {
    // By name, as items are taken.
    let troubles: [(&str, Step, &str); 5] = [
        ("broken", status(500, None), "provider_failed"),
        ("drops", Step::Drop, "provider_failed"),
        ("hangs", Step::HangMid, "agent_timeout"),
        ("prose", Step::Text("I did it all, trust me.".to_owned()), "protocol_error"),
        ("unauthorized", status(401, None), "sign_in_failed"),
    ];
    let scripts: [(String, Script); 5] = troubles.clone().map(|(name, trouble, _)| {
        (format!("SCN=it {name}\n"), vec![write(&format!("{name}.txt"), "half done\n"), trouble])
    });
    let Some(lab) = lab(&[agent], scripts) else { return };
    // Only the one that hangs is held to a short silence: on a busy machine an agent takes its time to start.
    let (hanging, others): (Vec<_>, Vec<_>) = troubles.iter().partition(|(name, ..)| *name == "hangs");
    for (troubles, limits) in [
        (others, json!({"provider_seconds": 3})),
        (hanging, json!({"provider_seconds": 3, "idle_seconds": IDLE_SECONDS})),
    ] {
        lab.configure(|config| config["limits"] = limits.clone());
        let items: Vec<Value> = troubles.iter().map(|(name, ..)| item(name, agent, &json!({}))).collect();
        lab.env.write("items.json", &Value::from(items).to_string());
        let before = lab.env.repository();
        lab.env.norma(&["batch", "items.json", "--jobs", "2"]).exits(1);
        let mut turns = lab.events("step_committed");
        turns.sort_by_key(|turn| turn["step"]["item"].as_u64());
        let expected: Vec<&str> = troubles.iter().map(|(.., reason)| *reason).collect();
        let found: Vec<&str> = turns.iter().filter_map(|turn| turn["reason"].as_str()).collect();
        assert_eq!(found, expected, "{:#?}", turns.iter().map(|turn| &turn["summary"]).collect::<Vec<_>>());
        assert_eq!(lab.env.repository(), before);
    }
}

fn a_limit_holds_the_run_until_it_is_over(agent: Agent) {
    let limited = vec![write("hello.txt", "half done\n"), status(429, Some(1))];
    let scripts = [("step 1 ·", limited), ("step 2 ·", then_answer([write("hello.txt", "hello\n")]))];
    let Some(lab) = lab(&[agent], scripts) else { return };
    lab.configure(|config| config["limits"] = json!({"provider_seconds": 2}));
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
    assert_eq!(lab.env.read("hello.txt"), "hello\n");
    let turns = lab.events("step_committed");
    assert_eq!((turns.len(), &turns[0]["reason"]), (2, &json!("provider_limit")));
    assert_eq!(lab.events("run_paused")[0]["reason"], "provider_limit");
    lab.env.norma(&["verify", "@last"]).success();
}

fn flaky(times: usize, first: Step, then: Step) -> Step {
    Step::Flaky { times, first: Box::new(first), then: Box::new(then) }
}

/// The same turn continues, and nothing that it did is done or paid for again.
fn a_limit_in_the_middle_of_a_turn_is_waited_out(agent: Agent) {
    let mut script = then_answer([write("hello.txt", "hello\n"), write("more.txt", "more\n")]);
    script[1] = flaky(1, status(429, Some(1)), script[1].clone());
    script[2] = flaky(2, status(503, None), script[2].clone());
    let Some(lab) = lab(&[agent], script) else { return };
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
    assert_eq!((lab.env.read("hello.txt"), lab.env.read("more.txt")), ("hello\n".to_owned(), "more\n".to_owned()));
    let turns = lab.events("step_committed");
    assert_eq!((turns.len(), lab.events("run_paused").len()), (1, 0), "{turns:#?}");
    let note = "the provider failed for the moment, and calls were made again: 3";
    assert!(turns[0]["notes"].to_string().contains(note), "{}", turns[0]["notes"]);
    let first_calls = lab.calls().iter().filter(|call| call["step"] == 0).count();
    assert_eq!(first_calls, 1, "nothing was asked for twice but what failed");
    lab.env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_limit_that_comes_again_and_again_leaves_the_run_waiting() {
    let Some(lab) = lab(&[Agent::Codex], vec![status(429, Some(1))]) else { return };
    lab.configure(|config| config["limits"] = json!({"provider_seconds": 0, "provider_retries": 2}));
    lab.env.write("item.json", &item("a", Agent::Codex, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).exits(6);
    assert_eq!((lab.events("step_committed").len(), lab.events("run_paused").len()), (3, 3));
    let run = lab.env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("paused"), &json!("provider_limit")));
    assert!(run["message"].as_str().unwrap().contains("for the 3rd time in a row"), "{}", run["message"]);
    // Whoever has it continue begins to count anew.
    lab.env.norma(&["resume", "@last"]).exits(6);
    assert_eq!(lab.events("step_committed").len(), 6);
}

#[test]
fn a_limit_that_says_nothing_of_its_end_leaves_the_run_paused() {
    let Some(lab) = lab(&[Agent::Codex], vec![status(429, None)]) else { return };
    lab.env.write("item.json", &item("a", Agent::Codex, &json!({})).to_string());
    lab.configure(|config| config["limits"] = json!({"provider_seconds": 0}));
    let said = lab.env.norma(&["run", "item.json"]);
    said.exits(6);
    assert!(said.raw.contains("rate limited by the provider"), "{}", said.raw);
    let run = lab.env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("paused"), &json!("provider_limit")));
}
