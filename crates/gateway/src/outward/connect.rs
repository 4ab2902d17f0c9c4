//! Finding the provider and connecting to it. Neither can be interrupted, so a thread of its own does it and is left
//! behind when nobody waits any more; it ends by itself.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::upstream::Endpoint;

/// How often the one who waits looks whether that is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Connects before the deadline, unless it is not wanted any more.
pub(crate) fn connect(endpoint: &Endpoint, deadline: Instant, wanted: impl Fn() -> bool) -> io::Result<TcpStream> {
    let (sender, receiver) = mpsc::channel();
    let (host, port) = (endpoint.host.clone(), endpoint.port);
    thread::Builder::new().name("gateway-connect".to_owned()).spawn(move || {
        // If nobody waits any more, the connection is closed here.
        let _ = sender.send(try_each(&host, port, deadline));
    })?;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the thread that connects ended")),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Timeout) if !wanted() => return Err(io::ErrorKind::ConnectionAborted.into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn try_each(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last: io::Error = io::ErrorKind::NotFound.into();
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => return Ok(socket),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}
