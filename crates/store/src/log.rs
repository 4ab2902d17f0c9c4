//! The log and its one writer. Work is submitted as closures; the writer thread takes whatever is queued, runs
//! each piece in its own savepoint of one transaction, commits once, and only then acknowledges all of them:
//! group commit without a timer. Nobody is told a fact before its COMMIT has returned. Work that nobody waits for yet is
//! *patient*: it is committed with whatever comes after it, or as soon as somebody does wait for it.

use crate::crash;
use crate::db::{self, JournalMode};
use crate::evidence::Attached;
use crate::graph::Undrawn;
use crate::mirror::Mirror;
use crate::place::Place;
use crate::queue::{Jobs, Patience, Queue};
use crate::{AuditEnd, Error, Layout, Result, approvals, directories, index, kept};
use contract::{Audit, AuditLine, Digest, Event, EventLine, Fact, LINE_BYTES_MAX, LogName, RunId, Slug, Timestamp};
use run::view::{Part, Projector};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Named in the first hash of the audit log.
const AUDIT_LOG: &str = "audit";

/// The wall clock, for the record only: order is `seq`.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(since.as_millis() as u64)
}

/// The id of a run that starts now.
pub fn new_run_id() -> RunId {
    RunId::new(now().unix_ms(), random10())
}

/// An id that nothing else has.
pub fn new_uuid() -> String {
    contract::id::uuid_v7(now().unix_ms(), random10())
}

/// Ten random bytes for an id.
pub(crate) fn random10() -> [u8; 10] {
    let mut bytes = [0; 10];
    let flags = rustix::rand::GetRandomFlags::empty();
    // Ten bytes are always delivered whole once the kernel's generator is seeded, which it is by now.
    let _ = rustix::rand::getrandom(&mut bytes, flags);
    bytes
}

/// The promise of an acknowledgement: wait for it on a thread, or await it in a task.
#[must_use = "nothing is durable before the ticket says so"]
pub struct Ticket<T> {
    answer: oneshot::Receiver<Result<T>>,
    /// Where a patient writer is hurried.
    hurry: Option<Arc<Queue>>,
}

impl<T> Ticket<T> {
    /// Blocks until the work is committed, or refused.
    pub fn wait(self) -> Result<T> {
        self.hurry();
        self.answer.recv().unwrap_or(Err(Error::Stopped))
    }

    /// The same for tasks.
    pub async fn committed(self) -> Result<T>
    where
        T: Send,
    {
        self.hurry();
        self.answer.await.unwrap_or(Err(Error::Stopped))
    }

    fn hurry(&self) {
        if let Some(queue) = &self.hurry {
            queue.hurry();
        }
    }
}

/// Why a batch was not committed; told to everybody who had work in it.
#[derive(Clone)]
pub(crate) enum Failed {
    Commit(String),
    Replaced(PathBuf),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::Replaced(path) => Failed::Replaced(path),
            Error::Sql(rusqlite::Error::SqliteFailure(e, _)) if e.code == rusqlite::ErrorCode::DatabaseBusy => {
                Failed::Commit("norma.db is held by another program".to_owned())
            }
            error => Failed::Commit(error.to_string()),
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Commit(why) => Error::Commit(why),
            Failed::Replaced(path) => Error::Replaced(path),
        }
    }
}

/// Is told what was appended to the logs of runs, after it is durable and before anybody else is; on the writer's thread,
/// so it hands it on and does nothing else.
pub type Observer = Box<dyn Fn(RunId, &[Event]) + Send + Sync>;

/// Events of runs, in the order in which they were appended.
type Told = Vec<(RunId, Arc<[Event]>)>;

/// Work that was submitted, and whoever waits for it.
pub(crate) trait Job: Send {
    /// Does it within the open transaction.
    fn carry_out(&mut self, tx: &mut Tx<'_>);

    /// Told once the transaction has ended.
    fn answer(self: Box<Self>, committed: std::result::Result<(), Failed>);
}

struct Submitted<W, T> {
    /// Until it is carried out.
    work: Option<W>,
    /// What came of it since then.
    result: Result<T>,
    sender: oneshot::Sender<Result<T>>,
}

impl<T: Send, W: FnOnce(&mut Tx<'_>) -> Result<T> + Send> Job for Submitted<W, T> {
    fn carry_out(&mut self, tx: &mut Tx<'_>) {
        let work = self.work.take().expect("BUG: work is carried out once");
        self.result = work(tx);
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), Failed>) {
        let answer = match committed {
            Ok(()) => self.result,
            Err(failed) => Err(failed.into()),
        };
        // A submitter that stopped waiting loses only the answer.
        let _ = self.sender.send(answer);
    }
}

