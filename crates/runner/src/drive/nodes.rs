//! What is done about the nodes of a graph: a turn is taken on the tree that is the node's own, brought up to what has landed
//! on the run's line since; and what follows from what has happened is put on record.

use crate::Result;
use crate::change::{OnTop, Sides, merge, merge_without};
use crate::git::Objects;
use crate::record::{Driver, Pending, Stop, approval};
use crate::turn;
use contract::graph::{NodeAsked, NodeMessage, PhaseChanged};
use contract::id::derived_uuid;
use contract::view::graph::{MessageRole, Phase};
use contract::{Fact, GraphFact, ItemBase, StepRef, Taken, TreeId};
use run::gate::Finding;
use run::workflow::graph::outcome::NORMA;
use run::workflow::graph::{Input, NodeState, Wished, rights};
use run::{Due, Run};
use std::sync::Arc;
use store::{Attached, crash};

/// What a node stands on in its next turn.
#[derive(Debug, Clone, PartialEq)]
struct Stand {
    base: ItemBase,
    tree: TreeId,
    /// What of its own work could not be kept, since something else has landed there.
    set_aside: Vec<String>,
}

/// Has the agent of a node take a turn, if one is due.
pub(super) fn take_turn(driver: &mut Driver<'_, '_>, place: u32) -> Result<()> {
    let cancel = driver.control.begin_node(place)?;
    driver.world.end_with(Some(cancel));
    let taken = open(driver, place).and_then(|opened| match opened {
        Some((step, opened)) => turn::carry_out(driver, step, opened).map(Some),
        None => Ok(None),
    });
    driver.world.end_with(None);
    driver.control.end_node(place);
    crash::point("step.after_submit");
    taken?.map_or(Ok(()), |sealed| driver.shared.settle(sealed))
}

/// Puts the intent of a turn on its way. What it stands on is found out before, and again if that has moved meanwhile.
fn open(driver: &mut Driver<'_, '_>, place: u32) -> Result<Option<(StepRef, Pending)>> {
    loop {
        driver.refresh();
        let Some(stand) = stand(driver.objects, &driver.run, place)? else { return Ok(None) };
        let (head, mut opened, mut moved) = (driver.run.line().head.clone(), None, false);
        let before = own(&driver.run, place);
        let submitted = driver.shared.submit_if(driver.store, |run| {
            let step = run.due().find_map(|due| match due {
                Due::Turn(step) if step.node == Some(place) => Some(step),
                _ => None,
            })?;
            if run.line().head != head || own(run, place) != before {
                moved = true;
                return None;
            }
            opened = Some(step);
            Some((intent(run, place, step, &stand), Attached::default()))
        });
        match submitted {
            Some((pending, run)) => {
                driver.run = run;
                return Ok(opened.map(|step| (step, pending)));
            }
            None if moved => {}
            None => return Ok(None),
        }
    }
}

/// What a node has of its own, and what waits for it.
fn own(run: &Run, place: u32) -> Option<(Option<ItemBase>, Option<TreeId>, usize)> {
    let node = run.graph()?.node(place).ok()?;
    Some((node.base.clone(), node.tree, node.inbox.len()))
}

fn intent(run: &Run, place: u32, step: StepRef, stand: &Stand) -> Vec<Fact> {
    let state = run.graph().expect("BUG: only a graph has nodes");
    let mut facts = Vec::new();
    if state.phase == Phase::Boot {
        let why = "the first turn starts".to_owned();
        facts.push(Fact::Graph(GraphFact::PhaseChanged(PhaseChanged { old: Phase::Boot, new: Phase::Execute, why })));
    }
    let inbox = state.node(place).map(|node| node.inbox.clone()).unwrap_or_default();
    let mut inputs: Vec<String> = inbox.iter().map(|input| input.id().to_owned()).collect();
    if !stand.set_aside.is_empty() {
        let told = set_aside(run, place, step, &stand.set_aside);
        inputs.push(told.id.clone());
        facts.push(Fact::Graph(GraphFact::MessageSent(Box::new(told))));
    }
    let taken = Some(Box::new(Taken { tree: stand.tree, inputs }));
    facts.push(Fact::StepStarted { step, base: Some(stand.base.clone()), taken });
    facts
}

fn set_aside(run: &Run, place: u32, step: StepRef, paths: &[String]) -> NodeMessage {
    let content = format!(
        "Other work has landed that conflicts with yours. Your workspace has what landed; of your own changes these were set \
         aside, do them again if they are still needed (the diff of your last turn has them): {}",
        run::bounded(paths.to_vec()).join(", ")
    );
    NodeMessage {
        id: derived_uuid(&run.id, &["set-aside", &step.index.to_string()]),
        node: place,
        role: MessageRole::System,
        content,
        interrupt: false,
        starts: false,
        change: None,
        by: NORMA.to_owned(),
    }
}

