//! Who may ask: a pure decision over the head of a request, taken before anything of it is routed or read. It says what
//! the request relies on; whether that holds is for the sessions to say. No page of another origin gets past here,
//! and neither does a name that somebody's DNS points at this machine.

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

/// Longest path with its query.
const URI_BYTES_MAX: usize = 8 << 10;

/// The names under which the server may be asked for.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    hosts: Vec<String>,
    scheme: &'static str,
}

impl Own {
    /// A server on this machine's loopback addresses.
    pub(crate) fn loopback(port: u16) -> Own {
        let hosts = ["127.0.0.1", "[::1]", "localhost"].map(|name| format!("{name}:{port}"));
        Own { hosts: hosts.into(), scheme: "http" }
    }

    /// A server that others reach by these names, over TLS.
    pub(crate) fn listening(names: &[String], port: u16) -> Own {
        let mut own = Own::loopback(port);
        own.hosts.extend(names.iter().map(|name| format!("{name}:{port}")));
        own.hosts.extend(names.iter().filter(|_| port == 443).cloned());
        Own { scheme: "https", ..own }
    }

    /// Where pages may open WebSockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = String> {
        let scheme = if self.scheme == "https" { "wss" } else { "ws" };
        self.hosts.iter().map(move |host| format!("{scheme}://{host}"))
    }

    /// Whether this is one of the names, to the letter.
    fn knows(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }
}

/// What a request relies on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim<'r> {
    /// The server's token, or a user's.
    Bearer(&'r str),
    /// A session of a browser.
    Cookie(&'r str),
    /// A ticket in the query, which is good once.
    Ticket,
    /// That it comes from a process of the server's own user, and from no page.
    OwnUser,
    /// Nothing.
    Nothing,
}

/// Why a request is not looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

const fn refuse<T>(status: StatusCode, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, why })
}

/// What a request relies on, or why it is refused whoever sent it.
pub(crate) fn judge<'r>(
    method: &Method,
    uri: &Uri,
    headers: &'r HeaderMap,
    own: &Own,
    cookie: &str,
) -> Result<Claim<'r>, Refusal> {
    let host = only(headers, header::HOST);
    let named = uri.authority().map(|authority| authority.as_str());
    let Some(host) = host.filter(|host| own.knows(host) && named.is_none_or(|named| named == *host)) else {
        return refuse(StatusCode::MISDIRECTED_REQUEST, "this server is not asked for under that name");
    };
    if uri.path_and_query().is_some_and(|text| text.as_str().len() > URI_BYTES_MAX) {
        return refuse(StatusCode::URI_TOO_LONG, "the address is too long");
    }
    let origin = match headers.contains_key(header::ORIGIN) {
        false => None,
        true => match only(headers, header::ORIGIN) {
            Some(origin) if origin == format!("{}://{host}", own.scheme) => Some(origin),
            _ => return refuse(StatusCode::FORBIDDEN, "requests of pages of another origin are refused"),
        },
    };
    if headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return refuse(StatusCode::FORBIDDEN, "no page of another origin may ask");
    }
    let site = only(headers, "sec-fetch-site");
    let of_browser = headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"));
    if of_browser && !matches!(site, Some("same-origin" | "none")) {
        return refuse(StatusCode::FORBIDDEN, "requests of pages of another site are refused");
    }
    if let Some(bearer) = bearer(headers) {
        return Ok(Claim::Bearer(bearer));
    }
    if has_ticket(uri) {
        return Ok(Claim::Ticket);
    }
    if origin.is_none() && !of_browser {
        return Ok(Claim::OwnUser);
    }
    let Some(session) = session(headers, cookie) else { return Ok(Claim::Nothing) };
    if origin.is_none() && (!method.is_safe() || is_upgrade(headers)) {
        return refuse(StatusCode::FORBIDDEN, "a page that changes something says where it is from");
    }
    Ok(Claim::Cookie(session))
}