/// The open transaction, as submitted work sees it.
pub(crate) struct Tx<'a> {
    pub(crate) db: &'a Connection,
    ends: &'a mut Ends,
    /// What the mirrors of runs are to have more.
    mirrored: Vec<(Slug, String)>,
    /// What was appended to the logs of runs, if somebody observes.
    told: Option<Told>,
    /// Why nothing of this transaction may be committed, if something went wrong in the middle of an append.
    broken: Option<Error>,
}

/// Where the logs end, as far as the writer has had to do with them.
struct Ends {
    audit: (u64, Digest),
    /// How many events each run's log has.
    runs: HashMap<RunId, u64>,
    /// Whether a run was sealed since the last commit.
    sealed: bool,
    /// Of which runs the graph is in no row yet.
    graphs: Undrawn,
}

impl Ends {
    fn new(audit: (u64, Digest)) -> Ends {
        Ends { audit, runs: HashMap::new(), sealed: false, graphs: Undrawn::default() }
    }

    /// After a commit that failed: what was known of the runs may be wrong.
    fn after_failure(self, audit: (u64, Digest)) -> Ends {
        let graphs = self.graphs.after_failure(self.runs.keys().map(RunId::slug));
        Ends { graphs, ..Ends::new(audit) }
    }
}

impl Tx<'_> {
    /// Appends to the state directory's own log.
    pub(crate) fn audit(&mut self, fact: &Audit, ts: Timestamp) -> Result<()> {
        let (seq, prev) = (self.ends.audit.0 + 1, self.ends.audit.1);
        let line = AuditLine::new(seq, prev, ts, fact);
        let bytes = line.to_bytes();
        let hash = contract::hash::chain(seq, &prev, &bytes);
        let ts = ts.to_string();
        let text = String::from_utf8(bytes).expect("BUG: JSON is UTF-8");
        self.db
            .prepare_cached("INSERT INTO audit (seq, ts, type, data_json, line, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![seq as i64, ts, line.kind, line.payload.to_string(), text, hash.to_string()])?;
        index::audit(self.db, fact, &ts)?;
        self.ends.audit = (seq, hash);
        self.ends.sealed |= matches!(fact, Audit::RunSealed { .. });
        Ok(())
    }

    /// Appends to a run's log. What can be wrong with it is found before anything is written, so that it needs no
    /// savepoint; what goes wrong later breaks the whole transaction.
    fn append(&mut self, appended: Appended, attached: &Attached) -> Result<()> {
        if self.db.is_autocommit() || self.broken.is_some() {
            return Err(no_transaction());
        }
        let Appended { run, slug, seq, .. } = appended;
        appended.require_readable()?;
        for event in appended.events.iter() {
            approvals::require_usable(self, &slug, &event.fact, event.ts)?;
        }
        self.expect_length(run, &slug, seq)?;
        let end = seq + appended.lines.len() as u64;
        if let Err(error) = self.write(appended, attached) {
            let told = Error::Commit(error.to_string());
            self.broken = Some(error);
            return Err(told);
        }
        self.ends.runs.insert(run, end);
        Ok(())
    }

    fn write(&mut self, appended: Appended, attached: &Attached) -> Result<()> {
        let Appended { run, slug, task, .. } = appended;
        for (event, line) in appended.events.iter().zip(&appended.lines) {
            index::fact(self.db, &run, event)?;
            self.insert(&slug, (event.seq, line), &appended.text)?;
            if let Fact::ApprovalUsed { approval, .. } = &event.fact {
                let used = Audit::ApprovalUsed { id: *approval, run_id: slug };
                self.audit(&used, event.ts)?;
            }
            if let Some((status, reason)) = event.fact.run_state() {
                let (run_id, task_id, seq, head) = (slug, task, event.seq, line.hash);
                self.audit(&Audit::RunState { run_id, task_id, status, reason, seq, head }, event.ts)?;
            }
        }
        if !appended.drawn {
            self.ends.graphs.expect_all(&slug);
        }
        self.ends.graphs.take(self.db, &slug, &appended.graph, appended.observed)?;
        directories::insert(self.db, &slug, attached)?;
        kept::insert(self.db, &slug, attached)?;
        self.mirrored.push((slug, appended.text));
        if let Some(told) = &mut self.told {
            told.push((run, appended.events));
        }
        Ok(())
    }

    /// Of which runs the graph is in no row yet.
    pub(crate) fn graphs(&mut self) -> &mut Undrawn {
        &mut self.ends.graphs
    }

    /// Compare-and-swap on the length of the log: two writers cannot both append.
    fn expect_length(&mut self, run: RunId, slug: &str, expected: u64) -> Result<()> {
        let found = match self.ends.runs.get(&run) {
            Some(found) => *found,
            None => self.length(slug)?,
        };
        match found {
            found if found == expected => Ok(()),
            found => Err(Error::Conflict { log: slug.to_owned(), expected, found }),
        }
    }

    /// How many events the log of a run has.
    pub(crate) fn length(&self, slug: &str) -> Result<u64> {
        let mut last = self.db.prepare_cached("SELECT coalesce(max(seq), 0) FROM events WHERE run_id = ?1")?;
        Ok(last.query_row([slug], |row| row.get::<_, i64>(0))? as u64)
    }

    fn insert(&self, slug: &str, (seq, line): (u64, &Prepared), text: &str) -> Result<()> {
        self.db
            .prepare_cached(
                "INSERT INTO events (run_id, seq, ts, type, message, data_json, line, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                slug,
                seq as i64,
                line.ts,
                line.kind,
                line.message,
                &text[line.data.clone()],
                &text[line.text.clone()],
                line.hash_text,
            ])?;
        Ok(())
    }
}

