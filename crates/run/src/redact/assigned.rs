//! Values that are secret because of what stands before them: a name that says so, a header, the user of a URL. Wherever
//! one of these begins there is a `:` or a `=`, so nothing else is looked at.

use super::names::{Saying, parameter_saying, saying};
use super::scan::{Runs, next_of, run_end};
use super::{Kind, Span, mark_at, value};

/// The longest name that is looked at, and the most spaces beside it.
const NAME_MAX: usize = 80;
const SPACES_MAX: usize = 8;

/// How far before a value its name may be, where its type stands between them.
const TYPE_MAX: usize = 48;

/// The longest user and password of a URL.
const USER_MAX: usize = 512;

pub(super) fn spans(text: &[u8]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut seen = Seen { text, done: 0, values: Runs::default() };
    let mut from = 0;
    while let Some(at) = next_of(text, from, b':', b'=') {
        match seen.at(at) {
            Some(span) => {
                // What was replaced is a mark from here on, and no part of a name.
                (from, seen.done) = (span.range.end, span.range.end);
                spans.push(span);
            }
            None => from = at + 1,
        }
    }
    spans
}

/// A text, and up to where it has been replaced.
struct Seen<'t> {
    text: &'t [u8],
    done: usize,
    values: Runs,
}

impl<'t> Seen<'t> {
    fn at(&mut self, at: usize) -> Option<Span> {
        if self.text[at..].starts_with(b"://") {
            return self.url_user(at + 3);
        }
        let (start, name) = self.name_before(at)?;
        if is_authorization(name) {
            return self.credentials(at + 1);
        }
        let parameter = self.text[at] == b'=' && start > self.done && b"?&".contains(&self.text[start - 1]);
        let in_url = if parameter { parameter_saying(name) } else { Saying::Nothing };
        if in_url != Saying::Nothing {
            return self.parameter(at + 1, in_url);
        }
        let says = saying(name);
        if says == Saying::Nothing {
            return self.typed(at);
        }
        if self.text[at] == b':'
            && is_header(name)
            && let Some(span) = self.header(at + 1)
        {
            return Some(span);
        }
        self.assigned(at + 1, says)
    }

    /// The name before a `:` or a `=`, with its place; quotes around it do not count.
    fn name_before(&self, at: usize) -> Option<(usize, &'t [u8])> {
        let seen = &self.text[self.done..at];
        let spaces = seen.iter().rev().take(SPACES_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let seen = &seen[..seen.len() - spaces];
        // Of an index, the name is what is quoted in it.
        let seen = match seen {
            [.., b'"' | b'\'', b']'] => &seen[..seen.len() - 1],
            _ => seen,
        };
        let seen = match seen {
            [rest @ .., b'"' | b'\'' | b'`'] => {
                let slashes = rest.iter().rev().take(SPACES_MAX).take_while(|byte| **byte == b'\\').count();
                &rest[..rest.len() - slashes]
            }
            rest => rest,
        };
        let length = seen.iter().rev().take(NAME_MAX + 1).take_while(|byte| is_name(**byte)).count();
        let start = seen.len() - length;
        (1..=NAME_MAX).contains(&length).then(|| (self.done + start, &seen[start..]))
    }

    /// `NAME: type = value`: the name is further away.
    fn typed(&mut self, at: usize) -> Option<Span> {
        let first = at.saturating_sub(TYPE_MAX).max(self.done);
        let is_type = |byte: &u8| byte.is_ascii_alphanumeric() || b"_&<>' *".contains(byte);
        let length = self.text[first..at].iter().rev().take_while(|byte| is_type(byte)).count();
        let colon = (at - length).checked_sub(1).filter(|place| *place >= first && self.text[*place] == b':')?;
        let says = saying(self.name_before(colon).filter(|_| self.text[at] == b'=')?.1);
        if says == Saying::Nothing { None } else { self.assigned(at + 1, says) }
    }

    /// A value whose name says that it is secret.
    fn assigned(&mut self, after: usize, says: Saying) -> Option<Span> {
        let found = Value::after(self.text, after, &mut self.values)?;
        let value = &self.text[found.range.clone()];
        let whole = if found.quoted { found.closed } else { !b"([{<".contains(&found.next) };
        let secret = whole && value::is_secret(value, says, found.quoted);
        secret.then_some(Span { range: found.range, kind: Kind::AssignedSecret })
    }

    /// `x-api-key: …`.
    fn header(&mut self, after: usize) -> Option<Span> {
        let found = Value::after(self.text, after, &mut self.values)?;
        let secret = !b"([{<".contains(&found.next) && value::may_be_secret(&self.text[found.range.clone()]);
        secret.then_some(Span { range: found.range, kind: Kind::ApiKeyHeader })
    }

    /// `Bearer …`, `Basic …`, or a value without such a word.
    fn credentials(&mut self, after: usize) -> Option<Span> {
        let first = Value::after(self.text, after, &mut self.values)?;
        let word = &self.text[first.range.clone()];
        let scheme = word.len() <= 20 && word.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
        if !scheme || first.next != b' ' {
            let span = self.assigned(after, Saying::Secret)?;
            return Some(Span { kind: Kind::Authorization, ..span });
        }
        let start = first.range.end + 1;
        let end = run_end(self.text, start, |byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
        let value = &self.text[start..end];
        let odd = value.iter().any(u8::is_ascii_digit) || value.iter().skip(1).any(u8::is_ascii_uppercase);
        let code = self.text.get(end).is_some_and(|next| b"[(".contains(next));
        let secret = value.len() >= 8 && odd && !code && value::may_stand(value);
        secret.then_some(Span { range: start..end, kind: Kind::Authorization })
    }

    /// `?token=…`
    fn parameter(&self, start: usize, says: Saying) -> Option<Span> {
        let end = run_end(self.text, start, |byte| byte.is_ascii_alphanumeric() || b"-._~%+/=:@!*".contains(&byte));
        let value = &self.text[start..end];
        let mark = self.text.get(end) == Some(&b'[');
        let secret = match says {
            Saying::Secret => value::may_be_secret(value),
            _ => value::is_secret(value, Saying::Secret, true),
        };
        (secret && !mark).then_some(Span { range: start..end, kind: Kind::UrlParameter })
    }

    /// `://user:password@`
    fn url_user(&self, start: usize) -> Option<Span> {
        let most = &self.text[..self.text.len().min(start + USER_MAX)];
        let end = run_end(most, start, |byte| !byte.is_ascii_whitespace() && !b"/?#\"'`\\<>[](),;".contains(&byte));
        let authority = most.get(start..end).filter(|_| mark_at(self.text, end).is_none())?;
        let user_end = authority.iter().rposition(|byte| *byte == b'@')?;
        let user = &authority[..user_end];
        match user.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let secret = value::is_password(&user[..colon], &user[colon + 1..]);
                secret.then_some(Span { range: start + colon + 1..start + user_end, kind: Kind::UrlPassword })
            }
            // A token in place of a user.
            None => value::is_secret(user, Saying::Secret, true)
                .then_some(Span { range: start..start + user_end, kind: Kind::UrlPassword }),
        }
    }
}

