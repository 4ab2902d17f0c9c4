//! Runs that end before their agent does: somebody cancels, norma itself is killed, or a budget is used up. Nothing of the
//! agent continues.

use super::{Agent, Lab, for_each_agent, for_each_protocol, item, lab, shell, then_answer, write};
use crate::environment::{Running, eventually};
use scripted_model::Step;
use serde_json::{Value, json};
use std::time::Instant;

for_each_agent!(
    a_canceled_agent_is_gone,
    a_killed_norma_is_resumed_and_lands,
    an_interrupted_agent_goes_on_where_it_was
);
for_each_protocol!(a_used_up_budget_ends_the_calls);

/// A command that is found among all processes, and that nobody waits for.
const SLEEP: &str = "sleep 86399";

fn a_canceled_agent_is_gone(agent: Agent) {
    canceled(agent, "the model hangs", vec![write("hello.txt", "hello\n"), Step::Hang], |lab| lab.calls().len() == 2);
    canceled(agent, "a command sleeps", vec![shell(SLEEP)], |lab| {
        lab.calls().len() == 1 && of_run(&slug(lab)).iter().any(|command| command.starts_with("sleep\x0086399"))
    });
}

#[expect(clippy::print_stdout, reason = "the time is a number to look at, not a condition")]
fn canceled(agent: Agent, when: &str, script: Vec<Step>, is_busy: impl Fn(&Lab) -> bool) {
    let Some(lab) = lab(&[agent], script) else { return };
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    let running = lab.env.spawn(&["run", "item.json"]);
    eventually(when, || is_busy(&lab));
    let slug = slug(&lab);
    let asked = Instant::now();
    lab.env.norma(&["cancel", "@last"]).success();
    running.wait().exits(1);
    println!("{} was gone after {} ms while {when}", agent.name(), asked.elapsed().as_millis());
    assert_eq!(of_run(&slug), Vec::<String>::new());
    assert_eq!(lab.env.last()["status"], "canceled");
    assert!(!lab.env.root.join("hello.txt").exists());
    lab.env.norma(&["verify", "@last"]).success();
}

#[test]
fn four_makes_are_at_work_at_once_and_one_cancel_ends_them_all() {
    let Some(lab) = lab(&Agent::ALL, vec![write("hello.txt", "hello\n"), Step::Hang]) else { return };
    let items: Vec<Value> = Agent::ALL.iter().map(|agent| item(agent.name(), *agent, &json!({}))).collect();
    lab.env.write("items.json", &Value::from(items).to_string());
    let running = lab.env.spawn(&["batch", "items.json", "--jobs", "4"]);
    // The second answer never comes, so whoever has asked for it is still at work.
    eventually("all four wait for their model", || lab.calls().len() == 8);
    let slug = slug(&lab);
    lab.env.norma(&["cancel", "@last"]).success();
    running.wait().exits(1);
    assert_eq!(of_run(&slug), Vec::<String>::new());
    assert_eq!(lab.env.last()["status"], "canceled");
}

/// An agent that has written its file and waits for its model, and an attempt after it that has nothing more to do.
fn with_work_done(agent: Agent) -> Option<(Lab, Running)> {
    let half = vec![write("hello.txt", "hello\n"), Step::Hang];
    let lab = lab(&[agent], [("step 1 ·", half), ("step 2 ·", then_answer([]))])?;
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    let running = lab.env.spawn(&["run", "item.json"]);
    eventually("the model hangs", || lab.calls().len() == 2);
    Some((lab, running))
}

/// What it had written lands, and it is told only what is new. gemini's own record of a turn that is cut off does not hold
/// what was said in it, so it is told everything again.
fn goes_on_where_it_was(lab: &Lab, agent: Agent) {
    eventually("nothing of it is left", || of_run(&slug(lab)).is_empty());
    assert!(!lab.env.root.join("hello.txt").exists());
    lab.env.norma(&["resume", "@last"]).success();
    assert_eq!(lab.env.read("hello.txt"), "hello\n");
    let step = lab.env.run_dir().join("steps/002-worker");
    let blocks: Value = serde_json::from_slice(&std::fs::read(step.join("prompt.blocks.json")).unwrap()).unwrap();
    assert_eq!(blocks["sent"], if agent == Agent::Gemini { "full" } else { "delta" });
    lab.env.norma(&["verify", "@last"]).success();
    lab.env.norma(&["replay", "@last"]).success();
    let kept = lab.env.root.join(".norma/conversations").join(slug(lab));
    assert!(!kept.exists(), "a run that has ended has no conversations");
}

fn a_killed_norma_is_resumed_and_lands(agent: Agent) {
    let Some((lab, running)) = with_work_done(agent) else { return };
    eventually("what it made is kept", || !lab.events("work_saved").is_empty());
    running.signal("KILL");
    assert_eq!(running.wait().code(), None);
    goes_on_where_it_was(&lab, agent);
}

fn an_interrupted_agent_goes_on_where_it_was(agent: Agent) {
    let Some((lab, running)) = with_work_done(agent) else { return };
    running.signal("INT");
    running.wait().exits(130);
    goes_on_where_it_was(&lab, agent);
}

fn slug(lab: &Lab) -> String {
    lab.env.last()["run_id"].as_str().unwrap().to_owned()
}

/// The command lines of all processes that carry a run's mark; what is started with another environment has none.
fn of_run(slug: &str) -> Vec<String> {
    let mark = format!("NORMA_RUN_ID={slug}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let environ = std::fs::read(path.join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            found.push(String::from_utf8_lossy(&std::fs::read(path.join("cmdline")).unwrap_or_default()).into_owned());
        }
    }
    // A process that is on its way out has no command line any more.
    found.retain(|command| !command.is_empty());
    found
}

fn a_used_up_budget_ends_the_calls(agent: Agent) {
    let script = then_answer([write("hello.txt", "hello\n"), write("more.txt", "more\n")]);
    let Some(lab) = lab(&[agent], script) else { return };
    lab.configure(|config| config["budgets"]["max_tokens"] = json!(100));
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).exits(1);
    let run = lab.env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("stopped"), &json!("budget_exceeded")), "{run}");
    assert_eq!(lab.calls().len(), 1);
    assert!(!lab.env.root.join("hello.txt").exists());
}
