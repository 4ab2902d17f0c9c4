//! The interfaces: how a request is recognised, understood and answered in each. What they share is here; one file
//! each says what is its own.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use crate::answer::Speech;
use crate::asked::Asked;
use crate::http::Request;
use serde_json::{Value, json};

/// One of the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI Responses: codex.
    Responses,
    /// OpenAI chat completions: opencode.
    Chat,
    /// Gemini generateContent: gemini.
    Gemini,
    /// Anthropic Messages: claude.
    Anthropic,
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// An answer of the model.
    Answer(Api),
    /// How many tokens something is.
    Count(Api),
    /// Which models there are.
    Models(Api),
    /// Whether anybody is there.
    Ping,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
    /// It carries a part of the text: pauses come before these, and a stream that breaks off does so after one.
    pub(crate) is_part: bool,
}

impl Event {
    fn new(name: Option<&'static str>, data: &Value) -> Self {
        Self { name, data: data.to_string(), is_part: false }
    }

    /// An event whose name is in its data too.
    fn typed(name: &'static str, mut data: Value) -> Self {
        data["type"] = name.into();
        Self::new(Some(name), &data)
    }

    fn part(self) -> Self {
        Self { is_part: true, ..self }
    }

    /// As it is sent.
    pub(crate) fn frame(&self) -> String {
        let name = self.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data)
    }
}

/// Recognises a request by the end of its path: clients put what they like before it.
pub(crate) fn recognise(request: &Request) -> Option<Wish> {
    let path = request.path.trim_end_matches('/');
    let ends = |end: &str| path.ends_with(end);
    let is_get = request.method == "GET";
    match () {
        () if ends("/ping") || path.is_empty() => Some(Wish::Ping),
        () if is_get && path.contains("/models") => Some(Wish::Models(owner_of_models(request))),
        () if ends(":countTokens") => Some(Wish::Count(Api::Gemini)),
        () if ends("/count_tokens") => Some(Wish::Count(Api::Anthropic)),
        () if ends(":streamGenerateContent") || ends(":generateContent") => Some(Wish::Answer(Api::Gemini)),
        () if ends("/responses") => Some(Wish::Answer(Api::Responses)),
        () if ends("/chat/completions") => Some(Wish::Answer(Api::Chat)),
        () if ends("/messages") => Some(Wish::Answer(Api::Anthropic)),
        () => None,
    }
}

/// The list of models has one path in three interfaces; the way a client shows its key tells them apart.
fn owner_of_models(request: &Request) -> Api {
    if request.path.contains("/v1beta/") {
        Api::Gemini
    } else if request.header("x-api-key").is_some() || request.header("anthropic-version").is_some() {
        Api::Anthropic
    } else {
        Api::Chat
    }
}

impl Api {
    /// Understands a request.
    pub(crate) fn read(self, request: &Request, body: &Value) -> Asked {
        match self {
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(&request.path, body),
            Self::Anthropic => anthropic::read(body),
        }
        .with_length(request.body.len())
    }

    /// An answer as a stream.
    pub(crate) fn events(self, asked: &Asked, speech: &Speech) -> Vec<Event> {
        match self {
            Self::Responses => responses::events(asked, speech),
            Self::Chat => chat::events(asked, speech),
            Self::Gemini => gemini::events(asked, speech),
            Self::Anthropic => anthropic::events(asked, speech),
        }
    }

    /// An answer in one piece.
    pub(crate) fn whole(self, asked: &Asked, speech: &Speech) -> Value {
        match self {
            Self::Responses => responses::whole(asked, speech),
            Self::Chat => chat::whole(asked, speech),
            Self::Gemini => gemini::whole(asked, speech),
            Self::Anthropic => anthropic::whole(asked, speech),
        }
    }

