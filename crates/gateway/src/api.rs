//! The APIs that are spoken: how each carries a key, and the form of its errors.

use crate::key::Key;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::route::{Route, api_of};

/// An API of a model provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// OpenAI's Responses.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
    /// Chat completions, as OpenAI made them and many others serve them.
    OpenAiChat,
    /// Either of OpenAI's, as the path of each call says: for programs of which only that is known.
    OpenAiAny,
}

impl Api {
    /// The header that carries the key, and what stands before the key in it.
    pub(crate) fn key_header(self, key: &Key) -> (&'static str, &'static str) {
        match self {
            Api::OpenAi | Api::OpenAiChat | Api::OpenAiAny => ("authorization", "Bearer "),
            _ if key.is_bearer() => ("authorization", "Bearer "),
            Api::Anthropic => ("x-api-key", ""),
            Api::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// The one that a call is in.
    pub(crate) fn of_call(self, method: &str, target: &str) -> Api {
        let path = target.split('?').next().unwrap_or_default();
        if self == Api::OpenAiAny { api_of(method, path) } else { self }
    }

    /// Whether this API needs such a call. The two of OpenAI share what they list.
    pub(crate) fn needs(self, route: &Route) -> bool {
        match route {
            Route::Responses => matches!(self, Api::OpenAi | Api::OpenAiAny),
            Route::ChatCompletions => matches!(self, Api::OpenAiChat | Api::OpenAiAny),
            Route::Messages | Route::MessageTokens => self == Api::Anthropic,
            Route::Generate(_) | Route::ModelTokens | Route::Embed(_) => self == Api::Gemini,
            Route::Models => true,
        }
    }

    /// An error as this API words it, so that the program shows the message instead of a parsing problem.
    pub(crate) fn error_body(self, status: u16, message: &str) -> Vec<u8> {
        let kind = if status < 500 { "invalid_request_error" } else { "api_error" };
        let body = match self {
            Api::OpenAi | Api::OpenAiChat | Api::OpenAiAny => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
            }
            Api::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Api::Gemini => json!({"error": {"code": status, "message": message, "status": gemini_status(status)}}),
        };
        body.to_string().into_bytes()
    }
}

fn gemini_status(status: u16) -> &'static str {
    match status {
        404 => "NOT_FOUND",
        400..=499 => "INVALID_ARGUMENT",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNAVAILABLE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_of_openais_is_told_by_the_path_of_a_call() {
        let spoken = |path| Api::OpenAiAny.of_call("POST", path);
        assert_eq!(spoken("/v1/responses?x=1"), Api::OpenAi);
        assert_eq!(spoken("/chat/completions"), Api::OpenAiChat);
        assert_eq!(Api::Anthropic.of_call("POST", "/responses"), Api::Anthropic);
        let needs =
            |api: Api| [Route::Responses, Route::ChatCompletions, Route::Messages].map(|route| api.needs(&route));
        assert_eq!(needs(Api::OpenAiAny), [true, true, false]);
        assert_eq!(needs(Api::OpenAi), [true, false, false]);
    }

    #[test]
    fn a_token_is_shown_as_one_whatever_the_header_for_keys_is() {
        let key = Key::new("a-secret-value").unwrap();
        assert_eq!(Api::Anthropic.key_header(&key), ("x-api-key", ""));
        assert_eq!(Api::Anthropic.key_header(&key.as_bearer()), ("authorization", "Bearer "));
    }
}
