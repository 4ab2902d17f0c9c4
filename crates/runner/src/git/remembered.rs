//! Trees and differences of a moment ago.
//!
//! The gates of a change, its patch, its receipt and the line it is put on all ask for the same few trees and how they
//! differ, and the trees of a directory with many files take long to read. Objects never change, so what was read or
//! written last is kept, up to a limit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::ObjectId;
use super::tree::{Line, TreeChange};

/// How many lines are kept of all trees together: a megabyte or two.
const LINES_MAX: usize = 16_384;

/// How many differences are kept, and how long one may be.
const DIFFERENCES_MAX: usize = 8;
const CHANGES_MAX: usize = 256;

/// What a tree has, in git's order.
pub(crate) type Lines = Arc<Vec<Line>>;

/// Two trees, and how they differ.
type Difference = ([ObjectId; 2], Arc<[TreeChange]>);

#[derive(Debug, Default)]
pub(super) struct Remembered {
    trees: Mutex<Trees>,
    /// The newest first.
    differences: Mutex<VecDeque<Difference>>,
}

#[derive(Debug, Default)]
struct Trees {
    by_id: HashMap<ObjectId, Lines>,
    /// The oldest first.
    order: VecDeque<ObjectId>,
    lines: usize,
}

impl Remembered {
    pub(super) fn tree(&self, id: ObjectId) -> Option<Lines> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    pub(super) fn keep_tree(&self, id: ObjectId, tree: &Lines) {
        let trees = &mut *self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if tree.len() > LINES_MAX || trees.by_id.insert(id, Arc::clone(tree)).is_some() {
            return;
        }
        trees.order.push_back(id);
        trees.lines += tree.len();
        while trees.lines > LINES_MAX {
            let Some(gone) = trees.order.pop_front().and_then(|oldest| trees.by_id.remove(&oldest)) else { return };
            trees.lines -= gone.len();
        }
    }

    pub(super) fn difference(&self, old: ObjectId, new: ObjectId) -> Option<Arc<[TreeChange]>> {
        let known = self.differences.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(of, _)| *of == [old, new]).map(|(_, changes)| Arc::clone(changes))
    }

    pub(super) fn keep_difference(&self, old: ObjectId, new: ObjectId, changes: &[TreeChange]) {
        if changes.len() > CHANGES_MAX {
            return;
        }
        let mut known = self.differences.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(DIFFERENCES_MAX - 1);
        known.push_front(([old, new], changes.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tree::{Entry, MODE_FILE};

    fn id(number: usize) -> ObjectId {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        ObjectId::Sha1(bytes)
    }

    #[test]
    fn the_oldest_trees_go_when_there_are_too_many_lines() {
        let known = Remembered::default();
        let line = Line { name: b"a"[..].into(), entry: Entry { mode: MODE_FILE, id: id(0) } };
        let tree = |lines: usize| Arc::new(vec![line.clone(); lines]);
        known.keep_tree(id(1), &tree(LINES_MAX / 2));
        known.keep_tree(id(2), &tree(LINES_MAX / 2));
        known.keep_tree(id(2), &tree(LINES_MAX / 2));
        assert!(known.tree(id(1)).is_some() && known.tree(id(2)).is_some());
        known.keep_tree(id(3), &tree(1));
        assert!(known.tree(id(1)).is_none() && known.tree(id(2)).is_some() && known.tree(id(3)).is_some());
        known.keep_tree(id(4), &tree(LINES_MAX + 1));
        assert!(known.tree(id(4)).is_none());
    }

    #[test]
    fn a_difference_is_known_by_both_of_its_sides() {
        let known = Remembered::default();
        for number in 0..=DIFFERENCES_MAX {
            known.keep_difference(id(number), id(number + 1), &[]);
        }
        assert!(known.difference(id(0), id(1)).is_none(), "too many came after it");
        assert!(known.difference(id(1), id(2)).is_some() && known.difference(id(2), id(1)).is_none());
    }
}
