//! Building a graph over HTTP: every route, what it answers, and what it refuses.

use super::world::{environment, graph, started};
use crate::environment::TestEnvironment;
use crate::serve::client::serve;
use serde_json::{Value, json};

/// An id as a client makes one.
const EDGE: &str = "3b1f0f5e-6d0c-4c3e-9a53-1f2d3c4b5a69";

#[test]
fn a_run_without_anything_is_an_open_graph() {
    let graph = graph();
    let run = graph.run();
    let shown = ["status", "mode", "globalMode", "phase", "contractVersion"].map(|name| run[name].as_str().unwrap());
    assert_eq!(shown, ["running", "AUTO", "IMPLEMENTATION", "BOOT", "1"]);
    assert_eq!((&run["nodes"], &run["edges"], &run["artifacts"]), (&json!({}), &json!({}), &json!({})));
    let planning = json!({"mode": "INTERACTIVE", "globalMode": "PLANNING", "contractVersion": "1"});
    let other = graph.served.ask("POST", "/api/runs", Some(&planning)).with(201)["run"].clone();
    assert_eq!((&other["mode"], &other["globalMode"]), (&json!("INTERACTIVE"), &json!("PLANNING")));
    assert_eq!(graph.served.get("/api/runs")["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_node_is_answered_whole_with_the_permissions_that_hold() {
    let graph = graph();
    let asked = json!({
        "label": "Implementer A", "roleTemplate": "implementer", "provider": "custom",
        "capabilities": {"spawnNodes": false, "writeCode": true, "writeDocs": true, "runCommands": true, "delegateOnly": false},
        "permissions": {"cliPermissionsMode": "skip", "spawnRequiresApproval": false},
        "session": {"resume": true, "resetCommands": ["/new", "/clear"]},
    });
    let node = graph.post("/nodes", &json!({ "node": asked })).with(201)["node"].clone();
    assert_eq!(node, graph.shown(node["id"].as_str().unwrap()));
    // Only who leads a graph can be let make nodes unasked, whatever is asked for.
    assert_eq!(node["permissions"], json!({"cliPermissionsMode": "skip", "spawnRequiresApproval": true}));
    assert_eq!(node["capabilities"], asked["capabilities"]);
    assert_eq!(node["session"], json!({"sessionId": "", "resetCommands": ["/new", "/clear"]}));
    assert_eq!((&node["status"], &node["inboxCount"], &node["runId"]), (&json!("idle"), &json!(0), &json!(graph.id)));
    assert_eq!(node["connection"]["status"], json!("idle"));
    let made = graph.told("run.patch").into_iter().find(|event| event["patch"]["nodes"].is_object());
    assert!(made.is_some_and(|event| event["patch"]["nodes"][node["id"].as_str().unwrap()] == node));
    let asked =
        json!({"label": "C", "capabilities": {"runCommands": false}, "permissions": {"cliPermissionsMode": "skip"}});
    let gated = graph.post("/nodes", &json!({ "node": asked })).with(201)["node"].clone();
    assert_eq!(
        gated["permissions"]["cliPermissionsMode"],
        json!("gated"),
        "where there are no commands, there is nothing to skip"
    );
    let plain = graph.post("/nodes", &json!({"node": {"label": "B"}})).with(201)["node"].clone();
    assert_eq!((&plain["roleTemplate"], &plain["provider"]), (&json!("implementer"), &json!("custom")));
    assert_eq!((&plain["agent"], plain.get("scope")), (&json!("custom"), None));
    // What is shown can be sent again.
    let asked = json!({"label": "D", "provider": "custom", "agent": "custom", "scope": ["src"]});
    let whole = graph.post("/nodes", &json!({ "node": asked })).with(201)["node"].clone();
    assert_eq!((&whole["agent"], &whole["scope"]), (&asked["agent"], &asked["scope"]));
}

#[test]
fn what_is_wrong_with_a_node_is_told_with_its_place() {
    let graph = graph();
    let check = |node: Value, place: &str| {
        let refused = graph.post("/nodes", &json!({ "node": node })).with(400);
        assert_eq!(refused["details"]["violations"][0]["pointer"], json!(place), "{refused:#}");
    };
    check(json!({"roleTemplate": "implementer"}), "/node");
    for role in ["two words", "2nd", "../up", "", &"x".repeat(33)] {
        let refused = graph.post("/nodes", &json!({"node": {"label": "A", "roleTemplate": role}})).with(400);
        assert_eq!(refused["details"]["violations"][0]["pointer"], json!("/node/roleTemplate"), "{refused}");
        assert!(refused.to_string().contains("a role is a letter"), "{refused}");
    }
    check(json!({"label": "A", "provider": "gpt"}), "/node/provider");
    check(json!({"label": "A", "provider": "custom", "agent": "nobody"}), "/node/agent");
    check(json!({"label": "A", "provider": "claude", "agent": "custom"}), "/node/agent");
    check(json!({"label": "A", "colour": "red"}), "/node/colour");
    check(json!({"label": "A", "scope": ["src", "../up"]}), "/node/scope/1");
    check(json!({"label": "A", "capabilities": {"fly": true}}), "/node/capabilities/fly");
    assert_eq!(graph.run()["nodes"], json!({}));
    let versioned = graph.post("/nodes", &json!({"node": {"label": "A"}, "contractVersion": "2"})).with(400);
    assert_eq!(versioned["details"]["violations"][0]["pointer"], json!("/contractVersion"));
    assert!(versioned["details"]["violations"][0]["message"].as_str().unwrap().contains("migrate"), "{versioned}");
    graph.served.ask("POST", "/api/runs", Some(&json!({"contractVersion": "0"}))).with(400);
    graph.post("/nodes", &json!({"node": {"label": "A"}, "more": 1})).with(400);
    let nobody = "/api/runs/00000000-0000-7000-8000-000000000000/nodes";
    graph.served.ask("POST", nobody, Some(&json!({"node": {"label": "A"}}))).with(404);
}

#[test]
fn a_node_is_changed_from_its_next_turn_on_and_the_record_has_both_values() {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    let patch = json!({
        "label": "Grace", "roleTemplate": "reviewer", "customSystemPrompt": "Be brief.", "agent": "other",
        "capabilities": {"writeCode": false}, "permissions": {"spawnRequiresApproval": true},
    });
    let changed = graph.patch(&format!("/nodes/{node}"), patch)["node"].clone();
    assert_eq!(changed, graph.shown(&node));
    assert_eq!((&changed["label"], &changed["roleTemplate"]), (&json!("Grace"), &json!("reviewer")));
    assert_eq!(
        (&changed["customSystemPrompt"], &changed["capabilities"]["writeCode"]),
        (&json!("Be brief."), &json!(false))
    );
    let fact = graph.env.event("node_changed");
    assert_eq!((&fact["old"]["label"], &fact["new"]["label"]), (&json!("Ada"), &json!("Grace")));
    assert_eq!(fact["by"], json!("Ada <ada@example.org>"));
    let without = graph.patch(&format!("/nodes/{node}"), json!({"customSystemPrompt": null}))["node"].clone();
    assert!(without.get("customSystemPrompt").is_none_or(Value::is_null), "{without}");
    // A state is a wish: blocked stops the node, idle lets it go on.
    let blocked = graph.patch(&format!("/nodes/{node}"), json!({"status": "blocked", "summary": "x"}))["node"].clone();
    assert_eq!((&blocked["status"], &blocked["summary"]), (&json!("blocked"), &json!("stopped")));
    let idle = graph.patch(&format!("/nodes/{node}"), json!({"status": "idle", "summary": "y"}))["node"].clone();
    assert_eq!(idle["status"], json!("idle"));
    let path = graph.path(&format!("/nodes/{node}"));
    let refused = graph.served.ask("PATCH", &path, Some(&json!({"patch": {"agent": "nobody"}}))).with(400);
    assert_eq!(refused["details"]["violations"][0]["pointer"], json!("/patch/agent"));
    let both = json!({"patch": {"label": "One"}, "config": {"label": "Two", "roleTemplate": "planner"}});
    let both = graph.served.ask("PATCH", &path, Some(&both)).with(200)["node"].clone();
    assert_eq!((&both["label"], &both["roleTemplate"]), (&json!("One"), &json!("planner")));
    graph.served.ask("PATCH", &path, Some(&json!({"label": "no wrapper"}))).with(400);
    graph.served.ask("PATCH", &graph.path("/nodes/nobody"), Some(&json!({"patch": {}}))).with(404);
}

#[test]
fn an_edge_has_the_id_of_its_client_and_the_same_id_changes_it() {
    let graph = graph();
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    let body = json!({"id": EDGE, "bidirectional": true, "type": "handoff", "label": ""});
    let edge = graph.edge(&ada, &bob, body);
    let expected =
        json!({"id": EDGE, "from": ada, "to": bob, "bidirectional": true, "type": "handoff", "label": "task"});
    assert_eq!((&edge, &graph.run()["edges"][EDGE]), (&expected, &expected));
    let changed =
        graph.edge(&ada, &bob, json!({"id": EDGE, "bidirectional": false, "type": "report", "label": "mine"}));
    let expected =
        json!({"id": EDGE, "from": ada, "to": bob, "bidirectional": false, "type": "report", "label": "mine"});
    assert_eq!((&changed, &graph.run()["edges"]), (&expected, &json!({EDGE: expected})));
    assert_eq!(graph.told("edge.created").len(), 2);
    let own = graph.edge(&bob, &ada, json!({}));
    assert_eq!((own["id"].as_str().unwrap().len(), &own["bidirectional"]), (36, &json!(true)));
    let check = |edge: Value, place: &str| {
        let refused = graph.post("/edges", &json!({ "edge": edge })).with(400);
        assert_eq!(refused["details"]["violations"][0]["pointer"], json!(place), "{refused:#}");
    };
    check(json!({"id": "mine", "from": ada, "to": bob}), "/edge/id");
    check(json!({"id": EDGE.to_uppercase(), "from": ada, "to": bob}), "/edge/id");
    check(json!({"from": ada, "to": ada}), "/edge/to");
    check(json!({"from": "nobody", "to": ada}), "/edge/from");
    check(json!({"from": ada, "to": bob, "type": "wire"}), "/edge/type");
    assert_eq!(graph.run()["edges"].as_object().unwrap().len(), 2);
}

#[test]
fn who_is_meant_where_nobody_is_named() {
    let graph = graph();
    let chat = json!({"content": "hello"});
    graph.post("/chat", &chat).with(400);
    let ada = graph.node("Ada", json!({}));
    graph.post("/chat", &chat).with(201);
    graph.answered(&ada, 1);
    let bob = graph.node("Bob", json!({}));
    assert_eq!(graph.post("/chat", &chat).with(400)["details"]["violations"][0]["pointer"], json!("/nodeId"));
    let lead = graph.node("Lead", json!({"roleTemplate": "ORCHESTRATOR"}));
    graph.post("/chat", &chat).with(201);
    graph.answered(&lead, 1);
    assert_eq!((graph.answers(&ada).len(), graph.answers(&bob).len()), (1, 0));
    graph.post("/chat", &json!({"nodeId": "nobody", "content": "hello"})).with(404);
    graph.post("/chat", &json!({"nodeId": ada, "content": ""})).with(400);
    let long = graph.post("/chat", &json!({"nodeId": ada, "content": "x".repeat(40_000)})).with(400);
    assert_eq!(long["details"]["violations"][0]["pointer"], json!("/content"));
}

#[test]
fn a_request_that_is_sent_again_with_its_key_makes_one_node_and_one_message() {
    let graph = graph();
    let key = [("Idempotency-Key", "one")];
    let body = json!({"node": {"label": "Ada"}});
    let twice = [(); 2].map(|()| graph.served.ask_with("POST", &graph.path("/nodes"), &key, Some(&body)).with(201));
    assert_eq!(twice[0], twice[1]);
    assert_eq!(graph.run()["nodes"].as_object().unwrap().len(), 1);
    let (key, body) = ([("Idempotency-Key", "two")], json!({"content": "hello"}));
    let twice = [(); 2].map(|()| graph.served.ask_with("POST", &graph.path("/chat"), &key, Some(&body)).with(201));
    assert_eq!(twice[0], twice[1]);
    assert_eq!(graph.told("message.user").len(), 1);
}

#[test]
fn a_run_that_is_no_graph_is_not_built_and_has_no_modes() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let served = serve(&env);
    let path = format!("/api/runs/{}", served.get("/api/runs")["runs"][0]["id"].as_str().unwrap());
    served.ask("POST", &format!("{path}/nodes"), Some(&json!({"node": {"label": "A"}}))).with(409);
    served.ask("PATCH", &path, Some(&json!({"patch": {"mode": "INTERACTIVE"}}))).with(409);
    served.ask("PATCH", &path, Some(&json!({"patch": {"status": "completed"}}))).with(409);
    let goal = json!({"goal": "make two loud", "mode": "AUTO"});
    assert_eq!(
        served.ask("POST", "/api/runs", Some(&goal)).with(400)["details"]["violations"][0]["pointer"],
        json!("/mode")
    );
}

#[test]
fn templates_are_written_and_removed_and_what_agents_are_told_follows() {
    let env = environment(|_| {});
    let served = serve(&env);
    let path = "/api/templates/qa-lead";
    served.ask("GET", path, None).with(404);
    let body = json!({"content": "You look for what others miss.\n"});
    let written = served.ask("PUT", path, Some(&body)).with(200);
    let expected = json!({"name": "qa-lead", "content": "You look for what others miss.\n", "source": "repo"});
    assert_eq!((&written["template"], &served.get(path)["template"]), (&expected, &expected));
    assert_eq!(env.read(".norma/templates/qa-lead.md"), "You look for what others miss.\n");
    let names = |served: &crate::serve::client::Served| {
        let all = served.get("/api/templates")["templates"].clone();
        all.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in ["orchestrator", "planner", "implementer", "reviewer", "investigator", "qa-lead"] {
        assert!(names(&served).iter().any(|known| known == name), "{name}");
    }
    served.ask("PUT", "/api/templates/..%2Fconfig", Some(&body)).with(400);
    served.ask("PUT", path, Some(&json!({"content": ""}))).with(400);
    drop(served);
    let graph = started(env, json!({}));
    let node = graph.node("Q", json!({"roleTemplate": "qa-lead"}));
    graph.say(&node, "hello", false);
    graph.answered(&node, 1);
    let notes = graph.requests()[0]["context"]["notes"].clone();
    assert!(notes.as_str().unwrap().contains("You look for what others miss."), "{notes}");
    assert_eq!(graph.served.ask("DELETE", path, None).with(200), json!({"name": "qa-lead"}));
    graph.served.ask("DELETE", path, None).with(404);
    graph.served.ask("GET", path, None).with(404);
}
