//! The schedule of an intent: compile, put the plan on record, judge the patch, then the nodes, side by side where none waits
//! for the other. Whatever can be done without an answer is done before anybody is waited for; then everything is asked at once.

use super::{COMPILE, NodeState, PATCH, Stage, State};
use crate::Run;
use crate::items::ItemState;
use crate::workflow::budget::exhausted;
use crate::workflow::{Due, batch, over};
use contract::documents::plan::Work;
use contract::intent::{APPROVE, REJECT};
use contract::{Fact, IntentFact, ItemStatus, Reason, Status, StepRef, Wait, WaitKind};
use std::sync::Arc;

/// Everything that is due of an intent.
pub(in crate::workflow) fn due<'r>(run: &'r Run, state: &'r State) -> Box<dyn Iterator<Item = Due> + 'r> {
    if run.core.landed.is_some() {
        return one(succeeded(state));
    }
    if let Some(end) = failure(run, state) {
        return one(end);
    }
    if state.items.has_open() {
        return batch::due(run, &state.items, 0);
    }
    if state.nodes.is_none() {
        return one(Due::Plan);
    }
    // What is open ends first.
    if state.failed().is_some() {
        return Box::new(std::iter::empty());
    }
    if let Some(over) = run.used_up() {
        return Box::new(run.core.open.is_empty().then(|| exhausted(run, over)).into_iter());
    }
    let follows = follow_up(state);
    if !follows.is_empty() {
        return one(Due::Advance(follows));
    }
    let is_runnable = |(_, node): &(u32, &NodeState)| node.has_turn() && !node.needs_answer();
    let index = run.next_index();
    let mut turns = ready(state).filter(is_runnable).map(move |(place, node)| {
        let attempt = node.lost + 1;
        Due::Turn(StepRef { index, role: node.role(), iteration: 1, attempt, item: None, node: Some(place) })
    });
    match (turns.next(), run.core.open.is_empty()) {
        (Some(first), _) => Box::new(std::iter::once(first).chain(turns)),
        (None, true) => one(next(run, state)),
        (None, false) => Box::new(std::iter::empty()),
    }
}

fn one<'r>(due: Due) -> Box<dyn Iterator<Item = Due> + 'r> {
    Box::new(std::iter::once(due))
}

/// What is due once nothing can be worked on.
fn next(run: &Run, state: &State) -> Due {
    let questions: Vec<Wait> = state.to_ask().map(|(_, node)| question(node)).collect();
    if !questions.is_empty() {
        return Due::Questions(questions);
    }
    if let Some((_, wait)) = state.questions().next() {
        return Due::Advance(vec![Fact::Intent(IntentFact::PlanHeld { reason: wait.kind.reason() })]);
    }
    match (state.is_judged(), run.has_to_land()) {
        (true, true) => Due::Land,
        (true, false) => succeeded(state),
        (false, _) => Due::Nothing,
    }
}

/// The nodes whose turn has come.
fn ready(state: &State) -> impl Iterator<Item = (u32, &NodeState)> {
    state.in_order().filter(|(_, node)| node.stage == Stage::Waiting && state.is_ready(node))
}

/// What follows without anybody's doing: the first node that is skipped, or that has nothing to do.
fn follow_up(state: &State) -> Vec<Fact> {
    let follows = ready(state).find_map(|(place, node)| match state.skipped_for(node) {
        Some(why) => Some(IntentFact::PlanNodeSkipped { node: place, why }),
        None if node.spec.work == Work::Nothing => Some(IntentFact::PlanNodePassed { node: place }),
        None => None,
    });
    follows.into_iter().map(Fact::Intent).collect()
}

/// What somebody is asked about a node. When its time is up is known once it is asked.
fn question(node: &NodeState) -> Wait {
    let id = &node.spec.id;
    let (kind, reason, choices) = match &node.spec.work {
        Work::Decision { choices, .. } => (WaitKind::Decision, format!("node {id} needs a decision"), choices.clone()),
        Work::Command(argv) => {
            let why = node.asks.as_deref().unwrap_or_default();
            (WaitKind::Approval, format!("node {id} runs {}: {why}", argv.join(" ")), approval())
        }
        _ => (WaitKind::Approval, format!("node {id} needs approval"), approval()),
    };
    let reasons = crate::bounded::bounded(vec![reason]);
    Wait { id: node.wait_id(), kind, about: None, reasons, choices, deadline: None }
}

fn approval() -> Vec<String> {
    vec![APPROVE.to_owned(), REJECT.to_owned()]
}

/// The end of an intent of which something did not succeed.
fn failure(run: &Run, state: &State) -> Option<Due> {
    let terms = run.started.contract.intent.as_ref();
    let unknown = terms.map(|terms| terms.unknown_connectors.as_slice()).unwrap_or_default();
    if !unknown.is_empty() && state.nodes.is_none() && state.items.items.iter().all(|item| item.turns.is_empty()) {
        let message = format!("no connector {} is configured; name it in \"connectors\"", unknown.join(", "));
        return Some(over(Status::Failed, Some(Reason::InputMissing), message));
    }
    if let Some((reason, why)) = &state.refused {
        return Some(over(Status::Failed, Some(*reason), format!("the plan cannot be carried out: {why}")));
    }
    if let Some(end) = state.items.items.iter().zip([COMPILE, PATCH]).find_map(|(item, place)| refused(item, place)) {
        return Some(end);
    }
    // What is open ends first.
    let (node, reason) = state.failed().filter(|_| run.core.open.is_empty())?;
    let status = if reason == Reason::AgentTimeout { Status::TimedOut } else { Status::Failed };
    Some(over(status, Some(reason), format!("node {} did not succeed: {}", node.spec.id, node.summary)))
}

fn refused(item: &Arc<ItemState>, place: u32) -> Option<Due> {
    let ended = item.ended().filter(|ended| ended.status != ItemStatus::Success)?;
    let status = match ended.status {
        ItemStatus::Denied => Status::Denied,
        ItemStatus::Timeout => Status::TimedOut,
        ItemStatus::Failure | ItemStatus::Success => Status::Failed,
    };
    let what = if place == COMPILE { "the intent was not compiled" } else { "the patch was not accepted" };
    Some(over(status, ended.reason, format!("{what}: {}", ended.message)))
}

fn succeeded(state: &State) -> Due {
    let skipped = state.nodes().iter().filter(|node| node.stage == Stage::Skipped).count();
    let done = state.nodes().len() - skipped;
    over(Status::Succeeded, None, format!("{done} node(s) done, {skipped} skipped"))
}
