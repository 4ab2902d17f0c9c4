//! What a program tries to reach without the proxy: nothing answers there, and that it was tried is on record.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::process;
use crate::policy::Policy;
use crate::proxy::{Attempt, PROXY_PORT, Verdict};

/// Targets kept; later ones are only counted.
const TARGETS_MAX: usize = 1000;

/// The longest address that means anything here.
const ADDRESS_BYTES_MAX: u64 = 28;

/// Where the targets of both families have their port and address.
const PORT: std::ops::Range<usize> = 2..4;
const V4: std::ops::Range<usize> = 4..8;
const V6: std::ops::Range<usize> = 8..24;

/// What was tried, each once.
#[derive(Default)]
pub(crate) struct Reached {
    targets: BTreeSet<SocketAddr>,
    dropped: u64,
}

impl Reached {
    pub(super) fn add(&mut self, target: SocketAddr) {
        match self.targets.len() < TARGETS_MAX {
            true => drop(self.targets.insert(target)),
            false => self.dropped += u64::from(!self.targets.contains(&target)),
        }
    }

    /// As attempts that were refused, and how many are not among them.
    pub(crate) fn refused(self) -> (Vec<Attempt>, u64) {
        let refused = |target: &SocketAddr| Attempt {
            host: target.ip().to_string(),
            port: target.port(),
            sent_bytes: 0,
            received_bytes: 0,
            verdict: Verdict::Refused("nothing outside of the sandbox can be reached directly".to_owned()),
        };
        (self.targets.iter().map(refused).collect(), self.dropped)
    }
}

/// Ports of the sandbox's own loopback at which the caller answers.
pub(super) struct Inside(Vec<u16>);

pub(super) fn inside(policy: &Policy) -> Inside {
    let listed = policy.network.allowed().iter();
    let loopback = listed.filter(|entry| entry.loopback().is_some()).map(|entry| entry.port);
    Inside(policy.door.into_iter().chain([PROXY_PORT]).chain(loopback).collect())
}

impl Inside {
    /// Whether a target is inside: the caller, or a service of the program's own.
    pub(super) fn has(&self, target: SocketAddr, thread: u32) -> bool {
        target.ip().is_loopback() && (self.0.contains(&target.port()) || is_served(target.port(), thread))
    }
}

/// Whether something listens at a port, in the network of this process.
fn is_served(port: u16, thread: u32) -> bool {
    let serves = |(name, state): (&str, &str)| {
        let table = fs::read_to_string(format!("/proc/{thread}/net/{name}")).unwrap_or_default();
        let line = |line: &str| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let local = fields.next()?.rsplit_once(':').map(|(_, port)| u16::from_str_radix(port, 16));
            Some(local == Some(Ok(port)) && fields.nth(1) == Some(state))
        };
        table.lines().skip(1).any(|it| line(it) == Some(true))
    };
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")].into_iter().any(serves)
}

/// The address that a call names, if it is one of the internet's. Port 0 is how a library asks the kernel for a route.
pub(super) fn target(thread: u32, address: u64, length: u64) -> Option<SocketAddr> {
    let bytes = process::bytes(thread, address, length.min(ADDRESS_BYTES_MAX) as usize)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(PORT)?.try_into().ok()?);
    let ip = match family {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(bytes.get(V4)?).ok()?),
        libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(bytes.get(V6)?).ok()?).to_canonical(),
        _ => return None,
    };
    // The unspecified address is this machine.
    let ip = match ip {
        IpAddr::V4(it) if it.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(it) if it.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    };
    (port != 0).then(|| SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let v4 = [2, 0, 0, 53, 8, 8, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(parse(&v4), "8.8.4.4:53".parse().ok());
        let mut v6 = [0; 28];
        (v6[0], v6[2], v6[3], v6[23]) = (10, 1, 187, 1);
        assert_eq!(parse(&v6), "[::1]:443".parse().ok());
        (v6[18], v6[19]) = (0xff, 0xff);
        assert_eq!(parse(&v6), "0.0.0.1:443".parse().ok());
        assert_eq!(parse(&[2, 0, 0, 0, 8, 8, 4, 4]), None);
        assert_eq!(parse(&[1, 0, 47, 116]), None);
        assert_eq!(parse(&[2]), None);
    }

    #[test]
    fn a_target_is_kept_once() {
        let mut reached = Reached::default();
        for _ in 0..3 {
            reached.add("8.8.8.8:53".parse().expect("an address"));
        }
        let (refused, dropped) = reached.refused();
        assert_eq!((refused.len(), refused[0].host.as_str(), refused[0].port, dropped), (1, "8.8.8.8", 53, 0));
    }
}
