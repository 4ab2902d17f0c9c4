//! Bytes that have arrived and are not used yet.

use std::io::{self, Read};

/// Read at once: a large piece of a stream, and small beside a body.
const READ_BYTES: usize = 16 * 1024;

/// A source with a buffer behind which it is never read further than has to be.
pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where in the buffer the unused bytes begin.
    from: usize,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Input<R> {
        Input { source, buffer: Vec::new(), from: 0 }
    }

    /// What it reads from.
    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// What has arrived and is not used yet.
    pub(crate) fn unused(&self) -> &[u8] {
        &self.buffer[self.from..]
    }

    /// Waits for more; 0 if there is none.
    pub(crate) fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.from);
        self.from = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + READ_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[had..]) {
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(had + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Waits until there is something unused; an error if nothing comes any more.
    pub(crate) fn need(&mut self) -> io::Result<()> {
        if self.unused().is_empty() && self.fill()? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Uses up to that many of the bytes that are there.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.unused()[..count.min(self.unused().len())].to_vec();
        self.from += taken.len();
        taken
    }

    /// Uses a line and its end; the line without it. Only CRLF ends a line: those who take a bare line feed and those
    /// who do not would see different requests.
    pub(crate) fn line(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.unused().iter().position(|&byte| byte == b'\n') {
                let mut line = self.take(end + 1);
                let ended = line.ends_with(b"\r\n") && line.len() <= bytes_max;
                line.truncate(line.len().saturating_sub(2));
                return if ended { Ok(line) } else { Err(io::ErrorKind::InvalidData.into()) };
            }
            if self.unused().len() > bytes_max {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
