//! How a run is asked to stop, and its turns to look for their answers, by somebody who does not work on it.

use crate::record::answers::{Waiter, Waiters};
use crate::{Error, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Why the loop should stop before the run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Leave it paused; it can continue later.
    Interrupt,
    /// The server ends: leave it paused for the next one to continue.
    Shutdown,
    /// End it.
    Cancel,
}

/// The way to ask a run to stop, from a signal handler's thread or another terminal.
#[derive(Clone)]
pub struct Control {
    requested: Arc<Mutex<Option<Stop>>>,
    /// Ends the turn that is under way.
    pub cancel: crate::process::Cancel,
    waiters: Waiters,
}

impl Control {
    /// Nothing is asked yet.
    pub fn new() -> Result<Control> {
        let cancel = crate::process::Cancel::new()
            .map_err(|source| Error::io("make a wake-up for", Path::new("the run"), source))?;
        Ok(Control { requested: Arc::default(), cancel, waiters: Default::default() })
    }

    /// Asks for a stop; a cancel is not weakened by a later interrupt.
    pub fn request(&self, stop: Stop) {
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        if *requested != Some(Stop::Cancel) {
            *requested = Some(stop);
        }
        self.cancel.cancel();
    }

    /// Has the turns that wait for a person look for their answers.
    pub fn wake_turns(&self) {
        self.waiters.wake();
    }

    /// Lets a turn be woken while it lasts.
    pub(crate) fn join_turn(&self) -> Result<Waiter> {
        self.waiters.join().map_err(|source| Error::io("make a wake-up for", Path::new("a turn"), source))
    }

    /// What was asked.
    pub fn requested(&self) -> Option<Stop> {
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
