//! The patch that a loop's `act` proposes: as its turn left it, and the tree that it makes of the run's, on objects.

use crate::git::{Objects, PatchLimits, PatchProblem};
use crate::git::{id, recorded};
use crate::{Error, Result};
use contract::path::PathProblem;
use contract::{Reason, RepoPath, StepRef, TreeId};
use run::Run;
use run::gate::{Finding, Rule};
use std::io::Read;
use std::path::Path;

/// Reads at most what the limits allow, and one byte more so that the gate sees that it is too much.
pub(crate) fn read_patch(run_dir: &Path, run: &Run, step: StepRef) -> Result<Vec<u8>> {
    let path = run_dir.join("steps").join(step.dir_name()).join("patch.diff");
    let most = (u64::from(run.started.contract.limits.change_mb) << 20) + 1;
    let mut patch = Vec::new();
    let file = std::fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
    file.take(most).read_to_end(&mut patch).map_err(|source| Error::io("read", &path, source))?;
    Ok(patch)
}

/// What a patch makes of the run's tree.
pub(crate) enum Patched {
    Tree(TreeId),
    /// It makes none.
    Refused(Reason, Vec<Finding>),
}

/// Applies a patch to the run's tree, on objects.
pub(crate) fn apply_patch(objects: &Objects, run: &Run, patch: &[u8]) -> Result<Patched> {
    let most = u64::from(run.started.contract.limits.change_mb) << 20;
    let binary = run.started.contract.scope.allow_binary;
    let limits = PatchLimits { patch_bytes_max: most, result_bytes_max: most, binary };
    match objects.apply(id(run.tree()), patch, &limits) {
        Ok(applied) => Ok(Patched::Tree(recorded(applied.tree))),
        Err(PatchProblem::Git(error)) => Err(error.into()),
        Err(problem) => Ok(refused(&problem)),
    }
}

fn refused(problem: &PatchProblem) -> Patched {
    let (reason, rule) = match problem {
        PatchProblem::Binary | PatchProblem::BinaryDelta => (Reason::PolicyViolation, Rule::Binary),
        PatchProblem::UnsafePath { path, .. } if names_git(path) => (Reason::PolicyViolation, Rule::ProtectedPath),
        PatchProblem::UnsafePath { .. } => (Reason::PolicyViolation, Rule::OddName),
        PatchProblem::TooLarge { .. } | PatchProblem::Inflates { .. } => (Reason::PolicyViolation, Rule::TooLarge),
        _ => (Reason::PatchFailed, Rule::PatchFailed),
    };
    Patched::Refused(reason, vec![Finding::whole(rule, problem.to_string())])
}

fn names_git(path: &[u8]) -> bool {
    matches!(RepoPath::parse_bytes(path), Err(PathProblem::GitDirectory(_)))
}
