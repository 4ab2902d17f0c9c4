//! One change: act's patch, applied to the run's tree on objects, judged by gates, sealed and put on record.
//! All or nothing: the run either has the new tree, or its old one and the reasons.

use crate::drive::Driver;
use crate::policy::Rules;
use crate::world::PatchResult;
use crate::{Error, Result};
use contract::{BudgetExceeded, ChangeDropped, Digest, Fact, PatchApplied, Reason, StepRef};
use run::gate::budget::{Sizes, over_budget, risky};
use run::gate::scope::Observed;
use run::gate::{Finding, Rule, shown};
use run::redact::Redactor;
use run::{Run, bounded};
use serde_json::json;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use store::{Preparing, crash, now};

/// What became of a patch, before it is on record.
pub(crate) enum Judged {
    /// It is the run's tree.
    Applied { tree: String, files: Vec<String>, risky: Vec<String> },
    /// It is not.
    Dropped { reason: Reason, findings: Vec<Finding>, budget: Option<BudgetExceeded> },
}

pub(crate) fn judge_and_apply(driver: &mut Driver<'_, '_>, change: u32, step: StepRef) -> Result<()> {
    let before = driver.run.tree.clone();
    driver.record(vec![Fact::ChangeStarted { change, step: step.index, before }], Vec::new())?;
    crash::point("change.after_intent");
    let patch = read_patch(&driver.run_dir(), &driver.run, step)?;
    let rules = Rules::new(driver.policies, &driver.store.layout);
    let judged = judge_patch(&rules, &driver.run, &patch, |run, patch| driver.world.apply(run, patch))?;
    let dir = format!("changes/{change:03}");
    let mut evidence = Preparing::new(&driver.run_dir().join(&dir))?;
    evidence.write("patch.diff", &judged.patch_to_keep(&patch))?;
    evidence.write("gates.json", &judged.gates_json(&driver.run.tree))?;
    let fact = judged.fact(&driver.run, (change, step), patch.len() as u64, evidence.evidence());
    let points = ["change.before_rename", "change.after_rename"];
    let sealed = evidence.finish(&driver.run.id.slug(), &dir, now(), vec![fact], points)?;
    driver.record(sealed.facts, sealed.files)?;
    crash::point("change.after_commit");
    Ok(())
}

/// Reads at most what the limits allow, and one byte more so that the gate sees that it is too much.
pub(crate) fn read_patch(run_dir: &Path, run: &Run, step: StepRef) -> Result<Vec<u8>> {
    let path = run_dir.join("steps").join(step.dir_name()).join("patch.diff");
    let most = (u64::from(run.started.contract.limits.change_mb) << 20) + 1;
    let mut patch = Vec::new();
    let file = std::fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
    file.take(most).read_to_end(&mut patch).map_err(|source| Error::io("read", &path, source))?;
    Ok(patch)
}

/// Judges a patch on the run's tree. `apply` makes a tree of it.
pub(crate) fn judge_patch(
    rules: &Rules<'_>,
    run: &Run,
    patch: &[u8],
    apply: impl FnOnce(&Run, &[u8]) -> Result<PatchResult>,
) -> Result<Judged> {
    let budgets = &run.started.contract.budgets;
    let mut sizes = Sizes { patch_bytes: patch.len() as u64, ..Sizes::default() };
    if let Some(over) = over_budget(budgets, &sizes) {
        return Ok(stopped(over));
    }
    let (tree, changes) = match apply(run, patch)? {
        PatchResult::Tree { tree, changes } => (tree, changes),
        PatchResult::Refused { reason, findings } => return Ok(Judged::Dropped { reason, findings, budget: None }),
    };
    // A patch is made on objects: there is no workspace in which anything else could lie about.
    let observed = Observed { changes, ..Observed::default() };
    let findings = rules.scope_findings(&run.started.contract.scope, &observed);
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
    pub(crate) fn fact(self, run: &Run, (change, step): (u32, StepRef), patch_bytes: u64, evidence: Digest) -> Fact {
        let (step, before) = (step.index, run.tree.clone());
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
                evidence,
            }),
            Judged::Dropped { reason, findings, budget } => Fact::ChangeDropped(ChangeDropped {
                change,
                step,
                before,
                reason,
                findings: bounded(findings.iter().map(Finding::to_string).collect()),
                budget,
                evidence,
            }),
        }
    }

    /// The patch as it is kept: without the secrets for which it was dropped.
    pub(crate) fn patch_to_keep<'p>(&self, patch: &'p [u8]) -> Cow<'p, [u8]> {
        match self {
            Judged::Dropped { findings, .. } if findings.iter().any(|found| found.rule == Rule::Secret) => {
                Redactor::patterns().redact(patch).bytes
            }
            _ => Cow::Borrowed(patch),
        }
    }

    /// `gates.json`: what was judged, for people and for whoever judges again.
    pub(crate) fn gates_json(&self, before: &str) -> Vec<u8> {
        let value = match self {
            Judged::Applied { tree, files, risky } => json!({
                "before": before, "after": tree, "verdict": "pass", "files": files, "risky": risky, "findings": [],
            }),
            Judged::Dropped { reason, findings, budget } => json!({
                "before": before, "after": before, "verdict": "fail", "reason": reason, "findings": findings,
                "budget": budget,
            }),
        };
        let mut bytes = serde_json::to_vec_pretty(&value).expect("BUG: gates are plain data");
        bytes.push(b'\n');
        bytes
    }
}
