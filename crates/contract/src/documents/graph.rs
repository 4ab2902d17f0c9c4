//! What the parts of a document wait for, by name: the names that are nobody's, and the rings in which nothing could ever
//! begin. Work items and the nodes of a plan are checked against the same.

use std::collections::{BTreeMap, BTreeSet};

/// Names, each with those it waits for.
pub(super) struct Graph<'a>(Vec<(&'a str, &'a [String])>);

impl<'a> Graph<'a> {
    pub(super) fn new(nodes: impl Iterator<Item = (&'a str, &'a [String])>) -> Graph<'a> {
        Graph(nodes.collect())
    }

    /// Every name that something waits for and that nothing has: whose, the how many-eth of its names, and the name.
    pub(super) fn unknown(&self) -> Vec<(usize, usize, &'a str)> {
        let known: BTreeSet<&str> = self.0.iter().map(|(name, _)| *name).collect();
        let all =
            self.0.iter().enumerate().flat_map(|(whose, (_, needs))| {
                needs.iter().enumerate().map(move |(at, need)| (whose, at, need.as_str()))
            });
        all.filter(|(_, _, need)| !known.contains(need)).collect()
    }

    /// Every ring of nodes that wait for each other, each told once, by their places.
    pub(super) fn rings(&self) -> Vec<Vec<usize>> {
        let places: BTreeMap<&str, usize> = self.0.iter().zip(0..).map(|((name, _), at)| (*name, at)).collect();
        let needs = |at: usize| self.0[at].1.iter().filter_map(|need| places.get(need.as_str()).copied());
        let mut needed_by = vec![Vec::new(); self.0.len()];
        let mut missing: Vec<usize> = (0..self.0.len()).map(|at| needs(at).count()).collect();
        (0..self.0.len()).for_each(|at| needs(at).for_each(|need| needed_by[need].push(at)));
        let mut rings = Vec::new();
        let mut waiting: BTreeSet<usize> = (0..self.0.len()).collect();
        let mut ready: Vec<usize> = (0..self.0.len()).filter(|at| missing[*at] == 0).collect();
        loop {
            while let Some(at) = ready.pop() {
                if !waiting.remove(&at) {
                    continue;
                }
                for next in &needed_by[at] {
                    missing[*next] -= 1;
                    ready.extend((missing[*next] == 0).then_some(*next));
                }
            }
            let Some(first) = waiting.first().copied() else { return rings };
            let ring = ring_from(first, |at| needs(at).find(|need| waiting.contains(need)));
            ready.extend(&ring);
            rings.push(ring);
        }
    }

    /// A ring in words.
    pub(super) fn shown(&self, ring: &[usize]) -> String {
        let names: Vec<&str> = ring.iter().chain(ring.first()).map(|at| self.0[*at].0).collect();
        names.join(" → ")
    }
}

/// Follows what waits for what until something comes again; the ring is what lies between.
fn ring_from(first: usize, next: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut way = vec![first];
    while let Some(at) = way.last().and_then(|at| next(*at)) {
        if let Some(start) = way.iter().position(|seen| *seen == at) {
            return way.split_off(start);
        }
        way.push(at);
    }
    way
}
