//! What stood in the way of a change, with both sides: the lines that it and what had landed before it have made of the same
//! ones. It is read from the trees that are on record, by the merge that refused it.

use super::merge::Sides;
use crate::Result;
use crate::git::{Conflict, ConflictKind, Merged, Objects, id};
use contract::receipt::ReceiptGit;
use contract::{TreeId, printable};
use serde::Serialize;
use std::ops::Range;

/// How many conflicts are shown, and how much of each side.
const SHOWN_MAX: usize = 50;
const SIDE_BYTES_MAX: usize = 4096;

/// A path that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflicting {
    /// From the root.
    pub path: String,
    /// Why it cannot be merged.
    pub why: String,
    /// The lines in question, where it is a text.
    pub parts: Vec<Sided>,
}

/// Some lines as they were, and what both sides have made of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sided {
    /// The first of them, from 1, in the version that both started from.
    pub line: u64,
    /// As they were.
    pub base: String,
    /// As the change has them.
    pub ours: String,
    /// As the branch has them.
    pub theirs: String,
}

/// What stood in the way of putting a change on a tree; nothing where nothing did.
pub fn conflicts(objects: &Objects, git: &ReceiptGit, theirs: TreeId) -> Result<Vec<Conflicting>> {
    let Some(ours) = git.candidate_tree else { return Ok(Vec::new()) };
    let sides = Sides { base: git.base_tree, ours, theirs };
    let Merged::Conflicts(found) = objects.merge(id(sides.base), id(ours), id(theirs))? else { return Ok(Vec::new()) };
    both_sides(objects, sides, found)
}

/// Both sides of what cannot be merged, as far as they are shown.
pub(crate) fn both_sides(objects: &Objects, sides: Sides, found: Vec<Conflict>) -> Result<Vec<Conflicting>> {
    let mut all = Vec::new();
    for conflict in found.into_iter().take(SHOWN_MAX) {
        let mut parts = Vec::new();
        if let ConflictKind::Lines(lines) = &conflict.kind {
            let read = |tree: TreeId| text(objects, tree, &conflict.path);
            let (base, ours, theirs) = (read(sides.base)?, read(sides.ours)?, read(sides.theirs)?);
            parts.extend(lines.iter().take(SHOWN_MAX).map(|it| Sided {
                line: it.base.start as u64 + 1,
                base: cut(&base, &it.base),
                ours: cut(&ours, &it.ours),
                theirs: cut(&theirs, &it.theirs),
            }));
        }
        let path = printable(&String::from_utf8_lossy(&conflict.path));
        all.push(Conflicting { path, why: conflict.kind.to_string(), parts });
    }
    Ok(all)
}

fn text(objects: &Objects, tree: TreeId, path: &[u8]) -> Result<String> {
    let Some((_, blob)) = objects.tree_entry(id(tree), path)? else { return Ok(String::new()) };
    Ok(String::from_utf8_lossy(&objects.read_blob(blob)?).into_owned())
}

/// Some lines of a text, as far as they are shown.
fn cut(text: &str, lines: &Range<usize>) -> String {
    let part: String = text.split_inclusive('\n').skip(lines.start).take(lines.len()).collect();
    let end = (0..=part.len().min(SIDE_BYTES_MAX)).rev().find(|at| part.is_char_boundary(*at)).unwrap_or(0);
    part[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn lines_are_cut_out_whole_and_within_a_limit() {
        assert_eq!(cut("a\nb\nc", &(1..3)), "b\nc");
        assert_eq!(cut("a\n", &(1..1)), "");
        assert!(cut(&"ä".repeat(5000), &(0..1)).len() <= 4096);
    }
}
