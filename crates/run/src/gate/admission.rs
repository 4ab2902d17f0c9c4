//! The admission gate: is it too much? A change and the turn that made it are weighed against the constraints of
//! their item, by what norma counted itself. What is not constrained is not held.

use super::{Finding, Rule};
use contract::work::Constraints;

/// What a change and its turn weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Paths that differ.
    pub files: u64,
    /// Tool operations of the turn.
    pub tool_ops: u64,
    /// Entries of the four deltas together.
    pub delta_size: u64,
    /// Bytes of the patch.
    pub patch_bytes: u64,
}

/// Every constraint that is exceeded, the first one first; a limit itself is still allowed.
pub fn judge(constraints: &Constraints, weight: &Weight) -> Vec<Finding> {
    let checks = [
        (Rule::MaxFiles, "max files", weight.files, constraints.max_files),
        (Rule::MaxToolOps, "max tool ops", weight.tool_ops, constraints.max_tool_ops),
        (Rule::MaxDeltaSize, "max delta size", weight.delta_size, constraints.max_delta_size),
        (Rule::MaxPatchBytes, "max patch bytes", weight.patch_bytes, constraints.max_patch_bytes),
    ];
    let exceeded = |(rule, what, actual, limit): (Rule, &str, u64, Option<u64>)| {
        let limit = limit.filter(|limit| actual > *limit)?;
        Some(Finding::whole(rule, format!("Exceeded {what}: {actual} > {limit}")))
    };
    checks.into_iter().filter_map(exceeded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Constraints =
        Constraints { max_files: Some(10), max_tool_ops: Some(50), max_delta_size: Some(100), max_patch_bytes: None };

    #[track_caller]
    fn check(constraints: &Constraints, weight: Weight, expected: &[&str]) {
        let found: Vec<String> = judge(constraints, &weight).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_limit_itself_is_admitted_and_one_more_is_not() {
        let at = Weight { files: 10, tool_ops: 50, delta_size: 100, patch_bytes: 0 };
        check(&SEED, at, &[]);
        check(&SEED, Weight { files: 11, ..at }, &["Exceeded max files: 11 > 10"]);
        check(&SEED, Weight { tool_ops: 51, ..at }, &["Exceeded max tool ops: 51 > 50"]);
        check(&SEED, Weight { delta_size: 101, ..at }, &["Exceeded max delta size: 101 > 100"]);
        let one_file = Constraints { max_files: Some(1), ..SEED };
        check(&one_file, Weight { files: 2, ..at }, &["Exceeded max files: 2 > 1"]);
    }

    #[test]
    fn every_constraint_that_is_exceeded_is_named_in_order() {
        let none = Constraints {
            max_files: Some(0),
            max_tool_ops: Some(0),
            max_delta_size: Some(0),
            max_patch_bytes: Some(0),
        };
        let expected = [
            "Exceeded max files: 1 > 0",
            "Exceeded max tool ops: 2 > 0",
            "Exceeded max delta size: 3 > 0",
            "Exceeded max patch bytes: 4 > 0",
        ];
        check(&none, Weight { files: 1, tool_ops: 2, delta_size: 3, patch_bytes: 4 }, &expected);
    }

    #[test]
    fn what_is_not_constrained_is_not_held() {
        let much = Weight { files: u64::MAX, tool_ops: u64::MAX, delta_size: u64::MAX, patch_bytes: u64::MAX };
        check(&Constraints::default(), much, &[]);
    }
}