    /// An error in this interface's form.
    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::Responses | Self::Chat => chat::error(status, message),
            Self::Gemini => gemini::error(status, message),
            Self::Anthropic => anthropic::error(status, message),
        }
    }

    /// How many tokens a request is.
    pub(crate) fn count(self, tokens: usize) -> Value {
        match self {
            Self::Gemini => json!({ "totalTokens": tokens }),
            _ => json!({ "input_tokens": tokens }),
        }
    }

    /// The models there are.
    pub(crate) fn models(self) -> Value {
        match self {
            Self::Gemini => json!({ "models": [{ "name": "models/scripted-1", "displayName": "Scripted" }] }),
            Self::Anthropic => {
                let model = json!({ "type": "model", "id": "scripted-1", "display_name": "Scripted" });
                json!({ "data": [model], "has_more": false, "first_id": "scripted-1", "last_id": "scripted-1" })
            }
            Self::Responses | Self::Chat => {
                json!({ "object": "list", "data": [{ "id": "scripted-1", "object": "model", "owned_by": "norma" }] })
            }
        }
    }

    /// The key that a request carries, where this interface's clients put it.
    pub(crate) fn key(self, request: &Request) -> Option<&str> {
        let bearer = || request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match self {
            Self::Responses | Self::Chat => bearer(),
            Self::Gemini => request.header("x-goog-api-key").or_else(|| request.query("key")),
            Self::Anthropic => request.header("x-api-key").or_else(bearer),
        }
    }
}

/// An id that no other answer of the conversation has: it grows with it.
fn id(prefix: &str, asked: &Asked) -> String {
    format!("{prefix}_{:04}", asked.said.len())
}

/// The texts of a list of content parts, or a text that stands for the list.
fn texts<'a>(content: &'a Value, kinds: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let is_text = |part: &&Value| part["type"].as_str().is_some_and(|kind| kinds.contains(&kind));
    let parts = content.as_array().into_iter().flatten().filter(is_text).filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).map(str::to_owned)
}

/// The elements of a list, none if it is no list.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A field's text, or nothing.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The names of a stream's events, for tests of its shape.
#[cfg(test)]
fn names(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(|event| event.name).collect()
}

/// The data of a stream's events, parsed.
#[cfg(test)]
fn data(events: &[Event]) -> Vec<Value> {
    events.iter().filter_map(|event| serde_json::from_str(&event.data).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Request { method: method.into(), path: path.into(), query: query.into(), headers, body: Vec::new() }
    }

    #[test]
    fn a_request_is_recognised_by_its_path() {
        let check = |method: &str, target: &str, wish: Option<Wish>| {
            assert_eq!(recognise(&request(method, target, &[])), wish, "{method} {target}");
        };
        check("POST", "/v1/responses", Some(Wish::Answer(Api::Responses)));
        check("POST", "/v1/chat/completions", Some(Wish::Answer(Api::Chat)));
        check("POST", "/v1/messages?beta=true", Some(Wish::Answer(Api::Anthropic)));
        check("POST", "/v1/messages/count_tokens?beta=true", Some(Wish::Count(Api::Anthropic)));
        check("POST", "/v1beta/models/g:streamGenerateContent?alt=sse", Some(Wish::Answer(Api::Gemini)));
        check("POST", "/v1beta/models/g:countTokens", Some(Wish::Count(Api::Gemini)));
        check("GET", "/v1/models", Some(Wish::Models(Api::Chat)));
        check("GET", "/v1beta/models", Some(Wish::Models(Api::Gemini)));
        check("HEAD", "/", Some(Wish::Ping));
        check("POST", "/v1/elsewhere", None);
    }

    #[test]
    fn a_key_is_looked_for_where_the_clients_of_the_interface_put_it() {
        let bearer = request("POST", "/", &[("authorization", "Bearer k")]);
        let x = request("POST", "/", &[("x-api-key", "k")]);
        let google = request("POST", "/", &[("x-goog-api-key", "k")]);
        let query = request("POST", "/?alt=sse&key=k", &[]);
        let carried = |api: Api| [&bearer, &x, &google, &query].map(|request| api.key(request).is_some());
        assert_eq!(carried(Api::Responses), [true, false, false, false]);
        assert_eq!(carried(Api::Chat), [true, false, false, false]);
        assert_eq!(carried(Api::Anthropic), [true, true, false, false]);
        assert_eq!(carried(Api::Gemini), [false, false, true, true]);
    }
}
