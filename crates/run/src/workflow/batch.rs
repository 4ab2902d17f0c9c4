//! Items, level by level. Within a level all of them may be at work at once, but for those whose declared paths meet:
//! these follow each other. They land in the order of the contract, and the next level starts from what has landed. A
//! contract by itself is a batch of one.

use super::budget::{ask, stopped};
use super::{Due, over};
use crate::Run;
use crate::items::queues::Queues;
use crate::items::{self, ItemStage, ItemState, Items, Worked};
use crate::state::{Core, OpenTurn, Outcome, StepRecord};
use contract::{
    Addition, AgentConfig, Digest, ItemAdded, ItemBase, ItemEnded, ItemStatus, PipelineFact, Reason, Role, RunStarted,
    Status, StepCommitted, StepRef, TurnEnd,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the items are.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// What the run is made of.
    pub items: Items,
    /// Which of them follow each other.
    queues: Queues,
    /// The level that was started last, and what it started from.
    pub level_base: Option<(u32, ItemBase)>,
    /// Agents that came with items which were added, by name.
    pub agents: Arc<BTreeMap<String, AgentConfig>>,
    /// The place of an item whose reviewer changed something.
    fault: Option<u32>,
}

/// The law: how facts change the state of a batch.
impl State {
    pub(super) fn new() -> State {
        State {
            items: Items::default(),
            queues: Queues::default(),
            level_base: None,
            agents: Arc::default(),
            fault: None,
        }
    }

    pub(crate) fn add(&mut self, core: &Core, started: &RunStarted, added: &ItemAdded) -> Outcome {
        if core.has_begun_to_land() || core.declined.is_some() || core.exceeded.is_some() {
            return Err("nothing is added once the run begins to land".into());
        }
        if self.is_complete(started) {
            return self.add_later(started, added);
        }
        if added.earlier.is_some() && started.parent.is_none() {
            return Err("a run without a parent continues nothing".into());
        }
        items::add(&mut self.items, &mut self.queues, added, started.items)?;
        if !self.is_complete(started) {
            return Ok(());
        }
        let mut contract = started.contract.clone();
        contract.items = self.items.iter().map(|state| (*state.item).clone()).collect();
        if contract.digest() != started.contract_digest {
            return Err("the contract differs from its digest".into());
        }
        Ok(())
    }

    pub(super) fn add_later(&mut self, started: &RunStarted, added: &ItemAdded) -> Outcome {
        let Some(Addition { contract, agent }) = &added.addition else {
            return Err("items come in their order, and no more than there are".into());
        };
        let name = &added.item.worker;
        match (self.worker(started, name).is_some(), agent) {
            (false, None) => return Err(format!("the run has no agent {name}")),
            (true, Some(_)) => return Err(format!("the run has an agent {name} already")),
            (true, None) | (false, Some(_)) => {}
        }
        if Addition::new(&self.contract_digest(started), &added.item, agent.clone()).contract != *contract {
            return Err("the contract differs from its digest".into());
        }
        let level = self.level_for_more();
        items::add_later(&mut self.items, &mut self.queues, added, level)?;
        if let Some(agent) = agent {
            Arc::make_mut(&mut self.agents).insert(name.clone(), agent.clone());
        }
        Ok(())
    }

    /// The first level that more items can be part of: the one that is being worked on, unless somebody reconciles it
    /// already.
    fn level_for_more(&self) -> u32 {
        let begun = |level: u32| {
            let here = self.items.iter().filter(move |state| state.level == level && state.reconciles());
            here.into_iter().any(|state| !matches!(state.stage, ItemStage::Waiting))
        };
        match self.level() {
            Some(level) if begun(level) => level + 1,
            Some(level) => level,
            None => self.items.iter().map(|state| state.level + 1).max().unwrap_or(0),
        }
    }

    /// The agent of this name.
    pub(crate) fn worker<'s>(&'s self, started: &'s RunStarted, name: &str) -> Option<&'s AgentConfig> {
        started.contract.workers.get(name).or_else(|| self.agents.get(name))
    }

    /// The digest of the contract with everything that was added to it.
    pub(crate) fn contract_digest(&self, started: &RunStarted) -> Digest {
        let last = self.items.last().and_then(|state| state.addition.as_deref());
        last.map_or(started.contract_digest, |addition| addition.contract)
    }

    /// Whether every item of the contract is on record.
    fn is_complete(&self, started: &RunStarted) -> bool {
        self.items.len() as u32 >= started.items
    }

