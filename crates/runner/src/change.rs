//! One change: act's patch, applied to the run's tree on objects, judged by gates, sealed and put on record.
//! All or nothing: the run either has the new tree, or its old one and the reasons.

use crate::drive::Driver;
use crate::world::PatchResult;
use crate::{Error, Result};
use contract::{BudgetExceeded, ChangeDropped, Fact, PatchApplied, Reason, RepoPath, StepRef};
use run::bounded;
use run::gate::change::{ChangeFindings, Sizes, judge, over_budget};
use serde_json::json;
use std::io::Read;
use store::{Preparing, crash, now};

/// What became of the patch, before it is on record.
enum Judged {
    Applied { tree: String, found: ChangeFindings },
    Dropped { reason: Reason, findings: Vec<String>, budget: Option<BudgetExceeded> },
}

pub(crate) fn judge_and_apply(driver: &mut Driver<'_>, change: u32, step: StepRef) -> Result<()> {
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
        Judged::Applied { tree, found } => Fact::PatchApplied(PatchApplied {
            change,
            step: step.index,
            before,
            after: tree,
            file_count: found.files.len() as u64,
            files: bounded(found.files),
            patch_bytes: patch.len() as u64,
            risky_count: found.risky.len() as u64,
            risky: bounded(found.risky),
            evidence: evidence.evidence(),
        }),
        Judged::Dropped { reason, findings, budget } => Fact::ChangeDropped(ChangeDropped {
            change,
            step: step.index,
            before,
            reason,
            findings: bounded(findings),
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
fn read_patch(driver: &Driver<'_>, step: StepRef) -> Result<Vec<u8>> {
    let path = driver.run_dir().join("steps").join(step.dir_name()).join("patch.diff");
    let most = (u64::from(driver.run.started.contract.limits.change_mb) << 20) + 1;
    let mut patch = Vec::new();
    let file = std::fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
    file.take(most).read_to_end(&mut patch).map_err(|source| Error::io("read", &path, source))?;
    Ok(patch)
}

fn judge_patch(driver: &mut Driver<'_>, patch: &[u8]) -> Result<Judged> {
    let budgets = driver.run.started.contract.budgets.clone();
    let mut sizes = Sizes { patch_bytes: patch.len() as u64, ..Sizes::default() };
    if let Some(over) = over_budget(&budgets, &sizes) {
        return Ok(stopped(over));
    }
    let (tree, changes) = match driver.world.apply(&driver.run, patch)? {
        PatchResult::Tree { tree, changes } => (tree, changes),
        PatchResult::Refused { reason, findings } => return Ok(Judged::Dropped { reason, findings, budget: None }),
    };
    let found = judge(&changes, state_dir(driver).as_ref());
    if !found.policy.is_empty() {
        return Ok(Judged::Dropped { reason: Reason::PolicyViolation, findings: found.policy, budget: None });
    }
    sizes.files = found.files.len() as u64;
    sizes.risky = found.risky.len() as u64;
    match over_budget(&budgets, &sizes) {
        Some(over) => Ok(stopped(over)),
        None => Ok(Judged::Applied { tree, found }),
    }
}

fn stopped(over: BudgetExceeded) -> Judged {
    let finding = format!("{}: {} > {}", over.budget, over.actual, over.limit);
    Judged::Dropped { reason: Reason::BudgetExceeded, findings: vec![finding], budget: Some(over) }
}

/// The state directory, where it lies in the repository.
fn state_dir(driver: &Driver<'_>) -> Option<RepoPath> {
    let layout = &driver.store.layout;
    let inside = layout.state.strip_prefix(&layout.root).ok()?;
    RepoPath::parse(&inside.to_string_lossy()).ok()
}

/// `gates.json`: what was judged, for people and for whoever judges again.
fn gates_json(before: &str, judged: &Judged) -> Vec<u8> {
    let value = match judged {
        Judged::Applied { tree, found } => json!({
            "before": before, "after": tree, "verdict": "pass", "files": found.files, "risky": found.risky, "findings": [],
        }),
        Judged::Dropped { reason, findings, budget } => json!({
            "before": before, "after": before, "verdict": "fail", "reason": reason, "findings": findings, "budget": budget,
        }),
    };
    let mut bytes = serde_json::to_vec_pretty(&value).expect("BUG: gates are plain data");
    bytes.push(b'\n');
    bytes
}
