//! Everybody who watches, and what they are told. One thread hears of every fact that was committed and of what agents
//! are in the middle of, in one order, projects each fact once, and puts the same text into the queue of everybody who
//! watches that run. A queue is bounded: whoever is too slow for it is let go, and comes back with a cursor.

use crate::problem::{Outcome, Problem};
use axum::extract::ws::Utf8Bytes;
use contract::view::stream::StreamEvent;
use contract::{Event, RunId, SessionEvent, Slug, StepRef};
use run::view::Projector;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc as queue, oneshot};

/// How far somebody may be behind, in facts and in bytes.
const BEHIND_MAX: usize = 1000;
const BEHIND_BYTES_MAX: usize = 4 << 20;
/// How much of what was told last is kept for those who come back.
const RECENT_MAX: usize = 512;
const RECENT_BYTES_MAX: usize = 1 << 20;
/// How many runs nobody watches are remembered.
const IDLE_MAX: usize = 32;

/// What is told of one fact, all of it at once; of a delta, which is of no fact, without a number.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) seq: Option<u64>,
    /// Each is one event, as JSON.
    pub(crate) texts: Arc<[Text]>,
}

/// An event as JSON, and its type.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) json: Utf8Bytes,
}

impl Batch {
    fn of(seq: Option<u64>, events: &[StreamEvent]) -> Batch {
        let spelled = |event| serde_json::to_string(event).expect("BUG: an event is plain data");
        Batch { seq, texts: events.iter().map(|event| Text { json: spelled(event).into() }).collect() }
    }

    fn bytes(&self) -> usize {
        self.texts.iter().map(|text| text.json.len()).sum::<usize>() + 64
    }
}

/// What the thread hears.
enum Said {
    Recorded(RunId, Vec<Event>),
    Delta(Slug, StepRef, Box<SessionEvent>),
    Watch { run: RunId, since: Option<u64>, answer: oneshot::Sender<Watching> },
    Loaded(RunId, Box<Projector>, u64),
}

/// One who watches a run.
pub(crate) struct Watching {
    /// The last fact that was told before; what is between it and where somebody wants to continue is in the log.
    pub(crate) seq: u64,
    /// Whether nobody has read this run's log yet; whoever is asked to does, and says so.
    is_unread: bool,
    /// Whether everything since the cursor is in the queue already.
    pub(crate) is_whole: bool,
    queue: queue::Receiver<Batch>,
    held: Arc<AtomicUsize>,
}

impl Watching {
    /// What comes next; none if this one was too slow, or nothing comes any more.
    pub(crate) async fn next(&mut self) -> Option<Batch> {
        let batch = self.queue.recv().await?;
        self.held.fetch_sub(batch.bytes(), Ordering::Relaxed);
        Some(batch)
    }

