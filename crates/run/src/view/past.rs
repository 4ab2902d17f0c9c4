//! A run as it was after a fact of its log, to be shown, and to be continued from: whoever looks at a long run again and
//! again does not fold all of its log each time.

use super::Projector;
use crate::persistent::{Element, PersistentVec};
use contract::view::graph::{Artifact, Edge, RunGraph};
use contract::view::stream::{StreamBody, StreamEvent};
use contract::{Event, RunId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A projector with what it has told of and does not keep itself. Copies share what they have in common.
#[derive(Debug, Clone)]
pub struct Past {
    projector: Projector,
    seq: Option<u64>,
    edges: Arc<BTreeMap<String, Edge>>,
    artifacts: PersistentVec<Arc<Artifact>>,
}

impl Element for Arc<Artifact> {
    type Summary = ();

    fn summary(&self) {}
}

impl Past {
    /// Before the first fact of a run; see [`Projector::new`].
    pub fn new(id: RunId, root: &str) -> Past {
        let projector = Projector::new(id, root);
        Past { projector, seq: None, edges: Arc::default(), artifacts: PersistentVec::default() }
    }

    /// The next fact, as it is told.
    pub fn apply(&mut self, event: &Event) -> Vec<StreamEvent> {
        let told = self.projector.apply(event);
        self.seq = Some(event.seq);
        for event in &told {
            match &event.body {
                StreamBody::EdgeCreated { edge } => {
                    Arc::make_mut(&mut self.edges).insert(edge.id.clone(), edge.clone());
                }
                StreamBody::EdgeDeleted { edge_id } => drop(Arc::make_mut(&mut self.edges).remove(edge_id)),
                StreamBody::ArtifactCreated { artifact, .. } => self.artifacts.push(Arc::new(artifact.clone())),
                _ => {}
            }
        }
        told
    }

    /// What continues to follow the log from here.
    pub fn projector(&self) -> &Projector {
        &self.projector
    }

    /// The run as a graph; none before its first fact.
    pub fn graph(&self) -> Option<RunGraph> {
        let mut graph = self.projector.head()?.clone();
        graph.nodes.extend(self.projector.nodes().map(|node| (node.id.clone(), node.clone())));
        graph.edges.extend(self.edges.iter().map(|(id, edge)| (id.clone(), edge.clone())));
        graph.artifacts.extend(self.artifacts.iter().map(|it| (it.id.clone(), Artifact::clone(it))));
        graph.seq = self.seq;
        Some(graph)
    }
}
