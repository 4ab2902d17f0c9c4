//! Damage: the log of a run does not fit its own chain, its state machine, or what the audit log says of it. Nothing
//! can be told of such a run any more and nothing is appended to it, but it keeps no other run from going on: whoever
//! goes over all runs leaves it out, and a person can set it aside for good ([`Store::quarantine_run`]). Its lines stay
//! in the log, its directory is moved to `quarantine/`, and the audit log says who did it and why.

use crate::recover::move_aside;
use crate::{Error, Layout, Reader, Result, RunLog, Store};
use contract::{Audit, AuditLine, Digest, Event, EventLine, RunId};
use run::Run;
use serde::Serialize;
use std::path::PathBuf;

/// What is wrong with a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Slug.
    pub run_id: String,
    /// The first problem; `verify` names all of them.
    pub why: String,
}

/// A run that a person set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantine {
    /// Slug.
    pub run_id: String,
    /// What was wrong with it.
    pub problem: String,
    /// Where its directory is, below the state directory; none if there was none.
    pub to: Option<String>,
    /// Why, in the person's words.
    pub reason: String,
    /// Who set it aside.
    pub by: String,
}

/// A run's chain, followed line by line.
pub(crate) struct Chain<'a> {
    slug: &'a str,
    seq: u64,
    prev: Option<Digest>,
}

impl Chain<'_> {
    pub(crate) fn of(slug: &str) -> Chain<'_> {
        Chain::after(slug, 0, None)
    }

    /// The same from after a line on, by its place and its hash.
    pub(crate) fn after(slug: &str, seq: u64, hash: Option<Digest>) -> Chain<'_> {
        Chain { slug, seq, prev: hash }
    }

    /// The hash of the last line that was followed.
    pub(crate) fn end(&self) -> Option<Digest> {
        self.prev
    }

    /// The next line as a row has it, if it can be read, and what is wrong with it.
    pub(crate) fn follow(&mut self, seq: i64, text: &str, hash: &str) -> (Option<EventLine>, Vec<String>) {
        self.seq += 1;
        let line = match EventLine::parse(text.as_bytes()) {
            Ok(line) => line,
            Err(violations) => {
                let first = violations.first().map(ToString::to_string).unwrap_or_default();
                return (None, vec![format!("event {seq}: cannot be read: {first}")]);
            }
        };
        let mut problems = Vec::new();
        let mut bad = |what: &str| problems.push(format!("event {seq}: {what}"));
        if line.seq != self.seq || seq != self.seq as i64 || line.run_id != self.slug {
            bad("is out of its place");
        }
        let before = self.prev.unwrap_or_else(|| line.chain_start());
        if line.prev != before {
            bad("does not follow the line before");
        }
        let found = contract::hash::chain(line.seq, &before, text.as_bytes());
        if found.to_string() != hash {
            bad("differs from its hash");
        }
        self.prev = Some(found);
        (Some(line), problems)
    }

    /// The same with the fact that the line carries, which is taken out of it; an error if anything is wrong with it.
    pub(crate) fn fact(&mut self, seq: i64, text: &str, hash: &str) -> Result<(EventLine, Event)> {
        let damaged = |why: String| Error::Damaged { log: self.slug.to_owned(), why };
        let (line, problems) = self.follow(seq, text, hash);
        let mut line = line.filter(|_| problems.is_empty()).ok_or_else(|| damaged(problems.join("; ")))?;
        let event = line.take_event().map_err(|why| damaged(format!("event {seq}: carries no fact: {why}")))?;
        Ok((line, event))
    }
}

/// A run after its next fact.
pub(crate) fn advanced(slug: &str, id: RunId, run: Option<Run>, event: &Event) -> Result<Run> {
    let next = match run {
        None => Run::start(id, event),
        Some(mut run) => run.advance(event).map(|()| run),
    };
    next.map_err(|illegal| Error::Damaged { log: slug.to_owned(), why: illegal.to_string() })
}

impl Reader {
    /// A run as its log tells it, and the log's end; an error if the log is damaged.
    pub fn load(&self, slug: &str) -> Result<(Run, RunLog)> {
        // Events and audit lines of one moment, or a run that is at work would contradict itself.
        let _snapshot = self.snapshot()?;
        let damaged = |why: String| Error::Damaged { log: slug.to_owned(), why };
        let mut folded: Option<Run> = None;
        let log = self.follow_log(slug, |id, event| {
            folded = Some(advanced(slug, id, folded.take(), &event)?);
            Ok(())
        })?;
        let run = folded.ok_or_else(|| damaged("there are no events".into()))?;
        match self.contradicted(slug)? {
            None => Ok((run, log)),
            Some(why) => Err(damaged(why)),
        }
    }

