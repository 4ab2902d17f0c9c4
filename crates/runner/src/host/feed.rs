//! Who watches a run: events that are on record, with the run as it is with them, and what agents are in the middle of,
//! which is on no record. Nobody who watches can hold up the run: one who is too slow misses some of it, sees that by the
//! numbers of the events, and reads them from the log.

use crate::record::Progress;
use crate::{Answer, News};
use contract::{Event, SessionEvent, Slug, StepRef};
use run::Run;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How far somebody who watches may be behind.
const BEHIND_MAX: usize = 1024;

/// Something that is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// These events are durable, and this is the run with them.
    Recorded(Arc<Run>, Arc<[Event]>),
    /// This is on no record.
    Uncommitted(Delta),
    /// Nobody works on the run any more: it has ended, is held, or could not continue for this reason.
    Over(Option<Answer>),
}

/// Something that is seen while it happens, and may never be on record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// An agent is in the middle of something.
    Agent {
        /// Its turn.
        step: StepRef,
        /// What.
        event: Box<SessionEvent>,
    },
    /// Something takes its time before an agent can start.
    Preparing(News),
}

#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<State>,
}

enum State {
    Open(Vec<SyncSender<Told>>),
    /// Nobody works on the run any more.
    Over(Option<Answer>),
}

impl Default for State {
    fn default() -> State {
        State::Open(Vec::new())
    }
}

impl Feed {
    /// Watches from now on.
    pub(crate) fn watch(&self) -> Receiver<Told> {
        let (sender, receiver) = sync_channel(BEHIND_MAX);
        match &mut *self.lock() {
            State::Over(outcome) => drop(sender.try_send(Told::Over(outcome.clone()))),
            State::Open(watching) => watching.push(sender),
        }
        receiver
    }

    pub(crate) fn tell(&self, told: &Told) {
        let is_there =
            |sender: &SyncSender<Told>| !matches!(sender.try_send(told.clone()), Err(TrySendError::Disconnected(_)));
        if let State::Open(watching) = &mut *self.lock() {
            watching.retain(is_there);
        }
    }

    /// Tells that nobody works on the run any more. Who is too far behind to be told finds the feed closed.
    pub(crate) fn end(&self, outcome: Option<Answer>) {
        self.tell(&Told::Over(outcome.clone()));
        *self.lock() = State::Over(outcome);
    }

    fn is_watched(&self) -> bool {
        matches!(&*self.lock(), State::Open(watching) if !watching.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Is told what agents are in the middle of, of every run; on the thread that speaks with the agent, so it hands it on
/// and does nothing else.
pub type DeltaObserver = Box<dyn Fn(Slug, StepRef, &SessionEvent) + Send + Sync>;

/// What tells a feed what is recorded.
pub(crate) struct Telling {
    pub(crate) slug: Slug,
    pub(crate) feed: Arc<Feed>,
    /// Who watches every run.
    pub(crate) observer: Arc<OnceLock<DeltaObserver>>,
}

impl Progress for Telling {
    fn recorded(&mut self, run: &Arc<Run>, events: &Arc<[Event]>) {
        if self.feed.is_watched() {
            self.feed.tell(&Told::Recorded(run.clone(), events.clone()));
        }
    }

    fn delta(&mut self, step: StepRef, event: &SessionEvent) {
        if let Some(told) = self.observer.get() {
            told(self.slug, step, event);
        }
        if self.feed.is_watched() {
            self.feed.tell(&Told::Uncommitted(Delta::Agent { step, event: Box::new(event.clone()) }));
        }
    }
}
