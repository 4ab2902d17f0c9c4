//! Who took the turns of a run and what that used, read from its log for the views. A line that cannot be read is left
//! out here: `norma verify` is who names it.

use contract::{
    AgentConfig, Contract, EventLine, Fact, ItemStatus, LeftOutView, RunView, SessionEvent, StepRef, StepView, Usage,
};
use std::collections::BTreeMap;

/// The kinds of events that [`Agents`] is made of.
pub(crate) const TELLING: &str = "type IN ('run_started', 'item_added', 'item_ended', 'step_committed') \
                                  OR type = 'agent_event' AND data_json LIKE '%\"type\":\"session\"%'";

/// What the turns of a run tell about its agents.
#[derive(Default)]
pub(crate) struct Agents {
    contract: Option<Contract>,
    /// The workers of items, by the item's place.
    workers: BTreeMap<u32, String>,
    /// The ids of items, by their place.
    ids: BTreeMap<u32, String>,
    left_out: Vec<LeftOutView>,
    turns: BTreeMap<u32, Turn>,
}

/// What the log tells of a turn.
#[derive(Default)]
struct Turn {
    step: Option<StepRef>,
    session: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
}

impl Agents {
    /// Hears the next line that is told, in the log's order.
    pub(crate) fn hear(&mut self, line: &str) {
        let fact = EventLine::parse(line.as_bytes()).ok().and_then(|line| line.event().ok()).map(|event| event.fact);
        match fact {
            Some(Fact::RunStarted(started)) => self.contract = Some(started.contract),
            Some(Fact::ItemAdded(added)) => {
                if let (Some(agent), Some(contract)) = (added.addition.and_then(|it| it.agent), &mut self.contract) {
                    contract.workers.insert(added.item.worker.clone(), agent);
                }
                self.workers.insert(added.index, added.item.worker);
                self.ids.insert(added.index, added.item.id);
            }
            Some(Fact::ItemEnded(ended)) if ended.status == ItemStatus::Success => {
                let task_id = self.ids.get(&ended.item).cloned().unwrap_or_default();
                self.left_out.extend(ended.left_out.map(|left_out| LeftOutView { task_id, left_out }));
            }
            Some(Fact::AgentEvent { step, event }) => self.opened(step, *event),
            Some(Fact::StepCommitted(done)) => {
                let turn = self.turns.entry(done.step.index).or_default();
                (turn.step, turn.usage) = (Some(done.step), done.usage);
            }
            _ => {}
        }
    }

    fn opened(&mut self, step: StepRef, event: SessionEvent) {
        if let SessionEvent::Session { id, model, .. } = event {
            let turn = self.turns.entry(step.index).or_default();
            turn.session = Some(id);
            turn.model = model.or_else(|| turn.model.take());
        }
    }

    fn agent_of(&self, step: StepRef) -> Option<&AgentConfig> {
        let contract = self.contract.as_ref()?;
        match step.item {
            None => contract.agents.get(&step.role),
            Some(place) => contract.workers.get(self.workers.get(&place)?),
        }
    }

    /// Has a view tell it.
    pub(crate) fn tell(&self, view: &mut RunView) {
        for step in view.steps.iter_mut().flatten() {
            self.tell_step(step);
        }
        view.left_out.clone_from(&self.left_out);
        let mut all = self.turns.values().filter_map(|turn| turn.usage);
        view.usage = all.next().map(|first| {
            all.fold(first, |mut sum, more| {
                sum.add(&more);
                sum
            })
        });
    }

    fn tell_step(&self, view: &mut StepView) {
        let Some((turn, step)) = self.turns.get(&view.index).and_then(|turn| Some((turn, turn.step?))) else { return };
        let agent = self.agent_of(step);
        view.agent = agent.map(|agent| agent.kind);
        view.model = turn.model.clone().or_else(|| agent.and_then(|agent| agent.model.clone()));
        view.session_id.clone_from(&turn.session);
        view.usage = turn.usage;
    }
}
