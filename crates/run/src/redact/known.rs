//! Values that norma knows to be secret: they are found wherever they are, also as JSON, a URL or base64 spell them.

use super::names::{self, Saying};
use super::scan::Starts;
use super::{Kind, Redactor, Span, mark_at, value};
use std::collections::BTreeSet;
use std::fmt;

/// Shorter values are found in too much that is not secret.
const BYTES_MIN: usize = 8;

/// Longer values are known by how they begin.
const BYTES_MAX: usize = 4096;

/// A single line of a value with several is a secret of its own only from here on.
const LINE_MIN: usize = 16;

/// A plain word this short is never a secret: redacting `production` would take more than it protects.
const PLAIN_WORD_MAX: usize = 12;

/// The values that norma knows. It never shows them.
#[derive(Clone, Default)]
pub struct Known {
    values: BTreeSet<String>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({})", self.values.len())
    }
}

impl Known {
    /// None yet.
    pub fn new() -> Known {
        Known::default()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A value that is secret, such as a provider's key; whether it can be looked for. Too short or trivial ones cannot.
    /// The lines of a value are secrets of their own, since streams are redacted line by line.
    pub fn add(&mut self, value: &str) -> bool {
        let value = value.trim();
        let least = if value.contains('\n') { LINE_MIN } else { BYTES_MIN };
        let before = self.values.len();
        for line in value.lines().map(str::trim).filter(|line| line.len() >= least && !is_trivial(line)) {
            self.values.insert(begin(line).to_owned());
        }
        self.values.len() > before
    }

    /// A variable of an environment: its value is secret if its name says so.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        if names::saying(name.as_bytes()) != Saying::Nothing {
            self.add(value);
        }
        if let Some(password) = value::url_password(value) {
            self.add(password);
        }
    }

    /// The variables of a `.env` file. They are mostly there to be secret, so that a value is one too if it looks like it.
    pub fn add_dotenv(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.trim().strip_prefix("export ").unwrap_or(line.trim());
            let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
            let value = unquoted(value.trim());
            self.add_variable(name.trim(), value);
            if value::is_secret(value.as_bytes(), Saying::Secret, true) {
                self.add(value);
            }
        }
    }

    /// Whatever is secret in a text, to be found again elsewhere.
    pub fn add_found(&mut self, redactor: &Redactor, text: &[u8]) {
        for span in redactor.spans(text) {
            self.add(&String::from_utf8_lossy(&text[span.range]));
        }
    }
}

