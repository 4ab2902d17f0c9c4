//! The server itself: logging in and out, whether it is there, numbers, and the document of all routes.

use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use crate::sessions::Opens;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// Whoever has the ticket was let in by it; it is used up. A run leads to its own page and nowhere else.
pub(crate) fn login(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let place = match call.query("run") {
        Some(given) => format!("/run/{}", super::run_of(app, given)?),
        None => "/".to_owned(),
    };
    let value = app.sessions.open(call.principal.clone());
    let secure = if app.is_tls { "; Secure" } else { "" };
    let cookie = format!("{}={value}; HttpOnly; SameSite=Strict; Path=/{secure}", app.sessions.cookie);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_str(&place).expect("BUG: a slug can be in a header"));
    let cookie = HeaderValue::from_str(&cookie).expect("BUG: hex can be in a header");
    headers.insert(header::SET_COOKIE, cookie);
    Ok(Reply::Other(response))
}

pub(crate) fn logout(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    app.sessions.close(&call.principal.session);
    Reply::ok(json!({"ok": true}))
}

pub(crate) fn login_ticket(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let ticket = app.sessions.issue(call.principal.clone(), Opens::Session);
    let login = format!("{}/login?ticket={ticket}", app.url);
    Reply::ok(json!({"ticket": ticket, "login": login}))
}

/// A ticket for one WebSocket; for one run, if the body names one.
pub(crate) fn ws_ticket(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let body: Value = match call.body.is_empty() {
        true => json!({}),
        false => contract::json::parse(&call.body, &contract::Limits::DOCUMENT)
            .map_err(|violations| Problem::violations("the body is refused", violations))?,
    };
    let Value::Object(members) = &body else { return Err(Problem::at("", "expected an object")) };
    if let Some(unknown) = members.keys().find(|key| *key != "runId") {
        return Err(Problem::at(&format!("/{unknown}"), "unknown member"));
    }
    let run = match members.get("runId") {
        None => None,
        Some(Value::String(given)) => Some(super::run_of(app, given)?),
        Some(_) => return Err(Problem::at("/runId", "expected a string")),
    };
    let run = run.map(|slug| slug.parse().expect("BUG: the store has slugs"));
    Reply::ok(json!({"ticket": app.sessions.issue(call.principal.clone(), Opens::Socket(run))}))
}

pub(crate) fn sessions(app: &Arc<App>, _: &Call) -> Outcome<Reply> {
    let shown = |(id, name, since)| json!({"id": id, "name": name, "since": since});
    let sessions: Vec<Value> = app.sessions.list().into_iter().map(shown).collect();
    Reply::ok(json!({ "sessions": sessions }))
}

pub(crate) fn healthz(_: &Arc<App>, _: &Call) -> Outcome<Reply> {
    Reply::ok(json!({"ok": true}))
}

pub(crate) fn metrics(app: &Arc<App>, _: &Call) -> Outcome<Reply> {
    let (states, waiting) = app.with_reader(|reader| Ok((reader.run_states()?, reader.approvals(true)?.len())))?;
    let text = app.metrics.text(&states, app.hosting.under_way().len(), waiting);
    Reply::text("text/plain; version=0.0.4; charset=utf-8", text)
}

pub(crate) fn openapi(app: &Arc<App>, _: &Call) -> Outcome<Reply> {
    Reply::text("application/json", app.openapi.clone())
}
