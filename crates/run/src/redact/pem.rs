//! The block of a private key, however it is quoted: with its lines as they are, in a diff, a comment or a literal, or
//! with escaped line ends in a JSON string.

use super::scan::run_end;

/// How far a block may reach.
pub(super) const BYTES_MAX: usize = 32 << 10;

/// So many digits of base64 without a break are a line of a key; fewer are an example, or prose.
const LINE_MIN: usize = 32;

/// How much may stand before the first line of a key.
const HEADERS_MAX: usize = 512;

/// The longest escape between two lines of a key.
const ESCAPE_MAX: usize = 3;

const FOOTER: &[u8] = b"-----END ";

/// Where the block of a private key ends that begins here, if one does. `at` is where `-----BEGIN` is.
pub(super) fn block(text: &[u8], at: usize) -> Option<usize> {
    let text = &text[..text.len().min(at + BYTES_MAX)];
    let body = header_end(text, at)?;
    Walk::new(text, body, true).footer_end().or_else(|| Walk::new(text, body, false).last_digit_end())
}

/// Whether the block that begins here reaches further than `cut`, or may do so once there is more text.
pub(super) fn reaches(text: &[u8], at: usize, cut: usize) -> bool {
    if block(text, at).is_some_and(|end| end > cut) {
        return true;
    }
    let open = |body: usize| {
        let mut walk = Walk::new(text, body, true);
        while walk.step().is_some() {}
        let rest = &text[walk.at..];
        // What looks like the end may be the beginning of an escape, or of the footer.
        FOOTER.starts_with(rest) || rest.len() < ESCAPE_MAX && !rest.contains(&b'\n')
    };
    text.len() - at < BYTES_MAX && header_end(text, at).is_some_and(open)
}

/// Where the line `-----BEGIN … PRIVATE KEY-----` ends.
fn header_end(text: &[u8], at: usize) -> Option<usize> {
    let start = at + b"-----BEGIN".len();
    let end = run_end(text, start.min(text.len()), is_label);
    let label = text.get(start..end)?;
    let private = label.ends_with(b" PRIVATE KEY") || label.ends_with(b" PRIVATE KEY BLOCK");
    let dashes = run_end(text, end, |byte| byte == b'-') - end;
    (private && label.len() < 48 && dashes == 5).then_some(end + dashes)
}

/// A walk over what may stand between the lines of a block.
struct Walk<'t> {
    text: &'t [u8],
    start: usize,
    at: usize,
    /// Whether each line may be a literal of its own.
    quoted: bool,
    /// How many digits of base64 were just passed, and the most at a time.
    run: usize,
    longest: usize,
}

impl<'t> Walk<'t> {
    fn new(text: &'t [u8], start: usize, quoted: bool) -> Walk<'t> {
        Walk { text, start, at: start, quoted, run: 0, longest: 0 }
    }

    /// Behind the footer, if it comes after a line of a key.
    fn footer_end(mut self) -> Option<usize> {
        while !self.text[self.at..].starts_with(FOOTER) {
            self.step()?;
        }
        let end = run_end(self.text, self.at + FOOTER.len(), is_label);
        let dashes = self.text[end..].iter().take(5).take_while(|byte| **byte == b'-').count();
        (self.longest >= LINE_MIN).then_some(end + dashes)
    }

    /// Behind the last digit of a line.
    fn last_digit_end(mut self) -> Option<usize> {
        let mut end = self.at;
        while let Some(digit) = self.step() {
            end = if digit { self.at } else { end };
        }
        (self.longest >= LINE_MIN).then_some(end)
    }

    /// One byte or one escape further; whether it was a digit of base64. None where no block continues.
    fn step(&mut self) -> Option<bool> {
        if self.longest < LINE_MIN && self.at - self.start > HEADERS_MAX {
            return None;
        }
        let (length, digit) = self.next()?;
        self.at += length;
        self.run = if digit { self.run + 1 } else { 0 };
        self.longest = self.longest.max(self.run);
        Some(digit)
    }

    fn next(&self) -> Option<(usize, bool)> {
        Some(match &self.text[self.at..] {
            [b'\\', b'\\', b'n' | b'r', ..] => (3, false),
            [b'\\', b'n' | b'r' | b't', ..] => (2, false),
            [b'\\', b'\n' | b'"', ..] if self.quoted => (2, false),
            [b'-', b'-', b'-', b'-', b'-', b'E' | b'B', ..] => return None,
            // Of a diff, a quotation or a comment.
            [b'\n' | b'\r' | b' ' | b'\t' | b'-' | b'>' | b'|' | b'#' | b'*', ..] => (1, false),
            // Of the lines that say how a key is encrypted.
            [b':', b' ', ..] if self.text[self.at - 1].is_ascii_alphanumeric() => (2, false),
            [b',', next, ..] if next.is_ascii_alphanumeric() => (1, false),
            [b',' | b'"' | b'\'' | b'.' | b'(' | b')', ..] if self.quoted => (1, false),
            [byte, ..] if byte.is_ascii_alphanumeric() || b"+/=".contains(byte) => (1, true),
            _ => return None,
        })
    }
}

fn is_label(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
}
