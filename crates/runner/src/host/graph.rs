//! Graphs that people build: what they do to one while it is carried out or held, and what is answered to its nodes. All of
//! it is facts of the run; a turn that they concern is ended by whoever records them.

use crate::host::Host;
use crate::host::workers::LiveRun;
use crate::record::approval;
use crate::{Answer, Error, Result};
use contract::graph::GraphEdit;
use contract::{Fact, GraphFact};
use serde_json::{Value, json};
use store::Reader;

/// Does something to a graph.
pub(super) fn edit(host: &Host, slug: &str, edit: &GraphEdit, by: &str) -> Result<Answer> {
    let facts = match host.workers.find(slug) {
        Some(live) => {
            let facts = live.edit(&host.state.store, |run| run.edit(edit, by))?;
            interrupt(&live, &facts);
            facts
        }
        None => edit_held(host, slug, edit, by)?,
    };
    let (message, value) = told(edit, &facts);
    Ok(Answer::Done { message, value })
}

/// A graph that nobody carries out can be built all the same.
fn edit_held(host: &Host, slug: &str, edit: &GraphEdit, by: &str) -> Result<Vec<Fact>> {
    let _alone = host.state.alone();
    let (run, mut log) = Reader::open(&host.state.store.layout)?.load(slug)?;
    let facts = run.edit(edit, by).map_err(Error::Edit)?;
    if !facts.is_empty() {
        host.state.store.append(&mut log, facts.clone(), Vec::new())?;
    }
    Ok(facts)
}

/// Ends the turns that somebody does not want to continue.
fn interrupt(live: &LiveRun, facts: &[Fact]) {
    for fact in facts {
        match fact {
            Fact::Graph(GraphFact::MessageSent(message)) if message.interrupt => live.interrupt(message.node),
            Fact::Graph(GraphFact::NodeHeld { node, held: true, .. })
            | Fact::Graph(GraphFact::NodeRemoved { node, .. }) => live.interrupt(*node),
            _ => {}
        }
    }
}

/// What was done, for people and for programs.
fn told(edit: &GraphEdit, facts: &[Fact]) -> (String, Value) {
    let added = facts.iter().find_map(|fact| match fact {
        Fact::Graph(GraphFact::NodeAdded(added)) => Some(added.terms.id.clone()),
        _ => None,
    });
    let edge = facts.iter().find_map(|fact| match fact {
        Fact::Graph(GraphFact::EdgeSet(set)) => Some(set.edge.id.clone()),
        _ => None,
    });
    let is_reset = facts.iter().any(|fact| matches!(fact, Fact::Graph(GraphFact::NodeReset { .. })));
    match edit {
        GraphEdit::AddNode { .. } => ("node added".to_owned(), json!({"nodeId": added})),
        GraphEdit::PatchNode { node, .. } => ("node changed".to_owned(), json!({"nodeId": node})),
        GraphEdit::HoldNode { node, held: true } => ("node stopped".to_owned(), json!({"nodeId": node})),
        GraphEdit::HoldNode { node, .. } => ("node started".to_owned(), json!({"nodeId": node})),
        GraphEdit::ResetNode { node } => ("its conversation begins anew".to_owned(), json!({"nodeId": node})),
        GraphEdit::InterruptNode { node, .. } => ("its turn is being ended".to_owned(), json!({"nodeId": node})),
        GraphEdit::RemoveNode { node } => ("node removed".to_owned(), json!({"nodeId": node})),
        GraphEdit::SetEdge { edge: wished, id } => {
            let id = edge.or_else(|| wished.id.clone()).unwrap_or_else(|| id.clone());
            ("edge set".to_owned(), json!({"edgeId": id}))
        }
        GraphEdit::RemoveEdge { edge } => ("edge removed".to_owned(), json!({"edgeId": edge})),
        GraphEdit::Say { id, .. } if is_reset => ("its conversation begins anew".to_owned(), json!({"messageId": id})),
        GraphEdit::Say { id, interrupt: true, .. } => {
            ("sent; the turn under way is being ended".to_owned(), json!({"messageId": id}))
        }
        GraphEdit::Say { id, .. } => ("sent; it is read in the node's next turn".to_owned(), json!({"messageId": id})),
        GraphEdit::Mode { .. } => ("mode set".to_owned(), Value::Null),
        GraphEdit::Done => ("done: what was made is judged now".to_owned(), Value::Null),
    }
}

/// Puts on record what people have answered to the nodes of a run that is carried out.
pub(super) fn take_answers(host: &Host, slug: &str) -> Result<()> {
    let Some(live) = host.workers.find(slug) else { return Ok(()) };
    // A question can be read, and answered, before it is told: what is told may lack it.
    let run = live.now();
    for wished in run.graph().into_iter().flat_map(|graph| graph.wishes.values()) {
        let Some(given) = approval::answer_to(&host.state.store, &run, wished)? else { continue };
        live.edit(&host.state.store, |run| Ok(given.facts(run, wished)))?;
    }
    Ok(())
}
