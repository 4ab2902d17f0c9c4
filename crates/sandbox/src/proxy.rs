//! The way out: norma's own HTTP proxy, which connects to what the policy names and nothing else.
//!
//! It accepts on sockets that listen inside the sandbox's network namespace and connects from
//! outside it, so no bridge process, no shared directory and no route is needed. Names are compared
//! exactly and resolved out here; inside there is no DNS. A listed name that resolves to this
//! machine is refused, since whoever answers for that name would otherwise choose a local service.
//! Every attempt is kept, allowed or not.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::policy::HostPort;

/// The proxy's port inside, where nothing else can have taken it: the namespace is new.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Longest request head: what common servers take, and an end for a head without one.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Time for the next part of a request head to arrive. It is sent by a program on the same machine.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// Time for one address of the other side to answer a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Connections at once: more than a package manager opens, and an end for a program that opens
/// without end. Each takes two threads and two buffers.
const CONNECTIONS_MAX: usize = 128;

/// Attempts kept; later ones are only counted. Bounds the memory a hostile program can take.
const ATTEMPTS_MAX: usize = 4096;

/// Bytes copied at once, large enough that the copying and not the calls takes the time.
const COPY_BYTES: usize = 256 * 1024;

/// One try to reach something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// As the program named it.
    pub host: String,
    /// As the program named it.
    pub port: u16,
    /// Bytes the program sent.
    pub sent_bytes: u64,
    /// Bytes the program got.
    pub received_bytes: u64,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Connected.
    Allowed,
    /// Allowed, but the other side could not be reached.
    Unreachable(String),
    /// Not allowed, and why.
    Refused(String),
}

impl Verdict {
    /// Whether the policy lets it pass.
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// A running proxy; dropping it closes every connection.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    acceptors: Vec<JoinHandle<()>>,
}

