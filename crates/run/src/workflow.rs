//! Workflows: one file each, with its own small state, its part of the law (how facts change that state) and its
//! schedule (a pure function from the state of a run to what is due). The loop in `runner` does what is due and records
//! what happened. A new workflow is a file here, a variant of [`Flow`] and the arms that the compiler then asks for.

pub mod batch;
mod budget;
pub mod graph;
pub mod intent;
pub mod pdca;
pub mod pipeline;

use crate::Run;
use crate::items::{ItemState, Worked};
use crate::state::{Core, OpenTurn, Outcome, RateLimit, StepRecord};
use contract::graph::Stalled;
use contract::{
    BudgetExceeded, Contract, End, Event, Fact, IntentFact, ItemAdded, ItemBase, ItemEnded, PipelineFact, Reason,
    RunStarted, Status, StepCommitted, StepRef, Taken, Timestamp, Wait, Workflow,
};
use std::fmt;
use std::sync::Arc;

/// The workflow of a run, and where it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Flow {
    /// plan → do → check → act until PASS.
    Pdca(pdca::State),
    /// Items, level by level.
    Batch(batch::State),
    /// Nodes that people and agents make.
    Graph(graph::State),
    /// What somebody wants, compiled and carried out.
    Intent(intent::State),
    /// A request that becomes contracts, changes and a merged result.
    Pipeline(pipeline::State),
}

/// What every workflow says about the facts that all of them have.
impl Flow {
    pub(crate) fn new(contract: &Contract) -> Flow {
        match contract.workflow {
            Workflow::Pdca => Flow::Pdca(pdca::State::new()),
            Workflow::Batch => Flow::Batch(batch::State::new()),
            Workflow::Graph => Flow::Graph(graph::State::new(contract.graph.as_ref())),
            Workflow::Intent => Flow::Intent(intent::State::new()),
            Workflow::Pipeline => Flow::Pipeline(pipeline::State::new()),
        }
    }

    /// The loop, for the facts that only a loop has.
    pub(crate) fn pdca(&mut self) -> Result<&mut pdca::State, String> {
        match self {
            Flow::Pdca(state) => Ok(state),
            Flow::Batch(_) => Err("a batch has no rounds".into()),
            Flow::Graph(_) => Err("a graph has no rounds".into()),
            Flow::Intent(_) => Err("an intent has no rounds".into()),
            Flow::Pipeline(_) => Err("a pipeline has no rounds".into()),
        }
    }

    /// The items, for the facts that only items have.
    pub(crate) fn batch(&mut self) -> Result<&mut batch::State, String> {
        match self {
            Flow::Batch(state) => Ok(state),
            Flow::Intent(state) => Ok(&mut state.items),
            Flow::Pipeline(state) => Ok(&mut state.items),
            Flow::Pdca(_) => Err("a loop has no items".into()),
            Flow::Graph(_) => Err("a graph has changes of its nodes instead of items".into()),
        }
    }

    /// Takes in an item that the run starts with, or that somebody adds.
    pub(crate) fn add_item(&mut self, core: &Core, started: &RunStarted, added: &ItemAdded) -> Outcome {
        match self {
            Flow::Pipeline(state) => state.add(core, started, added),
            _ => self.batch()?.add(core, started, added),
        }
    }

    /// Applies a fact that only reviews and pipelines have.
    pub(crate) fn apply_pipeline(&mut self, core: &mut Core, started: &RunStarted, fact: &PipelineFact) -> Outcome {
        match self {
            Flow::Pipeline(state) => state.apply(core, started, fact),
            _ => self.batch()?.review(fact),
        }
    }

    /// The graph, for the facts that only a graph has.
    pub(crate) fn graph(&mut self) -> Result<&mut graph::State, String> {
        match self {
            Flow::Graph(state) => Ok(state),
            Flow::Pdca(_) | Flow::Batch(_) | Flow::Intent(_) | Flow::Pipeline(_) => {
                Err("only a graph has nodes".into())
            }
        }
    }

