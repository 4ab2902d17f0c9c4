//! The socket between `run` and its supervisor: two messages for each program, and a hang-up.
//!
//! The supervisor finds one end as its standard input. `run` sends the first message, which carries
//! the program's three streams and what to run as descriptors, and only then does the
//! supervisor start the program. The supervisor sends the second, how the program ended. A hang-up in between means that
//! norma is gone; one after it, that there is no further program. The socket, not the supervisor's exit code, says how the program ended, because
//! an exit code cannot tell 137 from SIGKILL or a program that could not be started from one that
//! ended with 127. And it travels as standard input, not as a further inherited descriptor, because
//! making a descriptor inheritable would leak it to whatever another thread spawns at that moment.
//! The program itself never holds it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

/// Longest report in bytes: room for a path of the greatest length and an error message, and
/// small enough to fit the socket's buffer in every configuration, so that sending never waits.
const REPORT_BYTES_MAX: usize = 8 * 1024;

/// The one byte of the message that carries the descriptor; ancillary data needs a companion.
const START: &[u8] = b"s";

/// How the program ended, as the supervisor saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Exited(i32),
    Signaled(i32),
    NotStarted(String),
}

impl Report {
    fn encode(&self) -> String {
        match self {
            Self::Exited(code) => format!("exited {code}"),
            Self::Signaled(signal) => format!("signaled {signal}"),
            Self::NotStarted(why) => format!("not-started {why}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "exited" => rest.parse().ok().map(Self::Exited),
            "signaled" => rest.parse().ok().map(Self::Signaled),
            "not-started" => Some(Self::NotStarted(rest.to_owned())),
            _ => None,
        }
    }
}

/// Both ends, closed on exec. Packets keep their bounds, which a stream does not, and the socket
/// reports a hang-up, which a datagram socket does not.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// What the supervisor is given for one program: its streams, and what to run.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) spec: OwnedFd,
}

/// How many descriptors that is.
const DESCRIPTORS: usize = 4;

/// Lets the supervisor start a program.
pub(super) fn send_start(control: BorrowedFd<'_>, start: &Start) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [start.stdin.as_fd(), start.stdout.as_fd(), start.stderr.as_fd(), start.spec.as_fd()];
    let fits = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    assert!(fits, "BUG: the buffer is made for these descriptors");
    let payload = [IoSlice::new(START)];
    retry_on_intr(|| rustix::net::sendmsg(control, &payload, &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Waits for the next program; `None` when norma hung up instead.
pub(super) fn receive_start(control: BorrowedFd<'_>) -> io::Result<Option<Start>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut payload = [0; START.len()];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut payload)];
        rustix::net::recvmsg(control, &mut parts, &mut ancillary, flags)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut given) = message
            && let (Some(stdin), Some(stdout), Some(stderr), Some(spec)) =
                (given.next(), given.next(), given.next(), given.next())
        {
            return Ok(Some(Start { stdin, stdout, stderr, spec }));
        }
    }
    Err(io::Error::other("the start message carries no streams and no command"))
}

/// Tells norma how the program ended; norma may be gone, which changes nothing for the sender.
pub(super) fn send_report(control: BorrowedFd<'_>, report: &Report) {
    let text = report.encode();
    let bytes = &text.as_bytes()[..text.len().min(REPORT_BYTES_MAX)];
    let _ = retry_on_intr(|| rustix::net::send(control, bytes, SendFlags::NOSIGNAL));
}

/// Reads the report without waiting; `None` when the supervisor ended without one.
pub(super) fn receive_report(control: BorrowedFd<'_>) -> io::Result<Option<Report>> {
    let mut buffer = [0; REPORT_BYTES_MAX];
    let received = retry_on_intr(|| rustix::net::recv(control, &mut buffer, RecvFlags::DONTWAIT));
    match received {
        Ok((count, _)) => Ok(Report::decode(&String::from_utf8_lossy(&buffer[..count]))),
        // A supervisor that died with the start message unread resets the connection.
        Err(Errno::AGAIN | Errno::CONNRESET) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_as_it_was_sent() {
        for report in
            [Report::Exited(7), Report::Signaled(9), Report::NotStarted("could not run /a b: no such file".to_owned())]
        {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }

    #[test]
    fn anything_else_is_no_report() {
        for text in ["", "exited", "exited x", "ended 3"] {
            assert_eq!(Report::decode(text), None, "{text:?}");
        }
    }
}
