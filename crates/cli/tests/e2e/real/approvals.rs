//! What an agent asks for while it works: a person approves or denies it from another process, or nobody does, and the command
//! runs only with an approval.

use super::contracts::task_contract;
use super::{Agent, Lab, answer, files_with, for_each_agent, for_each_protocol, lab, shell};
use crate::environment::{Output, eventually};
use crate::walls::ask_about_cp;
use scripted_model::Step;
use serde_json::{Value, json};

for_each_agent!(what_is_approved_runs, what_is_denied_does_not_run);
for_each_protocol!(
    another_command_is_taken_or_refused_at_once,
    what_nobody_answers_in_time_is_denied,
    what_policy_forbids_nobody_is_asked,
    where_nothing_is_trusted_every_command_is_asked_about,
    where_nothing_is_trusted_nothing_runs_unasked,
    what_a_rule_has_asked_about_is_refused_where_nobody_is
);

/// No rule of the command policy knows this program, so somebody has to be asked.
const COMMAND: &str = "cp README.md notes/hello.txt";

/// A contract whose agent asks before it runs anything.
pub(crate) fn asking(agent: Agent) -> Option<Lab> {
    asking_for(COMMAND, "untrusted", agent)
}

fn asking_for(command: &str, shell_right: &str, agent: Agent) -> Option<Lab> {
    doing([shell(command)], shell_right, agent)
}

fn done() -> Value {
    json!({"task_id": "say-hello", "status": "SUCCESS", "summary": "copied", "evidence_refs": {}, "failure": null})
}

/// A contract whose agent does this, then asks for a copy, and answers.
pub(crate) fn denying(step: Step, agent: Agent) -> Option<Lab> {
    let asks = Box::new(shell("cp notes/hello.txt notes/copy.txt"));
    // An agent may forget a call that was denied, and be at the same step again.
    let [then, _] = answer(&json!({"result": done()}));
    let lab = doing([step, Step::Flaky { times: 1, first: asks, then: Box::new(then) }], "untrusted", agent)?;
    if agent == Agent::Opencode {
        // It has models of that name write by the shell.
        lab.configure(|config| config["agents"]["opencode"]["model"] = json!("scripted"));
    }
    Some(lab)
}

