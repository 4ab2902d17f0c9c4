//! `Patch.v0`: a change that somebody proposes, file by file. It is text until somebody has judged it.

use crate::RepoPath;
use crate::json::Report;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, extend("$id" = "Patch.v0"), transform = absent_is_not_null)]
pub struct Patch {
    /// What differs.
    pub files: Vec<PatchFile>,
    /// Tests that come with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Vec<String>>,
}

/// How one file differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PatchFile {
    /// Which, from the repository's root.
    pub path: String,
    /// How, as a unified diff.
    pub diff: String,
}

impl Patch {
    /// Whether every file is one of a repository, and named once.
    pub(super) fn check(&self, at: &str, report: &mut Report) {
        let mut seen = BTreeSet::new();
        for (index, file) in self.files.iter().enumerate() {
            let pointer = format!("{at}/files/{index}/path");
            if let Err(problem) = RepoPath::parse(&file.path) {
                report.push(pointer, problem.to_string());
            } else if !seen.insert(&file.path) {
                report.push(pointer, format!("{:?} is there twice", file.path));
            }
        }
    }
}
