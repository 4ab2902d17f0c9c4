//! What may still be used up.

/// What is left when a gateway starts. It is looked at before each call that costs something; the call that crosses
/// the limit is finished, since it is paid for, and so are those that are under way beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Tokens of all kinds, in and out.
    pub max_tokens: Option<u64>,
    /// Millionths of a dollar. With it, a model without a known price is not called: what it costs could not be held
    /// against the limit.
    pub max_cost_micro_usd: Option<u64>,
}
