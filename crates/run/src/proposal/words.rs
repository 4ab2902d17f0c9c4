//! The words of a sentence that may name something.

/// Words that name nothing in particular.
const PLAIN: &[&str] = &[
    "about",
    "add",
    "added",
    "after",
    "all",
    "allow",
    "also",
    "and",
    "any",
    "are",
    "bug",
    "bugs",
    "but",
    "can",
    "change",
    "class",
    "clean",
    "code",
    "create",
    "delete",
    "does",
    "dont",
    "each",
    "error",
    "errors",
    "every",
    "fail",
    "failing",
    "fails",
    "faster",
    "file",
    "files",
    "fix",
    "fixes",
    "for",
    "from",
    "function",
    "functions",
    "give",
    "handle",
    "has",
    "have",
    "how",
    "implement",
    "improve",
    "into",
    "its",
    "let",
    "like",
    "make",
    "makes",
    "method",
    "more",
    "must",
    "need",
    "needs",
    "new",
    "not",
    "now",
    "one",
    "only",
    "out",
    "pass",
    "passes",
    "please",
    "project",
    "refactor",
    "remove",
    "rename",
    "repository",
    "return",
    "returns",
    "run",
    "say",
    "says",
    "should",
    "show",
    "simple",
    "small",
    "some",
    "spec",
    "support",
    "test",
    "tests",
    "testing",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "this",
    "two",
    "update",
    "use",
    "used",
    "uses",
    "using",
    "what",
    "when",
    "where",
    "which",
    "with",
    "without",
    "work",
    "works",
    "write",
    "you",
    "your",
];

/// Names of technologies that look like files.
const NOT_FILES: &[&str] = &["node.js", "next.js", "vue.js", "react.js", "express.js", "d3.js", "three.js", "asp.net"];

/// The longest ending of a file name that a sentence may name.
const ENDING_CHARS_MAX: usize = 5;

/// The tokens of a sentence, without the punctuation around them.
pub(super) fn tokens(sentence: &str) -> impl Iterator<Item = &str> {
    let around = |c: char| "\"'`,;:!?()[]{}<>“”‘’*".contains(c);
    let trimmed = sentence.split_whitespace().map(move |token| token.trim_matches(around).trim_end_matches('.'));
    trimmed.map(move |token| token.trim_matches(around)).filter(|token| !token.is_empty())
}

/// The words that may name something: lower case, and none that every sentence has.
pub(super) fn words(sentence: &str) -> Vec<String> {
    let words = tokens(sentence).map(|token| token.strip_suffix("'s").unwrap_or(token).to_lowercase());
    let mut found: Vec<String> =
        words.filter(|word| word.chars().count() >= 3 && !PLAIN.contains(&word.as_str())).collect();
    found.dedup();
    found
}

/// Whether a token is written as the name of a file, whether or not there is one.
pub(super) fn looks_like_a_file(token: &str) -> bool {
    let name = super::name(token);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let plain = |c: char| c.is_alphanumeric() || "_-./+".contains(c);
    let ends = (1..=ENDING_CHARS_MAX).contains(&ending.chars().count()) && ending.chars().all(char::is_alphanumeric);
    ends && ending.chars().any(char::is_alphabetic)
        && stem.chars().any(char::is_alphabetic)
        && (stem.chars().count() > 1 || token.contains('/'))
        && token.chars().all(plain)
        && !token.contains("..")
        && !NOT_FILES.contains(&token.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_every_sentence_has_are_none() {
        assert_eq!(words("Fix the parser's error, please: it must handle `NaN`."), ["parser", "nan"]);
        assert_eq!(tokens("look at (src/parse.rs), then e.g. this.").collect::<Vec<_>>()[2], "src/parse.rs");
    }

    #[test]
    fn a_file_is_known_by_how_it_is_written() {
        for token in ["a1.py", "src/new.rs", "README.md", "hello.txt", ".github/x.yml", "CMakeLists.txt"] {
            assert!(looks_like_a_file(token), "{token}");
        }
        for token in ["parser", "1.5", "v1.2", "e.g", "Node.js", "../x.py", "a=b.c", "x.", "..."] {
            assert!(!looks_like_a_file(token), "{token}");
        }
    }
}
