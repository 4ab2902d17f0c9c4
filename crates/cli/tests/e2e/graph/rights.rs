//! What nodes may do, held by the kernel and the gates: an agent that tries all the same leaves nothing behind.

use super::world::{Graph, environment, graph, started};
use serde_json::{Value, json};

/// The paths that the turns of a run have changed.
fn changed(graph: &Graph) -> Vec<Value> {
    let run = graph.run();
    let artifacts = run["artifacts"].as_object().unwrap().values();
    artifacts
        .filter(|it| it["kind"] == "diff")
        .flat_map(|it| it["metadata"]["filesChanged"].as_array().cloned().unwrap_or_default())
        .collect()
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
fn the_same_holds_where_workspaces_are_directories() {
    let plain = || started(environment(|config| config["workspace"] = json!({"layers": false})), json!({}));
    check(&plain(), json!({"capabilities": {"writeCode": false}}), &["docs/page.md"]);
    check(&plain(), json!({"capabilities": {"delegateOnly": true}}), &[]);
}

#[test]
fn documents_that_lead_elsewhere_by_a_link_are_not_written_to() {
    let env = environment(|_| {});
    std::os::unix::fs::symlink("src", env.root.join("docs")).unwrap();
    env.commit("documents are code");
    let graph = started(env, json!({}));
    let node = graph.node("Ada", json!({"capabilities": {"writeCode": false}}));
    graph.say(&node, writing(), false);
    graph.until("it has failed", |run| run["nodes"][&node]["status"] == "failed");
    assert_eq!(changed(&graph), [] as [Value; 0]);
}

#[test]
fn a_node_that_only_delegates_writes_nothing() {
    check(&graph(), json!({"capabilities": {"delegateOnly": true}}), &[]);
}

#[test]
fn a_node_that_may_not_write_documents_writes_code_only() {
    for layers in [true, false] {
        let env = environment(|config| config["workspace"] = json!({ "layers": layers }));
        env.write("docs/page.md", "as it was\n");
        env.commit("documents");
        check(&started(env, json!({})), json!({"capabilities": {"writeDocs": false}}), &["src/code.txt"]);
    }
    // Where there are none yet, its gate refuses them.
    let graph = graph();
    let node = graph.node("Ada", json!({"capabilities": {"writeDocs": false}}));
    let mut order = writing();
    order["result"] = json!({"change": true});
    graph.say(&node, order, false);
    let told = graph.answered(&node, 2)[1].clone();
    assert!(told.contains("docs/page.md") && !told.contains("src/code.txt"), "{told}");
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
fn what_a_node_changes_outside_of_its_scope_does_not_pass() {
    let graph = graph();
    let node = graph.node("Ada", json!({"scope": ["src"]}));
    let mut order = writing();
    order["result"] = json!({"change": true});
    graph.say(&node, order, false);
    let told = graph.answered(&node, 2)[1].clone();
    assert!(told.contains("docs/page.md"), "{told}");
    assert_eq!(graph.run()["status"], json!("running"));
}

#[test]
fn a_node_that_may_run_no_commands_starts_nothing_but_its_agent() {
    let graph = graph();
    let node = graph.node("Ada", json!({"capabilities": {"runCommands": false}}));
    graph.say(&node, json!({"run": ["git", "status"]}), false);
    assert!(graph.answered(&node, 1)[0].contains("could not run"), "{:?}", graph.answers(&node));
    let violations = graph.told("gate.failed");
    assert_eq!((violations.len(), &violations[0]["nodeId"]), (1, &json!(node)), "{violations:?}");
    assert!(violations[0]["findings"][0].as_str().unwrap().contains("git status"), "{violations:?}");
    graph.patch(&format!("/nodes/{node}"), json!({"capabilities": {"runCommands": true}}));
    graph.say(&node, json!({"run": ["git", "status"]}), false);
    assert!(graph.answered(&node, 2)[1].contains("ran: 0"), "{:?}", graph.answers(&node));
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
