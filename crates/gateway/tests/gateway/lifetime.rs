//! Beginning and end: who is let in, and how everything is hung up.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gateway::Api;

use crate::desk::{Desk, once, upstream, wait_until};
use crate::provider::{Provider, begin_stream, chunk, json, stream};

#[test]
fn stopping_hangs_up_both_sides_and_records_what_was_cut() {
    let script = Arc::new(|socket: &mut std::net::TcpStream| {
        begin_stream(socket);
        chunk(socket, b"data: one\n\n");
        thread::sleep(Duration::from_secs(20));
    });
    let desk = Desk::new(Api::OpenAi, script);
    let mut idle = desk.client();
    let mut busy = desk.client();
    busy.post("/v1/responses", "{}");
    busy.head().unwrap();
    busy.chunk().unwrap();
    let asked = Instant::now();
    desk.gateway.stop();
    assert!(asked.elapsed() < Duration::from_secs(5));
    // All is on record when it returns.
    let answer = desk.kept()[1].answer.clone().unwrap();
    assert_eq!((answer.complete, answer.problem.as_deref()), (false, Some("the gateway was stopped")));
    assert!(busy.is_closed() && idle.is_closed());
    assert!(desk.client().is_closed());
}

#[test]
fn stopping_does_not_wait_for_a_connection_that_does_not_come() {
    // An address of documentation, where nobody answers; if the network refuses at once, that is as well.
    let upstream = upstream(Api::OpenAi, "http://192.0.2.1:9".to_owned());
    let desk = Desk::over(upstream, Default::default(), once(), Provider::start(json("{}")));
    let mut client = desk.client();
    client.post("/v1/responses", "{}");
    wait_until(|| desk.gateway.totals().calls == 1);
    let asked = Instant::now();
    desk.gateway.stop();
    assert!(asked.elapsed() < Duration::from_secs(5));
    let answer = desk.kept()[1].answer.clone().unwrap();
    assert_eq!((answer.from, answer.usage), (gateway::Origin::Norma, None));
}

#[test]
fn a_provider_that_is_not_there_is_said() {
    let desk = Desk::over(
        // Nothing listens on port 1 of this machine.
        upstream(Api::Anthropic, "http://127.0.0.1:1".to_owned()),
        Default::default(),
        once(),
        Provider::start(json("{}")),
    );
    let got = desk.post("/v1/messages", "{}");
    assert_eq!(got.status, 502);
    assert!(
        got.body.starts_with(r#"{"error":{"message":"norma: the connection to the provider failed"#),
        "{}",
        got.body
    );
    assert_eq!(desk.only_answer().usage, None);
}

#[test]
fn many_at_once_are_all_counted_and_recorded() {
    let events = [r#"{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":2}}}"#];
    let desk = Desk::new(Api::OpenAi, stream(&events));
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = desk.client();
                for _ in 0..5 {
                    client.post("/v1/responses", "{}");
                    assert!(client.answer().complete);
                }
            });
        }
    });
    let totals = desk.gateway.totals();
    assert_eq!((totals.calls, totals.usage.tokens(), totals.estimated_calls), (100, 500, 0));
    let mut answered: Vec<u64> = desk.kept().iter().filter(|one| one.answer.is_some()).map(|one| one.seq).collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..=100).collect::<Vec<u64>>());
}

#[test]
fn too_many_connections_are_refused() {
    let mut options = once();
    options.limits.connections = 2;
    let desk = Desk::with(Api::OpenAi, Default::default(), options, json("{}"));
    let mut inside = [desk.client(), desk.client()];
    for client in &mut inside {
        client.post("/v1/responses", "{}");
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!(desk.client().answer().status, 503);
    inside[0].hang_up();
    // There is room again as soon as the gateway has noticed.
    wait_until(|| {
        let mut client = desk.client();
        client.post("/v1/responses", "{}");
        client.try_answer().is_some_and(|got| got.status == 200)
    });
}
