//! Time that several programs use up together: while three of them run, it passes three times as fast.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a program may continue before it looks again whether others have joined.
const LOOK: Duration = Duration::from_secs(1);

/// The time that a run may still take. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Mutex<Used>>);

#[derive(Debug)]
struct Used {
    left: Duration,
    /// Since when each program runs that is not over.
    open: BTreeMap<u64, Instant>,
    next: u64,
}

/// One program's use of a clock, from here on until it is dropped.
#[derive(Debug)]
pub struct Running {
    clock: Clock,
    key: u64,
}

impl Clock {
    /// So much time is left for all together.
    pub fn new(left: Duration) -> Clock {
        Clock(Arc::new(Mutex::new(Used { left, open: BTreeMap::new(), next: 0 })))
    }

    /// One more program runs.
    pub fn start(&self) -> Running {
        let mut used = self.lock();
        let key = used.next;
        used.next += 1;
        used.open.insert(key, Instant::now());
        Running { clock: self.clone(), key }
    }

    /// Whether nothing is left.
    pub fn is_over(&self, now: Instant) -> bool {
        self.left(now).is_zero()
    }

    /// When to look again: when nothing will be left if nobody joins or leaves, or soon.
    pub(super) fn next_look(&self, now: Instant) -> Instant {
        let programs = u32::try_from(self.lock().open.len().max(1)).unwrap_or(u32::MAX);
        now + (self.left(now) / programs).min(LOOK)
    }

    /// What is left for all together.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        let used = self.lock();
        let running: Duration = used.open.values().map(|since| now.saturating_duration_since(*since)).sum();
        used.left.saturating_sub(running)
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut used = self.clock.lock();
        if let Some(since) = used.open.remove(&self.key) {
            used.left = used.left.saturating_sub(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_programs_use_it_up_together() {
        let clock = Clock::new(Duration::from_secs(60));
        let (one, two) = (clock.start(), clock.start());
        let now = Instant::now();
        assert!(!clock.is_over(now + Duration::from_secs(29)));
        assert!(clock.is_over(now + Duration::from_secs(31)));
        drop(two);
        assert!(!clock.is_over(now + Duration::from_secs(31)), "one alone has it for itself");
        assert!(clock.is_over(now + Duration::from_secs(61)));
        drop(one);
        assert!(!clock.is_over(now + Duration::from_secs(3600)), "nobody uses it");
    }

    #[test]
    fn it_is_looked_at_when_it_could_be_over_and_at_least_every_second() {
        let clock = Clock::new(Duration::from_millis(600));
        let (_one, _two) = (clock.start(), clock.start());
        let now = Instant::now();
        let soon = clock.next_look(now).saturating_duration_since(now);
        assert!(soon <= Duration::from_millis(300), "{soon:?}");
        let long = Clock::new(Duration::from_secs(600));
        assert_eq!(long.next_look(now), now + LOOK);
    }
}
