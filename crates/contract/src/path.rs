//! Paths inside a repository, checked and normalised once at the edge.
//!
//! Contracts, locks and gates compare paths, so two spellings of one file must not exist past this
//! point, and no spelling may reach outside the repository or into git's own directory. The
//! `.git` rules cover what Windows (8.3 names, trailing dots, streams) and case-folding
//! filesystems would read as `.git`, because a change made here may be checked out there.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use unicode_normalization::UnicodeNormalization;

/// Longest path in bytes: Linux's `PATH_MAX`, past which no system call would take it.
pub const PATH_BYTES_MAX: usize = 4096;

/// Longest component in bytes: `NAME_MAX` of the filesystems git is checked out on.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Code points that show nothing, reorder what is shown, or that a case-folding filesystem drops
/// before comparing names (Unicode's default ignorables); any of them lets two names look alike.
const INVISIBLE: &[(u32, u32)] = &[
    (0x00AD, 0x00AD),   // soft hyphen
    (0x034F, 0x034F),   // combining grapheme joiner
    (0x061C, 0x061C),   // Arabic letter mark (bidi)
    (0x115F, 0x1160),   // Hangul fillers
    (0x17B4, 0x17B5),   // Khmer inherent vowels
    (0x180B, 0x180F),   // Mongolian variation selectors
    (0x200B, 0x200F),   // zero width characters, left-to-right and right-to-left marks
    (0x2028, 0x202E),   // line and paragraph separators, bidi embeddings and overrides
    (0x2060, 0x206F),   // word joiner, invisible operators, bidi isolates
    (0x3164, 0x3164),   // Hangul filler
    (0xFE00, 0xFE0F),   // variation selectors
    (0xFEFF, 0xFEFF),   // byte order mark
    (0xFFA0, 0xFFA0),   // halfwidth Hangul filler
    (0xFFF0, 0xFFFB),   // unassigned ignorables, interlinear annotation
    (0x1BCA0, 0x1BCA3), // shorthand format controls
    (0x1D173, 0x1D17A), // musical format controls
    (0xE0000, 0xE0FFF), // tags and supplementary variation selectors
];

/// A path relative to the repository's root, normalised and safe to hand to git.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RepoPath(String);

/// Why a text is not a path inside the repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Nothing is left once `.` and empty components are gone.
    #[error("path {0:?} names no file")]
    Empty(String),
    /// The path starts at a root or a drive.
    #[error("path {0:?} is absolute")]
    Absolute(String),
    /// The path steps upwards.
    #[error("path {0:?} contains a `..` component")]
    Parent(String),
    /// The path is longer than [`PATH_BYTES_MAX`].
    #[error("path of {0} bytes is longer than {PATH_BYTES_MAX}")]
    TooLong(usize),
    /// A component is longer than [`COMPONENT_BYTES_MAX`].
    #[error("path component {0:?} is longer than {COMPONENT_BYTES_MAX} bytes")]
    ComponentTooLong(String),
    /// The bytes are not UTF-8.
    #[error("path is not UTF-8 from byte {0} on")]
    NotUtf8(usize),
    /// The path contains NUL.
    #[error("path {0:?} contains a NUL character")]
    Nul(String),
    /// The path contains a backslash, a separator elsewhere.
    #[error("path {0:?} contains a backslash")]
    Backslash(String),
    /// The path contains a control character.
    #[error("path {path:?} contains the control character U+{code:04X}")]
    Control {
        /// The refused path.
        path: String,
        /// The character's code point.
        code: u32,
    },
    /// The path contains a character that is invisible or reorders text.
    #[error("path {path:?} contains the invisible character U+{code:04X}")]
    Invisible {
        /// The refused path.
        path: String,
        /// The character's code point.
        code: u32,
    },
    /// A component is `.git` or something a filesystem reads as `.git`.
    #[error("path component {0:?} can be read as `.git`")]
    GitDirectory(String),
}

impl RepoPath {
    /// Checks and normalises a path: `./a//b/` becomes `a/b`.
    pub fn parse(text: &str) -> Result<RepoPath, PathProblem> {
        // The length comes first so that no later message quotes an unbounded text.
        if text.len() > PATH_BYTES_MAX {
            return Err(PathProblem::TooLong(text.len()));
        }
        check_characters(text)?;
        if is_absolute(text) {
            return Err(PathProblem::Absolute(text.to_owned()));
        }
        let mut kept = Vec::new();
        for component in text.split('/') {
            match component {
                "" | "." => {}
                ".." => return Err(PathProblem::Parent(text.to_owned())),
                _ => {
                    check_component(component)?;
                    kept.push(component);
                }
            }
        }
        if kept.is_empty() {
            return Err(PathProblem::Empty(text.to_owned()));
        }
        Ok(RepoPath(kept.join("/")))
    }

