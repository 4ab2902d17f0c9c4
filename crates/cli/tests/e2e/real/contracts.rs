//! Contracts that real agents fulfil: what lands, what is kept of it, and what the agent never gets to see.

use super::{
    Agent, KEY, Lab, answer, files_with, for_each_agent, for_each_protocol, item, lab, shell, then_answer, write,
};
use scripted_model::Step;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;

for_each_agent!(lands_a_file, carries_out_a_task_contract, continues_the_conversation_that_a_contract_names);
for_each_protocol!(
    lands_a_file_without_commands,
    lands_a_file_where_nobody_is_asked,
    starts_in_the_directory_that_it_is_given
);

/// What the agent can see of its surroundings, kept where it becomes evidence.
const LOOK_AROUND: &str =
    r#"env > "$NORMA_STEP_DIR/env.txt"; tr '\0' '\n' < "/proc/$PPID/environ" >> "$NORMA_STEP_DIR/env.txt""#;

fn lands_a_file(agent: Agent) {
    let script = then_answer([write("hello.txt", "hello\n"), shell(LOOK_AROUND)]);
    let Some(lab) = lab(&[agent], script) else { return };
    lab.env.write("item.json", &item("a", agent, &json!({"output_files": ["/hello.txt"]})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
    assert_eq!(lab.env.read("hello.txt"), "hello\n");
    lab.env.norma(&["verify", "@last"]).success();
    let step = lab.step();
    everything_is_kept(&step);
    the_key_stays_outside(&lab, &step);
    let used = &lab.events("step_committed")[0]["usage"];
    for count in ["input_tokens", "output_tokens", "cost_micro_usd"] {
        assert!(used[count].as_u64().is_some_and(|count| count > 0), "{count}: {used}");
    }
}

/// `path` is where it works; one that is no directory of the repository is none.
fn starts_in_the_directory_that_it_is_given(agent: Agent) {
    let Some(lab) = lab(&[agent], then_answer([shell("echo made > made.txt")])) else { return };
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    lab.configure(|config| config["agents"][agent.name()]["path"] = json!("src"));
    lab.env.norma(&["run", "item.json"]).success();
    assert_eq!(lab.env.read("src/made.txt"), "made\n");
    lab.configure(|config| config["agents"][agent.name()]["path"] = json!("nowhere"));
    let refused = lab.env.norma(&["run", "item.json", "--new"]);
    assert!(refused.exits(4).err().contains("path \"nowhere\" is not a directory of the run's tree"), "{refused}");
}

fn everything_is_kept(step: &Path) {
    let read = |name: &str| std::fs::read_to_string(step.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for name in ["prompt.full.txt", "prompt.blocks.json", "session/exchange.jsonl", "session/events.jsonl"] {
        assert!(read(name).contains("SCN=it") || read(name).contains("\"type\":"), "{name}");
    }
    let json = |name: &str| -> Value { serde_json::from_str(&read(name)).unwrap() };
    assert_eq!(json("session/configured.json")["gateway"], true);
    assert_eq!(json("session/outcome.json")["ok"], true);
    let exchanges = std::fs::read_dir(step.join("gateway")).unwrap().map(|entry| entry.unwrap().file_name());
    let status = |name: OsString| json(&format!("gateway/{}", name.to_str().unwrap()))["answer"]["status"].clone();
    assert!(exchanges.map(status).filter(|status| status == 200).count() >= 3);
}

/// The model was asked with the key, and nothing that an agent sees or that is kept has it.
fn the_key_stays_outside(lab: &Lab, step: &Path) {
    let calls = lab.calls();
    assert!(!calls.is_empty() && lab.server.requests().iter().all(|request| request["key"] != false));
    let environ = std::fs::read_to_string(step.join("env.txt")).unwrap();
    assert!(environ.contains("norma-holds-the-key"), "{environ}");
    assert_eq!(files_with(&lab.env.root.join(".norma"), KEY.as_bytes()), Vec::<&Path>::new());
}

/// What binds a task contract's answer to its schema is in the answer too.
fn carries_out_a_task_contract(agent: Agent) {
    let result = json!({"task_id": "say-hello", "status": "SUCCESS", "summary": "said hello", "evidence_refs": {},
        "failure": null});
    let mut script = vec![write("notes/hello.txt", "hello\n")];
    script.extend(answer(&json!({"result": result})));
    let Some(lab) = lab(&[agent], script) else { return };
    task_contract(&lab, agent, |_| {});
    lab.env.norma(&["run", "contract.json"]).success();
    assert_eq!(lab.env.read("notes/hello.txt"), "hello\n");
    let output: Value = serde_json::from_slice(&std::fs::read(lab.step().join("output.json")).unwrap()).unwrap();
    assert_eq!(output["result"], result);
    lab.env.norma(&["verify", "@last"]).success();
}

/// The model is told what was said before, and all of the new contract; where the conversation is not kept, nothing starts.
fn continues_the_conversation_that_a_contract_names(agent: Agent) {
    let answered = |steps: Vec<Step>| {
        let result = json!({"task_id": "say-hello", "status": "SUCCESS", "summary": "said hello", "evidence_refs": {},
            "failure": null});
        steps.into_iter().chain(answer(&json!({"result": result}))).collect::<Vec<_>>()
    };
    let first = answered(vec![write("notes/hello.txt", "hello\n")]);
    let second = answered(vec![write("notes/more.txt", "more\n")]);
    let Some(lab) = lab(&[agent], [("first part", first), ("second part", second)]) else { return };
    task_contract(&lab, agent, |contract| contract["inputs"]["spec"] = json!("SCN=it first part"));
    lab.env.norma(&["run", "contract.json"]).success();
    let thread = lab.env.last()["steps"][0]["session_id"].as_str().unwrap().to_owned();
    let continued = |thread: &str| {
        let mut contract: Value = serde_json::from_str(&lab.env.read("contract.json")).unwrap();
        contract["task_id"] = json!("say-more");
        contract["inputs"]["spec"] = json!("SCN=it second part");
        contract["assigned_agent"]["codex_thread_id"] = json!(thread);
        lab.env.write("more.json", &contract.to_string());
    };
    continued("0199-nobody");
    let refused = lab.env.norma(&["run", "more.json"]);
    assert!(refused.exits(2).err().contains("/assigned_agent/codex_thread_id: no conversation"), "{refused}");
    continued(&thread);
    if agent == Agent::Gemini {
        // It cannot load a session of another process.
        let refused = lab.env.norma(&["run", "more.json"]);
        assert!(refused.exits(2).err().contains("with an agent of type gemini is kept here"), "{refused}");
        return;
    }
    let calls = lab.calls().len();
    lab.env.norma(&["run", "more.json"]).success();
    assert_eq!(lab.env.read("notes/more.txt"), "more\n");
    let run = lab.env.last();
    assert_eq!(run["steps"][0]["session_id"], json!(thread), "{run:#}");
    let told = lab.server.requests()[calls..].iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("first part") && told.contains("second part"), "the model knows both");
    let step = lab.step();
    let prompt = std::fs::read_to_string(step.join("prompt.full.txt")).unwrap();
    assert!(prompt.contains("This continues an earlier conversation with you."), "{prompt}");
    let blocks: Value = serde_json::from_slice(&std::fs::read(step.join("prompt.blocks.json")).unwrap()).unwrap();
    assert_eq!(blocks["sent"], "full");
    lab.env.norma(&["verify", "@last"]).success();
    lab.env.norma(&["replay", "@last"]).success();
    assert_eq!(files_with(&lab.env.root.join(".norma"), KEY.as_bytes()), Vec::<&Path>::new());
}

/// The walls that keep an agent without a shell from starting anything leave it its own program.
fn lands_a_file_without_commands(agent: Agent) {
    lands_under("deny", &[write("notes/hello.txt", "hello\n")], agent);
}

/// What is forbidden does not run, and the rest does.
fn lands_a_file_where_nobody_is_asked(agent: Agent) {
    let steps = [write("notes/hello.txt", "hello\n"), shell("mkdir notes/d; touch notes/d/f; git push . HEAD:x; true")];
    let Some(lab) = lands_under("never", &steps, agent) else { return };
    let refused: Vec<Value> =
        lab.events("policy_violation").into_iter().map(|mut it| it["findings"][0].take()).collect();
    assert!(refused.iter().any(|it| it.as_str().unwrap().contains("git push")), "{refused:?}");
}

fn lands_under(shell_right: &str, steps: &[Step], agent: Agent) -> Option<Lab> {
    let result = json!({"task_id": "say-hello", "status": "SUCCESS", "summary": "said hello", "evidence_refs": {},
        "failure": null});
    let mut script = steps.to_vec();
    script.extend(answer(&json!({"result": result})));
    let lab = lab(&[agent], script)?;
    task_contract(&lab, agent, |contract| contract["tool_permissions"]["shell"] = json!(shell_right));
    lab.env.norma(&["run", "contract.json"]).success();
    assert_eq!(lab.env.read("notes/hello.txt"), "hello\n");
    lab.env.norma(&["verify", "@last"]).success();
    Some(lab)
}

/// Writes a contract as norma makes one, for an agent that follows the script `it`.
pub(super) fn task_contract(lab: &Lab, agent: Agent, change: impl FnOnce(&mut Value)) {
    lab.env.write("notes/README.md", "notes\n");
    lab.env.write("test.sh", "grep -q hello notes/hello.txt\n");
    lab.env.commit("a test");
    let new =
        ["contract", "new", "--goal", "SCN=it", "--allow", "notes", "--test", "sh test.sh", "--agent", agent.name()];
    let mut contract: Value = serde_json::from_str(&lab.env.norma(&new).success().raw).unwrap();
    contract["task_id"] = json!("say-hello");
    change(&mut contract);
    lab.env.write("contract.json", &contract.to_string());
}

#[test]
fn an_answer_without_the_bound_result_lands_nothing() {
    let Some(lab) = lab(&[Agent::Codex], then_answer([write("notes/hello.txt", "hello\n")])) else { return };
    task_contract(&lab, Agent::Codex, |_| {});
    lab.env.norma(&["run", "contract.json"]).exits(1);
    let run = lab.env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("protocol_error")));
    assert!(!lab.env.root.join("notes/hello.txt").exists());
}

#[test]
fn three_makes_work_side_by_side_and_each_lands_its_own_file() {
    let makes = [Agent::Codex, Agent::Claude, Agent::Gemini];
    // The step is the same for all; the item's name in the prompt tells whose file it is.
    let script: Vec<Step> = then_answer([write("{after:SCN=it}.txt", "by {model}\n")]);
    let Some(lab) = lab(&makes, script) else { return };
    let items: Vec<Value> = makes.iter().map(|agent| item(agent.name(), *agent, &json!({}))).collect();
    lab.env.write("items.json", &Value::from(items).to_string());
    lab.env.norma(&["batch", "items.json", "--jobs", "3"]).success();
    for agent in makes {
        assert_eq!(lab.env.read(&format!("{}.txt", agent.name())), format!("by {}\n", super::model(agent)));
    }
    lab.env.norma(&["verify", "@last"]).success();
}
