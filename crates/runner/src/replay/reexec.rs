//! Comparing a run with one that carried out its contract again. *Hard* is what the same contract on the same base must
//! give again: contract, verdicts of gates, files, patches, what tests came to. *Soft* is what may differ: times, words,
//! transcripts, ids. What a conflict with the user's branch led to is not compared: a run that lands nothing meets none, so that
//! what counts is what there was before.

use crate::{Error, Result};
use contract::documents::{Difference, ReexecReport, ReexecStatus};
use contract::pipeline::LineMoved;
use contract::{ChangeDropped, Event, EventLine, Fact, ItemEnded, PatchApplied, PipelineFact, StepCommitted};
use run::Run;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use store::{Reader, now};

/// What a run came to, each thing under a name that the other run has too.
#[derive(Default)]
struct Outcome {
    hard: BTreeMap<String, Value>,
    soft: BTreeMap<String, Value>,
    errors: Vec<String>,
}

/// Compares a run with another one that carried out its contract again.
pub fn compare(reader: &Reader, first: &str, again: &str) -> Result<ReexecReport> {
    let (old, mut new) = (outcome(reader, first)?, outcome(reader, again)?);
    if !old.hard.contains_key("patch") {
        new.hard.remove("patch");
    }
    let (hard, soft) = (differences(&old.hard, &new.hard), differences(&old.soft, &new.soft));
    let errors: Vec<String> = old.errors.into_iter().chain(new.errors).collect();
    let passed = hard.is_empty() && errors.is_empty();
    Ok(ReexecReport {
        run_id: first.to_owned(),
        status: if passed { ReexecStatus::Pass } else { ReexecStatus::Fail },
        reexec_ts: now(),
        hard_equal_pass: hard.is_empty(),
        soft_equal_pass: soft.is_empty(),
        hard_diffs: hard,
        soft_diffs: soft,
        errors,
    })
}

fn differences(old: &BTreeMap<String, Value>, new: &BTreeMap<String, Value>) -> Vec<Difference> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let difference = |key: &String| Difference {
        key: key.clone(),
        expected: old.get(key).cloned(),
        actual: new.get(key).cloned(),
        more: BTreeMap::new(),
    };
    differs.map(difference).collect()
}

fn outcome(reader: &Reader, slug: &str) -> Result<Outcome> {
    let (id, events, _) = reader.log(slug)?;
    let damaged = |why: String| store::Error::Damaged { log: slug.to_owned(), why };
    let run = Run::fold(id, &events).map_err(|why| damaged(why.to_string()))?;
    let mut told = Telling { dir: reader.layout().run(slug), run: &run, outcome: Outcome::default() };
    if !run.status.is_terminal() {
        told.outcome.errors.push(format!("run {slug} is {}, so there is nothing to compare", run.status));
    }
    told.hard("contract", run.started.contract_digest);
    told.hard("status", run.status);
    told.hard("reason", run.reason);
    let (before, conflict) = before_conflict(&events);
    match conflict {
        None => {
            told.hard("tree", run.tree());
            told.file("", "patch.diff");
        }
        Some(moved) => {
            told.hard("tree", moved.from.tree);
            told.soft("conflict", &moved.findings);
        }
    }
    for event in before {
        told.tell(&event.fact);
    }
    let (first, last) = (events[0].ts.unix_ms(), events[events.len() - 1].ts.unix_ms());
    told.soft("took_ms", last.saturating_sub(first));
    for line in reader.lines(slug, 0, 1)? {
        let line = EventLine::parse(line.as_bytes()).map_err(|why| damaged(format!("{why:?}")))?;
        told.soft("trace_id", line.trace_id);
    }
    Ok(told.outcome)
}

/// What happened before commits of the user's branch were in the way, and what they were in the way of.
fn before_conflict(events: &[Event]) -> (&[Event], Option<&LineMoved>) {
    let found = events.iter().enumerate().find_map(|(at, event)| match &event.fact {
        Fact::Pipeline(PipelineFact::LineMoved(moved)) => Some((at, &**moved)),
        _ => None,
    });
    found.map_or((events, None), |(at, moved)| (&events[..at], Some(moved)))
}

struct Telling<'t> {
    dir: PathBuf,
    run: &'t Run,
    outcome: Outcome,
}

