//! The budgets of a change: how large it may be and how many of its files may be risky. A budget stops the run,
//! where a finding of the scope gate denies it.

use super::listed::{Listed, PathList};
use super::scope::ChangedPath;
use super::shown;
use contract::{Budget, BudgetExceeded, Budgets};

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

/// The changed paths on the risky list, each with its reason.
pub fn risky(changes: &[ChangedPath]) -> Vec<String> {
    let list = PathList::new(risky_list());
    list.among(changes).map(|(path, reason)| format!("{}: {reason}", shown(path))).collect()
}

fn risky_list() -> Vec<Listed> {
    serde_json::from_str(include_str!("risky_files.json")).expect("BUG: risky_files.json is verified by a test")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::listed::assert_examples;

    #[test]
    fn every_risky_rule_holds_its_own_examples() {
        assert_examples(&risky_list());
    }

    #[test]
    fn risky_paths_are_named_with_their_reason() {
        let change =
            |path: &[u8]| ChangedPath { path: path.to_vec(), new_mode: Some(0o100_644), ..ChangedPath::default() };
        let changes = [&b"src/a.rs"[..], b"sub/Makefile", b"\xff", b"Cargo.lock"].map(change);
        assert_eq!(
            risky(&changes),
            ["sub/Makefile: runs commands on whoever builds", "Cargo.lock: pins what is downloaded and run"]
        );
    }

    #[test]
    fn a_patch_budget_is_exact_to_the_byte() {
        let budgets = Budgets {
            max_iterations: 1,
            max_patch_kb: Some(2),
            max_changed_files: Some(3),
            max_risky_files: Some(0),
            max_minutes: None,
            max_tokens: None,
            max_cost_usd: None,
        };
        let over = |sizes: Sizes| over_budget(&budgets, &sizes).map(|over| over.budget);
        assert_eq!(over(Sizes { patch_bytes: 2048, files: 3, risky: 0 }), None);
        assert_eq!(over(Sizes { patch_bytes: 2049, files: 3, risky: 0 }), Some(Budget::MaxPatchKb));
        assert_eq!(over(Sizes { patch_bytes: 1, files: 4, risky: 0 }), Some(Budget::MaxChangedFiles));
        assert_eq!(over(Sizes { patch_bytes: 1, files: 1, risky: 1 }), Some(Budget::MaxRiskyFiles));
    }
}
