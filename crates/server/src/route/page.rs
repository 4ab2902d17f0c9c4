//! The web page: the files of `ui/dist`, built in, so that the program needs nothing beside it. Every address of the page
//! is answered with the same document, which reads its address itself; the files behind it have fixed names and are asked
//! for again only when the program is another.

use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use crate::ui::FILES;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use std::sync::Arc;

pub(crate) fn page(_: &Arc<App>, call: &Call) -> Outcome<Reply> {
    built_in(call, "index.html")
}

/// The ways to look at a run that the page has.
const VIEWS: [&str; 5] = ["graph", "list", "timeline", "review", "evidence"];

/// The page at a run: whether there is one of this name is for the page to ask, what cannot be a name is no address.
pub(crate) fn of_run(_: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let given = call.name(0);
    let is_name = contract::id::is_slug(given) || contract::RunId::parse(given).is_ok();
    let is_view = call.names.get(1).is_none_or(|view| VIEWS.contains(&view.as_str()));
    match is_name && is_view {
        true => built_in(call, "index.html"),
        false => Err(Problem::not_found("there is no such page")),
    }
}

pub(crate) fn icon(_: &Arc<App>, call: &Call) -> Outcome<Reply> {
    built_in(call, "icon.svg")
}

pub(crate) fn asset(_: &Arc<App>, call: &Call) -> Outcome<Reply> {
    built_in(call, &format!("a/{}", call.name(0)))
}

/// A file that is built in: it is the same until the program is another.
fn built_in(call: &Call, name: &str) -> Outcome<Reply> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (name, bytes) = found.ok_or_else(|| Problem::not_found("there is no such file"))?;
    let tag = format!("\"{}\"", &contract::hash::sha256(bytes).to_string()[..32]);
    let value = HeaderValue::from_str(&tag).expect("BUG: hex can be in a header");
    let headers = vec![(header::ETAG, value.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    if call.headers.get(header::IF_NONE_MATCH) == Some(&value) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().extend(headers);
        return Ok(Reply::Other(response));
    }
    Ok(Reply::Bytes { kind: kind(name), headers, bytes: (*bytes).into() })
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
