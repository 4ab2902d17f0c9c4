//! TLS to the provider: with a root of one's own, and never with a certificate that does not fit.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use gateway::{Api, Gateway, Key, Upstream, UpstreamProblem};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::desk::{Desk, KEY, once};
use crate::provider::{Provider, json, read_request};

/// A provider with a certificate for a name; its port, the certificate, and what it was sent in the end.
fn serve_tls(name: &str, seen: std::sync::mpsc::Sender<String>) -> (u16, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, socket.unwrap());
            let request = read_request(&mut stream);
            let _ = seen.send(request);
            let events = "data: one\n\ndata: two\n\n";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = write!(stream, "{head}{:x}\r\n{events}\r\n0\r\n\r\n", events.len());
            let _ = stream.flush();
            stream.conn.send_close_notify();
            let _ = stream.flush();
            // Until the other side closes too.
            let _ = stream.read(&mut [0; 16]);
        }
    });
    (port, cert.pem())
}

fn desk(port: u16, extra_roots_pem: Option<String>) -> Desk {
    let base_url = format!("https://localhost:{port}");
    let upstream = Upstream { api: Api::OpenAi, base_url, key: Key::new(KEY).unwrap(), extra_roots_pem };
    Desk::over(upstream, Default::default(), once(), Provider::start(json("{}")))
}

#[test]
fn a_root_of_ones_own_is_believed() {
    let (sender, seen) = std::sync::mpsc::channel();
    let (port, root) = serve_tls("localhost", sender);
    let desk = desk(port, Some(root));
    // More than fits into one record or the socket's buffer.
    let long = format!("{{\"input\":\"{}\"}}", "x".repeat(3_000_000));
    for body in ["{}", &long] {
        let got = desk.post("/v1/responses", body);
        assert_eq!((got.status, got.body.as_str(), got.complete), (200, "data: one\n\ndata: two\n\n", true));
        let request = seen.recv().unwrap();
        assert!(request.contains(&format!("authorization: Bearer {KEY}\r\n")) && request.ends_with(body));
        assert!(request.contains(&format!("host: localhost:{port}\r\n")));
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (sender, seen) = std::sync::mpsc::channel();
    let (port, _) = serve_tls("localhost", sender.clone());
    let (_, another_root) = serve_tls("localhost", sender.clone());
    let (wrong_name, root) = serve_tls("elsewhere.example", sender);
    for desk in [desk(port, None), desk(port, Some(another_root)), desk(wrong_name, Some(root))] {
        let got = desk.post("/v1/responses", "{}");
        assert_eq!(got.status, 502);
        assert!(got.body.contains("TLS with the provider failed"), "{}", got.body);
        assert_eq!(desk.only_answer().usage, None);
    }
    // Nothing of the request was told, the key least of all.
    assert!(seen.try_iter().all(|request| request.is_empty()));
}

#[test]
fn roots_that_cannot_be_read_are_said_at_once() {
    let key = Key::new(KEY).unwrap();
    let base_url = "https://localhost".to_owned();
    let upstream = Upstream { api: Api::OpenAi, base_url, key, extra_roots_pem: Some("none".to_owned()) };
    assert!(!format!("{upstream:?}").contains(KEY));
    let problem = Gateway::live(upstream, Default::default(), Arc::new(Nothing)).err().unwrap();
    assert!(matches!(problem, UpstreamProblem::Roots(_)));
}

struct Nothing;

impl gateway::Record for Nothing {
    fn exchange(&self, _: &gateway::Exchange) -> std::io::Result<()> {
        Ok(())
    }
}
