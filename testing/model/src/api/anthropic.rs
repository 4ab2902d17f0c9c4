//! Anthropic Messages, as claude speaks it.

use super::{Event, id, list, text, texts};
use crate::answer::{Call, Speech};
use crate::asked::{Asked, Said, Tool};
use crate::{Api, place};
use serde_json::{Value, json};

/// What a thought is signed with; nobody here checks it.
const SIGNATURE: &str = "c2NyaXB0ZWQ";

pub(super) fn read(body: &Value) -> Asked {
    let tool = |tool: &Value| Some(Tool { name: tool["name"].as_str()?.to_owned(), is_freeform: false });
    Asked {
        api: Api::Anthropic,
        model: text(&body["model"]),
        streamed: body["stream"] == true,
        wants_json: false,
        said: list(&body["messages"]).flat_map(said).collect(),
        tools: list(&body["tools"]).filter_map(tool).collect(),
        cwd: place::cwd(body),
        bytes: 0,
    }
}

/// What tools answered comes in messages of the user too, but is not the user's.
fn said(message: &Value) -> Vec<Said> {
    match message["role"].as_str() {
        Some("user") => texts(&message["content"], &["text"]).map(Said::User).collect(),
        Some("assistant") => {
            let calls = list(&message["content"]).filter(|part| part["type"] == "tool_use");
            calls.map(|_| Said::Call).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn events(asked: &Asked, speech: &Speech) -> Vec<Event> {
    let mut message = message(asked, &[], Value::Null);
    message["usage"] = json!({ "input_tokens": speech.usage(asked).input, "output_tokens": 1 });
    let mut events = vec![Event::typed("message_start", json!({ "message": message }))];
    for (index, block) in blocks(asked, speech).iter().enumerate() {
        events.extend(streamed(index, block, &speech.text));
    }
    let delta = json!({ "stop_reason": reason(speech), "stop_sequence": null });
    events.push(Event::typed("message_delta", json!({ "delta": delta, "usage": usage(asked, speech) })));
    events.push(Event::typed("message_stop", json!({})));
    events
}

/// One block: empty at first, then what fills it.
fn streamed(index: usize, block: &Value, pieces: &[String]) -> Vec<Event> {
    let delta = |fields: Value| Event::typed("content_block_delta", json!({ "index": index, "delta": fields }));
    let mut empty = block.clone();
    let deltas: Vec<Event> = match block["type"].as_str() {
        Some("thinking") => {
            empty["thinking"] = "".into();
            empty["signature"] = "".into();
            let thinking = json!({ "type": "thinking_delta", "thinking": block["thinking"] });
            vec![delta(thinking), delta(json!({ "type": "signature_delta", "signature": SIGNATURE }))]
        }
        Some("text") => {
            empty["text"] = "".into();
            pieces.iter().map(|piece| delta(json!({ "type": "text_delta", "text": piece })).part()).collect()
        }
        _ => {
            empty["input"] = json!({});
            vec![delta(json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }))]
        }
    };
    let start = Event::typed("content_block_start", json!({ "index": index, "content_block": empty }));
    let stop = Event::typed("content_block_stop", json!({ "index": index }));
    std::iter::once(start).chain(deltas).chain([stop]).collect()
}

pub(super) fn whole(asked: &Asked, speech: &Speech) -> Value {
    let mut message = message(asked, &blocks(asked, speech), reason(speech));
    message["usage"] = usage(asked, speech);
    message
}

fn message(asked: &Asked, content: &[Value], reason: Value) -> Value {
    json!({
        "id": id("msg", asked),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": null,
    })
}

fn blocks(asked: &Asked, speech: &Speech) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(thought) = &speech.thought {
        blocks.push(json!({ "type": "thinking", "thinking": thought, "signature": SIGNATURE }));
    }
    if !speech.text.is_empty() {
        blocks.push(json!({ "type": "text", "text": speech.whole_text() }));
    }
    blocks.extend(speech.call.as_ref().map(|call| called(asked, call)));
    blocks
}

fn called(asked: &Asked, call: &Call) -> Value {
    json!({ "type": "tool_use", "id": id("toolu", asked), "name": call.name, "input": call.input.object() })
}

fn reason(speech: &Speech) -> Value {
    if speech.call.is_some() { "tool_use".into() } else { "end_turn".into() }
}

fn usage(asked: &Asked, speech: &Speech) -> Value {
    let usage = speech.usage(asked);
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": usage.output,
    })
}

pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Input;
    use crate::api::{data, names};

    fn asked() -> Asked {
        read(&json!({
            "model": "claude-sonnet-4-5",
            "stream": true,
            "system": [{ "type": "text", "text": "# Environment\n - Primary working directory: /src/tree\n" }],
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "SCN=write" }] },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "Write", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "SCN=no" }] },
                { "role": "user", "content": "more" },
            ],
            "tools": [{ "name": "Write" }],
        }))
    }

    #[test]
    fn the_conversation_and_the_tools_are_read() {
        let asked = asked();
        assert_eq!(asked.said, [Said::User("SCN=write".into()), Said::Call, Said::User("more".into())]);
        assert_eq!(asked.cwd.as_deref(), Some("/src/tree"));
        assert!(asked.tool("Write").is_some());
    }

    #[test]
    fn a_text_is_streamed_block_by_block_after_its_thought() {
        let text = vec!["a".into(), "b".into()];
        let events = events(&asked(), &Speech { thought: Some("hm".into()), text, ..Speech::default() });
        let (start, delta, stop) = ("content_block_start", "content_block_delta", "content_block_stop");
        let expected =
            ["message_start", start, delta, delta, stop, start, delta, delta, stop, "message_delta", "message_stop"];
        assert_eq!(names(&events), expected);
        let data = data(&events);
        assert_eq!(data[2]["delta"], json!({ "type": "thinking_delta", "thinking": "hm" }));
        assert_eq!(data[7]["delta"], json!({ "type": "text_delta", "text": "b" }));
        assert_eq!((&data[7]["index"], &data[9]["delta"]["stop_reason"]), (&json!(1), &json!("end_turn")));
        assert_eq!(data[9]["usage"]["output_tokens"], 2);
    }

    #[test]
    fn a_call_carries_its_input_as_text_and_ends_with_its_reason() {
        let call = Call { name: "Write".into(), input: Input::Json(json!({ "content": "x" })) };
        let speech = Speech { call: Some(call), ..Speech::default() };
        let data = data(&events(&asked(), &speech));
        assert_eq!(data[1]["content_block"]["input"], json!({}));
        assert_eq!(data[2]["delta"]["partial_json"], r#"{"content":"x"}"#);
        assert_eq!(data[4]["delta"]["stop_reason"], "tool_use");
        assert_eq!(whole(&asked(), &speech)["content"][0]["input"], json!({ "content": "x" }));
    }
}
