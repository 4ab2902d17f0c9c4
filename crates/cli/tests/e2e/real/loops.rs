//! plan → do → check → act, every role filled by the same real agent: it plans, looks, finds fault, edits, and looks again.

use super::{Agent, KEY, Lab, answer, files_with, for_each_agent, lab, then_answer, write};
use scripted_model::Step;
use serde_json::{Value, json};

for_each_agent!(a_goal_is_reached_in_two_rounds);

/// In the prompt, where the step directory is named.
const STEP_DIR: &str = "{after:the only other place you may write}";

fn a_goal_is_reached_in_two_rounds(agent: Agent) {
    let evidence = || vec![write(&format!("{STEP_DIR}/files/test.log"), "looked\n")];
    let plan = || answer(&json!({"plan_md": "# Write hello.txt\n"})).to_vec();
    let check = |verdict: &str| {
        let holds = verdict == "PASS";
        let criterion = json!({"id": "AC1", "text": "hello.txt is there", "pass": holds, "evidence": "files/test.log"});
        let given = json!({"version": 1, "verdict": verdict, "criteria": [criterion], "blockers": [],
            "recommended_fix": []});
        answer(&json!({"verdict": given, "scorecard_md": "# Scorecard\n"})).to_vec()
    };
    let scripts: [(&str, Vec<Step>); 5] = [
        ("role plan ·", plan()),
        ("role do ·", then_answer(evidence())),
        ("role check · iteration 1", check("FAIL")),
        ("role check · iteration 2", check("PASS")),
        ("role act ·", then_answer([write("hello.txt", "hello\n")])),
    ];
    let Some(lab) = lab(&[agent], scripts) else { return };
    lab.configure(|config| {
        let one = config["agents"][agent.name()].clone();
        config["agents"] = json!({"plan": one, "do": one, "check": one, "act": one});
        config["budgets"]["max_iterations"] = json!(2);
    });
    lab.env.norma(&["run", "--goal", "SCN=it", "--ac", "hello.txt is there"]).success();
    assert_eq!(lab.env.read("hello.txt"), "hello\n");
    let run = lab.env.last();
    let steps: Vec<&str> = run["steps"].as_array().unwrap().iter().map(|step| step["role"].as_str().unwrap()).collect();
    assert_eq!(steps, ["plan", "do", "check", "act", "plan", "do", "check"]);
    told_only_what_is_new(&lab);
    lab.env.norma(&["verify", "@last"]).success();
    assert!(files_with(&lab.env.root.join(".norma"), KEY.as_bytes()).is_empty());
    if matches!(agent, Agent::Codex | Agent::Claude) {
        // Taken again, conversations go on as they did; the other two take long to start, seven times.
        lab.env.norma(&["replay", "@last", "--recorded"]).success();
    }
}

/// A role that has its second turn is told its task, in the conversation that knows the rest; what it was told in effect is
/// kept whole.
fn told_only_what_is_new(lab: &Lab) {
    let run_dir = lab.env.run_dir();
    let read = |path: &str| std::fs::read_to_string(run_dir.join("steps").join(path)).unwrap();
    let document = |path: &str| serde_json::from_str::<Value>(&read(path)).unwrap();
    for (first, second) in [("001-plan", "005-plan"), ("002-do", "006-do"), ("003-check", "007-check")] {
        let sent = |step: &str| document(&format!("{step}/prompt.blocks.json"))["sent"].clone();
        assert_eq!((sent(first), sent(second)), (json!("full"), json!("delta")), "{second}");
        let session = |step: &str| document(&format!("{step}/session/outcome.json"))["session_id"].clone();
        assert_eq!(session(first), session(second));
        assert!(read(&format!("{second}/prompt.full.txt")).contains("# Your answer"));
        let said = read(&format!("{second}/session/exchange.jsonl"));
        let said = said.lines().next().unwrap();
        assert!(said.contains("# The task") && !said.contains("# Your answer"), "{said}");
        // The model heard both.
        let calls = std::fs::read_dir(run_dir.join("steps").join(second).join("gateway")).unwrap();
        let mut heard = calls.map(|call| std::fs::read_to_string(call.unwrap().path()).unwrap());
        assert!(heard.any(|call| call.contains("iteration 1") && call.contains("iteration 2")), "{second}");
    }
}
