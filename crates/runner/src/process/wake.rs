//! A reason to look again, for one poll loop that waits for somebody else.
//!
//! The opposite of a [`Cancel`](super::Cancel): an eventfd that one loop reads from, so that it sleeps again, and that
//! can be made readable any number of times. What was made readable before the loop sleeps wakes it all the same, so no
//! answer is missed between a look and the sleep after it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the one loop that watches it. Clones wake the same loop.
#[derive(Clone, Debug)]
pub struct Wake {
    event: Arc<OwnedFd>,
}

impl Wake {
    /// Nobody is woken yet.
    pub fn new() -> io::Result<Wake> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wake { event: Arc::new(event) })
    }

    /// Has the loop look again. Callable from any thread, any number of times.
    pub fn wake(&self) {
        // The only possible failure is a full counter, and then the descriptor is readable already.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }

    /// Whether both wake the same loop.
    pub(crate) fn is(&self, other: &Wake) -> bool {
        Arc::ptr_eq(&self.event, &other.event)
    }

    /// Readable once somebody woke the loop, until that was taken.
    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Takes what there is, however often it was said.
    pub(super) fn take(&self) {
        // Nothing there to be taken is no failure.
        let _ = rustix::io::read(&*self.event, &mut [0; 8]);
    }
}