impl Telling<'_> {
    fn hard(&mut self, key: &str, value: impl serde::Serialize) {
        self.outcome.hard.insert(key.to_owned(), json!(value));
    }

    fn soft(&mut self, key: &str, value: impl serde::Serialize) {
        self.outcome.soft.insert(key.to_owned(), json!(value));
    }

    fn tell(&mut self, fact: &Fact) {
        match fact {
            Fact::StepCommitted(done) => self.turn(done),
            Fact::Verdict(given) => self.hard(&format!("verdict/{}", given.step.iteration), given.verdict),
            Fact::PatchApplied(applied) => self.applied(applied),
            Fact::ChangeDropped(dropped) => self.dropped(dropped),
            Fact::ItemEnded(ended) => self.item(ended),
            _ => {}
        }
    }

    fn turn(&mut self, done: &StepCommitted) {
        let step = done.step;
        let key = match step.item {
            Some(place) => format!("item/{}/turn/{}", self.run.items()[place as usize].item.id, step.attempt),
            None => format!("turn/{}/{}/{}", step.iteration, step.role, step.attempt),
        };
        self.hard(&format!("{key}/end"), done.end);
        self.soft(&format!("{key}/summary"), &done.summary);
        let transcript = self.digest(&format!("{}/logs/stdout.txt", done.dir));
        self.soft(&format!("{key}/transcript"), transcript);
    }

    fn applied(&mut self, applied: &PatchApplied) {
        let key = format!("change/{:03}", applied.change);
        self.hard(&format!("{key}/gates"), "pass");
        self.hard(&format!("{key}/files"), &applied.files);
        self.file(&format!("{key}/"), &format!("changes/{:03}/patch.diff", applied.change));
    }

    fn dropped(&mut self, dropped: &ChangeDropped) {
        let key = format!("change/{:03}", dropped.change);
        self.hard(&format!("{key}/gates"), dropped.reason);
        self.file(&format!("{key}/"), &format!("changes/{:03}/patch.diff", dropped.change));
    }

    fn item(&mut self, ended: &ItemEnded) {
        let key = format!("item/{}", self.run.items()[ended.item as usize].item.id);
        let dir = format!("changes/{:03}", ended.change);
        self.hard(&format!("{key}/status"), ended.status);
        let gates = ended.gates.iter().map(|result| json!({"gate": result.gate, "passed": result.passed}));
        self.hard(&format!("{key}/gates"), gates.collect::<Vec<_>>());
        if ended.files != [0; 3] {
            self.file(&format!("{key}/"), &format!("{dir}/patch.diff"));
        }
        match self.gates(&dir) {
            Ok(gates) => {
                self.hard(&format!("{key}/files"), &gates["files"]);
                let commands = gates["tests"]["commands"].as_array().into_iter().flatten();
                let told = |it: &Value| json!({"name": it["name"], "tests": it["tests"], "status": it["status"]});
                self.hard(&format!("{key}/tests"), commands.map(told).collect::<Vec<_>>());
            }
            Err(error) => self.outcome.errors.push(error.to_string()),
        }
        self.soft(&format!("{key}/counts"), ended.tests);
        self.soft(&format!("{key}/message"), &ended.message);
        self.soft(&format!("{key}/receipt"), &ended.receipt.id);
        self.soft(&format!("{key}/took_ms"), ended.took_ms);
    }

    fn gates(&self, dir: &str) -> Result<Value> {
        let path = self.dir.join(dir).join("gates.json");
        let bytes = std::fs::read(&path).map_err(|source| Error::io("read", &path, source))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::io("read", &path, error.into()))
    }

    /// The bytes of a file must be the same again.
    fn file(&mut self, key: &str, path: &str) {
        let digest = self.digest(path);
        self.hard(&format!("{key}patch"), digest);
    }

    fn digest(&mut self, path: &str) -> Option<contract::Digest> {
        match std::fs::read(self.dir.join(path)) {
            Ok(bytes) => Some(contract::hash::sha256(&bytes)),
            Err(error) => {
                self.outcome.errors.push(format!("{path} of run {} cannot be read: {error}", self.run.id.slug()));
                None
            }
        }
    }
}
