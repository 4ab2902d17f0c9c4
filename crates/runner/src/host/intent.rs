//! Intents that are carried out: keeping one, starting it once, answering what its plan asks, and trying again what failed.

use crate::host::Host;
use crate::host::request::{Answer, IntentEvent};
use crate::{Error, Result};
use contract::api::RunEventKind;
use contract::documents::Intent;
use contract::intent::{APPROVE, REJECT};
use contract::{ApprovalDecision, ApprovalTerms, Fact, Status, WaitId, WaitKind};
use run::Run;
use run::workflow::graph::edit::EditProblem;
use run::workflow::intent::{COMPILE, PATCH, Stage, State};
use serde_json::json;
use store::Reader;

/// Keeps an intent.
pub(super) fn create(host: &Host, intent: &Intent, by: String) -> Result<Answer> {
    let bytes = contract::json::canonical(intent).map_err(|why| Error::usage(why.to_string(), "norma help intents"))?;
    let document = String::from_utf8(bytes).expect("BUG: canonical JSON is text");
    if document.len() > store::INTENT_BYTES_MAX {
        let message = format!("the intent is {} bytes, and {} are the most", document.len(), store::INTENT_BYTES_MAX);
        return Err(Error::Edit(EditProblem::Invalid { pointer: String::new(), message }));
    }
    let id = host.state.store.create_intent(document, by).wait()?;
    Ok(Answer::Done { message: format!("intent {id} is kept"), value: json!({ "intentId": id }) })
}

/// Answers what the plan of a run asks.
pub(super) fn answer(host: &Host, slug: &str, event: &IntentEvent, by: &str) -> Result<Answer> {
    let done = |node: &str| {
        let message = format!("{node} is answered");
        Ok(Answer::Done { message, value: json!({"accepted": true, "nodeId": node}) })
    };
    if let Some(live) = host.workers.find(slug) {
        let mut node = String::new();
        live.edit(&host.state.store, |run| {
            let (found, facts) = facts_of(run, event, by)?;
            node = found;
            Ok(facts)
        })?;
        return done(&node);
    }
    let (run, mut log) = host.reader()?.load(slug)?;
    // An approval that is on the audit log, such as that of a change, is answered there.
    if let Some(wait) = run.approval_wait().filter(|_| event.kind == RunEventKind::Approval && event.node.is_none()) {
        let decision = match choice_of(event).map_err(Error::Edit)?.as_str() {
            APPROVE => ApprovalDecision::Granted,
            _ => ApprovalDecision::Denied,
        };
        let (terms, store) = (ApprovalTerms::default(), &host.state.store);
        store.answer_approval(wait.approval, decision, by.to_owned(), None, terms).wait()?;
        host.go_on_with(slug);
        return done(&wait.approval.to_string());
    }
    let node = {
        let _alone = host.state.alone();
        let (node, mut facts) = facts_of(&run, event, by).map_err(Error::Edit)?;
        // Whoever takes it up again puts that on record.
        facts.truncate(1);
        host.state.store.append(&mut log, facts, Vec::new())?;
        node
    };
    host.go_on_with(slug);
    done(&node)
}

/// The node that is answered, and the facts that say so.
fn facts_of(run: &Run, event: &IntentEvent, by: &str) -> std::result::Result<(String, Vec<Fact>), EditProblem> {
    let (node, wait) = asked(run, event)?;
    let choice = choice_of(event)?;
    let wrong = |why: String| EditProblem::Invalid { pointer: "/choice".to_owned(), message: why };
    let answered = run.answer(&wait, &choice, by, None, None).map_err(wrong)?;
    let mut facts = vec![answered];
    if run.status == Status::Waiting {
        facts.push(Fact::RunResumed { pid: std::process::id() });
    }
    Ok((node, facts))
}

/// The question that is meant: that of the node, or the oldest of its kind.
fn asked(run: &Run, event: &IntentEvent) -> std::result::Result<(String, WaitId), EditProblem> {
    let refused = |why: String| EditProblem::Refused(why);
    let kind = match event.kind {
        RunEventKind::Approval => WaitKind::Approval,
        RunEventKind::Decision => WaitKind::Decision,
    };
    let Some(intent) = run.intent() else { return Err(refused(format!("the run is {} and asks nothing", run.status))) };
    if run.status != Status::Waiting {
        return Err(refused(format!("the run is {}, and waits for no answer", run.status)));
    }
    let is_meant = |name: &str| event.node.as_deref().is_none_or(|given| given == name);
    let mut meant = intent.questions().filter(|(node, wait)| wait.kind == kind && is_meant(&node.spec.id));
    match meant.next() {
        Some((node, wait)) if wait.deadline.is_some_and(|deadline| deadline <= store::now()) => {
            Err(refused(format!("node {} could be answered until {}", node.spec.id, wait.deadline.unwrap_or_default())))
        }
        Some((node, wait)) => Ok((node.spec.id.clone(), wait.id.clone())),
        None => Err(refused(format!("nothing of the run waits for such a {kind}"))),
    }
}

/// The answer in the words that the log has.
fn choice_of(event: &IntentEvent) -> std::result::Result<String, EditProblem> {
    match (event.kind, event.choice.as_str()) {
        (RunEventKind::Decision, choice) => Ok(choice.to_owned()),
        (RunEventKind::Approval, "approve" | "approved") => Ok(APPROVE.to_owned()),
        (RunEventKind::Approval, "reject" | "denied") => Ok(REJECT.to_owned()),
        (RunEventKind::Approval, other) => {
            let message = format!("{other:?} is no answer to an approval; say approve or reject");
            Err(EditProblem::Invalid { pointer: "/choice".to_owned(), message })
        }
    }
}

/// Whether a run of an intent can be tried again; the public name of the step from which it is.
pub fn retried_from(reader: &Reader, parent: &Run) -> Result<&'static str> {
    let slug = parent.id.slug();
    let refused = |why: String| Error::declined(why, format!("look at it: norma show {slug}"));
    let Some(intent) = parent.intent() else { return Err(refused(format!("run {slug} carries out no intent"))) };
    let ended = matches!(parent.status, Status::Failed | Status::Denied | Status::TimedOut | Status::Stopped);
    if !ended {
        return Err(refused(format!("run {slug} is {}; only a run that failed is tried again", parent.status)));
    }
    if let Some(child) = reader.retry_of(&slug)? {
        return Err(refused(format!("run {slug} is tried again already, by run {child}")));
    }
    Ok(first_undone(intent))
}

/// The public name of the first step without an output.
fn first_undone(intent: &State) -> &'static str {
    let done = |place: u32| intent.items.items.get(place as usize).is_some_and(|item| item.succeeded());
    if !done(COMPILE) {
        return "CompileST";
    }
    if !done(PATCH) {
        return if intent.nodes.is_some() { "ApplyPatchST" } else { "CompileST" };
    }
    let next = intent.in_order().find(|(_, node)| !matches!(node.stage, Stage::Done(_) | Stage::Skipped));
    match next.map(|(_, node)| node.spec.kind) {
        Some(contract::documents::plan::NodeKind::Decision | contract::documents::plan::NodeKind::Approval) => {
            "DecideST"
        }
        _ => "ExecuteST",
    }
}
