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
    "am",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "bug",
    "bugs",
    "but",
    "by",
    "can",
    "change",
    "class",
    "clean",
    "code",
    "create",
    "delete",
    "do",
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
    "if",
    "implement",
    "improve",
    "in",
    "into",
    "is",
    "it",
    "its",
    "let",
    "like",
    "make",
    "makes",
    "me",
    "method",
    "more",
    "must",
    "my",
    "need",
    "needs",
    "new",
    "no",
    "not",
    "now",
    "of",
    "on",
    "one",
    "only",
    "or",
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
    "so",
    "some",
    "spec",
    "support",
    "test",
    "testing",
    "tests",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "this",
    "to",
    "two",
    "up",
    "update",
    "use",
    "used",
    "uses",
    "using",
    "we",
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

/// A shorter word names nothing.
const WORD_CHARS_MIN: usize = 2;

/// What is left of a word without its ending is no shorter.
const STEM_CHARS_MIN: usize = 3;

/// A shorter word is in most files.
const SEARCHED_CHARS_MIN: usize = 4;

/// How many words the files are searched for: each reads the whole tree.
const SEARCHED_MAX: usize = 8;

/// The tokens of a sentence, without the punctuation around them.
pub(super) fn tokens(sentence: &str) -> impl Iterator<Item = &str> {
    let around = |c: char| "\"'`,;:!?()[]{}<>“”‘’*".contains(c);
    let trimmed = sentence.split_whitespace().map(move |token| token.trim_matches(around).trim_end_matches('.'));
    trimmed.map(move |token| token.trim_matches(around)).filter(|token| !token.is_empty())
}

/// The words of a text that may name something, each once and by its stem: identifiers count by their parts, and words that
/// every sentence has do not count.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in parts(text) {
        let stem = stem(&word);
        let counts = word.chars().count() >= WORD_CHARS_MIN && !word.chars().all(|c| c.is_ascii_digit());
        if counts && !PLAIN.contains(&word.as_str()) && !found.contains(&stem) {
            found.push(stem);
        }
    }
    found
}

/// The stems of all parts of a name, whatever they are.
pub(super) fn stems(name: &str) -> impl Iterator<Item = String> {
    parts(name).into_iter().map(|part| stem(&part))
}

/// The parts of a text in lower case: cut at everything that is no letter or digit, and at humps of identifiers.
fn parts(text: &str) -> Vec<String> {
    let (mut all, mut part, mut before) = (Vec::new(), String::new(), ' ');
    for c in text.chars().chain([' ']) {
        let is_hump = c.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if (is_hump || !c.is_alphanumeric()) && !part.is_empty() {
            all.push(std::mem::take(&mut part));
        }
        if c.is_alphanumeric() {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    all
}

/// A word without its commonest endings, so that `parser`, `parsing` and `parse` are one. Only ever compared with another.
fn stem(word: &str) -> String {
    let ends = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= STEM_CHARS_MIN);
    if let Some(stem) = ends("ies") {
        return format!("{stem}y");
    }
    let endings = ["ing", "ed", "es", "er", "s", "e"];
    let cut = endings.into_iter().filter(|_| !word.ends_with("ss")).find_map(ends);
    cut.unwrap_or(word).to_owned()
}

/// The words that the text of files is searched for, as they are written: the longer ones, whose presence says something.
pub(super) fn searched(sentence: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in sentence.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let is_long = word.chars().count() >= SEARCHED_CHARS_MIN && word.chars().any(char::is_alphabetic);
        if is_long && !PLAIN.contains(&word.to_lowercase().as_str()) && !found.iter().any(|it| it == word) {
            found.push(word.to_owned());
        }
    }
    found.truncate(SEARCHED_MAX);
    found
}

/// Whether a word is written as code is: `snake_case` or `camelCase`.
pub(super) fn is_identifier(word: &str) -> bool {
    let humps = word.chars().zip(word.chars().skip(1));
    word.contains('_') || humps.into_iter().any(|(a, b)| a.is_lowercase() && b.is_uppercase())
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
        assert_eq!(words("Fix the parser's error, please: it must handle `NaN`."), ["pars", "na"]);
        assert_eq!(words("feat(parse): let queryParser2 read 42"), ["feat", "pars", "query", "parser2", "read"]);
        let same = ["parser", "parsing", "parsed", "parses", "Parse"].map(|word| words(word).concat());
        assert_eq!(same, ["pars"; 5]);
        assert_eq!((words("class"), words("queries")), (vec![], vec!["query".to_owned()]));
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
