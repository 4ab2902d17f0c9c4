//! Recovery: what the owner of the lock does before anything else. It looks only at runs that are not sealed,
//! completes or drops what a crash cut off, restores small files from the commit that holds them, and never
//! heals silently: what cannot be explained freezes the run or is moved aside. Done twice, it writes nothing
//! the second time.

use crate::evidence::{Written, difference, evidence_digest, files_in, quick_difference, read_manifest};
use crate::evidence::{remove_tree, temporary_name, write_out};
use crate::log::now;
use crate::seal::{write_via, write_whole};
use crate::{Damage, Error, IoContext, Layout, PathLocks, Reader, Result, RunLog, Sign, StepFile, Store, damage, kept};
use contract::pipeline::CONFLICT_DIR;
use contract::{
    Audit, CONTRACT_FILE, End, Event, Fact, Manifest, ManifestFile, Reason, SUBMITTED_FILE, Status, StepRef,
};
use run::Run;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How many lost files one event names: its line has a limit, and even the longest paths must fit.
const FINDINGS_MAX: usize = 20;

/// Why a run is paused that recovery found under way.
pub(crate) const OWNER_DIED: &str = "the process that worked on this run ended before it";

/// Why a run is paused that a server left when it ended; whoever serves next continues it, too.
pub const SERVER_ENDED: &str = "the server ended; the next one continues it";

/// What recovery found and did, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// One sentence each.
    pub notes: Vec<String>,
    /// Runs that were under way when their process ended.
    pub interrupted: Vec<String>,
    /// Runs that were left as they are, since their log cannot be relied on.
    pub damaged: Vec<Damage>,
}

/// Brings the state directory into a state that could have been left on purpose.
pub fn recover(store: &Store, sign: Sign<'_>) -> Result<Recovery> {
    let reader = Reader::open(&store.layout)?;
    let mut found = Recovery::default();
    quarantine_strays(store, &reader, &mut found)?;
    found.notes.extend(PathLocks::open(&store.layout)?.sweep()?);
    for slug in reader.unsealed()? {
        match recover_run(store, &reader, &slug, sign, &mut found) {
            // It alone is left as it is: what is wrong with one run is no reason to stop the others.
            Err(Error::Damaged { log, why }) if log == slug => found.damaged.push(Damage { run_id: slug, why }),
            done => done?,
        }
    }
    found.tell();
    Ok(found)
}

impl Recovery {
    /// Tells the operator what was done.
    fn tell(&self) {
        for note in &self.notes {
            tracing::info!(target: "norma::recovery", "{note}");
        }
        for run in &self.interrupted {
            tracing::info!(target: "norma::recovery", "run {run} was interrupted");
        }
        for Damage { run_id, why } in &self.damaged {
            tracing::warn!(target: "norma::recovery", "run {run_id} is damaged and left alone: {why}");
        }
    }
}

/// The same for one run, which its process could not continue.
pub fn recover_one(store: &Store, slug: &str, sign: Sign<'_>) -> Result<Recovery> {
    let mut found = Recovery::default();
    recover_run(store, &Reader::open(&store.layout)?, slug, sign, &mut found)?;
    found.tell();
    Ok(found)
}

fn recover_run(store: &Store, reader: &Reader, slug: &str, sign: Sign<'_>, found: &mut Recovery) -> Result<()> {
    let (run, log) = reader.load(slug)?;
    let mut open = Recovering { store, slug, dir: store.layout.run(slug), run, log };
    // First of all the directory itself and the mirror in it: what is recorded below is appended there, and a
    // line that the crash kept from it must not become a gap.
    open.restore_files(found)?;
    open.restore_kept(reader, found)?;
    open.mirror(reader, found)?;
    let whole = open.restore_evidence(reader, found)?;
    open.restore_contract(found)?;
    open.clear_documents(reader)?;
    open.clear_steps(found)?;
    open.close_change(found)?;
    if open.run.status == Status::Running {
        let message = OWNER_DIED.to_owned();
        open.append(vec![Fact::RunPaused(End { reason: Some(Reason::Interrupted), message })])?;
        found.interrupted.push(slug.to_owned());
    }
    // A seal drops the copies of small files, and those may be the last good ones of what was lost.
    if open.run.status.is_terminal() && whole {
        return crate::seal(store, slug, sign);
    }
    crate::draw(store, reader, slug)
}

