//! Everything around a gateway: a provider, a record in memory, a listener, and a client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gateway::{Amount, Answer, Api, Budget, Exchange, Gateway, Key, Ledger, Options, Record, Retries, Upstream};

use crate::provider::{Provider, Script};

pub(crate) const KEY: &str = "sk-the-real-key-0123456789";

/// Long enough for a busy machine, and an end for a test that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every call is made once.
pub(crate) fn once() -> Options {
    Options { retries: Retries::NONE, network: true, ..Options::default() }
}

/// Keeps exchanges, up to a number of them.
pub(crate) struct Memory {
    pub(crate) kept: Mutex<Vec<Exchange>>,
    /// From that record on it fails.
    pub(crate) fails_at: AtomicUsize,
}

impl Record for Memory {
    fn exchange(&self, exchange: &Exchange) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap();
        if kept.len() >= self.fails_at.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is full"));
        }
        kept.push(exchange.clone());
        Ok(())
    }
}

/// A gateway that listens.
pub(crate) struct Desk {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) provider: Provider,
    pub(crate) address: SocketAddr,
}

impl Desk {
    pub(crate) fn new(api: Api, script: Script) -> Desk {
        Desk::with(api, Budget::default(), once(), script)
    }

    pub(crate) fn with(api: Api, budget: Budget, options: Options, script: Script) -> Desk {
        let provider = Provider::start(script);
        let upstream = upstream(api, format!("http://{}/base", provider.address));
        Desk::over(upstream, budget, options, provider)
    }

    pub(crate) fn over(upstream: Upstream, budget: Budget, options: Options, provider: Provider) -> Desk {
        let memory = Arc::new(Memory { kept: Mutex::default(), fails_at: AtomicUsize::new(usize::MAX) });
        let ledger = Arc::new(Ledger::new(budget, Amount::default()));
        let gateway = Gateway::live_with(upstream, ledger, memory.clone(), options).unwrap();
        let gateway = Arc::new(gateway);
        Desk { address: listen(&gateway), gateway, memory, provider }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Posts a body and reads the answer.
    pub(crate) fn post(&self, path: &str, body: &str) -> Got {
        let mut client = self.client();
        client.post(path, body);
        client.answer()
    }

    /// Everything recorded so far.
    pub(crate) fn kept(&self) -> Vec<Exchange> {
        self.memory.kept.lock().unwrap().clone()
    }

    /// Waits until there are that many records.
    pub(crate) fn wait_for_records(&self, count: usize) -> Vec<Exchange> {
        wait_until(|| self.kept().len() >= count);
        self.kept()
    }

    /// The one answer on record.
    pub(crate) fn only_answer(&self) -> Answer {
        let kept = self.wait_for_records(2);
        assert_eq!(kept.len(), 2);
        assert_eq!((kept[0].seq, kept[1].seq), (1, 1));
        assert_eq!(kept[0].answer, None);
        kept[1].answer.clone().unwrap()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.gateway.stop();
    }
}

pub(crate) fn upstream(api: Api, base_url: String) -> Upstream {
    Upstream { api, base_url, key: Key::new(KEY).unwrap(), extra_roots_pem: None, proxy: None, no_proxy: None }
}

pub(crate) fn wait_until(done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "it took too long");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Accepts connections and serves each on a thread of its own.
pub(crate) fn listen(gateway: &Arc<Gateway>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let gateway = gateway.clone();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (gateway, socket) = (gateway.clone(), socket.unwrap());
            thread::spawn(move || gateway.serve(socket));
        }
    });
    address
}

/// An agent's program, as far as the gateway sees it.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    unread: Vec<u8>,
}

/// An answer as the program got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether it ended as it should.
    pub(crate) complete: bool,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { socket, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) {
        let length = body.len();
        let headers = "Host: 127.0.0.1\r\nAuthorization: Bearer placeholder\r\nx-api-key: placeholder\r\n\
                       X-Goog-Api-Key: placeholder\r\nCookie: c=d\r\nAccept-Encoding: gzip, br\r\nX-Mine: kept\r\n";
        self.send(&format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"));
    }

    pub(crate) fn hang_up(&self) {
        self.socket.shutdown(Shutdown::Both).unwrap();
    }

    /// More bytes; false at the end.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer) {
            Ok(read) => {
                self.unread.extend_from_slice(&buffer[..read]);
                read > 0
            }
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => panic!("nothing came"),
            Err(_) => false,
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            if !self.fill() {
                return None;
            }
        }
        Some(self.unread.drain(..count).collect())
    }

    /// That many bytes, as text.
    pub(crate) fn text(&mut self, length: usize) -> String {
        String::from_utf8(self.bytes(length).unwrap()).unwrap()
    }

    /// The status and the other lines of a head; none if the connection is closed.
    pub(crate) fn head(&mut self) -> Option<(u16, String)> {
        let first = self.line()?;
        let mut head = format!("{first}\n");
        loop {
            match self.line()? {
                line if line.is_empty() => break,
                line => head.push_str(&format!("{}\n", line.to_ascii_lowercase())),
            }
        }
        Some((first.split(' ').nth(1).unwrap().parse().unwrap(), head))
    }

    /// The next chunk; empty at the end, none if there is no end.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.line()?, 16).unwrap();
        let bytes = self.bytes(size + 2)?;
        Some(String::from_utf8(bytes[..size].to_vec()).unwrap())
    }

    /// A whole answer, as far as it comes.
    pub(crate) fn answer(&mut self) -> Got {
        self.try_answer().expect("the connection was closed without an answer")
    }

    pub(crate) fn try_answer(&mut self) -> Option<Got> {
        let (status, head) = self.head()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned));
        let mut got = Got { status, head, body: String::new(), complete: false };
        if let Some(length) = length {
            let bytes = self.bytes(length.parse().unwrap());
            got.complete = bytes.is_some();
            got.body = String::from_utf8(bytes.unwrap_or_default()).unwrap();
            return Some(got);
        }
        while let Some(chunk) = self.chunk() {
            if chunk.is_empty() {
                got.complete = true;
                break;
            }
            got.body.push_str(&chunk);
        }
        Some(got)
    }

    /// Whether the gateway has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.fill()
    }
}
