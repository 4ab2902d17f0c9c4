//! A request to stop, shared by everything that should stop together.
//!
//! The request is an eventfd that becomes readable once and stays so: every poll loop that watches
//! it wakes, whether it runs already or starts later, and nobody has to be told twice. A flag alone
//! would leave a sleeping poll asleep; a channel would wake only one of many.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Stops every [`run`](super::run) it is given to. Clones are the same request.
#[derive(Clone, Debug)]
pub struct Cancel {
    request: Arc<Request>,
}

#[derive(Debug)]
struct Request {
    made: AtomicBool,
    wakeup: OwnedFd,
}

impl Cancel {
    /// A request that has not been made yet.
    pub fn new() -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let made = AtomicBool::new(false);
        Ok(Self { request: Arc::new(Request { made, wakeup }) })
    }

    /// Makes the request. Callable from any thread, any number of times; there is no way back.
    pub fn cancel(&self) {
        self.request.made.store(true, Ordering::SeqCst);
        // The only possible failure is a full counter, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.request.wakeup, &1u64.to_ne_bytes());
    }

    /// Whether the request was made.
    pub fn is_canceled(&self) -> bool {
        self.request.made.load(Ordering::SeqCst)
    }

    /// A descriptor of one's own that is readable from the moment the request is made.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.request.wakeup.try_clone()
    }

    /// Readable from the moment the request is made; never read from, so that it stays readable.
    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.request.wakeup.as_fd()
    }
}
