//! What may be asked of a provider where nothing else may be reached: some of what an API understands makes the provider
//! itself search, fetch, run code or speak to servers that the request names. Without a network, a request has only the
//! members and tools listed here, and everything that it is about is in it. What nobody has heard of yet is refused.

use contract::json;
use serde_json::{Map, Value};

use crate::api::Api;
use crate::refusal::Refusal;

/// Far above what agents send: a conversation is one document.
const DOCUMENT: json::Limits = json::Limits::new(64 << 20, 127);

/// Members of a request that say what to answer, and how.
const MESSAGES: &[&str] = &[
    "model",
    "messages",
    "system",
    "max_tokens",
    "metadata",
    "stop_sequences",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "tools",
    "tool_choice",
    "thinking",
    "service_tier",
    "context_management",
    "output_config",
    "output_format",
    "cache_control",
    "speed",
    "diagnostics",
];
const RESPONSES: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "store",
    "stream",
    "stream_options",
    "include",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "text",
    "temperature",
    "top_p",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "client_metadata",
    "previous_response_id",
    "service_tier",
    "truncation",
    "user",
    "safety_identifier",
    "background",
    "top_logprobs",
    "context_management",
];
const CHAT: &[&str] = &[
    "model",
    "models",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "seed",
    "user",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "enable_thinking",
    "chat_template_kwargs",
    "verbosity",
    "metadata",
    "store",
    "prediction",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
    "provider",
    "usage",
    "keep_alive",
    "options",
];
const GENERATE: &[&str] = &[
    "model",
    "contents",
    "content",
    "systemInstruction",
    "system_instruction",
    "tools",
    "toolConfig",
    "tool_config",
    "generationConfig",
    "generation_config",
    "safetySettings",
    "safety_settings",
    "generateContentRequest",
    "generate_content_request",
    "taskType",
    "task_type",
    "title",
    "outputDimensionality",
    "output_dimensionality",
    "labels",
];

/// Tools that the agent's own program carries out, by type; those of Anthropic's with a date behind the name.
const OWN_TOOLS: &[&str] = &["function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"];
const OWN_DATED_TOOLS: &[&str] = &["bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"];
/// The only kind of tools of Gemini's that the program carries out.
const DECLARED: &[&str] = &["functionDeclarations", "function_declarations"];

/// Betas of Anthropic's that switch on what is refused.
const BETAS: &[&str] = &["mcp-client-", "web-fetch-", "web-search-", "code-execution-", "files-api-", "skills-"];

/// Models that search by themselves, by what their names end with or have in them.
const SEARCHING: &[&str] = &[":online", "-search-preview", "-search-api", "deep-research"];

/// Refuses a request by which the provider would reach something else.
pub(super) fn check(api: Api, headers: &[(String, String)], body: &[u8]) -> Result<(), Refusal> {
    let betas = headers.iter().filter(|(name, _)| name == "anthropic-beta").flat_map(|(_, value)| value.split(','));
    if let Some(beta) = betas.map(str::trim).find(|beta| BETAS.iter().any(|known| beta.starts_with(known))) {
        return Err(refusal(&format!("the beta {beta:?}")));
    }
    if body.is_empty() {
        return Ok(());
    }
    let request = json::parse(body, &DOCUMENT).map_err(|_| Refusal::malformed("its body is not plain JSON"))?;
    let members = request.as_object().ok_or_else(|| Refusal::malformed("its body is not an object"))?;
    found(api, members).map_or(Ok(()), |what| Err(refusal(&what)))
}

fn refusal(what: &str) -> Refusal {
    Refusal::unreachable(&format!("the contract allows no network, and {what} could have the provider reach one"))
}

