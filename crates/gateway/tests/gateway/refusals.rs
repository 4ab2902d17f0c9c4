//! What is not forwarded.

use std::io::Write as _;

use gateway::{Api, Origin};

use crate::desk::{Desk, once};
use crate::provider::{json, whole};

#[test]
fn calls_that_the_api_does_not_need_are_not_forwarded_but_recorded() {
    let desk = Desk::new(Api::Anthropic, json("{}"));
    let requests = [
        "GET / HTTP/1.1",
        "HEAD / HTTP/1.1",
        "DELETE /v1/models/m HTTP/1.1",
        "GET /v1/files HTTP/1.1",
        "GET /v1/organizations/users?key=k HTTP/1.1",
        "POST /v1/responses HTTP/1.1",
        "POST /v1beta/models/m:generateContent HTTP/1.1",
        "POST /v1/messages/batches HTTP/1.1",
    ];
    // All on one connection: none of them has a body that would have to be passed over.
    let mut client = desk.client();
    for request in requests {
        client.send(&format!("{request}\r\nHost: a\r\n\r\n"));
        let (status, _) = client.head().unwrap();
        assert_eq!(status, 404, "{request}");
        if !request.starts_with("HEAD") {
            // The head was read above; the body is as long in each answer.
            let body = r#"{"error":{"message":"norma: this call is not forwarded","type":"invalid_request_error"},"type":"error"}"#;
            assert_eq!(client.text(body.len()), body);
        }
    }
    assert_eq!(desk.provider.seen().len(), 0);
    assert_eq!(desk.gateway.totals().refused, requests.len() as u64);
    let kept = desk.kept();
    assert_eq!(kept.len(), requests.len());
    for (exchange, request) in kept.iter().zip(requests) {
        assert!(request.starts_with(&exchange.method) && !exchange.path.contains("key="), "{exchange:?}");
        let answer = exchange.answer.as_ref().unwrap();
        assert_eq!((answer.status, answer.from), (404, Origin::Norma));
    }
}

#[test]
fn a_body_that_is_not_forwarded_is_not_read() {
    let desk = Desk::new(Api::Anthropic, json("{}"));
    let mut client = desk.client();
    client.post("/v1/files", "secret");
    let got = client.answer();
    assert_eq!(got.status, 404);
    assert!(got.head.contains("connection: close\n"));
    assert_eq!(desk.kept()[0].request_body, b"");
}

#[test]
fn requests_that_could_be_read_in_two_ways_are_refused() {
    let desk = Desk::new(Api::OpenAi, json("{}"));
    for (first, headers) in [
        ("POST http://elsewhere/v1/responses HTTP/1.1", "Host: a\r\nContent-Length: 2\r\n"),
        ("POST //elsewhere/v1/responses HTTP/1.1", "Host: a\r\nContent-Length: 2\r\n"),
        ("POST /v1/../v1/responses HTTP/1.1", "Host: a\r\nContent-Length: 2\r\n"),
        ("POST /v1/%72esponses HTTP/1.1", "Host: a\r\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nHost: b\r\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a@b\r\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Content-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nTransfer-Encoding: gzip, chunked\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nX: b\r\n folded\r\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nX: \0\r\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\nContent-Length: 2\r\n"),
        ("POST /v1/responses HTTP/1.1", "Host: a\r\nTransfer-Encoding: chunked\r\n\r\nzz"),
        ("GET /v1/models HTTP/1.1", "Host: a\r\nContent-Length: 2\r\n"),
        ("CONNECT elsewhere:443 HTTP/1.1", "Host: elsewhere\r\n"),
    ] {
        let mut client = desk.client();
        client.send(&format!("{first}\r\n{headers}\r\n{{}}"));
        let got = client.answer();
        assert_eq!(got.status, 400, "{first} {headers:?}");
        assert!(got.body.contains("the request is refused"), "{}", got.body);
        assert!(client.is_closed());
    }
    let mut client = desk.client();
    client.send("POST /v1/responses HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(client.answer().status, 505);
    assert_eq!(desk.provider.seen().len(), 0);
}

#[test]
fn too_much_is_refused() {
    let mut options = once();
    options.limits.body_bytes = 10;
    let desk = Desk::with(Api::OpenAi, Default::default(), options, json("{}"));
    let mut client = desk.client();
    // The end of it is not waited for.
    let _ = client.socket.write_all(format!("GET /{}", "x".repeat(70 * 1024)).as_bytes());
    assert_eq!(client.answer().status, 431);
    assert_eq!(desk.post("/v1/responses", "01234567890").status, 413);
    let mut client = desk.client();
    client.send("POST /responses HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n");
    assert_eq!(client.answer().status, 413);
    assert_eq!(desk.provider.seen().len(), 0);
}

#[test]
fn redirects_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let desk = Desk::new(Api::OpenAi, whole(status, "Location: http://elsewhere.example/\r\n", ""));
        let got = desk.post("/v1/responses", "{}");
        assert_eq!(got.status, 502);
        assert!(got.body.contains("redirect") && !got.body.contains("elsewhere"), "{}", got.body);
        assert_eq!(desk.provider.seen().len(), 1);
        let answer = desk.only_answer();
        assert_eq!((answer.from, answer.status, answer.usage), (Origin::Norma, 502, None));
        assert_eq!(desk.gateway.totals().last_error, Some((502, None)));
    }
}

#[test]
fn answers_that_are_not_http_are_refused() {
    for answer in [
        "hello\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 1\n\na",
        "",
    ] {
        let script = std::sync::Arc::new(move |socket: &mut std::net::TcpStream| {
            let _ = socket.write_all(answer.as_bytes());
        });
        let desk = Desk::new(Api::OpenAi, script);
        assert_eq!(desk.post("/v1/responses", "{}").status, 502, "{answer:?}");
    }
}

#[test]
fn without_a_network_the_provider_is_not_asked_to_reach_one() {
    let options = gateway::Options { network: false, ..once() };
    let desk = Desk::with(Api::Anthropic, Default::default(), options, json("{}"));
    let body = r#"{"model":"m","mcp_servers":[{"type":"url","url":"https://elsewhere"}]}"#;
    let got = desk.post("/v1/messages", body);
    assert!(got.status == 400 && got.body.contains("the contract allows no network"), "{}", got.body);
    assert!(desk.provider.seen().is_empty());
    let answer = desk.wait_for_records(1)[0].answer.clone().unwrap();
    assert!(answer.from == Origin::Norma && answer.problem.unwrap().contains("mcp_servers"));
    assert!(desk.gateway.totals().refused_for_network.unwrap().contains("mcp_servers"));
    assert_eq!(desk.post("/v1/messages", r#"{"model":"m"}"#).status, 200);
}
