//! Turns, judged again by what is kept of them.

use super::Walk;
use super::tally::{Found, fields, found};
use crate::Result;
use crate::turn::{Kept, VERDICT_BYTES_MAX, worth};
use contract::json::pretty;
use contract::{Fact, StepCommitted, StepRef};
use run::turn::Judgement;
use std::fs::File;
use std::io::Read;

/// Files of a step that norma writes after it has judged.
const WRITTEN_LATER: [&str; 2] = ["output.json", "workspace.json"];

/// What came of a conversation.
const OUTCOME: &str = "session/outcome.json";

pub(super) fn differences(walk: &Walk<'_, '_>, at: usize, done: &StepCommitted) -> Result<Vec<Found>> {
    let judged = judge(walk, done)?;
    let now = StepCommitted {
        status: judged.status,
        end: judged.end,
        reason: judged.reason,
        summary: judged.summary.clone(),
        patch: judged.patch,
        ..done.clone()
    };
    let dir = &done.dir;
    let mut all: Vec<Found> =
        fields(done, &now, &[]).into_iter().map(|what| found(Some("output"), format!("{dir}: {what}"))).collect();
    if !run::bounded_begins_with(&done.notes, &judged.notes) {
        all.push(found(Some("output"), format!("{dir}: it would be noted now: {}", judged.notes.join("; "))));
    }
    if walk.read(&format!("{dir}/output.json"))? != pretty(&judged.response) {
        all.push(found(Some("output"), format!("{dir}/output.json is not what follows from what was printed")));
    }
    let recorded: Vec<&Fact> =
        walk.events[at + 1..].iter().map(|event| &event.fact).take_while(|fact| said_of(fact, done.step)).collect();
    if recorded.iter().copied().ne(judged.facts.iter()) {
        let gate = if judged.facts.iter().chain(recorded).any(|fact| matches!(fact, Fact::Verdict(_))) {
            "verdict"
        } else {
            "output"
        };
        let told: Vec<String> = judged.facts.iter().map(Fact::message).collect();
        let told = if told.is_empty() { "nothing".to_owned() } else { told.join("; ") };
        all.push(found(Some(gate), format!("{dir}: the record says something else of it than follows now: {told}")));
    }
    Ok(all)
}

fn judge(walk: &Walk<'_, '_>, done: &StepCommitted) -> Result<Judgement> {
    let (reader, slug) = (walk.with.reader, walk.run.id.slug());
    let stdout = walk.read(&format!("{}/logs/stdout.txt", done.dir))?;
    // What was cut has a mark behind everything that was kept.
    let bytes_max = u64::from(walk.run.started.contract.limits.output_mb) << 20;
    let mut names = reader.file_names(&slug, &done.dir)?;
    names.retain(|name| !WRITTEN_LATER.contains(&name.as_str()));
    let mut verdict = None;
    if let Ok(file) = File::open(walk.dir.join(&done.dir).join("verdict.json")) {
        let mut bytes = Vec::new();
        let path = walk.dir.join(&done.dir);
        file.take(VERDICT_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|source| crate::Error::io("read a verdict in", &path, source))?;
        verdict = Some(bytes);
    }
    let stdout_truncated = stdout.len() as u64 > bytes_max;
    let outcome = match names.iter().any(|name| name == OUTCOME) {
        true => serde_json::from_slice(&walk.read(&format!("{}/{OUTCOME}", done.dir))?).ok(),
        false => None,
    };
    let (session, notes) = (outcome.as_ref(), Vec::new());
    let kept = Kept { names, process: &done.process, stdout: &stdout, stdout_truncated, verdict, session, notes };
    worth(reader, &walk.run, done.step, kept)
}

/// Whether a fact is what was said of a turn when it was recorded.
fn said_of(fact: &Fact, turn: StepRef) -> bool {
    match fact {
        Fact::ProtocolError { step, .. } | Fact::OutputSchemaEnforced { step, .. } => *step == turn,
        Fact::Verdict(given) => given.step == turn,
        _ => false,
    }
}