/// The first thing that is not allowed.
fn found(api: Api, members: &Map<String, Value>) -> Option<String> {
    let known = match api {
        Api::Anthropic => MESSAGES,
        Api::OpenAi | Api::OpenAiAny => RESPONSES,
        Api::OpenAiChat => CHAT,
        Api::Gemini => GENERATE,
    };
    if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Some(format!("the member {name:?}"));
    }
    let named = ["model", "models"].into_iter().filter_map(|name| members.get(name));
    let mut models = named.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
    if let Some(model) = models.find(|model| searches(model)) {
        return Some(format!("the model {model}"));
    }
    for nested in ["generateContentRequest", "generate_content_request"] {
        if let Some(what) = members.get(nested).and_then(Value::as_object).and_then(|inner| found(api, inner)) {
            return Some(what);
        }
    }
    let tools = members.get("tools").map(|tools| tools.as_array().map_or(std::slice::from_ref(tools), Vec::as_slice));
    if let Some(tool) = tools.unwrap_or_default().iter().find(|tool| !is_own(api, tool)) {
        return Some(format!("the tool {}", name_of(tool)));
    }
    let about = [
        "messages",
        "input",
        "system",
        "instructions",
        "contents",
        "content",
        "systemInstruction",
        "system_instruction",
    ];
    about.iter().filter_map(|name| members.get(*name)).find_map(elsewhere)
}

fn searches(model: &Value) -> bool {
    model.as_str().is_none_or(|model| SEARCHING.iter().any(|part| model.contains(part)))
}

/// Whether a tool is one that the agent's own program carries out.
fn is_own(api: Api, tool: &Value) -> bool {
    let Some(members) = tool.as_object() else { return false };
    if api == Api::Gemini {
        return members.keys().all(|name| DECLARED.contains(&name.as_str()));
    }
    let nested =
        tool.get("tools").and_then(Value::as_array).is_none_or(|tools| tools.iter().all(|tool| is_own(api, tool)));
    nested
        && match members.get("type") {
            None => true,
            Some(Value::String(kind)) => {
                OWN_TOOLS.contains(&kind.as_str()) || OWN_DATED_TOOLS.iter().any(|dated| kind.starts_with(dated))
            }
            Some(_) => false,
        }
}

fn name_of(tool: &Value) -> String {
    let kind = tool.get("type").or_else(|| tool.get("name")).and_then(Value::as_str).map(str::to_owned);
    let members = || tool.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>().join(", "));
    format!("{:?}", kind.or_else(members).unwrap_or_default())
}

/// What of a conversation is not in it, but somewhere that the provider would get it from. What tools were called with and
/// what models said of themselves is passed over: nobody fetches it.
fn elsewhere(value: &Value) -> Option<String> {
    match value {
        Value::Array(values) => values.iter().find_map(elsewhere),
        Value::Object(members) => {
            let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
            members.iter().find_map(|(name, value)| match name.as_str() {
                "file_url" | "fileUri" | "file_uri" | "file_id" | "container_id" if !value.is_null() => {
                    Some(format!("{name:?}"))
                }
                "image_url" | "video_url" | "audio_url" if !is_here(value) => {
                    Some(format!("{name:?} of another place"))
                }
                "source" if matches!(kind, "image" | "document") && !is_source_here(value) => {
                    Some(format!("the source of the {kind}"))
                }
                "arguments" | "args" | "functionCall" | "function_call" => None,
                "input" if kind == "tool_use" => None,
                _ => elsewhere(value),
            })
        }
        _ => None,
    }
}

fn is_here(url: &Value) -> bool {
    url.as_str().or_else(|| url.get("url").and_then(Value::as_str)).is_some_and(|url| url.starts_with("data:"))
}

