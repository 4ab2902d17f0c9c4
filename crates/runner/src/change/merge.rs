//! Putting what one agent changed on top of what others have landed meanwhile, by the rules that its run is judged by:
//! runs of today are merged line by line, older ones path by path, so that they replay as they were judged.

use crate::Result;
use crate::git::{Conflict, Entry, Merged, Objects, PatchProblem};
use crate::git::{id, recorded};
use contract::{RULES_MERGE_LINES, TreeId};
use run::gate::{Finding, Rule};

/// The trees of a merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides {
    /// What both sides started from.
    pub(crate) base: TreeId,
    /// What is put on the other side.
    pub(crate) ours: TreeId,
    /// What it is put on.
    pub(crate) theirs: TreeId,
}

/// What comes of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OnTop {
    /// Both sides in one tree.
    Tree(TreeId),
    /// What stands in the way of one.
    Conflicts(Vec<Finding>),
}

/// Puts what of `base → ours` was changed on `theirs`.
pub(crate) fn merge(objects: &Objects, rules: u32, sides: Sides) -> Result<OnTop> {
    if rules < RULES_MERGE_LINES {
        return merge_paths(objects, sides);
    }
    let Sides { base, ours, theirs } = sides;
    Ok(match objects.merge(id(base), id(ours), id(theirs))? {
        Merged::Tree(tree) => OnTop::Tree(recorded(tree)),
        Merged::Conflicts(conflicts) => OnTop::Conflicts(conflicts.iter().map(finding).collect()),
    })
}

/// The same where what `ours` has at these paths is left out: they are as `theirs` has them. None where that cannot be merged either.
pub(crate) fn merge_without(objects: &Objects, rules: u32, sides: Sides, paths: &[Vec<u8>]) -> Result<Option<TreeId>> {
    let Some(ours) = with_paths_of(objects, sides.ours, sides.base, paths)? else { return Ok(None) };
    Ok(match merge(objects, rules, Sides { ours, ..sides })? {
        OnTop::Tree(tree) => Some(tree),
        // Whatever is left conflicts in its names: a file where there is a directory now.
        OnTop::Conflicts(_) => None,
    })
}

/// A tree that has these paths as another one has them; none where there is no such tree.
pub(crate) fn with_paths_of(objects: &Objects, tree: TreeId, of: TreeId, paths: &[Vec<u8>]) -> Result<Option<TreeId>> {
    let mut edits = Vec::with_capacity(paths.len());
    for path in paths {
        let entry = objects.tree_entry(id(of), path)?.map(|(mode, id)| Entry { mode, id });
        edits.push((path.clone(), entry));
    }
    Ok(objects.edit(id(tree), &edits).ok().map(recorded))
}

fn finding(conflict: &Conflict) -> Finding {
    Finding::at(Rule::Conflict, &conflict.path, conflict.kind.to_string())
}

/// The first rule: a path that both changed, unless to the same thing, is a conflict.
fn merge_paths(objects: &Objects, sides: Sides) -> Result<OnTop> {
    let (base, ours, theirs) = (id(sides.base), id(sides.ours), id(sides.theirs));
    let conflict = |path: &[u8]| Finding::at(Rule::Conflict, path, "something else landed there meanwhile");
    let mut edits: Vec<(Vec<u8>, Option<Entry>)> = Vec::new();
    let mut conflicts = Vec::new();
    for change in objects.diff(base, ours)? {
        let there = objects.tree_entry(theirs, &change.path)?.map(|(mode, id)| Entry { mode, id });
        if there == change.old {
            edits.push((change.path, change.new));
        } else if there != change.new {
            conflicts.push(conflict(&change.path));
        }
    }
    if !conflicts.is_empty() {
        return Ok(OnTop::Conflicts(conflicts));
    }
    match objects.edit(theirs, &edits) {
        Ok(tree) => Ok(OnTop::Tree(recorded(tree))),
        Err(PatchProblem::Git(error)) => Err(error.into()),
        // A file where the others have made a directory, or the reverse.
        Err(_) => Ok(OnTop::Conflicts(edits.iter().map(|(path, _)| conflict(path)).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{MODE_FILE, ObjectId, Repository, UserEnvironment};
    use std::process::Command;

    #[test]
    fn runs_from_before_texts_were_merged_are_judged_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap().success());
        let environment = UserEnvironment { path: std::env::var_os("PATH"), ..UserEnvironment::default() };
        let user = Repository::discover(dir.path(), environment).unwrap();
        let objects = Objects::open_or_create(&dir.path().join("own"), &user).unwrap();
        let tree = |text: &str| {
            let entry = Entry { mode: MODE_FILE, id: objects.write_blob(text.as_bytes()).unwrap() };
            recorded(objects.edit(ObjectId::empty_tree(objects.format), &[(b"a".to_vec(), Some(entry))]).unwrap())
        };
        let (base, ours, theirs) = (tree("1\n2\n3\n"), tree("one\n2\n3\n"), tree("1\n2\nthree\n"));
        let said = |rules| merge(&objects, rules, Sides { base, ours, theirs }).unwrap();
        let refused = Finding::at(Rule::Conflict, b"a", "something else landed there meanwhile");
        assert_eq!(said(1), OnTop::Conflicts(vec![refused]));
        assert_eq!(said(contract::RULES), OnTop::Tree(tree("one\n2\nthree\n")));
    }
}
