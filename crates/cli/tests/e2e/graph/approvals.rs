//! What agents of nodes ask for, and what people answer.

use super::world::{Graph, graph};
use crate::environment::eventually;
use serde_json::{Value, json};

/// The approval that is asked for, once it is.
fn asked(graph: &Graph) -> Value {
    let mut found = Value::Null;
    eventually("somebody is asked", || {
        found = graph.served.get("/api/approvals")["approvals"][0].clone();
        found["nodeId"].is_string()
    });
    found
}

fn answer(graph: &Graph, approval: &Value, resolution: Value) {
    let path = format!("/api/approvals/{}/resolve", approval["approvalId"].as_str().unwrap());
    graph.served.ask("POST", &path, Some(&json!({ "resolution": resolution }))).with(200);
    graph.served.ask("POST", &path, Some(&json!({ "resolution": resolution }))).with(409);
}

fn order() -> Value {
    json!({"result": {"ask": {"command": ["git", "push", "--force"], "reason": "it diverged"}}})
}

/// Asks, answers like this, and is told that.
fn check(resolution: Value, told: &str) {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    graph.say(&node, order(), false);
    let approval = asked(&graph);
    assert_eq!((&approval["nodeId"], &approval["runId"]), (&json!(node), &json!(graph.id)), "{approval:#}");
    let requested = graph.told("approval.requested");
    assert_eq!((requested.len(), &requested[0]["approvalId"]), (1, &approval["approvalId"]));
    assert!(requested[0]["tool"]["args"]["cmd"].as_str().unwrap().contains("git push --force"), "{requested:#?}");
    assert_eq!(graph.answers(&node).len(), 1, "nothing happens before somebody answers");
    answer(&graph, &approval, resolution);
    let said = graph.answered(&node, 2)[1].clone();
    assert_eq!(said, format!("turn 2 of implementer: {told}"));
    let message = graph.requests()[1]["context"]["messages"][0].clone();
    assert_eq!(message["role"], json!("system"));
    assert_eq!(graph.told("approval.resolved").len(), 1);
    assert_eq!(graph.served.get("/api/approvals")["approvals"], json!([]));
}

#[test]
fn a_command_that_is_approved_is_told_in_the_next_turn() {
    check(json!({"status": "approved"}), "approval answered: approved\nargv: [\"git\",\"push\",\"--force\"]");
}

#[test]
fn a_command_that_is_denied_is_told_in_the_next_turn() {
    check(
        json!({"status": "denied", "reason": "never"}),
        "approval answered: denied\ncommand: git push --force\nreason: never",
    );
}

#[test]
fn a_command_that_is_changed_is_told_in_the_next_turn() {
    let resolution = json!({"status": "modified", "modifiedArgs": {"argv": ["git", "push", "origin", "two words"]}});
    check(resolution, "approval answered: modified\nargv: [\"git\",\"push\",\"origin\",\"two words\"]");
}

fn spawning() -> Value {
    let spawn =
        json!({"label": "Helper", "roleTemplate": "reviewer", "provider": "custom", "instructions": "look at it"});
    json!({"result": {"spawn": spawn}})
}

/// The node of a label.
fn labelled(graph: &Graph, label: &str) -> Option<Value> {
    graph.run()["nodes"].as_object().unwrap().values().find(|node| node["label"] == label).cloned()
}

#[test]
fn an_orchestrator_makes_a_node_by_itself_where_its_permissions_say_so() {
    let graph = graph();
    graph.patch("", json!({"mode": "INTERACTIVE"}));
    let may = json!({"roleTemplate": "orchestrator", "capabilities": {"spawnNodes": true},
        "permissions": {"spawnRequiresApproval": false}});
    let lead = graph.node("Lead", may);
    assert_eq!(graph.shown(&lead)["permissions"]["spawnRequiresApproval"], json!(false));
    graph.say(&lead, spawning(), false);
    eventually("it is there", || labelled(&graph, "Helper").is_some());
    let helper = labelled(&graph, "Helper").unwrap();
    assert_eq!((&helper["roleTemplate"], &helper["capabilities"]["spawnNodes"]), (&json!("reviewer"), &json!(false)));
    assert_eq!(graph.answered(helper["id"].as_str().unwrap(), 1), ["turn 1 of reviewer: look at it"]);
    let edges = graph.run()["edges"].clone();
    let edge = edges.as_object().unwrap().values().next().unwrap();
    assert_eq!((&edge["from"], &edge["to"]), (&json!(lead), &helper["id"]));
    assert_eq!(graph.told("approval.requested").len(), 0);
}

#[test]
fn any_other_node_needs_an_approval_to_make_one_whatever_it_asks_for() {
    let graph = graph();
    let may = json!({"capabilities": {"spawnNodes": true}, "permissions": {"spawnRequiresApproval": false}});
    let node = graph.node("Ada", may);
    graph.say(&node, spawning(), false);
    let approval = asked(&graph);
    assert!(labelled(&graph, "Helper").is_none());
    answer(&graph, &approval, json!({"status": "approved"}));
    eventually("it is there", || labelled(&graph, "Helper").is_some());
    // And once more, denied.
    graph.answered(&node, 2);
    let mut again = spawning();
    again["result"]["spawn"]["label"] = json!("Another");
    graph.say(&node, again, false);
    let approval = asked(&graph);
    answer(&graph, &approval, json!({"status": "denied"}));
    let told = graph.answered(&node, 4)[3].clone();
    assert!(told.contains("approval answered: denied"), "{told}");
    assert!(labelled(&graph, "Another").is_none());
}

fn connecting() -> Value {
    json!({"result": {"edge": {"from": "Ada", "to": "Grace", "label": "review"}}})
}

#[test]
fn an_edge_is_drawn_by_who_may_make_nodes_and_with_the_same_approval() {
    let graph = graph();
    graph.patch("", json!({"mode": "INTERACTIVE"}));
    let may = json!({"capabilities": {"spawnNodes": true}, "permissions": {"spawnRequiresApproval": false}});
    let (ada, grace) = (graph.node("Ada", may.clone()), graph.node("Grace", json!({})));
    graph.say(&ada, connecting(), false);
    let approval = asked(&graph);
    assert!(approval.to_string().contains("create_edge"), "{approval}");
    assert_eq!(graph.run()["edges"], json!({}));
    answer(&graph, &approval, json!({"status": "approved"}));
    graph.answered(&ada, 2);
    let edges = graph.run()["edges"].clone();
    let edge = edges.as_object().unwrap().values().next().unwrap();
    assert_eq!((&edge["from"], &edge["to"], &edge["label"]), (&json!(ada), &json!(grace), &json!("review")));
    // Once more it is there already; and who may make no nodes draws none.
    graph.say(&ada, connecting(), false);
    graph.say(&grace, connecting(), false);
    graph.answered(&ada, 3);
    graph.answered(&grace, 1);
    for (node, count, why) in [(&ada, 4, "already"), (&grace, 2, "spawnNodes")] {
        graph.say(node, "well?", false);
        let told = graph.answered(node, count)[count - 1].clone();
        assert!(told.contains("edge was refused") && told.contains(why), "{told}");
    }
    assert_eq!(graph.run()["edges"].as_object().unwrap().len(), 1);
}

#[test]
fn a_node_that_may_not_make_others_is_told_so() {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    graph.say(&node, spawning(), false);
    graph.answered(&node, 1);
    graph.say(&node, "well?", false);
    let told = graph.answered(&node, 2)[1].clone();
    assert!(told.contains("spawn was refused") && told.contains("spawnNodes"), "{told}");
    assert!(labelled(&graph, "Helper").is_none());
}
