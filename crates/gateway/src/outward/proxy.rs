//! A company's proxy on the way to the provider: it is asked for a tunnel (`CONNECT`), and the TLS session is with the provider
//! through it, so that it learns the provider's name and nothing else.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding as _};

use crate::upstream::{Endpoint, UpstreamProblem};

/// Longest answer of a proxy.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A proxy.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) endpoint: Endpoint,
    /// As the header has it. It never leaves this module but to the proxy.
    authorization: Option<Secret>,
}

#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Proxy {
    /// Reads `http://[user:password@]host[:port]`; a proxy that wants TLS itself is not understood.
    pub(crate) fn of(url: &str) -> Result<Proxy, UpstreamProblem> {
        let problem = |why| Err(UpstreamProblem::Proxy(why));
        if url.starts_with("https://") || url.starts_with("socks") {
            return problem("is not spoken to in plain HTTP, which is all that is understood");
        }
        let rest = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let Ok(endpoint) = Endpoint::of(&format!("http://{host}")) else {
            return problem("names no host that is understood");
        };
        let authorization =
            user.map(|user| Secret(format!("Basic {}", Base64::encode_string(unescaped(user).as_bytes()))));
        Ok(Proxy { endpoint, authorization })
    }

    /// Has the proxy connect to a host.
    pub(crate) fn tunnel(&self, socket: &TcpStream, to: &Endpoint, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        socket.set_write_timeout(Some(left))?;
        let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
        let (authority, mut request) = (format!("{host}:{}", to.port), String::new());
        request.push_str(&format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n"));
        if let Some(Secret(authorization)) = &self.authorization {
            request.push_str(&format!("proxy-authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        let mut stream = socket;
        stream.write_all(request.as_bytes())?;
        let head = read_head(stream)?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        match status {
            "200" => Ok(()),
            status => Err(io::Error::other(format!("the proxy answered with status {status:.3}"))),
        }
    }
}

/// Byte by byte: what follows the head is the provider's.
fn read_head(mut stream: &TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX || stream.read(&mut byte)? == 0 {
            return Err(io::Error::other("the proxy did not answer as one"));
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => plain.push_str(&format!("{}{}", char::from(byte), &part[2..])),
            None => plain.push_str(&format!("%{part}")),
        }
    }
    plain
}

/// Whether a host is reached without the proxy, by a list as `NO_PROXY` has it: names, with what ends in them, or `*`.
pub(crate) fn is_exempt(host: &str, no_proxy: &str) -> bool {
    let host = host.to_ascii_lowercase();
    no_proxy.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).any(|name| {
        let name = name.split_once(':').map_or(name.as_str(), |(name, _)| name);
        let name = name.trim_start_matches("*.").trim_start_matches('.');
        name == "*" || host == name || host.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_shows_no_password() {
        let proxy = Proxy::of("http://me:p%40ss@proxy.example:3128/").unwrap();
        assert_eq!((proxy.endpoint.host.as_str(), proxy.endpoint.port), ("proxy.example", 3128));
        assert_eq!(proxy.authorization.as_ref().unwrap().0, "Basic bWU6cEBzcw==");
        assert!(!format!("{proxy:?}").contains("bWU6"));
        assert_eq!(Proxy::of("proxy.example:3128").unwrap().endpoint.port, 3128);
        for wrong in ["https://proxy.example", "socks5://proxy.example", "http://", "http://a b"] {
            assert!(Proxy::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn some_hosts_are_reached_without_it() {
        for (host, list, exempt) in [
            ("api.openai.com", "localhost, .openai.com", true),
            ("api.openai.com", "openai.com:443", true),
            ("notopenai.com", "openai.com", false),
            ("api.openai.com", "*", true),
            ("api.openai.com", "", false),
        ] {
            assert_eq!(is_exempt(host, list), exempt, "{host} {list}");
        }
    }
}
