//! The words of a sentence that may name something, and which name is nearest to one that was misspelt.

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

/// Which of the names is nearest to a word, if one is near enough to have been meant. Names are compared part by part
/// (`test_b.py` beside `test_a.py` is another file, `tset_a.py` is a slip), and one that has other digits is another.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let folded = word.to_lowercase();
    let ranked = names.filter(|name| *name != word).filter_map(|name| {
        let steps = slips(&folded, &name.to_lowercase())?;
        Some((steps, name))
    });
    ranked.min_by_key(|(steps, name)| (*steps, name.len())).map(|(_, name)| name)
}

/// How many slips lie between two names, if they are few for their length.
fn slips(one: &str, other: &str) -> Option<usize> {
    let without_digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    if one != other && without_digits(one) == without_digits(other) {
        return None;
    }
    let parts = |text: &str| text.split(['_', '-', '.', ' ']).map(str::to_owned).collect::<Vec<_>>();
    let (these, those) = (parts(one), parts(other));
    if these.len() != those.len() {
        // A separator that was left out, or put in.
        return distance(one, other, 1).filter(|_| these.concat() == those.concat());
    }
    these.iter().zip(&those).map(|(this, that)| distance(this, that, slips_max(this))).sum()
}

/// How many slips a word of this length may have.
fn slips_max(word: &str) -> usize {
    match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    }
}

/// How many letters differ; none if more than `most`.
fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    Some(contract::edit_distance(one, other)).filter(|steps| *steps <= most)
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

    #[test]
    fn the_nearest_name_is_one_that_may_have_been_meant() {
        let check = |word: &str, expected: Option<&str>| {
            let names = ["src", "tests", "parser.py", "README.md", "status"];
            assert_eq!(nearest(word, names.into_iter()), expected, "{word}");
        };
        check("scr", Some("src"));
        check("test", Some("tests"));
        check("praser.py", Some("parser.py"));
        check("readme.md", Some("README.md"));
        check("completely-else", None);
        check("x", None);
        let check = |word: &str, expected: Option<&str>| {
            let names = ["test_a.py", "file10.txt", "my-module"];
            assert_eq!(nearest(word, names.into_iter()), expected, "{word}");
        };
        check("test_b.py", None);
        check("tset_a.py", Some("test_a.py"));
        check("file11.txt", None);
        check("fiel10.txt", Some("file10.txt"));
        check("mymodule", Some("my-module"));
    }
}
