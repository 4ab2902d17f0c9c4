//! The run of an intent, as it is told: what is compiled, the patch, and the nodes of its plan, connected by what they build on.

use super::node::NodeState;
use super::{Out, Projector};
use contract::documents::Plan;
use contract::id::derived_uuid;
use contract::intent::WAIT_PREFIX;
use contract::view::graph::{EdgeKind, NodeStatus, Phase};
use contract::view::stream::StreamBody;
use contract::{IntentFact, RunId};
use std::sync::Arc;

/// How many nodes come before those of the plan: what is compiled, and the patch.
pub(super) const BEFORE_PLAN: usize = 2;

/// The id of a node of a plan, by its place in it.
pub(super) fn plan_node_id(run: &RunId, place: u32) -> String {
    derived_uuid(run, &["node", "plan", &place.to_string()])
}

impl Projector {
    /// A fact that only an intent has.
    pub(super) fn intent_fact(&mut self, fact: &IntentFact, out: &mut Out) {
        match fact {
            IntentFact::PlanMade(planned) => self.plan_made(&planned.plan, out),
            IntentFact::PatchProposed(proposed) => {
                self.item_added(&proposed.added, out);
                self.change_run(out, |run| run.phase = Phase::Verify);
            }
            IntentFact::PlanNodePassed { node } => self.plan_node_ended(*node, "nothing to do", out),
            IntentFact::PlanNodeSkipped { node, why } => self.plan_node_ended(*node, &format!("skipped: {why}"), out),
            IntentFact::PlanNodeDecided { node, choice } => {
                self.plan_node_ended(*node, &format!("chose {choice:?}"), out);
            }
            IntentFact::PlanNodeExpired { node, choice } => {
                let place = BEFORE_PLAN + *node as usize;
                self.waiting.retain(|_, waiting| waiting.place != place);
                self.plan_node_ended(*node, &format!("no answer in time, so {choice:?}"), out);
            }
            IntentFact::PlanNodeCarried { node, run, .. } => {
                self.plan_node_ended(*node, &format!("done in run {run}"), out);
            }
            IntentFact::PlanRefused { .. } | IntentFact::PlanHeld { .. } | IntentFact::TurnOutput { .. } => {}
        }
    }

    fn plan_made(&mut self, plan: &str, out: &mut Out) {
        let Ok(plan) = Plan::read(plan.as_bytes()) else { return };
        let first = self.nodes.len();
        let agent = self.intent_agent.as_ref().and_then(|name| self.workers.get(&**name)).cloned();
        let (specs, mut shown) = (plan.spell_out().map(|(specs, _)| specs).unwrap_or_default(), Vec::new());
        for (spec, place) in specs.iter().zip(0..) {
            let state = NodeState::of_plan(&self.id, spec, place, agent.as_ref(), out.ts);
            shown.push(state.node.clone());
            self.nodes.push(Arc::new(state));
            Arc::make_mut(&mut self.plan_places).insert(spec.id.clone(), first + place as usize);
        }
        self.touch(first..self.nodes.len(), out);
        self.change_run_and_nodes(out, shown, |_| ());
        for (spec, place) in specs.iter().zip(0..) {
            for from in spec.awaits() {
                let (from, to) = (plan_node_id(&self.id, from), plan_node_id(&self.id, place));
                let kind = EdgeKind::Handoff;
                out.tell(StreamBody::EdgeCreated { edge: self.edge(from, to, kind, kind.default_label()) });
            }
        }
    }

    fn plan_node_ended(&mut self, node: u32, summary: &str, out: &mut Out) {
        let ts = out.ts;
        self.progress(BEFORE_PLAN + node as usize, out, |state| {
            state.node.status = NodeStatus::Idle;
            state.node.summary = super::short(summary);
            state.ended = true;
            state.touch(ts);
        });
        self.change_run(out, |run| run.phase = Phase::Execute);
    }

    /// The node of a plan that a question is about.
    pub(super) fn asking_node(&self, wait: &str) -> Option<usize> {
        self.plan_places.get(wait.strip_prefix(WAIT_PREFIX)?).copied()
    }
}
