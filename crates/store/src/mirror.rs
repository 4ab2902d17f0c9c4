//! `events.jsonl`: the log again, as a file that people and tools can follow. It is written after the commit by
//! a thread of its own, so that nobody waits for it. It is always a prefix of the log; what a crash cut off is
//! completed from the database at the next start.
//!
//! Lines are in the file at once and on disk soon: a barrier for each line would keep the disk from the barriers
//! somebody does wait for, those of the log itself. So it comes when nothing was written for a moment, at the
//! latest after a while, and always before anything is sealed ([`Mirror::sync`]).

use crate::{Error, IoContext, Result, crash};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

enum Order {
    Append(Vec<(PathBuf, Vec<u8>)>),
    Sync(PathBuf, mpsc::SyncSender<Result<()>>),
}

/// Workers lines to the mirror.
pub(crate) struct Handle(mpsc::Sender<Order>);

impl Handle {
    /// Appends what one commit held to its files, some time soon and in order.
    pub(crate) fn append(&self, lines: Vec<(PathBuf, Vec<u8>)>) {
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
    pub(crate) fn start() -> Mirror {
        let (orders, queue) = mpsc::channel();
        let thread = std::thread::Builder::new().name("norma-mirror".into()).spawn(move || work(&queue)).ok();
        Mirror { orders: Some(orders), thread }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle(self.orders.clone().expect("BUG: the mirror is running"))
    }

    /// Waits until everything handed over so far is in the file, and the file on disk.
    pub(crate) fn sync(&self, path: PathBuf) -> Result<()> {
        let (sender, answer) = mpsc::sync_channel(1);
        if let Some(orders) = &self.orders {
            let _ = orders.send(Order::Sync(path, sender));
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

fn work(queue: &mpsc::Receiver<Order>) {
    let mut files = Files::default();
    loop {
        let order = match files.patience() {
            None => queue.recv().map_err(RecvTimeoutError::from),
            Some(patience) => queue.recv_timeout(patience),
        };
        match order {
            Ok(Order::Append(lines)) => lines.into_iter().for_each(|(path, bytes)| files.append(path, &bytes)),
            Ok(Order::Sync(path, answer)) => {
                let _ = answer.send(files.sync(&path));
            }
            Err(RecvTimeoutError::Timeout) => files.sync_all(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    files.sync_all();
}

/// A file that is being written, and whether it has lines that are not on disk yet.
struct Open {
    file: File,
    dirty: bool,
}

#[derive(Default)]
struct Files {
    open: HashMap<PathBuf, Open>,
    /// Since when a line waits for its barrier.
    dirty_since: Option<Instant>,
    /// Files that could not be written, with the error that stopped each.
    failed: HashMap<PathBuf, String>,
}

impl Files {
    /// How long the next order may take before a barrier is due; `None`: for ever.
    fn patience(&self) -> Option<Duration> {
        let waited = self.dirty_since?.elapsed();
        Some(SYNC_PAUSE.min(SYNC_DELAY_MAX.saturating_sub(waited)))
    }

    fn append(&mut self, path: PathBuf, bytes: &[u8]) {
        // A file that failed once would get a gap if it were continued; recovery completes it instead.
        if self.failed.contains_key(&path) {
            return;
        }
        if let Err(error) = self.try_append(&path, bytes) {
            self.failed.insert(path, error.to_string());
        }
        crash::point("mirror.after_append");
    }

    fn try_append(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        if !self.open.contains_key(path) {
            if self.open.len() >= OPEN_FILES_MAX {
                self.sync_all();
                self.open.clear();
            }
            let file = File::options().create(true).append(true).open(path).at("open", path)?;
            self.open.insert(path.to_owned(), Open { file, dirty: false });
        }
        let open = self.open.get_mut(path).expect("BUG: just opened");
        open.dirty = true;
        self.dirty_since.get_or_insert_with(Instant::now);
        open.file.write_all(bytes).at("write", path)
    }

    fn sync_all(&mut self) {
        for (path, open) in self.open.iter_mut().filter(|(_, open)| open.dirty) {
            open.dirty = false;
            if let Err(error) = open.file.sync_data() {
                self.failed.insert(path.clone(), error.to_string());
            }
        }
        self.dirty_since = None;
    }

    /// Brings one file to disk and closes it; the others keep their pace.
    fn sync(&mut self, path: &Path) -> Result<()> {
        if let Some(open) = self.open.remove(path).filter(|open| open.dirty)
            && let Err(error) = open.file.sync_data()
        {
            self.failed.insert(path.to_owned(), error.to_string());
        }
        match self.failed.get(path) {
            Some(why) => Err(Error::Commit(format!("could not mirror the log to {}: {why}", path.display()))),
            None => Ok(()),
        }
    }
}
