//! Verification: is this run what its log says? Every line is hashed again from the stored bytes, the state
//! machine is run over the facts, every file is compared with the digests that the chain carries, and the
//! state directory's own log must know the run with the same head, and so must the signature that sealed it.

use crate::damage::Chain;
use crate::directories::{Share, Which};
use crate::evidence::{
    Written, contrast, difference, evidence_digest, files_in, hashed, listed, read_bounded, read_manifest,
    what_is_wrong,
};
use crate::read::{AuditRow, EventRow as Row};
use crate::seal::run_seal;
use crate::{Damage, Error, Quarantine, Reader, Result};
use contract::bundle::SEAL;
use contract::documents::RunManifest;
use contract::documents::run_manifest::{EVIDENCE, RunStatus};
use contract::hash::digest;
use contract::{
    Audit, AuditLine, CONTRACT_FILE, Check, Digest, Domain, EventLine, Fact, Manifest, ManifestFile, Role, RunId,
    RunStarted, SUBMITTED_FILE, Slug, Statement, StepStatus, Timestamp,
};
use run::Run;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The roster of checks of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Which run.
    pub run_id: String,
    /// Whether all of them hold.
    pub verified: bool,
    /// How many events were read.
    pub events: u64,
    /// How many files were read.
    pub files: u64,
    /// The roster.
    pub checks: Vec<Check>,
}

/// Opens an envelope that this state directory's own key signed, or says what is wrong with it.
pub type Open<'a> = &'a dyn Fn(&[u8]) -> std::result::Result<Statement, String>;

/// What verifying every run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Roster {
    /// Whether every run that was not set aside is there and verifies.
    pub verified: bool,
    /// Each of them, oldest first.
    pub runs: Vec<Verification>,
    /// Those that the audit log names and that are not there.
    pub missing: Vec<Damage>,
    /// Those that a person set aside.
    pub quarantined: Vec<Quarantine>,
}

/// The state directory's own log, read once for all runs.
struct Audited {
    facts: Vec<(Audit, Timestamp)>,
    problems: Vec<String>,
}

/// Verifies one run. `Err` means that it could not be done; a problem is part of the answer.
pub fn verify(reader: &Reader, slug: &str, checkpoint: Option<(u64, Digest)>, open: Open<'_>) -> Result<Verification> {
    let (rows, audited, sealed) = {
        // Of one moment, or a run that is at work would contradict itself.
        let _snapshot = reader.snapshot()?;
        (reader.event_rows(slug)?, audited(reader, checkpoint)?, reader.is_sealed(slug)?)
    };
    verify_rows(reader, slug, (&rows, sealed), &audited, open)
}

/// Verifies every run but those that were set aside, and looks for the ones that are not there any more.
pub fn verify_all(reader: &Reader, checkpoint: Option<(u64, Digest)>, open: Open<'_>) -> Result<Roster> {
    let (missing, quarantined) = (reader.missing_runs()?, reader.quarantined_runs()?);
    let gone = |slug: &String| missing.iter().any(|it| it.run_id == *slug);
    let mut slugs: Vec<String> = reader.run_ids()?.into_iter().filter(|slug| !gone(slug)).collect();
    slugs.sort();
    let audited = audited(reader, checkpoint)?;
    let mut runs = Vec::new();
    for slug in slugs {
        let (rows, sealed) = (reader.event_rows(&slug)?, reader.is_sealed(&slug)?);
        let found = verify_rows(reader, &slug, (&rows, sealed), &audited, open)?;
        // Somebody may be at work on it: then the audit log of a moment ago does not fit.
        runs.push(if found.verified { found } else { verify(reader, &slug, checkpoint, open)? });
    }
    let verified = missing.is_empty() && runs.iter().all(|run| run.verified);
    Ok(Roster { verified, runs, missing, quarantined })
}

fn audited(reader: &Reader, checkpoint: Option<(u64, Digest)>) -> Result<Audited> {
    let (facts, problems) = check_audit_chain(&reader.audit_rows()?, checkpoint);
    Ok(Audited { facts, problems })
}

