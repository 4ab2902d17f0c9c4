//! Tokens that are known by their form: how they begin, and what follows for long enough. Whether there is more than
//! enough decides nothing, so that a mark behind a token cannot make one of what was none.

use super::scan::{Runs, START, Starts, begins_word, run_end};
use super::{Kind, Span, pem};
use serde::Deserialize;
use std::sync::LazyLock;

/// How a private key's block begins.
const PEM: &[u8] = b"-----BEGIN";

/// How a JSON object begins in base64, and with it a JSON Web Token.
const JWT: &[u8] = b"eyJ";

/// The least and the most bytes of a token's header, and the least of what it says.
const JWT_HEADER: std::ops::RangeInclusive<usize> = 12..=2048;
const JWT_CLAIMS_MIN: usize = 8;

/// A line of `tokens.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// How it begins; at a word's beginning only.
    pub(super) prefix: String,
    alphabet: Alphabet,
    /// How many bytes of the alphabet must follow at least.
    pub(super) min: usize,
    /// Whether one of these must be a digit, where words could follow as well.
    #[serde(default)]
    digit: bool,
    /// Whether the beginning stays.
    #[serde(default)]
    keep: bool,
    /// Whether gates know it only since [`contract::RULES_MORE_TOKENS`].
    #[serde(default)]
    newer: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Alphabet {
    Alnum,
    Hex,
    Upper,
    Word,
    Base64url,
    Token68,
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Alphabet::Hex => byte.is_ascii_hexdigit(),
            Alphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alphabet::Alnum => byte.is_ascii_alphanumeric(),
            Alphabet::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Alphabet::Base64url => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Alphabet::Token68 => byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte),
        }
    }
}

struct Forms {
    tokens: Vec<Token>,
    starts: Starts,
}

static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    let tokens = tokens();
    let prefixes = tokens.iter().map(|token| token.prefix.as_bytes());
    let starts = Starts::new(prefixes.chain([JWT, PEM]));
    Forms { tokens, starts }
});

/// The lines of `tokens.json`.
pub(super) fn tokens() -> Vec<Token> {
    let mut tokens: Vec<Token> =
        serde_json::from_str(include_str!("tokens.json")).expect("BUG: tokens.json is verified by a test");
    debug_assert!(tokens.iter().all(|token| token.prefix.len() >= START), "a beginning is too short to be found");
    // What says more about a token counts first.
    tokens.sort_by_key(|token| std::cmp::Reverse(token.prefix.len()));
    tokens
}

/// Those in a text; `newer` is whether the newer forms count.
pub(super) fn spans(text: &[u8], newer: bool) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut headers = Runs::default();
    let mut from = 0;
    while let Some(at) = FORMS.starts.next(text, from) {
        // Behind a span a mark will stand, after which a word may begin.
        let after_mark = spans.last().is_some_and(|last| last.range.end == at);
        match FORMS.at(text, at, after_mark, newer, &mut headers) {
            Some(span) => {
                from = span.range.end;
                spans.push(span);
            }
            None => from = at + 1,
        }
    }
    spans
}

impl Forms {
    fn at(&self, text: &[u8], at: usize, after_mark: bool, newer: bool, headers: &mut Runs) -> Option<Span> {
        if text[at..].starts_with(PEM) {
            return pem::block(text, at).map(|end| Span { range: at..end, kind: Kind::PrivateKey });
        }
        if !after_mark && !begins_word(text, at) {
            return None;
        }
        if text[at..].starts_with(JWT) {
            return web_token(text, at, headers);
        }
        let tokens = self.starts.at(text, at).filter_map(|index| self.tokens.get(index));
        let mut tokens = tokens.filter(|token| newer || !token.newer);
        tokens.find_map(|token| token.at(text, at))
    }
}

impl Token {
    fn at(&self, text: &[u8], at: usize) -> Option<Span> {
        let begins = text[at..].starts_with(self.prefix.as_bytes());
        let body = at + self.prefix.len();
        let least = text.get(body..body + self.min).filter(|_| begins)?;
        let fits = least.iter().all(|byte| self.alphabet.has(*byte));
        let digit = !self.digit || least.iter().any(u8::is_ascii_digit);
        let end = || run_end(text, body, |byte| self.alphabet.has(byte));
        let start = if self.keep { body } else { at };
        (fits && digit).then(|| Span { range: start..end(), kind: self.kind })
    }
}

/// Three parts in base64, of which the first two are objects; the signature goes with them.
fn web_token(text: &[u8], at: usize, headers: &mut Runs) -> Option<Span> {
    let part = |byte| Alphabet::Base64url.has(byte);
    let dot = headers.end(text, at, part);
    let claims = dot + 1;
    let least = text.get(claims..claims + JWT_CLAIMS_MIN)?;
    let fits = JWT_HEADER.contains(&(dot - at)) && text[dot] == b'.' && least.iter().all(|byte| part(*byte));
    let end = || {
        let end = run_end(text, claims, |byte| part(byte) || byte == b'.');
        // The dot that ends a sentence is none of the token's.
        end - text[..end].iter().rev().take_while(|byte| **byte == b'.').count()
    };
    fits.then(|| Span { range: at..end(), kind: Kind::Jwt })
}
