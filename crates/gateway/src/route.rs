//! The calls that agents' programs make, by method and path. What is not one of them is not forwarded: the key
//! would also open files, fine-tuning and accounts.

use crate::api::Api;

/// A call that some API needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `POST …/responses`, and the one that shortens a conversation.
    Responses,
    /// `POST …/chat/completions`.
    ChatCompletions,
    /// `POST …/messages`.
    Messages,
    /// `POST …/messages/count_tokens`.
    MessageTokens,
    /// `POST …/models/M:generateContent`, streamed or not, with the model.
    Generate(String),
    /// `POST …/models/M:countTokens`.
    ModelTokens,
    /// `POST …/models/M:embedContent`, with the model.
    Embed(String),
    /// `GET …/models`, or one of them.
    Models,
}

impl Route {
    /// Reads a method and a path without its query; `None` if nobody needs it.
    pub(crate) fn of(method: &str, path: &str) -> Option<Route> {
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let below_version = match segments.as_slice() {
            [version, rest @ ..] if is_version(version) => rest,
            all => all,
        };
        match (method, below_version) {
            ("POST", ["responses"] | ["responses", "compact"]) => Some(Route::Responses),
            ("POST", ["chat", "completions"]) => Some(Route::ChatCompletions),
            ("POST", ["messages"]) => Some(Route::Messages),
            ("POST", ["messages", "count_tokens"]) => Some(Route::MessageTokens),
            ("POST", ["models", call]) => model_call(call),
            ("GET", ["models"]) => Some(Route::Models),
            ("GET", ["models", model]) if is_model(model) => Some(Route::Models),
            _ => None,
        }
    }

    /// Whether it costs something. Counting and listing are free with every provider.
    pub(crate) fn is_metered(&self) -> bool {
        !matches!(self, Route::MessageTokens | Route::ModelTokens | Route::Models)
    }

    /// The model that the path names.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Route::Generate(model) | Route::Embed(model) => Some(model),
            _ => None,
        }
    }
}

/// The API that a path belongs to by its looks; for answers where no provider says it.
pub(crate) fn api_of(method: &str, path: &str) -> Api {
    match Route::of(method, path) {
        Some(Route::Messages | Route::MessageTokens) => Api::Anthropic,
        Some(Route::Generate(_) | Route::ModelTokens | Route::Embed(_)) => Api::Gemini,
        Some(Route::ChatCompletions) => Api::OpenAiChat,
        Some(Route::Responses | Route::Models) | None => Api::OpenAi,
    }
}

fn model_call(call: &str) -> Option<Route> {
    let (model, verb) = call.rsplit_once(':')?;
    if !is_model(model) {
        return None;
    }
    match verb {
        "generateContent" | "streamGenerateContent" => Some(Route::Generate(model.to_owned())),
        "countTokens" => Some(Route::ModelTokens),
        "embedContent" => Some(Route::Embed(model.to_owned())),
        _ => None,
    }
}

/// `v1`, `v1beta`, `v1alpha`.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v') else { return false };
    let word = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    word.len() < rest.len() && matches!(word, "" | "alpha" | "beta")
}

/// Names of models as the providers spell them. Without `%` and `/` a path means the same to everybody who reads it.
fn is_model(name: &str) -> bool {
    let spelled = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    !name.is_empty() && name.chars().all(spelled) && name.chars().any(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_the_programs_ask_for() {
        let generate = Route::Generate("gemini-2.5-flash".to_owned());
        for (method, path, route) in [
            ("POST", "/responses", Route::Responses),
            ("POST", "/v1/responses", Route::Responses),
            ("POST", "/v1/chat/completions", Route::ChatCompletions),
            ("POST", "/v1/messages", Route::Messages),
            ("POST", "/v1/messages/count_tokens", Route::MessageTokens),
            ("POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent", generate.clone()),
            ("POST", "/v1beta/models/gemini-2.5-flash:generateContent", generate),
            ("POST", "/v1beta/models/gemini-2.5-flash:countTokens", Route::ModelTokens),
            ("GET", "/v1/models", Route::Models),
            ("GET", "/v1/models/ft:gpt-4.1:norma", Route::Models),
        ] {
            assert_eq!(Route::of(method, path), Some(route), "{method} {path}");
        }
    }

    #[test]
    fn nothing_else_is_needed() {
        for (method, path) in [
            ("GET", "/v1/responses"),
            ("DELETE", "/v1/models/x"),
            ("POST", "/v1/files"),
            ("POST", "/v1/v1/messages"),
            ("POST", "/x/v1/messages"),
            ("POST", "/v1/messages/"),
            ("POST", "/v1/messages/batches"),
            ("POST", "/v1beta/models/..:generateContent"),
            ("POST", "/v1beta/models/a%2fb:generateContent"),
            ("POST", "/v1beta/models/m:batchGenerateContent"),
            ("GET", "/v1/models/.."),
            ("GET", "/v1/organization/users"),
            ("POST", "v1/messages"),
            ("POST", ""),
        ] {
            assert_eq!(Route::of(method, path), None, "{method} {path}");
        }
    }
}