fn verify_rows(
    reader: &Reader,
    slug: &str,
    (rows, sealed): (&[Row], bool),
    Audited { facts: audit, problems }: &Audited,
    open: Open<'_>,
) -> Result<Verification> {
    if rows.is_empty() {
        return Err(Error::Damaged { log: slug.to_owned(), why: "there are no events".to_owned() });
    }
    let (facts, chain) = check_chain(slug, rows);
    let mut audited = problems.clone();
    check_known(slug, audit, rows, &mut audited);
    // The audit log says what is sealed; the column only saves looking there.
    let seal = audit.iter().rev().find_map(|(fact, _)| match fact {
        Audit::RunSealed { run_id, evidence } if run_id == slug => Some(*evidence),
        _ => None,
    });
    if seal.is_some() != sealed {
        audited.push("the index and the audit log disagree on whether the run is sealed".into());
    }
    let dir = reader.layout().run(slug);
    let (files, evidence, found) = check_evidence(reader, slug, &facts, seal)?;
    let approvals = run::approval_problems(&run_of(rows), &facts, audit);
    let checks = vec![
        chain,
        check_columns(rows),
        check_machine(reader, slug, rows)?,
        check_mirror(&dir, rows, seal.is_some()),
        evidence,
        check_seal(reader, slug, found.as_deref(), open)?,
        Check { name: "approvals", problems: approvals },
        Check { name: "audit log", problems: audited },
    ];
    let verified = checks.iter().all(|check| check.problems.is_empty());
    Ok(Verification { run_id: slug.to_owned(), verified, events: rows.len() as u64, files, checks })
}

fn check_chain(slug: &str, rows: &[Row]) -> (Vec<Fact>, Check) {
    let (mut problems, mut facts) = (Vec::new(), Vec::new());
    let mut chain = Chain::of(slug);
    for Row { seq, line, hash, .. } in rows {
        let (line, found) = chain.follow(*seq, line, hash);
        problems.extend(found);
        match line.map(|line| line.event()) {
            Some(Ok(event)) => facts.push(event.fact),
            Some(Err(why)) => problems.push(format!("event {seq}: carries no fact: {why}")),
            None => {}
        }
    }
    (facts, Check { name: "chain", problems })
}

/// The id of the run, as its first line has it.
fn run_of(rows: &[Row]) -> RunId {
    let first = rows.iter().find_map(|row| EventLine::parse(row.line.as_bytes()).ok());
    first.map_or_else(|| RunId::new(0, [0; 10]), |line| line.run_uuid)
}

fn check_columns(rows: &[Row]) -> Check {
    let mut problems = Vec::new();
    for row in rows {
        let Ok(line) = EventLine::parse(row.line.as_bytes()) else { continue };
        let spoken = line.kind == row.kind && line.event_type == row.kind && line.message == row.message;
        let spoken = spoken && line.ts.to_string() == row.ts;
        if !spoken || serde_json::from_str(&row.data).ok() != Some(line.payload) {
            problems.push(format!("event {}: the columns differ from the line", row.seq));
        }
    }
    Check { name: "columns", problems }
}

/// The facts fit the state machine, and the index tables show the state that they lead to.
fn check_machine(reader: &Reader, slug: &str, rows: &[Row]) -> Result<Check> {
    let lines: Vec<EventLine> = rows.iter().filter_map(|row| EventLine::parse(row.line.as_bytes()).ok()).collect();
    let events: Vec<_> = lines.iter().filter_map(|line| line.event().ok()).collect();
    let unknown = events.first().and_then(|first| match &first.fact {
        Fact::RunStarted(started) => started.contract.unknown_rules(),
        _ => None,
    });
    let problems = match Run::fold(run_of(rows), &events) {
        // By rules that are not known here nothing can be said about the facts.
        _ if unknown.is_some() => unknown.into_iter().collect(),
        Err(illegal) => vec![illegal.to_string()],
        Ok(run) => {
            let mut problems = index_problems(&run, reader.run(slug)?);
            problems.extend(earlier_problems(reader, &run));
            problems
        }
    };
    Ok(Check { name: "state machine", problems })
}

/// What stays done in a run that continues another one must be on record, exactly so, where it was done.
fn earlier_problems(reader: &Reader, run: &Run) -> Vec<String> {
    let mut runs: BTreeMap<Slug, Option<Run>> = BTreeMap::new();
    let mut problems = Vec::new();
    for (place, state) in run.items().iter().enumerate() {
        let Some(by) = state.done_by() else { continue };
        let there = runs.entry(by).or_insert_with(|| reader.load(&by).ok().map(|(run, _)| run));
        let original = there.as_ref().and_then(|there| there.items().get(place));
        let same = original.is_some_and(|it| it.item == state.item && it.ended_here() == state.ended());
        if !same {
            problems.push(format!("item {} was not done by run {by} as it says", state.item.id));
        }
    }
    problems
}