    /// The intent, for the facts that only an intent has.
    pub(crate) fn intent(&mut self) -> Result<&mut intent::State, String> {
        match self {
            Flow::Intent(state) => Ok(state),
            Flow::Pdca(_) | Flow::Batch(_) | Flow::Graph(_) | Flow::Pipeline(_) => {
                Err("only an intent has a plan".into())
            }
        }
    }

    pub(crate) fn open(
        &mut self,
        core: &Core,
        started: &RunStarted,
        turn: &Arc<OpenTurn>,
        taken: Option<&Taken>,
    ) -> Outcome {
        match self {
            Flow::Pdca(_) if turn.base.is_some() => Err("a turn of a loop starts from the run's tree".into()),
            Flow::Pdca(state) => state.open(core, turn.step),
            Flow::Batch(state) => state.open(core, started, turn),
            Flow::Graph(state) => state.open(core, turn, taken),
            Flow::Intent(state) => state.open(core, started, turn),
            Flow::Pipeline(state) => state.open(core, started, turn),
        }
    }

    /// `held` says that a budget of the run cut the turn off which somebody may raise.
    pub(crate) fn commit(
        &mut self,
        started: &RunStarted,
        record: &Arc<StepRecord>,
        done: &StepCommitted,
        held: bool,
    ) -> Outcome {
        match self {
            Flow::Pdca(state) => {
                state.commit(done, held);
                Ok(())
            }
            Flow::Batch(state) => state.commit(record, done, held),
            // What a budget cut off is told again when there is more.
            Flow::Graph(state) => state.commit(started, record, done),
            Flow::Intent(state) => state.commit(started, record, done, held),
            Flow::Pipeline(state) => state.commit(record, done, held),
        }
    }

    /// A budget was raised: what it had cut off is taken again.
    pub(crate) fn grant_more(&mut self) {
        match self {
            Flow::Pdca(state) => state.grant_more(),
            Flow::Batch(state) => state.grant_more(),
            Flow::Intent(state) => state.items.grant_more(),
            Flow::Pipeline(state) => state.items.grant_more(),
            Flow::Graph(_) => {}
        }
    }

    /// A budget stays as it is: what it has cut off has failed.
    pub(crate) fn grant_nothing(&mut self) {
        match self {
            Flow::Pdca(state) => state.grant_nothing(),
            Flow::Batch(state) => state.grant_nothing(),
            Flow::Intent(state) => state.items.grant_nothing(),
            Flow::Pipeline(state) => state.items.grant_nothing(),
            Flow::Graph(_) => {}
        }
    }

    pub(crate) fn lose(&mut self, record: &Arc<StepRecord>) -> Outcome {
        match self {
            Flow::Pdca(state) => {
                state.lose(record.step);
                Ok(())
            }
            Flow::Batch(state) => state.lose(record),
            Flow::Graph(state) => state.lose(record),
            Flow::Intent(state) => state.lose(record),
            Flow::Pipeline(state) => state.items.lose(record),
        }
    }

    pub(crate) fn note_protocol_error(&mut self, core: &Core, step: StepRef, problems: &[String]) -> Outcome {
        match self {
            Flow::Pdca(state) => state.note_protocol_error(step, problems),
            Flow::Batch(state) => state.require_protocol_error(step),
            Flow::Graph(state) => state.require_protocol_error(core, step),
            Flow::Intent(state) => state.require_protocol_error(core, step),
            Flow::Pipeline(state) => state.require_protocol_error(step),
        }
    }

    /// What an agent asks for it asks for in its turn.
    pub(crate) fn require_working(&self, place: u32) -> Outcome {
        match self {
            Flow::Batch(state) => state.require_working(place),
            Flow::Intent(state) => state.items.require_working(place),
            Flow::Pipeline(state) => state.items.require_working(place),
            Flow::Pdca(_) | Flow::Graph(_) => Err("only a batch has items".into()),
        }
    }

    pub(crate) fn require_at_work(&self, node: u32) -> Outcome {
        match self {
            Flow::Graph(state) => state.require_at_work(node),
            Flow::Pdca(_) | Flow::Batch(_) | Flow::Intent(_) | Flow::Pipeline(_) => {
                Err("only a graph has nodes that stay".into())
            }
        }
    }

