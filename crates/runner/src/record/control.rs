//! How a run is asked to stop, and its turns to look for their answers, by somebody who does not work on it.

use crate::process::Cancel;
use crate::record::answers::{Waiter, Waiters};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub cancel: Cancel,
    waiters: Waiters,
    /// Ends the turn of one node, by its place; all of them end with the run's.
    nodes: Arc<Mutex<BTreeMap<u32, Cancel>>>,
}

impl Control {
    /// Nothing is asked yet.
    pub fn new() -> Result<Control> {
        let cancel = Cancel::new().map_err(|source| Error::io("make a wake-up for", Path::new("the run"), source))?;
        Ok(Control { requested: Arc::default(), cancel, waiters: Default::default(), nodes: Arc::default() })
    }

    /// Asks for a stop; a cancel is not weakened by a later interrupt.
    pub fn request(&self, stop: Stop) {
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        if *requested != Some(Stop::Cancel) {
            *requested = Some(stop);
        }
        self.cancel.cancel();
        self.nodes().values().for_each(Cancel::cancel);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u32, Cancel>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the turn of a node be ended by itself, while it lasts.
    pub(crate) fn begin_node(&self, node: u32) -> Result<Cancel> {
        let made = Cancel::new().map_err(|source| Error::io("make a wake-up for", Path::new("a turn"), source))?;
        self.nodes().insert(node, made.clone());
        // Whoever asked before it was there is heard, too.
        if self.requested().is_some() {
            made.cancel();
        }
        Ok(made)
    }

    /// The turn of a node is over.
    pub(crate) fn end_node(&self, node: u32) {
        self.nodes().remove(&node);
    }

    /// Ends the turn of a node, if it has one.
    pub(crate) fn interrupt_node(&self, node: u32) {
        self.nodes().get(&node).into_iter().for_each(Cancel::cancel);
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
