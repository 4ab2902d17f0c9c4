//! Whether a call is made again that the provider failed as it may fail anybody for a while, and when.

use std::time::{Duration, Instant};

use crate::connection::Next;
use crate::exchange::Retried;
use crate::options::Retries;

/// The attempts at one call.
pub(super) struct Attempts {
    retries: Retries,
    since: Instant,
    pub(super) made: u32,
}

/// The result of an attempt.
pub(super) enum Attempt {
    /// The program has its answer, or does not wait for one.
    Over(Next),
    /// Nothing of it reached the program, and it is worth another one after this pause.
    Again(Retried, Duration),
}

impl Attempts {
    pub(super) fn new(retries: Retries) -> Attempts {
        Attempts { retries, since: Instant::now(), made: 1 }
    }

    /// How long to wait before the next one, if there is to be one; `asked` is what the provider asked for, in seconds.
    pub(super) fn pause(&self, asked: Option<u64>) -> Option<Duration> {
        let doubled = self.retries.pause.saturating_mul(1 << (self.made - 1).min(16));
        let pause = doubled.min(Retries::PAUSE_MAX).max(Duration::from_secs(asked.unwrap_or(0)));
        (self.since.elapsed().saturating_add(pause) < self.retries.patience).then_some(pause)
    }
}

/// Whether a status says that the provider may answer the same call a little later.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_what_the_provider_asks_for_counts_where_it_is_longer() {
        let retries = Retries { patience: Duration::from_secs(120), pause: Duration::from_secs(1) };
        let pause = |made, asked| Attempts { made, ..Attempts::new(retries) }.pause(asked).map(|pause| pause.as_secs());
        assert_eq!([1, 2, 3, 40].map(|made| pause(made, None)), [Some(1), Some(2), Some(4), Some(30)]);
        assert_eq!([pause(1, Some(17)), pause(4, Some(2)), pause(1, Some(120))], [Some(17), Some(8), None]);
        assert_eq!(Attempts::new(Retries::NONE).pause(None), None);
    }
}
