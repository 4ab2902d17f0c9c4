//! A change that is done is not lost to the form of its answer, nor to a denial: the agent is asked once more, where it is.

use super::approvals::{answering, denying};
use super::{Agent, answer, for_each_agent, for_each_protocol, item, lab, then_answer, write};
use scripted_model::Step;
use serde_json::{Value, json};

for_each_agent!(words_are_followed_by_an_answer);
for_each_protocol!(a_fence_around_the_answer_is_no_part_of_it, what_was_made_before_a_denial_lands);

/// What norma noticed in the only turn of the newest run.
#[track_caller]
fn notes(lab: &super::Lab) -> String {
    let turns = lab.events("step_committed");
    assert_eq!(turns.len(), 1, "{turns:#?}");
    turns[0]["notes"].to_string()
}

fn words_are_followed_by_an_answer(agent: Agent) {
    let mut script = then_answer([write("hello.txt", "hello\n")]);
    let words = Step::Text("I did it all, trust me.".to_owned());
    script[1] = Step::Flaky { times: 1, first: Box::new(words), then: Box::new(script[1].clone()) };
    let Some(lab) = lab(&[agent], script) else { return };
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
    assert_eq!(lab.env.read("hello.txt"), "hello\n");
    // Claude's own program does the same, where it was given a schema.
    let asked_again = notes(&lab).contains("asked once more for its answer: ");
    assert!(asked_again || agent == Agent::Claude, "{}", notes(&lab));
    lab.env.norma(&["verify", "@last"]).success();
    lab.env.norma(&["replay", "@last"]).success();
}

fn a_fence_around_the_answer_is_no_part_of_it(agent: Agent) {
    let [Step::Structured(document), _] = answer(&json!({})) else { panic!("it is one") };
    let fenced = Step::Text(format!("```json\n{document:#}\n```"));
    let Some(lab) = lab(&[agent], vec![write("hello.txt", "hello\n"), fenced]) else { return };
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
    assert_eq!(lab.env.read("hello.txt"), "hello\n");
    assert!(!notes(&lab).contains("once more"), "{}", notes(&lab));
    let said = std::fs::read(lab.step().join("logs/stdout.txt")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&said).unwrap(), document);
}

fn what_was_made_before_a_denial_lands(agent: Agent) {
    let Some(lab) = denying(write("notes/hello.txt", "hello\n"), agent) else { return };
    answering(&lab, |id| lab.env.norma(&["deny", id, "--reason", "not today"])).success();
    assert_eq!(lab.env.read("notes/hello.txt"), "hello\n");
    assert!(!lab.env.root.join("notes/copy.txt").exists());
    assert_eq!(notes(&lab).contains("it stopped after a denial"), agent == Agent::Opencode, "{}", notes(&lab));
    lab.env.norma(&["verify", "@last"]).success();
}
