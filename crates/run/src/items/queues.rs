//! Which items of a level follow each other: those that declare, for writing, paths of which one lies in the other. For
//! every declared path there are two queues, of the items that declare exactly it and of those that declare it or
//! something below it. An item waits for what is before it in the latter for its own paths, and in the former for the
//! directories that these lie in. That is one entry for each item and directory, where pairs of items would be millions.

use super::reconciles;
use crate::persistent::{Element, PersistentVec};
use contract::{Item, path};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The queues, and how far each of them has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Queues {
    index: Arc<Index>,
    /// For each queue the place in it of its first item that has not ended.
    heads: PersistentVec<Head>,
}

#[derive(Debug, PartialEq, Default)]
struct Index {
    /// Items in the order of the contract.
    queues: Vec<Vec<u32>>,
    /// For each item that is in a queue.
    entries: BTreeMap<u32, Entries>,
}

#[derive(Debug, PartialEq, Default)]
struct Entries {
    /// The queues that it is in.
    is_in: Vec<usize>,
    /// The queues in which it waits for what is before it.
    waits_in: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Head(usize);

impl Element for Head {
    type Summary = ();

    fn summary(&self) {}
}

/// An item in its level.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'i> {
    pub(crate) place: u32,
    pub(crate) level: u32,
    pub(crate) item: &'i Item,
}

impl Placed<'_> {
    /// Everybody of a level who may wait for each other. What reconciles waits for all others: nobody waits for it but what
    /// reconciles as well.
    fn lane(&self) -> (u32, bool) {
        (self.level, reconciles(self.item))
    }

    /// The paths that it declares for writing, each as the names of its directories and its own, as a file system that ignores
    /// case and normalisation sees them.
    fn paths(&self) -> impl Iterator<Item = Vec<String>> {
        let paths = if self.item.read_only { &[] } else { &self.item.scope.allowed_paths[..] };
        paths.iter().map(|path| path.components().map(path::fold).collect())
    }
}

impl Queues {
    /// The queues of these items, of which some may have ended.
    pub(crate) fn new<'i>(items: impl Iterator<Item = Placed<'i>> + Clone, has_ended: impl Fn(u32) -> bool) -> Queues {
        // Two queues for each path: exactly it, and it or something below it.
        let mut names = BTreeMap::new();
        for placed in items.clone() {
            for path in placed.paths() {
                let next = names.len() * 2;
                names.entry((placed.lane(), path)).or_insert(next);
            }
        }
        let mut index = Index { queues: vec![Vec::new(); names.len() * 2], entries: BTreeMap::new() };
        for placed in items {
            for path in placed.paths() {
                let known = |length: usize| names.get(&(placed.lane(), path[..length].to_vec())).copied();
                for (length, exactly) in (1..=path.len()).filter_map(|length| Some((length, known(length)?))) {
                    let entries = index.entries.entry(placed.place).or_default();
                    entries.is_in.push(exactly + 1);
                    if length == path.len() {
                        entries.is_in.push(exactly);
                        entries.waits_in.push(exactly + 1);
                    } else {
                        entries.waits_in.push(exactly);
                    }
                }
            }
        }
        for (place, Entries { is_in, waits_in }) in &mut index.entries {
            for queues in [&mut *is_in, waits_in] {
                queues.sort_unstable();
                queues.dedup();
            }
            is_in.iter().for_each(|queue| index.queues[*queue].push(*place));
        }
        let mut heads = PersistentVec::default();
        for queue in &index.queues {
            heads.push(Head(queue.iter().take_while(|place| has_ended(**place)).count()));
        }
        Queues { index: Arc::new(index), heads }
    }

    /// The items that are in a queue.
    pub(crate) fn members(&self) -> impl Iterator<Item = u32> {
        self.index.entries.keys().copied()
    }

    /// Whether any item comes before this one.
    pub(crate) fn follows(&self, place: u32) -> bool {
        self.waits_in(place).any(|(queue, _)| queue[0] < place)
    }

    /// The last item that has not ended of those that must end before this one starts.
    pub(crate) fn blocker(&self, place: u32, has_ended: impl Fn(u32) -> bool) -> Option<u32> {
        let last = |(queue, head): (&[u32], usize)| {
            let before = queue.partition_point(|other| *other < place);
            queue.get(head..before)?.iter().rfind(|other| !has_ended(**other)).copied()
        };
        self.waits_in(place).filter_map(last).max()
    }

    /// Moves the queues on that an item was in, which has ended.
    pub(crate) fn note_end(&mut self, place: u32, has_ended: impl Fn(u32) -> bool) {
        let Some(entries) = self.index.entries.get(&place) else { return };
        for queue in &entries.is_in {
            let (places, head) = (&self.index.queues[*queue], self.heads[*queue].0);
            if places.get(head) == Some(&place) {
                let ended = places[head..].iter().take_while(|place| has_ended(**place)).count();
                self.heads.update(*queue, |head| head.0 += ended);
            }
        }
    }

    fn waits_in(&self, place: u32) -> impl Iterator<Item = (&[u32], usize)> {
        let queues = self.index.entries.get(&place).into_iter().flat_map(|entries| &entries.waits_in);
        queues.map(|queue| (&self.index.queues[*queue][..], self.heads[*queue].0))
    }
}
