//! A server that plays a provider: it keeps what it was sent and answers as a test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a provider does with a connection on which a request has arrived.
pub(crate) type Script = Arc<dyn Fn(&mut TcpStream) + Send + Sync>;

/// A provider on this machine.
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(crate) fn start(script: Script) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = seen.clone();
        // Ends with the test program.
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (mut socket, script, kept) = (socket.unwrap(), script.clone(), kept.clone());
                thread::spawn(move || {
                    let request = read_request(&mut socket);
                    kept.lock().unwrap().push(request);
                    script(&mut socket);
                });
            }
        });
        Provider { address, seen }
    }

    /// The requests so far, as they came.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads a head and as many bytes as it announces.
pub(crate) fn read_request(socket: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return text,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Answers with JSON of a known length.
pub(crate) fn json(body: &str) -> Script {
    whole(200, "content-type: application/json\r\n", body)
}

/// Answers at once, with a known length.
pub(crate) fn whole(status: u16, headers: &str, body: &str) -> Script {
    let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    Arc::new(move |socket| {
        let _ = socket.write_all(text.as_bytes());
    })
}

/// Streams events in pieces of a few bytes, without regard to where events end.
pub(crate) fn stream(events: &[&str]) -> Script {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Arc::new(move |socket| {
        begin_stream(socket);
        for piece in text.as_bytes().chunks(37) {
            chunk(socket, piece);
            thread::sleep(Duration::from_millis(1));
        }
        let _ = socket.write_all(b"0\r\n\r\n");
    })
}

pub(crate) fn begin_stream(socket: &mut TcpStream) {
    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nSet-Cookie: a=b\r\nRequest-Id: r1\r\nTransfer-Encoding: chunked\r\n\r\n");
}

pub(crate) fn chunk(socket: &mut TcpStream, bytes: &[u8]) {
    let _ = socket.write_all(format!("{:x}\r\n", bytes.len()).as_bytes());
    let _ = socket.write_all(bytes);
    let _ = socket.write_all(b"\r\n");
}
