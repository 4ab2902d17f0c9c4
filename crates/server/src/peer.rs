//! Whose process is at the other end of a connection from this machine: the kernel knows which user every TCP socket
//! belongs to. Asked when somebody relies on it, once for each connection.
//!
//! Its list of all sockets tells it, too, but to write that takes the kernel milliseconds however few there are, since it
//! walks through a table that is sized by the memory of the machine. So it is asked for the one socket, and the list is
//! read only where that cannot be done.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

/// The state of an open connection in the kernel's list, and as a number.
const ESTABLISHED: &str = "01";
const ESTABLISHED_STATE: u8 = 1;

/// Which question it is, by the kernel's numbers: a socket of a family, as a request.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
/// Lengths of what a message begins with, of what is asked, and of what names a socket in both directions.
const HEAD_BYTES: usize = 16;
const ASKED_BYTES: usize = 56;
const NAME_BYTES: usize = 48;
/// Where the name, the user and the inode are in the answer, after its head.
const NAME_AT: usize = 4;
const USER_AT: usize = NAME_AT + NAME_BYTES + 12;
const INODE_AT: usize = USER_AT + 4;
/// How much of a name are ports and addresses; what follows is not asked about.
const PORTS_AND_ADDRESSES: usize = 36;

/// One end of a connection to the server, and the server's own.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) there: SocketAddr,
    here: SocketAddr,
    is_own: OnceLock<bool>,
}

impl Peer {
    pub(crate) fn new(there: SocketAddr, here: SocketAddr) -> Peer {
        Peer { there, here, is_own: OnceLock::new() }
    }

    /// Whether the other end is a process of the server's own user, on this machine. What cannot be told is not.
    pub(crate) fn is_own_user(&self) -> bool {
        *self.is_own.get_or_init(|| {
            let own = rustix::process::geteuid().as_raw();
            self.there.ip().is_loopback() && self.user() == Some(own)
        })
    }

    fn user(&self) -> Option<u32> {
        asked(self.there, self.here).or_else(|| {
            let mut lists = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
            lists.find_map(|path| user_of(&std::fs::read_to_string(path).ok()?, self.there, self.here))
        })
    }
}

/// The user whose open socket goes from one address to the other, by asking the kernel for it.
fn asked(from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let name = name(from, to);
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut question = Vec::with_capacity(HEAD_BYTES + ASKED_BYTES);
    question.extend(((HEAD_BYTES + ASKED_BYTES) as u32).to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(NLM_F_REQUEST.to_ne_bytes());
    // A number of the question and of who asks, which nobody needs.
    question.extend([0; 8]);
    // In every state: which one it is in is looked at below.
    question.extend([family.as_raw() as u8, IPPROTO_TCP, 0, 0]);
    question.extend([0xff; 4]);
    question.extend(&name);
    let kind = SocketType::DGRAM;
    let socket = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG)).ok()?;
    send(&socket, &question, SendFlags::empty()).ok()?;
    let mut answer = [0_u8; 1024];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT).ok()?;
    told(answer.get(..length)?, &name)
}

/// A connection as the kernel names it: ports, addresses, any interface, any cookie.
fn name(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let address = |of: SocketAddr| match of.ip() {
        IpAddr::V4(ip) => [ip.octets().as_slice(), &[0; 12]].concat(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let ports = [from.port(), to.port()].map(u16::to_be_bytes).concat();
    [ports, address(from), address(to), vec![0; 4], vec![0xff; 8]].concat()
}

/// The user that an answer tells, if it is about that very connection, which is open.
fn told(answer: &[u8], name: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let told = answer.get(HEAD_BYTES..)?;
    let number = |at: usize| Some(u32::from_ne_bytes(told.get(at..at + 4)?.try_into().ok()?));
    let is_it = kind == SOCK_DIAG_BY_FAMILY
        && told.get(1) == Some(&ESTABLISHED_STATE)
        && told.get(NAME_AT..NAME_AT + PORTS_AND_ADDRESSES)? == &name[..PORTS_AND_ADDRESSES]
        && number(INODE_AT)? != 0;
    is_it.then(|| number(USER_AT))?
}

/// The user whose open socket goes from one address to the other, by the kernel's list.
fn user_of(list: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    list.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
        let (user, inode) = (words.nth(3)?, words.nth(1)?);
        let is_it =
            state == ESTABLISHED && inode != "0" && address(local)? == plain(from) && address(remote)? == plain(to);
        is_it.then(|| user.parse().ok())?
    })
}

