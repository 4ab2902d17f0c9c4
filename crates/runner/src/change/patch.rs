//! The patch that a loop's `act` proposes: applied to the run's tree on objects, and judged like every other change. All
//! or nothing: the run either has the new tree, or its old one and the reasons.

use super::finish;
use super::judge::{Verdict, judge, with_gates};
use super::judged::Judged;
use super::receipt::Landed;
use crate::drive::Driver;
use crate::git::{Objects, PatchLimits, PatchProblem};
use crate::git::{id, recorded};
use crate::{Error, Result};
use contract::path::PathProblem;
use contract::{Fact, Reason, RepoPath, StepRef, TreeId};
use run::Run;
use run::gate::{Finding, Rule};
use std::io::Read;
use std::path::Path;
use store::crash;

pub(crate) fn judge_and_apply(driver: &mut Driver<'_, '_>, change: u32, step: StepRef) -> Result<()> {
    let before = driver.run.tree();
    driver.record(vec![Fact::ChangeStarted { change, step: step.index, before }], Vec::new())?;
    crash::point("change.after_intent");
    let patch = read_patch(&driver.run_dir(), &driver.run, step)?;
    let mut judged = Judged::of_patch(&driver.run, change, step, patch);
    let ending = match with_gates(driver, &mut None, |gates, try_tests| judge(gates, &mut judged, try_tests))? {
        Verdict::Refused(refusal) => judged.ends(refusal),
        Verdict::Interrupted => return Ok(()),
        Verdict::Passed => {
            let after = judged.candidate()?;
            // Durable before it can be mentioned.
            driver.objects.pin(&format!("runs/{}/tree", driver.run.id.slug()), id(after))?;
            judged.succeeds(Landed::new(before, after))
        }
    };
    finish(driver, ending, None)
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

/// The tree that a patch makes of the run's, on objects; or why it makes none.
pub(crate) fn apply_patch(
    objects: &Objects,
    run: &Run,
    patch: &[u8],
) -> Result<std::result::Result<TreeId, (Reason, Vec<Finding>)>> {
    let most = u64::from(run.started.contract.limits.change_mb) << 20;
    let binary = run.started.contract.scope.allow_binary;
    let limits = PatchLimits { patch_bytes_max: most, result_bytes_max: most, binary };
    match objects.apply(id(run.tree()), patch, &limits) {
        Ok(applied) => Ok(Ok(recorded(applied.tree))),
        Err(PatchProblem::Git(error)) => Err(error.into()),
        Err(problem) => Ok(Err(refused(&problem))),
    }
}

fn refused(problem: &PatchProblem) -> (Reason, Vec<Finding>) {
    let (reason, rule) = match problem {
        PatchProblem::Binary | PatchProblem::BinaryDelta => (Reason::PolicyViolation, Rule::Binary),
        PatchProblem::UnsafePath { path, .. } if names_git(path) => (Reason::PolicyViolation, Rule::ProtectedPath),
        PatchProblem::UnsafePath { .. } => (Reason::PolicyViolation, Rule::OddName),
        PatchProblem::TooLarge { .. } | PatchProblem::Inflates { .. } => (Reason::PolicyViolation, Rule::TooLarge),
        _ => (Reason::PatchFailed, Rule::PatchFailed),
    };
    (reason, vec![Finding::whole(rule, problem.to_string())])
}

fn names_git(path: &[u8]) -> bool {
    matches!(RepoPath::parse_bytes(path), Err(PathProblem::GitDirectory(_)))
}
