//! What was used up so far, and what may still be.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::Budget;
use crate::price::Prices;
use crate::refusal::Refusal;
use crate::usage::Usage;

/// What a gateway did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were let through to the provider, whatever came of it, or answered from a recording.
    pub calls: u64,
    /// Requests that norma did not forward, whatever the reason.
    pub refused: u64,
    /// What all calls used up. The cost is that of the calls whose price is known.
    pub usage: Usage,
    /// Calls that cost something unknown.
    pub unpriced_calls: u64,
    /// Calls whose count did not arrive and was estimated.
    pub estimated_calls: u64,
    /// Whether a call was not made because the budget was used up, or could not be held against it.
    pub refused_for_budget: bool,
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

/// Counts, and checks against the budget.
pub(crate) struct Meter {
    budget: Budget,
    totals: Mutex<Totals>,
}

impl Meter {
    pub(crate) fn new(budget: Budget) -> Meter {
        Meter { budget, totals: Mutex::new(Totals::default()) }
    }

    pub(crate) fn totals(&self) -> Totals {
        self.lock().clone()
    }

    /// Changes the totals.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.lock());
    }

    /// Notes how the provider treated a call.
    pub(crate) fn answered(&self, is_metered: bool, error: Option<(u16, Option<u64>)>) {
        let is_passing = |status: u16| matches!(status, 408 | 429 | 500..=599);
        self.note(|totals| {
            totals.last_error = error;
            if is_metered {
                let failed = error.is_some_and(|(status, _)| is_passing(status));
                totals.failures_in_a_row = if failed { totals.failures_in_a_row + 1 } else { 0 };
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
    }

    /// Whether a call to that model may be made.
    pub(crate) fn check(&self, prices: &Prices, model: Option<&str>, failures_max: u32) -> Result<(), Refusal> {
        let mut totals = self.lock();
        if let Some((status, _)) = totals.last_error.filter(|_| totals.failures_in_a_row >= failures_max) {
            return Err(Refusal::given_up(totals.failures_in_a_row, status));
        }
        let problem = self.over(&totals).or_else(|| self.unpriced(prices, model));
        let Some(problem) = problem else { return Ok(()) };
        totals.refused_for_budget = true;
        Err(Refusal::budget(&problem))
    }

    fn over(&self, totals: &Totals) -> Option<String> {
        let used = totals.usage.tokens();
        if let Some(most) = self.budget.max_tokens.filter(|&most| used >= most) {
            return Some(format!("the token budget is used up: {used} of {most}; the call was not made"));
        }
        let cost = totals.usage.cost_micro_usd.unwrap_or(0);
        let most = self.budget.max_cost_micro_usd.filter(|&most| cost >= most)?;
        Some(format!("the cost budget is used up: {cost} of {most} millionths of a dollar; the call was not made"))
    }

    fn unpriced(&self, prices: &Prices, model: Option<&str>) -> Option<String> {
        self.budget.max_cost_micro_usd?;
        match model {
            Some(model) if prices.of(model).is_some() => None,
            Some(model) => Some(format!("there is a cost budget, and no price is known for {model:?}")),
            None => Some("there is a cost budget, and the request names no model".to_owned()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
