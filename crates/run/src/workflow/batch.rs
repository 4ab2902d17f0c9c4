//! Items, level by level. Within a level all of them may be at work at once, but for those whose declared paths meet:
//! these follow each other. They land in the order of the contract, and the next level starts from what has landed. A
//! contract by itself is a batch of one.

use super::Due;
use crate::items::{ItemStage, ItemState};
use crate::{Run, Stage};
use contract::{End, ItemBase, ItemStatus, Reason, Role, Status, StepRef};

/// Everything that is due, in the order of the contract.
pub(super) fn due(run: &Run) -> Box<dyn Iterator<Item = Due> + '_> {
    match &run.stage {
        Stage::Fresh if (run.items.len() as u32) < run.started.items => Box::new(std::iter::empty()),
        Stage::Fresh => items(run),
        Stage::LandingOpen(_) => Box::new(std::iter::once(Due::Land)),
        Stage::LandingDone => Box::new(std::iter::once(end(run))),
        _ => Box::new(std::iter::empty()),
    }
}

fn items(run: &Run) -> Box<dyn Iterator<Item = Due> + '_> {
    let Some(level) = run.level() else {
        return Box::new(std::iter::once(if run.has_to_land() { Due::Land } else { end(run) }));
    };
    let here = (0..).zip(&run.items).filter(move |(_, state)| state.level == level);
    Box::new(here.filter_map(|(place, state)| item(run, place, state)))
}

fn item(run: &Run, place: u32, state: &ItemState) -> Option<Due> {
    match &state.stage {
        ItemStage::Worked(_) if state.worked().is_some() => Some(Due::Item { item: place }),
        ItemStage::Waiting if run.failed_need(state).is_some() => Some(Due::Item { item: place }),
        ItemStage::Waiting | ItemStage::Worked(_) if run.may_start(state) => {
            let attempt = state.turns.len() as u32 + 1;
            let index = run.next_index();
            Some(Due::Turn(StepRef { index, role: Role::Worker, iteration: 1, attempt, item: Some(place) }))
        }
        ItemStage::Waiting | ItemStage::Worked(_) | ItemStage::Working { .. } | ItemStage::Ended(_) => None,
    }
}

impl Run {
    /// The level that is being worked on; none when all have come to their end.
    fn level(&self) -> Option<u32> {
        self.items.iter().filter(|state| state.ended().is_none()).map(|state| state.level).min()
    }

    /// Whether what must end before an item starts has ended: those it shares declared paths with, and for a
    /// reconciler all others of its level.
    fn may_start(&self, state: &ItemState) -> bool {
        let ended = |place: &u32| self.items[*place as usize].ended().is_some();
        let others = || self.items.iter().filter(|other| other.level == state.level && !other.reconciles());
        state.behind.iter().all(ended) && (!state.reconciles() || others().all(|other| other.ended().is_some()))
    }

    /// What an item needs that did not succeed.
    pub fn failed_need(&self, state: &ItemState) -> Option<&ItemState> {
        let needed = state.needs.iter().map(|place| &*self.items[*place as usize]);
        needed.into_iter().find(|other| other.ended().is_some_and(|end| end.status != ItemStatus::Success))
    }

    /// Where the agent of an item starts from. All of a level start from the same commit, but for those that waited
    /// for others of it: they start from what these have made.
    pub fn base_for(&self, place: u32) -> ItemBase {
        let state = &self.items[place as usize];
        let waited = state.reconciles() || !state.behind.is_empty();
        match &self.level_base {
            Some((level, base)) if *level == state.level && !waited => base.clone(),
            _ => self.line.head.clone(),
        }
    }

    /// Whether every item that lands before this one has come to its end.
    pub fn may_land(&self, place: u32) -> bool {
        let Some(level) = self.level() else { return false };
        let here = || (0..).zip(&self.items).filter(|(_, state)| state.level == level && state.ended().is_none());
        let first = here().find(|(_, state)| !state.reconciles()).or_else(|| here().next());
        first.is_some_and(|(first, _)| first == place)
    }
}

/// The end of the run: that of its only item, or whether all of them succeeded.
fn end(run: &Run) -> Due {
    let ends = || run.items.iter().filter_map(|state| state.ended());
    let failed = ends().filter(|end| end.status != ItemStatus::Success).count();
    let out_of_time = run.out_of_time().is_some();
    let short_of = ends().any(|end| match end.reason {
        Some(Reason::BudgetExceeded) => true,
        // Its own time or the run's, whichever was shorter.
        Some(Reason::AgentTimeout) => out_of_time,
        _ => false,
    });
    if let Some(over) = run.used_up().filter(|_| short_of) {
        return super::pdca::stopped(over);
    }
    let (status, reason, message) = match (run.items.len(), ends().next()) {
        (count, _) if failed == 0 => (Status::Succeeded, None, format!("{count} of {count} item(s) succeeded")),
        (1, Some(only)) => (status_of(only.status), only.reason, only.message.clone()),
        (count, _) => (Status::Failed, Some(Reason::ItemsFailed), format!("{failed} of {count} items did not succeed")),
    };
    Due::End { status, end: End { reason, message }, budget: None }
}

fn status_of(status: ItemStatus) -> Status {
    match status {
        ItemStatus::Success => Status::Succeeded,
        ItemStatus::Failure => Status::Failed,
        ItemStatus::Denied => Status::Denied,
        ItemStatus::Timeout => Status::TimedOut,
    }
}
