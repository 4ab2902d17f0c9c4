//! Watching line by line: what happens to every run, or to one, for pipes, logs and terminals that know no escapes.

use super::POLL;
use crate::command::events::readable;
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{out, safe};
use contract::Status;
use std::collections::BTreeMap;
use std::process::ExitCode;
use store::Reader;

/// How many lines are read at once.
const PAGE: u64 = 1000;
/// How many runs that have ended are looked at when it begins.
const ENDED_SHOWN: u64 = 5;

/// Prints what happens: to one run until it has ended, or to all of them for ever.
pub(super) fn watch(here: &Surroundings, reader: &Reader, only: Option<&str>) -> Outcome<ExitCode> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    if only.is_none() {
        seen = begin(here, reader)?;
    }
    loop {
        let runs = match only {
            Some(slug) => vec![slug.to_owned()],
            None => reader.unsealed()?.into_iter().chain(seen.keys().cloned()).collect(),
        };
        for slug in runs {
            // Before its lines: whatever is behind an end is printed.
            let ended = reader.run(&slug)?.is_none_or(|view| view.status.is_terminal());
            let after = seen.entry(slug.clone()).or_default();
            *after = tell(here, reader, &slug, *after, only.is_none())?;
            if ended {
                if only.is_some() {
                    return Ok(ExitCode::SUCCESS);
                }
                seen.remove(&slug);
            }
        }
        std::thread::sleep(POLL);
    }
}

/// Says how the newest runs are, and from where on they are told.
fn begin(here: &Surroundings, reader: &Reader) -> Outcome<BTreeMap<String, u64>> {
    let mut seen = BTreeMap::new();
    let runs = reader.runs(Some(ENDED_SHOWN))?;
    for view in runs.iter().rev().filter(|_| !here.json) {
        out(&format!("{}  {:<9}  {}", view.run_id, view.word(), safe(&view.goal)));
    }
    for view in runs.iter().filter(|view| matches!(view.status, Status::Running | Status::Waiting | Status::Paused)) {
        let (run, _) = reader.load(&view.run_id)?;
        seen.insert(view.run_id.to_string(), run.seq);
    }
    Ok(seen)
}

/// Prints what is new of a run; answers the last event of it.
fn tell(here: &Surroundings, reader: &Reader, slug: &str, mut after: u64, is_named: bool) -> Outcome<u64> {
    loop {
        let lines = reader.lines(slug, after, PAGE)?;
        if lines.is_empty() {
            return Ok(after);
        }
        after += lines.len() as u64;
        for line in lines {
            match (here.json, is_named) {
                (true, _) => out(&line),
                (false, true) => out(&format!("{slug}  {}", readable(&line))),
                (false, false) => out(&readable(&line)),
            }
        }
    }
}
