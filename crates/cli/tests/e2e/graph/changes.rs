//! From what nodes make to what lands: changes through the gates, phases, and runs that get nowhere.

use super::world::{Graph, environment, graph, started};
use crate::environment::eventually;
use serde_json::{Value, json};

fn phases(graph: &Graph) -> Vec<String> {
    graph.told("run.phase").iter().map(|event| event["phase"].as_str().unwrap().to_owned()).collect()
}

fn writing(path: &str, change: bool) -> Value {
    json!({"write": {path: "new\n"}, "result": {"change": change}})
}

fn ended(graph: &Graph) -> Value {
    graph.until("it has ended", |run| run["status"] == "completed")
}

#[test]
fn a_change_passes_its_gates_with_a_receipt_and_lands_when_the_work_is_done() {
    let graph = started(environment(|_| {}), json!({"test": ["test -f src/new.txt"]}));
    let node = graph.node("Ada", json!({}));
    graph.say(&node, writing("src/new.txt", true), false);
    graph.until("it has passed", |run| run["nodes"][&node]["summary"] == "change passed every gate");
    assert!(!graph.env.root.join("src/new.txt").exists(), "it lands when the work is done");
    let receipt = graph.env.event("item_ended")["receipt"].clone();
    assert!(receipt["receipt_hash"].is_string(), "{receipt}");
    let done = graph.patch("", json!({"status": "completed"}));
    assert!(["running", "completed"].contains(&done["run"]["status"].as_str().unwrap()), "{done}");
    let run = ended(&graph);
    assert_eq!(run["phase"], json!("DONE"));
    assert_eq!(phases(&graph), ["EXECUTE", "VERIFY", "DONE"]);
    eventually("it has landed", || graph.env.root.join("src/new.txt").exists());
    graph.post("/chat", &json!({"nodeId": node, "content": "hello"})).with(409);
    eventually("it is sealed", || graph.served.get(&graph.path("/verify"))["verified"] == json!(true));
}

#[test]
fn what_was_made_and_never_proposed_is_judged_when_the_work_is_done() {
    let graph = graph();
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    graph.say(&ada, writing("src/ada.txt", false), false);
    graph.say(&bob, writing("src/bob.txt", false), false);
    graph.answered(&ada, 1);
    graph.answered(&bob, 1);
    graph.patch("", json!({"status": "completed"}));
    ended(&graph);
    eventually("both have landed", || ["src/ada.txt", "src/bob.txt"].iter().all(|it| graph.env.root.join(it).exists()));
    assert_eq!(graph.env.event_types().iter().filter(|kind| *kind == "item_ended").count(), 2);
}

#[test]
fn a_run_without_changes_needs_no_gates_to_be_done() {
    let graph = graph();
    let lead = graph.node("Lead", json!({"roleTemplate": "orchestrator"}));
    graph.say(&lead, json!({"result": {"done": true}}), false);
    ended(&graph);
    assert_eq!(phases(&graph), ["EXECUTE", "VERIFY", "DONE"]);
}

#[test]
fn a_change_that_fails_its_tests_is_told_to_its_node_and_keeps_the_run_from_being_done() {
    let graph = started(environment(|_| {}), json!({"test": ["test -f src/needed.txt"]}));
    let node = graph.node("Ada", json!({}));
    graph.say(&node, writing("src/other.txt", false), false);
    graph.answered(&node, 1);
    graph.patch("", json!({"status": "completed"}));
    let told = graph.answered(&node, 2)[1].clone();
    assert!(told.contains("turn 2"), "{told}");
    graph.until("it is back at work", |run| run["phase"] == "EXECUTE");
    assert_eq!(graph.run()["status"], json!("running"));
    graph.say(&node, writing("src/needed.txt", false), false);
    graph.answered(&node, 3);
    graph.patch("", json!({"status": "completed"}));
    ended(&graph);
    assert_eq!(phases(&graph), ["EXECUTE", "VERIFY", "EXECUTE", "VERIFY", "DONE"]);
    eventually("it has landed", || graph.env.root.join("src/needed.txt").exists());
}

