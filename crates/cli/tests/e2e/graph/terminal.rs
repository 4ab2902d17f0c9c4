//! Graphs at the terminal: thin clients of whoever owns the state directory, who is started where there is nobody.

use super::world::environment;
use crate::environment::{TestEnvironment, eventually};
use serde_json::json;

fn last_line(env: &TestEnvironment, args: &[&str]) -> String {
    let output = env.norma(args);
    output.success();
    output.raw.lines().last().unwrap().to_owned()
}

#[test]
fn a_graph_is_built_talked_to_and_done_at_the_terminal() {
    let env = environment(|_| {});
    let run =
        last_line(&env, &["graph", "new", "make it new", "--mode", "interactive", "--test", "test -f src/new.txt"]);
    assert!(env.root.join(".norma/server.pid").exists(), "a server was started");
    let lead = last_line(&env, &["node", "add", "Lead", "--role", "orchestrator", "--allow", "spawn-nodes"]);
    let coder = env.json(&["node", "add", "Coder", "--agent", "other", "--scope", "src"]);
    assert_eq!(coder["run_id"], json!(run));
    let edge = last_line(&env, &["edge", "add", "Lead", "Coder"]);
    let shown = env.json(&["graph", "show"]);
    assert_eq!(shown["nodes"][&lead]["capabilities"]["spawnNodes"], json!(true));
    assert_eq!(shown["edges"][&edge]["to"], coder["value"]["nodeId"]);
    env.norma(&["node", "set", "Coder", "--label", "Grace", "--deny", "write-docs"]).success();
    env.norma(&["node", "stop", "Lead"]).success();
    env.norma(&["node", "reset", "Lead"]).success();
    env.norma(&["node", "start", &lead]).success();
    env.norma(&["edge", "rm", &edge]).success();
    env.norma(&["say", "Grace", &json!({"write": {"src/new.txt": "new\n"}}).to_string(), "--run", &run]).success();
    let id = coder["value"]["nodeId"].as_str().unwrap();
    let idle = || env.json(&["graph", "show", &run])["nodes"][id]["summary"].as_str().unwrap().contains("turn 1");
    eventually("it has answered", idle);
    let text = env.norma(&["graph", "show"]);
    text.success();
    assert!(text.out().contains("Grace") && text.out().contains("running, EXECUTE, INTERACTIVE"), "{text}");
    env.norma(&["node", "rm", "Lead"]).success();
    env.norma(&["node", "rm", "Lead"]).exits(2);
    env.norma(&["say", "nobody", "hello"]).exits(2);
    env.norma(&["graph", "done"]).success();
    eventually("it has landed", || env.root.join("src/new.txt").exists());
    eventually("it is sealed", || env.json(&["show", &run])["status"] == "succeeded");
    env.norma(&["verify", &run]).success();
    env.norma(&["say", "Grace", "hello"]).exits(1);
    env.norma(&["serve", "--stop"]).success();
}

#[test]
fn a_graph_that_is_resumed_is_left_to_its_server_and_last_is_the_newest_graph() {
    let env = environment(|_| {});
    let run = last_line(&env, &["graph", "new", "--mode", "interactive"]);
    env.norma(&["node", "add", "Ada"]).success();
    env.norma(&["serve", "--stop"]).success();
    // Whatever comes of it, there is a newer run that is no graph.
    env.norma(&["run", "--goal", "x", "--agent", "other", "--allow", "src"]);
    assert_ne!(env.json(&["show", "@last"])["run_id"], json!(run));
    assert_eq!(env.json(&["graph", "show"])["slug"], json!(run));
    for all in [false, true] {
        env.norma(&["resume", if all { "--all" } else { run.as_str() }]).success();
        eventually("it goes on", || env.json(&["show", &run])["status"] == "running");
        env.norma(&["say", "Ada", "hello"]).success();
        env.norma(&["serve", "--stop"]).success();
    }
    let refused = env.norma(&["node", "add", "Bob", "--agent", "othr"]);
    refused.exits(2);
    assert!(refused.to_string().contains("did you mean other?"), "{refused}");
    env.norma(&["serve", "--stop"]).success();
}
