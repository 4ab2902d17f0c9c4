//! The change gate: may this difference between two trees become the run's tree? It reads tree entries, never
//! the patch text, so both sides of a move count and nothing can hide in a header. Budgets come apart from
//! policy: a budget stops the run, a policy finding denies it.

use contract::{Budget, BudgetExceeded, Budgets, RepoPath};
use serde::Deserialize;

const MODE_SYMLINK: u32 = 0o120_000;
const MODE_GITLINK: u32 = 0o160_000;
const MODES_PLAIN: [u32; 2] = [0o100_644, 0o100_755];

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// Exact bytes of the name.
    pub path: Vec<u8>,
    /// Mode before; none if it was not there.
    pub old_mode: Option<u32>,
    /// Mode after; none if it is gone.
    pub new_mode: Option<u32>,
    /// Whether the content after looks binary.
    pub binary: bool,
}

/// What a change weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Size of the patch.
    pub patch_bytes: u64,
    /// Paths that differ.
    pub files: u64,
    /// Paths on the risky list.
    pub risky: u64,
}

/// What the gate found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeFindings {
    /// What the contract does not allow.
    pub policy: Vec<String>,
    /// Readable names of the paths that differ.
    pub files: Vec<String>,
    /// Risky paths, each with its reason.
    pub risky: Vec<String>,
}

/// Judges the entries of a change. `state_dir` is norma's own directory, where it lies in the repository.
pub fn judge(changes: &[ChangedPath], state_dir: Option<&RepoPath>) -> ChangeFindings {
    let risky_list = risky_list();
    let mut found = ChangeFindings::default();
    for change in changes {
        let shown = String::from_utf8_lossy(&change.path).escape_debug().to_string();
        match RepoPath::parse_bytes(&change.path) {
            Err(problem) => found.policy.push(format!("{shown}: {problem}")),
            Ok(path) => {
                if state_dir.is_some_and(|dir| path.is_within(dir)) {
                    found.policy.push(format!("{shown}: the state directory is not for agents"));
                }
                if let Some(rule) = risky_list.iter().find(|rule| rule.matches(path.as_str())) {
                    found.risky.push(format!("{shown}: {}", rule.reason));
                }
            }
        }
        found.policy.extend(mode_finding(change).map(|finding| format!("{shown}: {finding}")));
        found.files.push(shown);
    }
    found
}

fn mode_finding(change: &ChangedPath) -> Option<String> {
    let modes = [change.old_mode, change.new_mode];
    if modes.contains(&Some(MODE_SYMLINK)) {
        return Some("symbolic links are refused".into());
    }
    if modes.contains(&Some(MODE_GITLINK)) {
        return Some("submodules are refused".into());
    }
    if let Some(odd) = modes.into_iter().flatten().find(|mode| !MODES_PLAIN.contains(mode)) {
        return Some(format!("file mode {odd:o} is refused"));
    }
    change.binary.then(|| "binary content is refused".into())
}

/// The first budget that a change exceeds.
pub fn over_budget(budgets: &Budgets, sizes: &Sizes) -> Option<BudgetExceeded> {
    let patch_kb = sizes.patch_bytes.div_ceil(1024);
    let checks = [
        (Budget::MaxPatchKb, budgets.max_patch_kb, patch_kb),
        (Budget::MaxChangedFiles, budgets.max_changed_files, sizes.files),
        (Budget::MaxRiskyFiles, budgets.max_risky_files, sizes.risky),
    ];
    checks.into_iter().find_map(|(budget, limit, actual)| {
        let limit = u64::from(limit?);
        (actual > limit).then_some(BudgetExceeded { budget, limit, actual })
    })
}

/// A line of `risky_files.json`: what makes a file risky, why, and examples that a test holds it to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RiskyRule {
    /// A file name, `*.ext`, or a directory ending in `/` (at the root, or anywhere with a leading `**/`).
    pattern: String,
    reason: String,
    #[serde(rename = "match")]
    #[cfg_attr(not(test), allow(dead_code, reason = "examples are read by the test that verifies them"))]
    examples: Vec<String>,
    #[cfg_attr(not(test), allow(dead_code, reason = "examples are read by the test that verifies them"))]
    not_match: Vec<String>,
}

impl RiskyRule {
    fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        if let Some(dir) = self.pattern.strip_prefix("**/").and_then(|rest| rest.strip_suffix('/')) {
            return path.split('/').rev().skip(1).any(|component| component == dir);
        }
        if self.pattern.ends_with('/') {
            return path.starts_with(&self.pattern);
        }
        match self.pattern.split_once('*') {
            Some((before, after)) => {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            }
            None => name == self.pattern,
        }
    }
}

fn risky_list() -> Vec<RiskyRule> {
    serde_json::from_str(include_str!("risky_files.json")).expect("BUG: risky_files.json is verified by a test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, old: Option<u32>, new: Option<u32>) -> ChangedPath {
        ChangedPath { path: path.as_bytes().to_vec(), old_mode: old, new_mode: new, binary: false }
    }

    #[test]
    fn every_risky_rule_holds_its_own_examples() {
        for rule in risky_list() {
            assert!(!rule.examples.is_empty() && !rule.not_match.is_empty(), "{}", rule.pattern);
            for path in &rule.examples {
                assert!(rule.matches(path), "{} should match {path}", rule.pattern);
            }
            for path in &rule.not_match {
                assert!(!rule.matches(path), "{} should not match {path}", rule.pattern);
            }
        }
    }

    #[test]
    fn links_odd_modes_binaries_and_odd_names_are_policy_findings() {
        let plain = Some(0o100_644);
        let bad = [
            entry("l", None, Some(MODE_SYMLINK)),
            entry("was-a-link", Some(MODE_SYMLINK), plain),
            entry("sub", None, Some(MODE_GITLINK)),
            entry("odd", None, Some(0o100_600)),
            entry(".git/config", None, plain),
            entry("a\nb", None, plain),
            entry(".norma/config.json", plain, plain),
            ChangedPath { binary: true, ..entry("b", None, plain) },
            ChangedPath { path: vec![b'x', 0xff], ..entry("", None, plain) },
        ];
        let state = RepoPath::parse(".norma").unwrap();
        for change in &bad {
            let found = judge(std::slice::from_ref(change), Some(&state));
            assert_eq!(found.policy.len(), 1, "{change:?}: {found:?}");
        }
        let good = [entry("src/a.rs", plain, plain), entry("x.sh", None, Some(0o100_755)), entry("gone", plain, None)];
        assert_eq!(judge(&good, Some(&state)).policy, [""; 0]);
    }

    #[test]
    fn a_patch_budget_is_exact_to_the_byte() {
        let budgets = Budgets {
            max_iterations: 1,
            max_patch_kb: Some(2),
            max_changed_files: Some(3),
            max_risky_files: Some(0),
            max_minutes: None,
        };
        let over = |sizes: Sizes| over_budget(&budgets, &sizes).map(|over| over.budget);
        assert_eq!(over(Sizes { patch_bytes: 2048, files: 3, risky: 0 }), None);
        assert_eq!(over(Sizes { patch_bytes: 2049, files: 3, risky: 0 }), Some(Budget::MaxPatchKb));
        assert_eq!(over(Sizes { patch_bytes: 1, files: 4, risky: 0 }), Some(Budget::MaxChangedFiles));
        assert_eq!(over(Sizes { patch_bytes: 1, files: 1, risky: 1 }), Some(Budget::MaxRiskyFiles));
    }
}
