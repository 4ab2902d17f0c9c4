//! Putting what one agent changed on top of what others have landed meanwhile, path by path; where both changed the same
//! path nothing is forced.

use crate::Result;
use crate::git::{Entry, ObjectId, Objects, PatchProblem};
use crate::landing::id;
use run::gate::{Finding, Rule};

/// What came of it.
pub(super) enum Merged {
    Tree(String),
    Conflicts(Vec<Finding>),
}

/// What of `base → ours` can be put on `theirs`. A path that both changed, unless to the same thing, is a conflict.
pub(super) fn merge(objects: &Objects, (base, ours, theirs): (&str, &str, &str)) -> Result<Merged> {
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

/// The same as a tree, or nothing where something is in the way.
pub(crate) fn put_on(objects: &Objects, trees: (&str, &str, &str)) -> Result<Option<String>> {
    Ok(match merge(objects, trees)? {
        Merged::Tree(tree) => Some(tree),
        Merged::Conflicts(_) => None,
    })
}

fn entry(objects: &Objects, tree: ObjectId, path: &[u8]) -> Result<Option<Entry>> {
    Ok(objects.tree_entry(tree, path)?.map(|(mode, id)| Entry { mode, id }))
}

fn conflict(path: &[u8]) -> Finding {
    Finding::at(Rule::Conflict, path, "something else landed there meanwhile")
}
