//! Gemini's generateContent, whole or streamed, as gemini speaks it. The model and whether to stream are in the path.

use super::{Event, id, list};
use crate::answer::{Call, Speech};
use crate::asked::{Asked, Said, Tool};
use crate::{Api, place};
use serde_json::{Value, json};

pub(super) fn read(path: &str, body: &Value) -> Asked {
    let (model, verb) = path.rsplit('/').next().unwrap_or_default().split_once(':').unwrap_or_default();
    let declared = list(&body["tools"]).flat_map(|tool| list(&tool["functionDeclarations"]));
    let tool = |tool: &Value| Some(Tool { name: tool["name"].as_str()?.to_owned(), is_freeform: false });
    Asked {
        api: Api::Gemini,
        model: model.to_owned(),
        streamed: verb == "streamGenerateContent",
        wants_json: body["generationConfig"]["responseMimeType"] == "application/json",
        said: list(&body["contents"]).flat_map(said).collect(),
        tools: declared.filter_map(tool).collect(),
        cwd: place::cwd(body),
        bytes: 0,
    }
}

fn said(content: &Value) -> Vec<Said> {
    let is_model = content["role"] == "model";
    let read = |part: &Value| match (is_model, part["text"].as_str()) {
        (true, _) => part.get("functionCall").map(|_| Said::Call),
        (false, text) => text.map(|text| Said::User(text.to_owned())),
    };
    list(&content["parts"]).filter_map(read).collect()
}

pub(super) fn events(asked: &Asked, speech: &Speech) -> Vec<Event> {
    let chunk = |part: Value| Event::new(None, &response(asked, &[part], None));
    let mut events: Vec<Event> = speech.thought.iter().map(|text| chunk(thought(text))).collect();
    events.extend(speech.text.iter().map(|piece| chunk(json!({ "text": piece })).part()));
    let last: Vec<Value> = speech.call.iter().map(|call| called(asked, call)).collect();
    let last = if last.is_empty() { vec![json!({ "text": "" })] } else { last };
    events.push(Event::new(None, &response(asked, &last, Some(speech))));
    events
}

pub(super) fn whole(asked: &Asked, speech: &Speech) -> Value {
    let mut parts: Vec<Value> = speech.thought.iter().map(|text| thought(text)).collect();
    if !speech.text.is_empty() {
        parts.push(json!({ "text": speech.whole_text() }));
    }
    parts.extend(speech.call.iter().map(|call| called(asked, call)));
    response(asked, &parts, Some(speech))
}

/// One chunk; the last one knows what all of it cost.
fn response(asked: &Asked, parts: &[Value], ended: Option<&Speech>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    let mut response = json!({ "modelVersion": asked.model, "responseId": id("resp", asked) });
    if let Some(speech) = ended {
        let usage = speech.usage(asked);
        candidate["finishReason"] = "STOP".into();
        response["usageMetadata"] = json!({
            "promptTokenCount": usage.input,
            "candidatesTokenCount": usage.output - usage.thought,
            "thoughtsTokenCount": usage.thought,
            "totalTokenCount": usage.input + usage.output,
        });
    }
    response["candidates"] = json!([candidate]);
    response
}

fn thought(text: &str) -> Value {
    json!({ "text": text, "thought": true })
}

fn called(asked: &Asked, call: &Call) -> Value {
    json!({ "functionCall": { "id": id("call", asked), "name": call.name, "args": call.input.object() } })
}

pub(super) fn error(status: u16, message: &str) -> Value {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": status, "message": message, "status": name } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Input;
    use crate::api::data;

    fn asked() -> Asked {
        let body = json!({
            "systemInstruction": { "parts": [{ "text": "- **Workspace Directories:**\n  - /src/tree\n" }] },
            "contents": [
                { "role": "user", "parts": [{ "text": "SCN=write" }] },
                { "role": "model", "parts": [{ "text": "SCN=no" }, { "functionCall": { "name": "read_file" } }] },
                { "role": "user", "parts": [{ "functionResponse": { "response": { "output": "SCN=no" } } }] },
            ],
            "tools": [{ "functionDeclarations": [{ "name": "write_file" }, { "name": "read_file" }] }],
        });
        read("/v1beta/models/gemini-2.5-flash:streamGenerateContent", &body)
    }

    #[test]
    fn the_conversation_the_tools_and_the_path_are_read() {
        let asked = asked();
        assert_eq!(asked.said, [Said::User("SCN=write".into()), Said::Call]);
        assert_eq!((asked.model.as_str(), asked.streamed, asked.tools.len()), ("gemini-2.5-flash", true, 2));
        assert_eq!(asked.cwd.as_deref(), Some("/src/tree"));
    }

    #[test]
    fn a_text_is_streamed_and_the_last_chunk_has_reason_and_cost() {
        let text = vec!["a".into(), "b".into()];
        let data = data(&events(&asked(), &Speech { thought: Some("hm".into()), text, ..Speech::default() }));
        let part = |n: usize| &data[n]["candidates"][0]["content"]["parts"][0];
        assert_eq!(part(0), &json!({ "text": "hm", "thought": true }));
        assert_eq!((part(1), part(2)), (&json!({ "text": "a" }), &json!({ "text": "b" })));
        assert_eq!(data[3]["candidates"][0]["finishReason"], "STOP");
        assert_eq!(data[3]["usageMetadata"]["candidatesTokenCount"], 1);
        assert_eq!(data[3]["usageMetadata"]["thoughtsTokenCount"], 1);
        assert_eq!(data.len(), 4);
    }

    #[test]
    fn a_call_is_a_part_with_an_object() {
        let call = Call { name: "write_file".into(), input: Input::Json(json!({ "content": "x" })) };
        let speech = Speech { call: Some(call), ..Speech::default() };
        let data = data(&events(&asked(), &speech));
        let made = &data[0]["candidates"][0]["content"]["parts"][0]["functionCall"];
        assert_eq!((&made["name"], &made["args"]), (&json!("write_file"), &json!({ "content": "x" })));
        assert_eq!(whole(&asked(), &speech)["candidates"], data[0]["candidates"]);
    }
}