/// An address as the kernel spells it: words of four bytes in the machine's order, and the port.
fn address(text: &str) -> Option<(Ipv6Addr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => std::net::Ipv4Addr::from(word(0)?).to_ipv6_mapped(),
        32 => {
            let bytes: Vec<u8> = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

/// An address whichever family its socket is of.
fn plain(address: SocketAddr) -> (Ipv6Addr, u16) {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    (ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_of_ones_own_is_known_by_the_kernels_list() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, there) = listener.accept().unwrap();
        let here = accepted.local_addr().unwrap();
        assert!(Peer::new(there, here).is_own_user());
        let own = rustix::process::geteuid().as_raw();
        // Where it cannot be asked for a socket, the list says the same.
        assert!(asked(there, here).is_none_or(|user| user == own));
        let list = std::fs::read_to_string("/proc/net/tcp").unwrap();
        assert_eq!(user_of(&list, there, here), Some(own));
        drop(client);
    }

    #[test]
    fn who_has_left_or_listens_only_is_not_at_the_other_end() {
        let (listener, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (here, there) = (listener.local_addr().unwrap(), other.local_addr().unwrap());
        assert_eq!(asked(there, here), None, "it would be found by the port that it listens on");
        assert!(!Peer::new(there, here).is_own_user());
        let client = TcpStream::connect(here).unwrap();
        let (accepted, there) = listener.accept().unwrap();
        let peer = Peer::new(there, accepted.local_addr().unwrap());
        drop(client);
        assert!(!peer.is_own_user());
    }

    #[test]
    fn an_answer_counts_only_for_the_connection_that_was_asked_about() {
        let (from, to) = ("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:3001".parse().unwrap());
        let answer = |kind: u16, state: u8, name: &[u8], inode: u32| {
            let head = [vec![0; 4], kind.to_ne_bytes().to_vec(), vec![0; 10]].concat();
            let numbers = [0_u32, 0, 0, 1000, inode].map(u32::to_ne_bytes).concat();
            [head, vec![2, state, 0, 0], name.to_vec(), numbers].concat()
        };
        let name = name(from, to);
        assert_eq!(name.len(), NAME_BYTES);
        assert_eq!(told(&answer(20, 1, &name, 7), &name), Some(1000));
        for wrong in [
            answer(2, 1, &name, 7),
            answer(20, 10, &name, 7),
            answer(20, 1, &super::name(to, from), 7),
            answer(20, 1, &name, 0),
            answer(20, 1, &name, 7)[..60].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(told(&wrong, &name), None);
        }
    }

    #[test]
    fn the_list_is_read_by_both_ends_and_only_open_sockets_count() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 0100007F:0BB9 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n\
            1: 0100007F:1F91 0100007F:0BB9 06 00000000:00000000 00:00000000 00000000     0        0 0 1\n";
        let (to, from) = ("127.0.0.1:3001".parse().unwrap(), |port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(user_of(list, from(8080), to), Some(1000));
        assert_eq!(user_of(list, from(8081), to), None);
        assert_eq!(user_of(list, to, from(8080)), None);
        let mapped = "sl\n 0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:0BB9 01 0:0 0:0 0 7 0 9 1\n";
        assert_eq!(user_of(mapped, from(8080), to), Some(7));
    }

    #[test]
    fn who_is_not_on_this_machine_is_never_the_own_user() {
        let far = Peer::new("192.0.2.1:5".parse().unwrap(), "192.0.2.2:6".parse().unwrap());
        assert!(!far.is_own_user());
    }
}
