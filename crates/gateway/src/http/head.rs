//! Where a head ends: at the first empty line, with every line before it ended by CRLF.

use std::io::{self, Read};

use crate::http::Input;

/// Headers of a head. Programs send about thirty.
pub(crate) const HEADERS_MAX: usize = 128;

/// Why there is no head.
#[derive(Debug)]
pub(crate) enum NoHead {
    /// The other side closed before it began one.
    End,
    /// It is longer than allowed.
    Long,
    /// A line ends without a carriage return.
    BareLineFeed,
    /// Reading failed, or the other side closed in the middle of it.
    Io(io::Error),
}

/// Uses the bytes of a head with the empty line that ends it.
pub(crate) fn read_head<R: Read>(input: &mut Input<R>, bytes_max: usize) -> Result<Vec<u8>, NoHead> {
    let mut looked_at = 0;
    loop {
        if let Some(end) = head_end(input.unused(), looked_at)? {
            return if end > bytes_max { Err(NoHead::Long) } else { Ok(input.take(end)) };
        }
        looked_at = input.unused().len();
        if looked_at >= bytes_max {
            return Err(NoHead::Long);
        }
        match input.fill() {
            Ok(0) if looked_at == 0 => return Err(NoHead::End),
            Ok(0) => return Err(NoHead::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(problem) => return Err(NoHead::Io(problem)),
        }
    }
}

fn head_end(bytes: &[u8], from: usize) -> Result<Option<usize>, NoHead> {
    let line_feeds = (from..bytes.len()).filter(|&at| bytes[at] == b'\n');
    for at in line_feeds {
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(NoHead::BareLineFeed);
        }
        if bytes[..=at].ends_with(b"\r\n\r\n") {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}