/// What a row says of an event whose bytes and hash are fixed. Whatever can be spelled out before the writer has its turn
/// is: there are many submitters and one writer.
struct Prepared {
    ts: String,
    kind: String,
    message: String,
    /// Where its line is in the text of all, and in that its payload.
    text: Range<usize>,
    data: Range<usize>,
    hash: Digest,
    hash_text: String,
}

/// What is appended at once.
struct Appended {
    run: RunId,
    slug: Slug,
    task: Option<i64>,
    /// How many events the log has before.
    seq: u64,
    /// Whether the graph of that log is drawn: see [`RunLog`].
    drawn: bool,
    /// Held once, however many count on them.
    events: Arc<[Event]>,
    lines: Vec<Prepared>,
    /// The lines as the mirror has them.
    text: String,
    /// What it changes of the run's graph: all of it if somebody observed when it was made, and else what is urgent.
    graph: Vec<Part>,
    observed: bool,
}

impl Appended {
    /// A line that no reader would accept must not get into a log that nobody can shorten.
    fn require_readable(&self) -> Result<()> {
        match self.events.iter().zip(&self.lines).find(|(_, line)| line.text.len() > LINE_BYTES_MAX) {
            None => Ok(()),
            Some((event, line)) => {
                let (slug, seq, kind, bytes) = (self.slug, event.seq, &line.kind, line.text.len());
                let why = format!("event {seq} ({kind}) of {slug} has {bytes} bytes, more than {LINE_BYTES_MAX}");
                Err(Error::Refused(why))
            }
        }
    }
}

/// The end of a run's log, held by whoever appends to it.
#[derive(Debug, Clone)]
pub struct RunLog {
    /// Whose log.
    pub name: LogName,
    /// How many events it has.
    pub seq: u64,
    /// The last hash; before the first event, the hash of run id and contract.
    pub head: Digest,
    /// What its items are called, for the lines about them.
    pub(crate) items: Arc<Vec<String>>,
    /// The run's graph as it is there.
    pub(crate) graph: Projector,
    /// Whether there are rows of the run's graph, or parts of it for which the writer will make some.
    pub(crate) drawn: bool,
}

