//! Bringing a judged change onto the run's line. If others have landed since its agent started, the change is put on
//! top of theirs, path by path, and what comes of that is judged again; where both changed the same path nothing is
//! forced.

use super::change::Change;
use super::finish::{Ending, Landed, finish};
use super::judge::{Judged, Tested, scope_findings, tested};
use super::world;
use crate::Result;
use crate::drive::Driver;
use crate::git::{Entry, ObjectId, Objects, PatchProblem};
use crate::landing::id;
use contract::work::Gate;
use contract::{ItemStatus, Reason};
use run::gate::scope::Observed;
use run::gate::{Finding, Rule};

pub(super) fn land(driver: &mut Driver<'_, '_>, place: u32, mut judged: Judged) -> Result<()> {
    debug_assert_eq!(place, judged.place);
    let head = driver.run.line.head.clone();
    let candidate = judged.worked.as_ref().and_then(|worked| worked.tree.clone()).unwrap_or_default();
    if head.tree == judged.base.tree {
        return accept(driver, judged, head.tree, candidate);
    }
    let merged = merge(world(driver)?.objects(), (&judged.base.tree, &candidate, &head.tree))?;
    let tree = match merged {
        Merged::Tree(tree) => tree,
        Merged::Conflicts(findings) => {
            judged.asked(Gate::Merged, &findings);
            return finish(driver, judged.denied(Reason::MergeConflict), None);
        }
    };
    let change = Change::between(world(driver)?.objects(), &head.tree, &tree)?;
    let observed = Observed { changes: change.paths.clone(), ..Observed::default() };
    let findings = scope_findings(driver, &judged.item, &observed);
    judged.change = change;
    if !judged.asked(Gate::Merged, &findings) {
        return finish(driver, judged.denied(Reason::PolicyViolation), None);
    }
    if !judged.item.tests.is_empty() {
        judged.gates.retain(|result| result.gate != Gate::Tests);
        match tested(driver, &mut judged, &tree, &head.tree)? {
            Tested::Passed => {}
            Tested::Failed(message) => {
                return finish(driver, judged.ends(ItemStatus::Failure, Reason::TestsFailed, message), None);
            }
            Tested::Interrupted => return Ok(()),
        }
    }
    accept(driver, judged, head.tree, tree)
}

fn accept(driver: &mut Driver<'_, '_>, judged: Judged, before: String, after: String) -> Result<()> {
    let landed = (before != after).then_some(Landed { before, after });
    finish(driver, Ending { judged, status: ItemStatus::Success, reason: None, message: String::new(), landed }, None)
}

enum Merged {
    Tree(String),
    Conflicts(Vec<Finding>),
}

/// What of `base → ours` can be put on `theirs`. A path that both changed, unless to the same thing, is a conflict.
fn merge(objects: &Objects, (base, ours, theirs): (&str, &str, &str)) -> Result<Merged> {
    let (base, ours, theirs) = (id(base)?, id(ours)?, id(theirs)?);
    let mut edits: Vec<(Vec<u8>, Option<Entry>)> = Vec::new();
    let mut conflicts = Vec::new();
    for change in objects.diff(base, ours)? {
        let there = entry(objects, theirs, &change.path)?;
        if there == change.new {
            continue;
        }
        if there == change.old {
            edits.push((change.path, change.new));
        } else {
            conflicts.push(conflict(&change.path));
        }
    }
    if !conflicts.is_empty() {
        return Ok(Merged::Conflicts(conflicts));
    }
    match objects.edit(theirs, &edits) {
        Ok(tree) => Ok(Merged::Tree(tree.to_string())),
        Err(PatchProblem::Git(error)) => Err(error.into()),
        // A file where the others have made a directory, or the reverse.
        Err(_) => Ok(Merged::Conflicts(edits.iter().map(|(path, _)| conflict(path)).collect())),
    }
}

fn entry(objects: &Objects, tree: ObjectId, path: &[u8]) -> Result<Option<Entry>> {
    Ok(objects.tree_entry(tree, path)?.map(|(mode, id)| Entry { mode, id }))
}

fn conflict(path: &[u8]) -> Finding {
    Finding::at(Rule::Conflict, path, "something else landed there meanwhile")
}
