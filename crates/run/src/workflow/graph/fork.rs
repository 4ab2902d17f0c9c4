//! A graph that goes on from another one: the nodes and edges that it had, with new conversations and nothing to read. What
//! nodes had made that was not on the line yet, and what was said to them, stays with the run that it is of.

use super::State;
use crate::view::graph_node_id;
use contract::graph::{EdgeSet, NodeAdded};
use contract::view::graph::Edge;
use contract::{Fact, GraphFact, NodeTerms, RunId};
use std::collections::BTreeMap;

/// The facts that give a new run the nodes and edges of a graph.
pub fn facts(state: &State, run: &RunId, by: &str) -> Vec<Fact> {
    let (mut ids, mut facts) = (BTreeMap::new(), Vec::new());
    for (place, (_, node)) in (0..).zip(state.present()) {
        let id = graph_node_id(run, place);
        ids.insert(node.terms.id.as_str(), id.clone());
        let terms = NodeTerms { id, ..(*node.terms).clone() };
        let added = NodeAdded { node: place, terms, by: by.to_owned() };
        facts.push(Fact::Graph(GraphFact::NodeAdded(Box::new(added))));
    }
    for edge in state.edges.values() {
        let Some((from, to)) = ids.get(edge.from.as_str()).zip(ids.get(edge.to.as_str())) else { continue };
        let edge = Edge { from: from.clone(), to: to.clone(), ..edge.clone() };
        facts.push(Fact::Graph(GraphFact::EdgeSet(Box::new(EdgeSet { edge, old: None, by: by.to_owned() }))));
    }
    facts
}
