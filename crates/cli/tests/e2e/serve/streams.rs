//! What happens to a run, told to whoever watches: nothing missing and nothing twice, whatever happens to the server.

use super::client::{Frame, Served, serve, serve_at};
use super::with_a_run;
use crate::environment::{PATCH, TestEnvironment, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How often the server is killed: more often where somebody has the time.
fn kills() -> usize {
    if std::env::var_os("NORMA_SOAK").is_some() { 20 } else { 3 }
}

fn ids(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

/// Without deltas, which are on no record.
fn recorded(events: Vec<Value>) -> Vec<Value> {
    events.into_iter().filter(|event| event["seq"].is_u64()).collect()
}

fn history(served: &Served, id: &str) -> Vec<Value> {
    served.get(&format!("/api/runs/{id}/events"))["events"].as_array().unwrap().clone()
}

fn is_end(event: &Value) -> bool {
    event["type"] == "run.patch" && matches!(event["patch"]["status"].as_str(), Some("completed" | "failed"))
}

#[test]
fn who_watches_is_told_what_the_log_tells_in_its_order() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({
        "plan": [[{"write_abs": {"path": env.at("started"), "content": ""}}, {"wait_for": env.at("go")}]],
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    }));
    let served = serve(&env);
    let id = served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201)["run"]["id"].clone();
    let id = id.as_str().unwrap();
    env.wait_for("started");
    let mut from_start = served.watch(&format!("runId={id}&since=0"));
    let mut from_now = served.watch(&format!("runId={id}"));
    env.touch("go");
    let all = recorded(from_start.until(is_end));
    let later = recorded(from_now.until(is_end));
    let told = history(&served, id);
    assert_eq!(all, told[..all.len()]);
    assert_eq!(later, all[all.len() - later.len()..], "history is replayed only to who asks for it");
    assert!(later.len() < all.len());
    assert_eq!(ids(&all).into_iter().collect::<BTreeSet<_>>().len(), all.len());
    let snapshot = served.get(&format!("/api/runs/{id}"))["run"].clone();
    assert_eq!(snapshot["status"], json!("completed"));
    // Every cursor has exactly the rest.
    for seq in [1, all[all.len() / 2]["seq"].as_u64().unwrap(), all.last().unwrap()["seq"].as_u64().unwrap()] {
        let mut rest = served.watch(&format!("runId={id}&since={seq}"));
        let expected: Vec<Value> = told.iter().filter(|event| event["seq"].as_u64() > Some(seq)).cloned().collect();
        for event in &expected {
            assert_eq!(rest.next(), Frame::Event(event.clone()), "since={seq}");
        }
    }
}

#[test]
fn server_sent_events_tell_the_same_and_continue_after_their_last_id() {
    let (_env, served) = with_a_run();
    let id = served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let told = history(&served, &id);
    let listen = |path: &str, more: &str, count: usize| {
        use std::io::{BufRead, BufReader, Write};
        let mut stream = served.connect();
        let Served { host, token, .. } = &served;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n").unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        data.take(count).map(|text| serde_json::from_str(&text).unwrap()).collect::<Vec<Value>>()
    };
    assert_eq!(listen(&format!("/api/runs/{id}/stream?since=0"), "", told.len()), told);
    let middle = told[told.len() / 2]["seq"].as_u64().unwrap();
    let rest: Vec<Value> = told.iter().filter(|event| event["seq"].as_u64() > Some(middle)).cloned().collect();
    let path = format!("/api/runs/{id}/stream");
    assert_eq!(listen(&path, &format!("Last-Event-ID: {middle}\r\n"), rest.len()), rest);
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let env = TestEnvironment::new(json!({}));
    let kills = kills();
    // Each round of the loop waits once, so that each server is killed in the middle of a turn.
    let waits = |round: usize| {
        json!([
            {"write_abs": {"path": env.at(&format!("started-{round}")), "content": ""}},
            {"wait_for": env.at(&format!("go-{round}"))},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ])
    };
    let turns: Vec<Value> = (0..=kills).map(waits).collect();
    let mut checks = vec![json!([{"verdict": "FAIL"}]); kills];
    checks.push(json!([{"verdict": "PASS"}]));
    let back = PATCH.replace("-two", "-x").replace("+TWO", "+two").replace("-x", "-TWO");
    let acts: Vec<Value> =
        (0..kills).map(|round| json!([{"patch": if round % 2 == 0 { PATCH } else { &back }}])).collect();
    env.script_unconfined(json!({"do": turns, "check": checks, "act": acts}));
    env.configure(|config| {
        config["budgets"] = json!({"max_iterations": kills + 2});
        // The agent counts its turns by those that it is told of.
        config["limits"] = json!({"look_back": 8 * (kills + 2)});
    });
    let mut served = serve(&env);
    let port = served.port();
    let id = served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201)["run"]["id"].clone();
    let id = id.as_str().unwrap().to_owned();
    let (mut seen, mut cursor): (Vec<Value>, u64) = (Vec::new(), 0);
    for round in 0..kills {
        env.wait_for(&format!("started-{round}"));
        let mut socket = served.watch(&format!("runId={id}&since={cursor}"));
        let is_do = |event: &Value| event["type"] == "node.progress" && event["status"] == "running";
        seen.extend(recorded(socket.until(is_do)));
        served.norma.signal("KILL");
        while let Frame::Event(event) = socket.next() {
            seen.extend(recorded(vec![event]));
        }
        // Whole facts: one that was cut off is sent again from its beginning.
        cursor = seen.last().and_then(|event| event["seq"].as_u64()).unwrap_or(0);
        let whole = cursor.saturating_sub(1);
        seen.retain(|event| event["seq"].as_u64() <= Some(whole));
        cursor = whole;
        drop(served);
        std::fs::remove_file(env.dir.join(format!("started-{round}"))).unwrap();
        served = serve_at(&env, port, &[]);
        env.wait_for(&format!("started-{round}"));
        env.touch(&format!("go-{round}"));
    }
    env.wait_for(&format!("started-{kills}"));
    env.touch(&format!("go-{kills}"));
    let mut socket = served.watch(&format!("runId={id}&since={cursor}"));
    seen.extend(recorded(socket.until(is_end)));
    let told = history(&served, &id);
    assert_eq!(ids(&seen), ids(&told[..seen.len()]));
    eventually("the run is sealed", || served.get(&format!("/api/runs/{id}/verify"))["verified"] == json!(true));
    env.norma(&["verify", "@last"]).success();
}