fn unquoted(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

/// At most what is compared, cut between two characters.
fn begin(value: &str) -> &str {
    let mut end = value.len().min(BYTES_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

/// What nobody would keep secret, or what would be found everywhere.
fn is_trivial(value: &str) -> bool {
    let bytes = value.as_bytes();
    let same = bytes.iter().all(|byte| *byte == bytes[0]);
    let number = bytes.iter().all(|byte| byte.is_ascii_digit() || b".,:-+ ".contains(byte)) && value.len() < 16;
    let word = value.len() < PLAIN_WORD_MAX
        && (value.bytes().all(|byte| byte.is_ascii_lowercase()) || value.bytes().all(|byte| byte.is_ascii_uppercase()));
    let path = value.starts_with(['/', '~', '.']) && value.contains('/') || value.get(1..3) == Some(":\\");
    let url = value.contains("://") && value::url_password(value).is_none();
    let header = value.starts_with("-----");
    let in_mark = Kind::ALL.into_iter().any(|kind| kind.mark().contains(value));
    same || number || word || path || url || header || in_mark
}

/// The values as they may be spelled, ready to be looked for.
#[derive(Clone)]
pub(super) struct Needles {
    /// The longest first.
    spelled: Vec<Vec<u8>>,
    starts: Starts,
}

impl Default for Needles {
    fn default() -> Needles {
        Needles::new(&Known::new())
    }
}

impl Needles {
    pub(super) fn new(known: &Known) -> Needles {
        let all: BTreeSet<Vec<u8>> = known.values.iter().flat_map(|value| spellings(value)).collect();
        let mut spelled: Vec<Vec<u8>> = all.into_iter().collect();
        spelled.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        let starts = Starts::new(spelled.iter().map(Vec::as_slice));
        Needles { spelled, starts }
    }

    pub(super) fn spans(&self, text: &[u8]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        if self.starts.is_empty() {
            return spans;
        }
        let mut done = 0;
        let mut from = 0;
        while let Some(at) = self.starts.next(text, from) {
            from = at + 1;
            if let Some(range) = self.longest(text, at, done) {
                (done, from) = (range.end, range.end);
                spans.push(Span { range, kind: Kind::Known });
            }
        }
        spans
    }

    /// The longest value that is here, with what must not be left of an escape around it.
    fn longest(&self, text: &[u8], at: usize, done: usize) -> Option<std::ops::Range<usize>> {
        let needle =
            self.starts.at(text, at).map(|index| &self.spelled[index]).find(|it| text[at..].starts_with(it))?;
        let start = if open_escape(&text[done..at]) { at - 1 } else { at };
        let end = at + needle.len();
        let end = if open_escape(&text[start..end]) { end + escaped(&text[end..]) } else { end };
        // A mark is never part of a value: it stands for one already.
        let first = at.saturating_sub(super::MARK.len() + 20);
        let marked = (first..end).any(|place| mark_at(text, place).is_some_and(|(after, _)| after > start));
        (!marked).then_some(start..end)
    }
}

/// Whether a text ends within an escape, so that its next byte would mean something else without its last.
fn open_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// How many bytes belong to the escape that is open.
fn escaped(rest: &[u8]) -> usize {
    match rest {
        [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 5,
        [letter, ..] if b"\"\\/bfnrt".contains(letter) => 1,
        _ => 0,
    }
}

/// Every way in which a value may be written.
fn spellings(value: &str) -> Vec<Vec<u8>> {
    let json = JSON.map(|style| escaped_json(value, style));
    let again: Vec<String> = json.iter().flat_map(|once| JSON.map(|style| escaped_json(once, style))).collect();
    // What is left as it is, and what a space becomes, is each writer's own choice.
    let writers: [(&str, &[u8]); 4] = [("%20", b"-_.~"), ("%20", b"-_.~!*'()"), ("+", b"-_.*"), ("%20", b"")];
    let urls =
        writers.into_iter().flat_map(|(space, kept)| [true, false].map(|upper| escaped_url(value, upper, space, kept)));
    let text = std::iter::once(value.to_owned()).chain(json).chain(again).chain(urls);
    text.map(String::into_bytes).chain(base64(value.as_bytes())).collect()
}

/// How writers of JSON differ: whether they escape `/`, what is not ASCII, and what HTML could misread.
#[derive(Clone, Copy)]
struct JsonStyle {
    slash: bool,
    ascii: bool,
    html: bool,
    upper: bool,
}

const PLAIN_JSON: JsonStyle = JsonStyle { slash: false, ascii: false, html: false, upper: false };
const JSON: [JsonStyle; 6] = [
    PLAIN_JSON,
    JsonStyle { slash: true, ..PLAIN_JSON },
    JsonStyle { slash: true, ascii: true, ..PLAIN_JSON },
    JsonStyle { ascii: true, ..PLAIN_JSON },
    JsonStyle { html: true, ..PLAIN_JSON },
    JsonStyle { ascii: true, html: true, upper: true, ..PLAIN_JSON },
];

fn escaped_json(value: &str, style: JsonStyle) -> String {
    let mut out = String::with_capacity(value.len());
    for letter in value.chars() {
        let unit = |unit: u16| if style.upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '/' if style.slash => out.push_str("\\/"),
            '<' | '>' | '&' | '\'' | '+' if style.html && (style.upper || !matches!(letter, '\'' | '+')) => {
                out.push_str(&unit(letter as u16));
            }
            letter if letter < ' ' || style.ascii && !letter.is_ascii() => {
                let mut units = [0; 2];
                out.extend(letter.encode_utf16(&mut units).iter().map(|it| unit(*it)));
            }
            letter => out.push(letter),
        }
    }
    out
}

fn escaped_url(value: &str, upper: bool, space: &str, kept: &[u8]) -> String {
    let byte = |byte: u8| match byte {
        b' ' => space.to_owned(),
        byte if byte.is_ascii_alphanumeric() || kept.contains(&byte) => char::from(byte).to_string(),
        byte if upper => format!("%{byte:02X}"),
        byte => format!("%{byte:02x}"),
    };
    value.bytes().map(byte).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What base64 makes of a value, whatever stands before and after it: only the digits that follow from it alone.
fn base64(value: &[u8]) -> Vec<Vec<u8>> {
    let shifted = |before: usize| {
        let bits = (before + value.len()) * 8;
        let bit = |at: usize| if at < before * 8 { 0 } else { value[at / 8 - before] >> (7 - at % 8) & 1 };
        let digit = |index: usize| (0..6).fold(0, |digit, place| digit << 1 | bit(index * 6 + place));
        let digits = (before * 8).div_ceil(6)..bits / 6;
        digits.map(|index| BASE64[usize::from(digit(index))]).collect::<Vec<u8>>()
    };
    let url = |digits: Vec<u8>| {
        let other = digits.iter().map(|digit| match digit {
            b'+' => b'-',
            b'/' => b'_',
            digit => *digit,
        });
        let other: Vec<u8> = other.collect();
        [digits, other]
    };
    (0..3).map(shifted).flat_map(url).collect()
}
