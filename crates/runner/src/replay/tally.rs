//! Counting what was compared, and naming what is not the same.

use crate::git::GitError;
use crate::{Error, Result};
use contract::replay::{ReplayCheck, ReplayDifference};
use contract::work::GateResult;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use store::Verification;

/// How many differences of one kind are told; the rest is counted.
const DIFFERENCES_MAX: usize = 100;

/// How much of a value is shown.
const SHOWN_CHARS_MAX: usize = 120;

/// Something that is not as it was recorded: the gate that it is about, and what.
pub(super) type Found = (Option<String>, String);

pub(super) fn found(gate: Option<&str>, what: impl Into<String>) -> Found {
    (gate.map(str::to_owned), what.into())
}

pub(super) fn difference(seq: Option<u64>, gate: Option<String>, what: String) -> ReplayDifference {
    ReplayDifference { seq, gate, what: run::bounded(vec![what]).remove(0) }
}

/// One kind of thing that is compared.
#[derive(Default)]
pub(super) struct Tally {
    compared: u64,
    differences: Vec<ReplayDifference>,
    notes: Vec<String>,
}

impl Tally {
    /// Counts one thing that was compared. Evidence that is gone is a difference like any other; any other error is
    /// norma's own.
    pub(super) fn compare(&mut self, seq: Option<u64>, found: Result<Vec<Found>>) -> Result<()> {
        let found = match found {
            Err(error) if is_about_evidence(&error) => vec![(None, gone(&error))],
            found => found?,
        };
        self.add(found.into_iter().map(|(gate, what)| difference(seq, gate, what)).collect());
        Ok(())
    }

    pub(super) fn add(&mut self, differences: Vec<ReplayDifference>) {
        self.compared += 1;
        self.differences.extend(differences);
    }

    /// Notes what could not be compared, though nothing speaks against it.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Whether there was anything to look at.
    pub(super) fn is_empty(&self) -> bool {
        self.compared == 0 && self.notes.is_empty()
    }

    pub(super) fn check(mut self, name: &str) -> ReplayCheck {
        let more = self.differences.len().saturating_sub(DIFFERENCES_MAX);
        self.differences.truncate(DIFFERENCES_MAX);
        if more > 0 {
            self.differences.push(difference(None, None, format!("and {more} more")));
        }
        let notes = run::bounded(self.notes);
        ReplayCheck { name: name.to_owned(), compared: self.compared, differences: self.differences, notes }
    }
}

/// Whether an error says that something the record speaks of is gone or different, rather than that norma cannot work.
fn is_about_evidence(error: &Error) -> bool {
    match error {
        Error::Store(store::Error::Damaged { .. }) => true,
        Error::Git(GitError::MissingObject { .. } | GitError::BadObject { .. }) => true,
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn gone(error: &Error) -> String {
    let why = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
    format!("what it was judged on is gone or cannot be read: {error}{why}")
}

/// The checks of a verification, in the words of a replay.
pub(super) fn of_record(record: &Verification) -> Vec<ReplayCheck> {
    let compared = |name: &str| match name {
        "evidence" => record.files,
        "chain" | "columns" | "state machine" | "events.jsonl" => record.events,
        _ => 1,
    };
    let told = |problem: &String| difference(None, None, problem.clone());
    let checks = record.checks.iter().map(|check| {
        let mut tally = Tally { compared: compared(check.name), ..Tally::default() };
        tally.differences.extend(check.problems.iter().map(told));
        tally.check(check.name)
    });
    checks.collect()
}

/// The fields that two documents of one kind do not have in common, in words.
pub(super) fn fields<T: Serialize>(recorded: &T, now: &T, but: &[&str]) -> Vec<String> {
    let object = |it: &T| match serde_json::to_value(it) {
        Ok(Value::Object(map)) => map,
        _ => unreachable!("BUG: what is compared is an object"),
    };
    let (recorded, now) = (object(recorded), object(now));
    let names: BTreeSet<&String> = recorded.keys().chain(now.keys()).collect();
    let differs =
        names.into_iter().filter(|name| !but.contains(&name.as_str()) && recorded.get(*name) != now.get(*name));
    differs
        .map(|name| format!("{name} is {} on record and {} now", text(recorded.get(name)), text(now.get(name))))
        .collect()
}

fn text(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The gates that say something else now.
pub(super) fn gates(
    recorded: &[GateResult],
    now: &[GateResult],
    same: impl Fn(&GateResult, &GateResult) -> bool,
) -> Vec<Found> {
    let said = |result: Option<&GateResult>| match result {
        None => "was not asked".to_owned(),
        Some(result) if result.passed => "passed".to_owned(),
        Some(result) => format!("refused it ({})", result.findings.join("; ")),
    };
    let all: BTreeSet<_> = recorded.iter().chain(now).map(|result| result.gate).collect();
    let of = |results: &'_ [GateResult], gate| results.iter().find(|result| result.gate == gate).cloned();
    let differs = |gate| {
        let (old, new) = (of(recorded, gate), of(now, gate));
        let agree = matches!((&old, &new), (Some(old), Some(new)) if same(old, new));
        let what = || format!("on record it {}, now it {}", said(old.as_ref()), said(new.as_ref()));
        (!agree).then(|| (Some(gate.to_string()), what()))
    };
    all.into_iter().filter_map(differs).collect()
}
