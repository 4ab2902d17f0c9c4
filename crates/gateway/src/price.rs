//! What models cost. The list is data; a model that is not on it has no price rather than a wrong one.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// The providers' list prices.
const LIST: &str = include_str!("../prices.json");

/// What a model costs, in dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What is sent.
    pub input_per_million_usd: f64,
    /// What is sent and was in the provider's cache.
    pub cached_per_million_usd: f64,
    /// What is sent and put into the provider's cache; as other input if that has no price of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_per_million_usd: Option<f64>,
    /// What is put there for an hour; as other input that is put there if that has no price of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_hour_per_million_usd: Option<f64>,
    /// What is generated.
    pub output_per_million_usd: f64,
    /// Where long input makes the whole call dearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongInput>,
}

/// What a model costs when much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongInput {
    /// More input than this is long.
    pub above_tokens: u64,
    /// What each kind of input then costs, as a multiple.
    pub input_times: f64,
    /// What output then costs, as a multiple.
    pub output_times: f64,
}

impl Price {
    /// What that much costs, rounded up.
    pub fn cost_micro_usd(&self, usage: &Usage) -> u64 {
        let plain = usage.input_tokens.saturating_sub(usage.cached_tokens).saturating_sub(usage.cache_write_tokens);
        let long = self.long.filter(|long| usage.input_tokens > long.above_tokens);
        let (input_times, output_times) = long.map_or((1.0, 1.0), |long| (long.input_times, long.output_times));
        let cache_write = self.cache_write_per_million_usd.unwrap_or(self.input_per_million_usd);
        let cache_write_hour = self.cache_write_hour_per_million_usd.unwrap_or(cache_write);
        let hour = usage.cache_write_hour_tokens.min(usage.cache_write_tokens);
        // Dollars for a million are millionths of a dollar for one.
        let input = plain as f64 * self.input_per_million_usd
            + usage.cached_tokens as f64 * self.cached_per_million_usd
            + (usage.cache_write_tokens - hour) as f64 * cache_write
            + hour as f64 * cache_write_hour;
        let cost = input * input_times + usage.output_tokens as f64 * self.output_per_million_usd * output_times;
        // What is left of binary fractions is no reason to round up.
        (cost - 1e-6).ceil().max(0.0) as u64
    }
}

/// Prices by the beginnings of models' names.
#[derive(Clone, Debug)]
pub struct Prices {
    by_name: Vec<(String, Price)>,
}

/// The list, and when it was last compared with what the providers say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    as_of: String,
    models: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    model: String,
    #[serde(flatten)]
    price: serde_json::Value,
}

impl Default for Prices {
    /// The providers' list prices, as far as norma knows them.
    fn default() -> Prices {
        let listed = list().models;
        let read = |listed: Listed| {
            let price = serde_json::from_value(listed.price).expect("BUG: prices.json is checked by a test");
            (listed.model, price)
        };
        Prices { by_name: listed.into_iter().map(read).collect() }
    }
}

fn list() -> List {
    serde_json::from_str(LIST).expect("BUG: prices.json is checked by a test")
}

impl Prices {
    /// The day on which the built-in list was last compared with what the providers say.
    pub fn as_of() -> String {
        list().as_of
    }

    /// No prices at all.
    pub fn none() -> Prices {
        Prices { by_name: Vec::new() }
    }

    /// What is to be done about a model that has none.
    pub fn missing(model: &str) -> String {
        format!("no price known for {model}: set prices.{model}, or max_tokens in place of max_cost_usd")
    }

    /// These prices, with one of the user's own in place of what is listed under that name.
    pub fn with(mut self, model: &str, price: Price) -> Prices {
        self.by_name.retain(|(name, _)| name != model);
        self.by_name.push((model.to_owned(), price));
        self
    }

    /// The price of a model, by the longest name that it is a version of.
    pub fn of(&self, model: &str) -> Option<&Price> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let fitting = self.by_name.iter().filter(|(name, _)| is_version_of(model, name));
        fitting.max_by_key(|(name, _)| name.len()).map(|(_, price)| price)
    }
}

/// Whether a model is the named one, or a dated version of it. `gpt-5.5` and `gpt-5-mini` are no versions of `gpt-5`,
/// and `claude-opus-4-9` is none of `claude-opus-4`: they have prices of their own.
fn is_version_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    let Some(version) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let first = version.split('-').next().unwrap_or_default();
    let is_number = first.len() >= 3 && first.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(first, "latest" | "preview")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read() {
        assert!(Prices::default().by_name.len() > 20);
        assert!(Prices::as_of().starts_with("20"));
    }

    #[test]
    fn versions_cost_the_same_and_others_do_not() {
        for (model, name, is_version) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5-2025-08-07", "gpt-5", true),
            ("gpt-5.5", "gpt-5", false),
            ("gpt-5-mini", "gpt-5", false),
            ("claude-opus-4-20250514", "claude-opus-4", true),
            ("claude-opus-4@20250514", "claude-opus-4", true),
            ("claude-opus-4-9", "claude-opus-4", false),
            ("gemini-2.0-flash-001", "gemini-2.0-flash", true),
            ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash", true),
            ("gemini-2.5-flash-lite", "gemini-2.5-flash", false),
        ] {
            assert_eq!(is_version_of(model, name), is_version, "{model}");
        }
    }

    #[test]
    fn adds_up_all_kinds() {
        let price = Price {
            input_per_million_usd: 3.0,
            cached_per_million_usd: 0.3,
            cache_write_per_million_usd: Some(3.75),
            cache_write_hour_per_million_usd: Some(6.0),
            output_per_million_usd: 15.0,
            long: Some(LongInput { above_tokens: 2000, input_times: 2.0, output_times: 1.5 }),
        };
        let usage = Usage {
            input_tokens: 1600,
            cached_tokens: 500,
            cache_write_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        };
        // 1000 · 3 + 500 · 0.3 + 100 · 3.75 + 10 · 15
        assert_eq!(price.cost_micro_usd(&usage), 3675);
        let hour = Usage { cache_write_hour_tokens: 40, ..usage };
        assert_eq!(price.cost_micro_usd(&hour), 3765);
        let long = Usage { input_tokens: 2600, ..usage };
        // (2000 · 3 + 500 · 0.3 + 100 · 3.75) · 2 + 10 · 15 · 1.5
        assert_eq!(price.cost_micro_usd(&long), 13_275);
    }

    #[test]
    fn the_users_price_counts() {
        let free = Price {
            input_per_million_usd: 0.0,
            cached_per_million_usd: 0.0,
            cache_write_per_million_usd: None,
            cache_write_hour_per_million_usd: None,
            output_per_million_usd: 0.0,
            long: None,
        };
        let prices = Prices::default().with("gpt-5", free).with("mine", free);
        assert_eq!(prices.of("gpt-5"), Some(&free));
        assert_eq!(prices.of("mine"), Some(&free));
        assert_eq!(prices.of("nobody-knows"), None);
        assert!(prices.of("models/gemini-2.5-flash").is_some());
    }
}
