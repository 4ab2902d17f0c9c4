//! Whose process is at the other end of a connection from this machine: the kernel lists every TCP socket with the user
//! it belongs to. Read when somebody relies on it, once for each connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

/// The state of an open connection in the kernel's list.
const ESTABLISHED: &str = "01";

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
        let lists = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        lists.iter().find_map(|list| user_of(list, self.there, self.here))
    }
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
        let peer = Peer::new(there, accepted.local_addr().unwrap());
        assert!(peer.is_own_user());
        drop(client);
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