    pub(crate) fn require_judged(&self, place: u32) -> Outcome {
        match self {
            Flow::Batch(state) => state.require_judged(place),
            Flow::Graph(state) => state.require_judged(place),
            Flow::Intent(state) => state.items.require_judged(place),
            Flow::Pipeline(state) => state.items.require_judged(place),
            Flow::Pdca(_) => Err("a loop has no items".into()),
        }
    }

    pub(crate) fn end_item(&mut self, core: &mut Core, ended: &ItemEnded) -> Outcome {
        match self {
            Flow::Batch(state) => state.end_item(core, ended),
            Flow::Graph(state) => state.end_change(core, ended),
            Flow::Intent(state) => state.items.end_item(core, ended),
            Flow::Pipeline(state) => state.items.end_item(core, ended),
            Flow::Pdca(_) => Err("a loop has no items".into()),
        }
    }

    /// What comes next on the run's line, if it is there to be judged.
    pub(crate) fn judged_next(&self) -> Option<&Worked> {
        match self {
            Flow::Batch(state) => state.judged_next(),
            Flow::Graph(state) => state.judged_next(),
            Flow::Intent(state) => state.items.judged_next(),
            Flow::Pipeline(state) => state.items.judged_next(),
            Flow::Pdca(_) => None,
        }
    }

    /// Whether this change is one that has just been completed.
    pub(crate) fn has_closed(&self, change: u32) -> bool {
        match self {
            Flow::Pdca(state) => state.has_just_closed(change),
            Flow::Batch(state) => state.has_ended(change),
            Flow::Graph(state) => state.has_ended(change),
            Flow::Intent(state) => state.items.has_ended(change),
            Flow::Pipeline(state) => state.items.has_ended(change),
        }
    }

    /// Whether a change is being judged whose intent is on record.
    pub(crate) fn has_open_change(&self) -> bool {
        match self {
            Flow::Pdca(state) => state.has_open_change(),
            Flow::Batch(_) | Flow::Graph(_) | Flow::Intent(_) | Flow::Pipeline(_) => false,
        }
    }

    /// Whether what the run has made is judged as it stands.
    pub(crate) fn is_judged(&self, started: &RunStarted) -> bool {
        match self {
            Flow::Pdca(state) => state.is_judged(),
            Flow::Batch(state) => state.is_judged(started),
            Flow::Graph(state) => state.is_judged(),
            Flow::Intent(state) => state.is_judged(),
            Flow::Pipeline(state) => state.is_judged(started),
        }
    }

    /// Whether what was judged is accepted.
    pub(crate) fn passed(&self) -> bool {
        match self {
            Flow::Pdca(state) => state.passed(),
            Flow::Batch(state) => state.passed(),
            Flow::Graph(state) => state.is_judged(),
            Flow::Intent(state) => state.is_judged(),
            Flow::Pipeline(state) => state.passed(),
        }
    }

    /// Whether the run has made something that is not in its base.
    pub(crate) fn has_changed(&self, core: &Core, started: &RunStarted) -> bool {
        match self {
            Flow::Pdca(_) => core.tree != started.base.tree,
            // On a commit of the user's branch, a line may end with what that has already.
            Flow::Pipeline(_) if core.line.base.commit != started.base.commit => {
                core.line.head.tree != core.line.base.tree
            }
            Flow::Batch(_) | Flow::Graph(_) | Flow::Intent(_) | Flow::Pipeline(_) => {
                core.line.head.commit != started.base.commit
            }
        }
    }
}

/// A fact that is legal, but not what the workflow has happen now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotDue {
    /// In words.
    pub why: String,
}

impl fmt::Display for NotDue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NotDue {}

