//! What the routes answer, one file for each subject. Every function is blocking and has its own thread.

pub(crate) mod approvals;
pub(crate) mod changes;
pub(crate) mod comments;
pub(crate) mod contracts;
pub(crate) mod graph;
pub(crate) mod intents;
pub(crate) mod layout;
pub(crate) mod live;
pub(crate) mod meta;
pub(crate) mod page;
pub(crate) mod runs;
pub(crate) mod sentence;
pub(crate) mod turns;
pub(crate) mod work;

use crate::App;
use crate::call::Reply;
use crate::problem::{Outcome, Problem};
use axum::http::StatusCode;
use contract::view::graph::RunGraph;
use contract::{RunId, id};
use serde_json::Value;

/// The run that a path names: by its UUID, its slug or `run_` and the digits of its UUID, whole. What is not listed is not there.
pub(crate) fn run_of(app: &App, given: &str) -> Outcome<String> {
    let id = match RunId::parse(given) {
        Ok(id) => Some(id.uuid()),
        Err(_) => id::is_slug(given).then(|| given.to_owned()),
    };
    let found = match id {
        Some(id) => app.with_reader(|reader| reader.listed_run(&id))?,
        None => None,
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

/// A command as one line that is read as exactly these words.
pub(crate) fn spelled(argv: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::spelled;

    #[test]
    fn words_are_spelled_so_that_they_are_read_as_they_are() {
        for argv in [vec!["cargo", "test"], vec!["echo", "a b", "", "$HOME"], vec!["sh", "-c", "it's; x"]] {
            let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
            assert_eq!(run::gate::command::split(&spelled(&argv)).unwrap(), argv);
        }
    }
}
