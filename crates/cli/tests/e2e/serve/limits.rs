//! What nobody can have too much of: heads, bodies, connections, time.

use super::client::{Frame, Served, serve_at};
use super::with_a_run;
use crate::environment::TestEnvironment;
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

fn head(served: &Served, more: &str) -> Vec<u8> {
    let Served { host, token, .. } = served;
    format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{more}\r\n")
        .into_bytes()
}

#[test]
fn heads_and_addresses_have_an_end() {
    let (_env, served) = with_a_run();
    let header = |bytes: usize| format!("X-Long: {}\r\n", "a".repeat(bytes));
    assert_eq!(served.raw(&head(&served, &header(12 << 10))).status, 200);
    assert_eq!(served.raw(&head(&served, &header(64 << 10))).status, 431);
    let long = format!("/api/runs?cursor={}", "a".repeat(9 << 10));
    served.ask("GET", &long, None).with(414);
}

#[test]
fn a_body_that_is_too_long_is_read_and_dropped_so_that_its_sender_sees_why() {
    let (_env, served) = with_a_run();
    for mib in [2, 7] {
        let body = vec![b' '; mib << 20];
        let bearer = format!("Bearer {}", served.token);
        let headers =
            [("Host", served.host.as_str()), ("Authorization", &bearer), ("Content-Type", "application/json")];
        let answer = served.send("POST", "/api/runs", &headers, &body);
        assert_eq!(answer.with(413)["code"], json!("too_large"), "{mib} MiB");
    }
}

#[test]
fn what_is_wrong_with_a_body_is_told_with_its_place_and_never_as_422() {
    let (_env, served) = with_a_run();
    for (body, pointer) in [
        (json!({"goal": ""}), "/goal"),
        (json!({"goal": null}), "/goal"),
        (json!({"goal": "x", "contract": {}}), ""),
        (json!({"unknown": 1}), "/unknown"),
        (json!({"contract": {"task_id": 1}}), "/contract/task_id"),
        (json!({"batch": [{"id": 1}]}), "/batch/0/id"),
        (json!([]), ""),
    ] {
        let told = served.ask("POST", "/api/runs", Some(&body)).with(400);
        let places: Vec<&str> = told["details"]["violations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["pointer"].as_str().unwrap())
            .collect();
        assert!(places.contains(&pointer), "{body}: {told}");
    }
    let bearer = format!("Bearer {}", served.token);
    let headers = [("Host", served.host.as_str()), ("Authorization", &bearer), ("Content-Type", "application/json")];
    for text in ["{", "{\"a\":1,\"a\":2}", "\u{0}"] {
        served.send("POST", "/api/runs", &headers, text.as_bytes()).with(400);
    }
    let deep = format!("{{\"contract\":{}{}}}", "[".repeat(40), "]".repeat(40));
    served.send("POST", "/api/runs", &headers, deep.as_bytes()).with(400);
    served.ask("GET", "/api/runs?limit=x", None).with(400);
    served.ask("GET", "/api/runs?limit=101", None).with(400);
    served.ask("GET", "/api/runs?other=1", None).with(400);
    served.ask("PUT", "/api/runs", None).with(405);
    served.ask("GET", "/api/nowhere", None).with(404);
}

#[test]
fn half_a_head_and_silence_are_closed_and_hold_up_nobody() {
    let (_env, served) = with_a_run();
    let mut half = served.connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let mut silent = served.connect();
    let begun = Instant::now();
    assert_eq!(served.raw(&head(&served, "")).status, 200);
    for stream in [&mut half, &mut silent] {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(begun.elapsed() >= Duration::from_secs(4), "they were given no time");
}

#[test]
fn more_connections_than_there_may_be_are_closed_and_those_that_are_there_go_on() {
    let env = TestEnvironment::new(json!({}));
    env.configure(|config| config["server"] = json!({"connections": 8}));
    env.norma(&["run", "1"]).success();
    let served = serve_at(&env, 0, &[]);
    let id = served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let mut watching = served.watch(&format!("runId={id}&since=0"));
    let idle: Vec<_> = (0..40).map(|_| served.connect()).collect();
    assert!(matches!(watching.next(), Frame::Event(_)));
    drop(idle);
    crate::environment::eventually("there is room again", || served.raw(&head(&served, "")).status == 200);
}

#[test]
fn frames_that_make_no_sense_end_their_own_connection_alone() {
    let (_env, served) = with_a_run();
    let id = served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let mut other = served.watch(&format!("runId={id}&since=0"));
    for (first, payload) in [
        (0x83_u8, vec![0; 10]),
        (0xf1, vec![0; 10]),
        (0x81, vec![0xff; 10]),
        (0x89, vec![0; 200]),
        (0x81, vec![b'a'; 300 << 10]),
    ] {
        let mut socket = served.watch(&format!("runId={id}"));
        let _ = socket.send(first, &payload);
        assert!(matches!(socket.next(), Frame::Close(..) | Frame::Lost), "{first:x}");
    }
    let mut noisy = served.watch(&format!("runId={id}"));
    for _ in 0..200 {
        if noisy.send(0x81, b"hello").is_err() {
            break;
        }
    }
    assert!(matches!(noisy.next(), Frame::Close(1008, _) | Frame::Lost));
    assert!(matches!(other.next(), Frame::Event(_)));
}
