//! Takes the key out of what comes back. A provider has no reason to repeat it, but an endpoint that shows requests
//! for debugging does, and then it would be in the sandbox and on record.
//!
//! What goes on record is redacted once more by whoever keeps it, by what secrets look like. This one stands before
//! the agent: it knows the one word that must not get in, however short, and lets everything else pass at once.

/// What stands in the key's place.
const MASK: &str = "***";

/// Replaces one word in bytes that arrive in pieces. A piece's end is held back only while it could be the beginning
/// of the word, so nothing is delayed otherwise.
pub(crate) struct Redactor<'w> {
    word: &'w [u8],
    held: Vec<u8>,
}

impl<'w> Redactor<'w> {
    /// An empty word is never found.
    pub(crate) fn new(word: &'w str) -> Redactor<'w> {
        Redactor { word: word.as_bytes(), held: Vec::new() }
    }

    /// The next bytes, without the word.
    pub(crate) fn piece(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.word.is_empty() {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        let mut clean = Vec::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        while let Some(at) = rest.windows(self.word.len()).position(|window| window == self.word) {
            clean.extend_from_slice(&rest[..at]);
            clean.extend_from_slice(MASK.as_bytes());
            rest = &rest[at + self.word.len()..];
        }
        let (passed, held) = rest.split_at(rest.len() - beginning_at_end(rest, self.word));
        clean.extend_from_slice(passed);
        self.held = held.to_vec();
        clean
    }

    /// What was held back, now that nothing follows.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// A whole text without the word.
pub(crate) fn redacted(text: &str, word: &str) -> String {
    if word.is_empty() { text.to_owned() } else { text.replace(word, MASK) }
}

/// How many bytes at the end of a text are a beginning of the word.
fn beginning_at_end(text: &[u8], word: &[u8]) -> usize {
    (1..word.len()).rev().find(|&length| text.ends_with(&word[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn holds_back_nothing_without_need() {
        let mut redactor = Redactor::new("secret-key");
        assert_eq!(redactor.piece(b"data: hello\n\n"), b"data: hello\n\n");
        assert_eq!(redactor.piece(b"a secret"), b"a ");
        assert_eq!(redactor.piece(b"-key b"), b"*** b");
        assert_eq!(redactor.piece(b"sec"), b"");
        assert_eq!(redactor.end(), b"sec");
    }

    proptest! {
        #[test]
        fn pieces_are_like_the_whole(text in "[ab]{0,40}", word in "[ab]{1,4}", size in 1usize..7) {
            let whole = redacted(&text, &word);
            let mut redactor = Redactor::new(&word);
            let mut joined: Vec<u8> = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                joined.extend(redactor.piece(piece));
            }
            joined.extend(redactor.end());
            prop_assert_eq!(String::from_utf8(joined).unwrap(), whole);
        }
    }
}
