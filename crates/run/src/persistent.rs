//! A vector whose copies share what they have in common. A copy costs the same whatever its length, and a change of one
//! element copies the few nodes that lead to it, so that a run of ten thousand items continues as quickly as one of ten.
//! Every node knows the [`Summary`] of what is below it: what has some property is found without looking at the rest.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// Entries of a node. A change copies as many for each level of the tree; with more there are fewer levels.
const WIDTH: usize = 1 << BITS;
const BITS: usize = 4;

/// What is kept in such a vector.
pub trait Element: Clone {
    /// What can be looked for.
    type Summary: Summary;

    /// What can be said of this one.
    fn summary(&self) -> Self::Summary;
}

/// What can be said of several elements at once; the default is what is said of none.
pub trait Summary: Clone + Default {
    /// Says the same of what another one is about, too.
    fn add(&mut self, other: &Self);
}

impl Summary for () {
    fn add(&mut self, (): &()) {}
}

/// A vector whose copies share what they have in common.
#[derive(Clone)]
pub struct PersistentVec<T: Element> {
    root: Arc<Node<T>>,
    /// How many nodes lie between the root and the elements.
    height: usize,
    len: usize,
}

#[derive(Clone)]
struct Node<T: Element> {
    summary: T::Summary,
    below: Below<T>,
}

#[derive(Clone)]
enum Below<T: Element> {
    Elements(Vec<T>),
    Nodes(Vec<Arc<Node<T>>>),
}

impl<T: Element> Default for PersistentVec<T> {
    fn default() -> PersistentVec<T> {
        PersistentVec { root: Arc::new(Node::empty(0)), height: 0, len: 0 }
    }
}

impl<T: Element> PersistentVec<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element at a place.
    pub fn get(&self, place: usize) -> Option<&T> {
        if place >= self.len {
            return None;
        }
        let (mut node, mut height) = (&self.root, self.height);
        loop {
            match &node.below {
                Below::Elements(elements) => {
                    visits::count();
                    return elements.get(place % WIDTH);
                }
                Below::Nodes(nodes) => node = &nodes[digit(place, height)],
            }
            height -= 1;
        }
    }

    /// The first element.
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last element.
    pub fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// All elements in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator + Clone {
        (0..self.len).map(|place| &self[place])
    }

    /// What can be said of all of them.
    pub fn summary(&self) -> &T::Summary {
        &self.root.summary
    }

    /// The first place from this one on whose summary this is true of. It must be true of a summary of several exactly if it
    /// is true of one of them.
    pub fn find_from(&self, start: usize, is_wanted: impl Fn(&T::Summary) -> bool) -> Option<usize> {
        self.root.find(self.height, 0, start, &is_wanted)
    }

    pub(crate) fn push(&mut self, element: T) {
        if self.len == WIDTH << (BITS * self.height) {
            self.height += 1;
            let summary = self.root.summary.clone();
            let below = std::mem::replace(&mut self.root, Arc::new(Node::empty(self.height)));
            let root = Node { summary, below: Below::Nodes(vec![below]) };
            self.root = Arc::new(root);
        }
        Node::push(&mut self.root, self.height, self.len, element);
        self.len += 1;
    }

    /// Changes the element at a place, which must exist.
    pub(crate) fn update<R>(&mut self, place: usize, change: impl FnOnce(&mut T) -> R) -> R {
        assert!(place < self.len, "BUG: there is no element {place}");
        Node::update(&mut self.root, self.height, place, change)
    }
}

fn digit(place: usize, height: usize) -> usize {
    (place >> (BITS * height)) % WIDTH
}

impl<T: Element> Node<T> {
    fn empty(height: usize) -> Node<T> {
        let below = if height == 0 { Below::Elements(Vec::new()) } else { Below::Nodes(Vec::new()) };
        Node { summary: T::Summary::default(), below }
    }

    fn push(node: &mut Arc<Node<T>>, height: usize, place: usize, element: T) {
        let node = Arc::make_mut(node);
        node.summary.add(&element.summary());
        match &mut node.below {
            Below::Elements(elements) => elements.push(element),
            Below::Nodes(nodes) => {
                let at = digit(place, height);
                if at == nodes.len() {
                    nodes.push(Arc::new(Node::empty(height - 1)));
                }
                Node::push(&mut nodes[at], height - 1, place, element);
            }
        }
    }

