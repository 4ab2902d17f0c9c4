//! Lists of paths as data: what a gate has to know about names is written down one line a pattern, each with its
//! reason and with examples that a test holds it to.

use super::scope::ChangedPath;
use contract::RepoPath;
use contract::policy::{FoldedPath, PathPattern};
use serde::Deserialize;

/// One line of such a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    /// As in `protected_paths.json`.
    pattern: String,
    /// Names that the pattern does not mean.
    #[serde(default)]
    except: Vec<String>,
    pub(super) reason: String,
    #[serde(rename = "match")]
    #[cfg_attr(not(test), allow(dead_code, reason = "examples are read by the test that verifies them"))]
    examples: Vec<String>,
    #[cfg_attr(not(test), allow(dead_code, reason = "examples are read by the test that verifies them"))]
    not_match: Vec<String>,
}

/// A list that can be asked.
#[derive(Debug)]
pub(super) struct PathList(Vec<(PathPattern, Listed)>);

impl PathList {
    /// Compiles the lines of a list that comes with norma.
    pub(super) fn new(lines: Vec<Listed>) -> PathList {
        PathList(lines.into_iter().map(|line| (line.compiled(), line)).collect())
    }

    /// The reason of the first line that means this path; none for names that no path in a repository may have.
    pub(super) fn reason(&self, path: &[u8]) -> Option<&str> {
        let path = FoldedPath::new(&RepoPath::parse_bytes(path).ok()?);
        self.0.iter().find(|(pattern, _)| pattern.matches(&path)).map(|(_, line)| line.reason.as_str())
    }

    /// The changed paths that are on the list, each with its reason.
    pub(super) fn among<'a>(&'a self, changes: &'a [ChangedPath]) -> impl Iterator<Item = (&'a [u8], &'a str)> {
        changes.iter().filter_map(|change| Some((change.path.as_slice(), self.reason(&change.path)?)))
    }
}

impl Listed {
    fn compiled(&self) -> PathPattern {
        let spare = |pattern: PathPattern| self.except.iter().try_fold(pattern, |it, name| it.except(name));
        let compiled = PathPattern::parse(&self.pattern).and_then(spare);
        compiled.expect("BUG: lists that come with norma are verified by a test")
    }
}

/// Holds every line to its own examples.
#[cfg(test)]
#[track_caller]
pub(super) fn assert_examples(lines: &[Listed]) {
    let folded = |path: &String| FoldedPath::new(&RepoPath::parse(path).unwrap());
    for line in lines {
        assert!(!line.examples.is_empty() && !line.not_match.is_empty(), "{}", line.pattern);
        for path in &line.examples {
            assert!(line.compiled().matches(&folded(path)), "{} should match {path}", line.pattern);
        }
        for path in &line.not_match {
            assert!(!line.compiled().matches(&folded(path)), "{} should not match {path}", line.pattern);
        }
    }
}
