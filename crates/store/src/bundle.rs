//! The bundle of a run on disk. What is known of a run that has ended is read, the files that follow from it are
//! written into its directory, and all of them are listed. None of them is synced here: whoever seals does that once.

use crate::evidence::{hash_while_writing, hashed, what_is_wrong};
use crate::read::no_events;
use crate::{Error, IoContext, Reader, Result, Store, graph};
use contract::documents::{RunManifest, TaskContract, is_task_contract, task_contract};
use contract::{Backend, COMPILED_CONTRACT_FILE, CONTRACT_FILE, ItemEnded, ManifestFile, SUBMITTED_FILE};
use run::bundle::{self, Content, DIRECTORIES, Kept, LogSummary, Part, Piece, Record, Surroundings, Tests, Transcript};
use run::view::Drawing;
use run::{ItemState, Run};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// Files of a run's directory that are in none of its directories, as far as they exist.
const RUN_FILES: [&str; 6] =
    [CONTRACT_FILE, COMPILED_CONTRACT_FILE, "diff_name_only.txt", "events.jsonl", "norma.md", "patch.diff"];

/// Files by their path below the run's directory.
type Files = BTreeMap<String, ManifestFile>;

/// How many files may wait to be written: their bytes are in memory.
const PIECES_WAITING_MAX: usize = 32;

/// A run that has ended, as its log has it.
pub(crate) struct Ended {
    run: Run,
    log: LogSummary,
}

impl Ended {
    /// Reads a log, and writes the rows of the run's graph if there are none: all in one go, since a log may be long.
    pub(crate) fn read_and_draw(store: &Store, reader: &Reader, slug: &str) -> Result<Ended> {
        let illegal = |why: run::Illegal| Error::Damaged { log: slug.to_owned(), why: why.to_string() };
        let (mut run, mut log, mut drawing) = (None::<Run>, LogSummary::default(), None);
        let is_drawn = graph::is_there(&reader.db, slug)?;
        reader.each_event(slug, |id, event| {
            match &mut run {
                Some(run) => run.advance(&event).map_err(illegal)?,
                None => run = Some(Run::start(id, &event).map_err(illegal)?),
            }
            if !is_drawn {
                drawing.get_or_insert_with(|| Drawing::new(id, "")).take(&event);
            }
            log.take(event);
            Ok(())
        })?;
        drawing.map_or(Ok(()), |drawing| graph::write_rows(store, drawing))?;
        Ok(Ended { run: run.ok_or_else(|| no_events(slug))?, log })
    }
}

/// Writes what of the bundle is not there yet. Answers the manifest and what it lists; both are the same however often
/// this is done.
pub(crate) fn write(reader: &Reader, slug: &str, Ended { run, log }: Ended) -> Result<(RunManifest, Files)> {
    let dir = reader.layout().run(slug);
    let recorded = recorded(reader, slug, &dir)?;
    let kept = kept(&run, &dir, &recorded)?;
    let mut record = Record::new(&run, log, recorded, kept, surroundings(reader, &run));
    record.given = given(&dir, &record.files)?;
    for name in DIRECTORIES {
        let path = dir.join(name);
        std::fs::create_dir_all(&path).at("create", &path)?;
    }
    for piece in bundle::conversations(&record) {
        let file = write_piece(&dir, &piece, &record.files)?;
        record.files.insert(piece.path, file);
    }
    let written = write_pieces(&dir, bundle::pieces(&record), &record.files)?;
    record.files.extend(written);
    // The manifest is about files, and a large batch left much.
    record.kept = BTreeMap::new();
    Ok((bundle::manifest(&record), record.files))
}

fn surroundings(reader: &Reader, run: &Run) -> Surroundings {
    let layout = reader.layout();
    let repository = layout.root.to_string_lossy().into_owned();
    Surroundings {
        // In the native sandbox the run's tree is shown where the repository is; otherwise it is checked out in a directory.
        workspace: match run.started.contract.sandbox {
            Backend::Native => repository.clone(),
            Backend::None | Backend::Microsandbox | Backend::E2b => layout.shown(&layout.worktree(&run.id.slug())),
        },
        repository,
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
    }
}