    pub(crate) fn item(&self, place: u32) -> Result<&ItemState, String> {
        self.items.get(place as usize).map(|state| &**state).ok_or_else(|| format!("there is no item {place}"))
    }

    fn change_item_of(&mut self, step: StepRef, change: impl FnOnce(&mut ItemState) -> Outcome) -> Outcome {
        let place = step.item.ok_or("a turn of a batch is about an item")?;
        self.item(place)?;
        self.items.update(place as usize, |state| change(Arc::make_mut(state)))
    }

    pub(super) fn open(&mut self, core: &Core, started: &RunStarted, turn: &Arc<OpenTurn>) -> Outcome {
        let step = turn.step;
        if core.has_begun_to_land() || !self.is_complete(started) || step.index != next_index(core) {
            return Err(format!("step {} cannot come next", step.dir_name()));
        }
        let state = self.item(step.item.ok_or("a turn of a batch is about an item")?)?;
        if let Some(worked) = state.in_review() {
            return match turn.base.as_ref() == Some(&worked.base) {
                true => self.change_item_of(step, |state| state.open(turn)),
                false => Err("a reviewer is shown what was worked on".into()),
            };
        }
        if !state.needs.iter().all(|need| self.items[*need as usize].succeeded()) {
            return Err(format!("item {} needs what has not succeeded", state.item.id));
        }
        let level = state.level;
        let own_start = state.start.is_some();
        let on_line = |base: &&ItemBase| match state.start.as_deref() {
            Some(start) => start == *base,
            None => **base == core.line.head || self.level_base.as_ref().is_some_and(|(_, started)| started == *base),
        };
        let base = turn.base.as_ref().filter(on_line).cloned().ok_or("an item starts from the run's line")?;
        if !own_start && self.level_base.as_ref().is_none_or(|(started, _)| *started != level) {
            self.level_base = Some((level, base));
        }
        self.change_item_of(step, |state| state.open(turn))
    }

    pub(super) fn commit(&mut self, record: &Arc<StepRecord>, done: &StepCommitted, held: bool) -> Outcome {
        self.change_item_of(done.step, |state| state.commit(record, done, held))
    }

    /// Items that a budget cut off are taken up again.
    pub(super) fn grant_more(&mut self) {
        self.for_each_held(ItemState::excuse);
    }

    /// Items that a budget cut off are judged by what their agents left, which is nothing.
    pub(super) fn grant_nothing(&mut self) {
        self.for_each_held(ItemState::give_up);
    }

    fn for_each_held(&mut self, change: impl Fn(&mut ItemState)) {
        while let Some(place) = self.items.find_from(0, |standing| standing.held) {
            self.items.update(place, |item| change(Arc::make_mut(item)));
        }
    }

    pub(super) fn lose(&mut self, record: &Arc<StepRecord>) -> Outcome {
        self.change_item_of(record.step, |state| {
            state.lose(record);
            Ok(())
        })
    }

    /// Applies what is said of reviews.
    pub(crate) fn review(&mut self, fact: &PipelineFact) -> Outcome {
        let place = fact.item();
        self.item(place)?;
        let mut fault = false;
        self.items.update(place as usize, |state| {
            let state = Arc::make_mut(state);
            match fact {
                PipelineFact::ReviewAsked { .. } => state.ask_for_review(),
                PipelineFact::ReviewResult(given) => state.take_review(given),
                PipelineFact::ReviewerGateResult { step, passed, after, .. } => {
                    fault = !passed;
                    state.require_reviewer_gate(*step, *passed, *after)
                }
                _ => Err("only a pipeline has contracts that agents write".into()),
            }
        })?;
        if fault {
            self.fault = Some(place);
        }
        Ok(())
    }

    /// The item whose reviewer changed something.
    pub fn fault(&self) -> Option<&str> {
        self.fault.map(|place| self.items[place as usize].item.id.as_str())
    }

    pub(super) fn require_protocol_error(&self, step: StepRef) -> Outcome {
        let state = self.item(step.item.unwrap_or(u32::MAX))?;
        let of_review = state.reviews.as_ref().and_then(|reviews| reviews.turns.last());
        let last = if step.role == Role::Reviewer { of_review } else { state.turns.last() };
        match last.is_some_and(|turn| turn.step == step && turn.end == TurnEnd::ProtocolError) {
            true => Ok(()),
            false => Err("no protocol error is expected here".into()),
        }
    }

