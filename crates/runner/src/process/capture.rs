//! Keeping the first part of a stream of any length.
//!
//! A program may write without end. The pipe is always read, so that the program never blocks on
//! norma and its idle time is measured fairly, but only the first bytes are kept: the rest is
//! counted and dropped, and memory stays flat.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// The kept part of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes of the stream.
    pub bytes: Vec<u8>,
    /// How many bytes the stream had.
    pub total: u64,
    /// Whether `bytes` is less than the stream had.
    pub truncated: bool,
}

impl Captured {
    /// The bytes, and when some are missing a last line that says how many.
    pub fn with_mark(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        if self.truncated {
            let kept = bytes.len();
            let mark = format!("\n[norma: truncated, {kept} of {} bytes kept]\n", self.total);
            bytes.extend_from_slice(mark.as_bytes());
        }
        bytes
    }

    pub(crate) fn take(&mut self, chunk: &[u8], bytes_max: u64) {
        let room = bytes_max.saturating_sub(self.bytes.len() as u64);
        let kept = chunk.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.bytes.extend_from_slice(&chunk[..kept]);
        self.total += chunk.len() as u64;
        self.truncated |= kept < chunk.len();
    }
}

/// The reading end of one output pipe, and what was kept of it.
pub(super) struct Stream {
    /// `None` once the stream has ended.
    pipe: Option<OwnedFd>,
    captured: Captured,
    bytes_max: u64,
}

impl Stream {
    pub(super) fn new(pipe: OwnedFd, bytes_max: u64) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe: Some(pipe), captured: Captured::default(), bytes_max })
    }

    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once without waiting; the number of bytes read, 0 when there is nothing or the stream
    /// has ended.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        match rustix::io::read(pipe, &mut *buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                self.captured.take(&buffer[..count], self.bytes_max);
                return Ok(count);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(0)
    }

    /// Reads what is buffered already, at most `bytes_max`, and closes the pipe.
    pub(super) fn finish(mut self, buffer: &mut [u8], bytes_max: usize) -> io::Result<Captured> {
        let mut read = 0;
        while read < bytes_max {
            match self.read(buffer)? {
                0 => break,
                count => read += count,
            }
        }
        Ok(self.captured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str], bytes_max: u64, expected: &str) {
        let mut captured = Captured::default();
        for chunk in chunks {
            captured.take(chunk.as_bytes(), bytes_max);
        }
        let shown = String::from_utf8(captured.with_mark()).expect("the test writes text");
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_stream_within_the_cap_is_kept_whole_and_unmarked() {
        check(&["one ", "two"], 7, "one two");
        check(&[], 0, "");
    }

    #[test]
    fn a_stream_past_the_cap_says_how_much_is_missing() {
        check(&["one ", "two"], 5, "one t\n[norma: truncated, 5 of 7 bytes kept]\n");
        check(&["one", "two"], 3, "one\n[norma: truncated, 3 of 6 bytes kept]\n");
        check(&["x"], 0, "\n[norma: truncated, 0 of 1 bytes kept]\n");
    }
}
