//! Where each API puts its counts, in an event of a stream or in a whole answer.

use serde_json::Value;

use crate::api::Api;

/// What was found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// As the provider counts.
    pub(crate) counts: Option<Counts>,
    /// Whether no later count is to be expected.
    pub(crate) is_final: bool,
    /// The model that says it answers.
    pub(crate) model: Option<String>,
}

/// Counts in the terms of [`crate::Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) cache_write: u64,
    pub(crate) cache_write_hour: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Seen {
    /// Looks at an event, or at a whole answer.
    pub(crate) fn note(&mut self, api: Api, value: &Value) {
        match api {
            Api::OpenAi | Api::OpenAiAny => self.note_responses(value),
            Api::OpenAiChat => self.note_chat(value),
            Api::Anthropic => self.note_anthropic(value),
            Api::Gemini => self.note_gemini(value),
        }
    }

    /// `response.completed` and its kin carry the answer in `response`; without a stream it is the document.
    fn note_responses(&mut self, value: &Value) {
        let answer = value.get("response").unwrap_or(value);
        self.note_model(&answer["model"]);
        let usage = &answer["usage"];
        if usage.is_object() {
            self.is_final = true;
            self.counts = Some(Counts {
                input: number(&usage["input_tokens"]),
                cached: number(&usage["input_tokens_details"]["cached_tokens"]),
                cache_write: number(&usage["input_tokens_details"]["cache_write_tokens"]),
                cache_write_hour: 0,
                output: number(&usage["output_tokens"]),
                reasoning: number(&usage["output_tokens_details"]["reasoning_tokens"]),
            });
        }
    }

    fn note_chat(&mut self, value: &Value) {
        self.note_model(&value["model"]);
        let usage = &value["usage"];
        if usage.is_object() {
            self.is_final = true;
            self.counts = Some(Counts {
                input: number(&usage["prompt_tokens"]),
                cached: number(&usage["prompt_tokens_details"]["cached_tokens"]),
                cache_write: number(&usage["prompt_tokens_details"]["cache_write_tokens"]),
                cache_write_hour: 0,
                output: number(&usage["completion_tokens"]),
                reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
            });
        }
    }

    /// `message_start` counts what was sent, each `message_delta` all that was generated so far. What is left out
    /// stays as it was.
    fn note_anthropic(&mut self, value: &Value) {
        let message = value.get("message").unwrap_or(value);
        self.note_model(&message["model"]);
        let usage = &message["usage"];
        if !usage.is_object() {
            return;
        }
        self.is_final |= value["type"] != "message_start";
        let mut counts = self.counts.unwrap_or_default();
        // Anthropic counts the three kinds of input apart.
        let fresh = counts.input.saturating_sub(counts.cached).saturating_sub(counts.cache_write);
        let fresh = number_or(&usage["input_tokens"], fresh);
        counts.cached = number_or(&usage["cache_read_input_tokens"], counts.cached);
        counts.cache_write = number_or(&usage["cache_creation_input_tokens"], counts.cache_write);
        let kept_for_an_hour = &usage["cache_creation"]["ephemeral_1h_input_tokens"];
        counts.cache_write_hour = number_or(kept_for_an_hour, counts.cache_write_hour);
        counts.input = fresh.saturating_add(counts.cached).saturating_add(counts.cache_write);
        counts.output = number_or(&usage["output_tokens"], counts.output);
        self.counts = Some(counts);
    }

    /// Every part counts all so far. Without `alt=sse` the parts come as an array.
    fn note_gemini(&mut self, value: &Value) {
        if let Value::Array(parts) = value {
            parts.iter().for_each(|part| self.note_gemini(part));
            return;
        }
        self.note_model(&value["modelVersion"]);
        let usage = &value["usageMetadata"];
        if !usage.is_object() {
            return;
        }
        let candidates = value["candidates"].as_array().map_or(&[][..], Vec::as_slice);
        let finished = candidates.iter().any(|candidate| candidate["finishReason"].is_string());
        // A prompt that is turned away has no candidates.
        self.is_final |= finished || value.get("promptFeedback").is_some();
        let reasoning = number(&usage["thoughtsTokenCount"]);
        self.counts = Some(Counts {
            input: number(&usage["promptTokenCount"]).saturating_add(number(&usage["toolUsePromptTokenCount"])),
            cached: number(&usage["cachedContentTokenCount"]),
            cache_write: 0,
            cache_write_hour: 0,
            output: number(&usage["candidatesTokenCount"]).saturating_add(reasoning),
            reasoning,
        });
    }

    fn note_model(&mut self, model: &Value) {
        if let Some(model) = model.as_str() {
            self.model = Some(model.to_owned());
        }
    }
}

fn number(value: &Value) -> u64 {
    number_or(value, 0)
}

fn number_or(value: &Value, otherwise: u64) -> u64 {
    value.as_u64().unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(api: Api, values: &[Value]) -> Seen {
        let mut seen = Seen::default();
        values.iter().for_each(|value| seen.note(api, value));
        seen
    }

    #[test]
    fn anthropic_counts_kinds_of_input_apart() {
        let start = json!({"type": "message_start", "message": {"model": "m", "usage":
            {"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
             "cache_creation": {"ephemeral_1h_input_tokens": 15}, "output_tokens": 1}}});
        let begun = seen(Api::Anthropic, std::slice::from_ref(&start));
        assert!(!begun.is_final);
        let delta = json!({"type": "message_delta", "usage": {"output_tokens": 42}});
        let counts =
            Counts { input: 125, cached: 100, cache_write: 20, cache_write_hour: 15, output: 42, reasoning: 0 };
        let expected = Seen { counts: Some(counts), is_final: true, model: Some("m".to_owned()) };
        assert_eq!(seen(Api::Anthropic, &[start, delta]), expected);
    }

    #[test]
    fn gemini_counts_thoughts_apart() {
        let part = json!({"modelVersion": "m", "candidates": [{"finishReason": "STOP"}], "usageMetadata":
            {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}});
        let counts = Counts { input: 10, cached: 4, cache_write: 0, cache_write_hour: 0, output: 5, reasoning: 2 };
        assert_eq!(seen(Api::Gemini, &[json!([part])]).counts, Some(counts));
    }

    #[test]
    fn odd_values_are_no_counts() {
        for api in [Api::OpenAi, Api::OpenAiChat, Api::Anthropic, Api::Gemini] {
            let most =
                json!({"input_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX, "output_tokens": u64::MAX});
            seen(api, &[json!({"usage": most}), json!({"usage": most}), json!({"usage": {"input_tokens": 1}})]);
            for value in [json!(null), json!([1]), json!("usage"), json!({"usage": 3, "usageMetadata": []})] {
                assert_eq!(seen(api, &[value]).counts, None);
            }
        }
    }
}
