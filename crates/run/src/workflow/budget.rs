//! Budgets that turns use up: the end of a run, or a question where somebody is there to answer it.

use super::{Due, Flow};
use crate::Run;
use crate::bounded::bounded;
use crate::state::StepRecord;
use contract::{
    Budget, BudgetExceeded, CHOICE_MORE, CHOICE_STOP, End, Reason, Role, Status, Usage, Usd, Wait, WaitId, WaitKind,
};
use std::sync::Arc;

/// What is due in a run whose budget is used up.
pub(super) fn exhausted(run: &Run, over: BudgetExceeded) -> Due {
    match run.may_ask_for_more() {
        true => ask(run, Some(over)),
        false => stopped(over),
    }
}

/// The end of a run whose budget is used up.
pub(super) fn stopped(budget: BudgetExceeded) -> Due {
    let end = End { reason: Some(Reason::BudgetExceeded), message: message(&budget) };
    Due::End { status: Status::Stopped, end, budget: Some(budget) }
}

/// The question whether a run gets more. A turn may be cut off before anything is used up, by a call that would have
/// taken more than is left.
pub(super) fn ask(run: &Run, over: Option<BudgetExceeded>) -> Due {
    let first = match &over {
        Some(over) => message(over),
        None => "a turn was cut off: what is left of the run's budget does not cover its next call".to_owned(),
    };
    let asked_before = run.core.answers.iter().filter(|said| said.wait.0.starts_with(NAME)).count();
    Due::Ask(Wait {
        id: WaitId(format!("{NAME}{}", asked_before + 1)),
        kind: WaitKind::Budget,
        about: None,
        reasons: bounded(std::iter::once(first).chain(spent_on(run)).collect()),
        choices: vec![CHOICE_MORE.to_owned(), CHOICE_STOP.to_owned()],
        deadline: None,
    })
}

/// How these questions are called, before their number.
const NAME: &str = "budget-";

fn message(over: &BudgetExceeded) -> String {
    let BudgetExceeded { budget, limit, actual } = over;
    match budget {
        Budget::MaxCostUsd => format!("budget {budget} is used up: ${} of ${}", Usd(*actual), Usd(*limit)),
        Budget::MaxTokens => format!("budget {budget} is used up: {actual} of {limit}"),
        _ => format!("budget {budget} is used up: {actual} > {limit}"),
    }
}

/// What was spent on what: one line for each item, or for each role of a loop.
fn spent_on(run: &Run) -> Vec<String> {
    match &run.flow {
        Flow::Pdca(_) => {
            let of_role = |role: Role| run.core.steps.iter().filter(move |record| record.step.role == role);
            Role::PDCA.into_iter().filter_map(|role| spent(role.as_str(), of_role(role))).collect()
        }
        Flow::Intent(state) => {
            let items = state.items.items.iter().filter_map(|item| spent(&item.item.id, item.turns.iter()));
            let of_node = |place: u32| run.core.steps.iter().filter(move |record| record.step.node == Some(place));
            let nodes = state.nodes().iter().zip(0..);
            items.chain(nodes.filter_map(|(node, place)| spent(&node.spec.id, of_node(place)))).collect()
        }
        Flow::Batch(state) => spent_on_items(state),
        Flow::Pipeline(state) => spent_on_items(&state.items),
        Flow::Graph(state) => {
            let of_node = |place: u32| run.core.steps.iter().filter(move |record| record.step.node == Some(place));
            state.present().filter_map(|(place, node)| spent(&node.terms.label, of_node(place))).collect()
        }
    }
}

fn spent_on_items(state: &super::batch::State) -> Vec<String> {
    state.items.iter().filter_map(|item| spent(&item.item.id, item.turns.iter())).collect()
}

fn spent<'r>(on: &str, turns: impl Iterator<Item = &'r Arc<StepRecord>>) -> Option<String> {
    let (mut count, mut took_ms, mut usage) = (0_u32, 0_u64, Usage::default());
    for turn in turns {
        count += 1;
        took_ms += turn.took_ms;
        if let Some(used) = &turn.usage {
            usage.add(used);
        }
    }
    let cost = usage.cost_micro_usd.map(|cost| format!(", ${}", Usd(cost))).unwrap_or_default();
    let (minutes, seconds) = (took_ms / 60_000, took_ms / 1000 % 60);
    let line = || format!("{on}: {count} turn(s), {minutes} min {seconds} s, {} tokens{cost}", usage.tokens());
    (count > 0).then(line)
}
