//! What nodes hand to each other: along edges, once, and never back and forth by themselves.

use super::world::{Graph, graph};
use serde_json::{Value, json};

/// Three nodes: Ada is connected with Bob, and Bob is not with Cy.
fn three() -> (Graph, [String; 3]) {
    let graph = graph();
    let nodes = ["Ada", "Bob", "Cy"].map(|label| graph.node(label, json!({})));
    (graph, nodes)
}

fn sent(graph: &Graph) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let parts = |event: &Value| {
        let it = &event["envelope"];
        (text(&it["fromNodeId"]), text(&it["toNodeId"]), text(&it["payload"]["message"]))
    };
    graph.told("handoff.sent").iter().map(parts).collect()
}

#[test]
fn a_result_goes_along_edges_only_and_its_reply_starts_no_turn() {
    let (graph, [ada, bob, cy]) = three();
    graph.edge(&ada, &bob, json!({}));
    graph.say(&ada, "begin", false);
    let first = "turn 1 of implementer: begin".to_owned();
    let second = format!("turn 1 of implementer: {first}");
    assert_eq!(graph.answered(&bob, 1), [second.as_str()]);
    let run = graph.until("the reply waits", |run| run["nodes"][&ada]["inboxCount"] == 1);
    assert_eq!((&run["nodes"][&ada]["status"], &run["nodes"][&bob]["inboxCount"]), (&json!("idle"), &json!(0)));
    assert_eq!(sent(&graph), [(ada.clone(), bob.clone(), first), (bob.clone(), ada.clone(), second.clone())]);
    let envelope = &graph.told("handoff.sent")[0]["envelope"];
    assert_eq!((&envelope["kind"], &envelope["payload"]["status"]["ok"]), (&json!("handoff"), &json!(true)));
    // The reply is read in the next turn, whose result goes on again.
    graph.say(&ada, "continue", false);
    assert_eq!(graph.answered(&ada, 2)[1], format!("turn 2 of implementer: continue | {second}"));
    graph.answered(&bob, 2);
    graph.until("the reply waits", |run| run["nodes"][&ada]["inboxCount"] == 1);
    assert_eq!((graph.answers(&ada).len(), graph.answers(&bob).len(), graph.answers(&cy).len()), (2, 2, 0));
}

#[test]
fn nothing_comes_back_over_an_edge_of_one_direction() {
    let (graph, [ada, bob, _]) = three();
    let edge = graph.edge(&ada, &bob, json!({"bidirectional": false}));
    graph.say(&ada, "begin", false);
    graph.answered(&bob, 1);
    graph.quiet();
    assert_eq!(sent(&graph).len(), 1);
    let path = graph.path(&format!("/edges/{}", edge["id"].as_str().unwrap()));
    assert_eq!(graph.served.ask("DELETE", &path, None).with(200), json!({"edgeId": edge["id"]}));
    graph.served.ask("DELETE", &path, None).with(404);
    graph.say(&ada, "again", false);
    graph.answered(&ada, 2);
    graph.quiet();
    assert_eq!(sent(&graph).len(), 1, "there is no edge any more");
}

#[test]
fn work_goes_on_from_node_to_node_and_its_result_is_told_backwards() {
    let (graph, [ada, bob, cy]) = three();
    graph.edge(&ada, &bob, json!({}));
    graph.edge(&bob, &cy, json!({}));
    graph.say(&ada, "begin", false);
    graph.answered(&cy, 1);
    graph.until("the last reply waits", |run| run["nodes"][&bob]["inboxCount"] == 1);
    let ends: Vec<(String, String)> = sent(&graph).into_iter().map(|(from, to, _)| (from, to)).collect();
    let mut expected = vec![(ada.clone(), bob.clone()), (bob.clone(), cy.clone()), (cy, bob.clone()), (bob, ada)];
    expected.sort();
    let mut found = ends.clone();
    found.sort();
    assert_eq!(found, expected, "{ends:?}");
}

#[test]
fn an_agent_says_itself_what_it_hands_to_whom() {
    let (graph, [ada, bob, cy]) = three();
    graph.edge(&ada, &bob, json!({}));
    graph.edge(&ada, &cy, json!({}));
    let handoff = json!({
        "to": "Cy", "message": "only you", "structured": {"files": 2}, "status": {"ok": true, "reason": "tests-pass"},
        "artifacts": [{"type": "diff", "ref": "artifact://diff/123"}],
    });
    graph.say(&ada, json!({"result": {"handoffs": [handoff]}}), false);
    assert_eq!(graph.answered(&cy, 1), ["turn 1 of implementer: only you"]);
    let envelope = graph.told("handoff.sent")[0]["envelope"].clone();
    let payload = json!({
        "message": "only you", "structured": {"files": 2}, "artifacts": [{"type": "diff", "ref": "artifact://diff/123"}],
        "status": {"ok": true, "reason": "tests-pass"},
    });
    assert_eq!((&envelope["toNodeId"], &envelope["payload"]), (&json!(cy), &payload));
    let told = graph.requests().into_iter().find(|it| it["context"]["handoffs"][0].is_object()).unwrap();
    assert_eq!(told["context"]["handoffs"], json!([envelope]));
    assert_eq!(graph.answers(&bob).len(), 0);
}