/// What is missing or different of a run's recorded files. Asked before a result is accepted: a later agent, or
/// anybody else, may have had its hands on the evidence of an earlier step. What is in the commit alone nobody had.
pub fn lost_evidence(reader: &Reader, slug: &str) -> Result<Vec<String>> {
    let (dir, mut lost) = (reader.layout().run(slug), Vec::new());
    reader.each_directory(slug, &mut |sub, files| {
        let at = dir.join(sub);
        let written = Written::of(&at)?;
        // Of a large batch these are thousands, and their digests are not compared with anything here.
        if written == Written::Nothing && files.is_small()? {
            return Ok(());
        }
        for listed in files.read()?.iter().filter(|listed| !written.lacks(listed)) {
            let wrong = quick_difference(&at, listed)?;
            lost.extend(wrong.map(|what| format!("{sub}/{} {what}", listed.path)));
        }
        Ok(())
    })?;
    Ok(lost)
}

struct Recovering<'a> {
    store: &'a Store,
    slug: &'a str,
    dir: PathBuf,
    run: Run,
    log: RunLog,
}

impl Recovering<'_> {
    fn append(&mut self, facts: Vec<Fact>) -> Result<()> {
        self.append_with(facts, Vec::new())
    }

    fn append_with(&mut self, facts: Vec<Fact>, files: Vec<(String, StepFile)>) -> Result<()> {
        for event in self.store.append(&mut self.log, facts, files)?.iter() {
            self.run.apply(event).expect("BUG: recovery records only what fits");
        }
        Ok(())
    }

    /// Whether these facts could come next.
    fn fits(&self, facts: &[Fact]) -> bool {
        let mut run = self.run.clone();
        let events = (run.seq + 1..).zip(facts);
        events.into_iter().all(|(seq, fact)| run.apply(&Event { seq, ts: now(), fact: fact.clone() }).is_ok())
    }

    /// Files of committed directories: lost or unfinished ones are rewritten from the commit; others that differ
    /// are evidence lost. Answers whether everything is there.
    fn restore_evidence(&mut self, reader: &Reader, found: &mut Recovery) -> Result<bool> {
        let written = write_out(reader, self.slug)?;
        if written > 0 {
            found.notes.push(format!("{}: {written} directory(s) were in the commit alone; written out", self.slug));
        }
        let mut lost = Vec::new();
        for (dir, listed) in reader.artifacts(self.slug)? {
            let at = self.dir.join(&dir);
            let Some(what) = difference(&at, &listed)? else { continue };
            let (path, name) = (at.join(&listed.path), format!("{dir}/{}", listed.path));
            let unfinished = |bytes: &Vec<u8>| what == "is missing" || is_unfinished(&path, bytes);
            match reader.copy_of(self.slug, &dir, &listed.path)?.filter(unfinished) {
                Some(bytes) => {
                    self.rewrite(&name, &bytes)?;
                    found.notes.push(format!("{}: {name} {what}; restored", self.slug));
                }
                None => lost.push(format!("{name} {what}")),
            }
        }
        if lost.is_empty() {
            return Ok(true);
        }
        found.notes.push(format!("{}: evidence lost: {}", self.slug, lost.join("; ")));
        if !self.run.status.is_terminal() {
            if let Some(more) = lost.len().checked_sub(FINDINGS_MAX).filter(|more| *more > 0) {
                lost.truncate(FINDINGS_MAX);
                lost.push(format!("and {more} more"));
            }
            self.append(vec![Fact::EvidenceLost { findings: lost }])?;
        }
        Ok(false)
    }

    /// A document whose items were not added after all goes; nobody was told of it.
    fn clear_documents(&self, reader: &Reader) -> Result<()> {
        let recorded = reader.artifacts(self.slug)?;
        for name in names(&self.dir)? {
            let name = name.to_string_lossy();
            if name.starts_with("added-") && !recorded.iter().any(|(dir, _)| *dir == name) {
                remove_tree(&self.dir.join(&*name))?;
            }
        }
        Ok(())
    }

    /// Temporary directories go; a complete directory without a record becomes a failed step; anything else
    /// that does not belong is moved aside.
    fn clear_steps(&mut self, found: &mut Recovery) -> Result<()> {
        let on_record: BTreeSet<String> = self.run.step_dirs().into_iter().map(str::to_owned).collect();
        for name in names(&self.dir.join("steps"))? {
            let path = self.dir.join("steps").join(&name);
            let name = name.to_string_lossy().into_owned();
            let recorded = format!("steps/{name}");
            if on_record.contains(&recorded) {
                continue;
            }
            let open = open_steps(&self.run).into_iter().find(|step| step.dir_name() == name);
            match (open, name.split_once(".tmp-")) {
                (_, Some(_)) => remove_tree(&path)?,
                (Some(step), None) => self.reconcile(step, recorded, found)?,
                _ => quarantine(self.store, &path, "it is not a step of its run", found)?,
            }
        }
        for step in open_steps(&self.run) {
            found.notes.push(format!("{}: step {} was interrupted", self.slug, step.dir_name()));
            self.append(vec![Fact::StepInterrupted { step }])?;
        }
        Ok(())
    }

    fn reconcile(&mut self, step: StepRef, dir: String, found: &mut Recovery) -> Result<()> {
        found.notes.push(format!("{}: step {} had no record; recorded as failed", self.slug, step.dir_name()));
        // As they are found, whatever a manifest says: a power cut may have taken some of them.
        let files = self.files_of(&dir)?;
        let evidence = ManifestFile::listing_digest(files.iter().map(|(_, file)| &file.listed));
        self.append_with(vec![Fact::ReconciledStep { step, dir, evidence }], files)
    }

    /// The regular files of a directory of the run, as a commit records them.
    fn files_of(&self, dir: &str) -> Result<Vec<(String, StepFile)>> {
        let files = files_in(&self.dir.join(dir))?;
        Ok(files.into_iter().map(|file| (dir.to_owned(), file)).collect())
    }

    /// A change that was sealed but not recorded is rolled forward from its manifest; one that was not sealed
    /// is judged again when the run continues.
    fn close_change(&mut self, found: &mut Recovery) -> Result<()> {
        let open = self.run.open_change().map(|(change, _)| change);
        let known = if open.is_some() { self.run.changes() - 1 } else { self.run.changes() };
        for name in names(&self.dir.join("changes"))? {
            let path = self.dir.join("changes").join(&name);
            let name = name.to_string_lossy();
            match name.parse::<u32>() {
                Ok(number) if (1..=known).contains(&number) => {}
                Ok(number) if Some(number) == open => self.roll_forward(number, &path, found)?,
                Ok(number) if is_of_ended_item(&self.run, number) => {}
                Ok(number) if !self.run.items().is_empty() => self.roll_forward(number, &path, found)?,
                _ if name.contains(".tmp-") => remove_tree(&path)?,
                _ => quarantine(self.store, &path, "it is not a change of its run", found)?,
            }
        }
        // Lost evidence has ended the run, and nobody judges the change again.
        if let Some((change, _)) = self.run.open_change().filter(|_| !self.run.status.is_terminal()) {
            self.append(vec![Fact::ChangeInterrupted { change }])?;
        }
        Ok(())
    }

    fn roll_forward(&mut self, change: u32, path: &Path, found: &mut Recovery) -> Result<()> {
        let manifest = match read_manifest(path) {
            Ok(manifest) if verifies(path, &manifest) => manifest,
            // It is judged again; nothing of it was on record.
            manifest if is_torn(path, manifest.as_ref().ok()) => {
                found.notes.push(format!("{}: change {change} was not written to its end; removed", self.slug));
                return remove_tree(path);
            }
            _ => return quarantine(self.store, path, "its manifest does not verify", found),
        };
        let mut facts = manifest.outcome;
        facts.push(Fact::ChangeRecovered { change });
        if !self.fits(&facts) {
            return quarantine(self.store, path, "its outcome does not follow from the log", found);
        }
        let files = self.files_of(&format!("changes/{change:03}"))?;
        self.append_with(facts, files)?;
        found.notes.push(format!("{}: change {change} completed from its directory", self.slug));
        Ok(())
    }

    /// What a run was asked for is beside what norma compiled from it; the document is evidence, and was just looked at.
    fn restore_contract(&self, found: &mut Recovery) -> Result<()> {
        let started = &self.run.started;
        let submitted = std::fs::read(self.dir.join(SUBMITTED_FILE)).ok();
        let compiled = || std::fs::read(self.dir.join(started.contract.file())).ok();
        let Some(given) = submitted.or_else(compiled).filter(|_| started.contract.file() != CONTRACT_FILE) else {
            return Ok(());
        };
        if std::fs::read(self.dir.join(CONTRACT_FILE)).ok().as_ref() != Some(&given) {
            self.rewrite(CONTRACT_FILE, &given)?;
            found.notes.push(format!("{}: {CONTRACT_FILE} was not what was asked for; written anew", self.slug));
        }
        Ok(())
    }

    /// The compiled contract and `norma.md` are written before the first event is acknowledged; both follow from it.
    /// Files under a temporary name are what a crash left of writing one of the run's own.
    fn restore_files(&self, found: &mut Recovery) -> Result<()> {
        for name in names(&self.dir)? {
            let text = name.to_string_lossy();
            if text.contains(".tmp-") || self.is_unrecorded_conflict(&text) {
                remove_tree(&self.dir.join(name))?;
            }
        }
        // Items that were added later are in the log alone.
        let first = self.run.items().iter().filter(|state| state.addition.is_none());
        let items = first.map(|state| &*state.item);
        for (name, bytes) in run_files(&self.run.started, items) {
            if std::fs::read(self.dir.join(name)).ok().as_deref() != Some(&bytes[..]) {
                self.rewrite(name, &bytes)?;
                found.notes.push(format!("{}: {name} was not what the log says; written anew", self.slug));
            }
        }
        Ok(())
    }

    /// Whether a directory has both sides of a conflict that is not on record: it is looked for again when the run lands.
    fn is_unrecorded_conflict(&self, name: &str) -> bool {
        let next = self.run.pipeline().map_or(1, |pipeline| pipeline.next_conflict());
        let number = name.strip_prefix(CONFLICT_DIR).and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| number >= next)
    }

    /// What the run's facts rely on elsewhere is there as it was committed.
    fn restore_kept(&self, reader: &Reader, found: &mut Recovery) -> Result<()> {
        let restored = kept::restore(reader, self.slug, &self.dir)?;
        if restored > 0 {
            found.notes.push(format!("{}: {restored} file(s) were in the commit alone; written out", self.slug));
        }
        Ok(())
    }

    /// Writes a file of the run's directory. Its temporary name is at the top, where the next recovery looks
    /// for it, and not in a directory of evidence, where an agent may have chosen any name.
    fn rewrite(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let to = self.dir.join(path);
        let parent = to.parent().unwrap_or(&self.dir);
        std::fs::create_dir_all(parent).at("create", parent)?;
        write_via(&temporary_name(&self.dir.join("restored")), &to, bytes)
    }

    /// `events.jsonl` is a prefix of the log: a torn end is cut, what is missing is added, anything else is
    /// moved aside and written anew.
    fn mirror(&self, reader: &Reader, found: &mut Recovery) -> Result<()> {
        let mut expected = Vec::new();
        for line in reader.lines(self.slug, 0, i64::MAX as u64)? {
            expected.extend_from_slice(line.as_bytes());
            expected.push(b'\n');
        }
        let path = self.dir.join("events.jsonl");
        self.store.sync_mirror(self.slug)?;
        let there = std::fs::read(&path).unwrap_or_default();
        if there == expected {
            return Ok(());
        }
        if !expected.starts_with(&there) {
            let torn = there.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            if !expected.starts_with(&there[..torn]) {
                quarantine(self.store, &path, "it says something else than the log", found)?;
            }
        }
        write_whole(&path, &expected)
    }
}

