//! What is done about one item of a run: its agent works, what it left is judged, and what passed is brought onto the
//! run's line. Agents work and changes are judged side by side; changes land one after another, in the order of the
//! contract.

use super::finish::finish;
use super::judging::with_gates;
use crate::Result;
use crate::change::{self, Judged, OnLine, Verdict, bring_onto_line};
use crate::record::{Driver, Pending};
use crate::turn;
use contract::pipeline::Stage;
use contract::{Fact, PipelineFact, StepRef, TurnEnd};
use run::{Due, Run};
use std::time::Duration;
use store::{Attached, crash};

/// Has an item's agent take a turn, and judges what it left.
pub(crate) fn work_on(driver: &mut Driver<'_, '_>, place: u32) -> Result<()> {
    let mut judged = Judged::of_item(&driver.run, place);
    // Nothing is paid for that could not start.
    if let Some(refusal) = with_gates(driver, &mut None, |gates, _| gates.inputs(&mut judged))? {
        return finish(driver, judged.ends(refusal), None);
    }
    let Some((step, opened)) = open(driver, place) else { return Ok(()) };
    let sealed = turn::carry_out(driver, step, opened)?;
    crash::point("step.after_submit");
    if driver.run.items()[place as usize].worked().is_some() {
        return judge(driver, place, Some(sealed));
    }
    // It is tried again, by the next free worker once its time has come.
    let state = &driver.run.items()[place as usize];
    if state.turns.last().is_some_and(|turn| turn.end != TurnEnd::Interrupted) {
        let left = Duration::from_millis(state.item.retry_backoff_ms);
        driver.shared.state().claims.wait_before(place, left);
    }
    driver.shared.settle(sealed)
}

/// Judges what an item's agent left. `sealed` is the record of its turn, where that is still on its way to the disk. What
/// passed every gate lands when its turn comes; what changes nothing has nothing to wait for.
pub(crate) fn judge(driver: &mut Driver<'_, '_>, place: u32, mut sealed: Option<Pending>) -> Result<()> {
    let mut judged = Judged::of_item(&driver.run, place);
    match with_gates(driver, &mut sealed, |gates, tests| change::judge(gates, &mut judged, tests))? {
        Verdict::Refused(refusal) => return finish(driver, judged.ends(refusal), sealed),
        Verdict::Passed if judged.change.paths.is_empty() => return finish(driver, judged.succeeds(None), sealed),
        Verdict::Passed => {
            judged.asks = judged.needs_approval();
            driver.shared.state().claims.keep_judged(place, judged);
        }
        Verdict::NeedsReview => {
            if let Some(sealed) = sealed.take() {
                driver.shared.settle(sealed)?;
            }
            return driver.record(ask_for_review(&driver.run, place), Vec::new());
        }
        Verdict::Interrupted => {}
    }
    sealed.map_or(Ok(()), |sealed| driver.shared.settle(sealed))
}

/// Has reviewers look at what an item's agent left.
fn ask_for_review(run: &Run, place: u32) -> Vec<Fact> {
    let task = run.pipeline().and_then(|state| state.task(place).ok());
    let (task_id, to) = (run.items()[place as usize].item.id.clone(), Stage::S3);
    let moved = task.map(|task| PipelineFact::StateTransition { item: place, task_id, from: task.stage, to });
    [PipelineFact::ReviewAsked { item: place }].into_iter().chain(moved).map(Fact::Pipeline).collect()
}

/// Has a reviewer look at what an item's agent left. The change is judged by the next free worker.
pub(crate) fn review(driver: &mut Driver<'_, '_>, place: u32) -> Result<()> {
    let Some((step, opened)) = open(driver, place) else { return Ok(()) };
    let sealed = turn::carry_out(driver, step, opened)?;
    driver.shared.settle(sealed)
}

/// Brings a judged change onto the run's line.
pub(crate) fn land(driver: &mut Driver<'_, '_>, mut judged: Judged) -> Result<()> {
    let before = judged.clone();
    let on_line = with_gates(driver, &mut None, |gates, tests| bring_onto_line(gates, &mut judged, tests))?;
    let ending = match on_line {
        OnLine::At(landed) => judged.succeeds(landed),
        OnLine::Refused(refusal) => judged.ends(refusal),
        OnLine::Asks(reasons) if before.asks => return driver.wait_for_approval_of_change(reasons),
        // Only what it was merged with brought the question up.
        OnLine::Asks(_) => {
            let place = before.place.expect("BUG: only items land on a line");
            driver.shared.state().claims.keep_judged(place, Judged { asks: true, ..before });
            return Ok(());
        }
        OnLine::Interrupted => return Ok(()),
    };
    finish(driver, ending, None)
}

/// Puts the intent of a turn on its way. Which turn it is depends on what others have opened until this moment, and whether
/// there is one on what became of theirs: a rate limit of the provider pauses the whole run.
fn open(driver: &mut Driver<'_, '_>, place: u32) -> Option<(StepRef, Pending)> {
    let mut opened = None;
    let (pending, run) = driver.shared.submit_if(driver.store, |run| {
        let Some(Due::Turn(step)) = run.due_from(place).next() else { return None };
        if step.item != Some(place) {
            return None;
        }
        opened = Some(step);
        Some((vec![Fact::StepStarted { step, base: Some(run.base_for(place)), taken: None }], Attached::default()))
    })?;
    driver.run = run;
    Some((opened?, pending))
}
