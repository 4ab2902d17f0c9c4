//! plan → do → check → act, every role filled by the same real agent: it plans, looks, finds fault, edits, and looks again.

use super::{Agent, KEY, Lab, answer, files_with, for_each_agent, for_each_protocol, lab, then_answer, write};
use scripted_model::Step;
use serde_json::{Value, json};

for_each_agent!(a_goal_is_reached_in_two_rounds);
for_each_protocol!(words_instead_of_an_answer_are_a_protocol_error);

/// In the prompt, where the step directory is named.
const STEP_DIR: &str = "{after:the only other place you may write}";

const OVERRIDE: &str = "Mind the gap.\n";

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
    lab.env.write(".norma/templates/override.md", OVERRIDE);
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
    for (index, role) in steps.iter().enumerate() {
        the_prompt_is_whole(&lab, &format!("{:03}-{role}", index + 1), role);
    }
    for kept in ["003-check/verdict.json", "003-check/scorecard.md", "004-act/patch.diff", "007-check/verdict.json"] {
        assert!(lab.env.run_dir().join("steps").join(kept).is_file(), "{kept}");
    }
    told_only_what_is_new(&lab);
    lab.env.norma(&["verify", "@last"]).success();
    assert!(files_with(&lab.env.root.join(".norma"), KEY.as_bytes()).is_empty());
    if matches!(agent, Agent::Codex | Agent::Claude) {
        // Taken again, conversations continue as they did; the other two take long to start, seven times.
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

/// What was asked of a role in a step, in blocks and as a whole; a model that was asked before may have been told less.
#[track_caller]
fn the_prompt_is_whole(lab: &Lab, step: &str, role: &str) {
    let step = lab.env.run_dir().join("steps").join(step);
    let read = |name: &str| std::fs::read_to_string(step.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (prompt, blocks) = (read("prompt.full.txt"), read("prompt.blocks.json"));
    let blocks: Value = serde_json::from_str(&blocks).unwrap();
    let of_block =
        |part: &str| blocks["blocks"].as_array().unwrap().iter().map(|it| it[part].as_str().unwrap()).collect();
    let (names, texts): (Vec<&str>, Vec<&str>) = (of_block("name"), of_block("text"));
    assert_eq!(names, ["system", "role", "mode", "task", "override"]);
    assert!(texts.iter().all(|text| prompt.contains(text.trim())), "{prompt}");
    for asked in [
        &format!("# Your role: {role}"),
        "It is one JSON document and nothing else",
        "relative to your step directory",
        "Your step directory, the only other place you may write",
    ] {
        assert!(prompt.contains(asked), "{asked:?} is not in {prompt}");
    }
    assert!(step.join("logs/stdout.txt").is_file() && step.join("logs/stderr.txt").is_file());
}

fn words_instead_of_an_answer_are_a_protocol_error(agent: Agent) {
    let words = "I did it all, trust me.";
    let Some(lab) = lab(&[agent], vec![Step::Text(words.to_owned())]) else { return };
    lab.configure(|config| config["limits"] = json!({"protocol_retries": 0}));
    lab.env.norma(&["run", "--goal", "SCN=it", "--ac", "it is done", "--agent", agent.name()]).exits(1);
    let run = lab.env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("protocol_error")), "{run}");
    let step = lab.env.run_dir().join("steps/001-plan");
    assert_eq!(std::fs::read_to_string(step.join("logs/stdout.txt")).unwrap().trim(), words);
    let blocks: Value = serde_json::from_slice(&std::fs::read(step.join("prompt.blocks.json")).unwrap()).unwrap();
    assert_eq!(blocks["sent"], "full");
    assert!(!files_with(&step.join("session"), words.as_bytes()).is_empty(), "what it printed is kept as it was");
}
