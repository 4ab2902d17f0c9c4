//! A command that a contract gives as one string. It becomes words by the rules of a POSIX shell (quotes and
//! backslashes), and is refused if a shell would do more with it than that: nothing is ever given to a shell, so
//! whoever wrote `a && b` or `$HOME` meant something else than would happen. Where readers of such strings disagree
//! (`"\$"`), it is refused too.

/// What only a shell understands, outside quotes.
const METACHARACTERS: &str = ";&|<>()$`*?[]{}!";

/// What a shell still understands between double quotes.
const EXPANSIONS: &str = "$`";

/// Why a string is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// There is no word in it.
    #[error("there is no command in it")]
    Empty,
    /// A shell would do something at this character.
    #[error(
        "{found:?} (character {at}) means something to a shell, and there is none; quote it with '…', or use a script"
    )]
    Metacharacter {
        /// Which character.
        found: char,
        /// Its place, from 1.
        at: usize,
    },
    /// A character that shows nothing or ends a line.
    #[error("the control or invisible character U+{code:04X} (character {at}) has no place in a command")]
    Hidden {
        /// Which character.
        code: u32,
        /// Its place, from 1.
        at: usize,
    },
    /// A quotation does not end.
    #[error("the quotation that begins with {quote} (character {at}) does not end")]
    Open {
        /// Which quote.
        quote: char,
        /// Its place, from 1.
        at: usize,
    },
    /// A backslash is the last character.
    #[error("the backslash at the end escapes nothing")]
    Dangling,
}

type Characters<'t> = std::iter::Zip<std::ops::RangeFrom<usize>, std::str::Chars<'t>>;

/// Splits a command line into its words.
pub fn split(text: &str) -> Result<Vec<String>, SplitError> {
    let hidden = |c: char| c.is_control() && c != '\t' || crate::path::is_invisible(c);
    if let Some((at, found)) = (1..).zip(text.chars()).find(|(_, c)| hidden(*c)) {
        return Err(SplitError::Hidden { code: found.into(), at });
    }
    let mut words = Vec::new();
    // None between words, so that `''` is a word and a blank is not.
    let mut word: Option<String> = None;
    let mut characters: Characters<'_> = (1..).zip(text.chars());
    while let Some((at, found)) = characters.next() {
        match found {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => quotation(&mut characters, at, found, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(characters.next().ok_or(SplitError::Dangling)?.1),
            // A comment and a home directory, but only where a word begins.
            '#' | '~' if word.is_none() => return Err(SplitError::Metacharacter { found, at }),
            _ if METACHARACTERS.contains(found) => return Err(SplitError::Metacharacter { found, at }),
            _ => word.get_or_insert_default().push(found),
        }
    }
    words.extend(word);
    if words.is_empty() { Err(SplitError::Empty) } else { Ok(words) }
}

fn quotation(characters: &mut Characters<'_>, at: usize, quote: char, word: &mut String) -> Result<(), SplitError> {
    let open = SplitError::Open { quote, at };
    loop {
        let (at, found) = characters.next().ok_or(open)?;
        match found {
            _ if found == quote => return Ok(()),
            _ if quote == '"' && EXPANSIONS.contains(found) => return Err(SplitError::Metacharacter { found, at }),
            '\\' if quote == '"' => escape(characters, open, word)?,
            _ => word.push(found),
        }
    }
}

/// Between double quotes a backslash escapes only a quote and itself; before anything else it is a backslash.
fn escape(characters: &mut Characters<'_>, open: SplitError, word: &mut String) -> Result<(), SplitError> {
    let (at, found) = characters.next().ok_or(open)?;
    if EXPANSIONS.contains(found) {
        return Err(SplitError::Metacharacter { found, at });
    }
    if !matches!(found, '"' | '\\') {
        word.push('\\');
    }
    word.push(found);
    Ok(())
}

/// Words as one line that is split into the same words again.
pub fn join(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn words_are_split_as_a_shell_would() {
        check("pytest -x tests/a.py", &["pytest", "-x", "tests/a.py"]);
        check("  a\t b ", &["a", "b"]);
        check("pytest -k 'a and (b or c)'", &["pytest", "-k", "a and (b or c)"]);
        check(r#"a "b \"c\" \\ \n" 'd\'"#, &["a", r#"b "c" \ \n"#, r"d\"]);
        check(r"a\ b \; ''", &["a b", ";", ""]);
        check("a'b'\"c\"d", &["abcd"]);
        check("x a#b a~b", &["x", "a#b", "a~b"]);
    }

    #[test]
    fn whatever_only_a_shell_understands_is_refused() {
        let lines = [
            "a; b",
            "a && b",
            "a | b",
            "a > f",
            "a < f",
            "a &",
            "$(a)",
            "`a`",
            "a $HOME",
            "a \"$HOME\"",
            "a \"`b`\"",
            "a \"\\$x\"",
            "a *.rs",
            "a ?",
            "a [b]",
            "{a,b}",
            "(a)",
            "!a",
            "a # b",
            "~/a",
            "a ~",
        ];
        for line in lines {
            assert!(matches!(split(line), Err(SplitError::Metacharacter { .. })), "{line}: {:?}", split(line));
        }
        assert_eq!(split("a; b").unwrap_err(), SplitError::Metacharacter { found: ';', at: 2 });
    }

    #[test]
    fn what_does_not_end_or_does_not_show_is_refused() {
        assert_eq!(split(""), Err(SplitError::Empty));
        assert_eq!(split(" \t"), Err(SplitError::Empty));
        assert_eq!(split("a 'b"), Err(SplitError::Open { quote: '\'', at: 3 }));
        assert_eq!(split("a \"b\\"), Err(SplitError::Open { quote: '"', at: 3 }));
        assert_eq!(split("a\\"), Err(SplitError::Dangling));
        for hidden in ["a\nb", "a\0", "'a\r'", "a\u{202e}b", "\u{1b}[2J"] {
            assert!(matches!(split(hidden), Err(SplitError::Hidden { .. })), "{hidden:?}");
        }
    }

    proptest! {
        #[test]
        fn joined_words_come_back_as_they_were(words in proptest::collection::vec("[ -~é]{0,12}", 1..6)) {
            prop_assert_eq!(split(&join(&words)).unwrap(), words);
        }

        #[test]
        fn a_line_without_quotes_is_its_words_or_nothing(line in "[ -~]{0,40}") {
            prop_assume!(!line.contains(['\'', '"', '\\']));
            if let Ok(words) = split(&line) {
                prop_assert_eq!(words.join(" "), line.split_whitespace().collect::<Vec<_>>().join(" "));
                prop_assert!(!line.contains(|c| METACHARACTERS.contains(c)));
            }
        }

        #[test]
        fn no_line_panics(line in "(\\PC|['\"\\\\$ \\n]){0,40}") {
            let _ = split(&line);
        }
    }
}
