//! No exchange without a record, and no half of one without its end.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gateway::{Api, Origin};

use crate::desk::{Desk, once};
use crate::provider::{begin_stream, chunk, json, stream};

#[test]
fn a_request_that_cannot_be_recorded_is_not_forwarded() {
    let desk = Desk::new(Api::OpenAi, json("{}"));
    desk.memory.fails_at.store(0, Ordering::SeqCst);
    let mut client = desk.client();
    client.post("/v1/responses", "{}");
    assert!(client.is_closed());
    assert_eq!(desk.provider.seen().len(), 0);
    assert!(desk.gateway.totals().record_failed);
    // Not even when recording would work again: there is a gap.
    desk.memory.fails_at.store(usize::MAX, Ordering::SeqCst);
    let mut client = desk.client();
    client.post("/v1/responses", "{}");
    assert!(client.is_closed());
    assert_eq!(desk.provider.seen().len(), 0);
}

#[test]
fn an_answer_that_cannot_be_recorded_has_no_end() {
    let desk = Desk::new(Api::OpenAi, stream(&["{}"]));
    desk.memory.fails_at.store(1, Ordering::SeqCst);
    let got = desk.post("/v1/responses", "{}");
    assert!(!got.complete);
    assert!(desk.gateway.totals().record_failed);
}

#[test]
fn a_program_that_asks_without_end_does_not_fill_the_disk() {
    let mut options = once();
    options.limits.recorded_bytes = 10_000;
    let desk = Desk::with(Api::OpenAi, Default::default(), options, json("{}"));
    let mut refused = 0;
    let mut client = desk.client();
    while !desk.gateway.totals().record_failed {
        client.send("GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n");
        refused += usize::from(client.try_answer().is_some());
    }
    assert!(refused < 10);
    assert_eq!(desk.kept().len(), refused);
}

#[test]
fn the_request_is_on_record_before_it_is_forwarded() {
    let desk = Desk::new(Api::Anthropic, json(r#"{"model":"m"}"#));
    desk.post("/v1/messages?beta=true", r#"{"model":"asked"}"#);
    let kept = desk.kept();
    assert_eq!(kept[0].answer, None);
    assert_eq!(kept[0].path, "/v1/messages?beta=true");
    assert_eq!(
        (kept[0].model.as_deref(), kept[0].request_body.as_slice()),
        (Some("asked"), &br#"{"model":"asked"}"#[..])
    );
    assert!(kept[0].request_headers.contains(&("x-mine".to_owned(), "kept".to_owned())));
    let answer = desk.only_answer();
    assert_eq!((answer.from, answer.status, answer.complete), (Origin::Provider, 200, true));
    assert_eq!(answer.model.as_deref(), Some("m"));
}

#[test]
fn a_client_that_hangs_up_leaves_an_incomplete_record_and_an_estimate() {
    let start =
        r#"data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":70,"output_tokens":1}}}"#;
    let script = Arc::new(move |socket: &mut std::net::TcpStream| {
        begin_stream(socket);
        chunk(socket, format!("{start}\n\ndata: {{\"type\":\"content_block_start\"}}\n\n").as_bytes());
        // Silent from here on: the gateway has to notice by itself.
        std::thread::sleep(Duration::from_secs(20));
    });
    let desk = Desk::new(Api::Anthropic, script);
    let mut client = desk.client();
    client.post("/v1/messages", r#"{"model":"m"}"#);
    client.head().unwrap();
    assert!(client.chunk().unwrap().contains("message_start"));
    client.hang_up();
    let answer = desk.only_answer();
    assert!(!answer.complete);
    assert_eq!(answer.problem.as_deref(), Some("the program hung up"));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.estimated), (70, true));
    assert_eq!(desk.gateway.totals().estimated_calls, 1);
}

#[test]
fn a_client_that_does_not_wait_is_recorded_too() {
    let script = Arc::new(|_: &mut std::net::TcpStream| std::thread::sleep(Duration::from_secs(20)));
    let desk = Desk::new(Api::OpenAi, script);
    let mut client = desk.client();
    client.post("/v1/responses", r#"{"input":"something long enough to count"}"#);
    crate::desk::wait_until(|| desk.provider.seen().len() == 1);
    client.hang_up();
    let answer = desk.only_answer();
    assert_eq!((answer.from, answer.status, answer.complete), (Origin::Norma, 499, false));
    assert!(answer.usage.unwrap().input_tokens > 0);
}

#[test]
fn a_provider_that_drops_the_stream_cuts_the_answer() {
    let script = Arc::new(|socket: &mut std::net::TcpStream| {
        begin_stream(socket);
        chunk(socket, b"data: one\n\n");
        let _ = socket.write_all(b"20\r\ndata: tw");
    });
    let desk = Desk::new(Api::OpenAi, script);
    let got = desk.post("/v1/responses", "{}");
    assert_eq!((got.body.as_str(), got.complete), ("data: one\n\ndata: tw", false));
    let answer = desk.only_answer();
    assert_eq!((answer.complete, answer.body.as_slice()), (false, &b"data: one\n\ndata: tw"[..]));
    assert_eq!(answer.problem.as_deref(), Some("the provider hung up in the middle"));
    assert_eq!(desk.gateway.totals().last_error, Some((502, None)));
}

#[test]
fn a_provider_that_falls_silent_is_given_up() {
    let mut options = once();
    options.patience.first_byte = Duration::from_millis(100);
    options.patience.idle = Duration::from_millis(100);
    let silent = Arc::new(|_: &mut std::net::TcpStream| std::thread::sleep(Duration::from_secs(20)));
    let desk = Desk::with(Api::OpenAi, Default::default(), options.clone(), silent);
    let got = desk.post("/v1/responses", "{}");
    assert_eq!(got.status, 504);
    assert!(got.body.contains("did not answer in time"), "{}", got.body);
    let stalls = Arc::new(|socket: &mut std::net::TcpStream| {
        begin_stream(socket);
        chunk(socket, b"data: one\n\n");
        std::thread::sleep(Duration::from_secs(20));
    });
    let desk = Desk::with(Api::OpenAi, Default::default(), options, stalls);
    assert!(!desk.post("/v1/responses", "{}").complete);
    assert_eq!(desk.only_answer().problem.as_deref(), Some("the provider did not answer in time"));
}
