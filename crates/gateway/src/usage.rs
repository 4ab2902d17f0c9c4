//! What an answer used up, read out of it while it passes through.

mod count;
mod observe;
mod sse;

use serde::{Deserialize, Serialize};

pub(crate) use observe::{Observed, Observer, unanswered};

/// What calls used up, in the same terms for all providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// All that was sent, from a cache or not.
    pub input_tokens: u64,
    /// The part of `input_tokens` that the provider had in its cache.
    pub cached_tokens: u64,
    /// The part of `input_tokens` that was put into the cache, where that has a price of its own.
    pub cache_write_tokens: u64,
    /// The part of `cache_write_tokens` that is kept there for an hour, which costs more.
    pub cache_write_hour_tokens: u64,
    /// All that was generated, shown or not.
    pub output_tokens: u64,
    /// The part of `output_tokens` that was thought.
    pub reasoning_tokens: u64,
    /// Millionths of a dollar; none if the model's price is unknown.
    pub cost_micro_usd: Option<u64>,
    /// Whether the provider's own count did not arrive, and this one is made from sizes. It is rather too high.
    pub estimated: bool,
}

impl Usage {
    /// Tokens in both directions.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds what another call used up. The sum's cost is that of the calls with a known one.
    pub(crate) fn add(&mut self, other: &Usage) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.cached_tokens, other.cached_tokens);
        add(&mut self.cache_write_tokens, other.cache_write_tokens);
        add(&mut self.cache_write_hour_tokens, other.cache_write_hour_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        if let Some(more) = other.cost_micro_usd {
            self.cost_micro_usd = Some(self.cost_micro_usd.unwrap_or(0).saturating_add(more));
        }
        self.estimated |= other.estimated;
    }
}
