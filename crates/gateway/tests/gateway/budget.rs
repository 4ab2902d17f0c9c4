//! A used up budget ends calls before they are made.

use gateway::{Api, Budget, Options, Price, Prices};

use crate::desk::Desk;
use crate::provider::json;

const ANSWER: &str = r#"{"model":"priced","usage":{"prompt_tokens":100,"input_tokens":100,"output_tokens":0},
    "usageMetadata":{"promptTokenCount":100}}"#;

fn calls() -> [(Api, &'static str, &'static str); 4] {
    [
        (Api::OpenAi, "/v1/responses", r#"{"error":{"code":null,"message":"norma: "#),
        (Api::OpenAiChat, "/v1/chat/completions", r#"{"error":{"code":null,"message":"norma: "#),
        (Api::Anthropic, "/v1/messages", r#"{"error":{"message":"norma: "#),
        (Api::Gemini, "/v1beta/models/priced:generateContent", r#"{"error":{"code":400,"message":"norma: "#),
    ]
}

fn options() -> Options {
    let price = Price {
        input_per_million_usd: 2.0,
        cached_per_million_usd: 2.0,
        cache_write_per_million_usd: None,
        cache_write_hour_per_million_usd: None,
        output_per_million_usd: 2.0,
        long: None,
    };
    Options { prices: Prices::none().with("priced", price), ..crate::desk::once() }
}

fn two_calls(budget: Budget) {
    for (api, path, form) in calls() {
        let desk = Desk::with(api, budget, options(), json(ANSWER));
        for _ in 0..2 {
            assert_eq!(desk.post(path, r#"{"model":"priced"}"#).status, 200);
        }
        assert_eq!(desk.gateway.totals().refused_for_budget, None);
        let refused = desk.post(path, r#"{"model":"priced"}"#);
        assert_eq!(refused.status, 400);
        assert!(refused.body.starts_with(form) && refused.body.contains("budget is used up"), "{}", refused.body);
        assert_eq!(desk.provider.seen().len(), 2);
        let totals = desk.gateway.totals();
        assert!(totals.refused_for_budget.is_some());
        assert_eq!((totals.calls, totals.refused), (2, 1));
        assert_eq!(totals.usage.cost_micro_usd, Some(400));
        // What is not forwarded is on record all the same.
        let last = desk.kept().pop().unwrap();
        assert_eq!((last.seq, last.answer.unwrap().status), (3, 400));
    }
}

#[test]
fn tokens() {
    two_calls(Budget { max_tokens: Some(101), max_cost_micro_usd: None });
}

#[test]
fn cost() {
    two_calls(Budget { max_tokens: None, max_cost_micro_usd: Some(400) });
}

#[test]
fn nothing_left_means_no_call_but_looking_is_free() {
    let desk = Desk::with(Api::OpenAi, Budget { max_tokens: Some(0), ..Budget::default() }, options(), json("{}"));
    assert_eq!(desk.post("/v1/responses", "{}").status, 400);
    assert_eq!(desk.provider.seen().len(), 0);
    let mut client = desk.client();
    client.send("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn a_cost_that_cannot_be_known_is_not_risked() {
    let budget = Budget { max_tokens: None, max_cost_micro_usd: Some(1_000_000) };
    let desk = Desk::with(Api::OpenAi, budget, options(), json("{}"));
    let cases = [(r#"{"model":"other"}"#, "no price known for other"), ("{}", "there is a cost budget")];
    for (body, why) in cases {
        let refused = desk.post("/v1/responses", body);
        assert_eq!(refused.status, 400);
        assert!(refused.body.contains(why), "{}", refused.body);
    }
    assert!(desk.gateway.totals().refused_for_budget.is_some());
    assert_eq!(desk.provider.seen().len(), 0);
}

#[test]
fn what_could_not_be_counted_is_not_forwarded() {
    let desk = Desk::new(Api::OpenAi, json("{}"));
    for body in [r#"{"model":"priced","model":"other"}"#, r#"{"background":true}"#, "not JSON"] {
        let refused = desk.post("/v1/responses", body);
        assert_eq!(refused.status, 400);
        assert!(refused.body.contains("the request is refused"), "{}", refused.body);
    }
    assert_eq!(desk.provider.seen().len(), 0);
    assert_eq!(desk.kept().len(), 3);
}
