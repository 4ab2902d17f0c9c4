//! Takes the key out of what comes back. A provider has no reason to repeat it, but an endpoint that shows requests
//! for debugging does, and then it would be in the sandbox and on record.

/// What stands in the key's place.
const MASK: &[u8] = b"***";

/// Replaces one word in bytes that arrive in pieces. A piece's end is held back only while it could be the beginning
/// of the word, so nothing is delayed otherwise.
pub(crate) struct Redactor {
    word: Vec<u8>,
    held: Vec<u8>,
}

impl Redactor {
    /// An empty word is never found.
    pub(crate) fn new(word: &str) -> Redactor {
        Redactor { word: word.as_bytes().to_vec(), held: Vec::new() }
    }

    /// The next bytes, without the word.
    pub(crate) fn piece(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.word.is_empty() {
            return bytes.to_vec();
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        let (mut clean, rest) = replaced(&text, &self.word);
        let keep = beginning_at_end(rest, &self.word);
        clean.extend_from_slice(&rest[..rest.len() - keep]);
        self.held = rest[rest.len() - keep..].to_vec();
        clean
    }

    /// What was held back, now that nothing follows.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// A whole text without the word.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.word.is_empty() {
            return text.to_owned();
        }
        let (mut clean, rest) = replaced(text.as_bytes(), &self.word);
        clean.extend_from_slice(rest);
        String::from_utf8_lossy(&clean).into_owned()
    }
}

/// The text up to the last place of the word, with the word masked, and what follows.
fn replaced<'a>(text: &'a [u8], word: &[u8]) -> (Vec<u8>, &'a [u8]) {
    let mut clean = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(word.len()).position(|window| window == word) {
        clean.extend_from_slice(&rest[..at]);
        clean.extend_from_slice(MASK);
        rest = &rest[at + word.len()..];
    }
    (clean, rest)
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
            let whole = Redactor::new(&word).text(&text);
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