/// The files that commits hold the digests of, and the run's own.
fn recorded(reader: &Reader, slug: &str, dir: &Path) -> Result<Files> {
    let mut files = Files::new();
    for (sub, listed) in reader.artifacts(slug)? {
        let path = format!("{sub}/{}", listed.path);
        files.insert(path.clone(), ManifestFile { path, ..listed });
    }
    for name in RUN_FILES.into_iter().filter(|name| dir.join(name).exists()) {
        let file = hashed(dir, name).map_err(|error| damaged(dir, name, &what_is_wrong(&error)))?;
        files.insert(name.to_owned(), file);
    }
    Ok(files)
}

/// The task contract that a run was made of; none if something else was submitted, or nothing.
fn given(dir: &Path, files: &Files) -> Result<Option<TaskContract>> {
    if !files.contains_key(SUBMITTED_FILE) {
        return Ok(None);
    }
    let bytes = read(dir, SUBMITTED_FILE, files)?;
    Ok(is_task_contract(&bytes).then(|| task_contract::read(&bytes).ok()).flatten())
}

/// What the items that have ended left beside the log.
fn kept(run: &Run, dir: &Path, files: &Files) -> Result<BTreeMap<u32, Kept>> {
    let mut kept = BTreeMap::new();
    for (place, state) in (0..).zip(run.items().iter()) {
        if let Some(ended) = state.ended_here() {
            kept.insert(place, kept_of(state, ended, dir, files)?);
        }
    }
    Ok(kept)
}

fn kept_of(state: &ItemState, ended: &ItemEnded, dir: &Path, files: &Files) -> Result<Kept> {
    let change = format!("changes/{:03}", ended.change);
    let gates = format!("{change}/gates.json");
    let tests = Tests::read(&read(dir, &gates, files)?).map_err(|why| damaged(dir, &gates, &why))?;
    let turn = state.turns.iter().find(|turn| Some(turn.step.index) == ended.step);
    let step = turn.and_then(|turn| turn.dir.as_ref()).filter(|_| state.item.output_schema.is_some());
    let answer = match step.map(|step| format!("{step}/output.json")).filter(|path| files.contains_key(path)) {
        Some(path) => parsed::<Value>(dir, &path, files)?.get("result").cloned(),
        None => None,
    };
    let mut reviews = Vec::new();
    for given in state.reviews.iter().flat_map(|reviews| &reviews.given) {
        let path = format!("steps/{}/output.json", given.step.dir_name());
        reviews.extend(parsed::<Value>(dir, &path, files)?.get("result").cloned());
    }
    Ok(Kept { receipt: parsed(dir, &format!("{change}/RECEIPT.json"), files)?, tests, answer, reviews })
}

fn parsed<T: DeserializeOwned>(dir: &Path, path: &str, files: &Files) -> Result<T> {
    serde_json::from_slice(&read(dir, path, files)?).map_err(|error| damaged(dir, path, &error.to_string()))
}

/// The bytes of a file that must be what is on record of it: what a bundle says must not come from anything else.
fn read(dir: &Path, path: &str, files: &Files) -> Result<Vec<u8>> {
    let bytes = std::fs::read(dir.join(path)).at("read", &dir.join(path))?;
    match files.get(path) {
        Some(listed) if contract::hash::sha256(&bytes) == listed.sha256 => Ok(bytes),
        _ => Err(damaged(dir, path, "it differs from what was recorded")),
    }
}

fn damaged(dir: &Path, path: &str, why: &str) -> Error {
    Error::Damaged { log: dir.join(path).display().to_string(), why: why.to_owned() }
}

