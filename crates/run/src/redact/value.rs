//! Whether a value looks like a secret: made by chance, and not by a person for people. Whole numbers only, so that every
//! machine says the same.

use super::names::{NAMES, Saying};

/// As much of a value is looked at.
const LOOKED_AT: usize = 128;

/// Shorter values are no secrets by their looks.
const LENGTH_MIN: usize = 16;

/// Where the name may mean much else.
const DOUBTFUL_LENGTH_MIN: usize = 20;

/// Bits for each byte, in parts of 256.
const ENTROPY_MIN: usize = 3 * 256;
const DOUBTFUL_ENTROPY_MIN: usize = 7 * 128;

/// Whether a value is a secret, after what its name says. What is quoted is a value; what is not may be code.
pub(super) fn is_secret(value: &[u8], saying: Saying, quoted: bool) -> bool {
    let doubtful = saying != Saying::Secret;
    let least = if doubtful { DOUBTFUL_LENGTH_MIN } else { LENGTH_MIN };
    if value.len() < least {
        return false;
    }
    let value = &value[..value.len().min(LOOKED_AT)];
    let has = |class: fn(&u8) -> bool| value.iter().any(class);
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let changes = changes(value);
    // What is not quoted may be a name of the program's own.
    let by_chance = changes * if quoted && !doubtful { 5 } else { 3 } >= value.len();
    let entropy = entropy(value);
    let public = doubtful && [&b"MI"[..], b"MF", b"AAAA"].iter().any(|start| value.starts_with(start));
    by_chance
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && entropy >= if doubtful { DOUBTFUL_ENTROPY_MIN } else { ENTROPY_MIN }
        && (!doubtful || mixed && !public)
        && is_candidate(value)
}

/// Whether a short value may be one, where it stands for nothing else: in a header, or in a URL.
pub(super) fn may_be_secret(value: &[u8]) -> bool {
    let seen = &value[..value.len().min(LOOKED_AT)];
    let has = |class: fn(&u8) -> bool| seen.iter().any(class);
    seen.len() >= 8 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && is_candidate(seen)
}

/// Whether a value behind `Authorization:` is meant as it is written.
pub(super) fn may_stand(value: &[u8]) -> bool {
    !is_placeholder(value) && !is_reference(value)
}

/// What is known not to be a secret is none, whatever it looks like.
fn is_candidate(value: &[u8]) -> bool {
    let value = &value[..value.len().min(LOOKED_AT)];
    !is_number(value)
        && !is_uuid(value)
        && !is_digest(value)
        && !is_reference(value)
        && !is_words(value)
        && !is_placeholder(value)
}

fn is_number(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_digit() || b".eE+-_".contains(byte))
}

fn is_uuid(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"urn:uuid:").unwrap_or(value);
    let dash = |at: usize| [8, 13, 18, 23].contains(&at);
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| if dash(at) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// `sha256:…`, `sha512-…`, `md5=…`.
fn is_digest(value: &[u8]) -> bool {
    let prefixes = [&b"sha1"[..], b"sha256", b"sha384", b"sha512", b"md5", b"blake3"];
    let after = prefixes.iter().find_map(|prefix| value.strip_prefix(*prefix)).and_then(|rest| rest.first());
    after.is_some_and(|byte| b":-=_".contains(byte))
}

/// A path, a URL, a variable, a template: what says where a value is, not what it is.
fn is_reference(value: &[u8]) -> bool {
    let starts = |start: &[u8]| value.starts_with(start);
    let contains = |part: &[u8]| value.windows(part.len()).any(|window| window == part);
    let path = starts(b"./") || starts(b"../") || starts(b"~/") || starts(b"/") && value[1..].contains(&b'/');
    let variable = value.first().is_some_and(|byte| b"$%{<@*&".contains(byte));
    path || variable || [&b"${"[..], b"{{", b"$(", b"://", b"::", b"->", b"()"].iter().any(|part| contains(part))
}

/// Words, numbers and short parts with something between them, as people name things.
fn is_words(value: &[u8]) -> bool {
    let parts: Vec<&[u8]> = value.split(|byte| b"-_./:@+, ".contains(byte)).collect();
    let word = |part: &[u8]| {
        let rest = part.get(1..).unwrap_or_default();
        part.len() <= 3
            || part.iter().all(u8::is_ascii_digit) && part.len() <= 8
            || part.iter().all(u8::is_ascii_uppercase)
            || part[0].is_ascii_alphabetic() && rest.iter().all(u8::is_ascii_lowercase)
    };
    parts.len() > 1 && parts.into_iter().all(word)
}

fn is_placeholder(value: &[u8]) -> bool {
    let lower = value[..value.len().min(LOOKED_AT)].to_ascii_lowercase();
    let contains = |part: &String| {
        let first = part.as_bytes()[0];
        lower.windows(part.len()).any(|window| window[0] == first && window == part.as_bytes())
    };
    NAMES.placeholders.iter().any(contains)
}

/// How often the class of a byte changes. A capital letter and what follows it are one, and what parts the words of a
/// name is none.
fn changes(value: &[u8]) -> usize {
    let class = |byte: u8| match byte {
        b'_' | b'.' | b'-' | b':' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 4,
    };
    let changes = |pair: &&[u8]| match (class(pair[0]), class(pair[1])) {
        (0, _) | (_, 0) | (2, 1) => false,
        (one, other) => one != other,
    };
    value.windows(2).filter(changes).count()
}

/// Shannon's entropy of a value: bits for each byte, in parts of 256.
fn entropy(value: &[u8]) -> usize {
    let mut counts = [0_usize; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let repeated: usize = counts.iter().filter(|count| **count > 1).map(|count| count * log2(*count)).sum();
    log2(value.len()) - repeated / value.len()
}

/// The logarithm of a number from 1 to 2^16, in parts of 256.
fn log2(number: usize) -> usize {
    let whole = number.ilog2() as usize;
    // Scaled to 1..2 with 16 bits behind the point; each squaring yields one more binary digit.
    let mut rest = (number << 16) >> whole;
    let mut log = whole << 8;
    for digit in (0..8).rev() {
        rest = (rest * rest) >> 16;
        if rest >= 2 << 16 {
            rest >>= 1;
            log |= 1 << digit;
        }
    }
    log
}

/// The password in a URL, if there is one that is not known to everybody.
pub(super) fn url_password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    is_password(name.as_bytes(), password.as_bytes()).then_some(password)
}

/// Whether the password of a user in a URL is worth hiding.
pub(super) fn is_password(user: &[u8], password: &[u8]) -> bool {
    let plain = NAMES.plain_passwords.iter().any(|plain| plain.as_bytes().eq_ignore_ascii_case(password));
    let template = password.iter().any(|byte| b"${}<>*%".contains(byte)) && !password.iter().any(u8::is_ascii_digit);
    let variable = password.first().is_some_and(|byte| b"${<".contains(byte));
    password.len() >= 4 && !plain && !template && !variable && password != user && !is_placeholder(password)
}