/// A header that is there exactly once.
fn only(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = only(headers, header::AUTHORIZATION)?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Only where a ticket opens something: elsewhere it is a word like any other.
fn has_ticket(uri: &Uri) -> bool {
    matches!(uri.path(), "/ws" | "/login") && query(uri).any(|(name, _)| name == "ticket")
}

/// The value of the server's cookie.
pub(crate) fn session<'r>(headers: &'r HeaderMap, name: &str) -> Option<&'r str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// The names and values of a query, decoded.
pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = (String, String)> {
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%');
        (rest, _) = match byte {
            Some(byte) => (&after[2..], bytes.push(byte)),
            None => (after, bytes.push(if *first == b'+' { b' ' } else { *first })),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn check(method: Method, uri: &str, given: &[(&str, &str)], expected: Result<Claim<'_>, u16>) {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let own = Own::loopback(3001);
        let found = judge(&method, &uri.parse().unwrap(), &headers, &own, "norma_x");
        assert_eq!(found.map_err(|refusal| refusal.status.as_u16()), expected, "{method} {uri} {given:?}");
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:3001");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:3001");
    const COOKIE: (&str, &str) = ("cookie", "other=1; norma_x=abc");

    #[test]
    fn the_host_is_one_of_the_servers_own_to_the_letter() {
        for host in ["127.0.0.1:3001", "localhost:3001", "[::1]:3001"] {
            check(Method::GET, "/", &[("host", host)], Ok(Claim::OwnUser));
        }
        for host in ["127.0.0.1", "127.0.0.1:3002", "evil.example:3001", "localhost:3001.evil.example", ""] {
            check(Method::GET, "/", &[("host", host)], Err(421));
        }
        check(Method::GET, "/", &[], Err(421));
        check(Method::GET, "/", &[HOST, HOST], Err(421));
        check(Method::GET, "http://evil.example/", &[HOST], Err(421));
    }

    #[test]
    fn no_other_origin_and_no_other_site_is_looked_at() {
        for origin in
            ["null", "http://evil.example", "https://127.0.0.1:3001", "http://localhost:3001", "http://127.0.0.1"]
        {
            for method in [Method::GET, Method::POST, Method::OPTIONS] {
                let bearer = ("authorization", "Bearer abc");
                check(method, "/api/runs", &[HOST, ("origin", origin), COOKIE, bearer], Err(403));
            }
        }
        for site in ["cross-site", "same-site", "x"] {
            check(Method::GET, "/", &[HOST, ("sec-fetch-site", site), COOKIE], Err(403));
        }
        check(Method::GET, "/", &[HOST, ("sec-fetch-mode", "navigate"), COOKIE], Err(403));
        check(Method::OPTIONS, "/", &[HOST, ORIGIN, ("access-control-request-method", "PUT")], Err(403));
    }

    #[test]
    fn a_session_of_a_browser_says_where_it_is_from_before_it_changes_anything() {
        let same = ("sec-fetch-site", "same-origin");
        check(Method::GET, "/api/runs", &[HOST, same, COOKIE], Ok(Claim::Cookie("abc")));
        check(Method::POST, "/api/runs", &[HOST, same, COOKIE], Err(403));
        check(Method::POST, "/api/runs", &[HOST, same, ORIGIN, COOKIE], Ok(Claim::Cookie("abc")));
        check(Method::GET, "/ws", &[HOST, same, COOKIE, ("upgrade", "websocket")], Err(403));
        check(Method::GET, "/ws", &[HOST, ORIGIN, COOKIE, ("upgrade", "websocket")], Ok(Claim::Cookie("abc")));
        check(Method::GET, "/ws", &[HOST, ORIGIN, ("upgrade", "websocket")], Ok(Claim::Nothing));
    }

    #[test]
    fn a_ticket_counts_only_where_one_opens_something() {
        check(Method::GET, "/ws?runId=1&ticket=t", &[HOST, ORIGIN], Ok(Claim::Ticket));
        check(Method::GET, "/login?ticket=t", &[HOST, ("sec-fetch-site", "none")], Ok(Claim::Ticket));
        check(Method::GET, "/api/runs?ticket=t", &[HOST, ORIGIN], Ok(Claim::Nothing));
    }

    #[test]
    fn an_address_that_is_too_long_is_refused() {
        check(Method::GET, &format!("/?{}", "a".repeat(URI_BYTES_MAX)), &[HOST], Err(414));
    }

    #[test]
    fn a_query_is_decoded() {
        let uri: Uri = "/ws?runId=a%2Db&x=%zz&y+z=1&&last".parse().unwrap();
        let pairs: Vec<_> = query(&uri).collect();
        let expected = [("runId", "a-b"), ("x", "%zz"), ("y z", "1"), ("last", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
