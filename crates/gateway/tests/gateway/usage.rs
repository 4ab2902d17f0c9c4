//! Tokens and cost, for each API, streamed and not.

use gateway::{Api, Budget, Options, Price, Prices, Usage};

use crate::desk::Desk;
use crate::provider::{Script, json, stream};

/// A model at 2 dollars for a million in, 0.2 from the cache, 3 into it, 10 out.
fn options() -> Options {
    let price = Price {
        input_per_million_usd: 2.0,
        cached_per_million_usd: 0.2,
        cache_write_per_million_usd: Some(3.0),
        cache_write_hour_per_million_usd: None,
        output_per_million_usd: 10.0,
        long: None,
    };
    Options { prices: Prices::none().with("priced", price), ..crate::desk::once() }
}

fn used(api: Api, path: &str, script: Script) -> (Usage, Option<String>) {
    let desk = Desk::with(api, Budget::default(), options(), script);
    let got = desk.post(path, r#"{"model": "asked"}"#);
    assert!(got.complete);
    let answer = desk.only_answer();
    let usage = answer.usage.unwrap();
    let totals = desk.gateway.totals();
    assert_eq!((totals.calls, totals.usage), (1, usage));
    assert_eq!(totals.unpriced_calls, u64::from(usage.cost_micro_usd.is_none()));
    (usage, answer.model)
}

fn check(api: Api, path: &str, whole: &str, events: &[&str], expected: Usage) {
    for script in [json(whole), stream(events)] {
        assert_eq!(used(api, path, script), (expected, Some("priced-2026".to_owned())), "{path}");
    }
}

#[test]
fn responses() {
    let usage = r#""model":"priced-2026","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},
        "output_tokens":30,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":130}"#
        .replace('\n', "");
    let completed = format!(r#"{{"type":"response.completed","response":{{"id":"r",{usage}}}}}"#);
    let events = [
        r#"{"type":"response.created","response":{"id":"r","model":"priced-2026","usage":null}}"#,
        r#"{"type":"response.output_text.delta","delta":"the word usage"}"#,
        &completed,
    ];
    let expected = Usage {
        input_tokens: 100,
        cached_tokens: 40,
        output_tokens: 30,
        reasoning_tokens: 20,
        cost_micro_usd: Some(60 * 2 + 8 + 300),
        ..Usage::default()
    };
    check(Api::OpenAi, "/v1/responses", &format!("{{{usage}}}"), &events, expected);
}

#[test]
fn chat_completions() {
    let usage = r#""model":"priced-2026","usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens":30,"completion_tokens_details":{"reasoning_tokens":20}}"#;
    let last = format!(r#"{{"choices":[],{usage}}}"#);
    let events = [r#"{"model":"priced-2026","choices":[{"delta":{"content":"hi"}}],"usage":null}"#, &last, "[DONE]"];
    let expected = Usage {
        input_tokens: 100,
        cached_tokens: 40,
        output_tokens: 30,
        reasoning_tokens: 20,
        cost_micro_usd: Some(60 * 2 + 8 + 300),
        ..Usage::default()
    };
    check(Api::OpenAiChat, "/v1/chat/completions", &format!("{{{usage}}}"), &events, expected);
}

#[test]
fn messages() {
    let whole = r#"{"type":"message","model":"priced-2026","usage":{"input_tokens":50,"cache_creation_input_tokens":10,"cache_read_input_tokens":40,"output_tokens":30}}"#;
    let events = [
        r#"{"type":"message_start","message":{"model":"priced-2026","usage":{"input_tokens":50,"cache_creation_input_tokens":10,"cache_read_input_tokens":40,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let expected = Usage {
        input_tokens: 100,
        cached_tokens: 40,
        cache_write_tokens: 10,
        output_tokens: 30,
        cost_micro_usd: Some(50 * 2 + 8 + 30 + 300),
        ..Usage::default()
    };
    check(Api::Anthropic, "/v1/messages?beta=true", whole, &events, expected);
}

#[test]
fn generate_content() {
    let last = r#"{"modelVersion":"priced-2026","candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":10,"thoughtsTokenCount":20,"totalTokenCount":130}}"#;
    let events = [
        r#"{"modelVersion":"priced-2026","candidates":[{}],"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":1}}"#,
        last,
    ];
    let expected = Usage {
        input_tokens: 100,
        cached_tokens: 40,
        output_tokens: 30,
        reasoning_tokens: 20,
        cost_micro_usd: Some(60 * 2 + 8 + 300),
        ..Usage::default()
    };
    check(Api::Gemini, "/v1beta/models/asked:streamGenerateContent?alt=sse", last, &events, expected);
    check(Api::Gemini, "/v1beta/models/asked:generateContent", &format!("[{},{last}]", events[0]), &events, expected);
}

#[test]
fn what_is_not_counted_is_estimated_and_unknown_prices_are_said() {
    let (usage, _) = used(Api::OpenAiChat, "/v1/chat/completions", stream(&[r#"{"choices":[]}"#, "[DONE]"]));
    assert!(usage.estimated && usage.input_tokens > 0 && usage.output_tokens > 0);
    assert_eq!(usage.cost_micro_usd, None);
}

#[test]
fn counting_and_listing_are_free() {
    let desk = Desk::new(Api::Anthropic, json(r#"{"input_tokens": 12}"#));
    assert_eq!(desk.post("/v1/messages/count_tokens", "{}").status, 200);
    assert_eq!(desk.only_answer().usage, None);
    assert_eq!(desk.gateway.totals().usage, Usage::default());
}