    /// As [`RepoPath::parse`], for bytes as git prints them.
    pub fn parse_bytes(bytes: &[u8]) -> Result<RepoPath, PathProblem> {
        let text = std::str::from_utf8(bytes).map_err(|error| PathProblem::NotUtf8(error.valid_up_to()))?;
        RepoPath::parse(text)
    }

    /// The normalised path, components joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The components from the root down; at least one.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether this path is `dir` or lies below it, component by component.
    pub fn is_within(&self, dir: &RepoPath) -> bool {
        match self.0.strip_prefix(&dir.0) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }
}

/// The form in which a file system that ignores case and normalisation compares names: two names with the same
/// folded form are one file there.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Upper case first: it joins what lower case alone keeps apart (ß and ss, ς and σ, ſ and s).
    let upper: String = text.nfd().flat_map(char::to_uppercase).collect();
    upper.nfd().flat_map(char::to_lowercase).nfd().collect()
}

/// Whether a path is `dir` or lies below it, as a file system that ignores case and normalisation sees it.
pub fn lies_within(path: &RepoPath, dir: &RepoPath) -> bool {
    let mut components = path.components();
    dir.components().all(|name| components.next().is_some_and(|component| fold(component) == fold(name)))
}

fn check_characters(text: &str) -> Result<(), PathProblem> {
    for character in text.chars() {
        let code = u32::from(character);
        let path = || text.to_owned();
        if character == '\0' {
            return Err(PathProblem::Nul(path()));
        }
        if character == '\\' {
            return Err(PathProblem::Backslash(path()));
        }
        if character.is_control() {
            return Err(PathProblem::Control { path: path(), code });
        }
        if is_invisible(character) {
            return Err(PathProblem::Invisible { path: path(), code });
        }
    }
    Ok(())
}

