//! Intents at the root of the server, in the words of their own contract: what somebody wants is kept, started once, shown as
//! `RunViewModel.v0`, answered, tried again and ended. Everything is done by the host, as for every other run.

use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use axum::http::StatusCode;
use contract::api::{RunEvent, StartIntent};
use contract::documents::Intent;
use contract::intent::is_intent_id;
use contract::view::intent::{RunViewModel, ViewStatus};
use contract::{Digest, Status};
use runner::{EditProblem, Error, IntentEvent, Request, Start};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) fn create(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let refused = |violations| Problem::violations("this is no Intent.v0, so nothing is kept", violations);
    let intent = Intent::read(&call.body).map_err(refused)?;
    let request = Request::IntentCreate { intent: Box::new(intent), by: call.principal.name.clone() };
    let (_, value) = asked(app, request)?;
    Ok(Reply::Json(StatusCode::CREATED, value))
}

pub(crate) fn run(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let id = call.name(0);
    let found = match is_intent_id(id) {
        true => app.with_reader(|reader| reader.intent(id))?,
        false => None,
    };
    found.ok_or_else(|| Problem::not_found("there is no such intent"))?;
    let StartIntent { trace_id } = call.read()?;
    app.on_record(call, "POST /intents/{id}/run", None)?;
    let (follower, _) = app.hosting.start(&app.sender, Start::Intent { intent: id.to_owned(), trace_id })?;
    let run = run::view::run_name(&follower.run().id);
    Ok(Reply::Json(StatusCode::ACCEPTED, json!({"runId": run, "workflowId": id})))
}

/// The run that a path names: by any of its spellings, or by the intent that it carries out.
fn run_of(app: &App, given: &str) -> Outcome<String> {
    if !is_intent_id(given) {
        return super::run_of(app, given);
    }
    let found = app.with_reader(|reader| reader.run_of_intent(given))?;
    let listed = found.map(|slug| super::run_of(app, &slug)).transpose()?;
    listed.ok_or_else(|| Problem::not_found("there is no such run"))
}

fn view(app: &App, slug: &str) -> Outcome<RunViewModel> {
    let (id, events) = app.with_reader(|reader| {
        let (id, events, _) = reader.log(slug)?;
        Ok((id, events))
    })?;
    run::view::view_model(id, &events).ok_or_else(|| Problem::internal(&format!("the log of run {slug} has no view")))
}

pub(crate) fn show(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let head = app.with_reader(|reader| reader.head(&slug))?;
    if let Some(text) = head.and_then(|head| app.views.get(&slug, head)) {
        return Ok(Reply::Spelled(StatusCode::OK, text));
    }
    let text = serde_json::to_string(&view(app, &slug)?).map_err(|why| Problem::internal(&why))?;
    // A log that grew meanwhile has another hash, and is read again.
    head.into_iter().for_each(|head| app.views.put(&slug, head, &text));
    Ok(Reply::Spelled(StatusCode::OK, text))
}

/// How many views are kept.
const VIEWS_MAX: usize = 256;

/// Views as they were last shown, each with the hash of the log that it was made from: whoever asks again and again whether a run
/// has ended does not have all of its log read each time.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<String, (Digest, String)>>);

impl Views {
    fn get(&self, slug: &str, head: Digest) -> Option<String> {
        let views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.get(slug).filter(|(of, _)| *of == head).map(|(_, text)| text.clone())
    }

    fn put(&self, slug: &str, head: Digest, text: &str) {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if views.len() >= VIEWS_MAX {
            views.clear();
        }
        views.insert(slug.to_owned(), (head, text.to_owned()));
    }
}

/// What is not allowed in this state comes before what is wrong with the body.
pub(crate) fn event(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let shown = view(app, &slug)?;
    if shown.status != ViewStatus::WaitingInput {
        let word = json!(shown.status);
        let word = word.as_str().unwrap_or_default();
        let why = format!("the run is {word}; only a run that waits for input can be answered");
        return Err(Problem::conflict(why).in_state(word));
    }
    let RunEvent { event, choice, node_id } = call.read()?;
    app.on_record(call, "POST /runs/{id}/events", Some(&slug))?;
    let event = IntentEvent { kind: event, choice, node: node_id };
    asked(app, Request::IntentAnswer { run: slug, event, by: call.principal.name.clone() })
        .map_err(|problem| problem.in_state("waiting_input"))?;
    Ok(Reply::Json(StatusCode::ACCEPTED, json!({"accepted": true})))
}

pub(crate) fn retry(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let from = app.with_reader_and(|reader| {
        let (parent, _) = reader.load(&slug)?;
        let word = status_word(&parent);
        runner::retried_from(reader, &parent).map_err(|error| Problem::from(error).in_state(&word))
    })?;
    app.on_record(call, "POST /runs/{id}/retry", Some(&slug))?;
    let (follower, _) = app.hosting.start(&app.sender, Start::Retry { run: slug })?;
    let run = run::view::run_name(&follower.run().id);
    Ok(Reply::Json(StatusCode::ACCEPTED, json!({"accepted": true, "newRunId": run, "fromStep": from})))
}

pub(crate) fn cancel(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let (id, status, word) = app.with_reader(|reader| {
        let (run, _) = reader.load(&slug)?;
        Ok((run.id, run.status, status_word(&run)))
    })?;
    if status.is_terminal() {
        return Err(Problem::conflict(format!("the run is {word} already")).in_state(&word));
    }
    app.on_record(call, "POST /runs/{id}/cancel", Some(&slug))?;
    app.ask(Request::Cancel { run: slug })?;
    Ok(Reply::Json(StatusCode::ACCEPTED, json!({"accepted": true, "runId": run::view::run_name(&id)})))
}

fn status_word(run: &run::Run) -> String {
    let status: Status = run.status;
    json!(ViewStatus::from(status)).as_str().unwrap_or_default().to_owned()
}

/// Has the host do something; what is wrong with the body is told with its place.
fn asked(app: &App, request: Request) -> Outcome<(String, serde_json::Value)> {
    app.hosting.ask(request).map_err(|error| match error {
        Error::Edit(EditProblem::Invalid { pointer, message }) => Problem::at(&pointer, message),
        error => error.into(),
    })
}
