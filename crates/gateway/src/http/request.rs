//! Requests of the program inside: read, then checked before anything is made of them.

use std::io::Read;

use crate::http::head::{HEADERS_MAX, NoHead, read_head};
use crate::http::{Framing, Headers, Input};
use crate::refusal::Refusal;

/// A request's head as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    is_http_1_1: bool,
}

/// A request's head that was found in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// Without keys; empty or beginning with `?`.
    pub(crate) query: String,
    pub(crate) headers: Headers,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
}

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum HeadProblem {
    /// The program closed its connection, or stopped in the middle.
    Gone,
    /// The bytes are no head of a request.
    Refused(Refusal),
}

impl RequestHead {
    pub(crate) fn read<R: Read>(input: &mut Input<R>, bytes_max: usize) -> Result<RequestHead, HeadProblem> {
        let bytes = read_head(input, bytes_max).map_err(|problem| match problem {
            NoHead::End | NoHead::Io(_) => HeadProblem::Gone,
            NoHead::Long => HeadProblem::Refused(Refusal::new(431, "the head of the request is too long")),
            NoHead::BareLineFeed => HeadProblem::Refused(Refusal::malformed("a line ends without CR")),
        })?;
        RequestHead::parse(&bytes).map_err(|what| HeadProblem::Refused(Refusal::malformed(what)))
    }

    fn parse(bytes: &[u8]) -> Result<RequestHead, &'static str> {
        if bytes.contains(&0) {
            return Err("it has a NUL");
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            Ok(_) => return Err("it is not one head"),
            Err(httparse::Error::TooManyHeaders) => return Err("it has too many headers"),
            Err(_) => return Err("it is not HTTP"),
        }
        let mut read = Headers::new();
        for header in request.headers {
            let value = std::str::from_utf8(header.value).map_err(|_| "a header is not text")?;
            read.push((header.name.to_ascii_lowercase(), value.to_owned()));
        }
        Ok(RequestHead {
            method: request.method.unwrap_or_default().to_owned(),
            target: request.path.unwrap_or_default().to_owned(),
            headers: read,
            is_http_1_1: request.version == Some(1),
        })
    }

    /// Checks what could be understood in two ways, or lead elsewhere.
    pub(crate) fn check(&self) -> Result<Checked, Refusal> {
        if !self.is_http_1_1 {
            return Err(Refusal::new(505, "only HTTP/1.1 is supported"));
        }
        let framing = Framing::of(&self.headers, Framing::Length(0)).map_err(Refusal::malformed)?;
        check_host(&self.headers).map_err(Refusal::malformed)?;
        let (path, query) = self.target.split_at(self.target.find('?').unwrap_or(self.target.len()));
        check_path(path).map_err(Refusal::malformed)?;
        if !query.chars().all(|c| c.is_ascii_graphic() && c != '#') {
            return Err(Refusal::malformed("its query is not plain"));
        }
        let options = self.headers.iter().filter(|(name, _)| name == "connection");
        let closes = options.flat_map(|(_, value)| value.split(',')).any(|o| o.trim().eq_ignore_ascii_case("close"));
        Ok(Checked {
            method: self.method.clone(),
            path: path.to_owned(),
            query: without_keys(query),
            headers: self.headers.clone(),
            framing,
            keep_alive: !closes,
            expects_continue: self.headers.iter().any(|(name, _)| name == "expect"),
        })
    }
}

/// Exactly one, spelled like an authority. It is not used: who is asked is fixed.
fn check_host(headers: &Headers) -> Result<(), &'static str> {
    let mut hosts = headers.iter().filter(|(name, _)| name == "host").map(|(_, value)| value);
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err("it does not name one host") };
    let spelled = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    if host.chars().all(spelled) { Ok(()) } else { Err("its host is not one") }
}

/// A plain path: no address in front of it, and nothing that somebody behind could read as another path.
fn check_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("its target is not a path");
    }
    if path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err("its path is not plain");
    }
    let plain = |c: char| c.is_ascii_graphic() && !"\\%#;".contains(c);
    if path.chars().all(plain) { Ok(()) } else { Err("its path is not plain") }
}

/// Parameters by which Google's servers take a key, or take a request for another one.
const PARAMETERS_DROPPED: [&str; 8] =
    ["key", "api_key", "access_token", "oauth_token", "quotauser", "$httpmethod", "uploadtype", "upload_protocol"];

/// The query without a key. A name that is spelled with `%` is dropped too: it has no reason to be.
fn without_keys(query: &str) -> String {
    let goes_on = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        !name.contains('%') && !PARAMETERS_DROPPED.contains(&name.to_ascii_lowercase().as_str())
    };
    let left: Vec<&str> = query.trim_start_matches('?').split('&').filter(|p| !p.is_empty()).filter(goes_on).collect();
    if left.is_empty() { String::new() } else { format!("?{}", left.join("&")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) -> Option<Checked> {
        RequestHead::read(&mut Input::new(text.as_bytes()), 1000).ok()?.check().ok()
    }

    #[test]
    fn takes_a_plain_request() {
        let text = "POST /v1/messages?beta=true&key=k&a%62=c HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-A: b\r\nContent-Length: 3\r\n\r\n";
        let checked = check(text).unwrap();
        assert_eq!((checked.path.as_str(), checked.query.as_str()), ("/v1/messages", "?beta=true"));
        assert_eq!(checked.framing, Framing::Length(3));
        assert!(checked.keep_alive && !checked.expects_continue);
        assert!(!check("GET /models HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n").unwrap().keep_alive);
    }

    #[test]
    fn refuses_what_leads_elsewhere() {
        for line in [
            "GET http://elsewhere/v1/models HTTP/1.1",
            "CONNECT elsewhere:443 HTTP/1.1",
            "GET * HTTP/1.1",
            "GET //elsewhere/models HTTP/1.1",
            "GET /v1/../models HTTP/1.1",
            "GET /v1/./models HTTP/1.1",
            "GET /v1/%2e%2e/models HTTP/1.1",
            "GET /v1\\models HTTP/1.1",
            "GET /v1/models#x HTTP/1.1",
            "GET /v1/models HTTP/1.0",
            "GET /v1/models",
            "GET  /v1/models HTTP/1.1",
        ] {
            assert_eq!(check(&format!("{line}\r\nHost: a\r\n\r\n")), None, "{line}");
        }
    }

    #[test]
    fn refuses_heads_that_are_read_in_two_ways() {
        for headers in [
            "",
            "Host: a\r\nHost: a\r\n",
            "Host: a@b\r\n",
            "Host: a/b\r\n",
            "Host: a\r\nX: b\r\n c\r\n",
            "Host: a\nX: b\r\n",
            "Host: a\r\nX : b\r\n",
            "Host: a\r\nX: \0\r\n",
            "Host: a\r\nX: b\rc\r\n",
            "Host: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            "Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Host: a\r\nTransfer-Encoding: xchunked\r\n",
        ] {
            assert_eq!(check(&format!("GET /v1/models HTTP/1.1\r\n{headers}\r\n")), None, "{headers:?}");
        }
        assert_eq!(check(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(1000))), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes: Vec<u8>) {
            let _ = RequestHead::read(&mut Input::new(bytes.as_slice()), 1000).map(|head| head.check());
        }
    }
}
