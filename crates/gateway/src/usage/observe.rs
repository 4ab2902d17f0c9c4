//! Watches an answer pass by and says in the end what it used up.

use crate::api::Api;
use crate::price::Prices;
use crate::usage::Usage;
use crate::usage::count::{Counts, Seen};
use crate::usage::sse::Events;

/// Bytes that make a token, on the small side, so that an estimate is rather too high.
const BYTES_PER_TOKEN: u64 = 3;

/// Bytes of an event that are not text of the model.
const EVENT_FRAME_BYTES: u64 = 120;

/// Watches one answer.
pub(crate) struct Observer {
    api: Api,
    /// There is one while the answer is a stream of events.
    events: Option<Events>,
    seen: Seen,
    /// Tokens that the events could hold.
    estimate: u64,
    /// Whether an event was more than a beginning.
    has_said: bool,
}

/// What was seen of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) model: Option<String>,
    /// Without a cost.
    pub(crate) usage: Usage,
}

impl Observer {
    pub(crate) fn new(api: Api, content_type: Option<&str>) -> Observer {
        let is_stream = content_type.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
        Observer { api, events: is_stream.then(Events::default), seen: Seen::default(), estimate: 0, has_said: false }
    }

    /// The next bytes of the answer.
    pub(crate) fn piece(&mut self, bytes: &[u8]) {
        let Observer { api, events, seen, estimate, has_said } = self;
        if let Some(events) = events {
            events.piece(bytes, |data| {
                *has_said = *has_said || !is_beginning(data);
                note(*api, data, seen, estimate);
            });
        }
    }

    /// Whether the model has said anything yet. What is no stream says nothing before its end.
    pub(crate) fn has_said_something(&self) -> bool {
        self.has_said
    }

    /// The answer is over; `body` is all of it, and `request_bytes` the size of what was asked.
    pub(crate) fn end(mut self, body: &[u8], request_bytes: usize) -> Observed {
        let Observer { api, events, seen, estimate, .. } = &mut self;
        match events {
            Some(events) => events.end(|data| note(*api, data, seen, estimate)),
            None => {
                *estimate = body.len() as u64 / BYTES_PER_TOKEN;
                if let Ok(value) = serde_json::from_slice(body) {
                    seen.note(*api, &value);
                    seen.is_final = seen.counts.is_some();
                }
            }
        }
        let usage = usage(&self.seen, request_bytes, self.estimate);
        Observed { model: self.seen.model, usage }
    }
}

/// What a request used up to which no answer came, if the provider read it.
pub(crate) fn unanswered(request_bytes: usize) -> Usage {
    usage(&Seen::default(), request_bytes, 0)
}

/// Whether an event only announces an answer, or that one is still being thought about.
fn is_beginning(data: &[u8]) -> bool {
    const BEGINNINGS: [&str; 5] =
        ["message_start", "ping", "response.created", "response.queued", "response.in_progress"];
    /// Longer ones say something: a beginning that repeats the request would be read again and again.
    const BYTES_MAX: usize = 64 * 1024;
    let Ok(event) = serde_json::from_slice::<serde_json::Value>(&data[..data.len().min(BYTES_MAX)]) else {
        return false;
    };
    let delta = &event["choices"][0]["delta"];
    let is_empty_delta = delta.is_object() && delta["content"].as_str().unwrap_or_default().is_empty();
    let names_only_the_role = is_empty_delta
        && event["choices"][0]["finish_reason"].is_null()
        && delta.as_object().is_some_and(|delta| delta.keys().all(|key| matches!(key.as_str(), "role" | "content")));
    event["type"].as_str().is_some_and(|kind| BEGINNINGS.contains(&kind)) || names_only_the_role
}

fn note(api: Api, data: &[u8], seen: &mut Seen, estimate: &mut u64) {
    *estimate += (data.len() as u64).saturating_sub(EVENT_FRAME_BYTES) / BYTES_PER_TOKEN + 1;
    // Most events are a few letters of text, and nothing in them counts.
    let may_count = data.windows(5).any(|window| window == b"usage" || window == b"model");
    if may_count && let Ok(value) = serde_json::from_slice(data) {
        seen.note(api, &value);
    }
}

fn usage(seen: &Seen, request_bytes: usize, estimate: u64) -> Usage {
    let counted = seen.counts.is_some();
    let exact = counted && seen.is_final;
    let Counts { input, cached, cache_write, cache_write_hour, output, reasoning } = seen.counts.unwrap_or_default();
    Usage {
        input_tokens: if counted { input } else { request_bytes as u64 / BYTES_PER_TOKEN },
        cached_tokens: cached,
        cache_write_tokens: cache_write,
        cache_write_hour_tokens: cache_write_hour,
        output_tokens: if exact { output } else { output.max(estimate) },
        reasoning_tokens: reasoning,
        cost_micro_usd: None,
        estimated: !exact,
    }
}

impl Observed {
    /// The usage with its cost: by the model that answered, or else by the one that was asked, under whose name the
    /// price is known.
    pub(crate) fn priced(&self, prices: &Prices, asked: Option<&str>) -> Usage {
        let price = [self.model.as_deref(), asked].into_iter().flatten().find_map(|model| prices.of(model));
        Usage { cost_micro_usd: price.map(|price| price.cost_micro_usd(&self.usage)), ..self.usage }
    }
}
