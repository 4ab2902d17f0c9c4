//! The other side: a server that was started for a benchmark, requests of one connection each, and WebSockets that are
//! read in turn by one thread, so that the clock is the only thing between them.

use super::appending::{SERVE, now_ns};
use crate::Result;
use crate::sample::Samples;
use crate::world::World;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(crate) address: String,
    pub(super) run: String,
}

/// What came of appending facts.
pub(super) struct Appended {
    /// Milliseconds of each append.
    pub(super) took: Samples,
    /// When each was acknowledged.
    pub(super) committed: Vec<u64>,
    /// When each viewer had read each.
    pub(super) received: Vec<Vec<u64>>,
    /// How many events these facts are.
    pub(super) events: usize,
    /// Of the server, all in all.
    pub(super) cpu_us: f64,
}

impl Server {
    /// One that appends.
    pub(super) fn appending(world: &World, dir: &Path) -> Result<Server> {
        let mut command = world.command(std::env::current_exe()?, dir);
        let child = command
            .arg(SERVE)
            .args([dir, &world.norma, &world.dir.join("home")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        Server::of(child)
    }

    /// norma itself.
    pub(crate) fn norma(world: &World, dir: &Path) -> Result<Server> {
        let mut command = world.command(&world.norma, dir);
        Server::of(command.args(["serve", "--json", "--port", "0"]).stdout(Stdio::piped()).spawn()?)
    }

    fn of(mut child: Child) -> Result<Server> {
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("piped")?);
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        let address = said["url"].as_str().and_then(|url| url.strip_prefix("http://")).ok_or("no address")?.to_owned();
        let run = said["run"].as_str().unwrap_or_default().to_owned();
        Ok(Server { child, input, output, address, run })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it append so many facts, and reads what viewers are told of each.
    pub(super) fn append(&mut self, facts: usize, viewers: &mut [Client]) -> Result<Appended> {
        writeln!(self.input.as_mut().ok_or("it has no input")?, "{facts}")?;
        let mut received = Vec::with_capacity(facts);
        let mut events = 0;
        if !viewers.is_empty() {
            for _ in 0..facts {
                let mut at = Vec::with_capacity(viewers.len());
                for viewer in viewers.iter_mut() {
                    events += viewer.read_fact()?;
                    at.push(now_ns());
                }
                received.push(at);
            }
            events /= viewers.len();
        }
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        let numbers = |name: &str| -> Vec<u64> {
            said[name].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        let mut took = Samples::default();
        numbers("took").into_iter().for_each(|ns| took.push_ms(Duration::from_nanos(ns)));
        let cpu_us = said["cpu_us"].as_f64().ok_or("it does not say what it used")?;
        Ok(Appended { took, committed: numbers("committed"), received, events, cpu_us })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// What is answered to a request with this body.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let text = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_some() { "Content-Type: application/json\r\n" } else { "" };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{kind}");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    if !head.starts_with("HTTP/1.1 2") {
        return Err(format!("{method} {path}: {answer}").into());
    }
    Ok(serde_json::from_str(body)?)
}

/// How long an answer takes, with its connection, until it was read whole.
pub(crate) fn get(address: &str, path: &str) -> Result<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let took = begun.elapsed();
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(format!("{path}: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)])).into());
    }
    Ok(took)
}

/// What is answered to a request with a body.
pub(super) fn post(address: &str, path: &str, body: &Value) -> Result<Value> {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    answered(address, path, &head)
}

/// What is answered to a request without one.
pub(super) fn get_json(address: &str, path: &str) -> Result<Value> {
    answered(address, path, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

fn answered(address: &str, path: &str, request: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let wrong = || format!("{path}: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| &answer[at + 4..]);
    let body = body.filter(|_| answer.starts_with(b"HTTP/1.1 20")).ok_or_else(wrong)?;
    Ok(serde_json::from_slice(body)?)
}

/// One who watches.
pub(super) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How much of the buffer was looked at.
    start: usize,
}

impl Client {
    pub(super) fn watch(address: &str, run: &str) -> Result<Client> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "GET /ws?runId={run} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut client = Client { stream, buffer: Vec::new(), start: 0 };
        let end = loop {
            if let Some(at) = client.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            client.fill()?;
        };
        if !client.buffer.starts_with(b"HTTP/1.1 101") {
            return Err(String::from_utf8_lossy(&client.buffer).into_owned().into());
        }
        client.start = end;
        // Whoever was let in is told from now on; this is where "now" is.
        std::thread::sleep(Duration::from_millis(20));
        Ok(client)
    }

    /// Reads everything about one fact, whose last event is that of the node; answers how many events it is.
    fn read_fact(&mut self) -> Result<usize> {
        let mut events = 0;
        loop {
            let (opcode, text) = self.frame()?;
            if opcode == 1 {
                events += 1;
                if text.windows(LAST.len()).any(|part| part == LAST) {
                    return Ok(events);
                }
            }
        }
    }

    fn frame(&mut self) -> Result<(u8, Vec<u8>)> {
        loop {
            if let Some((opcode, from, to)) = whole(&self.buffer[self.start..]) {
                let payload = self.buffer[self.start + from..self.start + to].to_vec();
                self.start += to;
                if self.start == self.buffer.len() {
                    self.buffer.clear();
                    self.start = 0;
                }
                return Ok((opcode, payload));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece)? {
            0 => Err("the server closed the connection".into()),
            read => {
                self.buffer.extend_from_slice(&piece[..read]);
                Ok(())
            }
        }
    }
}

/// What the last event about a message says of itself.
const LAST: &[u8] = b"\"type\":\"node.patch\"";

/// The first frame of what a server sent: its type, and where its payload begins and ends.
fn whole(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (opcode, second) = (*bytes.first()? & 0x0f, *bytes.get(1)?);
    let (from, len) = match second & 0x7f {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?),
        small => (2, usize::from(small)),
    };
    (bytes.len() >= from + len).then_some((opcode, from, from + len))
}
