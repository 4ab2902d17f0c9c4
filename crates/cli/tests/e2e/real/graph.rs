//! A graph of real agents: one leads, two work, one reviews; one is interrupted, one asks for an approval, and what they made
//! lands with receipts. The scripts travel in what the nodes are told, so each turn has its own.

use super::{Agent, Lab, answer, for_each_agent, lab, shell, then_answer, write};
use crate::environment::eventually;
use crate::graph::world::{Graph, started};
use scripted_model::Step;
use scripted_model::script::inline;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a node answers. Each says something else, by more than a number: whoever says the same again and again stalls.
fn result(handoffs: &Value, change: bool) -> [Step; 2] {
    static ANSWERS: AtomicUsize = AtomicUsize::new(1);
    let summary = format!("did it{}", "!".repeat(ANSWERS.fetch_add(1, Ordering::Relaxed)));
    let result = json!({"handoffs": handoffs, "ask": null, "spawn": null, "change": change, "done": false});
    answer(&json!({ "summary": summary, "result": result }))
}

fn script(steps: impl IntoIterator<Item = Step>, handoffs: &Value, change: bool) -> String {
    let all: Vec<Step> = steps.into_iter().chain(result(handoffs, change)).collect();
    inline(&all)
}

fn handoff(to: &str, message: &str) -> Value {
    json!({"to": to, "message": message, "response": "none"})
}

/// How much of its prompt each turn of a node was told, oldest first.
fn told(graph: &Graph, node: &str) -> Vec<String> {
    let of_node = |artifact: &&Value| artifact["nodeId"] == node && artifact["name"] == "prompt.blocks.json";
    let created = graph.told("artifact.created");
    let artifacts = created.iter().map(|event| &event["artifact"]).filter(of_node);
    let sent = |artifact: &Value| {
        let blocks = std::fs::read(artifact["path"].as_str().unwrap()).unwrap();
        serde_json::from_slice::<Value>(&blocks).unwrap()["sent"].as_str().unwrap().to_owned()
    };
    artifacts.map(sent).collect()
}

/// Grants what is asked, once somebody asks.
fn approve(graph: &Graph) {
    let mut asked = Value::Null;
    eventually("an agent asks", || {
        asked = graph.served.get("/api/approvals")["approvals"][0].clone();
        asked["approvalId"].is_string()
    });
    let path = format!("/api/approvals/{}/resolve", asked["approvalId"].as_str().unwrap());
    graph.served.ask("POST", &path, Some(&json!({"resolution": {"status": "approved"}}))).with(200);
}

#[test]
fn four_real_agents_work_as_a_graph() {
    let all = [Agent::Claude, Agent::Codex, Agent::Opencode, Agent::Gemini];
    let Some(Lab { env, server }) = lab(&all, then_answer([])) else { return };
    let graph = started(env, json!({"mode": "INTERACTIVE"}));
    let reader = json!({"writeCode": false, "writeDocs": false});
    let lead =
        graph.node("Lead", json!({"roleTemplate": "orchestrator", "provider": "claude", "capabilities": reader}));
    let coder = graph.node("Coder", json!({"provider": "codex", "permissions": {"cliPermissionsMode": "skip"}}));
    let helper = graph.node("Helper", json!({"provider": "custom", "agent": "opencode"}));
    let reviewer =
        graph.node("Reviewer", json!({"roleTemplate": "reviewer", "provider": "gemini", "capabilities": reader}));
    graph.edge(&lead, &coder, json!({}));
    graph.edge(&lead, &helper, json!({}));
    graph.edge(&coder, &reviewer, json!({}));
    let copy = script([shell("cp README.md hello.txt")], &json!([]), true);
    let hand_over = json!([handoff("Coder", &inline(&[Step::Hang])), handoff("Helper", &copy)]);
    graph.say(&lead, script([], &hand_over, false), false);
    eventually("both are at work", || [&coder, &helper].into_iter().all(|node| graph.shown(node)["status"] != "idle"));
    let review = handoff("Reviewer", &script([Step::Read { path: "fast.txt".to_owned() }], &json!([]), false));
    let code = script([write("fast.txt", "fast\n")], &json!([review]), true);
    graph.say(&coder, code, true);
    approve(&graph);
    eventually("both changes have their receipts", || {
        let created = graph.told("artifact.created");
        created.iter().filter(|event| event["artifact"]["name"] == "RECEIPT.json").count() == 2
    });
    graph.answered(&reviewer, 1);
    conversations_continue_until_they_are_reset(&graph);
    graph.until("nobody is at work", |run| {
        run["nodes"].as_object().unwrap().values().all(|node| node["status"] != "running")
    });
    graph.patch("", json!({"status": "completed"}));
    graph.until("the run is over", |run| run["status"] == "completed");
    assert_eq!((graph.env.read("fast.txt"), graph.env.read("hello.txt")), ("fast\n".into(), "hello\n".into()));
    let ended = graph.told("message.assistant.final");
    let interrupted: Vec<&Value> = ended.iter().filter(|event| event["status"] == "interrupted").collect();
    assert_eq!(interrupted.len(), 1, "{interrupted:?}");
    assert_eq!(interrupted[0]["nodeId"], json!(coder));
    let slug = graph.run()["slug"].as_str().unwrap().to_owned();
    graph.env.norma(&["verify", &slug]).success();
    graph.env.norma(&["replay", &slug]).success();
    drop(server);
}

