//! As much HTTP/1.1 as the agents' clients use: one request on a connection, an answer in one piece or in chunks.
//! Written by hand because a test has to control what a library would put right: answers that break off or never come.

use std::io::{self, BufRead, Read, Write};

/// The longest request head and body taken: far above what an agent sends, so a broken client cannot fill memory.
const HEAD_BYTES_MAX: u64 = 256 << 10;
const BODY_BYTES_MAX: u64 = 256 << 20;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A field of the query, as it is spelled there.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Reads a request; nothing if the client left without one.
pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = stream.by_ref().take(HEAD_BYTES_MAX);
    let first = line(&mut head)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let mut headers = Vec::new();
    loop {
        let line = line(&mut head)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
    let mut request = Request { method, path, query, headers, body: Vec::new() };
    request.body = body(stream, &request)?;
    Ok(Some(request))
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    line.truncate(line.trim_end().len());
    Ok(line)
}

fn body(stream: &mut impl BufRead, request: &Request) -> io::Result<Vec<u8>> {
    if request.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return chunks(stream);
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    exactly(stream, length)
}

fn chunks(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(stream)?;
        let size = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16);
        let size = size.map_err(|_| io::Error::other("the size of a chunk is not a number"))?;
        if size + body.len() as u64 > BODY_BYTES_MAX {
            return Err(io::Error::other("the request is too long"));
        }
        body.extend(exactly(stream, size)?);
        line(stream)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn exactly(stream: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    if length > BODY_BYTES_MAX {
        return Err(io::Error::other("the request is too long"));
    }
    let mut bytes = Vec::new();
    let read = stream.by_ref().take(length).read_to_end(&mut bytes)?;
    if read as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Answers in one piece.
pub(crate) fn respond(stream: &mut impl Write, status: u16, extra: &[(&str, String)], body: &str) -> io::Result<()> {
    let mut head = head(status, "application/json");
    for (name, value) in extra {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    stream.flush()
}

/// Begins an answer in chunks. A client can tell one that broke off from one that ended, which it could not if the
/// end of the connection were the end of the answer.
pub(crate) fn begin(stream: &mut impl Write) -> io::Result<()> {
    let head = head(200, "text/event-stream");
    stream.write_all(format!("{head}cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes())
}

/// One chunk; an empty one would be the end.
pub(crate) fn chunk(stream: &mut impl Write, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?;
    stream.flush()
}

/// Ends an answer in chunks.
pub(crate) fn end(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(b"0\r\n\r\n")?;
    stream.flush()
}

/// One answer a connection: clients open another, and nobody has to keep count.
fn head(status: u16, kind: &str) -> String {
    format!("HTTP/1.1 {status} {}\r\ncontent-type: {kind}\r\nconnection: close\r\n", phrase(status))
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "As The Script Says",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> io::Result<Option<Request>> {
        read(&mut text.as_bytes())
    }

    #[test]
    fn a_request_is_read_with_either_kind_of_body() {
        let plain = "POST /v1/x?alt=sse&key=k HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcd";
        let request = read_all(plain).unwrap().unwrap();
        assert_eq!((request.path.as_str(), request.query("key")), ("/v1/x", Some("k")));
        assert_eq!(request.body, b"abc");
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n";
        assert_eq!(read_all(chunked).unwrap().unwrap().body, b"abc");
    }

    #[test]
    fn a_request_that_breaks_off_or_is_too_long_is_an_error() {
        assert!(read_all("").unwrap().is_none());
        assert!(read_all("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc").is_err());
        assert!(read_all("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").is_err());
    }

    #[test]
    fn an_answer_in_chunks_has_an_end_of_its_own() {
        let mut sent = Vec::new();
        begin(&mut sent).unwrap();
        chunk(&mut sent, "data: 1\n\n").unwrap();
        chunk(&mut sent, "").unwrap();
        end(&mut sent).unwrap();
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.ends_with("chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"), "{sent}");
    }
}