fn index_problems(run: &Run, view: Option<contract::RunView>) -> Vec<String> {
    let Some(view) = view else { return vec!["the run is not in the index; `norma reindex` rebuilds it".into()] };
    let shown = (view.status, view.reason, view.verdict, view.iteration, &view.base);
    let mut same = shown == (run.status, run.reason, run.verdict(), run.iteration(), &run.started.base.commit);
    same &= steps_on_record(run).into_iter().eq(view
        .steps
        .iter()
        .flatten()
        .map(|step| (step.index, step.role, step.status)));
    if same {
        Vec::new()
    } else {
        vec!["the index shows something else than the log; `norma reindex` rebuilds it".into()]
    }
}

/// Every step of which something is kept, in order.
fn steps_on_record(run: &Run) -> Vec<(u32, Role, StepStatus)> {
    let kept = run.steps().iter().filter(|record| record.dir.is_some());
    let mut steps: Vec<_> = kept.map(|record| (record.step.index, record.step.role, record.status)).collect();
    steps.sort_unstable_by_key(|(index, _, _)| *index);
    steps
}

fn check_mirror(dir: &Path, rows: &[Row], sealed: bool) -> Check {
    let mut expected = String::new();
    for row in rows {
        expected.push_str(&row.line);
        expected.push('\n');
    }
    let there = std::fs::read(dir.join("events.jsonl")).unwrap_or_default();
    let complete = if sealed { there == expected.as_bytes() } else { expected.as_bytes().starts_with(&there) };
    let problems = if complete { vec![] } else { vec!["events.jsonl differs from the log".to_owned()] };
    Check { name: "events.jsonl", problems }
}

/// How many files were read, what is wrong with them, and what those of a sealed run are.
fn check_evidence(
    reader: &Reader,
    slug: &str,
    facts: &[Fact],
    seal: Option<Digest>,
) -> Result<(u64, Check, Option<Vec<ManifestFile>>)> {
    let dir = &reader.layout().run(slug);
    let mut committed = Committed { reader, slug, dirs: None };
    let mut problems = Vec::new();
    let mut files = 0;
    for (sub, evidence) in facts.iter().filter_map(Fact::evidence) {
        let written = if seal.is_some() { Written::All } else { Written::of(&dir.join(&sub))? };
        let in_commit = match written {
            Written::All => None,
            _ => committed.files_of(&sub)?.filter(|files| evidence_digest(files.iter()) == evidence),
        };
        files += match in_commit {
            Some(found) => {
                for file in found.iter().filter(|file| !written.lacks(file)) {
                    let wrong = difference(&dir.join(&sub), file)?;
                    problems.extend(wrong.map(|what| format!("{sub}/{} {what}", file.path)));
                }
                found.len() as u64
            }
            None => check_dir(&dir.join(&sub), &sub, evidence, facts, &mut problems),
        };
    }
    for fact in facts {
        if let Fact::ReconciledStep { dir: sub, evidence, .. } = fact {
            files += check_reconciled(&dir.join(sub), sub, *evidence, &mut problems);
        }
    }
    let found = seal.map(|seal| check_run_dir(dir, seal, &mut problems));
    files += found.as_ref().map_or(0, |found| found.len() as u64);
    if let Some(Fact::RunStarted(started)) = facts.first() {
        let items = facts.iter().filter_map(|fact| match fact {
            Fact::ItemAdded(added) if added.addition.is_none() => Some(&added.item),
            _ => None,
        });
        for (name, bytes) in crate::recover::run_files(started, items) {
            if std::fs::read(dir.join(name)).ok().as_deref() != Some(&bytes[..]) {
                problems.push(format!("{name} differs from the contract of {slug}"));
            }
        }
        problems.extend(given_problem(dir, started, facts));
    }
    Ok((files, Check { name: "evidence", problems }, found))
}

/// The files of a run that has not ended whose bytes the commits have: its directories may be there alone.
struct Committed<'r> {
    reader: &'r Reader,
    slug: &'r str,
    dirs: Option<BTreeMap<String, Vec<ManifestFile>>>,
}

impl Committed<'_> {
    fn files_of(&mut self, dir: &str) -> Result<Option<&Vec<ManifestFile>>> {
        if self.dirs.is_none() {
            let mut dirs: BTreeMap<String, Vec<ManifestFile>> = BTreeMap::new();
            self.reader.small_files(self.slug, Which::Share(Share::WHOLE), &mut |dir, path, bytes| {
                dirs.entry(dir.to_owned()).or_default().push(listed(path, bytes));
                Ok(())
            })?;
            self.dirs = Some(dirs);
        }
        Ok(self.dirs.as_ref().and_then(|dirs| dirs.get(dir)))
    }
}

