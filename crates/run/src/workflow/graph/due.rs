//! The schedule of a graph: which node gets a turn, which change is judged, and when the run comes to its next phase. Nodes
//! work side by side; one that hangs delays nobody.

use super::outcome::{proposal, refusal};
use super::{NodeState, State};
use crate::Run;
use crate::workflow::budget::exhausted;
use crate::workflow::graph::rights::overlap;
use crate::workflow::{Due, over};
use contract::graph::{PhaseChanged, Stalled};
use contract::view::graph::{Phase, RunMode};
use contract::{Fact, GraphFact, Role, Status, StepRef};

/// How many times in a row whoever leads is asked to continue although nothing has happened: enough for a stall to show.
const IDLE_PROMPTS_MAX: u32 = 3;

/// Everything that is due of a graph, each of which could be done at once with the others.
pub(in crate::workflow) fn due<'r>(run: &'r Run, state: &'r State) -> Box<dyn Iterator<Item = Due> + 'r> {
    if run.core.landed.is_some() || state.phase == Phase::Done && !run.has_to_land() {
        return Box::new(std::iter::once(end(state)));
    }
    if state.phase == Phase::Done {
        return Box::new(std::iter::once(Due::Land));
    }
    if let Some(stalled) = stalled(run, state) {
        return Box::new(stalled.into_iter());
    }
    let changes = to_judge(state);
    if let Some(over) = run.used_up() {
        let ask = run.core.open.is_empty().then(|| exhausted(run, over));
        return Box::new(changes.chain(ask));
    }
    let turns = state.present().filter(|(place, node)| has_turn(state, *place, node)).map(|(place, node)| {
        let (index, iteration, attempt) = (run.next_index(), node.turns + 1, node.lost + 1);
        Due::Turn(StepRef { index, role: Role::Node, iteration, attempt, item: None, node: Some(place) })
    });
    let follows = follow_up(run, state).map(Due::Advance);
    let wishes = state.wishes.values().filter(|wished| wished.asked.is_none());
    let asks = wishes.map(|wished| Due::AskFor(wished.step));
    Box::new(follows.into_iter().chain(asks).chain(changes).chain(turns))
}

/// A run that counts as stalled does nothing more; none if it does not.
fn stalled(run: &Run, state: &State) -> Option<Option<Due>> {
    if state.stalled.is_some() {
        return Some(None);
    }
    let limits = run.started.contract.graph.as_ref().map(|graph| graph.stall).unwrap_or_default();
    let found = state.present().find_map(|(node, it)| Some((node, it.repeats.evidence(limits)?)));
    found.map(|(node, evidence)| Some(Due::Stall(Box::new(Stalled { node, evidence }))))
}

fn to_judge(state: &State) -> impl Iterator<Item = Due> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let place = state.changes.find_from(from, |standing| standing.ready != u32::MAX)?;
        from = place + 1;
        Some(Due::Item { item: place as u32 })
    })
}

/// Whether a node gets a turn now.
fn has_turn(state: &State, place: u32, node: &NodeState) -> bool {
    let is_free = node.turn.is_none() && node.proposed.is_none() && node.refused.is_none() && !node.held;
    let starts = node.inbox.iter().any(|input| input.starts());
    is_free && (starts || is_prompted(state, place, node)) && !is_blocked(state, place, node)
}

/// Whether another node is at work on something that this one says it changes, too.
fn is_blocked(state: &State, place: u32, node: &NodeState) -> bool {
    let at_work = |other: &NodeState| other.turn.is_some() || other.proposed.is_some();
    state.present().any(|(there, other)| there != place && at_work(other) && overlap(&node.terms, &other.terms))
}

/// Whether a node is asked to continue without anything that waits for it: whoever leads a graph that goes on by itself.
fn is_prompted(state: &State, place: u32, node: &NodeState) -> bool {
    // Who leads is looked up among all nodes, so that comes after what the node itself says.
    let may = state.mode == RunMode::Auto && state.done.is_none() && node.turns > 0 && !node.failed;
    let leads = || state.leader().is_some_and(|(leader, _)| leader == place);
    may && leads()
        && state.waits_for(place).is_none()
        && (node.seen < state.news || node.idle_prompts < IDLE_PROMPTS_MAX && is_quiet(state, place))
}

