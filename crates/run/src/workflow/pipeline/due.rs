//! The schedule of a pipeline: what a role wrote becomes contracts as soon as it is judged, and what failed becomes the contract of
//! a fix, while others are at work; items are worked on, reviewed and judged as those of a batch.

use super::State;
use crate::Run;
use crate::workflow::{Due, batch, over};
use contract::{Reason, Status};

/// Everything that is due of a pipeline.
pub(in crate::workflow) fn due<'r>(run: &'r Run, state: &'r State, place: u32) -> Box<dyn Iterator<Item = Due> + 'r> {
    let one = |due: Due| -> Box<dyn Iterator<Item = Due> + 'r> { Box::new(std::iter::once(due)) };
    if run.core.landed.is_some() {
        return one(end(run, state));
    }
    if let Some(end) = failure(state) {
        // What is open ends first.
        return Box::new(run.core.open.is_empty().then_some(end).into_iter());
    }
    if state.items.has_open() {
        return batch::due(run, &state.items, place);
    }
    if state.to_follow().next().is_some() || state.lacks_whole() || state.lost_conflict().is_some() {
        return Box::new(std::iter::empty());
    }
    one(if run.has_to_land() { Due::Land } else { end(run, state) })
}

/// What follows from what has ended. It is put on record while others are at work.
pub(in crate::workflow) fn follow_ups<'r>(run: &'r Run, state: &'r State) -> impl Iterator<Item = Due> + 'r {
    let goes_on = run.status == Status::Running && run.core.limited.is_none() && run.core.landing.is_none();
    let is_live = goes_on && run.core.landed.is_none() && failure(state).is_none();
    let whole = state.lacks_whole().then(|| (state.items.items.len() as u32).saturating_sub(1));
    state
        .to_follow()
        .chain(whole)
        .chain(state.lost_conflict())
        .filter(move |_| is_live)
        .map(|item| Due::FollowUp { item })
}

/// What ends a pipeline before everything in it has ended.
fn failure(state: &State) -> Option<Due> {
    if let Some(item) = state.items.fault() {
        let message = format!("a reviewer of {item} changed what it was to judge");
        return Some(over(Status::Failed, Some(Reason::SystemFault), message));
    }
    if let Some(item) = state.failed_whole() {
        let why = item.ended().map(|ended| ended.message.clone()).unwrap_or_default();
        let message = format!("the contract's own tests fail on what its parts came to, so nothing lands: {why}");
        return Some(over(Status::Failed, Some(Reason::TestsFailed), message));
    }
    let item = state.unwritten()?;
    let ended = item.ended()?;
    Some(over(
        batch::status_of(ended.status),
        ended.reason,
        format!("{} wrote no contract: {}", item.item.role, ended.message),
    ))
}

/// The end: whether every task came to a good one.
fn end(run: &Run, state: &State) -> Due {
    let originals = || state.tasks().filter(|(_, task, _)| task.contract.is_some() && task.fixes.is_none());
    let (all, good) = (originals().count(), originals().filter(|(place, ..)| state.is_resolved(*place)).count());
    if all == good {
        let fixes = state.tasks().filter(|(_, task, _)| task.fixes.is_some()).count();
        return over(Status::Succeeded, None, format!("{good} of {all} contract(s) fulfilled, {fixes} fix(es)"));
    }
    // The last word on each task that did not.
    let last = |place: u32| {
        let last = &state.items.items[state.last_of(place) as usize];
        last.ended().map(|ended| (ended.status, ended.reason, ended.message.clone()))
    };
    let failed: Vec<_> =
        originals().filter(|(place, ..)| !state.is_resolved(*place)).filter_map(|(place, ..)| last(place)).collect();
    let short_of = failed.iter().any(|(_, reason, _)| *reason == Some(Reason::BudgetExceeded));
    if let (true, Some(over)) = (short_of, run.used_up()) {
        return crate::workflow::budget::exhausted(run, over);
    }
    match &failed[..] {
        [(status, reason, message)] if all == 1 => over(batch::status_of(*status), *reason, message.clone()),
        _ => {
            let message = format!("{good} of {all} contract(s) fulfilled; {} failed", all - good);
            over(Status::Failed, Some(Reason::ItemsFailed), message)
        }
    }
}