impl RunLog {
    /// A log without events.
    pub fn new(run: RunId, task: Option<i64>, contract: &Digest) -> RunLog {
        let head = contract::hash::chain_start(&run.uuid(), contract);
        let graph = Projector::new(run, "");
        RunLog { name: LogName { run, task }, seq: 0, head, items: Arc::default(), graph, drawn: true }
    }

    /// The lines of facts, and the log's end after them.
    fn prepare(&self, facts: Vec<Fact>, ts: Timestamp, observed: bool) -> (Appended, RunLog) {
        let (LogName { run, task }, slug) = (self.name.clone(), self.name.run.slug());
        let mut prev = self.head;
        let (mut items, mut graph) = (self.items.clone(), self.graph.clone());
        let (mut told, mut parts) = (Vec::new(), Vec::new());
        let (mut events, mut lines) = (Vec::with_capacity(facts.len()), Vec::with_capacity(facts.len()));
        let mut text = String::new();
        for (seq, fact) in (self.seq + 1..).zip(facts) {
            let id = contract::id::uuid_v7(ts.unix_ms(), random10());
            let mut line = EventLine::new(&self.name, id, seq, prev, ts, &fact);
            if let Fact::ItemAdded(added) = &fact {
                Arc::make_mut(&mut items).push(added.item.id.clone());
            }
            if let Some(item) = fact.item().and_then(|place| items.get(place as usize)) {
                line.task_id.clone_from(item);
            }
            let bytes = line.to_bytes();
            prev = contract::hash::chain(seq, &prev, &bytes);
            let (start, written) = (text.len(), str::from_utf8(&bytes).expect("BUG: JSON is UTF-8"));
            let payload = EventLine::payload_in(written).expect("BUG: a line has a payload");
            text.push_str(written);
            let place = start..text.len();
            text.push('\n');
            let event = Event { seq, ts, fact };
            match observed {
                true => told.extend(graph.tell(&event)),
                false => parts.extend(graph.tell_urgent(&event)),
            }
            events.push(event);
            lines.push(Prepared {
                ts: ts.to_string(),
                kind: line.kind,
                message: line.message,
                text: place,
                data: start + payload.start..start + payload.end,
                hash: prev,
                hash_text: prev.to_string(),
            });
        }
        let seq = self.seq + lines.len() as u64;
        if observed {
            parts = graph.parts(told);
        }
        let end = RunLog { name: self.name.clone(), seq, head: prev, items, graph, drawn: true };
        let (events, seq, drawn) = (events.into(), self.seq, self.drawn);
        (Appended { run, slug, task, seq, drawn, events, lines, text, graph: parts, observed }, end)
    }
}

/// The store of the process that owns the state directory.
pub struct Store {
    /// Where everything is.
    pub layout: Layout,
    /// How SQLite keeps its journal here; `doctor` warns about anything but WAL.
    pub journal: JournalMode,
    /// Whether there was no log before: its first line was written now.
    pub is_new: bool,
    end: Arc<AuditEnd>,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
    mirror: Mirror,
    place: Place,
    observer: Arc<OnceLock<Observer>>,
}

impl Store {
    /// Opens or makes the database. The caller holds the owner's lock.
    pub fn open(layout: &Layout) -> Result<Store> {
        layout.create()?;
        let (db, journal) = db::open_writer(layout)?;
        let head = audit_head(&db)?;
        // Not "is there a file": a process may have died between making it and writing the first line.
        let fresh = head.0 == 0;
        let place = Place::of(&layout.db())?;
        let end = Arc::new(AuditEnd::new(head));
        let mirror = Mirror::start(layout);
        let queue = Arc::new(Queue::default());
        let observer: Arc<OnceLock<Observer>> = Arc::default();
        let writer = {
            let (place, mirror, end) = (place.clone(), mirror.handle(), end.clone());
            let (told, jobs) = (observer.clone(), Jobs(queue.clone()));
            let main = move || write_loop(&db, &place, (head, &end), &jobs, (&mirror, &told));
            std::thread::Builder::new().name("norma-log".into()).spawn(main).map_err(|source| Error::Io {
                action: "start the writer of",
                path: PathBuf::from("norma.db"),
                source,
            })?
        };
        let (layout, writer) = (layout.clone(), Some(writer));
        let store = Store { layout, journal, is_new: fresh, end, queue, writer, mirror, place, observer };
        if fresh {
            store.audit(Audit::Initialized { version: env!("CARGO_PKG_VERSION").to_owned() }).wait()?;
        }
        Ok(store)
    }