    /// Only an answer that counts was checked against a schema, and only to the one that its contract binds.
    pub(crate) fn require_enforced(&self, step: StepRef, sha256: &Digest) -> Outcome {
        let state = self.item(step.item.unwrap_or(u32::MAX))?;
        if step.role == Role::Reviewer {
            let last = state.reviews.as_ref().and_then(|reviews| reviews.turns.last());
            let answered = last.is_some_and(|turn| turn.step == step && turn.end == TurnEnd::Answered);
            return if answered { Ok(()) } else { Err("no answer was held to this schema here".into()) };
        }
        let bound = state.item.output_schema.as_ref().is_some_and(|schema| schema.sha256 == *sha256);
        let answered = |turn: &Arc<StepRecord>| turn.step == step && turn.end == TurnEnd::Answered;
        match bound && state.turns.last().is_some_and(answered) {
            true => Ok(()),
            false => Err("no answer was held to this schema here".into()),
        }
    }

    /// What an agent asks for it asks for in its turn.
    pub(crate) fn require_working(&self, place: u32) -> Outcome {
        match self.item(place)?.stage {
            ItemStage::Working(_) | ItemStage::InReview(_, Some(_)) => Ok(()),
            _ => Err(format!("nobody works on item {place}")),
        }
    }

    pub(crate) fn require_judged(&self, place: u32) -> Outcome {
        match self.item(place)?.stage {
            ItemStage::Worked(_) | ItemStage::Waiting => Ok(()),
            _ => Err(format!("item {place} is not being judged")),
        }
    }

    pub(crate) fn end_item(&mut self, core: &mut Core, ended: &ItemEnded) -> Outcome {
        self.item(ended.item)?.require_end(ended)?;
        if let Some(commit) = &ended.commit {
            if ended.before != core.line.head.tree {
                return Err("items land one after another, each on the one before".into());
            }
            core.line.head = ItemBase { commit: *commit, tree: ended.after };
            core.tree = ended.after;
            core.line.receipt = Some(ended.receipt.receipt_hash);
        } else if ended.after != ended.before {
            return Err("a change that lands is a commit".into());
        }
        items::end(&mut self.items, &mut self.queues, ended);
        Ok(())
    }

    pub(super) fn has_ended(&self, change: u32) -> bool {
        let place = change.checked_sub(1).map(|place| place as usize);
        place.and_then(|place| self.items.get(place)).is_some_and(|state| state.ended_here().is_some())
    }

    /// Whether every item has come to its end.
    pub(super) fn is_judged(&self, started: &RunStarted) -> bool {
        !self.items.is_empty() && self.is_complete(started) && self.level().is_none() && self.fault.is_none()
    }

    pub(super) fn passed(&self) -> bool {
        self.items.iter().all(|state| state.succeeded())
    }

    /// The level that is being worked on; none when all have come to their end.
    fn level(&self) -> Option<u32> {
        self.items.summary().level()
    }

    /// Whether an item has not come to its end.
    pub(crate) fn has_open(&self) -> bool {
        self.level().is_some()
    }

    /// The first item from this place on about which something can be done: its level is being worked on, and what must end
    /// before it has ended. That is what it shares declared paths with, and for a reconciler all others of its level.
    fn ready_from(&self, place: usize) -> Option<(u32, &ItemState)> {
        let all = self.items.summary();
        let (level, only_reconcilers_left) = (all.level()?, all.open_worker != all.open);
        let place = self.items.find_from(place, |standing| {
            standing.ready == level || only_reconcilers_left && standing.ready_last == level
        })?;
        Some((place as u32, &self.items[place]))
    }

    pub(super) fn failed_need(&self, state: &ItemState) -> Option<&ItemState> {
        let needed = state.needs.iter().map(|place| &*self.items[*place as usize]);
        needed.into_iter().find(|other| other.has_failed())
    }

    pub(super) fn base_for(&self, core: &Core, place: u32) -> Option<ItemBase> {
        let state = self.items.get(place as usize)?;
        if let Some(worked) = state.in_review() {
            return Some(worked.base.clone());
        }
        if let Some(start) = &state.start {
            return Some((**start).clone());
        }
        let waited = state.reconciles() || state.follows;
        Some(match &self.level_base {
            Some((level, base)) if *level == state.level && !waited => base.clone(),
            _ => core.line.head.clone(),
        })
    }

    pub(super) fn may_land(&self, place: u32) -> bool {
        self.lands_next().is_some_and(|(next, _)| next == place)
    }

