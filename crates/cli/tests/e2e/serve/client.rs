//! A server that was started for a test, and the smallest clients that can speak to it: one request a connection, and
//! WebSockets that only read.

use crate::environment::{Running, TestEnvironment, eventually};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long an answer may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A norma that serves.
pub(crate) struct Served {
    pub(crate) norma: Running,
    pub(crate) url: String,
    pub(crate) login: String,
    pub(crate) host: String,
    pub(crate) token: String,
}

/// What was answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {} {}", self.status, self.text()))
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn with(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
}

/// Starts a server on a free port, or on one that is known.
pub(crate) fn serve_at(env: &TestEnvironment, port: u16, more: &[&str]) -> Served {
    let port = port.to_string();
    let args = [&["serve", "--json", "--port", &port], more].concat();
    let norma = env.spawn(&args);
    eventually("the server says where it listens", || norma.stdout().contains('\n'));
    let said: Value = serde_json::from_str(norma.stdout().lines().next().unwrap()).unwrap();
    let [url, login] = ["url", "login"].map(|name| said[name].as_str().unwrap().to_owned());
    let host = url.strip_prefix("http://").unwrap().to_owned();
    Served { norma, url, login, host, token: token(env) }
}

pub(crate) fn serve(env: &TestEnvironment) -> Served {
    serve_at(env, 0, &[])
}

/// The token, from where only its owner can read it.
fn token(env: &TestEnvironment) -> String {
    let data = env.dir.join("home/.local/share/norma");
    let dirs = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path().join("server-token"));
    let file = dirs.into_iter().find(|path| path.exists()).unwrap();
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

impl Served {
    /// Sends bytes as they are and reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // Whoever is refused may be refused before everything is sent.
        let _ = stream.write_all(bytes);
        read_answer(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn port(&self) -> u16 {
        self.host.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// One request with exactly these headers besides the length.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.raw(&[head.as_bytes(), b"\r\n", body].concat())
    }

    /// As the token's owner.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.ask_with(method, path, &[], body)
    }

    pub(crate) fn ask_with(&self, method: &str, path: &str, more: &[(&str, &str)], body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![("Host", self.host.as_str()), ("Authorization", bearer.as_str())];
        headers.extend(more);
        if body.is_some() {
            headers.push(("Content-Type", "application/json"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send(method, path, &headers, body.as_bytes())
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None).with(200)
    }

    /// A WebSocket on a run, as the token's owner.
    pub(crate) fn watch(&self, query: &str) -> Socket {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("Host", self.host.as_str()), ("Authorization", bearer.as_str())];
        self.upgrade(&format!("/ws?{query}"), &headers).unwrap_or_else(|answer| panic!("{}", answer.text()))
    }

    /// A WebSocket with exactly these headers besides those of the upgrade.
    pub(crate) fn upgrade(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, Answer> {
        let mut stream = self.connect();
        let mut head = format!("GET {path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
        head.push_str("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let (status, headers, rest) = read_head(&mut stream);
        if status == 101 {
            return Ok(Socket { stream, buffer: rest });
        }
        let mut body = rest;
        let _ = stream.read_to_end(&mut body);
        Err(Answer { status, headers, body })
    }
}

/// Reads the head of an answer, and what came after it.
fn read_head(stream: &mut TcpStream) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => return (0, Vec::new(), bytes),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(why) if why.kind() == ErrorKind::ConnectionReset => return (0, Vec::new(), bytes),
            Err(why) => panic!("no answer: {why}"),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let rest = bytes[end + 4..].to_vec();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok()).unwrap_or(0);
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned()));
    (status, headers.collect(), rest)
}

fn read_answer(stream: &mut TcpStream) -> Answer {
    let (status, headers, mut body) = read_head(stream);
    if let Err(why) = stream.read_to_end(&mut body) {
        assert_eq!(why.kind(), ErrorKind::ConnectionReset, "{why}");
    }
    let answer = Answer { status, headers, body };
    match answer.header("transfer-encoding") {
        Some("chunked") => Answer { body: unchunked(&answer.body), ..answer },
        _ => answer,
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&bytes[at + 2..at + 2 + size]);
        bytes = &bytes[at + 4 + size..];
    }
    whole
}

/// A WebSocket that reads.
pub(crate) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    Event(Value),
    /// Code and reason.
    Close(u16, String),
    /// Without a word.
    Lost,
}

impl Socket {
    /// The next event, or the end; pings are skipped.
    pub(crate) fn next(&mut self) -> Frame {
        loop {
            if let Some((opcode, payload)) = self.take() {
                match opcode {
                    1 => return Frame::Event(serde_json::from_slice(&payload).unwrap()),
                    8 if payload.len() >= 2 => {
                        let code = u16::from_be_bytes([payload[0], payload[1]]);
                        return Frame::Close(code, String::from_utf8_lossy(&payload[2..]).into_owned());
                    }
                    8 => return Frame::Close(1005, String::new()),
                    9 | 10 => continue,
                    other => panic!("frame of type {other}"),
                }
            }
            let mut piece = [0; 65536];
            match self.stream.read(&mut piece) {
                Ok(0) => return Frame::Lost,
                Ok(read) => self.buffer.extend_from_slice(&piece[..read]),
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("no event came")
                }
                Err(_) => return Frame::Lost,
            }
        }
    }

    /// Events until one of this type; all of them.
    #[track_caller]
    pub(crate) fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let (mut events, begun) = (Vec::new(), Instant::now());
        loop {
            match self.next() {
                Frame::Event(event) => {
                    let last = is_last(&event);
                    events.push(event);
                    if last {
                        return events;
                    }
                }
                other => panic!("the stream ended: {other:?} after {events:#?}"),
            }
            assert!(begun.elapsed() < PATIENCE * 3, "{events:#?}");
        }
    }

    /// Sends a frame as it is, masked.
    pub(crate) fn send(&mut self, first: u8, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = vec![first];
        match payload.len() {
            small @ 0..126 => frame.push(0x80 | small as u8),
            middle @ 126..65536 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            large => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(large as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.send_raw(&frame)
    }

    /// Sends bytes that need be no frame.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn take(&mut self) -> Option<(u8, Vec<u8>)> {
        let bytes = &self.buffer;
        let (first, second) = (*bytes.first()?, *bytes.get(1)?);
        assert_eq!(second & 0x80, 0, "a server masks nothing");
        let (at, len) = match second & 0x7f {
            126 => (4, usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]))),
            127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().unwrap()) as usize),
            small => (2, usize::from(small)),
        };
        let payload = bytes.get(at..at + len)?.to_vec();
        self.buffer.drain(..at + len);
        Some((first & 0x0f, payload))
    }
}
