//! OpenAI Responses, as codex speaks it.

use super::{Event, id, list, text, texts};
use crate::answer::{Call, Input, Speech};
use crate::asked::{Asked, Said, Tool};
use crate::{Api, place};
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> Asked {
    Asked {
        api: Api::Responses,
        model: text(&body["model"]),
        streamed: body["stream"] != false,
        wants_json: false,
        said: said(&body["input"]),
        tools: list(&body["tools"]).flat_map(tools).collect(),
        cwd: place::cwd(body),
        bytes: 0,
    }
}

fn said(input: &Value) -> Vec<Said> {
    if let Some(text) = input.as_str() {
        return vec![Said::User(text.to_owned())];
    }
    let read = |item: &Value| match item["type"].as_str() {
        Some("function_call" | "custom_tool_call" | "local_shell_call") => vec![Said::Call],
        Some("message") | None if item["role"] == "user" => {
            texts(&item["content"], &["input_text", "text"]).map(Said::User).collect()
        }
        _ => Vec::new(),
    };
    list(input).flat_map(read).collect()
}

/// Between the name of a group of tools and that of one of them.
const IN: &str = "::";

/// One tool, or a group of them under one name.
fn tools(offered: &Value) -> Vec<Tool> {
    if offered["type"] != "namespace" {
        return tool(offered).into_iter().collect();
    }
    let named = |inner: Tool| Tool { name: format!("{}{IN}{}", text(&offered["name"]), inner.name), ..inner };
    list(&offered["tools"]).filter_map(tool).map(named).collect()
}

/// Tools without a name are the provider's own.
fn tool(tool: &Value) -> Option<Tool> {
    Some(Tool { name: tool["name"].as_str()?.to_owned(), is_freeform: tool["type"] == "custom" })
}

pub(super) fn events(asked: &Asked, speech: &Speech) -> Vec<Event> {
    let response = id("resp", asked);
    let mut events = vec![Event::typed("response.created", json!({ "response": { "id": response } }))];
    let items = items(asked, speech);
    for (index, item) in items.iter().enumerate() {
        let at = json!({ "output_index": index, "item_id": item["id"] });
        match item["type"].as_str() {
            Some("reasoning") => events.extend(thought(&at, item)),
            Some("message") => events.extend(message(&at, item, &speech.text)),
            _ => {}
        }
        events.push(Event::typed("response.output_item.done", json!({ "output_index": index, "item": item })));
    }
    events.push(Event::typed("response.completed", json!({ "response": whole(asked, speech) })));
    events
}

fn thought(at: &Value, item: &Value) -> Vec<Event> {
    let text = &item["summary"][0]["text"];
    let started = json!({ "type": "reasoning", "id": at["item_id"], "summary": [] });
    let with = |fields: Value| merged(at, fields);
    vec![
        Event::typed("response.output_item.added", with(json!({ "item": started }))),
        Event::typed("response.reasoning_summary_part.added", with(json!({ "summary_index": 0 }))),
        Event::typed("response.reasoning_summary_text.delta", with(json!({ "summary_index": 0, "delta": text }))),
        Event::typed("response.reasoning_summary_text.done", with(json!({ "summary_index": 0, "text": text }))),
    ]
}

fn message(at: &Value, item: &Value, pieces: &[String]) -> Vec<Event> {
    let mut started = item.clone();
    started["content"] = json!([]);
    let mut events = vec![Event::typed("response.output_item.added", merged(at, json!({ "item": started })))];
    events.extend(pieces.iter().map(|piece| {
        Event::typed("response.output_text.delta", merged(at, json!({ "content_index": 0, "delta": piece }))).part()
    }));
    events
}

pub(super) fn whole(asked: &Asked, speech: &Speech) -> Value {
    let usage = speech.usage(asked);
    json!({
        "id": id("resp", asked),
        "object": "response",
        "status": "completed",
        "model": asked.model,
        "output": items(asked, speech),
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": usage.output,
            "output_tokens_details": { "reasoning_tokens": usage.thought },
            "total_tokens": usage.input + usage.output,
        },
    })
}

/// What the model put out, complete.
fn items(asked: &Asked, speech: &Speech) -> Vec<Value> {
    let mut items = Vec::new();
    if let Some(thought) = &speech.thought {
        let summary = json!([{ "type": "summary_text", "text": thought }]);
        items.push(json!({ "type": "reasoning", "id": id("rs", asked), "summary": summary }));
    }
    if !speech.text.is_empty() {
        let content = json!([{ "type": "output_text", "text": speech.whole_text(), "annotations": [] }]);
        items.push(json!({ "type": "message", "id": id("msg", asked), "role": "assistant", "content": content }));
    }
    items.extend(speech.call.as_ref().map(|call| called(asked, call)));
    items
}

