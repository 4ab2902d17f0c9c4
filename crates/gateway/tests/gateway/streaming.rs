//! Answers are passed on while they come, and the key stays outside.

use std::io::Write as _;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use gateway::Api;

use crate::desk::{Desk, KEY, once};
use crate::provider::{begin_stream, chunk, json, stream, whole};

#[test]
fn every_piece_is_passed_on_before_the_next_one_comes() {
    let (go_on, told) = channel::<()>();
    let told = Mutex::new(told);
    let script = Arc::new(move |socket: &mut std::net::TcpStream| {
        begin_stream(socket);
        for piece in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
            chunk(socket, piece.as_bytes());
            // Nothing more comes until the client has got this one.
            told.lock().unwrap().recv().unwrap();
        }
        let _ = socket.write_all(b"0\r\n\r\n");
    });
    let desk = Desk::new(Api::OpenAi, script);
    let mut client = desk.client();
    client.post("/v1/responses", "{}");
    let (status, head) = client.head().unwrap();
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/event-stream; charset=utf-8\n"), "{head}");
    assert!(head.contains("request-id: r1\n") && !head.contains("cookie"), "{head}");
    for piece in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
        assert_eq!(client.chunk().unwrap(), piece);
        go_on.send(()).unwrap();
    }
    assert_eq!(client.chunk().unwrap(), "");
    let answer = desk.only_answer();
    assert!(answer.complete);
    assert_eq!(answer.body, b"data: one\n\ndata: two\n\ndata: three\n\n");
}

#[test]
fn one_connection_serves_many_requests() {
    let desk = Desk::new(Api::Anthropic, json("{}"));
    let mut client = desk.client();
    for number in 0..5 {
        client.post("/v1/messages?beta=true", &format!("{{\"number\":{number}}}"));
        assert_eq!(client.answer().status, 200);
    }
    // Two at once, the second in chunks.
    client.post("/v1/messages", "{}");
    client.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
    assert!(client.answer().complete && client.answer().complete);
    assert_eq!(desk.gateway.totals().calls, 7);
    let seen = desk.provider.seen();
    assert!(seen[4].starts_with("POST /base/v1/messages?beta=true HTTP/1.1\r\n"), "{}", seen[4]);
    assert!(seen[6].ends_with("content-length: 2\r\n\r\n{}"), "{}", seen[6]);
}

#[test]
fn the_key_is_added_outside_and_stays_there() {
    for (api, path, header) in [
        (Api::OpenAi, "/v1/responses", format!("\r\nauthorization: Bearer {KEY}\r\n")),
        (Api::OpenAiChat, "/v1/chat/completions", format!("\r\nauthorization: Bearer {KEY}\r\n")),
        (Api::Anthropic, "/v1/messages", format!("\r\nx-api-key: {KEY}\r\n")),
        (Api::Gemini, "/v1beta/models/m:generateContent?key=placeholder", format!("\r\nx-goog-api-key: {KEY}\r\n")),
    ] {
        let echo = format!("{{\"you sent\": \"{KEY}\"}}");
        let desk = Desk::new(api, whole(401, &format!("x-echo: {KEY}\r\n"), &echo));
        let got = desk.post(path, "{}");
        assert_eq!((got.status, got.body.as_str()), (401, "{\"you sent\": \"***\"}"));
        let seen = desk.provider.seen().remove(0);
        assert!(seen.contains(&header), "{seen}");
        assert!(!seen.contains("placeholder") && !seen.contains("c=d") && !seen.contains("gzip"), "{seen}");
        assert!(seen.contains("\r\naccept-encoding: identity\r\n") && seen.contains("\r\nx-mine: kept\r\n"), "{seen}");
        assert_eq!(seen.matches("host: ").count(), 1);
        desk.wait_for_records(2);
        let recorded: String = desk.kept().iter().map(|one| String::from_utf8(one.to_json()).unwrap()).collect();
        assert!(!recorded.contains(KEY) && !recorded.contains("placeholder") && !recorded.contains("c=d"));
        assert!(!got.head.contains(KEY), "{}", got.head);
        assert_eq!(desk.gateway.totals().last_error, Some((401, None)));
    }
}

#[test]
fn a_program_may_ask_before_it_sends() {
    let desk = Desk::new(Api::OpenAi, json("{}"));
    let mut client = desk.client();
    client.send("POST /responses HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.head().unwrap().0, 100);
    client.send("{}");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn waits_are_told_and_forgotten() {
    let desk = Desk::new(Api::OpenAi, whole(429, "Retry-After: 17\r\n", "{}"));
    assert_eq!(desk.post("/v1/responses", "{}").status, 429);
    assert_eq!(desk.gateway.totals().last_error, Some((429, Some(17))));
    assert_eq!(desk.only_answer().usage, None);
    let body = r#"{"error":{"code":429,"details":[{"reason":"x"},{"retryDelay":"16.2s"}]}}"#;
    let desk = Desk::new(Api::Gemini, whole(429, "", body));
    assert_eq!(desk.post("/v1beta/models/m:generateContent", "{}").status, 429);
    assert_eq!(desk.gateway.totals().last_error, Some((429, Some(17))));
}

#[test]
fn a_provider_that_fails_again_and_again_is_not_called_any_more() {
    let desk = Desk::new(Api::OpenAi, whole(500, "", "{}"));
    for _ in 0..3 {
        assert_eq!(desk.post("/v1/responses", "{}").status, 500);
    }
    let got = desk.post("/v1/responses", "{}");
    assert!(got.status == 400 && got.body.contains("3 times in a row, the last time with status 500"), "{}", got.body);
    assert_eq!(desk.provider.seen().len(), 3);
    // What is wrong with the request is not the provider's failure.
    let desk = Desk::new(Api::OpenAi, whole(400, "", "{}"));
    for _ in 0..5 {
        assert_eq!(desk.post("/v1/responses", "{}").status, 400);
    }
    assert_eq!(desk.provider.seen().len(), 5);
}

#[test]
fn an_answer_that_cannot_be_recorded_whole_is_cut() {
    let mut options = once();
    options.limits.body_bytes = 100;
    let long = "x".repeat(101);
    let desk = Desk::with(Api::OpenAi, Default::default(), options, stream(&[&long]));
    let got = desk.post("/v1/responses", "{}");
    assert!(!got.complete && got.body.len() <= 100);
    let answer = desk.only_answer();
    assert!(!answer.complete && answer.problem.unwrap().contains("too long"));
}