    /// Workers work to the writer.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        self.queue_up(Patience::None, move |tx| in_savepoint(tx, work))
    }

    fn queue_up<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        let (sender, answer) = oneshot::channel();
        // A writer that has stopped drops the work, and with it the sender: the ticket says `Stopped`.
        self.queue.push(Box::new(Submitted { work: Some(work), result: Err(Error::Stopped), sender }), patience);
        Ticket { answer, hurry: (patience == Patience::Some).then(|| self.queue.clone()) }
    }

    /// Appends facts, and what belongs to them, to a run's log; durable when this returns.
    pub fn append(&self, log: &mut RunLog, facts: Vec<Fact>, attached: impl Into<Attached>) -> Result<Arc<[Event]>> {
        let (events, end, ticket) = self.submit_append(log, facts, attached);
        ticket.wait()?;
        *log = end;
        Ok(events)
    }

    /// The same, for tasks that await many acknowledgements at once. The second item is the log's end once the
    /// ticket is acknowledged.
    pub fn submit_append(
        &self,
        log: &RunLog,
        facts: Vec<Fact>,
        attached: impl Into<Attached>,
    ) -> (Arc<[Event]>, RunLog, Ticket<()>) {
        self.append_as(Patience::None, log, facts, attached.into())
    }

    /// The same for facts that others follow before anybody waits: they share a commit with those.
    pub fn submit_patient(
        &self,
        log: &RunLog,
        facts: Vec<Fact>,
        attached: impl Into<Attached>,
    ) -> (Arc<[Event]>, RunLog, Ticket<()>) {
        self.append_as(Patience::Some, log, facts, attached.into())
    }

    fn append_as(
        &self,
        patience: Patience,
        log: &RunLog,
        facts: Vec<Fact>,
        attached: Attached,
    ) -> (Arc<[Event]>, RunLog, Ticket<()>) {
        let (appended, end) = log.prepare(facts, now(), self.observer.get().is_some());
        let events = appended.events.clone();
        let ticket = self.queue_up(patience, move |tx| tx.append(appended, &attached));
        (events, end, ticket)
    }

    /// Records a fact of the state directory.
    pub fn audit(&self, fact: Audit) -> Ticket<()> {
        self.submit(move |tx| tx.audit(&fact, now()))
    }

    /// The last line of the audit log: its number and hash.
    pub fn audit_head(&self) -> Result<(u64, Digest)> {
        self.submit(|tx| Ok(tx.ends.audit)).wait()
    }

    /// The same for whoever waits for it to change.
    pub fn audit_end(&self) -> Arc<AuditEnd> {
        self.end.clone()
    }

    /// Has somebody told of everything that is appended to the logs of runs from now on; there is one who is.
    pub fn observe(&self, observer: Observer) {
        assert!(self.observer.set(observer).is_ok(), "BUG: one server observes a state directory");
    }

    /// Refuses to continue if the database is no longer where it was opened: whatever is written now is lost.
    pub fn check_place(&self) -> Result<()> {
        self.place.check()
    }

    /// Waits until `events.jsonl` of a run has every committed line, on disk.
    pub fn sync_mirror(&self, slug: &str) -> Result<()> {
        // Whatever was acknowledged has been handed to the mirror before, in order.
        self.mirror.sync(slug.parse()?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.end();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        self.mirror.stop();
    }
}

fn in_savepoint<T>(tx: &mut Tx<'_>, work: impl FnOnce(&mut Tx<'_>) -> Result<T>) -> Result<T> {
    // Without a transaction around it a savepoint would commit by itself. There is none if BEGIN failed, or if
    // SQLite gave the whole transaction up (disk full, I/O error) under earlier work of this batch.
    if tx.db.is_autocommit() || tx.broken.is_some() {
        return Err(no_transaction());
    }
    let (audit, mirrored) = (tx.ends.audit, tx.mirrored.len());
    tx.db.prepare_cached("SAVEPOINT work")?.execute([])?;
    match work(tx) {
        Ok(value) => {
            tx.db.prepare_cached("RELEASE work")?.execute([])?;
            Ok(value)
        }
        Err(error) => {
            tx.ends.audit = audit;
            tx.mirrored.truncate(mirrored);
            tx.db.execute_batch("ROLLBACK TO work; RELEASE work")?;
            Err(error)
        }
    }
}

