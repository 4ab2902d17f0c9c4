//! What was submitted to the log's writer and is not committed yet. One lock guards all of it, so that what nobody waits for
//! yet does not wake the writer, as a channel would, and the writer takes everything at once.

use crate::log::Job;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How much work one transaction may hold; bounds the time an early submitter waits for late ones.
const BATCH_MAX: usize = 1024;

/// Whether work may wait for other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Somebody waits for it.
    None,
    /// Nobody waits for it yet.
    Some,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Box<dyn Job>>,
    /// Whether somebody waits for some of them.
    hurried: bool,
    /// Whether the writer sleeps.
    asleep: bool,
    /// Whether no more will come.
    ended: bool,
    /// Whether the writer takes nothing any more.
    stopped: bool,
}

impl Queue {
    /// Adds work; it is dropped if the writer has stopped.
    pub(crate) fn push(&self, job: Box<dyn Job>, patience: Patience) {
        let mut state = self.lock();
        if state.stopped {
            return;
        }
        state.jobs.push_back(job);
        state.hurried |= patience == Patience::None || state.jobs.len() >= BATCH_MAX;
        self.wake(state);
    }

    /// Somebody waits for what was patient. Without any, it was committed with something else before.
    pub(crate) fn hurry(&self) {
        let mut state = self.lock();
        state.hurried |= !state.jobs.is_empty();
        self.wake(state);
    }

    /// No more will come: the writer ends after what there is.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.wake(state);
    }

    /// Everything that is queued, once somebody waits for some of it; none when no more will come.
    pub(crate) fn take(&self) -> Option<Vec<Box<dyn Job>>> {
        let mut state = self.lock();
        while !state.hurried && !state.ended {
            state.asleep = true;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        let count = state.jobs.len().min(BATCH_MAX);
        let batch: Vec<_> = state.jobs.drain(..count).collect();
        state.hurried = !state.jobs.is_empty();
        (!batch.is_empty()).then_some(batch)
    }

    /// Wakes the writer if it has something to do: being told costs a system call even if it is awake.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let is_due = (state.hurried || state.ended) && std::mem::take(&mut state.asleep);
        drop(state);
        if is_due {
            self.more.notify_one();
        }
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's end of the queue: without it nothing is taken any more, however the writer ended.
pub(crate) struct Jobs(pub(crate) Arc<Queue>);

impl Drop for Jobs {
    fn drop(&mut self) {
        self.0.stop();
    }
}