/// A call of one of norma's own tools.
fn tool(name: &str, arguments: Value) -> Step {
    Step::Tool { name: name.to_owned(), arguments }
}

/// What the agent of a node calls of norma's own tools comes to the same as what it answers, and is judged the same: the
/// handoff and the report arrive, the node is made, and what there is no edge for is refused.
fn what_is_called_comes_to_what_is_answered(agent: Agent) {
    let Some(Lab { env, server }) = lab(&[agent], then_answer([])) else { return };
    let graph = started(env, json!({"mode": "INTERACTIVE"}));
    // Models that codex knows search for such tools first; to others they are offered.
    let provider = match agent {
        Agent::Codex => json!({"provider": "codex", "model": "scripted-1"}),
        Agent::Opencode => json!({"provider": "custom", "agent": "opencode"}),
        _ => json!({"provider": agent.name()}),
    };
    let with = |more: Value| {
        let mut node = provider.clone();
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node
    };
    let spawns = json!({"spawnNodes": true, "runCommands": false});
    let open = json!({"spawnRequiresApproval": false});
    let lead =
        graph.node("Lead", with(json!({"roleTemplate": "orchestrator", "capabilities": spawns, "permissions": open})));
    let one = graph.node("One", with(json!({})));
    let two = graph.node("Two", with(json!({})));
    graph.edge(&lead, &one, json!({}));
    graph.edge(&two, &one, json!({}));
    let report = script([tool("report", json!({"message": "half of it", "status": {"ok": true}}))], &json!([]), false);
    let spawn = json!({"label": "Three", "roleTemplate": "reviewer", "provider": "codex"});
    let calls = [
        tool("send_handoff", json!({"to": "One", "message": report})),
        tool("send_handoff", json!({"to": "Two", "message": "there is no edge"})),
        tool("create_edge", json!({"from": "Lead", "to": "Two", "bidirectional": false})),
        tool("spawn_node", spawn),
    ];
    graph.say(&lead, script(calls, &json!([]), false), false);
    graph.answered(&one, 1);
    eventually("both handoffs are sent", || graph.told("handoff.sent").len() >= 2);
    let sent = graph.told("handoff.sent");
    let way = |event: &Value| (event["envelope"]["fromNodeId"].clone(), event["envelope"]["toNodeId"].clone());
    assert_eq!(sent.iter().map(way).collect::<Vec<_>>(), [(json!(lead), json!(one)), (json!(one), json!(lead))]);
    assert_eq!(sent[1]["envelope"]["payload"]["message"], "half of it");
    let run = graph.run();
    let labels: Vec<&Value> = run["nodes"].as_object().unwrap().values().map(|node| &node["label"]).collect();
    assert!(labels.contains(&&json!("Three")), "{labels:?}");
    assert!(run["edges"].as_object().unwrap().values().any(|edge| edge["to"] == json!(two)), "{run}");
    let told = graph.told("message.user");
    assert!(told.iter().any(|event| event.to_string().contains("there is no edge to Two")), "{told:?}");
    drop(server);
}

for_each_agent!(what_is_called_comes_to_what_is_answered);

/// All is said in the first turn, after a reset and to another agent; what follows is only what is new. The node has no edges:
/// what it says goes nowhere.
fn conversations_continue_until_they_are_reset(graph: &Graph) {
    let node = graph.node("Talker", json!({"provider": "claude"}));
    let talk = |count: usize| {
        graph.say(&node, script([], &json!([]), false), false);
        graph.answered(&node, count);
    };
    talk(1);
    talk(2);
    graph.post(&format!("/nodes/{node}/reset"), &json!({})).with(200);
    talk(3);
    graph.patch(&format!("/nodes/{node}"), json!({"provider": "codex"}));
    talk(4);
    assert_eq!(told(graph, &node), ["full", "delta", "full", "full"]);
}