    fn update<R>(node: &mut Arc<Node<T>>, height: usize, place: usize, change: impl FnOnce(&mut T) -> R) -> R {
        let node = Arc::make_mut(node);
        node.summary = T::Summary::default();
        match &mut node.below {
            Below::Elements(elements) => {
                let changed = change(&mut elements[place % WIDTH]);
                elements.iter().for_each(|element| node.summary.add(&element.summary()));
                changed
            }
            Below::Nodes(nodes) => {
                let changed = Node::update(&mut nodes[digit(place, height)], height - 1, place, change);
                nodes.iter().for_each(|below| node.summary.add(&below.summary));
                changed
            }
        }
    }

    fn find(
        &self,
        height: usize,
        first: usize,
        start: usize,
        is_wanted: &dyn Fn(&T::Summary) -> bool,
    ) -> Option<usize> {
        if first + (WIDTH << (BITS * height)) <= start || !is_wanted(&self.summary) {
            return None;
        }
        match &self.below {
            Below::Elements(elements) => (first..).zip(elements).find_map(|(place, element)| {
                visits::count();
                (place >= start && is_wanted(&element.summary())).then_some(place)
            }),
            Below::Nodes(nodes) => {
                let mut nodes = (first..).step_by(1 << (BITS * height)).zip(nodes);
                nodes.find_map(|(first, node)| node.find(height - 1, first, start, is_wanted))
            }
        }
    }
}

impl<T: Element> Index<usize> for PersistentVec<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        self.get(place).unwrap_or_else(|| panic!("BUG: there is no element {place}"))
    }
}

impl<T: Element + PartialEq> PartialEq for PersistentVec<T> {
    fn eq(&self, other: &PersistentVec<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for PersistentVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// How many elements were looked at, for tests of what a decision costs.
pub(crate) mod visits {
    #[cfg(test)]
    thread_local!(static COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

    #[inline(always)]
    pub(super) fn count() {
        #[cfg(test)]
        COUNT.with(|count| count.set(count.get() + 1));
    }

    /// How many it takes to do this.
    #[cfg(test)]
    pub(crate) fn of<R>(work: impl FnOnce() -> R) -> (R, u64) {
        let before = COUNT.with(std::cell::Cell::get);
        let done = work();
        (done, COUNT.with(std::cell::Cell::get) - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local!(static CLONES: Cell<usize> = const { Cell::new(0) });

    #[derive(Debug, PartialEq)]
    struct Counted(u32);

    impl Clone for Counted {
        fn clone(&self) -> Counted {
            CLONES.with(|clones| clones.set(clones.get() + 1));
            Counted(self.0)
        }
    }

    /// The largest of several.
    #[derive(Debug, Clone, Default, PartialEq)]
    struct Most(u32);

    impl Summary for Most {
        fn add(&mut self, other: &Most) {
            self.0 = self.0.max(other.0);
        }
    }

    impl Element for Counted {
        type Summary = Most;

        fn summary(&self) -> Most {
            Most(self.0)
        }
    }

    proptest! {
        #[test]
        fn it_is_a_vector_and_copies_stay_as_they_were(
            values in prop::collection::vec(0..50_u32, 1..700),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..50_u32), 0..20),
            (start, wanted) in (0..700_usize, 0..50_u32),
        ) {
            let (mut made, mut expected) = (PersistentVec::default(), Vec::new());
            for value in values {
                made.push(Counted(value));
                expected.push(Counted(value));
            }
            let (copy, before) = (made.clone(), expected.clone());
            for (place, value) in changes {
                let place = place.index(expected.len());
                made.update(place, |element| element.0 = value);
                expected[place].0 = value;
            }
            prop_assert!(made.iter().eq(&expected) && copy.iter().eq(&before));
            prop_assert!(made.iter().rev().eq(expected.iter().rev()));
            prop_assert_eq!(made.summary().0, expected.iter().map(|it| it.0).max().unwrap_or(0));
            let first = (0..expected.len()).find(|place| *place >= start && expected[*place].0 >= wanted);
            prop_assert_eq!(made.find_from(start, |most| most.0 >= wanted), first);
            prop_assert_eq!((made.get(expected.len()), made.len()), (None, expected.len()));
        }
    }

    #[test]
    fn a_change_copies_one_path_and_looking_visits_one_leaf() {
        let mut made = PersistentVec::default();
        for value in 0..10_000 {
            made.push(Counted(value));
        }
        let kept = made.clone();
        CLONES.with(|clones| clones.set(0));
        made.update(7_000, |element| element.0 = 20_000);
        assert!(CLONES.with(Cell::get) <= WIDTH, "{} were copied", CLONES.with(Cell::get));
        let (found, visited) = visits::of(|| made.find_from(0, |most| most.0 > 10_000));
        assert!(found == Some(7_000) && visited <= WIDTH as u64, "{visited} were looked at");
        assert_eq!((kept[7_000].0, made[7_000].0), (7_000, 20_000));
    }
}
