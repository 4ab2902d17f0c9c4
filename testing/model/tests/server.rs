//! The server as a client sees it: bytes on a connection.

use scripted_model::script::{Step, inline};
use scripted_model::{Options, Server};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One path and one way to put a prompt for each interface.
const PATHS: [(&str, &str); 4] = [
    ("responses", "/v1/responses"),
    ("chat", "/v1/chat/completions"),
    ("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse"),
    ("anthropic", "/v1/messages?beta=true"),
];

fn body(api: &str, prompt: &str) -> Value {
    let messages = json!([{ "role": "user", "content": prompt }]);
    match api {
        "responses" => json!({ "stream": true, "input": prompt, "tools": [{ "type": "function", "name": "x" }] }),
        "chat" => json!({ "stream": true, "messages": messages, "tools": [{ "function": { "name": "x" } }] }),
        "anthropic" => json!({ "stream": true, "messages": messages, "tools": [{ "name": "x" }] }),
        _ => json!({
            "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
            "tools": [{ "functionDeclarations": [{ "name": "x" }] }],
        }),
    }
}

fn send(server: &Server, path: &str, header: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    let body = body.to_string();
    write!(stream, "POST {path} HTTP/1.1\r\n{header}content-length: {}\r\n\r\n{body}", body.len())
        .expect("the server reads");
    stream
}

fn answer(server: &Server, path: &str, header: &str, body: &Value) -> String {
    let mut answer = String::new();
    send(server, path, header, body).read_to_string(&mut answer).expect("the server answers");
    answer
}

fn start() -> Server {
    Server::start(Options::default()).expect("there is a free port")
}

#[test]
fn every_interface_answers_an_inline_script_and_notes_it() {
    let server = start();
    let prompt = format!("please {}", inline(&[Step::Text("for you".into())]));
    for (api, path) in PATHS {
        let answer = answer(&server, path, "", &body(api, &prompt));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("text/event-stream"), "{answer}");
        assert!(answer.contains("for you") && answer.ends_with("0\r\n\r\n"), "{answer}");
    }
    let noted: Vec<_> = server.requests().iter().map(|line| (line["api"].clone(), line["script"].clone())).collect();
    let expected: Vec<_> = PATHS.iter().map(|(api, _)| (json!(api), json!("(inline)"))).collect();
    assert_eq!(noted, expected);
}

#[test]
fn every_interface_refuses_in_its_own_form() {
    let server = start();
    let kinds = ["rate_limit_exceeded", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "rate_limit_error"];
    for ((api, path), kind) in PATHS.into_iter().zip(kinds) {
        let answer = answer(&server, path, "", &body(api, "SCN=rate_limited"));
        assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
        assert!(answer.contains("retry-after: 1\r\n") && answer.contains(kind), "{answer}");
    }
}

#[test]
fn a_required_key_must_be_where_the_interface_has_it() {
    let server = Server::start(Options { key: Some("k-1".into()), ..Options::default() }).unwrap();
    let headers = ["Authorization: Bearer k-1", "Authorization: Bearer k-1", "x-goog-api-key: k-1", "x-api-key: k-1"];
    for ((api, path), header) in PATHS.into_iter().zip(headers) {
        let body = body(api, "hello");
        let right = answer(&server, path, &format!("{header}\r\n"), &body);
        assert!(right.starts_with("HTTP/1.1 200"), "{right}");
        for wrong in [String::new(), format!("{header}x\r\n"), "x-other: k-1\r\n".to_owned()] {
            let refused = answer(&server, path, &wrong, &body);
            assert!(refused.starts_with("HTTP/1.1 401 Unauthorized"), "{api}: {refused}");
            assert!(refused.contains("this is not the key"), "{refused}");
        }
    }
    let noted = serde_json::to_string(&server.requests()).unwrap();
    assert!(!noted.contains("k-1"), "a key is never noted");
}

#[test]
fn a_dropped_stream_has_a_beginning_and_no_end() {
    let server = start();
    for (api, path) in PATHS {
        let answer = answer(&server, path, "", &body(api, "SCN=drop"));
        assert!(answer.contains("This is ") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    }
}

#[test]
fn one_that_hangs_says_nothing_and_one_that_stalls_says_something_first() {
    let server = start();
    for (script, something) in [("SCN=hang", false), ("SCN=hang_mid", true)] {
        let mut stream = send(&server, PATHS[3].1, "", &body("anthropic", script));
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut seen = Vec::new();
        let ended = stream.read_to_end(&mut seen);
        assert!(ended.is_err(), "{script}: the connection is still there");
        assert_eq!(String::from_utf8_lossy(&seen).contains("the beginning"), something, "{script}");
    }
}

#[test]
fn a_flood_is_one_event_for_each_part_and_a_slow_one_takes_its_time() {
    let server = start();
    let flood = answer(&server, PATHS[1].1, "", &body("chat", &inline(&[Step::Flood { events: 5000 }])));
    assert_eq!(flood.matches("flood ").count(), 5000);
    let started = std::time::Instant::now();
    let slow = [Step::Slow { text: "abcd".into(), chunks: 4, delay_ms: 50 }];
    let slow = answer(&server, PATHS[1].1, "", &body("chat", &inline(&slow)));
    assert!(started.elapsed() >= Duration::from_millis(200) && slow.contains("[DONE]"));
}

#[test]
fn counting_listing_and_nonsense_are_answered_too() {
    let server = start();
    let counted = answer(&server, "/v1/messages/count_tokens", "", &json!({}));
    assert!(counted.ends_with("{\"input_tokens\":1}"), "{counted}");
    let counted = answer(&server, "/v1beta/models/m:countTokens", "", &json!({}));
    assert!(counted.ends_with("{\"totalTokens\":1}"), "{counted}");
    assert!(answer(&server, "/elsewhere", "", &json!({})).starts_with("HTTP/1.1 404"));
    assert!(answer(&server, "/v1/messages", "", &json!("not an object")).starts_with("HTTP/1.1 200"));
}

#[test]
fn an_answer_in_one_piece_has_everything_too() {
    let server = start();
    let whole = |path: &str, body: Value| answer(&server, path, "", &body);
    let prompt = inline(&[Step::Text("for you".into())]);
    let mut messages = body("anthropic", &prompt);
    messages["stream"] = false.into();
    assert!(whole("/v1/messages", messages).contains("\"text\":\"for you\""));
    let generated = whole("/v1beta/models/m:generateContent", body("gemini", &prompt));
    assert!(generated.contains("application/json") && generated.contains("for you"), "{generated}");
}
