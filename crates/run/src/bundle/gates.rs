//! What the gates said, in the four words that `task_result` has for them. A gate that was not asked did not pass.

use super::Record;
use crate::bounded;
use contract::documents::GateVerdict;
use contract::documents::task_result::ResultGates;
use contract::work::Gate;
use contract::{Item, ItemEnded};

/// What changed is what may change.
const DIFF: [Gate; 2] = [Gate::Scope, Gate::Merged];

/// Everything that is neither scope nor tests.
const POLICY: [Gate; 5] = [Gate::Inputs, Gate::Output, Gate::Admission, Gate::Outputs, Gate::Contracts];

/// Said of what nobody asked for.
pub(super) const NOT_REQUESTED: &str = "not requested";

/// Of items, each with its end if it came to one.
pub(super) fn of_items(items: &[(&Item, Option<&ItemEnded>)]) -> ResultGates {
    ResultGates {
        diff_gate: asked(items, &DIFF),
        policy_gate: asked(items, &POLICY),
        review_gate: review(items),
        tests_gate: tests(items),
    }
}

/// Of a run without items: what became of its last change.
pub(super) fn of_changes(record: &Record<'_>) -> ResultGates {
    let judged = record.log.last_findings.clone();
    let last = verdict(judged.unwrap_or_else(|| vec!["no change was proposed".to_owned()]));
    ResultGates {
        diff_gate: last.clone(),
        policy_gate: last,
        review_gate: not_requested(),
        tests_gate: not_requested(),
    }
}

pub(super) fn not_requested() -> GateVerdict {
    verdict(vec![NOT_REQUESTED.to_owned()])
}

fn review(items: &[(&Item, Option<&ItemEnded>)]) -> GateVerdict {
    let reviewed: Vec<_> = items.iter().filter(|(item, _)| item.review.is_some()).copied().collect();
    if reviewed.is_empty() { not_requested() } else { asked(&reviewed, &[Gate::Review]) }
}

fn tests(items: &[(&Item, Option<&ItemEnded>)]) -> GateVerdict {
    let with_tests: Vec<_> = items.iter().filter(|(item, _)| !item.tests.is_empty()).copied().collect();
    if with_tests.is_empty() { not_requested() } else { asked(&with_tests, &[Gate::Tests]) }
}

fn asked(items: &[(&Item, Option<&ItemEnded>)], gates: &[Gate]) -> GateVerdict {
    verdict(items.iter().flat_map(|(item, ended)| refusals(item, *ended, gates)).collect())
}

/// What stands between an item and a pass: what the gates found, or that none of them was asked.
fn refusals(item: &Item, ended: Option<&ItemEnded>, gates: &[Gate]) -> Vec<String> {
    let results = ended.map(|ended| ended.gates.as_slice()).unwrap_or_default();
    let said: Vec<_> = results.iter().filter(|result| gates.contains(&result.gate)).collect();
    if said.is_empty() {
        return vec![format!("{}: not asked", item.id)];
    }
    let refused = said.into_iter().filter(|result| !result.passed);
    refused.map(|result| format!("{}: {}: {}", item.id, result.gate, result.findings.join("; "))).collect()
}

fn verdict(violations: Vec<String>) -> GateVerdict {
    GateVerdict { passed: violations.is_empty(), violations: Some(bounded(violations)).filter(|it| !it.is_empty()) }
}