fn called(asked: &Asked, call: &Call) -> Value {
    let (kind, field) = match call.input {
        Input::Json(_) => ("function_call", "arguments"),
        Input::Text(_) => ("custom_tool_call", "input"),
    };
    let (group, name) =
        call.name.split_once(IN).map_or((None, call.name.as_str()), |(group, name)| (Some(group), name));
    let mut item = json!({
        "type": kind,
        "id": id("item", asked),
        "call_id": id("call", asked),
        "name": name,
        field: call.input.text(),
        "status": "completed",
    });
    if let Some(group) = group {
        item["namespace"] = group.into();
    }
    item
}

fn merged(fields: &Value, more: Value) -> Value {
    let mut all = fields.clone();
    for (key, value) in more.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{data, names};

    fn asked() -> Asked {
        read(&json!({
            "model": "gpt-5.5",
            "stream": true,
            "input": [
                { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "SCN=no" }] },
                { "type": "message", "role": "user", "content": [
                    { "type": "input_text", "text": "<cwd>/src/tree</cwd>" },
                    { "type": "input_text", "text": "SCN=write" },
                ] },
                { "type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "" },
                { "type": "custom_tool_call_output", "call_id": "c", "output": "SCN=no" },
            ],
            "tools": [
                { "type": "custom", "name": "apply_patch" },
                { "type": "function", "name": "exec_command" },
                { "type": "web_search" },
                { "type": "namespace", "name": "mcp__norma", "tools": [{ "type": "function", "name": "ask" }] },
            ],
        }))
    }

    #[test]
    fn the_conversation_and_the_tools_are_read() {
        let asked = asked();
        let said = [Said::User("<cwd>/src/tree</cwd>".into()), Said::User("SCN=write".into()), Said::Call];
        assert_eq!(asked.said, said);
        assert_eq!(asked.cwd.as_deref(), Some("/src/tree"));
        let tool = |name: &str, is_freeform| Tool { name: name.into(), is_freeform };
        let all = [tool("apply_patch", true), tool("exec_command", false), tool("mcp__norma::ask", false)];
        assert_eq!(asked.tools, all);
    }

    #[test]
    fn a_text_is_streamed_after_its_thought() {
        let speech = Speech { thought: Some("hm".into()), text: vec!["a".into(), "b".into()], ..Speech::default() };
        let events = events(&asked(), &speech);
        assert_eq!(
            names(&events),
            [
                "response.created",
                "response.output_item.added",
                "response.reasoning_summary_part.added",
                "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done",
                "response.output_item.done",
                "response.output_item.added",
                "response.output_text.delta",
                "response.output_text.delta",
                "response.output_item.done",
                "response.completed",
            ]
        );
        let data = data(&events);
        assert!(data.iter().zip(names(&events)).all(|(data, name)| data["type"] == name));
        assert_eq!(data[9]["item"]["content"][0]["text"], "ab");
        assert_eq!(data[10]["response"]["usage"]["output_tokens"], 2);
        assert_eq!(data[10]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"], 1);
    }

    #[test]
    fn a_call_is_one_item_in_the_form_of_its_tool() {
        let call = |input| Speech { call: Some(Call { name: "t".into(), input }), ..Speech::default() };
        let json = data(&events(&asked(), &call(Input::Json(json!({ "cmd": "ls" })))));
        assert_eq!(json[1]["item"]["type"], "function_call");
        assert_eq!(json[1]["item"]["arguments"], r#"{"cmd":"ls"}"#);
        let grouped = Call { name: "mcp__norma::ask".into(), input: Input::Json(json!({})) };
        let grouped = data(&events(&asked(), &Speech { call: Some(grouped), ..Speech::default() }));
        assert_eq!(
            (&grouped[1]["item"]["namespace"], &grouped[1]["item"]["name"]),
            (&"mcp__norma".into(), &"ask".into())
        );
        let text = data(&events(&asked(), &call(Input::Text("*** Begin Patch".into()))));
        assert_eq!(text[1]["item"]["type"], "custom_tool_call");
        assert_eq!(text[1]["item"]["input"], "*** Begin Patch");
    }
}