/// `contract.json` is the document that the items of a run were compiled from; where none was submitted, it is what norma
/// compiled.
fn given_problem(dir: &Path, started: &RunStarted, facts: &[Fact]) -> Option<String> {
    let compiled = started.contract.file();
    if compiled == CONTRACT_FILE {
        return None;
    }
    let given = std::fs::read(dir.join(CONTRACT_FILE)).unwrap_or_default();
    let digest = contract::hash::sha256(&given);
    let is_of = |fact: &Fact| matches!(fact, Fact::ItemAdded(added) if added.item.submitted == digest);
    let same = match std::fs::read(dir.join(SUBMITTED_FILE)) {
        Ok(submitted) => submitted == given && facts.iter().any(is_of),
        Err(_) => std::fs::read(dir.join(compiled)).is_ok_and(|compiled| compiled == given),
    };
    (!same).then(|| format!("{CONTRACT_FILE} is not what the run was asked for"))
}

fn check_dir(dir: &Path, shown: &str, evidence: Digest, facts: &[Fact], problems: &mut Vec<String>) -> u64 {
    let manifest = match read_manifest(dir) {
        Ok(manifest) => manifest,
        Err(error) => {
            problems.push(format!("{shown}/manifest.json: {error}"));
            return 0;
        }
    };
    if evidence_digest(manifest.files.iter()) != evidence {
        problems.push(format!("{shown}/manifest.json lists other files than the chain vouches for"));
    }
    if manifest.outcome.iter().any(|fact| !facts.contains(fact)) || manifest.dir != shown {
        problems.push(format!("{shown}/manifest.json tells another outcome than the log"));
    }
    check_listed(dir, &format!("{shown}/"), &manifest, problems)
}

/// A directory that was found without its record: nothing in it was vouched for, but it is still as it was found.
fn check_reconciled(dir: &Path, shown: &str, evidence: Digest, problems: &mut Vec<String>) -> u64 {
    let found = files_in(dir).unwrap_or_default();
    if ManifestFile::listing_digest(found.iter().map(|file| &file.listed)) != evidence {
        problems.push(format!("{shown} differs from what was found when it was recorded"));
    }
    found.len() as u64
}

/// A file is listed by its directory's manifest and by the run's; what is wrong with it is said once.
fn tell(problems: &mut Vec<String>, problem: String) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}

/// Every listed file is as recorded, and no other file is there.
fn check_listed(dir: &Path, shown: &str, manifest: &Manifest, problems: &mut Vec<String>) -> u64 {
    for file in &manifest.files {
        let wrong = difference(dir, file).unwrap_or_else(|error| Some(format!("cannot be read: {error}")));
        if let Some(what) = wrong {
            tell(problems, format!("{shown}{} {what}", file.path));
        }
    }
    check_added(dir, shown, manifest.files.iter().map(|file| file.path.as_str()), problems);
    manifest.files.len() as u64
}

/// Nothing is there that is not listed.
fn check_added<'a>(dir: &Path, shown: &str, listed: impl Iterator<Item = &'a str>, problems: &mut Vec<String>) {
    let listed: BTreeSet<&Path> = listed.map(Path::new).collect();
    let mut there = Vec::new();
    list_files(dir, Path::new(""), &mut there);
    for path in there {
        // The seal of a run vouches for its manifest, so it cannot be in it.
        let unlisted = path == Path::new("manifest.json") || (shown.is_empty() && path == Path::new(SEAL));
        if !listed.contains(path.as_path()) && !unlisted {
            tell(problems, format!("{shown}{} was added", path.display()));
        }
    }
}

/// A sealed run's manifest is the one that was sealed, and its directory holds exactly what that lists. Answers what the
/// listed files are.
fn check_run_dir(dir: &Path, evidence: Digest, problems: &mut Vec<String>) -> Vec<ManifestFile> {
    let bytes = read_bounded(&dir.join("manifest.json")).unwrap_or_default();
    if digest(Domain::Manifest, &bytes) != evidence {
        problems.push("manifest.json is not the one that was sealed".into());
    }
    let manifest: RunManifest = match serde_json::from_slice(&bytes) {
        Ok(manifest) => manifest,
        Err(error) => {
            problems.push(format!("manifest.json cannot be read: {error}"));
            return Vec::new();
        }
    };
    let lacks = |name: &&&str| manifest.status == RunStatus::Success && !manifest.evidence_hashes.contains_key(**name);
    problems.extend(EVIDENCE.iter().filter(lacks).map(|name| format!("{name} is missing, and the run succeeded")));
    let mut found = Vec::new();
    for listed in &manifest.artifacts {
        let now = hashed(dir, &listed.path);
        let wrong = match &now {
            Ok(now) => contrast(now, listed.size_bytes.unwrap_or_default(), &listed.sha256.0, None),
            Err(error) => Some(what_is_wrong(error)),
        };
        if let Some(what) = wrong {
            tell(problems, format!("{} {what}", listed.path));
        }
        found.extend(now);
    }
    check_added(dir, "", manifest.artifacts.iter().map(|listed| listed.path.as_str()), problems);
    found
}

