//! `events.jsonl`: the log again, as a file that people and tools can follow. It is written after the commit by
//! a thread of its own, so that nobody waits for it. It is always a prefix of the log; what a crash cut off is
//! completed from the database at the next start.
//!
//! Lines are in the file at once and on disk soon: a barrier for each line would keep the disk from the barriers
//! somebody does wait for, those of the log itself. So it comes when nothing was written for a moment, at the
//! latest after a while, and always before anything is sealed ([`Mirror::sync`]).

use crate::{Error, IoContext, Layout, Result, crash};
use contract::Slug;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

enum Order {
    Append(Vec<(Slug, String)>),
    Sync(Slug, mpsc::SyncSender<Result<()>>),
}

/// Workers lines to the mirror.
pub(crate) struct Handle(mpsc::Sender<Order>);

impl Handle {
    /// Appends what one commit held to its files, some time soon and in order.
    pub(crate) fn append(&self, lines: Vec<(Slug, String)>) {
        if !lines.is_empty() {
            let _ = self.0.send(Order::Append(lines));
        }
    }
}

/// The thread and the way to it.
pub(crate) struct Mirror {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Mirror {
    pub(crate) fn start(layout: &Layout) -> Mirror {
        let (orders, queue) = mpsc::channel();
        let files = Files::new(layout);
        let thread = std::thread::Builder::new().name("norma-mirror".into()).spawn(move || work(files, &queue)).ok();
        Mirror { orders: Some(orders), thread }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle(self.orders.clone().expect("BUG: the mirror is running"))
    }

    /// Waits until everything handed over so far is in the file, and the file on disk.
    pub(crate) fn sync(&self, slug: Slug) -> Result<()> {
        let (sender, answer) = mpsc::sync_channel(1);
        if let Some(orders) = &self.orders {
            let _ = orders.send(Order::Sync(slug, sender));
        }
        answer.recv().unwrap_or(Err(Error::Stopped))
    }

    pub(crate) fn stop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How many files are kept open: as many as runs are active at once. More only cost a barrier and a second open.
const OPEN_FILES_MAX: usize = 256;

/// How long nothing has to be written before what is there is synced: longer than the pauses within a burst of
/// facts, shorter than anybody notices.
const SYNC_PAUSE: Duration = Duration::from_millis(20);

/// How long a line waits for its barrier when the writing never pauses.
const SYNC_DELAY_MAX: Duration = Duration::from_secs(1);

fn work(mut files: Files, queue: &mpsc::Receiver<Order>) {
    loop {
        let order = match files.patience() {
            None => queue.recv().map_err(RecvTimeoutError::from),
            Some(patience) => queue.recv_timeout(patience),
        };
        match order {
            Ok(Order::Append(lines)) => lines.iter().for_each(|(slug, lines)| files.append(*slug, lines)),
            Ok(Order::Sync(slug, answer)) => {
                let _ = answer.send(files.sync(slug));
            }
            Err(RecvTimeoutError::Timeout) => files.sync_all(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    files.sync_all();
}

fn path(layout: &Layout, slug: &Slug) -> PathBuf {
    layout.run(slug).join("events.jsonl")
}

/// A file that is being written, and whether it has lines that are not on disk yet.
struct Open {
    path: PathBuf,
    file: File,
    dirty: bool,
}

struct Files {
    layout: Layout,
    open: HashMap<Slug, Open>,
    /// Since when a line waits for its barrier.
    dirty_since: Option<Instant>,
    /// Files that could not be written, with the error that stopped each.
    failed: HashMap<Slug, String>,
}

impl Files {
    fn new(layout: &Layout) -> Files {
        Files { layout: layout.clone(), open: HashMap::new(), dirty_since: None, failed: HashMap::new() }
    }

    /// How long the next order may take before a barrier is due; `None`: for ever.
    fn patience(&self) -> Option<Duration> {
        let waited = self.dirty_since?.elapsed();
        Some(SYNC_PAUSE.min(SYNC_DELAY_MAX.saturating_sub(waited)))
    }

    fn append(&mut self, slug: Slug, lines: &str) {
        // A file that failed once would get a gap if it were continued; recovery completes it instead.
        if self.failed.contains_key(&slug) {
            return;
        }
        if let Err(error) = self.try_append(slug, lines) {
            self.failed.insert(slug, error.to_string());
        }
        crash::point("mirror.after_append");
    }

    fn try_append(&mut self, slug: Slug, lines: &str) -> Result<()> {
        if self.open.len() >= OPEN_FILES_MAX && !self.open.contains_key(&slug) {
            self.sync_all();
            self.open.clear();
        }
        let open = match self.open.entry(slug) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let path = path(&self.layout, &slug);
                let file = File::options().create(true).append(true).open(&path).at("open", &path)?;
                place.insert(Open { path, file, dirty: false })
            }
        };
        open.dirty = true;
        self.dirty_since.get_or_insert_with(Instant::now);
        open.file.write_all(lines.as_bytes()).at("write", &open.path)
    }

    fn sync_all(&mut self) {
        for (slug, open) in self.open.iter_mut().filter(|(_, open)| open.dirty) {
            open.dirty = false;
            if let Err(error) = open.file.sync_data() {
                self.failed.insert(*slug, error.to_string());
            }
        }
        self.dirty_since = None;
    }

    /// Brings one file to disk and closes it; the others keep their pace.
    fn sync(&mut self, slug: Slug) -> Result<()> {
        if let Some(open) = self.open.remove(&slug).filter(|open| open.dirty)
            && let Err(error) = open.file.sync_data()
        {
            self.failed.insert(slug, error.to_string());
        }
        match self.failed.get(&slug) {
            Some(why) => {
                let path = path(&self.layout, &slug);
                Err(Error::Commit(format!("could not mirror the log to {}: {why}", path.display())))
            }
            None => Ok(()),
        }
    }
}
