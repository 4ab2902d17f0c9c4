//! `wide_paths.json`: which scopes are so wide that a person has to approve them first. Any scope is wide that holds more
//! than a share of the tree's files; the policy can name directories that are wide whatever they hold.

use super::allowed_path;
use crate::json::{self, Limits, Violation};
use crate::schema::JsonSchema;
use crate::{RepoPath, path};
use serde::{Deserialize, Serialize};

/// The file that counts where there is none.
pub const WIDE_PATHS_DEFAULT: &str = include_str!("wide_paths.json");

/// `wide_paths.json` as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WidePathsFile {
    /// A scope that holds more than this share of the tree's files is wide, whatever its paths are called; 100 = none is.
    #[schemars(range(min = 1, max = 100))]
    pub share_percent: u8,
    /// Order does not matter.
    pub rules: Vec<WidePathRule>,
}

/// A line of `wide_paths.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WidePathRule {
    /// A directory from the repository's root; what lies below it is not meant. Case does not count.
    pub path: String,
    /// Why it is wide; shown to whoever is asked.
    #[schemars(length(min = 1))]
    pub reason: String,
}

/// Which scopes are wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WidePaths {
    /// A scope is wide that holds more than this share of the tree's files.
    pub share_percent: u8,
    rules: Vec<(RepoPath, String)>,
}

impl WidePaths {
    /// Reads the file; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<WidePaths, Vec<Violation>> {
        let file: WidePathsFile = json::decode(bytes, &Limits::DOCUMENT)?;
        let mut rules = Vec::new();
        let mut problems = Vec::new();
        for (index, rule) in file.rules.into_iter().enumerate() {
            match allowed_path(&rule.path) {
                Ok(path) => rules.push((path, rule.reason)),
                Err(message) => problems.push(Violation { pointer: format!("/rules/{index}/path"), message }),
            }
        }
        if problems.is_empty() { Ok(WidePaths { share_percent: file.share_percent, rules }) } else { Err(problems) }
    }

    /// Why a directory is wide by its name, if it is.
    pub fn reason(&self, path: &RepoPath) -> Option<&str> {
        let same = |named: &RepoPath| path::fold(named.as_str()) == path::fold(path.as_str());
        self.rules.iter().find(|(named, _)| same(named)).map(|(_, reason)| reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_directory_is_meant_exactly_and_in_any_case() {
        let text = r#"{"share_percent":50,"rules":[{"path":"src","reason":"r"},{"path":"docs","reason":"r"}]}"#;
        let wide = WidePaths::parse(text.as_bytes()).unwrap();
        let is_wide = |text: &str| wide.reason(&RepoPath::parse(text).unwrap()).is_some();
        assert_eq!(["src", "SRC", "docs"].map(is_wide), [true; 3]);
        assert_eq!(["src/lib", "src-evil", "crates/src", "doc"].map(is_wide), [false; 4]);
    }

    #[test]
    fn what_is_wrong_with_the_list_is_named_with_its_place() {
        let pointers = |text: &str| -> Vec<String> {
            let found = WidePaths::parse(text.as_bytes()).err().unwrap_or_default();
            found.into_iter().map(|violation| violation.pointer).collect()
        };
        let text = r#"{"share_percent":50,"rules":[{"path":"a/*","reason":"r"},{"path":"/","reason":"r"}]}"#;
        assert_eq!(pointers(text), ["/rules/0/path", "/rules/1/path"]);
        assert_eq!(pointers(r#"{"share_percent":0,"rules":[]}"#), ["/share_percent"]);
        assert_eq!(pointers(r#"{"share_percent":101,"rules":[]}"#), ["/share_percent"]);
    }
}
