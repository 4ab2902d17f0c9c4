//! What the routes answer, one file for each subject. Every function is blocking and has its own thread.

pub(crate) mod approvals;
pub(crate) mod contracts;
pub(crate) mod graph;
pub(crate) mod live;
pub(crate) mod meta;
pub(crate) mod runs;
pub(crate) mod sentence;
pub(crate) mod work;

use crate::App;
use crate::call::Reply;
use crate::problem::{Outcome, Problem};
use axum::http::StatusCode;
use contract::view::graph::RunGraph;
use contract::{RunId, id};
use serde_json::Value;

/// The run that a path names: by its UUID or its slug, whole. What is not listed is not there.
pub(crate) fn run_of(app: &App, given: &str) -> Outcome<String> {
    let is_id = id::is_slug(given) || RunId::parse(given).is_ok();
    let found = match is_id {
        true => app.with_reader(|reader| reader.listed_run(given))?,
        false => None,
    };
    found.ok_or_else(|| Problem::not_found("there is no such run"))
}

/// A run as a graph, spelled out.
pub(crate) fn snapshot(app: &App, slug: &str) -> Outcome<String> {
    let found = app.with_reader(|reader| reader.graph(slug))?;
    found.ok_or_else(|| Problem::not_found("there is no such run"))
}

/// The same, read.
pub(crate) fn shown(app: &App, slug: &str) -> Outcome<RunGraph> {
    serde_json::from_str(&snapshot(app, slug)?).map_err(|why| Problem::internal(&why))
}

/// `{run}`, with other members beside it.
pub(crate) fn with_run(app: &App, slug: &str, status: StatusCode, beside: Value) -> Outcome<Reply> {
    let graph = snapshot(app, slug)?;
    let mut text = beside.to_string();
    text.pop();
    let comma = if text.len() > 1 { "," } else { "" };
    Ok(Reply::Spelled(status, format!(r#"{text}{comma}"run":{graph}}}"#)))
}
