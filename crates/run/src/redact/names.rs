//! What a name says about the value beside it.

use serde::Deserialize;
use std::sync::LazyLock;

/// `names.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    /// Words of which one is enough.
    secret: Vec<String>,
    /// Words that are about much else as well.
    weak: Vec<String>,
    /// Words that are secret in URLs, since whoever has the URL has what it opens.
    in_urls: Vec<String>,
    /// Words that leave no doubt about a key.
    makes_key_secret: Vec<String>,
    /// Words that say that it is for everybody to see.
    never: Vec<String>,
    /// Words that say so if they come last.
    never_last: Vec<String>,
    /// What stands in a value that is still to be given.
    pub(super) placeholders: Vec<String>,
    /// Passwords that are known to everybody.
    pub(super) plain_passwords: Vec<String>,
}

pub(super) static NAMES: LazyLock<Names> =
    LazyLock::new(|| serde_json::from_str(include_str!("names.json")).expect("BUG: names.json is verified by a test"));

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Saying {
    /// Nothing of secrets.
    Nothing,
    /// It may be a secret.
    Perhaps,
    /// It is one.
    Secret,
}

/// Words with which a name ends even where it is written as one: `PGPASSWORD`, `authtoken`.
const ENDS: [&[u8]; 5] = [b"token", b"secret", b"password", b"passwd", b"apikey"];

pub(super) fn saying(name: &[u8]) -> Saying {
    if !may_say(name) {
        return Saying::Nothing;
    }
    let words = words(name);
    let Some(last) = words.last() else { return Saying::Nothing };
    let is = |list: &[String], word: &[u8]| list.iter().any(|listed| listed.as_bytes() == word);
    let any = |list: &[String]| words.iter().any(|word| is(list, word));
    if any(&NAMES.never) || is(&NAMES.never_last, last) {
        return Saying::Nothing;
    }
    let key = words.windows(2).any(|pair| pair[1] == b"key" && is(&NAMES.makes_key_secret, &pair[0]));
    if key || any(&NAMES.secret) || ENDS.iter().any(|end| last.ends_with(end)) {
        return Saying::Secret;
    }
    if any(&NAMES.weak) { Saying::Perhaps } else { Saying::Nothing }
}

/// What the name of a parameter says.
pub(super) fn parameter_saying(name: &[u8]) -> Saying {
    let signs = || words(name).last().is_some_and(|last| NAMES.in_urls.iter().any(|word| word.as_bytes() == last));
    match saying(name) {
        Saying::Nothing if signs() => Saying::Perhaps,
        says => says,
    }
}

/// Most names have nothing of these in them, and are not looked at closer.
fn may_say(name: &[u8]) -> bool {
    let pair = |pair: &[u8]| {
        matches!(
            (pair[0] | 0x20, pair[1] | 0x20),
            (b'k' | b's', b'e') | (b't', b'o') | (b'p', b'a' | b'w') | (b'c', b'r' | b'e') | (b'a', b'u')
        )
    };
    name.windows(2).any(pair)
}

/// The words of a name in lower case: `X-Api-Key`, `api_key` and `apiKey` are the same.
fn words(name: &[u8]) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut before = b'_';
    for &byte in name {
        let begins = !before.is_ascii_alphanumeric() || before.is_ascii_lowercase() && byte.is_ascii_uppercase();
        match words.last_mut() {
            _ if !byte.is_ascii_alphanumeric() => {}
            Some(word) if !begins => word.push(byte.to_ascii_lowercase()),
            _ => words.push(vec![byte.to_ascii_lowercase()]),
        }
        before = byte;
    }
    words
}
