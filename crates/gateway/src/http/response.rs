//! Answers of the provider.

use std::io::{self, Read};

use crate::http::head::{HEADERS_MAX, NoHead, read_head};
use crate::http::{Framing, Headers, Input};

/// An answer's head.
#[derive(Clone, Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) framing: Framing,
}

impl ResponseHead {
    /// Reads the head of the answer itself, past those that only say it is coming.
    pub(crate) fn read<R: Read>(input: &mut Input<R>, bytes_max: usize) -> io::Result<ResponseHead> {
        // As many as a friendly server sends, and an end for an unfriendly one.
        for _ in 0..16 {
            let bytes = read_head(input, bytes_max).map_err(|problem| match problem {
                NoHead::End => io::ErrorKind::UnexpectedEof.into(),
                NoHead::Io(problem) => problem,
                NoHead::Long | NoHead::BareLineFeed => invalid("its head is too long or not HTTP"),
            })?;
            let head = parse(&bytes).map_err(invalid)?;
            match head.status {
                101 => return Err(invalid("it wants to change the protocol")),
                100..=199 => {}
                _ => return Ok(head),
            }
        }
        Err(invalid("it does not begin"))
    }
}

fn parse(bytes: &[u8]) -> Result<ResponseHead, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        _ => return Err("its head is not HTTP"),
    }
    let status = response.code.filter(|code| (100..=999).contains(code)).ok_or("it has no status")?;
    let read = |header: &httparse::Header<'_>| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
    };
    let headers: Headers = response.headers.iter().map(read).collect();
    let framing = match status {
        100..=199 | 204 | 304 => Framing::Length(0),
        _ => Framing::of(&headers, Framing::UntilEnd)?,
    };
    Ok(ResponseHead { status, headers, framing })
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