    /// What the agent of the item left that comes next on the run's line, if it is there to be judged.
    pub(crate) fn judged_next(&self) -> Option<&Worked> {
        self.lands_next().and_then(|(_, next)| next.worked())
    }

    /// The item that comes next on the run's line; none when all have come to their end.
    fn lands_next(&self) -> Option<(u32, &ItemState)> {
        let all = self.items.summary();
        let (level, has_workers) = (all.level()?, all.open_worker == all.open);
        let place = self
            .items
            .find_from(0, |standing| standing.open_worker == level || !has_workers && standing.open == level)?;
        Some((place as u32, &self.items[place]))
    }
}

/// The index that the next step gets: turns of items are under way side by side, so every one has its own.
pub(super) fn next_index(core: &Core) -> u32 {
    (core.steps.len() + core.open.len()) as u32 + 1
}

/// The schedule: everything that is due of the run, or of its items from a place on, in the order of the contract.
pub(super) fn due<'r>(run: &'r Run, state: &'r State, place: u32) -> Box<dyn Iterator<Item = Due> + 'r> {
    if !state.is_complete(&run.started) {
        return Box::new(std::iter::empty());
    }
    if run.core.landed.is_some() {
        return Box::new(std::iter::once(end(run, state)));
    }
    if let Some(item) = state.fault().filter(|_| run.core.open.is_empty()) {
        let message = format!("a reviewer of {item} changed what it was to judge");
        return Box::new(std::iter::once(over(Status::Failed, Some(Reason::SystemFault), message)));
    }
    if state.level().is_none() {
        return Box::new(std::iter::once(if run.has_to_land() { Due::Land } else { end(run, state) }));
    }
    if run.may_ask_for_more() && (run.used_up().is_some() || state.items.summary().held) {
        return Box::new(due_without_budget(run, state).into_iter());
    }
    let mut from = place as usize;
    Box::new(std::iter::from_fn(move || {
        let (place, item) = state.ready_from(from)?;
        from = place as usize + 1;
        Some(due_of(run, place, item))
    }))
}

/// What is due while there is nothing left for turns and somebody may give more: what is done lands in its order, up to the
/// first item that needs a turn.
fn due_without_budget(run: &Run, state: &State) -> Option<Due> {
    let (place, item) = state.lands_next()?;
    match item.is_to_be_judged() {
        true => Some(Due::Item { item: place }),
        // What is open ends first.
        false if !run.core.open.is_empty() => None,
        false => Some(ask(run, run.used_up())),
    }
}

/// What is due about an item that is ready.
fn due_of(run: &Run, place: u32, item: &ItemState) -> Due {
    if item.is_to_be_judged() {
        return Due::Item { item: place };
    }
    let (role, attempt) = match item.needs_reviewer() {
        true => (Role::Reviewer, item.review_attempt()),
        false => (item.role, item.turns.len() as u32 + 1),
    };
    Due::Turn(StepRef { index: run.next_index(), role, iteration: 1, attempt, item: Some(place), node: None })
}

/// The end of the run: that of its only item, or whether all of them succeeded.
fn end(run: &Run, state: &State) -> Due {
    let ends = || state.items.iter().filter_map(|item| item.ended());
    let failed = ends().filter(|end| end.status != ItemStatus::Success).count();
    let out_of_time = run.out_of_time().is_some();
    let short_of = ends().any(|end| match end.reason {
        Some(Reason::BudgetExceeded) => true,
        // Its own time or the run's, whichever was shorter.
        Some(Reason::AgentTimeout) => out_of_time,
        _ => false,
    });
    if let Some(over) = run.used_up().filter(|_| short_of) {
        return stopped(over);
    }
    let (status, reason, message) = match (state.items.len(), ends().next()) {
        (count, _) if failed == 0 => (Status::Succeeded, None, format!("{count} of {count} item(s) succeeded")),
        (1, Some(only)) => (status_of(only.status), only.reason, only.message.clone()),
        (count, _) => (Status::Failed, Some(Reason::ItemsFailed), format!("{failed} of {count} items did not succeed")),
    };
    over(status, reason, message)
}

pub(super) fn status_of(status: ItemStatus) -> Status {
    match status {
        ItemStatus::Success => Status::Succeeded,
        ItemStatus::Failure => Status::Failed,
        ItemStatus::Denied => Status::Denied,
        ItemStatus::Timeout => Status::TimedOut,
    }
}

#[cfg(test)]
mod tests;
