//! What `norma run "what I want"` proposes: which files may change, and which commands must succeed afterwards. A pure
//! function of the sentence and of facts about the repository, so that the same repository always gets the same proposal;
//! reading the facts is the runner's. It is only ever a proposal: a person confirms it, or says it otherwise with
//! `--allow` and `--test`.

mod rank;
mod scope;
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};

/// Files that say how a project is built and tested; the facts have the text of each that is near the root.
pub const MANIFESTS: [&str; 12] = [
    "package.json",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "pytest.ini",
    "requirements.txt",
    "requirements-dev.txt",
    "Cargo.toml",
    "go.mod",
    "Makefile",
    "GNUmakefile",
];

/// Where owners of files may be listed.
pub const OWNERS: [&str; 3] = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"];

/// The programs that a test command of a proposal may start.
pub const PROGRAMS: [&str; 10] = ["pytest", "python3", "python", "npm", "pnpm", "yarn", "bun", "cargo", "go", "make"];

/// A proposed scope never holds more of the tree than this share: it would need an approval of its own.
const SHARE_PERCENT_MAX: usize = 50;

/// How much of the tree a scope holds that a sentence names no path of, at most.
pub const SHARE_PERCENT: u8 = 10;

/// What is known of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The files of the commit, as paths from the root.
    pub files: Vec<String>,
    /// The text of manifests, and of some files that hold tests, by path.
    pub texts: BTreeMap<String, String>,
    /// Who owns what, as CODEOWNERS says it.
    pub owners: Option<String>,
    /// The last commits, newest first.
    pub history: Vec<Commit>,
    /// The files whose text has a word, in whatever case, by [the words that a sentence is searched by](searched).
    pub mentions: BTreeMap<String, Vec<String>>,
    /// The files that policy protects.
    pub protected: BTreeSet<String>,
    /// Which of [`PROGRAMS`] are installed, outside of the repository.
    pub programs: BTreeSet<String>,
    /// Installed dependencies that workspaces show: directories such as `node_modules`, and programs in them such as
    /// `.venv/bin/python`, as paths from the root.
    pub installed: BTreeSet<String>,
}

/// One of the last commits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// The first line of its message.
    pub subject: String,
    /// What it changed.
    pub files: Vec<String>,
    /// Those of them that it made.
    pub added: Vec<String>,
}

/// What is proposed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Files and directories that may change; none means the whole tree but for what policy protects.
    pub allow: Vec<String>,
    /// Where they come from, in words.
    pub because: String,
    /// Whether nothing in the sentence speaks for them.
    pub is_a_guess: bool,
    /// Commands that must succeed.
    pub tests: Vec<String>,
    /// What a person should know about the tests, in words.
    pub notes: Vec<String>,
}

/// Proposes a scope and tests for a sentence. With a share, the scope holds as much of the tree as that allows, whatever the
/// sentence names.
pub fn propose(sentence: &str, facts: &Facts, share_percent: Option<u8>) -> Proposal {
    let scope::Scope { allow, because, is_a_guess } = scope::propose(sentence, facts, share_percent);
    let (tests, notes) = tests::propose(facts);
    Proposal { allow, because: because.to_owned(), is_a_guess, tests, notes }
}

/// The words that files are searched for, for a sentence.
pub fn searched(sentence: &str) -> Vec<String> {
    words::searched(sentence)
}

/// Whether a scope holds so much of the tree that it would need an approval.
fn is_wide(allow: &[String], facts: &Facts) -> bool {
    let within = |file: &&String| allow.iter().any(|path| holds(path, file));
    let held = facts.files.iter().filter(within).count();
    held > 1 && held * 100 > facts.files.len() * SHARE_PERCENT_MAX
}

/// Whether a path is this file, or a directory that it lies in.
fn holds(path: &str, file: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The name of a path.
fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The directory that a path lies in; empty at the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Whether a file holds tests, by its name or by the directories it lies in.
fn is_test(path: &str) -> bool {
    let in_tests = parent(path).split('/').any(|dir| ["test", "tests", "spec", "specs", "__tests__"].contains(&dir));
    let name = name(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let marked = name.contains(".test.") || name.contains(".spec.");
    in_tests || marked || stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest"
}

#[cfg(test)]
mod examples;
