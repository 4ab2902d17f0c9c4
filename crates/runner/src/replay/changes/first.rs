//! A patch as the first version judged it and wrote it down: the budget of its size before it was applied, no receipt, and
//! a `gates.json` of its own form. Only to replay what that version has left.

use super::super::Walk;
use super::super::tally::{Found, fields, found};
use crate::Result;
use crate::change::paths;
use crate::change::{Patched, apply_patch, read_patch};
use crate::git::id;
use contract::{BudgetExceeded, ChangeDropped, Digest, Event, Fact, PatchApplied, Reason, StepRef, TreeId};
use run::gate::budget::{Sizes, over_budget, risky};
use run::gate::scope::Observed;
use run::gate::{Finding, Rule, shown};
use run::redact::Redactor;
use run::{Run, bounded};
use serde_json::json;
use std::borrow::Cow;

/// What became of a patch.
enum Judged {
    /// It is the run's tree.
    Applied { tree: TreeId, files: Vec<String>, risky: Vec<String> },
    /// It is not.
    Dropped { reason: Reason, findings: Vec<Finding>, budget: Option<BudgetExceeded> },
}

pub(super) fn differences(walk: &Walk<'_, '_>, event: &Event, change: u32, step: StepRef) -> Result<Vec<Found>> {
    let (_, evidence) = event.fact.evidence().expect("BUG: only patches are judged here");
    let patch = read_patch(&walk.dir, &walk.run, step)?;
    let judged = judge_patch(walk, &patch)?;
    let gates = judged.gates_json(walk.run.tree());
    let kept = judged.patch_to_keep(&patch).into_owned();
    let now = judged.fact(&walk.run, (change, step), patch.len() as u64, evidence);
    let mut all: Vec<Found> = match (&event.fact, &now) {
        (Fact::PatchApplied(recorded), Fact::PatchApplied(now)) => fields(recorded, now, &[]),
        (Fact::ChangeDropped(recorded), Fact::ChangeDropped(now)) => fields(recorded, now, &[]),
        (recorded, now) => vec![format!("on record: {}, now: {}", recorded.message(), now.message())],
    }
    .into_iter()
    .map(|what| found(Some("patch"), what))
    .collect();
    let dir = format!("changes/{change:03}");
    for (name, bytes) in [("patch.diff", &kept), ("gates.json", &gates)] {
        if walk.read(&format!("{dir}/{name}"))? != *bytes {
            all.push(found(Some("patch"), format!("{dir}/{name} is not what follows from the turn")));
        }
    }
    Ok(all)
}

/// Judges a patch on the run's tree.
fn judge_patch(walk: &Walk<'_, '_>, patch: &[u8]) -> Result<Judged> {
    let (run, objects) = (&walk.run, walk.with.objects);
    let budgets = &run.started.contract.budgets;
    let mut sizes = Sizes { patch_bytes: patch.len() as u64, ..Sizes::default() };
    if let Some(over) = over_budget(budgets, &sizes) {
        return Ok(stopped(over));
    }
    let tree = match apply_patch(objects, run, patch)? {
        Patched::Tree(tree) => tree,
        Patched::Refused(reason, findings) => return Ok(Judged::Dropped { reason, findings, budget: None }),
    };
    let changes = paths::between(objects, id(run.tree()), id(tree))?;
    // A patch is made on objects: there is no workspace in which anything else could lie about.
    let observed = Observed { changes, ..Observed::default() };
    let findings = walk.rules.scope_findings(&run.started.contract.scope, &observed);
    if !findings.is_empty() {
        return Ok(Judged::Dropped { reason: Reason::PolicyViolation, findings, budget: None });
    }
    let files: Vec<String> = observed.changes.iter().map(|change| shown(&change.path)).collect();
    let risky = risky(&observed.changes);
    (sizes.files, sizes.risky) = (files.len() as u64, risky.len() as u64);
    match over_budget(budgets, &sizes) {
        Some(over) => Ok(stopped(over)),
        None => Ok(Judged::Applied { tree, files, risky }),
    }
}

fn stopped(over: BudgetExceeded) -> Judged {
    let finding = format!("{}: {} > {}", over.budget, over.actual, over.limit);
    let findings = vec![Finding::whole(Rule::Budget, finding)];
    Judged::Dropped { reason: Reason::BudgetExceeded, findings, budget: Some(over) }
}

impl Judged {
    /// What goes on record; `run` is the run before it.
    fn fact(self, run: &Run, (change, step): (u32, StepRef), patch_bytes: u64, evidence: Digest) -> Fact {
        let (step, before) = (step.index, run.tree());
        match self {
            Judged::Applied { tree, files, risky } => Fact::PatchApplied(PatchApplied {
                change,
                step,
                before,
                after: tree,
                file_count: files.len() as u64,
                files: bounded(files),
                patch_bytes,
                risky_count: risky.len() as u64,
                risky: bounded(risky),
                tests: None,
                gates: Vec::new(),
                receipt: None,
                evidence,
            }),
            Judged::Dropped { reason, findings, budget } => Fact::ChangeDropped(ChangeDropped {
                change,
                step,
                before,
                reason,
                findings: bounded(findings.iter().map(Finding::to_string).collect()),
                budget,
                gates: Vec::new(),
                receipt: None,
                evidence,
            }),
        }
    }

    /// The patch as it is kept: without the secrets for which it was dropped.
    fn patch_to_keep<'p>(&self, patch: &'p [u8]) -> Cow<'p, [u8]> {
        match self {
            Judged::Dropped { findings, .. } if findings.iter().any(|found| found.rule == Rule::Secret) => {
                Redactor::patterns().redact(patch).bytes
            }
            _ => Cow::Borrowed(patch),
        }
    }

    /// `gates.json`: what was judged, for people and for whoever judges again.
    fn gates_json(&self, before: TreeId) -> Vec<u8> {
        let value = match self {
            Judged::Applied { tree, files, risky } => json!({
                "before": before, "after": tree, "verdict": "pass", "files": files, "risky": risky, "findings": [],
            }),
            Judged::Dropped { reason, findings, budget } => json!({
                "before": before, "after": before, "verdict": "fail", "reason": reason, "findings": findings,
                "budget": budget,
            }),
        };
        contract::json::pretty(&value)
    }
}