#[test]
fn a_handoff_without_an_edge_is_refused_and_its_sender_is_told() {
    let (graph, [ada, _, cy]) = three();
    graph.say(
        &ada,
        json!({"result": {"handoffs": [{"to": "Cy", "message": "psst"}, {"to": "Dee", "message": "?"}]}}),
        false,
    );
    graph.answered(&ada, 1);
    graph.say(&ada, "what happened", false);
    let answer = &graph.answered(&ada, 2)[1];
    assert!(answer.contains("there is no edge to Cy") && answer.contains("there is no node Dee"), "{answer}");
    assert_eq!((sent(&graph), graph.answers(&cy).len()), (vec![], 0));
}

#[test]
fn a_reply_that_is_asked_for_starts_a_turn_and_ends_there() {
    let (graph, [ada, bob, _]) = three();
    graph.edge(&ada, &bob, json!({}));
    let handoff = json!({"to": bob, "message": "how many", "response": "required"});
    graph.say(&ada, json!({"result": {"handoffs": [handoff]}}), false);
    assert!(graph.answered(&ada, 2)[1].ends_with("turn 1 of implementer: how many"));
    graph.until("its report waits", |run| run["nodes"][&bob]["inboxCount"] == 1);
    assert_eq!((graph.answers(&ada).len(), graph.answers(&bob).len()), (2, 1));
}

#[test]
fn a_report_tells_and_starts_nothing() {
    let graph = graph();
    graph.patch("", json!({"mode": "INTERACTIVE"}));
    let lead = graph.node("Lead", json!({"roleTemplate": "Orchestrator"}));
    let coder = graph.node("Coder", json!({}));
    let edge = graph.edge(&coder, &lead, json!({"label": ""}));
    assert_eq!((&edge["type"], &edge["label"]), (&json!("report"), &json!("report")));
    graph.say(&coder, "begin", false);
    graph.answered(&coder, 1);
    let run = graph.until("it waits", |run| run["nodes"][&lead]["inboxCount"] == 1);
    assert_eq!((&run["nodes"][&lead]["status"], graph.answers(&lead).len()), (&json!("idle"), 0));
}

#[test]
fn an_orchestrator_that_goes_on_by_itself_is_asked_again_and_an_interactive_one_is_not() {
    let graph = graph();
    graph.patch("", json!({"mode": "INTERACTIVE"}));
    let lead = graph.node("Lead", json!({"roleTemplate": "orchestrator"}));
    let coder = graph.node("Coder", json!({}));
    let edge = graph.edge(&lead, &coder, json!({}));
    assert_eq!(
        (&edge["type"], &edge["label"], &edge["bidirectional"]),
        (&json!("handoff"), &json!("task"), &json!(true))
    );
    graph.say(&lead, "begin", false);
    graph.answered(&coder, 1);
    graph.until("the reply waits", |run| run["nodes"][&lead]["inboxCount"] == 1);
    assert_eq!(graph.answers(&lead).len(), 1);
    let run = graph.patch("", json!({"mode": "AUTO"}))["run"].clone();
    assert_eq!(run["mode"], json!("AUTO"));
    let told = graph.answered(&lead, 2);
    assert!(told[1].contains("turn 1 of implementer"), "it is told what has come of it: {told:?}");
    assert_eq!(graph.told("run.mode").len(), 2);
}

/// The notes of the last turn of a node's agent.
fn notes(graph: &Graph, node: &str) -> String {
    let told = graph.requests().into_iter().rfind(|request| request["contract"]["agent_id"] == node);
    told.unwrap()["context"]["notes"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_referred_to_is_read_by_whoever_is_told_of_it() {
    let graph = graph();
    let (ada, grace, eve) =
        (graph.node("Ada", json!({})), graph.node("Grace", json!({})), graph.node("Eve", json!({})));
    graph.edge(&ada, &grace, json!({}));
    graph.say(&ada, json!({"write": {"src/new.txt": "something new\n"}, "say": "wrote it"}), false);
    graph.answered(&grace, 1);
    let run = graph.run();
    let of_ada = |kind: &str| {
        let mut artifacts = run["artifacts"].as_object().unwrap().values();
        artifacts.rfind(|it| it["kind"] == kind && it["nodeId"] == json!(ada)).unwrap().clone()
    };
    let (pack, diff) = (of_ada("contextpack"), of_ada("diff"));
    let sent = graph.told("handoff.sent")[0]["envelope"].clone();
    assert_eq!(sent["contextRef"], json!(format!("contextpack://pack/{}", pack["id"].as_str().unwrap())));
    let reference = format!("artifact://{}", diff["id"].as_str().unwrap());
    assert_eq!(sent["payload"]["artifacts"], json!([{"type": "diff", "ref": reference}]));
    let told = notes(&graph, &grace);
    assert!(told.contains("\"summary\": \"wrote it\"") && told.contains("+something new"), "{told}");
    // Who has no edge is referred to it by a person, and can read all of it; what there is not is said not to be there.
    let read = json!({"run": ["grep", "-q", "something new", diff["path"]], "name": reference});
    graph.say(&eve, read, false);
    assert!(graph.answered(&eve, 1)[0].contains("ran: 0"), "{:?}", graph.answers(&eve));
    graph.say(&eve, "what of artifact://00000000-0000-7000-8000-000000000000?", false);
    graph.answered(&eve, 2);
    assert!(notes(&graph, &eve).contains("this run has no such artifact"), "{}", notes(&graph, &eve));
    let connection = graph.shown(&eve)["connection"].clone();
    assert_eq!(
        (&connection["status"], connection["lastHeartbeatAt"].is_string()),
        (&json!("idle"), true),
        "{connection}"
    );
}