/// The signature beside a sealed run is that of this manifest, these files and this log.
fn check_seal(reader: &Reader, slug: &str, found: Option<&[ManifestFile]>, open: Open<'_>) -> Result<Check> {
    let dir = reader.layout().run(slug);
    let read = || read_bounded(&dir.join(SEAL)).map_err(|e| e.to_string()).and_then(|bytes| open(&bytes));
    let problems = match found.map(|found| (found, read())) {
        None => Vec::new(),
        Some((_, Err(why))) => vec![why],
        Some((found, Ok(said))) => {
            let manifest = read_bounded(&dir.join("manifest.json")).unwrap_or_default();
            run_seal(reader, slug, found.iter())?.contradictions(&said, &manifest)
        }
    };
    Ok(Check { name: "seal", problems: problems.into_iter().map(|what| format!("{SEAL} {what}")).collect() })
}

fn list_files(root: &Path, below: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list_files(root, &path, into);
        } else {
            into.push(path);
        }
    }
}

/// The state directory's log is a chain of its own, and at least as long as the checkpoint that was kept
/// elsewhere. Answers its facts, as far as the chain holds.
fn check_audit_chain(rows: &[AuditRow], checkpoint: Option<(u64, Digest)>) -> (Vec<(Audit, Timestamp)>, Vec<String>) {
    let mut problems = Vec::new();
    let mut facts = Vec::new();
    let mut prev = crate::log::audit_start();
    let mut checkpoint_seen = checkpoint.is_none();
    for (seq, row) in (1u64..).zip(rows) {
        prev = contract::hash::chain(seq, &prev, row.line.as_bytes());
        if prev.to_string() != row.hash || row.seq != seq as i64 {
            problems.push(format!("audit line {seq} differs from its hash"));
            break;
        }
        match audit_fact(row) {
            Ok(fact) => facts.push(fact),
            Err(why) => problems.push(format!("audit line {seq}: {why}")),
        }
        checkpoint_seen |= checkpoint == Some((seq, prev));
    }
    if let Some((seq, _)) = checkpoint.filter(|_| !checkpoint_seen) {
        problems.push(format!(
            "the state directory is older than its last checkpoint (audit line {seq}), or was rewritten"
        ));
    }
    (facts, problems)
}

/// The fact of a line whose bytes the chain vouches for; the columns, which the index is rebuilt from, must say
/// the same.
fn audit_fact(row: &AuditRow) -> std::result::Result<(Audit, Timestamp), String> {
    let line: AuditLine = serde_json::from_str(&row.line).map_err(|error| format!("cannot be read: {error}"))?;
    let same = line.kind == row.kind && line.ts.to_string() == row.ts;
    if !same || serde_json::from_str(&row.data).ok().as_ref() != Some(&line.payload) {
        return Err("the columns differ from the line".into());
    }
    let fact = Audit::from_parts(&line.kind, line.payload).map_err(|why| format!("carries no fact: {why}"))?;
    Ok((fact, line.ts))
}

/// The audit log knows this run's states, with heads that are in the run's own chain.
fn check_known(slug: &str, audit: &[(Audit, Timestamp)], rows: &[Row], problems: &mut Vec<String>) {
    let mut known = false;
    for (fact, _) in audit {
        if let Audit::RunQuarantined { run_id, reason, by, .. } = fact
            && run_id == slug
        {
            problems.push(format!("the run is damaged and was set aside by {by}: {reason}"));
        }
        let Audit::RunState { run_id, seq, head, .. } = fact else { continue };
        if run_id != slug {
            continue;
        }
        known = true;
        let row = seq.checked_sub(1).and_then(|at| rows.get(at as usize));
        if row.is_none_or(|row| row.hash != head.to_string()) {
            problems.push(format!("the audit log has another event {seq} of this run"));
        }
    }
    if !known {
        problems.push("the audit log does not know this run".into());
    }
}
