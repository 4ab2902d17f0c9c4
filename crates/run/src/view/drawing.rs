//! The graph of a whole run at once. Of a large batch it has hundreds of thousands of edges, which are most of what is held
//! when the run is sealed. Three of the four texts of an edge are UUIDs, so they are held as numbers.

use super::{Part, PartKind, Projector, SharedNode};
use contract::id::{uuid_number, uuid_text};
use contract::view::graph::{Edge, EdgeKind};
use contract::{Event, RunId};
use std::sync::Arc;

/// All parts of the graph of a run, gathered from its whole log event by event.
#[derive(Debug)]
pub struct Drawing {
    projector: Projector,
    edges: Vec<PackedEdge>,
    /// What else was told.
    told: Vec<Part>,
    events: u64,
}

impl Drawing {
    /// Of a log whose events are to come; `root` as in [`Projector::new`].
    pub fn new(id: RunId, root: &str) -> Drawing {
        Drawing { projector: Projector::new(id, root), edges: Vec::new(), told: Vec::new(), events: 0 }
    }

    /// The next event.
    pub fn take(&mut self, event: &Event) {
        for part in self.projector.tell(event).into_iter().filter_map(Part::told) {
            match part {
                Part::Edge(edge) => match PackedEdge::of(edge) {
                    Ok(packed) => self.edges.push(packed),
                    Err(edge) => self.told.push(Part::Edge(edge)),
                },
                part => {
                    if let Part::EdgeGone(id) = &part
                        && let Some(id) = uuid_number(id)
                    {
                        self.edges.retain(|edge| edge.id != id);
                    }
                    self.told.push(part);
                }
            }
        }
        self.events += 1;
    }

    /// Whose graph it is.
    pub fn run(&self) -> RunId {
        self.projector.id
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The parts, each once, in the order of their keys; the run itself comes last.
    pub fn parts(self) -> impl Iterator<Item = Part> {
        let Drawing { projector, mut edges, mut told, .. } = self;
        // What was said last of each counts.
        told.reverse();
        told.sort_by(|one, other| one.key().cmp(&other.key()));
        told.dedup_by(|earlier, last| earlier.key() == last.key());
        told.retain(|part| !part.is_gone());
        told.extend(projector.states().map(|state| Part::Node(SharedNode(Arc::clone(state)))));
        told.sort_by(|one, other| one.key().cmp(&other.key()));
        edges.reverse();
        edges.sort_by_key(|edge| edge.id);
        edges.dedup_by_key(|edge| edge.id);
        let mut edges = edges.into_iter().peekable();
        let mut told = told.into_iter().peekable();
        let merged = std::iter::from_fn(move || {
            let is_edge = match (edges.peek(), told.peek().map(Part::key)) {
                (Some(edge), Some((PartKind::Edge, id))) => uuid_text(edge.id).as_str() < id,
                (Some(_), Some((kind, _))) => kind > PartKind::Edge,
                (edge, _) => edge.is_some(),
            };
            if is_edge { edges.next().map(|edge| Part::Edge(edge.unpacked())) } else { told.next() }
        });
        merged.chain(projector.head.map(Part::Head))
    }
}

/// An edge whose ids are UUIDs as norma writes them.
#[derive(Debug)]
struct PackedEdge {
    id: u128,
    from: u128,
    to: u128,
    bidirectional: bool,
    kind: EdgeKind,
    /// Unless it is the usual one.
    label: Option<Box<str>>,
}

impl PackedEdge {
    fn of(edge: Edge) -> Result<PackedEdge, Edge> {
        let (Some(id), Some(from), Some(to)) = (uuid_number(&edge.id), uuid_number(&edge.from), uuid_number(&edge.to))
        else {
            return Err(edge);
        };
        let Edge { bidirectional, kind, label, .. } = edge;
        let label = (label != kind.default_label()).then(|| label.into_boxed_str());
        Ok(PackedEdge { id, from, to, bidirectional, kind, label })
    }

    fn unpacked(self) -> Edge {
        let PackedEdge { id, from, to, bidirectional, kind, label } = self;
        let [id, from, to] = [id, from, to].map(uuid_text);
        let label = label.map_or_else(|| kind.default_label().to_owned(), String::from);
        Edge { id, from, to, bidirectional, kind, label }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(number: u128, label: &str) -> Edge {
        let (id, from, to) = (uuid_text(number), uuid_text(number << 64), uuid_text(u128::MAX));
        Edge { id, from, to, bidirectional: true, kind: EdgeKind::Report, label: label.to_owned() }
    }

    fn check(edge: Edge, is_packed: bool) {
        match PackedEdge::of(edge.clone()) {
            Ok(packed) => assert_eq!((packed.unpacked(), true), (edge, is_packed)),
            Err(same) => assert_eq!((same, false), (edge, is_packed)),
        }
    }

    #[test]
    fn an_edge_is_what_it_was_before_it_was_packed() {
        check(edge(7, "report"), true);
        check(edge(7, "something else"), true);
        check(Edge { id: "edge-a-b".to_owned(), ..edge(7, "task") }, false);
        check(Edge { to: uuid_text(u128::MAX).to_uppercase(), ..edge(7, "task") }, false);
    }
}