struct Shared {
    allowed: Vec<HostPort>,
    stopped: AtomicBool,
    open: AtomicUsize,
    attempts: Mutex<Vec<Attempt>>,
    dropped: AtomicU64,
    /// Both sides of every open connection, by a number, so that stopping can hang them up.
    streams: Mutex<Vec<(u64, TcpStream)>>,
    next: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Serves the listeners, of which the first is the proxy's and each other one stands for the
    /// address it is bound to.
    pub(crate) fn start(allowed: &[HostPort], listeners: Vec<(SocketAddr, OwnedFd)>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            allowed: allowed.to_vec(),
            stopped: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            attempts: Mutex::default(),
            dropped: AtomicU64::new(0),
            streams: Mutex::default(),
            next: AtomicU64::new(0),
        });
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut proxy = Self { shared, stop, acceptors: Vec::new() };
        for (index, (address, listener)) in listeners.into_iter().enumerate() {
            let fixed = (index > 0).then_some(address);
            let (shared, stop) = (Arc::clone(&proxy.shared), Arc::clone(&proxy.stop));
            let listener = TcpListener::from(listener);
            listener.set_nonblocking(true)?;
            let accept = move || accept_until(&stop, &listener, fixed, &shared);
            proxy.acceptors.push(thread::Builder::new().name("sandbox-proxy".to_owned()).spawn(accept)?);
        }
        Ok(proxy)
    }

    /// What was tried so far, and how many attempts were not kept.
    pub(crate) fn attempts(&self) -> (Vec<Attempt>, u64) {
        (lock(&self.shared.attempts).clone(), self.shared.dropped.load(Ordering::SeqCst))
    }

    /// Hangs everything up and waits until every attempt is on record.
    pub(crate) fn stop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // The only possible failure is a full counter, and then it is readable already.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        for acceptor in self.acceptors.drain(..) {
            let _ = acceptor.join();
        }
        for (_, stream) in lock(&self.shared.streams).iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // A connection still being made ends by its own patience; the report does not wait for it.
        for _ in 0..100 {
            if self.shared.open.load(Ordering::SeqCst) == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept_until(stop: &OwnedFd, listener: &TcpListener, fixed: Option<SocketAddr>, shared: &Arc<Shared>) {
    loop {
        let mut watched = [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        if rustix::event::poll(&mut watched, None).is_err() {
            continue;
        }
        if !watched[0].revents().is_empty() {
            return;
        }
        let Ok((client, _)) = listener.accept() else { continue };
        if shared.open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX || client.set_nonblocking(false).is_err() {
            shared.open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let serving = Arc::clone(shared);
        let serve = move || {
            serve(&serving, client, fixed);
            serving.open.fetch_sub(1, Ordering::SeqCst);
        };
        if thread::Builder::new().name("sandbox-proxy".to_owned()).spawn(serve).is_err() {
            shared.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Serves one connection to its end and puts it on record.
fn serve(shared: &Shared, mut client: TcpStream, fixed: Option<SocketAddr>) {
    let request = match fixed {
        Some(address) => Request {
            target: HostPort { host: address.ip().to_string(), port: address.port() },
            first: Vec::new(),
            tunnel: false,
        },
        None => match read_request(&mut client) {
            Ok(request) => request,
            Err(answer) => {
                let _ = client.write_all(answer.as_bytes());
                let verdict = Verdict::Refused("not a request for a proxy".to_owned());
                return shared.record(Attempt {
                    host: String::new(),
                    port: 0,
                    sent_bytes: 0,
                    received_bytes: 0,
                    verdict,
                });
            }
        },
    };
    let HostPort { host, port } = request.target.clone();
    let mut attempt = Attempt { host, port, sent_bytes: 0, received_bytes: 0, verdict: Verdict::Allowed };
    let connected = match fixed {
        Some(address) => dial(&[address]),
        None => connect(&shared.allowed, &request.target),
    };
    match connected {
        Ok(server) => (attempt.sent_bytes, attempt.received_bytes) = relay(shared, client, server, &request),
        Err(verdict) => {
            let status = if verdict.is_allowed() { "502 Bad Gateway" } else { "403 Forbidden" };
            if fixed.is_none() {
                let _ = client.write_all(answer(status, &request.target.to_string()).as_bytes());
            }
            attempt.verdict = verdict;
        }
    }
    shared.record(attempt);
}

impl Shared {
    fn record(&self, attempt: Attempt) {
        let mut attempts = lock(&self.attempts);
        if attempts.len() < ATTEMPTS_MAX {
            attempts.push(attempt);
        } else {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Remembers a stream so that stopping can hang it up.
    fn remember(&self, stream: &TcpStream) -> io::Result<u64> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        lock(&self.streams).push((number, stream.try_clone()?));
        if self.stopped.load(Ordering::SeqCst) {
            stream.shutdown(Shutdown::Both)?;
        }
        Ok(number)
    }
}

fn answer(status: &str, what: &str) -> String {
    let body = format!("norma: {what}: {status}\n");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Decides, resolves and connects.
fn connect(allowed: &[HostPort], target: &HostPort) -> Result<TcpStream, Verdict> {
    let listed = |it: &&HostPort| it.port == target.port && it.host.eq_ignore_ascii_case(&target.host);
    let entry = allowed.iter().find(listed).ok_or_else(|| Verdict::Refused("not on the list".to_owned()))?;
    let resolved = (entry.host.as_str(), entry.port).to_socket_addrs();
    let addresses: Vec<_> = resolved.map_err(|error| Verdict::Unreachable(error.to_string()))?.collect();
    if entry.loopback().is_none() && addresses.iter().any(|it| is_own(it.ip())) {
        return Err(Verdict::Refused("the name leads to this machine".to_owned()));
    }
    dial(&addresses)
}

/// Addresses that mean this machine or its nearest surroundings, such as a cloud's metadata.
fn is_own(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => it.is_loopback() || it.is_unspecified() || it.is_link_local() || it.is_broadcast(),
        IpAddr::V6(it) => it.is_loopback() || it.is_unspecified() || it.is_unicast_link_local(),
    }
}

fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, Verdict> {
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(Verdict::Unreachable(last))
}

/// Copies both ways until both sides have ended; bytes sent and received.
fn relay(shared: &Shared, mut client: TcpStream, server: TcpStream, request: &Request) -> (u64, u64) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    if request.tunnel && client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").is_err() {
        return (0, 0);
    }
    let remembered = [shared.remember(&client), shared.remember(&server)];
    let mut counts = (0, 0);
    // What could not be hung up by a stop must not be open.
    if remembered.iter().all(Result::is_ok) {
        counts = thread::scope(|scope| {
            let up = scope.spawn(|| request.first.len() as u64 + copy(&request.first, &client, &server));
            let received = copy(&[], &server, &client);
            (up.join().unwrap_or(0), received)
        });
    }
    let numbers: Vec<_> = remembered.into_iter().flatten().collect();
    lock(&shared.streams).retain(|(number, _)| !numbers.contains(number));
    counts
}

/// Copies until the source ends and passes the end on.
fn copy(first: &[u8], mut from: &TcpStream, mut to: &TcpStream) -> u64 {
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    let mut sound = to.write_all(first).is_ok();
    while sound {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                sound = to.write_all(&buffer[..count]).is_ok();
                copied += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => sound = false,
        }
    }
    // A side that broke takes the other with it; one that ended may still be answered.
    let _ = if sound {
        to.shutdown(Shutdown::Write)
    } else {
        from.shutdown(Shutdown::Both).and(to.shutdown(Shutdown::Both))
    };
    copied
}

/// What the program asked of the proxy.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    target: HostPort,
    /// What the other side gets first.
    first: Vec<u8>,
    /// Whether the program waits for a word before it speaks to the other side.
    tunnel: bool,
}

fn read_request(client: &mut TcpStream) -> Result<Request, String> {
    let bad = || answer("400 Bad Request", "the request");
    client.set_read_timeout(Some(HEAD_PATIENCE)).map_err(|_| bad())?;
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    let end = loop {
        if let Some(at) = head.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        match client.read(&mut chunk) {
            Ok(count) if count > 0 && head.len() < HEAD_BYTES_MAX => head.extend_from_slice(&chunk[..count]),
            _ => return Err(bad()),
        }
    };
    client.set_read_timeout(None).map_err(|_| bad())?;
    parse_request(&head[..end], &head[end..]).ok_or_else(bad)
}

/// Reads `CONNECT host:port` and `METHOD http://host[:port]/path`.
fn parse_request(head: &[u8], rest: &[u8]) -> Option<Request> {
    let head = str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    if method == "CONNECT" {
        return Some(Request { target: HostPort::parse(target)?, first: rest.to_vec(), tunnel: true });
    }
    let authority_and_path = target.strip_prefix("http://")?;
    let split = authority_and_path.find(['/', '?']).unwrap_or(authority_and_path.len());
    let (authority, path) = authority_and_path.split_at(split);
    let target = HostPort::parse(authority).or_else(|| HostPort::parse(&format!("{authority}:80")))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut first = format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
    for line in lines.filter(|line| !line.is_empty()) {
        let name = line.split(':').next()?.to_ascii_lowercase();
        // The first two are replaced above, the others are between the program and the proxy.
        if !["host", "connection", "keep-alive", "proxy-connection", "proxy-authorization"].contains(&name.as_str()) {
            first.push_str(line);
            first.push_str("\r\n");
        }
    }
    first.push_str("\r\n");
    let mut first = first.into_bytes();
    first.extend_from_slice(rest);
    Some(Request { target, first, tunnel: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Option<(&str, &str)>) {
        let parsed = parse_request(head.as_bytes(), b"body");
        let shown = parsed.map(|it| (it.target.to_string(), String::from_utf8_lossy(&it.first).into_owned()));
        assert_eq!(shown.as_ref().map(|(target, first)| (target.as_str(), first.as_str())), expected, "{head:?}");
    }

    #[test]
    fn a_request_names_one_target_and_is_rewritten_for_it() {
        check("CONNECT api.example.com:443 HTTP/1.1\r\nHost: other\r\n\r\n", Some(("api.example.com:443", "body")));
        check(
            "POST http://Example.com/a?b HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nX: y\r\n\r\n",
            Some((
                "example.com:80",
                "POST /a?b HTTP/1.1\r\nHost: Example.com\r\nConnection: close\r\nX: y\r\n\r\nbody",
            )),
        );
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://example.com/ HTTP/1.1\r\n\r\n",
            "CONNECT example.com HTTP/1.1\r\n\r\n",
            "CONNECT user@example.com:443 HTTP/1.1\r\n\r\n",
            "GET http://user@example.com/ HTTP/1.1\r\n\r\n",
            "CONNECT a:1 b HTTP/1.1\r\n\r\n",
            "CONNECT a:1 SPDY/3\r\n\r\n",
        ] {
            check(head, None);
        }
    }

    #[test]
    fn only_an_exact_match_is_connected() {
        let allowed = [HostPort { host: "example.com".to_owned(), port: 443 }];
        for text in ["evil-example.com:443", "www.example.com:443", "example.com:80", "127.0.0.1:443"] {
            let target = HostPort::parse(text).expect("a sound target");
            assert_eq!(
                connect(&allowed, &target).err(),
                Some(Verdict::Refused("not on the list".to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        for text in ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1"] {
            assert!(is_own(text.parse().expect("an address")), "{text}");
        }
        assert!(!is_own("93.184.216.34".parse().expect("an address")));
    }
}
