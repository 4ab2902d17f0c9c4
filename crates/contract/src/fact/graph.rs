//! What can happen to a graph that people build, and to no other run. In the log these stand beside the facts of
//! every run, each under a type word of its own; here they are apart, so that only what knows graphs lists them.

use super::{StepRef, first_line};
use crate::graph::{
    ChangeProposed, EdgeSet, HandoffSent, ModeChanged, NodeAdded, NodeAnswered, NodeAsked, NodeChanged, NodeMessage,
    NodeWish, PhaseChanged, Stalled,
};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// What can happen to a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum GraphFact {
    /// There is another node.
    NodeAdded(Box<NodeAdded>),
    /// A node is another one from its next turn on.
    NodeChanged(Box<NodeChanged>),
    /// A node gets no turns until somebody lets it have them again; or gets them again.
    NodeHeld {
        /// Its place.
        node: u32,
        /// Whether it is held.
        held: bool,
        /// Who says so.
        by: String,
    },
    /// A node forgets its conversation.
    NodeReset {
        /// Its place.
        node: u32,
        /// Who says so.
        by: String,
    },
    /// A node is gone, and its edges with it.
    NodeRemoved {
        /// Its place.
        node: u32,
        /// Who says so.
        by: String,
    },
    /// There is an edge, or it has changed.
    EdgeSet(Box<EdgeSet>),
    /// An edge is gone.
    EdgeRemoved {
        /// Its id.
        edge: String,
        /// Who says so.
        by: String,
    },
    /// A node is told something.
    MessageSent(Box<NodeMessage>),
    /// A node sends something to another.
    HandoffSent(Box<HandoffSent>),
    /// The agent of a node wishes for something that a person has to approve.
    NodeWished {
        /// The turn in which it does.
        step: StepRef,
        /// What it wishes for.
        wish: NodeWish,
    },
    /// A person is asked about it.
    NodeAsked(Box<NodeAsked>),
    /// It was answered.
    NodeAnswered(Box<NodeAnswered>),
    /// Somebody changed how a graph goes on.
    ModeChanged(ModeChanged),
    /// A graph is about to do something else.
    PhaseChanged(PhaseChanged),
    /// A node says that it is done, or somebody says that the run is.
    DoneMarked {
        /// Its place; none where a person says it of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u32>,
        /// Who says so.
        by: String,
    },
    /// What a node has made is to become part of the run's line.
    ChangeProposed(Box<ChangeProposed>),
    /// A graph does the same again and again.
    RunStalled(Box<Stalled>),
}

impl GraphFact {
    /// Their type words.
    pub(super) const KINDS: [&str; 17] = [
        "node_added",
        "node_changed",
        "node_held",
        "node_reset",
        "node_removed",
        "edge_set",
        "edge_removed",
        "message_sent",
        "handoff_sent",
        "node_wished",
        "node_asked",
        "node_answered",
        "mode_changed",
        "phase_changed",
        "done_marked",
        "change_proposed",
        "run_stalled",
    ];

    /// Whether it is something that people do to a graph, or tell it: they may while it is held, too, and nothing of
    /// it gets a turn by that.
    pub fn is_said_by_people(&self) -> bool {
        match self {
            GraphFact::NodeAdded(_)
            | GraphFact::NodeChanged(_)
            | GraphFact::NodeHeld { .. }
            | GraphFact::NodeReset { .. }
            | GraphFact::NodeRemoved { .. }
            | GraphFact::EdgeSet(_)
            | GraphFact::EdgeRemoved { .. }
            | GraphFact::MessageSent(_)
            | GraphFact::HandoffSent(_)
            | GraphFact::NodeAnswered(_)
            | GraphFact::ModeChanged(_)
            | GraphFact::DoneMarked { .. } => true,
            GraphFact::NodeWished { .. }
            | GraphFact::NodeAsked(_)
            | GraphFact::PhaseChanged(_)
            | GraphFact::ChangeProposed(_)
            | GraphFact::RunStalled(_) => false,
        }
    }

    /// One sentence for people.
    pub(super) fn message(&self) -> String {
        match self {
            GraphFact::NodeAdded(added) => format!("Node {} added by {}", added.terms.label, added.by),
            GraphFact::NodeChanged(changed) => format!("Node {} changed by {}", changed.new.label, changed.by),
            GraphFact::NodeHeld { held: true, by, .. } => format!("Node stopped by {by}"),
            GraphFact::NodeHeld { by, .. } => format!("Node started by {by}"),
            GraphFact::NodeReset { by, .. } => format!("Node reset by {by}: its conversation begins anew"),
            GraphFact::NodeRemoved { by, .. } => format!("Node removed by {by}"),
            GraphFact::EdgeSet(set) => format!("Edge {} set by {}", set.edge.label, set.by),
            GraphFact::EdgeRemoved { by, .. } => format!("Edge removed by {by}"),
            GraphFact::MessageSent(message) => format!("{}: {}", message.by, first_line(&message.content)),
            GraphFact::HandoffSent(sent) => format!("Handed over: {}", first_line(&sent.envelope.payload.message)),
            GraphFact::NodeWished { wish: NodeWish::Command { argv, .. }, .. } => {
                format!("Asks to run {}", argv.join(" "))
            }
            GraphFact::NodeWished { wish: NodeWish::Spawn(wish), .. } => format!("Asks for a node {}", wish.label),
            GraphFact::NodeWished { wish: NodeWish::Edge(wish), .. } => {
                format!("Asks for an edge from {} to {}", wish.from, wish.to)
            }
            GraphFact::NodeAsked(asked) => {
                format!("Waiting for approval {}: {}", asked.wait.approval, asked.wait.reasons.join("; "))
            }
            GraphFact::NodeAnswered(answered) => format!("Approval {} answered by {}", answered.approval, answered.by),
            GraphFact::ModeChanged(changed) => format!("Mode {:?}, {:?}", changed.new.0, changed.new.1),
            GraphFact::PhaseChanged(changed) => format!("Phase {:?}: {}", changed.new, changed.why),
            GraphFact::DoneMarked { node: Some(_), by } => format!("{by} is done"),
            GraphFact::DoneMarked { node: None, by } => format!("{by} says that the run is done"),
            GraphFact::ChangeProposed(proposed) => format!("Change {} proposed", proposed.added.item.id),
            GraphFact::RunStalled(stalled) => {
                format!("Stalled: {}", stalled.evidence.summaries.last().map_or("", |said| first_line(said)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_a_graph_is_found_by_its_type_word() {
        let schema = serde_json::to_value(schemars::schema_for!(GraphFact)).unwrap();
        let words: Vec<&str> = schema["oneOf"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["properties"]["type"]["const"].as_str().unwrap())
            .collect();
        assert_eq!(words, GraphFact::KINDS);
    }
}