/// Whether nobody else is at work or about to be.
fn is_quiet(state: &State, place: u32) -> bool {
    state.wishes.is_empty()
        && state.present().filter(|(other, _)| *other != place).all(|(_, node)| {
            node.turn.is_none() && node.proposed.is_none() && !node.inbox.iter().any(|input| input.starts())
        })
}

/// What follows from what has happened, and is only to be put on record.
fn follow_up(run: &Run, state: &State) -> Option<Vec<Fact>> {
    let refused = |(place, node): (u32, &NodeState)| Some((place, node.refused?));
    if let Some((place, change)) = state.present().find_map(refused) {
        let why = state.changes[change as usize].ended().map_or("", |ended| ended.message.as_str());
        let mut facts = vec![refusal(&run.id, place, change, why)];
        facts.extend(to_execute(state, "a change was refused"));
        return Some(facts);
    }
    let has_work = state.present().any(|(place, node)| node.turn.is_some() || has_turn(state, place, node));
    if state.phase == Phase::Boot && has_work {
        return Some(vec![phase(Phase::Boot, Phase::Execute, "the first turn starts")]);
    }
    if has_work && state.done.is_none() {
        return to_execute(state, "there is new work").map(|fact| vec![fact]);
    }
    if has_work || state.done.is_none() || state.lands_next().is_some() || !state.wishes.is_empty() {
        return None;
    }
    completion(run, state)
}

fn to_execute(state: &State, why: &str) -> Option<Fact> {
    let back = matches!(state.phase, Phase::Verify | Phase::DocsSync);
    back.then(|| phase(state.phase, Phase::Execute, why))
}

/// The way from work that is said to be done to a run that is.
fn completion(run: &Run, state: &State) -> Option<Vec<Fact>> {
    let by = state.done.as_deref().unwrap_or_default();
    match state.phase {
        Phase::Boot | Phase::Execute => {
            let first = phase(state.phase, Phase::Verify, &format!("{by} says that it is done"));
            Some(std::iter::once(first).chain(proposals(run, state)).collect())
        }
        Phase::Verify if !state.is_settled() => Some(proposals(run, state)).filter(|facts| !facts.is_empty()),
        Phase::Verify if has_documents(state) && !state.docs_synced => {
            let mut facts = vec![phase(Phase::Verify, Phase::DocsSync, "documents are in scope")];
            facts.extend(documents_prompt(run, state));
            Some(facts)
        }
        Phase::DocsSync if !state.is_settled() => Some(proposals(run, state)).filter(|facts| !facts.is_empty()),
        Phase::Verify | Phase::DocsSync => {
            Some(vec![phase(state.phase, Phase::Done, "every change has passed its gates")])
        }
        Phase::Done => None,
    }
}

/// What a node has made that is not on the run's line yet: one after another, so that each is chained to the one before.
fn proposals(run: &Run, state: &State) -> Vec<Fact> {
    let dirty = state.present().find(|(_, node)| node.is_dirty() && node.proposed.is_none());
    let made = dirty
        .and_then(|(place, node)| Some(proposal(run, place, node.last.as_ref()?.step, node.base.clone()?, node.tree?)));
    made.into_iter().collect()
}

/// Whether there is a node for documents, and something that they could tell of.
fn has_documents(state: &State) -> bool {
    documents_node(state).is_some() && !state.changes.is_empty()
}

/// The node that documents are the work of: it writes them and nothing else.
fn documents_node(state: &State) -> Option<(u32, &NodeState)> {
    state.present().find(|(_, node)| {
        let can = node.terms.capabilities;
        can.write_docs && !can.write_code && !can.delegate_only && !node.held
    })
}

fn documents_prompt(run: &Run, state: &State) -> Option<Fact> {
    let (place, _) = documents_node(state)?;
    let id = contract::id::derived_uuid(&run.id, &["docs-sync", &state.changes.len().to_string()]);
    let text = "Bring the documents up to date with what has changed in this run, and change nothing else.";
    Some(super::outcome::system_message(id, place, text.to_owned(), true))
}

fn phase(old: Phase, new: Phase, why: &str) -> Fact {
    Fact::Graph(GraphFact::PhaseChanged(PhaseChanged { old, new, why: why.to_owned() }))
}

fn end(state: &State) -> Due {
    let changes = state.changes.iter().filter(|change| change.succeeded()).count();
    over(Status::Succeeded, None, format!("done: {changes} change(s)"))
}
