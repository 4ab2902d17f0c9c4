//! Bodies, as they come: piece by piece, without their framing.

use std::io::{self, Read};

use crate::http::{Headers, Input};

/// Longest line that says how long a chunk is. Extensions are read over.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// Bytes of trailers, which are dropped.
const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There are that many bytes.
    Length(u64),
    /// The last chunk says so.
    Chunked,
    /// The connection ends. Only an answer may be like that.
    UntilEnd,
}

impl Framing {
    /// By the headers; `otherwise` if they say nothing. What could be read in two ways is refused: two readers that
    /// disagree on where a message ends take different bytes for the next one.
    pub(crate) fn of(headers: &Headers, otherwise: Framing) -> Result<Framing, &'static str> {
        let all = |name: &str| -> Vec<&str> {
            headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
        };
        match (all("content-length").as_slice(), all("transfer-encoding").as_slice()) {
            ([], []) => Ok(otherwise),
            ([], [encoding]) if encoding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
            ([], _) => Err("its transfer encoding is not understood"),
            ([length], []) => length_of(length).map(Framing::Length).ok_or("its length is not a number"),
            (_, []) => Err("it has several lengths"),
            _ => Err("it has a length and a transfer encoding"),
        }
    }
}

fn length_of(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// A body that is being read.
pub(crate) struct Body(Next);

enum Next {
    Done,
    Bytes(u64),
    ChunkLine,
    Chunk(u64),
    /// The line end behind a chunk. It is waited for only after the chunk was handed out.
    ChunkEnd,
    UntilEnd,
}

impl Body {
    pub(crate) fn new(framing: Framing) -> Body {
        Body(match framing {
            Framing::Length(0) => Next::Done,
            Framing::Length(bytes) => Next::Bytes(bytes),
            Framing::Chunked => Next::ChunkLine,
            Framing::UntilEnd => Next::UntilEnd,
        })
    }

    /// The next piece, as soon as there is something; none at the end. An end that comes too early is an error.
    pub(crate) fn piece<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self.0 {
                Next::Done => return Ok(None),
                Next::Bytes(left) => {
                    let piece = at_most(input, left)?;
                    let left = left - piece.len() as u64;
                    self.0 = if left == 0 { Next::Done } else { Next::Bytes(left) };
                    return Ok(Some(piece));
                }
                Next::ChunkLine => match chunk_size(&input.line(CHUNK_LINE_BYTES_MAX)?)? {
                    0 => {
                        skip_trailers(input)?;
                        self.0 = Next::Done;
                    }
                    bytes => self.0 = Next::Chunk(bytes),
                },
                Next::Chunk(left) => {
                    let piece = at_most(input, left)?;
                    let left = left - piece.len() as u64;
                    self.0 = if left == 0 { Next::ChunkEnd } else { Next::Chunk(left) };
                    return Ok(Some(piece));
                }
                Next::ChunkEnd => {
                    input.line(2).and_then(must_be_empty)?;
                    self.0 = Next::ChunkLine;
                }
                Next::UntilEnd => {
                    if input.unused().is_empty() && input.fill()? == 0 {
                        self.0 = Next::Done;
                        return Ok(None);
                    }
                    return Ok(Some(input.take(usize::MAX)));
                }
            }
        }
    }

    /// All of it, if it is not longer than that.
    pub(crate) fn whole<R: Read>(mut self, input: &mut Input<R>, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece(input)? {
            if whole.len() + piece.len() > bytes_max {
                return Ok(None);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole))
    }
}

fn at_most<R: Read>(input: &mut Input<R>, left: u64) -> io::Result<Vec<u8>> {
    input.need()?;
    Ok(input.take(usize::try_from(left).unwrap_or(usize::MAX)))
}

fn must_be_empty(line: Vec<u8>) -> io::Result<()> {
    if line.is_empty() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii_end();
    let plain = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain);
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn skip_trailers<R: Read>(input: &mut Input<R>) -> io::Result<()> {
    let mut left = TRAILER_BYTES_MAX;
    loop {
        let line = input.line(left)?;
        if line.is_empty() {
            return Ok(());
        }
        left = left.saturating_sub(line.len() + 2);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(framing: Framing, text: &str) -> Option<String> {
        let mut input = Input::new(text.as_bytes());
        let body = Body::new(framing).whole(&mut input, 100).ok()??;
        Some(String::from_utf8(body).unwrap())
    }

    #[test]
    fn reads_each_framing() {
        assert_eq!(whole(Framing::Length(3), "abcdef").as_deref(), Some("abc"));
        assert_eq!(whole(Framing::Length(0), "abc").as_deref(), Some(""));
        assert_eq!(whole(Framing::UntilEnd, "abc").as_deref(), Some("abc"));
        let chunks = "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\nnext";
        assert_eq!(whole(Framing::Chunked, chunks).as_deref(), Some("abcde"));
    }

    #[test]
    fn refuses_what_can_be_read_in_two_ways() {
        for text in [
            "3\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "+3\r\nabc\r\n0\r\n\r\n",
            "0x3\r\nabc\r\n0\r\n\r\n",
            " 3\r\nabc\r\n0\r\n\r\n",
            "\r\nabc\r\n0\r\n\r\n",
            "ffffffffffffffffff\r\nabc",
            "3\r\nabc\r\n",
            "3\r\nab",
        ] {
            assert_eq!(whole(Framing::Chunked, text), None, "{text:?}");
        }
        assert_eq!(whole(Framing::Length(5), "abc"), None);
        assert_eq!(whole(Framing::UntilEnd, &"a".repeat(101)), None);
    }

    #[test]
    fn takes_one_length_or_chunks() {
        let framing = |headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Framing::of(&headers, Framing::Length(0)).ok()
        };
        assert_eq!(framing(&[]), Some(Framing::Length(0)));
        assert_eq!(framing(&[("content-length", "12")]), Some(Framing::Length(12)));
        assert_eq!(framing(&[("transfer-encoding", "Chunked")]), Some(Framing::Chunked));
        for refused in [
            &[("content-length", "1"), ("content-length", "1")][..],
            &[("content-length", "1"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "identity")],
            &[("content-length", "+1")],
            &[("content-length", "1, 1")],
            &[("content-length", "")],
            &[("content-length", "9999999999999999999")],
        ] {
            assert_eq!(framing(refused), None, "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let mut input = Input::new(bytes.as_slice());
            let _ = Body::new(Framing::Chunked).whole(&mut input, 1000);
        }
    }
}
