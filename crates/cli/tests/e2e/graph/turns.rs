//! Turns of nodes: what starts one, what it is told, what ends it, and what is kept of it.

use super::world::{graph, graph_unconfined};
use crate::environment::eventually;
use serde_json::{Value, json};

#[test]
fn a_chat_line_starts_a_turn_at_once_and_the_agent_is_told_as_the_contract_has_it() {
    let graph = graph();
    let node = graph.node("Ada", json!({"roleTemplate": "qa-lead_2"}));
    let message = graph.say(&node, "hello", false);
    assert_eq!(graph.answered(&node, 1), ["turn 1 of qa-lead_2: hello"]);
    graph.say(&node, "and again", false);
    assert_eq!(graph.answered(&node, 2)[1], "turn 2 of qa-lead_2: and again");
    let requests = graph.requests();
    let (first, second) = (&requests[0], &requests[1]);
    assert_eq!((&first["goal"], &first["step"]["role"]), (&json!(""), &json!("qa-lead_2")));
    assert_eq!((&first["step"]["iteration"], &second["step"]["iteration"]), (&json!(1), &json!(2)));
    let told = &first["context"]["messages"][0];
    let at = &told["createdAt"];
    let expected = json!({"id": message, "role": "user", "content": "hello", "interrupt": false, "createdAt": at});
    assert_eq!(told, &expected);
    assert_eq!(first["context"]["handoffs"], json!([]));
    assert!(first["context"]["notes"].as_str().unwrap().contains("hello"), "{first}");
    assert_eq!(graph.run()["phase"], json!("EXECUTE"));
    let message = &graph.told("message.user")[0]["message"];
    assert_eq!((&message["content"], &message["nodeId"]), (&json!("hello"), &json!(node)));
}

#[test]
fn what_is_told_is_byte_for_byte_what_was_sent() {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    let content = "  \u{1f600} two\r\n\tlines \u{0} and \"quotes\"  ";
    graph.say(&node, content, false);
    graph.answered(&node, 1);
    assert_eq!(graph.told("message.user")[0]["message"]["content"], json!(content));
    assert_eq!(graph.requests()[0]["context"]["messages"][0]["content"], json!(content));
}

/// Has a node be in a turn that waits for a file.
fn at_work(graph: &super::world::Graph, node: &str, name: &str) {
    let order = json!({"name": name, "touch": graph.env.at(&format!("{name}-started")), "wait": graph.env.at(name)});
    graph.say(node, order, false);
    graph.env.wait_for(&format!("{name}-started"));
}

#[test]
fn inputs_wait_for_the_next_turn_which_takes_all_of_them() {
    let graph = graph_unconfined();
    let (node, other) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    at_work(&graph, &node, "go");
    graph.say(&node, "one", false);
    graph.say(&node, "two", false);
    let shown = graph.shown(&node);
    assert_eq!((&shown["status"], &shown["inboxCount"]), (&json!("running"), &json!(2)));
    // A node that hangs delays nobody.
    graph.say(&other, "hello", false);
    assert_eq!(graph.answered(&other, 1), ["turn 1 of implementer: hello"]);
    assert_eq!(graph.shown(&node)["status"], json!("running"));
    graph.env.touch("go");
    assert_eq!(graph.answered(&node, 2), ["turn 1 of implementer: go", "turn 2 of implementer: one | two"]);
    assert_eq!(graph.shown(&node)["inboxCount"], json!(0));
}

#[test]
fn an_interrupt_ends_the_turn_and_heads_the_next_which_does_not_get_back_what_was_taken() {
    let graph = graph_unconfined();
    let node = graph.node("Ada", json!({}));
    at_work(&graph, &node, "never");
    graph.say(&node, "later", false);
    graph.say(&node, "now", true);
    let answers = graph.answered(&node, 2);
    assert_eq!(answers[1], "turn 2 of implementer: now | later");
    let ended = &graph.told("message.assistant.final")[0];
    assert_eq!((&ended["nodeId"], &ended["status"]), (&json!(node), &json!("interrupted")), "{ended}");
    assert_eq!(graph.shown(&node)["inboxCount"], json!(0));
}

