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
    let upstream = Upstream {
        api: Api::OpenAi,
        base_url,
        key: Key::new(KEY).unwrap(),
        extra_roots_pem,
        proxy: None,
        no_proxy: None,
    };
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
    let upstream = Upstream {
        api: Api::OpenAi,
        base_url,
        key,
        extra_roots_pem: Some("none".to_owned()),
        proxy: None,
        no_proxy: None,
    };
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

/// A proxy that tunnels one connection to whatever it is asked for, if it knows the password.
fn serve_proxy(seen: std::sync::mpsc::Sender<String>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let request = read_request(&mut client);
            let to = request.split(' ').nth(1).unwrap().to_owned();
            let known = request.contains("proxy-authorization: Basic bWU6cGFzcw==\r\n");
            seen.send(request).unwrap();
            if !known {
                let _ = client.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n");
                continue;
            }
            client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            let mut provider = std::net::TcpStream::connect(to).unwrap();
            let (mut from, mut back) = (client.try_clone().unwrap(), provider.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Both);
            });
            thread::spawn(move || std::io::copy(&mut provider, &mut client));
        }
    });
    port
}

#[test]
fn a_proxy_is_asked_for_a_tunnel_and_reads_nothing() {
    let (sender, seen) = std::sync::mpsc::channel();
    let (port, root) = serve_tls("localhost", sender);
    let (sender, asked) = std::sync::mpsc::channel();
    let proxy = serve_proxy(sender);
    let through = |user: &str, no_proxy: Option<&str>| {
        let upstream = Upstream {
            api: Api::OpenAi,
            base_url: format!("https://localhost:{port}"),
            key: Key::new(KEY).unwrap(),
            extra_roots_pem: Some(root.clone()),
            proxy: Some(format!("http://{user}127.0.0.1:{proxy}")),
            no_proxy: no_proxy.map(str::to_owned),
        };
        Desk::over(upstream, Default::default(), once(), Provider::start(json("{}"))).post("/v1/responses", "{}")
    };
    assert_eq!(through("me:pass@", None).status, 200);
    assert!(seen.recv().unwrap().contains(KEY));
    let told = asked.recv().unwrap();
    assert!(told.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")) && !told.contains(KEY), "{told}");
    let refused = through("", None);
    assert!(refused.status == 502 && refused.body.contains("the proxy answered with status 407"), "{}", refused.body);
    assert!(asked.recv().is_ok());
    assert_eq!(through("me:pass@", Some("localhost")).status, 200);
    assert!(asked.try_recv().is_err(), "it is not asked for what is reached without it");
}