/// What a node stands on: its own tree with what has landed since, or what it is to look at.
fn stand(objects: &Objects, run: &Run, place: u32) -> Result<Option<Stand>> {
    let Some(graph) = run.graph() else { return Ok(None) };
    let Ok(node) = graph.node(place) else { return Ok(None) };
    let head = run.line().head.clone();
    if rights::write_within(&node.terms, graph.global_mode, &run.started.contract).is_none() {
        let seen = cause(node).and_then(|from| graph.nodes.get(from as usize)?.tree);
        return Ok(Some(Stand { tree: seen.unwrap_or(head.tree), base: head, set_aside: Vec::new() }));
    }
    let (base, tree) = match (&node.base, node.tree) {
        (Some(base), Some(tree)) => (base.clone(), tree),
        _ => (head.clone(), head.tree),
    };
    if base == head {
        return Ok(Some(Stand { base, tree, set_aside: Vec::new() }));
    }
    let sides = Sides { base: base.tree, ours: tree, theirs: head.tree };
    let (tree, set_aside) = match merge(objects, run.started.contract.rules, sides)? {
        OnTop::Tree(tree) => (tree, Vec::new()),
        OnTop::Conflicts(found) => without_conflicts(objects, run, sides, &found)?,
    };
    Ok(Some(Stand { base: head, tree, set_aside }))
}

/// The node whose work it is asked to look at: whoever handed it over last.
fn cause(node: &NodeState) -> Option<u32> {
    node.inbox.iter().rev().find_map(|input| match &**input {
        Input::Handoff { sent, from } if !sent.report => Some(*from),
        _ => None,
    })
}

/// What has landed, with those of a node's changes that do not conflict with it; and the paths of those that do.
fn without_conflicts(objects: &Objects, run: &Run, sides: Sides, found: &[Finding]) -> Result<(TreeId, Vec<String>)> {
    let named: Vec<String> = found.iter().filter_map(|finding| finding.path.clone()).collect();
    // A name that is no text is shown in another spelling than its own.
    if found.iter().any(|finding| finding.path_hex.is_some()) {
        return Ok((sides.theirs, named));
    }
    let paths: Vec<Vec<u8>> = named.iter().map(|name| name.as_bytes().to_vec()).collect();
    let tree = merge_without(objects, run.started.contract.rules, sides, &paths)?;
    Ok((tree.unwrap_or(sides.theirs), named))
}

/// Puts on record what follows, or asks what a node wished for, if that is still due.
pub(super) fn note(driver: &mut Driver<'_, '_>, due: Due) -> Result<()> {
    match due {
        Due::Advance(_) => advance(driver),
        Due::AskFor(step) => ask_for(driver, step),
        Due::Stall(stalled) => {
            driver.record(vec![Fact::Graph(GraphFact::RunStalled(stalled))], Vec::new())?;
            // Whatever else is at work ends too: a run that is paused does nothing.
            driver.control.request(Stop::Interrupt);
            driver.shared.wake();
            Ok(())
        }
        _ => Ok(()),
    }
}

fn advance(driver: &mut Driver<'_, '_>) -> Result<()> {
    let submitted = driver.shared.submit_if(driver.store, |run| {
        let facts = run.due().find_map(|due| match due {
            Due::Advance(facts) => Some(facts),
            _ => None,
        })?;
        Some((facts, Attached::default()))
    });
    let Some((pending, run)) = submitted else { return Ok(()) };
    driver.run = run;
    driver.shared.settle(pending)
}

fn ask_for(driver: &mut Driver<'_, '_>, step: StepRef) -> Result<()> {
    let wished = driver.run.graph().and_then(|graph| graph.wishes.get(&step.index).cloned());
    let Some(wished) = wished.filter(|wished| wished.asked.is_none()) else { return Ok(()) };
    let wait = approval::ask(driver.store, &driver.run, approval::reasons_of_wish(&driver.run, &wished))?;
    let submitted = driver.shared.submit_if(driver.store, |run| {
        let open = run.graph()?.wishes.get(&step.index)?.asked.is_none();
        open.then(|| (vec![Fact::Graph(GraphFact::NodeAsked(Box::new(NodeAsked { step, wait })))], Attached::default()))
    });
    let Some((pending, run)) = submitted else { return Ok(()) };
    driver.run = run;
    driver.shared.settle(pending)
}

/// Answers the questions of nodes that lapsed: nobody said anything in time.
pub(super) fn lapse(driver: &mut Driver<'_, '_>) -> Result<()> {
    let late = |wished: &&Arc<Wished>| wished.asked.as_ref().is_some_and(|wait| wait.expires_at <= store::now());
    let wishes = driver.run.graph().into_iter().flat_map(|graph| graph.wishes.values());
    let lapsed: Vec<_> = wishes.filter(late).map(Arc::clone).collect();
    for wished in lapsed {
        let Some(given) = approval::answer_to(driver.store, &driver.run, &wished)? else { continue };
        let submitted = driver.shared.submit_if(driver.store, |run| {
            let facts = given.facts(run, &wished);
            (!facts.is_empty()).then(|| (facts, Attached::default()))
        });
        let Some((pending, run)) = submitted else { continue };
        driver.run = run;
        driver.shared.settle(pending)?;
    }
    Ok(())
}