impl Store {
    /// Makes a run's directory with the files that follow from its first fact, before that fact is on record. What it was
    /// asked for is the document that was submitted, or else what was compiled.
    pub fn create_run_dir(
        &self,
        slug: &str,
        started: &contract::RunStarted,
        items: &[contract::ItemAdded],
        submitted: Option<&[u8]>,
    ) -> Result<()> {
        let steps = self.layout.run(slug).join("steps");
        std::fs::create_dir_all(&steps).at("create", &steps)?;
        let first = items.iter().filter(|added| added.addition.is_none());
        let [compiled, about] = run_files(started, first.map(|added| &added.item));
        let given = (CONTRACT_FILE, submitted.map_or_else(|| compiled.1.clone(), <[u8]>::to_vec));
        // Under earlier rules what was compiled has the name of what was given, and is written over it.
        for (name, bytes) in [given, compiled, about] {
            let path = self.layout.run(slug).join(name);
            std::fs::write(&path, bytes).at("write", &path)?;
        }
        Ok(())
    }
}

/// The files that follow from a run's first facts.
pub(crate) fn run_files<'i>(
    started: &contract::RunStarted,
    items: impl Iterator<Item = &'i contract::Item>,
) -> [(&'static str, Vec<u8>); 2] {
    let mut contract = started.contract.clone();
    contract.items = items.cloned().collect();
    [(contract.file(), contract.canonical()), ("norma.md", norma_md(started).into_bytes())]
}

/// The turns that are under way; none once the run is over, as one is whose evidence was just found lost.
fn open_steps(run: &Run) -> Vec<StepRef> {
    if run.status.is_terminal() {
        return Vec::new();
    }
    run.open_turns().iter().map(|turn| turn.step).collect()
}

/// Whether this change is that of an item which has its receipt.
fn is_of_ended_item(run: &Run, change: u32) -> bool {
    let place = change.checked_sub(1).map(|place| place as usize);
    place.and_then(|place| run.items().get(place)).is_some_and(|state| state.ended_here().is_some())
}

/// `norma.md`: goal, criteria and budgets, for people.
fn norma_md(started: &contract::RunStarted) -> String {
    use std::fmt::Write;
    let contract = &started.contract;
    let mut text = format!("# Goal\n\n{}\n\n# Acceptance criteria\n\n", contract.goal);
    for criterion in &contract.acceptance_criteria {
        let _ = writeln!(text, "- {}: {}", criterion.id, criterion.text);
    }
    if contract.acceptance_criteria.is_empty() {
        text.push_str("(none)\n");
    }
    text.push_str("\n# Budgets\n\n");
    let budgets = serde_json::to_value(&contract.budgets).expect("BUG: budgets are plain data");
    for (name, value) in budgets.as_object().into_iter().flatten() {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = write!(text, "\n# Base\n\n- commit: {}\n", started.base.commit);
    text
}

fn verifies(dir: &Path, manifest: &Manifest) -> bool {
    let evidence = evidence_digest(manifest.files.iter());
    let anchored = manifest.outcome.iter().any(|fact| match fact {
        Fact::PatchApplied(applied) => applied.evidence == evidence,
        Fact::ChangeDropped(dropped) => dropped.evidence == evidence,
        Fact::ItemEnded(ended) => ended.evidence == evidence,
        _ => false,
    });
    anchored && manifest.files.iter().all(|file| matches!(difference(dir, file), Ok(None)))
}

/// Whether a file is what a power cut leaves of these bytes: cut short, or with blocks that were never written.
fn is_unfinished(path: &Path, whole: &[u8]) -> bool {
    let found = std::fs::read(path).unwrap_or_default();
    found.len() <= whole.len() && found.iter().zip(whole).all(|(found, byte)| found == byte || *found == 0)
}

/// Whether a directory is what a power cut leaves of one: files that are missing or have no content, and nothing else is
/// wrong with it.
fn is_torn(dir: &Path, manifest: Option<&Manifest>) -> bool {
    let Some(manifest) = manifest else {
        let bytes = std::fs::read(dir.join("manifest.json")).unwrap_or_default();
        return bytes.iter().all(|byte| *byte == 0);
    };
    manifest.files.iter().all(|listed| match difference(dir, listed) {
        Ok(None) => true,
        Ok(Some(_)) => {
            let found = std::fs::read(dir.join(&listed.path)).unwrap_or_default();
            found.is_empty() || found.ends_with(&[0])
        }
        Err(_) => false,
    })
}

fn quarantine_strays(store: &Store, reader: &Reader, found: &mut Recovery) -> Result<()> {
    let runs = store.layout.runs();
    let known = reader.run_ids()?;
    // What a listing says is enough: a start must not cost a look at every run there ever was.
    for (name, is_dir) in entries(&runs)? {
        if is_dir && name.to_str().is_some_and(|name| known.contains(name)) {
            continue;
        }
        let aside = reader.quarantined_runs()?.into_iter().find(|aside| name.to_str() == Some(&aside.run_id));
        if aside.as_ref().is_none_or(|aside| aside.to.is_none()) {
            quarantine(store, &runs.join(name), "no run of this name is on record", found)?;
        } else if let Some(aside) = aside
            && damage::complete(&store.layout, &aside)?
        {
            found.notes.push(format!("{}: its directory was moved to quarantine, as a person asked", aside.run_id));
        }
    }
    Ok(())
}

/// Moves whatever is at a path where norma wants to put something of its own to quarantine; answers what was done.
pub fn make_way(store: &Store, path: &Path, why: &str) -> Result<Option<String>> {
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let mut found = Recovery::default();
    quarantine(store, path, why, &mut found)?;
    Ok(found.notes.pop())
}

fn quarantine(store: &Store, path: &Path, why: &str, found: &mut Recovery) -> Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let random = crate::new_run_id().slug();
    let to = store.layout.quarantine().join(format!("{random}-{name}"));
    move_aside(&store.layout, path, &to)?;
    let below = |path: &Path| path.strip_prefix(&store.layout.state).unwrap_or(path).to_string_lossy().into_owned();
    let (path, to) = (below(path), below(&to));
    found.notes.push(format!("{path} was moved to {to}: {why}"));
    store.audit(Audit::Quarantined { path, to, why: why.to_owned() }).wait()
}

/// Moves something to a place in the quarantine.
pub(crate) fn move_aside(layout: &Layout, from: &Path, to: &Path) -> Result<()> {
    let dir = layout.quarantine();
    std::fs::create_dir_all(&dir).at("create", &dir)?;
    std::fs::rename(from, to).at("move to quarantine", from)
}

fn names(dir: &Path) -> Result<Vec<OsString>> {
    Ok(entries(dir)?.into_iter().map(|(name, _)| name).collect())
}

/// What is in a directory, if it is there, in order: names, and which of them are directories.
fn entries(dir: &Path) -> Result<Vec<(OsString, bool)>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).at("list", dir),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.at("list", dir)?;
        found.push((entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir())));
    }
    found.sort();
    Ok(found)
}
