//! Runs that start from the tree that another one had after an event.

use super::client::{Served, serve};
use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment, eventually, norma_verify};
use crate::graph::world::graph;
use serde_json::{Value, json};
use std::process::Command;

fn fork(served: &Served, run: &str, seq: u64) -> Value {
    served.ask("POST", &format!("/api/runs/{run}/fork"), Some(&json!({ "seq": seq }))).with(201)["run"].clone()
}

#[track_caller]
fn ended(served: &Served, run: &Value) -> Value {
    let path = format!("/api/runs/{}", run["slug"].as_str().unwrap());
    let mut last = Value::Null;
    eventually("it has ended", || {
        last = served.get(&path)["run"].clone();
        ["completed", "failed"].contains(&last["status"].as_str().unwrap())
    });
    last
}

/// The first event of a type in the log of a run: its number and what it says.
fn event(env: &TestEnvironment, run: &str, kind: &str) -> (u64, Value) {
    let lines = env.norma(&["events", run, "--json"]).success().raw.clone();
    let mut all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = all.find(|line| line["event_type"] == kind).unwrap_or_else(|| panic!("{kind} in {lines}"));
    (found["seq"].as_u64().unwrap(), found["payload"].clone())
}

#[test]
fn what_was_done_by_an_event_stays_done_and_the_rest_is_done_again_and_lands_whole() {
    let env = with_worker("mkdir -p out && echo $id >> out/$id.txt");
    batch(&env, &[item("a", json!({})), item("b", json!({"dependencies": ["a"]}))], 0);
    let first = env.last()["run_id"].as_str().unwrap().to_owned();
    env.norma(&["undo", "@last"]).success();
    assert!(!env.root.join("out/a.txt").exists());
    let served = serve(&env);
    let (seq, done) = event(&env, &first, "item_ended");
    let child = ended(&served, &fork(&served, &first, seq));
    assert_eq!(child["state"], json!("succeeded"), "{child}");
    // What the first item had made is in it, though nothing of that is on the branch; only the second was done again.
    for file in ["out/a.txt", "out/b.txt"] {
        eventually("it has landed", || env.root.join(file).exists());
        assert_eq!(env.read(file).lines().count(), 1, "{file}");
    }
    let slug = child["slug"].as_str().unwrap();
    let (_, started) = event(&env, slug, "run_started");
    assert_eq!((&started["parent"], &started["fork"]["seq"]), (&json!(first), &json!(seq)));
    assert_eq!((&started["tree"], &started["fork"]["commit"]), (&done["after"], &done["commit"]));
    let view = served.get(&format!("/api/runs/{slug}?view=norma"));
    assert_eq!((&view["parent"], view["steps"].as_array().unwrap().len()), (&json!(first), 1), "{view}");
    // Anybody can check it, offline.
    eventually("it is sealed", || served.ask("GET", &format!("/api/runs/{slug}/bundle"), None).status == 200);
    let bundle = env.dir.join("bundle.tar");
    env.norma(&["export", slug, "-o", &bundle.display().to_string()]).success();
    let keys = env.dir.join("keys");
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(keys.join("ours.pem"), &env.norma(&["keys", "export"]).success().raw).unwrap();
    let checked = Command::new(norma_verify()).arg("--trust").arg(&keys).arg(&bundle).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn an_event_that_is_not_there_and_one_after_which_nothing_is_left_are_refused() {
    let env = with_worker("echo $id > $id.txt");
    batch(&env, &[item("a", json!({}))], 0);
    let run = env.last()["run_id"].as_str().unwrap().to_owned();
    let served = serve(&env);
    let path = format!("/api/runs/{run}/fork");
    let last = served.get(&format!("/api/runs/{run}"))["run"]["seq"].as_u64().unwrap();
    let ask = |body: Value| served.ask("POST", &path, Some(&body));
    for (body, pointer) in [(json!({}), ""), (json!({"seq": 0}), "/seq"), (json!({"seq": last + 1}), "/seq")] {
        let refused = ask(body).with(400);
        assert!(refused["details"]["violations"][0]["pointer"].as_str().unwrap().starts_with(pointer), "{refused}");
    }
    let nothing = ask(json!({ "seq": last })).with(409);
    assert!(nothing["error"].as_str().unwrap().contains("nothing was left to do"), "{nothing}");
    assert!(nothing["details"]["hint"].as_str().unwrap().contains("earlier event"), "{nothing}");
    assert_eq!(served.get("/api/runs")["runs"].as_array().unwrap().len(), 1, "nothing was started");
}

#[test]
fn a_loop_is_forked_before_and_after_its_patch() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let first = env.last()["run_id"].as_str().unwrap().to_owned();
    let (patched, applied) = event(&env, &first, "patch_applied");
    let served = serve(&env);
    for (seq, tree) in [(patched, &applied["after"]), (patched - 1, &applied["before"])] {
        let child = ended(&served, &fork(&served, &first, seq));
        let (_, started) = event(&env, child["slug"].as_str().unwrap(), "run_started");
        assert_eq!((&started["tree"], &started["parent"]), (tree, &json!(first)), "{seq}");
    }
}

#[test]
fn a_graph_is_forked_with_its_nodes_and_edges_and_what_was_accepted_by_then() {
    let graph = graph();
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({"roleTemplate": "reviewer"})));
    graph.edge(&ada, &bob, json!({"label": "work"}));
    graph.say(&ada, json!({"write": {"src/one.txt": "one\n"}, "result": {"change": true}}), false);
    graph.until("it has passed", |run| run["nodes"][&ada]["summary"] == "change passed every gate");
    let seq = graph.run()["seq"].as_u64().unwrap();
    graph.served.ask("DELETE", &graph.path(&format!("/nodes/{bob}")), None).with(200);
    let child = fork(&graph.served, &graph.id, seq);
    let labels = |run: &Value| {
        let nodes = run["nodes"].as_object().unwrap().values();
        let mut all: Vec<String> = nodes
            .map(|it| format!("{} {}", it["label"].as_str().unwrap(), it["roleTemplate"].as_str().unwrap()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(labels(&child), ["Ada implementer", "Bob reviewer"]);
    let edge = child["edges"].as_object().unwrap().values().next().unwrap().clone();
    assert!(child["nodes"][edge["from"].as_str().unwrap()]["label"] == "Ada" && edge["label"] == "work", "{edge}");
    assert!(child["nodes"].get(&ada).is_none(), "its nodes are its own");
    // The first one is as it was, and goes on.
    assert_eq!(graph.run()["status"], json!("running"));
    let path = format!("/api/runs/{}", child["id"].as_str().unwrap());
    graph.served.ask("PATCH", &path, Some(&json!({"patch": {"status": "completed"}}))).with(200);
    ended(&graph.served, &child);
    eventually("what was accepted has landed", || graph.env.root.join("src/one.txt").exists());
}
