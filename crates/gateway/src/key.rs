//! A provider's key: given once, put into one header, shown to nobody.

use std::fmt;
use zeroize::Zeroizing;

/// A provider's key. It has no way out of this crate: not by `Debug`, not by serialisation. Its memory is overwritten when
/// it is dropped.
#[derive(Clone)]
pub struct Key {
    text: Zeroizing<String>,
    is_bearer: bool,
}

/// Why a text is no key. Says nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// It could not be a header's value.
    #[error("a key consists of visible ASCII characters only")]
    Characters,
}

/// Shortest key that is one: `EMPTY`, `ollama` and `none` are what servers of one's own take, and words of many answers.
const SECRET_BYTES_MIN: usize = 8;

impl Key {
    /// Takes a key, without the white space around it that files and variables tend to have.
    pub fn new(text: &str) -> Result<Key, KeyProblem> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyProblem::Characters);
        }
        Ok(Key { text: Zeroizing::new(text.to_owned()), is_bearer: false })
    }

    /// The same shown as a token: in the `authorization` header, whatever the provider's own header for keys is.
    #[must_use]
    pub fn as_bearer(self) -> Key {
        Key { is_bearer: true, ..self }
    }

    /// No key, for an endpoint of one's own that asks for none.
    pub fn none() -> Key {
        Key { text: Zeroizing::default(), is_bearer: false }
    }

    /// The key itself; empty if there is none.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }

    /// What must not come back: the key, where it is long enough not to be in an answer by chance; else nothing.
    pub(crate) fn secret(&self) -> &str {
        if self.is_secret() { &self.text } else { "" }
    }

    /// Whether it is searched for in what comes back.
    pub fn is_secret(&self) -> bool {
        self.text.len() >= SECRET_BYTES_MIN
    }

    pub(crate) fn is_bearer(&self) -> bool {
        self.is_bearer
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_nothing() {
        let key = Key::new(" sk-very-secret\n").unwrap();
        assert_eq!(format!("{key:?}"), "***");
        assert_eq!(key.reveal(), "sk-very-secret");
    }

    #[test]
    fn a_word_that_servers_of_ones_own_take_is_sent_and_not_searched_for() {
        for word in ["EMPTY", "ollama", "none"] {
            let key = Key::new(word).unwrap();
            assert_eq!((key.reveal(), key.secret(), key.is_secret()), (word, "", false));
        }
        assert_eq!(Key::new("sk-very-secret").unwrap().secret(), "sk-very-secret");
    }

    #[test]
    fn refuses_what_would_end_its_header() {
        assert_eq!(Key::new("sk-very\r\nsecret").unwrap_err(), KeyProblem::Characters);
        assert_eq!(Key::new("sk-very-sécret").unwrap_err(), KeyProblem::Characters);
    }
}