/// A contract whose agent does this with so much of a shell.
fn doing(steps: impl IntoIterator<Item = Step>, shell_right: &str, agent: Agent) -> Option<Lab> {
    let mut script: Vec<Step> = steps.into_iter().collect();
    script.extend(answer(&json!({"result": done()})));
    let lab = lab(&[agent], script)?;
    let mut registry: Value = serde_json::from_str(&lab.env.read(".norma/policies/agent_registry.json")).unwrap();
    for registered in registry["agents"].as_array_mut().unwrap() {
        registered["defaults"]["approval_policy"] = json!("on-request");
    }
    lab.env.write(".norma/policies/agent_registry.json", &registry.to_string());
    lab.env.norma(&["trust"]).success();
    task_contract(&lab, agent, |contract| contract["tool_permissions"]["shell"] = json!(shell_right));
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

/// The calls of a shell that came to a good end; an answer can be a call of a tool, too.
fn commands_that_ran(lab: &Lab) -> Vec<Value> {
    let named = ["tool_proposed", "tool_started"].into_iter().flat_map(|kind| lab.agent_events(kind));
    let shells: Vec<Value> =
        named.filter(|named| named["kind"] == "shell").map(|named| named["call"].clone()).collect();
    let completed = lab.agent_events("tool_completed").into_iter();
    completed.filter(|completed| completed["ok"] == true && shells.contains(&completed["call"])).collect()
}

fn what_is_approved_runs(agent: Agent) {
    let Some(lab) = asking(agent) else { return };
    answering(&lab, |id| lab.env.norma(&["approve", id])).success();
    assert_eq!(lab.env.read("notes/hello.txt"), "hello\n");
    assert_eq!((lab.events("approval_asked").len(), lab.events("approval_used").len()), (1, 1));
    assert_eq!(decision(&lab)["decision"], "allow");
    assert_eq!(commands_that_ran(&lab).len(), 1);
    let asked = &lab.agent_events("permission_requested")[0];
    assert!(asked["command"].as_str().unwrap().contains(COMMAND), "{asked}");
    lab.env.norma(&["verify", "@last"]).success();
}

/// Only claude runs another command than the one it asked about. Of the others nobody is told that it was granted.
fn another_command_is_taken_or_refused_at_once(agent: Agent) {
    let Some(lab) = asking(agent) else { return };
    let other = "cp README.md notes/hello.txt && true";
    let ended = answering(&lab, |id| {
        let approved = lab.env.norma(&["approve", id, "--instead", other]);
        if agent == Agent::Claude {
            return approved;
        }
        assert!(approved.code() != Some(0) && approved.raw_err.contains("nothing was granted: "), "{approved}");
        assert_eq!(pending(&lab).as_deref(), Some(id));
        lab.env.norma(&["deny", id, "--reason", "not so"])
    });
    match agent {
        Agent::Claude => ended.success(),
        Agent::Codex | Agent::Gemini | Agent::Opencode => ended.exits(1),
    };
    assert_eq!(lab.events("approval_used").len(), usize::from(agent == Agent::Claude));
}

fn what_is_denied_does_not_run(agent: Agent) {
    let Some(lab) = asking(agent) else { return };
    answering(&lab, |id| lab.env.norma(&["deny", id, "--reason", "not today"])).exits(1);
    let told = decision(&lab);
    assert_eq!(told["decision"], "deny");
    assert!(told["message"].as_str().unwrap().contains("not today"), "{told}");
    // Gemini continues, and has no way to be told why.
    if agent != Agent::Gemini {
        let reads = files_with(&lab.step().join("gateway"), b"not today");
        assert!(!reads.is_empty(), "the model does not read why");
    }
    assert!(!lab.env.root.join("notes/hello.txt").exists());
    assert!(commands_that_ran(&lab).is_empty());
    lab.env.norma(&["verify", "@last"]).success();
}

fn what_nobody_answers_in_time_is_denied(agent: Agent) {
    // Codex asks on request only for what it takes for dangerous itself.
    let right = if agent == Agent::Codex { "untrusted" } else { "on-request" };
    let Some(lab) = asking_for(COMMAND, right, agent) else { return };
    lab.configure(|config| config["limits"] = json!({"approval_seconds": 2}));
    lab.env.norma(&["run", "contract.json"]).exits(1);
    let told = decision(&lab);
    assert_eq!((&told["decision"], &told["message"]), (&json!("deny"), &json!("no approval in time")));
    assert!(!lab.env.root.join("notes/hello.txt").exists());
    assert_eq!((pending(&lab), lab.events("approval_used").len()), (None, 0));
}

fn what_policy_forbids_nobody_is_asked(agent: Agent) {
    let Some(lab) = asking_for("git push origin HEAD", "untrusted", agent) else { return };
    lab.env.norma(&["run", "contract.json"]).exits(1);
    let told = decision(&lab);
    assert_eq!(told["decision"], "deny");
    assert!(told["message"].as_str().unwrap().starts_with("publish: "), "{told}");
    assert!(lab.events("approval_asked").is_empty());
    let violations = lab.events("policy_violation");
    assert_eq!((violations.len(), &violations[0]["gate"]), (1, &json!("tools")), "{violations:?}");
    assert!(violations[0]["findings"][0].as_str().unwrap().contains("git push origin HEAD"), "{violations:?}");
    lab.env.norma(&["verify", "@last"]).success();
    lab.env.norma(&["replay", "@last"]).success();
}

/// The command is one that a rule allows. Codex and gemini do not ask for what they take for harmless themselves.
fn where_nothing_is_trusted_every_command_is_asked_about(agent: Agent) {
    let command = match agent {
        Agent::Codex | Agent::Gemini => "cargo test --offline",
        Agent::Claude | Agent::Opencode => "git status",
    };
    let Some(lab) = asking_for(command, "untrusted", agent) else { return };
    lab.configure(|config| config["limits"] = json!({"approval_seconds": 2}));
    lab.env.norma(&["run", "contract.json"]).exits(1);
    assert_eq!((lab.events("approval_asked").len(), decision(&lab)["decision"].as_str()), (1, Some("deny")));
    assert!(lab.events("policy_violation").is_empty(), "nobody's yes is no violation");
}

/// What an agent takes for harmless and does not ask about does not run where everything is to be asked about.
fn where_nothing_is_trusted_nothing_runs_unasked(agent: Agent) {
    let Some(lab) = asking_for("cat README.md", "untrusted", agent) else { return };
    lab.configure(|config| config["limits"] = json!({"approval_seconds": 2}));
    lab.env.norma(&["run", "contract.json"]).exits(1);
    let refused =
        lab.events("policy_violation").iter().any(|it| it["findings"][0].as_str().unwrap().contains("README.md"));
    let asked = lab.events("approval_asked").len() == 1;
    assert!(asked != refused, "{:?} {:?}", lab.events("approval_asked"), lab.events("policy_violation"));
}

/// Under `never` a command runs that no rule speaks of, and not one that a rule has a person asked about; whether the agent
/// asks or just starts it.
fn what_a_rule_has_asked_about_is_refused_where_nobody_is(agent: Agent) {
    let steps = [shell("mv README.md notes/moved.txt"), shell(COMMAND)];
    let Some(lab) = doing(steps, "never", agent) else { return };
    ask_about_cp(&lab.env);
    lab.env.norma(&["run", "contract.json"]).exits(1);
    assert!(lab.events("approval_asked").is_empty(), "nobody may be asked");
    let refused = lab.events("policy_violation");
    assert!(refused.iter().any(|it| it["findings"][0].as_str().unwrap().contains("copies: ")), "{refused:?}");
    assert!(refused.iter().all(|it| !it["findings"][0].as_str().unwrap().contains("mv ")), "{refused:?}");
    lab.env.norma(&["verify", "@last"]).success();
}

/// The tool is not on offer, and the model calls it. Codex and gemini refuse that without a word to anybody.
#[test]
fn a_command_that_no_contract_allows_is_a_violation() {
    let arguments = json!({"command": COMMAND, "description": "copies"});
    for (agent, tool) in [(Agent::Claude, "Bash"), (Agent::Opencode, "bash")] {
        let call = Step::Call { tool: tool.to_owned(), arguments: arguments.clone() };
        let Some(lab) = doing([call], "deny", agent) else { continue };
        lab.env.norma(&["run", "contract.json"]);
        let violations = lab.events("policy_violation");
        assert!(violations.iter().any(|it| it["gate"] == "tools"), "{:?}", lab.env.event_types());
        assert!(!lab.env.root.join("notes/hello.txt").exists());
        lab.env.norma(&["verify", "@last"]).success();
    }
}
