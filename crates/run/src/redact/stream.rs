//! Redaction of what arrives in pieces. Whole lines are passed on as soon as they are there; what may still be part of a secret is
//! held back, which is never more than one window. How the pieces were cut makes no difference.

use super::scan::last_of;
use super::{Counts, Redactor, Span, add, counted, pem, replaced};
use std::fmt;
use std::sync::Arc;

/// The most that is held back.
const WINDOW: usize = 64 << 10;

/// No secret is longer than this, so that a line is cut only where so much of it is still to be seen.
const SECRET_MAX: usize = pem::BYTES_MAX;

/// How far a place is looked for where a long line may be cut.
const CUT_MAX: usize = 8 << 10;

const BEGIN: &[u8] = b"-----BEGIN";

/// Redacts a stream.
pub struct Stream {
    redactor: Arc<Redactor>,
    held: Vec<u8>,
    counts: Counts,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("held", &self.held.len()).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Stream {
    /// Nothing has arrived yet.
    pub fn new(redactor: Arc<Redactor>) -> Stream {
        Stream { redactor, held: Vec::new(), counts: Counts::new() }
    }

    /// Takes what has arrived; answers what can be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(WINDOW - self.held.len()));
            self.held.extend_from_slice(now);
            rest = later;
            // Without a new line or a full window nothing can have become clear.
            if now.contains(&b'\n') || self.held.len() == WINDOW {
                self.let_go(&mut out);
            }
        }
        out
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What is left, now that nothing more arrives, and what was replaced in all of it.
    pub fn finish(mut self) -> (Vec<u8>, Counts) {
        let held = std::mem::take(&mut self.held);
        let spans = self.redactor.spans(&held);
        self.count(&spans);
        (replaced(&held, &spans).into_owned(), self.counts)
    }

    fn let_go(&mut self, out: &mut Vec<u8>) {
        let cut = match whole_lines(&self.held) {
            0 if self.held.len() < WINDOW => return,
            0 => {
                let spans = self.redactor.spans(&self.held);
                let (cut, spans) = within_line(&self.held, spans);
                self.emit(cut, &spans, out);
                return;
            }
            cut => cut,
        };
        let spans = self.redactor.spans(&self.held[..cut]);
        self.emit(cut, &spans, out);
    }

    fn emit(&mut self, cut: usize, spans: &[Span], out: &mut Vec<u8>) {
        self.count(spans);
        out.extend_from_slice(&replaced(&self.held[..cut], spans));
        self.held.drain(..cut);
    }

    fn count(&mut self, spans: &[Span]) {
        add(&mut self.counts, &counted(spans));
    }
}

/// Where the last whole line ends that is no part of a block which continues behind it.
fn whole_lines(held: &[u8]) -> usize {
    let mut cut = line_start(held, held.len());
    // A block may begin in the line in which the one before it ends, and both go on together.
    while let Some(at) = last_begin(&held[..cut])
        && pem::reaches(held, at, cut)
    {
        cut = line_start(held, at);
    }
    cut
}

/// Where the last block begins.
fn last_begin(lines: &[u8]) -> Option<usize> {
    let mut end = lines.len();
    loop {
        // Looked for by the byte of it that is rarest.
        end = last_of(&lines[..end], b'B')?;
        let at = end.checked_sub(5).filter(|at| lines[*at..].starts_with(BEGIN));
        if at.is_some() {
            return at;
        }
    }
}

fn line_start(held: &[u8], at: usize) -> usize {
    last_of(&held[..at], b'\n').map_or(0, |before| before + 1)
}

/// Where a line that is too long may be cut, and the secrets before that.
fn within_line(held: &[u8], mut spans: Vec<Span>) -> (usize, Vec<Span>) {
    let last = held.len() - SECRET_MAX;
    let first = last - CUT_MAX;
    // Between two pairs no name is parted from its value.
    let between = |byte: &u8| matches!(byte, b',' | b';' | b'&');
    let cut = held[first..last].iter().rposition(between).map_or(last, |offset| first + offset + 1);
    // A character is never parted.
    let cut = (cut - 3..=cut).rev().find(|at| held[*at] & 0xc0 != 0x80).unwrap_or(cut);
    let cut = match spans.iter().find(|span| span.range.contains(&cut)) {
        Some(span) if span.range.start == 0 => span.range.end,
        Some(span) => span.range.start,
        None => cut,
    };
    spans.retain(|span| span.range.end <= cut);
    (cut, spans)
}