#[test]
fn an_interrupt_without_a_turn_only_goes_to_the_head() {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    let path = graph.path(&format!("/nodes/{node}/stop"));
    assert_eq!(graph.served.ask("POST", &path, None).with(200), json!({"ok": true}));
    graph.say(&node, "one", false);
    graph.say(&node, "two", true);
    let shown = graph.shown(&node);
    assert_eq!((&shown["status"], &shown["inboxCount"]), (&json!("blocked"), &json!(2)));
    graph.served.ask("POST", &graph.path(&format!("/nodes/{node}/start")), None).with(200);
    assert_eq!(graph.answered(&node, 1), ["turn 1 of implementer: two | one"]);
}

#[test]
fn a_turn_is_ended_by_a_route_of_its_own_and_a_node_that_is_idle_has_none() {
    let graph = graph_unconfined();
    let node = graph.node("Ada", json!({}));
    let path = graph.path(&format!("/nodes/{node}/interrupt"));
    graph.served.ask("POST", &path, None).with(409);
    at_work(&graph, &node, "never");
    assert_eq!(graph.served.ask("POST", &path, None).with(200), json!({"ok": true}));
    graph.until("it is idle", |run| run["nodes"][&node]["status"] == "idle");
    graph.say(&node, "hello", false);
    let answers = graph.answered(&node, 2);
    assert!(answers[1].contains("hello") && answers[1].contains("interrupted"), "{answers:?}");
}

#[test]
fn a_run_that_continues_before_it_has_paused_does_continue() {
    let graph = graph_unconfined();
    let node = graph.node("Ada", json!({}));
    at_work(&graph, &node, "never");
    graph.patch("", json!({"status": "paused"}));
    graph.patch("", json!({"status": "running"}));
    graph.until("its turn is taken again", |run| run["nodes"][&node]["status"] == "running");
    assert_eq!(graph.run()["status"], "running");
    let states: Vec<Value> =
        graph.told("run.patch").into_iter().map(|event| event["patch"]["status"].clone()).collect();
    assert!(states.contains(&json!("paused")), "{states:?}");
    graph.served.ask("POST", &graph.path(&format!("/nodes/{node}/interrupt")), None).with(200);
}

#[test]
fn a_run_that_is_paused_takes_messages_and_gives_turns_when_it_continues() {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    graph.say(&node, "one", false);
    graph.answered(&node, 1);
    graph.patch("", json!({"status": "paused"}));
    graph.until("it is paused", |run| run["status"] == "paused");
    graph.say(&node, "two", false);
    assert_eq!(graph.shown(&node)["inboxCount"], json!(1));
    assert_eq!(graph.patch("", json!({"status": "running"}))["run"]["status"], json!("running"));
    assert_eq!(graph.answered(&node, 2)[1], "turn 2 of implementer: two");
}

#[test]
fn a_turn_that_a_pause_cuts_off_is_taken_again_with_everything_it_was_told() {
    let graph = graph_unconfined();
    let node = graph.node("Ada", json!({}));
    at_work(&graph, &node, "go");
    graph.patch("", json!({"status": "paused"}));
    graph.until("it is paused", |run| run["status"] == "paused");
    assert_eq!(graph.shown(&node)["inboxCount"], json!(1));
    graph.env.touch("go");
    graph.patch("", json!({"status": "running"}));
    eventually("it has answered", || graph.answers(&node).iter().any(|text| text == "turn 1 of implementer: go"));
    assert_eq!(graph.shown(&node)["inboxCount"], json!(0));
}

#[test]
fn a_reset_begins_a_new_conversation_by_its_route_and_by_its_commands() {
    let graph = graph();
    let node = graph.node("Ada", json!({"session": {"resetCommands": ["/forget"]}}));
    let path = graph.path(&format!("/nodes/{node}/reset"));
    assert_eq!(graph.served.ask("POST", &path, None).with(200), json!({"ok": true}));
    graph.say(&node, "/forget", false);
    assert_eq!(graph.env.event_types().iter().filter(|kind| *kind == "node_reset").count(), 2);
    assert_eq!((&graph.shown(&node)["inboxCount"], graph.answers(&node).len()), (&json!(0), 0));
    graph.say(&node, "/new", false);
    assert_eq!(graph.answered(&node, 1), ["turn 1 of implementer: /new"], "only its own commands are commands");
}