/// The one thing to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Due {
    /// Ask an agent.
    Turn(StepRef),
    /// Judge and apply a patch.
    Change {
        /// Its number.
        change: u32,
        /// The step that proposed it.
        step: StepRef,
    },
    /// Judge what the agent of an item left, and let it land or drop it.
    Item {
        /// Its place in the contract.
        item: u32,
    },
    /// Have a person approve first.
    Approval,
    /// Ask somebody, and leave the run waiting for the answer ([`Run::answer`]).
    Ask(Wait),
    /// Put on record what an intent was compiled to.
    Plan,
    /// Ask all of this, and leave the run waiting until somebody answers.
    Questions(Vec<Wait>),
    /// Hold the run: its provider is rate limited.
    Pause {
        /// What goes on record as the reason of the pause.
        end: End,
        /// For how long, if that was said.
        until: Option<Timestamp>,
    },
    /// Put on record what follows from what has happened.
    Advance(Vec<Fact>),
    /// Ask a person about what a node wished for in a turn; its run goes on meanwhile.
    AskFor(StepRef),
    /// Put on record what follows from the end of a pipeline's task: contracts that it wrote, or the contract of a fix.
    FollowUp {
        /// Its place.
        item: u32,
    },
    /// Hold the run: a node does the same again and again.
    Stall(Box<Stalled>),
    /// Bring the result to the user's repository.
    Land,
    /// Put the end on record.
    End {
        /// The status that the run ends with.
        status: Status,
        /// The reason, as it goes on record.
        end: End,
        /// The budget that did it.
        budget: Option<BudgetExceeded>,
    },
    /// Nothing: the run is paused or over, or something is still open.
    Nothing,
}

impl Run {
    /// What is due first.
    pub fn next(&self) -> Due {
        self.due().next().unwrap_or(Due::Nothing)
    }

    /// Whether the workflow has this happen now. Asked when a fact is written and when a run is replayed, never when a
    /// log is read: rules may change, and what was written under earlier ones stays legal.
    pub fn admits(&self, fact: &Fact) -> Result<(), NotDue> {
        let is_due = match fact {
            Fact::StepStarted { step, .. } if step.node.is_some() => self.due().any(|due| due == Due::Turn(*step)),
            Fact::StepStarted { step, base, .. } => {
                let from = step.item.and_then(|place| self.batch()?.base_for(&self.core, place));
                self.due_from(step.item.unwrap_or(0)).next() == Some(Due::Turn(*step)) && *base == from
            }
            Fact::ChangeStarted { change, step, .. } => {
                matches!(self.next(), Due::Change { change: due, step: by } if due == *change && by.index == *step)
            }
            Fact::ItemEnded(ended) if ended.commit.is_some() => self.may_land(ended.item),
            Fact::LandingStarted(_) | Fact::Pipeline(PipelineFact::LineMoved(_)) => self.next() == Due::Land,
            Fact::RunWaiting(wait) => match wait.reasons == self.started.contract.approval_for {
                true => self.next() == Due::Approval,
                false => self.may_ask_about_change(),
            },
            Fact::Asked(wait) if self.intent().is_some_and(|intent| intent.may_ask(&wait.id)) => true,
            // How it is put may change, and a log that was written stays in order.
            Fact::Asked(wait) if wait.about.is_none() => {
                matches!(self.next(), Due::Ask(due) if due.kind == wait.kind && due.id == wait.id)
            }
            Fact::BudgetExceeded(over) => {
                matches!(self.next(), Due::End { budget: Some(due), .. } if due == *over)
            }
            Fact::RunPassed(_) => matches!(self.next(), Due::End { status: Status::Succeeded, .. }),
            // What came of something that was due, what was said meanwhile, and what comes from outside.
            Fact::RunStarted(_)
            | Fact::StepCommitted(_)
            | Fact::ReconciledStep { .. }
            | Fact::StepInterrupted { .. }
            | Fact::WorkSaved { .. }
            | Fact::ProtocolError { .. }
            | Fact::OutputSchemaEnforced { .. }
            | Fact::Verdict(_)
            | Fact::PatchApplied(_)
            | Fact::ChangeDropped(_)
            | Fact::ChangeInterrupted { .. }
            | Fact::ChangeRecovered { .. }
            | Fact::ItemAdded(_)
            | Fact::GateFailed { .. }
            | Fact::PolicyViolation { .. }
            | Fact::AgentEvent { .. }
            | Fact::ItemEnded(_)
            | Fact::ApprovalAsked { .. }
            | Fact::ApprovalUsed { .. }
            | Fact::Asked(_)
            | Fact::Answered(_)
            | Fact::Graph(_)
            | Fact::Landed(_)
            | Fact::LandingDeclined(_)
            | Fact::RunPaused(_)
            | Fact::RunResumed { .. }
            | Fact::EvidenceLost { .. }
            | Fact::RunFailed(_)
            | Fact::RunDenied(_)
            | Fact::RunTimedOut(_)
            | Fact::RunStopped(_)
            | Fact::RunCanceled(_)
            | Fact::Intent(_)
            | Fact::Pipeline(_) => true,
        };
        match is_due {
            true => Ok(()),
            false => Err(NotDue { why: format!("{:?} is not due now", fact.message()) }),
        }
    }

