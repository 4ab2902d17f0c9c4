//! Looking at runs: the list, one of them, its files, and whether its record holds.

use super::live::SEQ_MAX;
use super::{run_of, with_run};
use crate::App;
use crate::call::{Call, Reply};
use crate::channel::{self, Pieces};
use crate::problem::{Outcome, Problem};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64ct::{Base64, Encoding};
use contract::view::graph::Artifact;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

/// How many runs a page has.
const PAGE: u64 = 100;
/// How much of a file is shown.
const CONTENT_BYTES_MAX: usize = 1 << 20;

pub(crate) fn list(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let limit = call.number("limit", 1..=PAGE)?.unwrap_or(PAGE);
    let cursor = call.query("cursor");
    // The run that a page ended with may be off the list by now.
    let is_known = |given: &str| match contract::id::is_slug(given) {
        true => app.with_reader(|reader| Ok(reader.run(given)?.is_some())),
        false => Ok(false),
    };
    if cursor.map(is_known).transpose()? == Some(false) {
        return Err(Problem::invalid("cursor must be `next` of the page before"));
    }
    let page = app.with_reader(|reader| reader.graphs(cursor, limit as u32))?;
    let next = serde_json::to_string(&page.next).expect("BUG: a slug is plain data");
    Ok(Reply::Spelled(StatusCode::OK, format!(r#"{{"runs":[{}],"next":{next}}}"#, page.runs.join(","))))
}

pub(crate) fn show(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    if let Some(seq) = call.number("at", 1..=SEQ_MAX)? {
        return as_it_was(app, &slug, seq);
    }
    match call.query("view") {
        None | Some("graph") => with_run(app, &slug, StatusCode::OK, json!({})),
        Some("norma") => {
            let view = app.with_reader(|reader| reader.run(&slug))?;
            let mut view = view.ok_or_else(|| Problem::not_found("there is no such run"))?;
            view.damaged = app.damage(&slug)?;
            Reply::ok(serde_json::to_value(view).expect("BUG: a view is plain data"))
        }
        Some(_) => Err(Problem::invalid("view must be graph or norma")),
    }
}

/// The run as it was after a fact of its log: the same projection, over a log that ends there.
fn as_it_was(app: &Arc<App>, slug: &str, seq: u64) -> Outcome<Reply> {
    let followed = app.followed(slug, seq)?;
    let last = followed.seq();
    if seq > last {
        return Err(Problem::invalid(format!("at must be a number from 1 to {last}, the last fact of the run's log")));
    }
    let run = followed.past().graph().ok_or_else(|| Problem::not_found("there is no such run"))?;
    Reply::ok(json!({ "run": run }))
}

pub(crate) fn artifact(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, is_download) = (run_of(app, call.name(0))?, call.flag("download")?);
    let missing = || Problem::not_found("there is no such artifact");
    let artifact = app.with_reader(|reader| reader.graph_artifact(&slug, call.name(1)))?.ok_or_else(missing)?;
    let bytes = if artifact.empty { Some(Vec::new()) } else { evidence(app, &slug, &artifact)? };
    let bytes = bytes.ok_or_else(missing)?;
    if is_download {
        return Ok(download(&artifact, bytes));
    }
    let is_cut = bytes.len() > CONTENT_BYTES_MAX;
    let shown = &bytes[..bytes.len().min(CONTENT_BYTES_MAX)];
    let content = match std::str::from_utf8(shown) {
        Ok(text) => json!({"artifact": artifact, "content": text}),
        // Cut in the middle of a character is text all the same.
        Err(error) if is_cut && error.error_len().is_none() => {
            json!({"artifact": artifact, "content": String::from_utf8_lossy(&shown[..error.valid_up_to()])})
        }
        Err(_) => json!({"artifact": artifact, "content": Base64::encode_string(shown), "encoding": "base64"}),
    };
    let mut content = content;
    if is_cut {
        content["truncated"] = Value::Bool(true);
    }
    Reply::ok(content)
}

/// The bytes of an artifact, as they are on record: of the run's evidence and of nothing else, whatever its path says.
fn evidence(app: &Arc<App>, slug: &str, artifact: &Artifact) -> Outcome<Option<Vec<u8>>> {
    let run_dir = app.layout.run(slug);
    let below = std::path::Path::new(&artifact.path).strip_prefix(&run_dir).ok().and_then(|path| path.to_str());
    let Some((first, rest)) = below.and_then(|path| path.split_once('/')) else { return Ok(None) };
    let Some((second, name)) = rest.split_once('/') else { return Ok(None) };
    app.with_reader(|reader| reader.evidence(slug, &format!("{first}/{second}"), name))
}

fn download(artifact: &Artifact, bytes: Vec<u8>) -> Reply {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = artifact.name.chars().map(plain).collect();
    let kept = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let headers = vec![
        (header::CONTENT_DISPOSITION, kept.expect("BUG: the name has plain characters")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    ];
    Reply::Bytes { kind: "application/octet-stream", headers, bytes: bytes.into() }
}

pub(crate) fn verify(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let trust = &app.hosting.context().trust;
    let found = app.with_reader_and(|reader| Ok(runner::verify_run(reader, trust, &slug)?))?;
    Reply::ok(serde_json::to_value(found).expect("BUG: a verification is plain data"))
}

/// A sealed run as one file. It is written while it is sent; whatever fails on the way cuts it off.
pub(crate) fn bundle(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    if !app.with_reader(|reader| reader.is_sealed(&slug))? {
        return Err(Problem::conflict("the run has not ended, so there is no bundle of it yet"));
    }
    let (sender, body) = channel::body();
    let (app, name) = (app.clone(), format!("attachment; filename=\"{slug}.tar\""));
    std::thread::spawn(move || {
        let mut pieces = Pieces::new(sender);
        let context = app.hosting.context();
        let written = app.with_reader_and(|reader| {
            runner::export(reader, &context.trust, &context.user, &slug, &mut pieces)?;
            pieces.flush().map_err(|why| Problem::internal(&why))
        });
        if written.is_err() {
            pieces.fail("the bundle could not be written");
        }
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).expect("BUG: a slug is plain"));
    Ok(Reply::Other(response))
}
