//! Turns that may come to wait for a person's answer. The answer is a fact of the state directory; whoever puts one on
//! record for this run has the turns look, so that none of them has to ask the store again and again.

use crate::process::Wake;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The turns of a run that are under way. Clones are the same turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<Vec<Wake>>>);

impl Waiters {
    /// Lets a turn be woken for as long as what is returned lives. Asked before the turn's first question: an answer
    /// that comes before the turn waits for it wakes it all the same.
    pub(crate) fn join(&self) -> io::Result<Waiter> {
        let wake = Wake::new()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake.clone());
        Ok(Waiter { wake, of: self.clone() })
    }

    /// Has every turn look for its answer; one that waits for none sleeps on.
    pub(crate) fn wake(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Wake::wake);
    }
}

/// A turn that can be woken.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) wake: Wake,
    of: Waiters,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.of.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !other.is(&self.wake));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_is_over_is_not_woken_any_more() {
        let waiters = Waiters::default();
        let (first, second) = (waiters.join().unwrap(), waiters.clone().join().unwrap());
        let left = || waiters.0.lock().unwrap().len();
        assert_eq!(left(), 2);
        drop(first);
        assert_eq!(left(), 1);
        assert!(waiters.0.lock().unwrap()[0].is(&second.wake));
        drop(second);
        assert_eq!(left(), 0);
    }
}