    /// What is wrong with the log of a run, if anything is.
    pub fn damage(&self, slug: &str) -> Result<Option<Damage>> {
        match self.load(slug) {
            Ok(_) => Ok(None),
            Err(Error::Damaged { why, .. }) => Ok(Some(Damage { run_id: slug.to_owned(), why })),
            Err(error) => Err(error),
        }
    }

    /// The damaged ones among the runs that are not sealed, oldest first.
    pub fn damaged_runs(&self) -> Result<Vec<Damage>> {
        let found = self.unsealed()?.into_iter().map(|slug| self.damage(&slug));
        found.filter_map(Result::transpose).collect()
    }

    /// Every run that is not sealed and not damaged, oldest first.
    pub fn open_runs(&self) -> Result<Vec<(Run, RunLog)>> {
        let mut sound = Vec::new();
        for slug in self.unsealed()? {
            match self.load(&slug) {
                Ok(loaded) => sound.push(loaded),
                Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sound)
    }

    /// Runs that the audit log knows and that are not there: in the database, or on disk. Those that were set aside are
    /// not missed.
    pub fn missing_runs(&self) -> Result<Vec<Damage>> {
        let aside: Vec<String> = self.quarantined_runs()?.into_iter().map(|aside| aside.run_id).collect();
        let mut missing = Vec::new();
        for run_id in self.runs_in_audit()? {
            let why = if aside.contains(&run_id) {
                continue;
            } else if self.lines(&run_id, 0, 1)?.is_empty() {
                "the audit log knows it, and it has no log"
            } else if !self.layout().run(&run_id).is_dir() {
                "it is on record, and its directory is gone"
            } else {
                continue;
            };
            missing.push(Damage { run_id, why: why.to_owned() });
        }
        Ok(missing)
    }

    /// The runs that were set aside, in that order.
    pub fn quarantined_runs(&self) -> Result<Vec<Quarantine>> {
        let lines = self.audit_lines_of("run_quarantined")?;
        Ok(lines.iter().filter_map(|line| quarantine(line)).collect())
    }

    /// Where the audit log and a run's log contradict each other. Looked at from the end: the lines about a run that is
    /// at work are among the last ones.
    pub fn contradicted(&self, slug: &str) -> Result<Option<String>> {
        let mut statement =
            self.db.prepare_cached("SELECT line FROM audit WHERE type = 'run_state' ORDER BY seq DESC")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            let Some((seq, head)) = state_of(slug, &line) else { continue };
            if self.hash_of(slug, seq)? != Some(head) {
                return Ok(Some(format!("the audit log has another event {seq} of this run")));
            }
            if seq == 1 {
                return Ok(None);
            }
        }
        Ok(Some("the audit log does not know this run".to_owned()))
    }
}

/// The place and the hash in a run's log that a line of the audit log speaks of, if it is about this run.
fn state_of(slug: &str, line: &str) -> Option<(u64, Digest)> {
    // Most lines are about other runs, and parsing takes longer than looking.
    if !line.contains(slug) {
        return None;
    }
    match fact(line)? {
        Audit::RunState { run_id, seq, head, .. } if run_id == slug => Some((seq, head)),
        _ => None,
    }
}

fn fact(line: &str) -> Option<Audit> {
    let line: AuditLine = serde_json::from_str(line).ok()?;
    Audit::from_parts(&line.kind, line.payload).ok()
}

fn quarantine(line: &str) -> Option<Quarantine> {
    match fact(line)? {
        Audit::RunQuarantined { run_id, problem, to, reason, by } => {
            Some(Quarantine { run_id: run_id.to_string(), problem, to, reason, by })
        }
        _ => None,
    }
}

impl Store {
    /// Sets a damaged run aside: on record first, then its directory is moved. Recovery completes what a crash cut
    /// off.
    pub fn quarantine_run(&self, damage: Damage, reason: String, by: String) -> Result<Quarantine> {
        let Damage { run_id, why: problem } = damage;
        let there = self.layout.run(&run_id).is_dir();
        let to = there.then(|| format!("quarantine/{}-{run_id}", crate::new_run_id().slug()));
        let slug = run_id.parse()?;
        let aside = Quarantine { run_id, problem, to, reason, by };
        let Quarantine { problem, to, reason, by, .. } = aside.clone();
        self.audit(Audit::RunQuarantined { run_id: slug, problem, to, reason, by }).wait()?;
        complete(&self.layout, &aside)?;
        Ok(aside)
    }
}

/// Moves the directory of a run that is on record as set aside, if that was not done yet. Answers whether it was now.
pub(crate) fn complete(layout: &Layout, aside: &Quarantine) -> Result<bool> {
    let from = layout.run(&aside.run_id);
    let to: Option<PathBuf> = aside.to.as_ref().map(|to| layout.state.join(to));
    match to.filter(|_| from.is_dir()) {
        Some(to) => move_aside(layout, &from, &to).map(|()| true),
        None => Ok(false),
    }
}
