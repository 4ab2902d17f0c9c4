//! Where the audit log ends, for whoever waits for that to change: a thread that keeps checkpoints sleeps here until
//! there is something to keep, and costs nothing meanwhile.

use contract::Digest;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The end of the audit log, shared by its writer and by who waits for it to move.
pub struct AuditEnd {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    head: (u64, Digest),
    /// Whether nobody should wait for more.
    urgent: bool,
    closed: bool,
}

impl AuditEnd {
    pub(crate) fn new(head: (u64, Digest)) -> AuditEnd {
        AuditEnd { state: Mutex::new(State { head, urgent: false, closed: false }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says where the log ends after a commit.
    pub(crate) fn publish(&self, head: (u64, Digest), urgent: bool) {
        let mut state = self.lock();
        state.head = head;
        state.urgent |= urgent;
        self.changed.notify_all();
    }

    /// There will be no more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until the log ends elsewhere than at line `seen`, and then for more, up to `delay` or until a run is
    /// sealed. `None`: it is closed, and there is nothing new.
    pub fn next(&self, seen: u64, delay: Duration) -> Option<(u64, Digest)> {
        let mut state = self.lock();
        while state.head.0 == seen && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + delay;
        while !state.urgent && !state.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.urgent = false;
        (state.head.0 != seen).then_some(state.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn at(seq: u64) -> (u64, Digest) {
        (seq, contract::hash::sha256(&seq.to_le_bytes()))
    }

    #[test]
    fn a_change_is_told_after_the_delay_and_a_seal_at_once() {
        let end = AuditEnd::new(at(1));
        end.publish(at(2), false);
        end.publish(at(3), false);
        assert_eq!(end.next(1, Duration::from_millis(1)), Some(at(3)));
        end.publish(at(4), true);
        assert_eq!(end.next(3, LONG), Some(at(4)));
    }

    #[test]
    fn what_is_new_at_the_end_is_told_once() {
        let end = AuditEnd::new(at(1));
        end.publish(at(2), false);
        end.close();
        assert_eq!(end.next(1, LONG), Some(at(2)));
        assert_eq!(end.next(2, LONG), None);
    }

    #[test]
    fn who_waits_is_woken() {
        let end = AuditEnd::new(at(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| end.next(1, LONG));
            end.publish(at(2), true);
            assert_eq!(waiting.join().unwrap(), Some(at(2)));
            let waiting = scope.spawn(|| end.next(2, LONG));
            end.close();
            assert_eq!(waiting.join().unwrap(), None);
        });
    }
}
