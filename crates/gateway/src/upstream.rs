//! Where calls go: a provider's address, fixed when the gateway starts. Nothing a program sends changes it.

use std::sync::Arc;

use rustls::ClientConfig;

use crate::api::Api;
use crate::key::Key;
use crate::outward::proxy::is_exempt;
use crate::outward::{Proxy, tls};

/// A provider.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// What it speaks.
    pub api: Api,
    /// `https://host[:port][/path]`, or `http://` for an endpoint of one's own. The program is given the
    /// gateway's own address in its place, since the path that it asks for is put behind this one.
    pub base_url: String,
    /// What opens it.
    pub key: Key,
    /// Certificates in PEM form that are trusted besides the public ones: those of an endpoint of one's own, or of a
    /// company's proxy that reads TLS.
    pub extra_roots_pem: Option<String>,
    /// `http://[user:password@]host[:port]`: a proxy that is asked for a tunnel to the provider, with TLS inside of it.
    pub proxy: Option<String>,
    /// Hosts that are reached without it, as `NO_PROXY` lists them.
    pub no_proxy: Option<String>,
}

/// Why an upstream cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamProblem {
    /// The address is not in the form that is understood. It may hold a secret, so it is not repeated.
    #[error("the base URL {0}")]
    BaseUrl(&'static str),
    /// The proxy's address is not in the form that is understood. It may hold a password, so it is not repeated.
    #[error("the proxy {0}")]
    Proxy(&'static str),
    /// The extra certificates cannot be read.
    #[error("the extra root certificates cannot be read: {0}")]
    Roots(String),
}

/// A base URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As the `host` header names it.
    pub(crate) authority: String,
    /// Before every path; empty or beginning with `/`, never ending with it.
    pub(crate) path: String,
    /// Whether TLS is spoken.
    pub(crate) is_tls: bool,
}

/// An upstream that was found usable.
pub(crate) struct Provider {
    pub(crate) api: Api,
    pub(crate) key: Key,
    pub(crate) endpoint: Endpoint,
    /// Shared by all connections, so that a later handshake can be short.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) proxy: Option<Proxy>,
}

impl Provider {
    pub(crate) fn new(upstream: Upstream) -> Result<Provider, UpstreamProblem> {
        let endpoint = Endpoint::of(&upstream.base_url)?;
        let config = tls::config(upstream.extra_roots_pem.as_deref())?;
        let tls = endpoint.is_tls.then_some(config);
        // An endpoint of one's own without TLS is near, and a proxy could read the key on its way.
        let no_proxy = upstream.no_proxy.unwrap_or_default();
        let proxied = endpoint.is_tls && !is_exempt(&endpoint.host, &no_proxy);
        let proxy = upstream.proxy.filter(|_| proxied).map(|url| Proxy::of(&url)).transpose()?;
        Ok(Provider { api: upstream.api, key: upstream.key, endpoint, tls, proxy })
    }
}

impl Endpoint {
    pub(crate) fn of(base_url: &str) -> Result<Endpoint, UpstreamProblem> {
        let (is_tls, rest) = match (base_url.strip_prefix("https://"), base_url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(UpstreamProblem::BaseUrl("does not begin with https:// or http://")),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = host_and_port(authority, if is_tls { 443 } else { 80 })
            .ok_or(UpstreamProblem::BaseUrl("names no host that is understood"))?;
        let path = path.trim_end_matches('/');
        if !path.split('/').skip(1).all(is_segment) {
            return Err(UpstreamProblem::BaseUrl("has a path that is not plain"));
        }
        Ok(Endpoint { host, port, authority: authority.to_owned(), path: path.to_owned(), is_tls })
    }
}

fn host_and_port(authority: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']').filter(|(host, _)| host.parse::<std::net::Ipv6Addr>().is_ok())?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let named = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if host.is_empty() || !(authority.starts_with('[') || host.chars().all(named)) {
        return None;
    }
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
        None if port.is_empty() => default_port,
        None => return None,
    };
    Some((host.to_owned(), port))
}

fn is_segment(segment: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    !matches!(segment, "" | "." | "..") && segment.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_addresses_apart() {
        for (url, host, port, path, is_tls) in [
            ("https://api.openai.com/v1", "api.openai.com", 443, "/v1", true),
            ("https://api.anthropic.com/", "api.anthropic.com", 443, "", true),
            ("http://127.0.0.1:8080/a/b/", "127.0.0.1", 8080, "/a/b", false),
            ("http://[::1]:8080", "::1", 8080, "", false),
            ("http://[::1]", "::1", 80, "", false),
        ] {
            let endpoint = Endpoint::of(url).unwrap();
            let seen = (endpoint.host.as_str(), endpoint.port, endpoint.path.as_str(), endpoint.is_tls);
            assert_eq!(seen, (host, port, path, is_tls), "{url}");
        }
    }

    #[test]
    fn refuses_other_addresses_without_repeating_them() {
        for url in [
            "",
            "ftp://host",
            "https://",
            "https:///v1",
            "https://user:hunter2@host",
            "https://host:x",
            "https://host:",
            "https://host:1:2",
            "https://host/a/../b",
            "https://host/a//b",
            "https://host/a?key=hunter2",
            "https://host#hunter2",
            "https://ho st",
            "https://[hunter2]",
        ] {
            let problem = Endpoint::of(url).unwrap_err().to_string();
            assert!(!problem.contains("hunter2"), "{url}: {problem}");
        }
    }
}
