//! What was used up so far, and what may still be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::{Amount, Ledger, NotReserved, Reservation};
use crate::forward::is_passing;
use crate::price::Prices;
use crate::refusal::Refusal;
use crate::usage::Usage;

/// What a gateway did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were let through to the provider, whatever came of it, or answered from a recording.
    pub calls: u64,
    /// Attempts after which a call was made again, because the provider failed it as it may fail anybody for a while.
    pub retries: u64,
    /// Requests that norma did not forward, whatever the reason.
    pub refused: u64,
    /// What all calls used up. The cost is that of the calls whose price is known.
    pub usage: Usage,
    /// Calls that cost something unknown.
    pub unpriced_calls: u64,
    /// Calls whose count did not arrive and was estimated.
    pub estimated_calls: u64,
    /// Why the first call was not made because the budget was used up, or could not be held against it.
    pub refused_for_budget: Option<String>,
    /// Why the first call was refused by which the provider would have reached something else, if there was one.
    pub refused_for_network: Option<String>,
    /// Whether an exchange could not be recorded. Nothing is forwarded after that.
    pub record_failed: bool,
    /// The provider's last answer if it was an error: its status, and the seconds after which to ask again. One that broke
    /// off counts as 502.
    pub last_error: Option<(u16, Option<u64>)>,
    /// Calls to the model that the provider failed one after another, as it may fail anybody for a while.
    pub failures_in_a_row: u32,
    /// Requests for which no recording was found.
    pub mismatches: u64,
    /// How recordings were found.
    pub matched: Matched,
}

/// How recordings were found for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// By the very same body.
    pub exact: u64,
    /// By the same body but for ids and times.
    pub masked: u64,
    /// As the only one left that it could be.
    pub order: u64,
}

/// Counts, and holds calls to the ledger that they are paid from.
pub(crate) struct Meter {
    ledger: Arc<Ledger>,
    totals: Mutex<Totals>,
}

impl Meter {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Meter {
        Meter { ledger, totals: Mutex::new(Totals::default()) }
    }

    pub(crate) fn totals(&self) -> Totals {
        self.lock().clone()
    }

    /// Changes the totals.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.lock());
    }

    /// Notes how the provider treated a call, in the last of so many attempts.
    pub(crate) fn answered(&self, is_metered: bool, error: Option<(u16, Option<u64>)>, attempts: u32) {
        self.note(|totals| {
            totals.last_error = error;
            if is_metered {
                let failed = error.is_some_and(|(status, _)| is_passing(status));
                totals.failures_in_a_row = if failed { totals.failures_in_a_row + attempts } else { 0 };
            }
        });
    }

    /// Counts what a call used up.
    pub(crate) fn add(&self, usage: &Usage) {
        self.note(|totals| {
            totals.usage.add(usage);
            totals.unpriced_calls += u64::from(usage.cost_micro_usd.is_none());
            totals.estimated_calls += u64::from(usage.estimated);
        });
        self.ledger.spend(Amount { tokens: usage.tokens(), cost_micro_usd: usage.cost_micro_usd.unwrap_or(0) });
    }

    /// Lets a call to that model be made, once what it may use is reserved.
    pub(crate) fn admit(
        &self,
        prices: &Prices,
        model: Option<&str>,
        most: &Usage,
        failures_max: u32,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Reservation<'_>, Refusal> {
        let totals = self.totals();
        if let Some((status, _)) = totals.last_error.filter(|_| totals.failures_in_a_row >= failures_max) {
            return Err(Refusal::given_up(totals.failures_in_a_row, status));
        }
        let reserved = match self.unpriced(prices, model) {
            Some(problem) => Err(NotReserved::UsedUp(problem)),
            None => {
                let cost_micro_usd = most.cost_micro_usd.unwrap_or(0);
                self.ledger.reserve(Amount { tokens: most.tokens(), cost_micro_usd }, is_wanted)
            }
        };
        reserved.map_err(|not_reserved| match not_reserved {
            NotReserved::Unwanted => Refusal::budget("nobody waits for the call any more"),
            NotReserved::UsedUp(problem) => {
                self.note(|totals| {
                    totals.refused_for_budget.get_or_insert_with(|| problem.clone());
                });
                Refusal::budget(&problem)
            }
        })
    }

    fn unpriced(&self, prices: &Prices, model: Option<&str>) -> Option<String> {
        if !self.ledger.has_cost_limit() {
            return None;
        }
        match model {
            Some(model) if prices.of(model).is_some() => None,
            Some(model) => Some(Prices::missing(model)),
            None => Some("there is a cost budget, and the request names no model".to_owned()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