/// A text that may be printed: what a terminal would act on, or nobody would see, is spelled out.
pub fn printable(text: &str) -> String {
    let hidden = |c: char| c.is_control() || is_invisible(c);
    text.chars().map(|c| if hidden(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// Whether a character shows nothing or reorders what is shown, so that people would approve another text than they
/// see.
pub fn is_invisible(character: char) -> bool {
    let code = u32::from(character);
    INVISIBLE.iter().any(|&(first, last)| (first..=last).contains(&code))
}

/// `/x`, and `c:` or `c:/x`, which Windows takes from a drive.
fn is_absolute(text: &str) -> bool {
    let bytes = text.as_bytes();
    let drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    text.starts_with('/') || drive
}

fn check_component(component: &str) -> Result<(), PathProblem> {
    if component.len() > COMPONENT_BYTES_MAX {
        return Err(PathProblem::ComponentTooLong(component.to_owned()));
    }
    if is_git_directory(component) {
        return Err(PathProblem::GitDirectory(component.to_owned()));
    }
    Ok(())
}

/// The rule of git's own `is_ntfs_dotgit`: the name or its 8.3 spelling, then only what NTFS drops
/// (dots and spaces), then the end or a stream.
fn is_git_directory(component: &str) -> bool {
    let folded = component.to_ascii_lowercase();
    let Some(rest) = folded.strip_prefix(".git").or_else(|| folded.strip_prefix("git~1")) else {
        return false;
    };
    let name_end = rest.split(':').next().unwrap_or_default();
    name_end.chars().all(|character| matches!(character, '.' | ' '))
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        RepoPath::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    #[test]
    fn normalises_to_one_spelling() {
        for (text, expected) in [
            ("a", "a"),
            ("./a", "a"),
            ("a/", "a"),
            ("a//b", "a/b"),
            ("./a/./b//", "a/b"),
            ("src/main.rs", "src/main.rs"),
            (".gitignore", ".gitignore"),
            (".github/workflows/ci.yml", ".github/workflows/ci.yml"),
            (".gitmodules", ".gitmodules"),
            ("git", "git"),
            ("a..b/...", "a..b/..."),
            ("mit Leer/größe.txt", "mit Leer/größe.txt"),
            ("日本/файл", "日本/файл"),
        ] {
            assert_eq!(path(text).as_str(), expected, "{text:?}");
            assert_eq!(RepoPath::parse_bytes(text.as_bytes()).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn refuses_and_names_the_reason() {
        for (text, expected) in [
            ("", r#"path "" names no file"#),
            (".", r#"path "." names no file"#),
            ("./", r#"path "./" names no file"#),
            ("/etc/passwd", r#"path "/etc/passwd" is absolute"#),
            ("C:/x", r#"path "C:/x" is absolute"#),
            ("..", r#"path ".." contains a `..` component"#),
            ("a/../b", r#"path "a/../b" contains a `..` component"#),
            ("a\0b", r#"path "a\0b" contains a NUL character"#),
            ("a\\b", r#"path "a\\b" contains a backslash"#),
            ("a\nb", r#"path "a\nb" contains the control character U+000A"#),
            ("a\u{7f}", r#"path "a\u{7f}" contains the control character U+007F"#),
            ("a\u{85}", r#"path "a\u{85}" contains the control character U+0085"#),
            ("a\u{202e}b", r#"path "a\u{202e}b" contains the invisible character U+202E"#),
            (".g\u{200c}it", r#"path ".g\u{200c}it" contains the invisible character U+200C"#),
        ] {
            assert_eq!(RepoPath::parse(text).unwrap_err().to_string(), expected);
        }
        assert_eq!(RepoPath::parse_bytes(b"a/\xff"), Err(PathProblem::NotUtf8(2)));
    }

    #[test]
    fn refuses_every_invisible_range() {
        for &(first, last) in INVISIBLE {
            for code in [first, last] {
                let text = format!("a{}", char::from_u32(code).unwrap());
                let refused = RepoPath::parse(&text);
                assert_eq!(refused, Err(PathProblem::Invisible { path: text, code }));
            }
        }
    }

    #[test]
    fn refuses_every_spelling_of_the_git_directory() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git . .",
            "git~1.",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".git. :x",
            "GIT~1::$DATA",
        ] {
            let expected = Err(PathProblem::GitDirectory(name.to_owned()));
            assert_eq!(RepoPath::parse(name), expected);
            assert_eq!(RepoPath::parse(&format!("a/{name}/config")), expected);
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let component = "a".repeat(COMPONENT_BYTES_MAX);
        assert!(RepoPath::parse(&component).is_ok());
        let longer = format!("{component}a");
        assert_eq!(RepoPath::parse(&longer), Err(PathProblem::ComponentTooLong(longer)));
        let full = format!("{}a", "b/".repeat(PATH_BYTES_MAX / 2 - 1)) + "c";
        assert_eq!(full.len(), PATH_BYTES_MAX);
        assert!(RepoPath::parse(&full).is_ok());
        assert_eq!(RepoPath::parse(&(full + "d")), Err(PathProblem::TooLong(4097)));
    }

    #[test]
    fn within_compares_components() {
        for (inner, dir, expected) in [
            ("src", "src", true),
            ("src/a", "src", true),
            ("src/a/b", "src/a", true),
            ("src-evil/x", "src", false),
            ("src", "src/a", false),
            ("lib/src", "src", false),
        ] {
            assert_eq!(path(inner).is_within(&path(dir)), expected, "{inner} in {dir}");
        }
        assert!(lies_within(&path("SRC/a"), &path("src")) && !lies_within(&path("src-evil/a"), &path("src")));
        assert!(!lies_within(&path("src"), &path("src/a")));
        assert_eq!(path("a/b/c").components().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_have_one_folded_form() {
        for (one, other) in [
            ("README", "readme"),
            ("gr\u{f6}\u{df}e", "GRO\u{308}SSE"),
            ("\u{3c3}\u{3c2}", "\u{3a3}\u{3a3}"),
            ("\u{212a}", "k"),
            ("\u{17f}", "s"),
        ] {
            assert_eq!(fold(one), fold(other), "{one:?} and {other:?}");
        }
        assert_ne!(fold("a"), fold("\u{e4}"));
    }

    #[test]
    fn deserialising_validates() {
        assert_eq!(serde_json::from_str::<RepoPath>(r#""./a//b""#).unwrap(), path("a/b"));
        assert!(serde_json::from_str::<RepoPath>(r#""../a""#).is_err());
        assert_eq!(serde_json::to_string(&path("a/b")).unwrap(), r#""a/b""#);
    }

    proptest! {
        #[test]
        fn parsing_twice_changes_nothing(text in "(\\PC|[./:~ ]|git){0,40}") {
            if let Ok(once) = RepoPath::parse(&text) {
                prop_assert_eq!(&RepoPath::parse(once.as_str()).unwrap(), &once);
                prop_assert!(once.components().all(|component| component != ".."));
            }
        }

        #[test]
        fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = RepoPath::parse_bytes(&bytes);
        }
    }
}
