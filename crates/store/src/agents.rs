//! Who took the turns of a run and what that used, read from its log for the views. A line that cannot be read is left
//! out here: `norma verify` is who names it.

use contract::work::Gate;
use contract::{
    AgentConfig, Contract, EventLine, Fact, GraphFact, IntentFact, Item, ItemEnded, ItemStatus, LeftOutView, Role,
    RunDetails, RunView, SessionEvent, StepRef, StepView, TestsView, Usage,
};
use std::collections::BTreeMap;

/// The kinds of events that [`Agents`] is made of.
pub(crate) const TELLING: &str = "type IN ('run_started', 'item_added', 'item_ended', 'patch_applied', \
                                  'change_dropped', 'step_committed', 'node_added', 'node_changed', \
                                  'change_proposed', 'contract_made', 'FIX_LOOP_ATTEMPT') \
                                  OR type = 'agent_event' AND data_json LIKE '%\"type\":\"session\"%'";

/// What the turns of a run tell about its agents.
#[derive(Default)]
pub(crate) struct Agents {
    contract: Option<Contract>,
    /// The items, by their place.
    items: BTreeMap<u32, Item>,
    /// Who takes the turns of nodes, by their place.
    nodes: BTreeMap<u32, String>,
    left_out: Vec<LeftOutView>,
    receipts: Vec<String>,
    /// The items whose tests were run, and whether they passed.
    tested: BTreeMap<u32, bool>,
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
        let fact =
            EventLine::parse(line.as_bytes()).ok().and_then(|mut line| line.take_event().ok()).map(|event| event.fact);
        let end = fact.as_ref().and_then(Fact::change_end);
        self.receipts.extend(end.and_then(|end| end.receipt).map(|receipt| receipt.id.clone()));
        match fact {
            Some(Fact::RunStarted(started)) => self.contract = Some(started.contract),
            Some(Fact::ItemAdded(added)) => {
                if let (Some(agent), Some(contract)) = (added.addition.and_then(|it| it.agent), &mut self.contract) {
                    contract.workers.insert(added.item.worker.clone(), agent);
                }
                self.items.insert(added.index, added.item);
            }
            Some(Fact::Graph(GraphFact::NodeAdded(added))) => drop(self.nodes.insert(added.node, added.terms.worker)),
            Some(Fact::Graph(GraphFact::NodeChanged(changed))) => {
                drop(self.nodes.insert(changed.node, changed.new.worker))
            }
            Some(Fact::Graph(GraphFact::ChangeProposed(proposed))) => {
                drop(self.items.insert(proposed.added.index, proposed.added.item));
            }
            Some(Fact::Intent(IntentFact::PatchProposed(proposed))) => {
                drop(self.items.insert(proposed.added.index, proposed.added.item));
            }
            Some(Fact::Pipeline(fact)) => {
                let added = fact.added_item().cloned();
                added.into_iter().for_each(|added| drop(self.items.insert(added.index, added.item)));
            }
            Some(Fact::ItemEnded(ended)) => self.ended(*ended),
            Some(Fact::AgentEvent { step, event }) => self.opened(step, *event),
            Some(Fact::StepCommitted(done)) => {
                let turn = self.turns.entry(done.step.index).or_default();
                (turn.step, turn.usage) = (Some(done.step), done.usage);
            }
            _ => {}
        }
    }

    fn ended(&mut self, ended: ItemEnded) {
        let tests = ended.gates.iter().find(|result| result.gate == Gate::Tests);
        self.tested.extend(tests.map(|result| (ended.item, result.passed)));
        if ended.status == ItemStatus::Success {
            let task_id = self.items.get(&ended.item).map(|item| item.id.clone()).unwrap_or_default();
            let view = |left_out| LeftOutView { task_id, change: ended.change, left_out };
            self.left_out.extend(ended.left_out.map(view));
        }
    }

    /// What came of the tests; none if no item has any.
    fn tests(&self) -> Option<TestsView> {
        let with_tests: Vec<_> = self.items.iter().filter(|(_, item)| !item.tests.is_empty()).collect();
        let ran = with_tests.iter().filter(|(place, _)| self.tested.contains_key(place));
        let commands = ran.flat_map(|(_, item)| &item.tests).map(|test| contract::policy::join(&test.argv));
        let commands: Vec<String> = commands.collect();
        let passed = with_tests.iter().all(|(place, _)| self.tested.get(place) == Some(&true));
        (!with_tests.is_empty()).then_some(TestsView { ran: !commands.is_empty(), passed, commands })
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
        match (step.node, step.item) {
            (Some(_), _) if contract.intent.is_some() => contract.workers.get(&contract.intent.as_ref()?.agent),
            (Some(node), _) => contract.workers.get(self.nodes.get(&node)?),
            (None, None) => contract.agents.get(&step.role),
            (None, Some(place)) if step.role == Role::Reviewer => {
                contract.workers.get(self.items.get(&place)?.review.as_ref()?.agents.first()?)
            }
            (None, Some(place)) => contract.workers.get(&self.items.get(&place)?.worker),
        }
    }

    /// The first item of the run, and who carries it out.
    pub(crate) fn first_item(&self) -> Option<(&Item, Option<&AgentConfig>)> {
        let (_, item) = self.items.first_key_value()?;
        Some((item, self.contract.as_ref().and_then(|contract| contract.workers.get(&item.worker))))
    }

    /// Has a view tell it.
    pub(crate) fn tell(&self, view: &mut RunView) {
        for step in view.steps.iter_mut().flatten() {
            self.tell_step(step);
        }
        let mut all = self.turns.values().filter_map(|turn| turn.usage);
        let usage = all.next().map(|first| {
            all.fold(first, |mut sum, more| {
                sum.add(&more);
                sum
            })
        });
        view.details = Some(RunDetails {
            tests: self.tests(),
            left_out: Vec::new(),
            left_out_of: self.left_out.clone(),
            receipts: self.receipts.clone(),
            usage,
            pipeline: None,
            role_binding_read_model: None,
            workflow_case_read_model: None,
        });
    }

    /// Whether there is more to tell of it: reviews, or a pipeline.
    pub(crate) fn has_reviews(&self) -> bool {
        let is_pipeline = self.contract.as_ref().is_some_and(|contract| contract.pipeline.is_some());
        is_pipeline || self.items.values().any(|item| item.review.is_some())
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
