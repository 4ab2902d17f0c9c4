//! OpenAI chat completions, as opencode and most local models' clients speak it.

use super::{Event, id, list, text, texts};
use crate::answer::{Call, Speech};
use crate::asked::{Asked, Said, Tool};
use crate::{Api, place};
use serde_json::{Value, json};

/// The moment every answer is from: a clock would make each of them differ.
const CREATED: u64 = 1_700_000_000;

pub(super) fn read(body: &Value) -> Asked {
    let name = |tool: &Value| Some(Tool { name: tool["function"]["name"].as_str()?.to_owned(), is_freeform: false });
    Asked {
        api: Api::Chat,
        model: text(&body["model"]),
        streamed: body["stream"] == true,
        wants_json: false,
        said: list(&body["messages"]).flat_map(said).collect(),
        tools: list(&body["tools"]).filter_map(name).collect(),
        cwd: place::cwd(body),
        bytes: 0,
    }
}

fn said(message: &Value) -> Vec<Said> {
    match message["role"].as_str() {
        Some("user") => texts(&message["content"], &["text"]).map(Said::User).collect(),
        Some("assistant") => list(&message["tool_calls"]).map(|_| Said::Call).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn events(asked: &Asked, speech: &Speech) -> Vec<Event> {
    let chunk = |delta: Value, finish: Value| {
        chunk(asked, json!([{ "index": 0, "delta": delta, "finish_reason": finish }]), Value::Null)
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    events.extend(speech.thought.iter().map(|text| chunk(json!({ "reasoning_content": text }), Value::Null)));
    events.extend(speech.text.iter().map(|piece| chunk(json!({ "content": piece }), Value::Null).part()));
    if let Some(call) = &speech.call {
        let mut call = called(asked, call);
        call["index"] = 0.into();
        events.push(chunk(json!({ "tool_calls": [call] }), Value::Null));
    }
    events.push(chunk(json!({}), finish(speech)));
    events.push(self::chunk(asked, json!([]), usage(asked, speech)));
    events.push(Event { name: None, data: "[DONE]".to_owned(), is_part: false });
    events
}

fn chunk(asked: &Asked, choices: Value, usage: Value) -> Event {
    let data = json!({
        "id": id("chatcmpl", asked),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": asked.model,
        "choices": choices,
        "usage": usage,
    });
    Event::new(None, &data)
}

pub(super) fn whole(asked: &Asked, speech: &Speech) -> Value {
    let calls: Vec<Value> = speech.call.iter().map(|call| called(asked, call)).collect();
    let mut message = json!({ "role": "assistant", "content": speech.whole_text() });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": id("chatcmpl", asked),
        "object": "chat.completion",
        "created": CREATED,
        "model": asked.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(speech) }],
        "usage": usage(asked, speech),
    })
}

fn called(asked: &Asked, call: &Call) -> Value {
    let function = json!({ "name": call.name, "arguments": call.input.object().to_string() });
    json!({ "id": id("call", asked), "type": "function", "function": function })
}

fn finish(speech: &Speech) -> Value {
    if speech.call.is_some() { "tool_calls".into() } else { "stop".into() }
}

fn usage(asked: &Asked, speech: &Speech) -> Value {
    let usage = speech.usage(asked);
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": usage.thought },
    })
}

pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", "invalid_api_key"),
        429 => ("requests", "rate_limit_exceeded"),
        500.. => ("server_error", "server_error"),
        _ => ("invalid_request_error", "invalid_request"),
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Input;
    use crate::api::data;

    fn asked() -> Asked {
        read(&json!({
            "model": "scripted-1",
            "stream": true,
            "messages": [
                { "role": "system", "content": "  Working directory: /src/tree\n" },
                { "role": "user", "content": "SCN=write" },
                { "role": "assistant", "content": "", "tool_calls": [{ "id": "c", "type": "function" }] },
                { "role": "tool", "tool_call_id": "c", "content": "SCN=no" },
                { "role": "user", "content": [{ "type": "text", "text": "more" }] },
            ],
            "tools": [{ "type": "function", "function": { "name": "bash" } }],
        }))
    }

    #[test]
    fn the_conversation_and_the_tools_are_read() {
        let asked = asked();
        assert_eq!(asked.said, [Said::User("SCN=write".into()), Said::Call, Said::User("more".into())]);
        assert_eq!(asked.cwd.as_deref(), Some("/src/tree"));
        assert_eq!(asked.tools, [Tool { name: "bash".into(), is_freeform: false }]);
    }

    #[test]
    fn a_text_is_streamed_and_its_cost_comes_last() {
        let text = vec!["a".into(), "b".into()];
        let events = events(&asked(), &Speech { thought: Some("hm".into()), text, ..Speech::default() });
        assert_eq!(events.iter().map(|event| event.is_part).filter(|is_part| *is_part).count(), 2);
        assert_eq!(events.last().unwrap().frame(), "data: [DONE]\n\n");
        let data = data(&events);
        assert_eq!(data[1]["choices"][0]["delta"], json!({ "reasoning_content": "hm" }));
        assert_eq!(data[3]["choices"][0]["delta"], json!({ "content": "b" }));
        assert_eq!(data[4]["choices"][0]["finish_reason"], "stop");
        assert_eq!(data[5]["choices"], json!([]));
        assert_eq!(data[5]["usage"]["completion_tokens"], 2);
    }

    #[test]
    fn a_call_ends_with_its_reason() {
        let call = Call { name: "bash".into(), input: Input::Json(json!({ "command": "ls" })) };
        let speech = Speech { call: Some(call), ..Speech::default() };
        let data = data(&events(&asked(), &speech));
        let function = json!({ "name": "bash", "arguments": r#"{"command":"ls"}"# });
        let made = &data[1]["choices"][0]["delta"]["tool_calls"][0];
        assert_eq!((&made["function"], &made["index"]), (&function, &json!(0)));
        assert_eq!(data[2]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(whole(&asked(), &speech)["choices"][0]["message"]["tool_calls"][0]["function"], function);
    }
}