/// A value as it is written.
struct Value {
    range: std::ops::Range<usize>,
    quoted: bool,
    /// Whether its quotation ends where it does.
    closed: bool,
    /// The byte behind it.
    next: u8,
}

impl Value {
    /// The value behind a `:` or a `=`; none where there is none, or a mark.
    fn after(text: &[u8], after: usize, values: &mut Runs) -> Option<Value> {
        let start = run_end(&text[..text.len().min(after + 2)], after, |byte| b">=:".contains(&byte));
        let start = run_end(&text[..text.len().min(start + SPACES_MAX)], start, |byte| matches!(byte, b' ' | b'\t'));
        let (start, quote) = opened(text, start);
        let end = match quote {
            Some(quote) => quoted_end(text, start, quote),
            None => values.end(text, start, is_unquoted),
        };
        let next = text.get(end).copied().unwrap_or(b'\n');
        let closed = quote.is_some_and(|quote| next == quote || next == b'\\' || next == b'\n');
        (end > start).then_some(Value { range: start..end, quoted: quote.is_some(), closed, next })
    }
}

/// Behind the quotation mark that opens a value, escaped or not, if there is one.
fn opened(text: &[u8], at: usize) -> (usize, Option<u8>) {
    let slashes = text[at..].iter().take(SPACES_MAX).take_while(|byte| **byte == b'\\').count();
    match &text[at + slashes..] {
        [quote @ (b'"' | b'\'' | b'`'), ..] => (at + slashes + 1, Some(*quote)),
        [b'b' | b'r' | b'f' | b'u', quote @ (b'"' | b'\''), ..] if slashes == 0 => (at + 2, Some(*quote)),
        _ => (at, None),
    }
}

/// Where a quoted value ends. Escapes that stand for a byte of it are part of it; any other ends it, and so does what may
/// end a JSON string around it.
fn quoted_end(text: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    loop {
        at += match &text[at..] {
            [b'\\', b'/', ..] => 2,
            [b'\\', b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 6,
            [b'\\' | b'"' | b'[' | b']' | 0x7f, ..] | [] => return at,
            [byte, ..] if *byte <= b' ' || *byte == quote => return at,
            _ => 1,
        }
    }
}

/// What a value may have in it that is not quoted.
fn is_unquoted(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f && !b"\"'`\\,;()[]{}<>|&".contains(&byte)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

fn is_authorization(name: &[u8]) -> bool {
    const WORD: &[u8] = b"authorization";
    name.len() >= WORD.len() && name[name.len() - WORD.len()..].eq_ignore_ascii_case(WORD)
}

/// Names that only headers have.
fn is_header(name: &[u8]) -> bool {
    let named = |other: &[u8]| name.eq_ignore_ascii_case(other);
    name.len() > 2 && named_x(name) || named(b"api-key") || named(b"private-token") || named(b"job-token")
}

fn named_x(name: &[u8]) -> bool {
    name[..2].eq_ignore_ascii_case(b"x-")
}