#[test]
fn documents_are_brought_up_to_date_where_a_node_is_for_them() {
    let graph = graph();
    let coder = graph.node("Ada", json!({}));
    let writer = graph.node("Bob", json!({"roleTemplate": "writer", "capabilities": {"writeCode": false}}));
    graph.say(&coder, writing("src/new.txt", true), false);
    graph.until("it has passed", |run| run["nodes"][&coder]["summary"] == "change passed every gate");
    graph.patch("", json!({"status": "completed"}));
    ended(&graph);
    assert_eq!(phases(&graph), ["EXECUTE", "VERIFY", "DOCS_SYNC", "DONE"]);
    assert_eq!(graph.answers(&writer).len(), 1);
}

#[test]
fn a_node_that_says_the_same_again_and_again_pauses_the_run_and_resuming_begins_anew() {
    let graph = started(environment(|config| config["graph"] = json!({"stall": {"same_output": 2}})), json!({}));
    let node = graph.node("Ada", json!({}));
    for turn in 1..=2 {
        graph.say(&node, json!({"say": "I am thinking."}), false);
        graph.answered(&node, turn);
    }
    graph.until("it is paused", |run| run["status"] == "paused");
    let stalled = graph.told("run.stalled");
    assert_eq!(stalled.len(), 1);
    let evidence = &stalled[0]["evidence"];
    assert!(evidence["outputHash"].is_string() && evidence["summaries"][0] == "I am thinking.", "{evidence:#}");
    graph.patch("", json!({"status": "running"}));
    graph.say(&node, json!({"say": "I am thinking."}), false);
    graph.answered(&node, 3);
    graph.say(&node, "hello", false);
    assert_eq!(graph.answered(&node, 4)[3], "turn 4 of implementer: hello");
    assert_eq!(graph.told("run.stalled").len(), 1);
}

/// Waits for a stall, of this kind.
fn stalled(graph: &Graph, kind: &str) {
    graph.until("it is paused", |run| run["status"] == "paused");
    let evidence = graph.told("run.stalled")[0]["evidence"].clone();
    assert!(evidence[kind].is_string(), "{evidence:#}");
}

#[test]
fn a_node_that_makes_the_same_change_again_and_again_pauses_the_run() {
    let graph = started(environment(|config| config["graph"] = json!({"stall": {"same_diff": 2}})), json!({}));
    let node = graph.node("Ada", json!({}));
    for (turn, word) in (1..).zip(["one", "two"]) {
        let order = json!({"append": {"src/lib.txt": "again\n"}, "say": word});
        graph.say(&node, order, false);
        graph.answered(&node, turn);
    }
    stalled(&graph, "diffHash");
}

#[test]
fn a_node_whose_change_fails_the_same_tests_again_and_again_pauses_the_run() {
    let limits = |config: &mut Value| {
        config["graph"] = json!({"tests": ["test -f src/needed.txt"], "stall": {"same_failure": 2}})
    };
    let graph = started(environment(limits), json!({}));
    let node = graph.node("Ada", json!({}));
    for (name, word) in [("src/a.txt", "one"), ("src/b.txt", "two")] {
        let before = graph.answers(&node).len();
        let mut order = writing(name, true);
        order["say"] = json!(word);
        graph.say(&node, order, false);
        graph.answered(&node, before + 1);
        eventually("it is judged", || {
            graph.env.event_types().iter().filter(|kind| *kind == "item_ended").count() > before / 2
        });
    }
    stalled(&graph, "verificationFailure");
}

#[test]
fn turns_that_change_nothing_are_no_stall() {
    let graph = started(environment(|config| config["graph"] = json!({"stall": {"same_diff": 2}})), json!({}));
    let node = graph.node("Ada", json!({}));
    for (turn, word) in (1..).zip(["one", "two", "three"]) {
        graph.say(&node, word, false);
        graph.answered(&node, turn);
    }
    assert_eq!((&graph.run()["status"], graph.told("run.stalled").len()), (&json!("running"), 0));
}
