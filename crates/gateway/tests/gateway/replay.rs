//! Recorded answers, served again.

use std::sync::Arc;

use gateway::{Api, Exchange, Gateway};

use crate::desk::{Client, Desk, Got, listen};
use crate::provider::stream;

/// Lets a desk answer requests and gives back what went on record, written and read again.
fn recorded(api: Api, path: &str, bodies: &[&str]) -> (Vec<Got>, Vec<Exchange>) {
    let usage =
        r#"{"type":"response.completed","response":{"model":"m","usage":{"input_tokens":5,"output_tokens":7}}}"#;
    let desk = Desk::new(api, stream(&[r#"{"type":"response.created"}"#, usage]));
    let got = bodies.iter().map(|body| desk.post(path, body)).collect();
    desk.wait_for_records(bodies.len() * 2);
    let written = desk.kept().into_iter().map(|exchange| exchange.to_json());
    (got, written.map(|json| Exchange::from_json(&json).unwrap()).collect())
}

fn replay(exchanges: Vec<Exchange>) -> (Arc<Gateway>, Client) {
    let gateway = Arc::new(Gateway::replay(exchanges.into_iter()));
    let client = Client::connect(listen(&gateway));
    (gateway, client)
}

#[test]
fn the_same_requests_get_the_same_bytes() {
    let bodies = [r#"{"input":["a"]}"#, r#"{"input":["a","b","on 2026-11-16"]}"#];
    let (got, exchanges) = recorded(Api::OpenAi, "/v1/responses", &bodies);
    let (gateway, mut client) = replay(exchanges);
    client.post("/v1/responses", bodies[0]);
    assert_eq!(client.answer(), got[0]);
    client.post("/v1/responses", r#"{"input":["a","b","on 2027-01-01"]}"#);
    assert_eq!(client.answer(), got[1]);
    let totals = gateway.totals();
    assert_eq!((totals.calls, totals.mismatches), (2, 0));
    assert_eq!((totals.matched.exact, totals.matched.masked, totals.matched.order), (1, 1, 0));
    assert_eq!((totals.usage.input_tokens, totals.usage.output_tokens), (10, 14));
    gateway.stop();
}

#[test]
fn what_was_not_recorded_is_an_error_in_the_apis_form() {
    let (got, exchanges) = recorded(Api::OpenAi, "/v1/responses", &[r#"{"input":["a"]}"#]);
    let (gateway, mut client) = replay(exchanges);
    client.post("/v1/messages", "{}");
    let refused = client.answer();
    assert_eq!(refused.status, 400);
    let form = r#"{"error":{"message":"norma: no recorded request is like this one","type":"invalid_request_error"},"type":"error"}"#;
    assert_eq!(refused.body, form);
    // The only one that is left is taken, whatever it says, and only once.
    client.post("/v1/responses", r#"{"input":["something else"]}"#);
    assert_eq!(client.answer(), got[0]);
    client.post("/v1/responses", r#"{"input":["something else"]}"#);
    assert_eq!(client.answer().status, 400);
    client.send("GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 404);
    let totals = gateway.totals();
    assert_eq!((totals.calls, totals.mismatches, totals.matched.order), (1, 3, 1));
    gateway.stop();
}

#[test]
fn a_cut_answer_is_cut_again() {
    let (got, mut exchanges) = recorded(Api::OpenAi, "/v1/responses", &["{}"]);
    for exchange in &mut exchanges {
        exchange.answer.iter_mut().for_each(|answer| answer.complete = false);
    }
    let (gateway, mut client) = replay(exchanges);
    client.post("/v1/responses", "{}");
    let again = client.answer();
    assert_eq!((again.body.as_str(), again.complete), (got[0].body.as_str(), false));
    gateway.stop();
}
