//! A connection to the provider, plain or with TLS. While it waits it also watches the program inside: nobody pays
//! for an answer that nobody reads.
//!
//! Its errors say who ended it: `TimedOut` that the provider was silent, `ConnectionAborted` that the program hung
//! up, anything else that the connection failed.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// Who waits for the answer. Once nobody does, the connection is given up.
#[derive(Clone)]
pub(crate) enum Waiting {
    /// A program inside, until it hangs up.
    Program(Arc<TcpStream>),
    /// norma itself, until this becomes readable.
    Norma(Arc<OwnedFd>),
}

impl Waiting {
    fn watched(&self) -> PollFd<'_> {
        match self {
            Waiting::Program(socket) => PollFd::new(&**socket, PollFlags::RDHUP),
            Waiting::Norma(stop) => PollFd::new(&**stop, PollFlags::IN),
        }
    }

    /// Whether nobody waits any more within a while.
    pub(crate) fn ends_within(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut watched = [self.watched()];
            match poll(&mut watched, Timespec::try_from(left).ok().as_ref()) {
                Ok(ready) if ready > 0 => return true,
                Err(rustix::io::Errno::INTR) if !left.is_zero() => {}
                _ if left.is_zero() => return false,
                _ => {}
            }
        }
    }
}

/// A connection to the provider.
pub(crate) struct Wire {
    socket: Arc<TcpStream>,
    tls: Option<Box<ClientConnection>>,
    waiting: Waiting,
    /// How long one read or write may wait.
    pub(crate) patience: Duration,
}

impl Wire {
    /// A plain connection, or one that speaks TLS after a handshake that has until the deadline.
    pub(crate) fn new(
        socket: Arc<TcpStream>,
        waiting: Waiting,
        tls: Option<(&Arc<ClientConfig>, &str)>,
        deadline: Instant,
    ) -> io::Result<Wire> {
        // Waiting is done by `wait`, which can watch two connections.
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let mut wire = Wire { socket, tls: None, waiting, patience: Duration::ZERO };
        if let Some((config, host)) = tls {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
            wire.tls = Some(Box::new(connection));
            wire.shake_hands(deadline)?;
        }
        Ok(wire)
    }

    fn shake_hands(&mut self, deadline: Instant) -> io::Result<()> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            let Some(tls) = self.tls.as_mut() else { break };
            match tls.complete_io(&mut &*self.socket) {
                Ok((0, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => self.wait(deadline, false)?,
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }

    /// Waits until the connection can continue.
    fn wait(&self, deadline: Instant, writing: bool) -> io::Result<()> {
        let writes = self.tls.as_ref().map_or(writing, |tls| tls.wants_write());
        let ready = if writes { PollFlags::OUT } else { PollFlags::IN };
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut watched = [PollFd::new(&*self.socket, ready), self.waiting.watched()];
        match poll(&mut watched, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(problem) => Err(problem.into()),
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) if !watched[1].revents().is_empty() => Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(_) => Ok(()),
        }
    }

    fn patiently(&mut self, writing: bool, mut work: impl FnMut(&mut Wire) -> io::Result<usize>) -> io::Result<usize> {
        let deadline = Instant::now() + self.patience;
        loop {
            match work(self) {
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => self.wait(deadline, writing)?,
                other => return other,
            }
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(false, |wire| match wire.tls.as_mut() {
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut &*wire.socket).read(buffer),
            None => (&*wire.socket).read(buffer),
        })
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(true, |wire| match wire.tls.as_mut() {
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut &*wire.socket).write(bytes),
            None => (&*wire.socket).write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.patiently(true, |wire| match wire.tls.as_mut() {
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut &*wire.socket).flush().map(|()| 0),
            None => Ok(0),
        });
        flushed.map(|_| ())
    }
}

/// Whether the program inside has hung up. One that only says it will send no more counts as gone too: none of the
/// agents' programs does that and then waits.
pub(crate) fn has_hung_up(client: &Arc<TcpStream>) -> bool {
    hangs_up_within(client, Duration::ZERO)
}

/// The same, waiting for it for a while.
pub(crate) fn hangs_up_within(client: &Arc<TcpStream>, pause: Duration) -> bool {
    Waiting::Program(client.clone()).ends_within(pause)
}
