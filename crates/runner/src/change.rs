//! One change: act's patch, applied to the run's tree on objects, judged by gates, sealed and put on record.
//! All or nothing: the run either has the new tree, or its old one and the reasons.

use crate::drive::Driver;
use crate::world::PatchResult;
use crate::{Error, Result};
use contract::{BudgetExceeded, ChangeDropped, Fact, PatchApplied, Reason, StepRef};
use run::bounded;
use run::gate::budget::{Sizes, over_budget, risky};
use run::gate::scope::{Observed, Scope, judge};
use run::gate::{Finding, Rule, shown};
use serde_json::json;
use std::io::Read;
use store::{Preparing, crash, now};

/// What became of the patch, before it is on record.
enum Judged {
    Applied { tree: String, files: Vec<String>, risky: Vec<String> },
    Dropped { reason: Reason, findings: Vec<Finding>, budget: Option<BudgetExceeded> },
}

pub(crate) fn judge_and_apply(driver: &mut Driver<'_, '_>, change: u32, step: StepRef) -> Result<()> {
    let before = driver.run.tree.clone();
    driver.record(vec![Fact::ChangeStarted { change, step: step.index, before: before.clone() }], Vec::new())?;
    crash::point("change.after_intent");
    let patch = read_patch(driver, step)?;
    let judged = judge_patch(driver, &patch)?;
    let dir = format!("changes/{change:03}");
    let mut evidence = Preparing::new(&driver.run_dir().join(&dir))?;
    evidence.write("patch.diff", &patch)?;
    evidence.write("gates.json", &gates_json(&before, &judged))?;
    let fact = match judged {
        Judged::Applied { tree, files, risky } => Fact::PatchApplied(PatchApplied {
            change,
            step: step.index,
            before,
            after: tree,
            file_count: files.len() as u64,
            files: bounded(files),
            patch_bytes: patch.len() as u64,
            risky_count: risky.len() as u64,
            risky: bounded(risky),
            evidence: evidence.evidence(),
        }),
        Judged::Dropped { reason, findings, budget } => Fact::ChangeDropped(ChangeDropped {
            change,
            step: step.index,
            before,
            reason,
            findings: bounded(findings.iter().map(Finding::to_string).collect()),
            budget,
            evidence: evidence.evidence(),
        }),
    };
    let points = ["change.before_rename", "change.after_rename"];
    let sealed = evidence.finish(&driver.run.id.slug(), &dir, now(), vec![fact], points)?;
    driver.record(sealed.facts, sealed.files)?;
    crash::point("change.after_commit");
    Ok(())
}

/// Reads at most what the limits allow, and one byte more so that the gate sees that it is too much.
fn read_patch(driver: &Driver<'_, '_>, step: StepRef) -> Result<Vec<u8>> {
    let path = driver.run_dir().join("steps").join(step.dir_name()).join("patch.diff");
    let most = (u64::from(driver.run.started.contract.limits.change_mb) << 20) + 1;
    let mut patch = Vec::new();
    let file = std::fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
    file.take(most).read_to_end(&mut patch).map_err(|source| Error::io("read", &path, source))?;
    Ok(patch)
}

fn judge_patch(driver: &mut Driver<'_, '_>, patch: &[u8]) -> Result<Judged> {
    let contract = driver.run.started.contract.clone();
    let budgets = &contract.budgets;
    let mut sizes = Sizes { patch_bytes: patch.len() as u64, ..Sizes::default() };
    if let Some(over) = over_budget(budgets, &sizes) {
        return Ok(stopped(over));
    }
    let (tree, changes) = match driver.world.apply(&driver.run, patch)? {
        PatchResult::Tree { tree, changes } => (tree, changes),
        PatchResult::Refused { reason, findings } => return Ok(Judged::Dropped { reason, findings, budget: None }),
    };
    // A patch is made on objects: there is no workspace in which anything else could lie about.
    let observed = Observed { changes, ..Observed::default() };
    let scope = Scope::new(&contract.scope, driver.policies.scratch_paths());
    let state_dir = driver.store.layout.state_in_repository();
    let findings = judge(&observed, &scope, &driver.policies.protected_paths(), state_dir.as_ref());
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

/// `gates.json`: what was judged, for people and for whoever judges again.
fn gates_json(before: &str, judged: &Judged) -> Vec<u8> {
    let value = match judged {
        Judged::Applied { tree, files, risky } => json!({
            "before": before, "after": tree, "verdict": "pass", "files": files, "risky": risky, "findings": [],
        }),
        Judged::Dropped { reason, findings, budget } => json!({
            "before": before, "after": before, "verdict": "fail", "reason": reason, "findings": findings, "budget": budget,
        }),
    };
    let mut bytes = serde_json::to_vec_pretty(&value).expect("BUG: gates are plain data");
    bytes.push(b'\n');
    bytes
}