fn no_transaction() -> Error {
    Error::Commit("there is no transaction".into())
}

fn write_loop(
    db: &Connection,
    place: &Place,
    (audit, end): ((u64, Digest), &AuditEnd),
    jobs: &Jobs,
    (mirror, observer): (&crate::mirror::Handle, &OnceLock<Observer>),
) {
    let mut ends = Ends::new(audit);
    while let Some(mut batch) = jobs.0.take() {
        let committed = ends.audit;
        let told = observer.get().map(|_| Told::new());
        let outcome = commit_batch(db, place, (&mut ends, told), &mut batch);
        let (told, go_on) = match outcome {
            Ok((mirrored, told)) => {
                if let (Some(observer), Some(told)) = (observer.get(), told) {
                    told.iter().for_each(|(run, events)| observer(*run, events));
                }
                if ends.audit != committed {
                    end.publish(ends.audit, std::mem::take(&mut ends.sealed));
                }
                mirror.append(mirrored);
                (Ok(()), true)
            }
            // It did not come to a commit and was taken back: nothing is in doubt.
            Err(error) if not_begun(&error) => {
                ends = ends.after_failure(committed);
                (Err(Failed::from(error)), true)
            }
            // After a failed commit the disk's word cannot be relied on: write nothing more.
            Err(error) => (Err(Failed::from(error)), false),
        };
        for job in batch {
            job.answer(told.clone());
        }
        if !go_on {
            return;
        }
    }
}

/// Whether somebody else held the database for too long, or refused a row: neither says anything about the disk.
fn not_begun(error: &Error) -> bool {
    use rusqlite::ErrorCode::{ConstraintViolation, DatabaseBusy};
    matches!(error, Error::Sql(rusqlite::Error::SqliteFailure(e, _)) if matches!(e.code, DatabaseBusy | ConstraintViolation))
}

/// A commit that takes longer is worth telling: every step of a run waits for one.
const COMMIT_SLOW: Duration = Duration::from_millis(200);

/// What a commit made durable: lines for the mirrors, and the events of runs.
type Committed = (Vec<(Slug, String)>, Option<Told>);

fn commit_batch(
    db: &Connection,
    place: &Place,
    (ends, told): (&mut Ends, Option<Told>),
    batch: &mut [Box<dyn Job>],
) -> Result<Committed> {
    let mut tx = Tx { db, ends, mirrored: Vec::new(), told, broken: None };
    let begun = db.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
    for job in batch {
        job.carry_out(&mut tx);
    }
    begun?;
    let commit = || {
        let started = Instant::now();
        db.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]))?;
        let took = started.elapsed();
        tracing::trace!(target: "norma::store", ms = took.as_millis(), "commit");
        if took > COMMIT_SLOW {
            tracing::warn!(target: "norma::store", ms = took.as_millis(), "a commit took long; is the disk slow or busy?");
        }
        Ok(())
    };
    let whole = tx.broken.take().map_or(Ok(()), Err);
    if let Err(error) = whole.and_then(|()| place.check()).and_then(|()| commit()) {
        let _ = db.execute_batch("ROLLBACK");
        return Err(error);
    }
    crash::point("mirror.before_append");
    Ok((tx.mirrored, tx.told))
}

fn audit_head(db: &Connection) -> Result<(u64, Digest)> {
    let last: Option<(i64, String)> = db
        .query_row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match last {
        None => Ok((0, audit_start())),
        Some((seq, hash)) => {
            let damaged = |_| Error::Damaged { log: AUDIT_LOG.to_owned(), why: "the last hash is unreadable".into() };
            Ok((seq as u64, hash.parse().map_err(damaged)?))
        }
    }
}

/// The hash before the first line of the audit log.
pub(crate) fn audit_start() -> Digest {
    contract::hash::chain_start(AUDIT_LOG, &Digest::from_bytes([0; 32]))
}
