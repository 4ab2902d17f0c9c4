//! What an agent asks for while it works: a person says yes or no from another process, or nobody does, and the command
//! runs only with a yes.

use super::contracts::task_contract;
use super::{Agent, Lab, answer, for_each_agent, lab, shell};
use crate::environment::{Output, eventually};
use scripted_model::Step;
use serde_json::{Value, json};

for_each_agent!(what_is_approved_runs, what_is_denied_does_not_run);

/// No rule of the command policy knows this program, so somebody has to be asked.
const COMMAND: &str = "cp README.md notes/hello.txt";

/// A contract whose agent asks before it runs anything.
pub(crate) fn asking(agent: Agent) -> Option<Lab> {
    let result =
        json!({"task_id": "say-hello", "status": "SUCCESS", "summary": "copied", "evidence_refs": {}, "failure": null});
    let mut script: Vec<Step> = vec![shell(COMMAND)];
    script.extend(answer(&json!({"result": result})));
    let lab = lab(&[agent], script)?;
    let mut registry: Value = serde_json::from_str(&lab.env.read(".norma/policies/agent_registry.json")).unwrap();
    for registered in registry["agents"].as_array_mut().unwrap() {
        registered["defaults"]["approval_policy"] = json!("on-request");
    }
    lab.env.write(".norma/policies/agent_registry.json", &registry.to_string());
    lab.env.norma(&["trust"]).success();
    task_contract(&lab, agent, |contract| contract["tool_permissions"]["shell"] = json!("untrusted"));
    Some(lab)
}

/// What somebody has to answer, if there is anything.
fn pending(lab: &Lab) -> Option<String> {
    lab.env.json(&["approvals"])[0]["id"].as_str().map(str::to_owned)
}

/// Carries out the contract, and answers what its agent asks.
pub(crate) fn answering(lab: &Lab, answer: impl FnOnce(&str) -> Output) -> Output {
    let running = lab.env.spawn(&["run", "contract.json"]);
    let mut asked = None;
    eventually("the agent asks", || {
        asked = pending(lab);
        asked.is_some()
    });
    answer(&asked.unwrap()).success();
    running.wait()
}

/// What the agent was told.
fn decision(lab: &Lab) -> Value {
    let answered = lab.agent_events("permission_answered");
    assert_eq!(answered.len(), 1, "{answered:?}");
    answered[0]["decision"].clone()
}

fn what_is_approved_runs(agent: Agent) {
    let Some(lab) = asking(agent) else { return };
    answering(&lab, |id| lab.env.norma(&["approve", id])).success();
    assert_eq!(lab.env.read("notes/hello.txt"), "hello\n");
    assert_eq!((lab.events("approval_asked").len(), lab.events("approval_used").len()), (1, 1));
    assert_eq!(decision(&lab)["decision"], "allow");
    let asked = &lab.agent_events("permission_requested")[0];
    assert!(asked["command"].as_str().unwrap().contains(COMMAND), "{asked}");
    lab.env.norma(&["verify", "@last"]).success();
}

fn what_is_denied_does_not_run(agent: Agent) {
    let Some(lab) = asking(agent) else { return };
    answering(&lab, |id| lab.env.norma(&["deny", id, "--reason", "not today"])).exits(1);
    let told = decision(&lab);
    assert_eq!(told["decision"], "deny");
    assert!(told["message"].as_str().unwrap().contains("not today"), "{told}");
    assert!(!lab.env.root.join("notes/hello.txt").exists());
    assert!(lab.agent_events("tool_completed").iter().all(|completed| completed["ok"] != true), "it ran");
    lab.env.norma(&["verify", "@last"]).success();
}

#[test]
fn what_nobody_answers_in_time_is_denied() {
    for agent in [Agent::Codex, Agent::Claude] {
        let Some(lab) = asking(agent) else { continue };
        lab.configure(|config| config["limits"] = json!({"approval_seconds": 2}));
        lab.env.norma(&["run", "contract.json"]).exits(1);
        let told = decision(&lab);
        assert_eq!((&told["decision"], &told["message"]), (&json!("deny"), &json!("nobody said yes in time")));
        assert!(!lab.env.root.join("notes/hello.txt").exists());
        assert_eq!((pending(&lab), lab.events("approval_used").len()), (None, 0));
    }
}