    /// Everything that is due, each of which could be done at once with the others.
    pub fn due(&self) -> Box<dyn Iterator<Item = Due> + '_> {
        match &self.flow {
            Flow::Pipeline(state) => Box::new(pipeline::due::follow_ups(self, state).chain(self.due_from(0))),
            _ => self.due_from(0),
        }
    }

    /// The same without what is due of the items before this place.
    pub fn due_from(&self, place: u32) -> Box<dyn Iterator<Item = Due> + '_> {
        if self.status != Status::Running {
            return Box::new(std::iter::empty());
        }
        if self.core.approvals.is_empty() && !self.started.contract.approval_for.is_empty() {
            return Box::new(std::iter::once(Due::Approval));
        }
        if let Some(RateLimit { until }) = self.core.limited {
            // What is open ends first.
            let is_idle = self.core.open.is_empty();
            return Box::new(is_idle.then(|| self.rest(until)).into_iter());
        }
        if self.core.landing.is_some() {
            return Box::new(std::iter::once(Due::Land));
        }
        match &self.flow {
            Flow::Pdca(state) => Box::new(std::iter::once(pdca::due(self, state))),
            Flow::Batch(state) => batch::due(self, state, place),
            Flow::Graph(state) => graph::due::due(self, state),
            Flow::Intent(state) => intent::due::due(self, state),
            Flow::Pipeline(state) => pipeline::due::due(self, state, place),
        }
    }

    /// Holds the run until its provider lets it continue; for how long is not always known, and not for ever.
    fn rest(&self, until: Option<Timestamp>) -> Due {
        let most = self.started.contract.limits.provider_retries();
        let by_itself = until.filter(|_| self.core.limit_pauses < most);
        let message = match (until, by_itself) {
            (Some(until), Some(_)) => format!("rate limited by the provider until {until}; the run continues then"),
            (Some(until), None) => format!(
                "rate limited by the provider until {until}, for the {} time in a row; continue it after that",
                ordinal(self.core.limit_pauses + 1)
            ),
            (None, _) => "rate limited by the provider, which does not say for how long".to_owned(),
        };
        Due::Pause { end: End { reason: Some(Reason::ProviderLimit), message }, until: by_itself }
    }

    /// Whether there is something to land. What was carried out again only to be compared never lands.
    pub(crate) fn has_to_land(&self) -> bool {
        self.flow.has_changed(&self.core, &self.started) && self.started.replay_of.is_none()
    }

    /// The index that the next step gets.
    pub fn next_index(&self) -> u32 {
        match &self.flow {
            Flow::Pdca(_) => pdca::next_index(&self.core),
            Flow::Batch(_) | Flow::Intent(_) | Flow::Pipeline(_) => batch::next_index(&self.core),
            Flow::Graph(_) => graph::next_index(&self.core),
        }
    }

    pub(crate) fn batch(&self) -> Option<&batch::State> {
        match &self.flow {
            Flow::Batch(state) => Some(state),
            Flow::Intent(state) => Some(&state.items),
            Flow::Pipeline(state) => Some(&state.items),
            Flow::Pdca(_) | Flow::Graph(_) => None,
        }
    }

    /// The graph that people build, if it is one.
    pub fn graph(&self) -> Option<&graph::State> {
        match &self.flow {
            Flow::Graph(state) => Some(state),
            Flow::Pdca(_) | Flow::Batch(_) | Flow::Intent(_) | Flow::Pipeline(_) => None,
        }
    }

    /// The intent, if it is one.
    pub fn intent(&self) -> Option<&intent::State> {
        match &self.flow {
            Flow::Intent(state) => Some(state),
            Flow::Pdca(_) | Flow::Batch(_) | Flow::Graph(_) | Flow::Pipeline(_) => None,
        }
    }

    /// Who takes the turn of a reviewer, by its name among the contract's `workers`.
    pub fn reviewer_of(&self, step: StepRef) -> Option<&str> {
        self.items().get(step.item? as usize)?.reviewer()
    }

    /// The pipeline, if it is one.
    pub fn pipeline(&self) -> Option<&pipeline::State> {
        match &self.flow {
            Flow::Pipeline(state) => Some(state),
            _ => None,
        }
    }

    /// Whether somebody may have it do more although nothing is due: a graph is over when it is closed, and the questions of
    /// a plan are answered in its log.
    pub fn stays_open(&self) -> bool {
        match self.status {
            Status::Running => self.graph().is_some_and(graph::State::is_open),
            Status::Waiting => self.waits_with_plan(),
            _ => false,
        }
    }

    /// Whether it waits for answers to what its plan asks.
    pub fn waits_with_plan(&self) -> bool {
        let is_open = |intent: &intent::State| self.core.waits.keys().any(|wait| intent.asked_by(wait).is_some());
        self.status == Status::Waiting && self.intent().is_some_and(is_open)
    }

    /// The same, and nothing else could be done of it.
    pub fn only_waits_with_plan(&self) -> bool {
        let mut next = self.clone();
        let resumed = Event { seq: next.seq + 1, ts: Timestamp::default(), fact: Fact::RunResumed { pid: 0 } };
        let is_held = |facts: &[Fact]| matches!(facts, [Fact::Intent(IntentFact::PlanHeld { .. })]);
        self.waits_with_plan()
            && next.advance(&resumed).is_ok()
            && matches!(next.next(), Due::Advance(facts) if is_held(&facts))
    }

    /// The node of its plan whose question is over next, and when.
    pub fn plan_deadline(&self) -> Option<(u32, Timestamp)> {
        let live = matches!(self.status, Status::Running | Status::Waiting);
        self.intent().filter(|_| live).and_then(intent::State::deadline)
    }

    /// When the first question of a node lapses that nobody has answered.
    pub fn node_deadline(&self) -> Option<Timestamp> {
        self.graph().filter(|_| self.status == Status::Running).and_then(graph::State::deadline)
    }

    /// What an item needs that did not succeed.
    pub fn failed_need(&self, item: &ItemState) -> Option<&ItemState> {
        self.batch()?.failed_need(item)
    }

    /// Where the agent of an item starts from. All of a level start from the same commit, but for those that waited
    /// for others of it: they start from what these have made.
    pub fn base_for(&self, place: u32) -> ItemBase {
        let of_batch = self.batch().and_then(|state| state.base_for(&self.core, place));
        // A change of a graph is made before it is an item.
        of_batch.unwrap_or_else(|| self.core.line.head.clone())
    }

    /// Whether every item that lands before this one has come to its end.
    pub fn may_land(&self, place: u32) -> bool {
        match &self.flow {
            Flow::Batch(state) => state.may_land(place),
            Flow::Intent(state) => state.items.may_land(place),
            Flow::Pipeline(state) => state.items.may_land(place),
            Flow::Graph(state) => state.lands_next() == Some(place),
            Flow::Pdca(_) => false,
        }
    }
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// The end of a run, but for a budget.
fn over(status: Status, reason: Option<Reason>, message: String) -> Due {
    Due::End { status, end: End { reason, message }, budget: None }
}
