//! What may be used up: one ledger for all calls that are paid from the same budget, however many of them are under way at
//! once. A call reserves what it may use before it is made, so that the same tokens are not spent twice.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a call that waits for others looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Limits of what may be used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Tokens of all kinds, in and out.
    pub max_tokens: Option<u64>,
    /// Millionths of a dollar. With it, a model without a known price is not called: what it costs could not be held
    /// against the limit.
    pub max_cost_micro_usd: Option<u64>,
}

/// An amount of both kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Millionths of a dollar.
    pub cost_micro_usd: u64,
}

impl Amount {
    fn plus(self, other: Amount) -> Amount {
        Amount {
            tokens: self.tokens.saturating_add(other.tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_add(other.cost_micro_usd),
        }
    }

    fn minus(self, other: Amount) -> Amount {
        Amount {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost_micro_usd: self.cost_micro_usd.saturating_sub(other.cost_micro_usd),
        }
    }
}

/// A budget, and what was spent and is reserved of it. The call that crosses a limit is finished, since it is paid for;
/// what may cross it together with others waits for them.
#[derive(Debug, Default)]
pub struct Ledger {
    budget: Budget,
    entries: Mutex<Entries>,
    /// Told when a call is over.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct Entries {
    spent: Amount,
    reserved: Amount,
    /// Calls that are under way.
    open: u64,
}

/// What one call may use; given back when it is dropped, after what it did use was spent.
#[derive(Debug)]
pub(crate) struct Reservation<'l> {
    ledger: &'l Ledger,
    amount: Amount,
}

/// Why a call is not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotReserved {
    /// The budget is used up; in words.
    UsedUp(String),
    /// Nobody waits for it any more.
    Unwanted,
}

impl Ledger {
    /// A ledger of which this much is spent already.
    pub fn new(budget: Budget, spent: Amount) -> Ledger {
        Ledger { budget, entries: Mutex::new(Entries { spent, ..Entries::default() }), settled: Condvar::new() }
    }

    pub(crate) fn has_cost_limit(&self) -> bool {
        self.budget.max_cost_micro_usd.is_some()
    }

    /// Reserves what a call may use. It waits while others that are under way may use up what it needs; a call that is
    /// alone is let through as long as anything is left.
    pub(crate) fn reserve(&self, amount: Amount, is_wanted: impl Fn() -> bool) -> Result<Reservation<'_>, NotReserved> {
        let mut entries = self.lock();
        loop {
            if let Some(problem) = self.used_up(entries.spent) {
                return Err(NotReserved::UsedUp(problem));
            }
            let together = entries.spent.plus(entries.reserved).plus(amount);
            if entries.open == 0 || self.allows(together) {
                entries.open += 1;
                entries.reserved = entries.reserved.plus(amount);
                return Ok(Reservation { ledger: self, amount });
            }
            if !is_wanted() {
                return Err(NotReserved::Unwanted);
            }
            entries = self.settled.wait_timeout(entries, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Puts down what a call used.
    pub(crate) fn spend(&self, amount: Amount) {
        let mut entries = self.lock();
        entries.spent = entries.spent.plus(amount);
    }

    fn allows(&self, amount: Amount) -> bool {
        self.budget.max_tokens.is_none_or(|most| amount.tokens <= most)
            && self.budget.max_cost_micro_usd.is_none_or(|most| amount.cost_micro_usd <= most)
    }

    fn used_up(&self, Amount { tokens, cost_micro_usd: cost }: Amount) -> Option<String> {
        if let Some(most) = self.budget.max_tokens.filter(|&most| tokens >= most) {
            return Some(format!("the token budget is used up: {tokens} of {most}; the call was not made"));
        }
        let most = self.budget.max_cost_micro_usd.filter(|&most| cost >= most)?;
        Some(format!("the cost budget is used up: {cost} of {most} millionths of a dollar; the call was not made"))
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut entries = self.ledger.lock();
        entries.open -= 1;
        entries.reserved = entries.reserved.minus(self.amount);
        self.ledger.settled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn tokens(tokens: u64) -> Amount {
        Amount { tokens, cost_micro_usd: 0 }
    }

    fn ledger(most: u64) -> Ledger {
        Ledger::new(Budget { max_tokens: Some(most), max_cost_micro_usd: None }, Amount::default())
    }

    #[test]
    fn what_is_reserved_is_not_given_to_another() {
        let ledger = ledger(100);
        let first = ledger.reserve(tokens(60), || true).unwrap();
        assert_eq!(ledger.reserve(tokens(60), || false).unwrap_err(), NotReserved::Unwanted);
        let small = ledger.reserve(tokens(40), || false).unwrap();
        drop((first, small));
        drop(ledger.reserve(tokens(500), || false).expect("one that is alone may cross the limit"));
        ledger.spend(tokens(100));
        assert!(matches!(ledger.reserve(tokens(1), || true), Err(NotReserved::UsedUp(_))));
    }

    #[test]
    fn many_calls_at_once_spend_no_more_than_the_limit_and_one_call() {
        let (ledger, spent) = (ledger(1000), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..60 {
                scope.spawn(|| {
                    if let Ok(reserved) = ledger.reserve(tokens(120), || true) {
                        ledger.spend(tokens(120));
                        spent.fetch_add(120, Ordering::Relaxed);
                        drop(reserved);
                    }
                });
            }
        });
        assert_eq!(spent.into_inner(), 1080);
    }
}
