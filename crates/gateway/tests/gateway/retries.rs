//! A call that the provider fails as it may fail anybody for a while is made again, and the program gets one answer.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gateway::{Api, Budget, Options, Retries};

use crate::desk::Desk;
use crate::provider::{Script, begin_stream, chunk, json, stream, whole};

const ANSWER: &str = r#"{"model":"m","usage":{"input_tokens":10,"output_tokens":5}}"#;

fn patient(milliseconds: u64) -> Options {
    let retries = Retries { patience: Duration::from_millis(milliseconds), pause: Duration::from_millis(10) };
    Options { retries, network: true, ..Options::default() }
}

/// Plays one script after another, the last of them from then on.
fn one_after_another(scripts: Vec<Script>) -> Script {
    let next = AtomicUsize::new(0);
    Arc::new(move |socket| {
        let place = next.fetch_add(1, Ordering::SeqCst).min(scripts.len() - 1);
        scripts[place](socket);
    })
}

/// Begins a stream with these events, and hangs up.
fn cut(events: &'static [&'static str]) -> Script {
    Arc::new(move |socket: &mut TcpStream| {
        begin_stream(socket);
        events.iter().for_each(|event| chunk(socket, format!("data: {event}\n\n").as_bytes()));
        let _ = socket.flush();
    })
}

fn hang_up() -> Script {
    Arc::new(|_: &mut TcpStream| {})
}

#[test]
fn limits_faults_and_lost_connections_are_waited_out() {
    let failures =
        vec![whole(429, "", "{}"), whole(529, "", "{}"), whole(503, "", "busy"), hang_up(), cut(&[]), json(ANSWER)];
    let desk = Desk::with(Api::OpenAi, Budget::default(), patient(20_000), one_after_another(failures));
    let got = desk.post("/v1/responses", "{}");
    assert_eq!((got.status, got.body.as_str(), got.complete), (200, ANSWER, true));
    let kept = desk.wait_for_records(2);
    assert_eq!(kept.len(), 2, "one request is one exchange");
    let statuses: Vec<u16> = kept[1].retries.iter().map(|retried| retried.status).collect();
    assert_eq!(statuses, [429, 529, 503, 502, 502]);
    let totals = desk.gateway.totals();
    assert_eq!((totals.calls, totals.retries, totals.failures_in_a_row, totals.last_error), (6, 5, 0, None));
    assert_eq!(totals.estimated_calls, 2, "what broke off may have cost something, what was refused did not");
}

#[test]
fn the_provider_says_when_to_ask_again() {
    let failures = vec![whole(429, "Retry-After: 1\r\n", "{}"), json(ANSWER)];
    let desk = Desk::with(Api::OpenAi, Budget::default(), patient(5_000), one_after_another(failures));
    let begun = Instant::now();
    assert_eq!(desk.post("/v1/responses", "{}").status, 200);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // More than anybody waits for is told at once.
    let desk = Desk::with(Api::OpenAi, Budget::default(), patient(5_000), whole(429, "Retry-After: 9\r\n", "{}"));
    assert_eq!(desk.post("/v1/responses", "{}").status, 429);
    assert_eq!((desk.provider.seen().len(), desk.gateway.totals().last_error), (1, Some((429, Some(9)))));
}

#[test]
fn a_stream_is_asked_for_again_only_before_it_said_anything() {
    const BEGINNING: &str = r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":7}}}"#;
    const SAID: &str = r#"{"type":"content_block_delta","delta":{"text":"hello"}}"#;
    let begun = vec![cut(&[BEGINNING, r#"{"type":"ping"}"#]), stream(&[BEGINNING, SAID])];
    let desk = Desk::with(Api::Anthropic, Budget::default(), patient(5_000), one_after_another(begun));
    let got = desk.post("/v1/messages", "{}");
    assert!(got.complete && got.body.matches("message_start").count() == 1, "{}", got.body);
    assert_eq!(desk.wait_for_records(2)[1].retries[0].usage.unwrap().input_tokens, 7, "it is paid for");
    let desk = Desk::with(Api::Anthropic, Budget::default(), patient(5_000), cut(&[BEGINNING, SAID]));
    let got = desk.post("/v1/messages", "{}");
    assert!(!got.complete && got.body.contains("hello"), "{}", got.body);
    assert_eq!(desk.provider.seen().len(), 1);
}

#[test]
fn what_is_wrong_with_a_request_is_not_asked_again() {
    for status in [400, 401, 403, 404] {
        let desk = Desk::with(Api::OpenAi, Budget::default(), patient(5_000), whole(status, "", "{}"));
        assert_eq!(desk.post("/v1/responses", "{}").status, status);
        assert_eq!(desk.provider.seen().len(), 1);
    }
}

#[test]
fn patience_has_an_end_and_then_nobody_else_waits() {
    let desk = Desk::with(Api::OpenAi, Budget::default(), patient(200), whole(500, "", "{}"));
    assert_eq!(desk.post("/v1/responses", "{}").status, 500);
    let made = desk.provider.seen().len();
    assert!(made >= 3, "{made}");
    let got = desk.post("/v1/responses", "{}");
    assert!(got.status == 400 && got.body.contains("times in a row"), "{}", got.body);
    assert_eq!(desk.provider.seen().len(), made);
}

#[test]
fn every_attempt_is_held_against_the_budget() {
    let budget = Budget { max_tokens: Some(60), ..Budget::default() };
    let body = format!("{{\"max_output_tokens\":10,\"input\":\"{}\"}}", "x".repeat(100));
    let desk = Desk::with(Api::OpenAi, budget, patient(20_000), hang_up());
    let got = desk.post("/v1/responses", &body);
    assert!(got.status == 400 && got.body.contains("the token budget is used up"), "{}", got.body);
    assert_eq!(desk.provider.seen().len(), 2, "each may have cost what was sent");
    let kept = desk.wait_for_records(2);
    assert_eq!(kept[1].retries.len(), 2);
}

#[test]
fn nobody_asks_again_for_a_program_that_has_gone() {
    let desk = Desk::with(Api::OpenAi, Budget::default(), patient(60_000), whole(429, "Retry-After: 30\r\n", "{}"));
    let mut client = desk.client();
    client.post("/v1/responses", "{}");
    crate::desk::wait_until(|| desk.gateway.totals().retries == 1);
    client.hang_up();
    let kept = desk.wait_for_records(2);
    assert_eq!((kept[1].answer.as_ref().unwrap().status, desk.provider.seen().len()), (499, 1));
}