    /// The same, if there is something already.
    pub(crate) fn try_next(&mut self) -> Option<Batch> {
        match self.queue.try_recv() {
            Ok(batch) => {
                self.held.fetch_sub(batch.bytes(), Ordering::Relaxed);
                Some(batch)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}

/// Everybody who watches, by run.
#[derive(Clone)]
pub(crate) struct Hub {
    to: mpsc::Sender<Said>,
}

impl Hub {
    /// Starts the thread; it ends when nobody can say anything to it any more.
    pub(crate) fn start() -> std::io::Result<Hub> {
        let (to, heard) = mpsc::channel();
        std::thread::Builder::new().name("norma-hub".into()).spawn(move || {
            let mut board = Board::default();
            for said in heard {
                board.hear(said);
            }
        })?;
        Ok(Hub { to })
    }

    /// What the host tells of facts, and of what is on no record.
    pub(crate) fn observers(&self) -> (store::Observer, runner::DeltaObserver) {
        let (facts, deltas) = (self.to.clone(), self.to.clone());
        let recorded = move |run: RunId, events: &[Event]| drop(facts.send(Said::Recorded(run, events.to_vec())));
        let delta = move |slug, step, event: &SessionEvent| {
            if matches!(event, SessionEvent::MessageDelta { .. } | SessionEvent::Thought { .. }) {
                drop(deltas.send(Said::Delta(slug, step, Box::new(event.clone()))));
            }
        };
        (Box::new(recorded), Box::new(delta))
    }

    /// Watches a run; from after a fact on, if somebody comes back. `root` is where paths of artifacts begin.
    pub(crate) async fn watch(
        &self,
        run: RunId,
        since: Option<u64>,
        read: impl FnOnce() -> Outcome<(Projector, u64)> + Send + 'static,
    ) -> Outcome<Watching> {
        let watching = self.ask(run, since).await?;
        if !watching.is_unread {
            return Ok(watching);
        }
        // Everything from now on is kept for it, so nothing is between what it reads and what it is told.
        let loaded = tokio::task::spawn_blocking(read).await.map_err(|why| Problem::internal(&why))?;
        let (projector, seq) = loaded?;
        let _ = self.to.send(Said::Loaded(run, Box::new(projector), seq));
        self.ask(run, since).await
    }

    async fn ask(&self, run: RunId, since: Option<u64>) -> Outcome<Watching> {
        let (answer, told) = oneshot::channel();
        let _ = self.to.send(Said::Watch { run, since, answer });
        told.await.map_err(|_| Problem::internal(&"the hub has ended"))
    }
}

/// What the thread knows.
#[derive(Default)]
struct Board {
    runs: HashMap<RunId, Watched>,
    slugs: HashMap<Slug, RunId>,
}

/// A run that somebody watches, or has.
#[derive(Default)]
struct Watched {
    /// None while somebody reads its log.
    projector: Option<Box<Projector>>,
    /// The last fact that was told.
    seq: u64,
    /// What happened while its log was being read.
    pending: Vec<Event>,
    viewers: Vec<(queue::Sender<Batch>, Arc<AtomicUsize>)>,
    recent: VecDeque<Batch>,
    recent_bytes: usize,
}

impl Board {
    fn hear(&mut self, said: Said) {
        match said {
            Said::Recorded(run, events) => {
                if let Some(watched) = self.runs.get_mut(&run) {
                    watched.record(events);
                }
            }
            Said::Delta(slug, step, event) => {
                let Some(run) = self.slugs.get(&slug) else { return };
                let Some(watched) = self.runs.get_mut(run).filter(|watched| !watched.viewers.is_empty()) else {
                    return;
                };
                if let Some(event) = run::view::delta(run, store::new_uuid(), store::now(), step, &event) {
                    watched.tell(&Batch::of(None, &[event]));
                }
            }
            Said::Loaded(run, projector, seq) => {
                let Some(watched) = self.runs.get_mut(&run) else { return };
                if watched.projector.is_none() {
                    (watched.projector, watched.seq) = (Some(projector), seq);
                    let pending = std::mem::take(&mut watched.pending);
                    watched.record(pending);
                }
            }
            Said::Watch { run, since, answer } => {
                self.forget();
                self.slugs.insert(run.slug(), run);
                let watching = self.runs.entry(run).or_default().join(since);
                let _ = answer.send(watching);
            }
        }
    }

    /// Lets go of runs that nobody watches, if there are many.
    fn forget(&mut self) {
        let idle = |watched: &mut Watched| {
            watched.viewers.retain(|(queue, _)| !queue.is_closed());
            watched.viewers.is_empty()
        };
        if self.runs.values_mut().filter_map(|watched| idle(watched).then_some(())).count() > IDLE_MAX {
            self.runs.retain(|_, watched| !idle(watched));
            self.slugs.retain(|_, run| self.runs.contains_key(run));
        }
    }
}

impl Watched {
    fn record(&mut self, events: Vec<Event>) {
        if self.projector.is_none() {
            return self.pending.extend(events);
        }
        for event in &events {
            if event.seq <= self.seq {
                continue;
            }
            self.seq = event.seq;
            let Some(projector) = &mut self.projector else { return };
            let told = projector.apply(event);
            let batch = Batch::of(Some(event.seq), &told);
            self.keep(batch.clone());
            if !batch.texts.is_empty() {
                self.tell(&batch);
            }
        }
    }

    fn tell(&mut self, batch: &Batch) {
        let bytes = batch.bytes();
        self.viewers.retain(|(queue, held)| {
            let fits = held.fetch_add(bytes, Ordering::Relaxed) + bytes <= BEHIND_BYTES_MAX;
            fits && queue.try_send(batch.clone()).is_ok()
        });
    }

    fn keep(&mut self, batch: Batch) {
        self.recent_bytes += batch.bytes();
        self.recent.push_back(batch);
        while self.recent.len() > RECENT_MAX || self.recent_bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_bytes -= oldest.bytes();
        }
    }

    fn join(&mut self, since: Option<u64>) -> Watching {
        let (queue, receiver) = queue::channel(BEHIND_MAX);
        let held: Arc<AtomicUsize> = Arc::default();
        let mut watching =
            Watching { seq: self.seq, is_unread: self.projector.is_none(), is_whole: false, queue: receiver, held };
        if watching.is_unread {
            return watching;
        }
        let oldest = self.recent.front().and_then(|batch| batch.seq).unwrap_or(self.seq + 1);
        watching.is_whole = since.is_none_or(|since| since + 1 >= oldest);
        let missed = self.recent.iter().filter(|batch| since.is_some_and(|since| batch.seq > Some(since)));
        for batch in missed.filter(|batch| watching.is_whole && !batch.texts.is_empty()) {
            watching.held.fetch_add(batch.bytes(), Ordering::Relaxed);
            let _ = queue.try_send(batch.clone());
        }
        self.viewers.push((queue, watching.held.clone()));
        watching
    }
}

/// The batch of a fact of the past, as it was told.
pub(crate) fn batch(seq: u64, events: &[StreamEvent]) -> Batch {
    Batch::of(Some(seq), events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Watched {
        let run = store::new_run_id();
        Watched { projector: Some(Box::new(Projector::new(run, ""))), ..Watched::default() }
    }

    fn batch(seq: u64, bytes: usize) -> Batch {
        Batch { seq: Some(seq), texts: [Text { json: "x".repeat(bytes).into() }].into() }
    }

    fn received(watching: &mut Watching) -> usize {
        std::iter::from_fn(|| watching.try_next()).count()
    }

    #[test]
    fn whoever_reads_nothing_is_let_go_by_facts_and_by_bytes_and_others_are_not() {
        for (facts, bytes, held) in [(BEHIND_MAX + 5, 1, BEHIND_MAX), (10, BEHIND_BYTES_MAX / 4, 3)] {
            let mut watched = board();
            let (mut slow, mut quick) = (watched.join(None), watched.join(None));
            let mut read = 0;
            for seq in 1..=facts as u64 {
                watched.tell(&batch(seq, bytes));
                read += received(&mut quick);
            }
            assert_eq!((read, received(&mut slow)), (facts, held));
            assert!(slow.queue.is_closed() && !quick.queue.is_closed());
        }
    }

    #[test]
    fn whoever_comes_back_soon_is_told_what_they_missed_and_nothing_twice() {
        let mut watched = board();
        for seq in 1..=(RECENT_MAX as u64 + 10) {
            watched.seq = seq;
            watched.keep(batch(seq, 1));
        }
        let last = watched.seq;
        let mut missed = watched.join(Some(last - 3));
        assert!(missed.is_whole);
        let seqs: Vec<Option<u64>> = std::iter::from_fn(|| missed.try_next()).map(|batch| batch.seq).collect();
        assert_eq!(seqs, [last - 2, last - 1, last].map(Some));
        assert!(!watched.join(Some(1)).is_whole, "what is not kept is read from the log");
        assert_eq!(received(&mut watched.join(None)), 0, "history is for those who ask");
    }
}
