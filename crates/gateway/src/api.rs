//! The APIs that are spoken: how each carries a key, and the form of its errors.

use crate::key::Key;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::route::Route;

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
}

impl Api {
    /// The header that carries the key, and what stands before the key in it.
    pub(crate) fn key_header(self, key: &Key) -> (&'static str, &'static str) {
        match self {
            Api::OpenAi | Api::OpenAiChat => ("authorization", "Bearer "),
            _ if key.is_bearer() => ("authorization", "Bearer "),
            Api::Anthropic => ("x-api-key", ""),
            Api::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// Whether this API needs such a call. The two of OpenAI share what they list.
    pub(crate) fn needs(self, route: &Route) -> bool {
        match route {
            Route::Responses => self == Api::OpenAi,
            Route::ChatCompletions => self == Api::OpenAiChat,
            Route::Messages | Route::MessageTokens => self == Api::Anthropic,
            Route::Generate(_) | Route::ModelTokens | Route::Embed(_) => self == Api::Gemini,
            Route::Models => true,
        }
    }

    /// An error as this API words it, so that the program shows the message instead of a parsing problem.
    pub(crate) fn error_body(self, status: u16, message: &str) -> Vec<u8> {
        let kind = if status < 500 { "invalid_request_error" } else { "api_error" };
        let body = match self {
            Api::OpenAi | Api::OpenAiChat => {
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
    fn a_token_is_shown_as_one_whatever_the_header_for_keys_is() {
        let key = Key::new("a-secret-value").unwrap();
        assert_eq!(Api::Anthropic.key_header(&key), ("x-api-key", ""));
        assert_eq!(Api::Anthropic.key_header(&key.as_bearer()), ("authorization", "Bearer "));
    }
}
