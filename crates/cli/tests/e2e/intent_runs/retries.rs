//! Trying again and ending: a retry is a run of its own that does nothing again which was done, and nothing happens after an
//! end. Connectors open what they name, and one that is not configured fails its run at the start.

use super::world::{node, plan, run_true, statuses, step, world, world_with};
use crate::environment::PATCH;
use serde_json::{Value, json};

fn fails_late() -> Value {
    let mut answer = plan(&[
        run_true("a", &[]),
        node("ask", "approval", &["a"], json!({})),
        node("flag", "compute", &["ask"], json!({"cmd": ["grep", "-q", "x", "flag"]})),
        run_true("z", &["flag"]),
    ]);
    answer["patch"] = json!({"files": [{"path": "src/lib.txt", "diff": PATCH}]});
    answer
}

#[test]
fn a_retry_is_a_child_that_does_nothing_again_that_was_done() {
    let world = world(&fails_late());
    let run = world.started();
    let path = format!("/runs/{run}/retry");
    let early = world.served.ask("POST", &path, None).with(409);
    assert!(["queued", "running", "waiting_input"].contains(&early["details"]["status"].as_str().unwrap()), "{early}");
    world.until(&run, "waiting_input");
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(202);
    let failed = world.until(&run, "failed");
    assert_eq!(statuses(&failed, &["a", "ask", "flag"]), ["succeeded", "succeeded", "failed"]);
    let parent = world.env.last();
    let again = world.served.ask("POST", &path, None).with(202);
    let members: Vec<&String> = again.as_object().unwrap().keys().collect();
    assert_eq!(members, ["accepted", "fromStep", "newRunId"]);
    assert_eq!(again["fromStep"], "ExecuteST");
    let child = again["newRunId"].as_str().unwrap();
    assert_ne!(child, run);
    let view = world.until(child, "failed");
    assert_eq!(statuses(&view, &["CompileST", "ApplyPatchST", "a", "ask", "flag"])[..4], ["succeeded"; 4]);
    assert_eq!(step(&view, "a")["output"]["run"], parent["run_id"]);
    assert_eq!(world.env.last()["parent"], parent["run_id"]);
    let started = world.env.events().into_iter().filter(|event| event["type"] == "step_started").count();
    assert_eq!(started, 1, "only what failed is done again");
    world.served.ask("POST", &path, None).with(409);
    world.env.norma(&["verify", "@last"]).success();
    world.env.norma(&["replay", "@last"]).success();
    assert_eq!(world.start(&intent_of(&world)), run, "an intent has one run, however often that is tried again");
}

/// The intent of the newest run.
fn intent_of(world: &super::world::World) -> String {
    world.env.event("run_started")["contract"]["intent"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_that_waits_is_canceled_and_nothing_happens_after_that() {
    let world = world(&plan(&[node("ask", "approval", &[], json!({})), run_true("after", &["ask"])]));
    let run = world.started();
    world.until(&run, "waiting_input");
    world.served.ask("POST", &format!("/runs/{run}/cancel"), None).with(202);
    let view = world.until(&run, "canceled");
    assert_eq!(statuses(&view, &["ask", "after"]), ["skipped", "skipped"]);
    let again = world.served.ask("POST", &format!("/runs/{run}/cancel"), None).with(409);
    assert_eq!(again["details"]["status"], "canceled");
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(409);
    world.served.ask("POST", &format!("/runs/{run}/retry"), None).with(409);
    assert_eq!(world.view(&run), view);
    world.env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_connector_that_nobody_configured_fails_its_run_at_the_start_by_name() {
    let world = world_with(&plan(&[run_true("a", &[])]), |config| {
        config["connectors"] = json!({"rss": {"hosts": ["127.0.0.1:9"]}});
    });
    let with = |connectors: Value| json!({"goal": "g", "inputs": {}, "constraints": {}, "connectors": connectors});
    let kept = |connectors: Value| {
        let answer = world.post("/intents", &with(connectors)).with(201);
        answer["intentId"].as_str().unwrap().to_owned()
    };
    let run = world.start(&kept(json!(["rss", "mail"])));
    let view = world.until(&run, "failed");
    let why = step(&view, "CompileST")["error"].as_str().unwrap();
    assert!(why.contains("no connector mail is configured"), "{why}");
    assert_eq!(world.env.event_types().iter().filter(|kind| *kind == "step_started").count(), 0);
    world.until(&world.start(&kept(json!(["rss"]))), "succeeded");
    world.until(&world.start(&kept(json!([]))), "succeeded");
}

#[test]
fn only_io_reaches_the_hosts_of_its_connectors() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let hears = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nheard").unwrap();
    });
    let fetch =
        |id: &str, kind: &str, deps: &[&str]| node(id, kind, deps, json!({"cmd": ["python3", "agents/fetch.py", url]}));
    let world = world_with(&plan(&[fetch("out", "io", &[]), fetch("in", "compute", &["out"])]), |config| {
        config["connectors"] = json!({"rss": {"hosts": [format!("127.0.0.1:{port}")]}});
    });
    let fetch = "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())\n";
    world.env.write("agents/fetch.py", fetch);
    world.env.commit("a program that fetches");
    let intent = json!({"goal": "g", "inputs": {}, "constraints": {}, "connectors": ["rss"]});
    let id = world.post("/intents", &intent).with(201)["intentId"].as_str().unwrap().to_owned();
    let run = world.start(&id);
    for asked in ["out", "in"] {
        crate::environment::eventually("its command is asked about", || {
            let event = json!({"event": "approval", "choice": "approve", "nodeId": asked});
            world.answer(&run, &event).status == 202
        });
    }
    let view = world.until(&run, "failed");
    assert_eq!(statuses(&view, &["out", "in"]), ["succeeded", "failed"]);
    assert_eq!(step(&view, "out")["output"]["summary"], "heard");
    hears.join().unwrap();
}
