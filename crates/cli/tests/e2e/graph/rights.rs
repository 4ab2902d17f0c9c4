//! What nodes may do, held by the kernel and the gates: an agent that tries all the same leaves nothing behind.

use super::world::{Graph, environment, graph, started};
use serde_json::{Value, json};

/// The paths that the turns of a run have changed.
fn changed(graph: &Graph) -> Vec<Value> {
    let run = graph.run();
    let artifacts = run["artifacts"].as_object().unwrap().values();
    artifacts.filter(|it| it["kind"] == "diff").flat_map(|it| it["metadata"]["filesChanged"].as_array().cloned().unwrap_or_default()).collect()
}

fn writing() -> Value {
    json!({"write": {"src/code.txt": "code\n", "docs/page.md": "page\n"}})
}

/// What comes of a node that writes code and documents.
fn check(graph: &Graph, node: Value, expected: &[&str]) {
    let node = graph.node("Ada", node);
    graph.say(&node, writing(), false);
    graph.answered(&node, 1);
    let expected: Vec<Value> = expected.iter().map(|path| json!(path)).collect();
    assert_eq!(changed(graph), expected, "{:?}", graph.answers(&node));
}

#[test]
fn a_node_that_may_not_write_code_writes_documents_only() {
    check(&graph(), json!({"capabilities": {"writeCode": false}}), &["docs/page.md"]);
}

#[test]
fn a_node_that_may_not_write_documents_writes_code_only() {
    check(&graph(), json!({"capabilities": {"writeDocs": false}}), &["src/code.txt"]);
}

#[test]
fn a_node_that_only_delegates_writes_nothing() {
    check(&graph(), json!({"capabilities": {"delegateOnly": true}}), &[]);
}

#[test]
fn nobody_writes_code_while_a_graph_only_plans() {
    let graph = started(environment(|_| {}), json!({"globalMode": "PLANNING"}));
    check(&graph, json!({}), &["docs/page.md"]);
    // From its next turn on it may.
    let run = graph.patch("", json!({"globalMode": "IMPLEMENTATION"}))["run"].clone();
    assert_eq!(run["globalMode"], json!("IMPLEMENTATION"));
    let node = run["nodes"].as_object().unwrap().keys().next().unwrap().clone();
    graph.say(&node, writing(), false);
    graph.answered(&node, 2);
    assert!(changed(&graph).contains(&json!("src/code.txt")));
}

#[test]
fn a_node_writes_within_the_scope_that_it_declares() {
    check(&graph(), json!({"scope": ["src"]}), &["src/code.txt"]);
}

#[test]
fn a_change_of_rights_counts_from_the_next_turn_on() {
    let graph = graph();
    check(&graph, json!({}), &["docs/page.md", "src/code.txt"]);
    let node = graph.run()["nodes"].as_object().unwrap().keys().next().unwrap().clone();
    graph.patch(&format!("/nodes/{node}"), json!({"capabilities": {"writeCode": false, "writeDocs": false}}));
    graph.say(&node, json!({"write": {"src/other.txt": "x\n"}}), false);
    graph.answered(&node, 2);
    assert_eq!(changed(&graph).len(), 2);
}