#[test]
fn a_node_that_is_removed_in_the_middle_of_its_turn_is_gone_with_its_edges_and_the_run_lives() {
    let graph = graph_unconfined();
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    graph.edge(&ada, &bob, json!({}));
    at_work(&graph, &ada, "never");
    let removed = graph.served.ask("DELETE", &graph.path(&format!("/nodes/{ada}")), None).with(200);
    assert_eq!(removed, json!({"nodeId": ada}));
    let run = graph.run();
    assert_eq!((run["nodes"].as_object().unwrap().len(), &run["edges"]), (1, &json!({})));
    assert_eq!(graph.told("node.deleted")[0]["nodeId"], json!(ada));
    graph.served.ask("DELETE", &graph.path(&format!("/nodes/{ada}")), None).with(404);
    eventually("its turn has ended", || graph.env.event_types().iter().any(|kind| kind == "step_committed"));
    graph.say(&bob, "hello", false);
    assert_eq!(graph.answered(&bob, 1), ["turn 1 of implementer: hello"]);
    assert_eq!(graph.run()["status"], json!("running"));
}

#[test]
fn every_completed_turn_has_a_diff_of_its_own_and_the_prompt_that_it_was_told() {
    let graph = graph();
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    graph.say(&ada, json!({"write": {"src/ada.txt": "1\n"}}), false);
    graph.say(&bob, json!({"write": {"src/bob.txt": "1\n"}}), false);
    graph.answered(&ada, 1);
    graph.answered(&bob, 1);
    graph.say(&ada, "nothing to do", false);
    graph.answered(&ada, 2);
    let run = graph.run();
    let of_kind = |node: &str, kind: &str| -> Vec<Value> {
        let all = run["artifacts"].as_object().unwrap().values();
        let mut found: Vec<Value> = all.filter(|it| it["nodeId"] == node && it["kind"] == kind).cloned().collect();
        found.sort_by_key(|it| it["createdAt"].as_str().unwrap().to_owned());
        found
    };
    let content = |artifact: &Value| {
        let path = graph.path(&format!("/artifacts/{}", artifact["id"].as_str().unwrap()));
        graph.served.get(&path)["content"].as_str().unwrap().to_owned()
    };
    let (adas, bobs) = (of_kind(&ada, "diff"), of_kind(&bob, "diff"));
    assert_eq!((adas.len(), bobs.len()), (2, 1), "{run:#}");
    assert_eq!(adas[0]["metadata"]["filesChanged"], json!(["src/ada.txt"]));
    assert!(content(&adas[0]).contains("+++ b/src/ada.txt") && !content(&adas[0]).contains("bob"));
    assert!(content(&bobs[0]).contains("+++ b/src/bob.txt") && !content(&bobs[0]).contains("ada"));
    assert_eq!(content(&adas[1]), "");
    for artifact in run["artifacts"].as_object().unwrap().values() {
        let path = std::path::Path::new(artifact["path"].as_str().unwrap());
        assert!(path.is_absolute() && path.is_file(), "it is where it is said to be: {artifact}");
    }
    let prompts = of_kind(&ada, "prompt");
    let mut names: Vec<&str> = prompts.iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let expected = ["prompt.blocks.json", "prompt.blocks.json", "prompt.full.txt", "prompt.full.txt"];
    assert_eq!(names, expected);
    let full = prompts.iter().filter(|it| it["name"] == "prompt.full.txt").map(content).collect::<Vec<_>>();
    assert!(full[1].contains("nothing to do") && full.iter().all(|text| text.contains("Ada")), "{full:?}");
    let blocks = prompts.iter().find(|it| it["name"] == "prompt.blocks.json").map(content).unwrap();
    let blocks: Value = serde_json::from_str(&blocks).unwrap();
    assert!(blocks["blocks"].as_array().unwrap().iter().any(|block| block["name"] == "role"), "{blocks:#}");
}

#[test]
fn a_node_keeps_its_own_workspace_over_its_turns() {
    let graph = graph();
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    graph.say(&ada, json!({"write": {"src/ada.txt": "1\n"}}), false);
    graph.answered(&ada, 1);
    graph.say(&ada, json!({"run": ["test", "-f", "src/ada.txt"]}), false);
    assert!(graph.answered(&ada, 2)[1].contains("ran: 0"), "{:?}", graph.answers(&ada));
    graph.say(&bob, json!({"run": ["test", "-f", "src/ada.txt"]}), false);
    assert!(graph.answered(&bob, 1)[0].contains("ran: 1"));
    assert!(!graph.env.root.join("src/ada.txt").exists());
}
