//! Reviews and pipelines, as they are told: each contract is a node from the moment it is part of the run, connected with whatever it
//! came from; what a reviewer says is told of the node that it looked at.

use super::{Out, Projector, item_node_id, short};
use contract::PipelineFact;
use contract::pipeline::{PM_TASK, TECH_LEAD_TASK};
use contract::view::graph::{EdgeKind, Phase};
use contract::view::stream::StreamBody;

impl Projector {
    /// A fact that only reviews and pipelines have.
    pub(super) fn pipeline_fact(&mut self, fact: &PipelineFact, out: &mut Out) {
        match fact {
            PipelineFact::ContractMade(made) => {
                self.item_added(&made.added, out);
                // The last of those who write contracts wrote it.
                let writers = [TECH_LEAD_TASK, PM_TASK].into_iter().filter(|name| *name != made.added.item.id);
                let from = writers.filter_map(|name| self.places.get(name).copied()).next();
                from.into_iter().for_each(|from| self.connect(from, made.added.index, out));
            }
            PipelineFact::FixLoopAttempt(fix) => {
                self.item_added(&fix.contract.added, out);
                self.connect(fix.of, fix.contract.added.index, out);
            }
            PipelineFact::WholeAsked(added) => {
                self.item_added(added, out);
                self.change_run(out, |run| run.phase = Phase::Verify);
            }
            PipelineFact::ReviewAsked { .. } => self.change_run(out, |run| run.phase = Phase::Verify),
            PipelineFact::ReviewResult(given) => {
                let summary = short(&format!("review: {}: {}", given.verdict.as_str(), given.summary));
                self.progress(self.node_of_item(given.item), out, |state| state.node.summary = summary);
            }
            PipelineFact::StateTransition { .. }
            | PipelineFact::ReviewerGateResult { .. }
            | PipelineFact::TestResult { .. }
            | PipelineFact::FixLoopTriggered { .. }
            | PipelineFact::FixLoopExhausted { .. }
            | PipelineFact::LineMoved(_)
            | PipelineFact::LineRestored { .. } => {}
        }
    }

    fn connect(&self, from: u32, to: u32, out: &mut Out) {
        let kind = EdgeKind::Handoff;
        let (from, to) = (item_node_id(&self.id, from), item_node_id(&self.id, to));
        out.tell(StreamBody::EdgeCreated { edge: self.edge(from, to, kind, kind.default_label()) });
    }
}
