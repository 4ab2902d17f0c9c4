//! The socket between the caller and a set-up process: a few messages and a hang-up.
//!
//! The set-up server finds one socket as its standard input, and gets over it the jobs: each a
//! document, the program's standard streams, and a socket for the process that it forks for it. On
//! that one, the set-up process answers with
//! what it has built, read back from inside, and waits for the word to start; later it says how the
//! program ended. A hang-up in between means: kill everything. So the caller's death, its wish to
//! kill and its change of mind are one case. The confined program itself never holds the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

use crate::effective::Effective;
use crate::policy::Policy;
use crate::report::{End, Exhausted, Usage};

/// Longest message in bytes. The largest is the list of mounts: a hundred bytes for each root, and
/// a policy has hundreds at most. It must also fit a socket's default buffer of 208 KiB.
const MESSAGE_BYTES_MAX: usize = 128 * 1024;

/// Most descriptors in one message: the kernel's own limit is 253. Bounds the listeners of one
/// sandbox, of which each allowed loopback address takes one.
pub(crate) const DESCRIPTORS_MAX: usize = 64;

/// The word to start the program.
const GO: &[u8] = b"go";

/// What the set-up process is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) policy: Policy,
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
}

/// What the set-up process says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Sockets that listen inside, handed over with the message, in the order of the addresses.
    Listening(Vec<String>),
    /// The directories that hold what is changed in each overlay, handed over with the message.
    Layers,
    /// Where the kernel calls of the program are heard, handed over with the message.
    Listener,
    /// The confinement stands; the program waits for the word.
    Ready(Box<Effective>),
    /// The confinement could not be built.
    BootFailure(String),
    /// The program could not be executed.
    NotStarted(String),
    /// The program ended, and which limits it had reached.
    Ended(End, Vec<Exhausted>),
    /// What the whole tree used, and which limits the kernel says it had reached; the last message.
    Used(Usage, Vec<Exhausted>),
}

/// Both ends, closed on exec. Packets keep their bounds, and the socket reports a hang-up.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends bytes and descriptors as one packet.
fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "BUG: more descriptors than a message takes");
    }
    let payload = [IoSlice::new(bytes)];
    retry_on_intr(|| rustix::net::sendmsg(socket, &payload, &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives one packet into `buffer`: its length, 0 for a hang-up, and its descriptors.
fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

/// What a set-up process is given: the job's document, the three streams, and its control socket.
pub(crate) type Request = [OwnedFd; 5];

/// Asks the set-up server for a process that does this job and listens to this socket. The job goes
/// as a descriptor, since it may be of any length.
pub(crate) fn send_request(
    server: BorrowedFd<'_>,
    job: &Job,
    [stdin, stdout, stderr]: [BorrowedFd<'_>; 3],
    control: BorrowedFd<'_>,
) -> io::Result<()> {
    let document = rustix::fs::memfd_create("norma-sandbox-job", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(document);
    io::Write::write_all(&mut file, &serde_json::to_vec(job)?)?;
    io::Seek::rewind(&mut file)?;
    send(server, b"job", &[file.as_fd(), stdin, stdout, stderr, control])
}

/// Waits for a request; `None` when the caller hung up.
pub(crate) fn receive_request(server: BorrowedFd<'_>) -> io::Result<Option<Request>> {
    let (count, descriptors) = receive(server, &mut [0; 8], RecvFlags::empty())?;
    if count == 0 {
        return Ok(None);
    }
    let incomplete = |_| io::Error::other("the request does not come with its descriptors");
    Request::try_from(descriptors).map(Some).map_err(incomplete)
}

/// Reads the job out of its document.
pub(crate) fn read_job(document: OwnedFd) -> io::Result<Job> {
    let mut text = Vec::new();
    io::Read::read_to_end(&mut std::fs::File::from(document), &mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Answers a request with the process: its id, and a descriptor that cannot mean another.
pub(crate) fn send_process(server: BorrowedFd<'_>, pid: i32, pidfd: BorrowedFd<'_>) -> io::Result<()> {
    send(server, &pid.to_ne_bytes(), &[pidfd])
}

/// The answer to a request, which must have arrived.
pub(crate) fn receive_process(server: BorrowedFd<'_>) -> io::Result<(i32, OwnedFd)> {
    let mut bytes = [0; 4];
    let (count, descriptors) = receive(server, &mut bytes, RecvFlags::DONTWAIT)?;
    match descriptors.into_iter().next() {
        Some(pidfd) if count == bytes.len() => Ok((i32::from_ne_bytes(bytes), pidfd)),
        _ => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
    }
}

/// Tells the caller something.
pub(crate) fn tell(socket: BorrowedFd<'_>, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send(socket, &serde_json::to_vec(message)?, descriptors)
}

/// The next message with its descriptors, without waiting; `None` when there is none.
pub(crate) fn hear(socket: BorrowedFd<'_>) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    match receive(socket, &mut buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Ok(None),
        Ok((count, descriptors)) => Ok(Some((serde_json::from_slice(&buffer[..count])?, descriptors))),
        // A peer that died with a message unread resets the connection.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionReset) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets the program start.
pub(crate) fn send_go(socket: BorrowedFd<'_>) -> io::Result<()> {
    send(socket, GO, &[])
}

/// Waits for the word to start; false when the caller hung up instead.
pub(crate) fn wait_for_go(socket: BorrowedFd<'_>) -> bool {
    let mut buffer = [0; GO.len()];
    matches!(receive(socket, &mut buffer, RecvFlags::empty()), Ok((count, _)) if buffer[..count] == *GO)
}