/// Writes files while the next ones are made: of a large batch there are thousands, and each half of it takes as long.
fn write_pieces(dir: &Path, pieces: impl Iterator<Item = Piece>, files: &Files) -> Result<Vec<(String, ManifestFile)>> {
    std::thread::scope(|scope| {
        let (made, waiting) = mpsc::sync_channel::<Piece>(PIECES_WAITING_MAX);
        let written = scope.spawn(move || {
            let write = |piece: Piece| write_piece(dir, &piece, files).map(|file| (piece.path, file));
            waiting.into_iter().map(write).collect::<Result<Vec<_>>>()
        });
        // Where nobody takes them any more, writing one has failed.
        let _ = pieces.into_iter().try_for_each(|piece| made.send(piece));
        drop(made);
        written.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn write_piece(dir: &Path, piece: &Piece, files: &Files) -> Result<ManifestFile> {
    let to = dir.join(&piece.path);
    let parent = to.parent().unwrap_or(dir);
    std::fs::create_dir_all(parent).at("create", parent)?;
    // It may be another name of a file of the evidence, which must not be written to.
    match std::fs::remove_file(&to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at("remove", &to),
        _ => {}
    }
    if let Content::Copies(of) = &piece.content
        && let [only] = &of[..]
        && std::fs::hard_link(dir.join(only), &to).is_ok()
    {
        return hashed(dir, &piece.path).map_err(|error| damaged(dir, only, &what_is_wrong(&error)));
    }
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut out = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(&to)
        .at("create", &to)?;
    let mut from: Box<dyn Read + '_> = match &piece.content {
        Content::Bytes(bytes) => Box::new(&bytes[..]),
        Content::Transcript(parts) => Box::new(std::io::Cursor::new(transcript(dir, parts, files)?)),
        Content::Stream(of) => Box::new(Said::new(dir, of, files)?),
        Content::Copies(of) => Box::new(Joined::new(of.iter().map(|path| dir.join(path)).collect())),
    };
    Ok(hash_while_writing(&piece.path, &mut from, &mut out, &to)?.0)
}

fn transcript(dir: &Path, parts: &[Part], files: &Files) -> Result<String> {
    let told = |part: &Part| {
        let mut told = Transcript::new(part);
        for line in opened(dir, &part.events, files)?.split(b'\n') {
            told.tell(&line.at("read", &dir.join(&part.events))?);
        }
        Ok(told.finish())
    };
    Ok(parts.iter().map(told).collect::<Result<Vec<String>>>()?.join("\n"))
}

/// A file that must be what is on record of it, to be read line by line: a conversation may be long.
fn opened(dir: &Path, path: &str, files: &Files) -> Result<BufReader<File>> {
    let found = hashed(dir, path).map_err(|error| damaged(dir, path, &what_is_wrong(&error)))?;
    match files.get(path) {
        Some(listed) if found.sha256 == listed.sha256 => {
            Ok(BufReader::new(File::open(dir.join(path)).at("open", &dir.join(path))?))
        }
        _ => Err(damaged(dir, path, "it differs from what was recorded")),
    }
}

/// What agents said in exchanges, one line after another.
struct Said {
    waiting: std::vec::IntoIter<BufReader<File>>,
    open: Option<BufReader<File>>,
    line: Vec<u8>,
    /// What of the line is not handed over yet.
    rest: std::ops::Range<usize>,
}

impl Said {
    fn new(dir: &Path, exchanges: &[String], files: &Files) -> Result<Said> {
        let opened = exchanges.iter().map(|path| opened(dir, path, files)).collect::<Result<Vec<_>>>()?;
        Ok(Said { waiting: opened.into_iter(), open: None, line: Vec::new(), rest: 0..0 })
    }

    /// Goes on to the next line that an agent said; whether there is one.
    fn advance(&mut self) -> std::io::Result<bool> {
        loop {
            let Some(open) = &mut self.open else {
                match self.waiting.next() {
                    Some(next) => self.open = Some(next),
                    None => return Ok(false),
                }
                continue;
            };
            self.line.clear();
            if open.read_until(b'\n', &mut self.line)? == 0 {
                self.open = None;
                continue;
            }
            let ended = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if let Some(said) = bundle::said(ended).map(<[u8]>::to_vec) {
                self.line = said;
                self.line.push(b'\n');
                self.rest = 0..self.line.len();
                return Ok(true);
            }
        }
    }
}

impl Read for Said {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() && !self.advance()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.line[self.rest.start..self.rest.start + count]);
        self.rest.start += count;
        Ok(count)
    }
}

/// Files, one after another, of which one is open at a time.
struct Joined {
    waiting: std::vec::IntoIter<PathBuf>,
    open: Option<File>,
}

impl Joined {
    fn new(files: Vec<PathBuf>) -> Joined {
        Joined { waiting: files.into_iter(), open: None }
    }
}

impl Read for Joined {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(file) = &mut self.open {
                let n = file.read(buffer)?;
                if n > 0 {
                    return Ok(n);
                }
            }
            match self.waiting.next() {
                Some(path) => self.open = Some(File::open(path)?),
                None => return Ok(0),
            }
        }
    }
}