fn is_source_here(source: &Value) -> bool {
    source.get("type").and_then(Value::as_str).is_some_and(|kind| matches!(kind, "base64" | "text" | "content"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(api: Api, body: &str) -> String {
        check(api, &[], body.as_bytes()).unwrap_err().message
    }

    #[test]
    fn what_agents_ask_for_is_let_through() {
        for (api, body) in [
            (
                Api::Anthropic,
                r#"{"model":"m","max_tokens":1,"tools":[{"name":"Bash","input_schema":{}},{"type":"bash_20250124","name":"bash"}],
                "messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":""}}]},
                {"role":"assistant","content":[{"type":"tool_use","input":{"image_url":"https://a","file_id":"f"}}]}]}"#,
            ),
            (
                Api::OpenAi,
                r#"{"model":"m","input":[{"type":"input_image","image_url":"data:image/png;base64,"},
                {"type":"function_call","arguments":"{\"file_url\":\"https://a\"}"}],
                "tools":[{"type":"function"},{"type":"namespace","tools":[{"type":"function"}]},{"type":"local_shell"}]}"#,
            ),
            (
                Api::OpenAiChat,
                r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}],
                "tools":[{"type":"function","function":{"name":"f"}}]}"#,
            ),
            (
                Api::Gemini,
                r#"{"contents":[{"parts":[{"inlineData":{}},{"functionCall":{"args":{"fileUri":"x"}}}]}],
                "tools":[{"functionDeclarations":[]}]}"#,
            ),
        ] {
            assert_eq!(
                check(
                    api,
                    &[("anthropic-beta".to_owned(), "claude-code-20250219, oauth-2025-04-20".to_owned())],
                    body.as_bytes()
                ),
                Ok(())
            );
        }
    }

    #[test]
    fn what_would_reach_another_host_is_refused_by_name() {
        for (api, body, named) in [
            (Api::Anthropic, r#"{"mcp_servers":[{"type":"url","url":"https://a"}]}"#, "mcp_servers"),
            (Api::Anthropic, r#"{"tools":[{"type":"web_fetch_20250910","name":"f"}]}"#, "web_fetch_20250910"),
            (Api::Anthropic, r#"{"tools":[{"type":"web_search_20250305"}]}"#, "web_search_20250305"),
            (Api::Anthropic, r#"{"tools":[{"type":"code_execution_20250522"}]}"#, "code_execution"),
            (Api::Anthropic, r#"{"container":"c"}"#, "container"),
            (
                Api::Anthropic,
                r#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://a"}}]}]}"#,
                "image",
            ),
            (
                Api::Anthropic,
                r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"file"}}]}]}]}"#,
                "document",
            ),
            (Api::OpenAi, r#"{"tools":[{"type":"web_search"}]}"#, "web_search"),
            (Api::OpenAi, r#"{"tools":[{"type":"mcp","server_url":"https://a"}]}"#, "mcp"),
            (Api::OpenAi, r#"{"tools":[{"type":"code_interpreter"}]}"#, "code_interpreter"),
            (Api::OpenAi, r#"{"tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}"#, "namespace"),
            (
                Api::OpenAi,
                r#"{"input":[{"content":[{"type":"input_image","image_url":"https://a/b.png"}]}]}"#,
                "image_url",
            ),
            (Api::OpenAi, r#"{"input":[{"content":[{"type":"input_file","file_url":"https://a"}]}]}"#, "file_url"),
            (Api::OpenAi, r#"{"prompt":{"id":"p"}}"#, "prompt"),
            (Api::OpenAiChat, r#"{"web_search_options":{}}"#, "web_search_options"),
            (Api::OpenAiChat, r#"{"plugins":[{"id":"web"}]}"#, "plugins"),
            (Api::OpenAiChat, r#"{"model":"a/b:online"}"#, "online"),
            (
                Api::OpenAiChat,
                r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"http://a"}}]}]}"#,
                "image_url",
            ),
            (Api::Gemini, r#"{"tools":[{"functionDeclarations":[]},{"googleSearch":{}}]}"#, "googleSearch"),
            (Api::Gemini, r#"{"tools":[{"url_context":{}}]}"#, "url_context"),
            (Api::Gemini, r#"{"tools":{"codeExecution":{}}}"#, "codeExecution"),
            (Api::Gemini, r#"{"contents":[{"parts":[{"fileData":{"fileUri":"https://a"}}]}]}"#, "fileUri"),
            (Api::Gemini, r#"{"generateContentRequest":{"tools":[{"googleMaps":{}}]}}"#, "googleMaps"),
        ] {
            let message = refused(api, body);
            assert!(message.contains(named) && message.contains("no network"), "{body}: {message}");
        }
        let beta = [("anthropic-beta".to_owned(), "claude-code-1, mcp-client-2025-04-04".to_owned())];
        assert!(check(Api::Anthropic, &beta, b"{}").unwrap_err().message.contains("mcp-client"));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for body in [r#"{"tools":[{"type":"web_search"}],"tools":[]}"#, "[]", "no"] {
            assert_eq!(check(Api::OpenAi, &[], body.as_bytes()).unwrap_err().status, 400, "{body}");
        }
    }
}
