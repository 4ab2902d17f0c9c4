//! `claude` with stream-json in both directions: the form its own development kit uses. Control requests go either
//! way around the conversation proper; `can_use_tool` is claude's question, `interrupt` ours. Every user message has
//! one `result` line, also when it failed: an error of the API calls itself a success of the conversation, so
//! `is_error` decides.

use crate::calls::Call;
use crate::limits;
use crate::notes::Notes;
use crate::open::Open;
use crate::session::{Act, tell_answer};
use crate::tool;
use crate::trouble;
use crate::turns::{Stage, Turns};
use crate::wire;
use contract::session::{Decision, ErrorKind, Permission, SessionError, Usage};
use serde_json::{Value, json};

/// The control request that opens the talk.
const HELLO: &str = "norma-hello";

/// A question of claude's, as its answer needs it.
struct Asked {
    request: Value,
    call: String,
    input: Value,
    suggestions: Value,
}

/// The talk with one process of claude.
pub(crate) struct Claude {
    turns: Turns,
    interrupts: u64,
    open: Open<Asked>,
    reader: Reader,
}

impl Claude {
    pub(crate) fn open(prompt: &str, out: &mut Vec<Act>) -> Claude {
        out.push(control(&json!({"subtype": "initialize", "hooks": null}), HELLO));
        Claude { turns: Turns::of(prompt), interrupts: 0, open: Open::default(), reader: Reader::default() }
    }

    pub(crate) fn hear(&mut self, mut message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match wire::text(&message, "type") {
            "control_response" => self.controlled(&message["response"], notes, out),
            "control_request" => {
                let id = wire::take(&mut message, "request_id");
                self.requested(id, wire::take(&mut message, "request"), notes, out);
            }
            "control_cancel_request" => {
                let id = &message["request_id"];
                self.open.withdraw(|asked| asked.request == *id);
            }
            "result" => {
                // A result that nobody waits for cannot be the end of a later turn.
                if self.turns.stage == Stage::Turning {
                    self.reader.result(&message, notes, out);
                    self.turns.stage = Stage::Idle;
                    self.open.take_all();
                    self.start_turn(notes, out);
                }
            }
            _ => self.reader.hear(message, notes, out),
        }
    }

    fn controlled(&mut self, response: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        if wire::text(response, "request_id") != HELLO || self.turns.stage != Stage::Greeting {
            return;
        }
        if wire::text(response, "subtype") == "success" {
            self.turns.stage = Stage::Idle;
            return self.start_turn(notes, out);
        }
        self.turns.fail(trouble::protocol(wire::text(response, "error")), notes, out);
    }

    fn start_turn(&mut self, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(prompt) = self.turns.begin(notes, out) else { return };
        self.reader.begin_turn();
        let message = json!({"role": "user", "content": prompt});
        let line = json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""});
        out.push(Act::Say(wire::line(&line)));
    }

    fn requested(&mut self, id: Value, mut request: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        if wire::text(&request, "subtype") != "can_use_tool" {
            out.push(response(&json!({"subtype": "error", "request_id": id, "error": "norma does not do this"})));
            return notes.other(request, out);
        }
        let input = wire::take(&mut request, "input");
        let asked = Asked {
            request: id,
            call: wire::name(&request, "tool_use_id"),
            input: input.clone(),
            suggestions: wire::take(&mut request, "permission_suggestions"),
        };
        let permission = permission(&request, input);
        let bytes = wire::weight(&asked.request) + wire::weight(&asked.input) + wire::weight(&asked.suggestions);
        if let Some((asked, decision)) = self.open.consider(&notes.rights, permission, asked, bytes, out) {
            Claude::reply(asked, &decision, notes, out);
        }
    }

    pub(crate) fn answer(&mut self, id: &str, decision: &Decision, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(asked) = self.open.take(id) else { return };
        tell_answer(id, decision.clone(), out);
        Claude::reply(asked, decision, notes, out);
    }

    fn reply(asked: Asked, decision: &Decision, notes: &mut Notes, out: &mut Vec<Act>) {
        let body = match decision {
            Decision::Allow => json!({"behavior": "allow", "updatedInput": asked.input}),
            Decision::AllowModified { input } => json!({"behavior": "allow", "updatedInput": input}),
            Decision::AllowForSession => json!({
                "behavior": "allow",
                "updatedInput": asked.input,
                "updatedPermissions": for_session(asked.suggestions),
            }),
            Decision::Deny { message } => json!({"behavior": "deny", "message": message, "interrupt": false}),
        };
        notes.calls.decide(&asked.call, decision, out);
        out.push(response(&json!({"subtype": "success", "request_id": asked.request, "response": body})));
    }

    pub(crate) fn prompt(&mut self, text: &str, notes: &mut Notes, out: &mut Vec<Act>) {
        self.turns.add(text);
        self.start_turn(notes, out);
    }

    pub(crate) fn cancel(&mut self, notes: &mut Notes, out: &mut Vec<Act>) {
        for (id, asked) in self.open.take_all() {
            let decision = Decision::Deny { message: "cancelled".to_owned() };
            tell_answer(&id, decision.clone(), out);
            Claude::reply(asked, &decision, notes, out);
        }
        if self.turns.stage == Stage::Turning {
            self.interrupts += 1;
            out.push(control(&json!({"subtype": "interrupt"}), &format!("norma-stop-{}", self.interrupts)));
        } else {
            self.turns.cancelled = true;
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.open.size().1
    }
}

fn control(request: &Value, id: &str) -> Act {
    Act::Say(wire::line(&json!({"type": "control_request", "request_id": id, "request": request})))
}

fn response(response: &Value) -> Act {
    Act::Say(wire::line(&json!({"type": "control_response", "response": response})))
}

/// Of the rules that claude proposes, those that allow the like of what was asked, and only until it ends: it
/// proposes to keep them in the repository's settings.
fn for_session(suggestions: Value) -> Vec<Value> {
    let Value::Array(suggestions) = suggestions else { return Vec::new() };
    let rules = suggestions.into_iter().filter(|rule| wire::text(rule, "type") == "addRules");
    rules
        .map(|mut rule| {
            rule["destination"] = json!("session");
            rule
        })
        .collect()
}

fn permission(request: &Value, input: Value) -> Permission {
    let tool = wire::name(request, "tool_name");
    let paths = ["file_path", "notebook_path", "path"].iter().filter_map(|key| wire::some_text(&input, key));
    Permission {
        id: String::new(),
        kind: tool::kind_of(&tool),
        tool,
        command: wire::some_text(&input, "command"),
        cwd: None,
        paths: paths.collect(),
        reason: wire::some_text(request, "decision_reason").or_else(|| wire::some_text(&input, "description")),
        input,
    }
}

/// The conversation proper, which the two-way form and the one-shot form have in common.
#[derive(Default)]
pub(crate) struct Reader {
    /// What claude calls the error of the API, told before the result.
    api_error: String,
    /// Tokens of results that do not tell the process's totals.
    before: Usage,
}

impl Reader {
    fn begin_turn(&mut self) {
        self.api_error.clear();
    }

    /// Any line but a result and control.
    pub(crate) fn hear(&mut self, mut message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match wire::text(&message, "type") {
            "system" => Reader::system(message, notes, out),
            "assistant" => self.assistant(message, notes, out),
            "user" => Reader::tool_results(&message, notes, out),
            "stream_event" => Reader::streamed(&message, notes, out),
            "keep_alive" => {}
            _ => notes.other(message.take(), out),
        }
    }

    fn system(message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match wire::text(&message, "subtype") {
            "init" => {
                let version = wire::text(&message, "claude_code_version");
                let agent = Some(wire::clip(&format!("claude {version}"), limits::NAME_BYTES_MAX).trim().to_owned());
                notes.session(wire::name(&message, "session_id"), wire::some_name(&message, "model"), agent, out);
            }
            "api_retry" => {
                let status = status(&message, "error_status");
                notes.trouble(of_word(wire::text(&message, "error"), status, "trying again"), out);
            }
            "thinking_tokens" => {}
            _ => notes.other(message, out),
        }
    }

    fn assistant(&mut self, mut message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        // Then its text is what went wrong, which the result says again.
        if let Some(error) = wire::some_name(&message, "error") {
            self.api_error = error;
            return;
        }
        // What an agent of claude's own says is no answer to us; its tools are tools.
        let inner = message.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null());
        let Value::Array(blocks) = wire::take(&mut message["message"], "content") else { return };
        for mut block in blocks {
            match wire::text(&block, "type") {
                "text" if !inner => notes.message(wire::text(&block, "text"), out),
                "thinking" if !inner => notes.thought(wire::text(&block, "thinking"), out),
                "tool_use" => {
                    let tool = wire::name(&block, "name");
                    let kind = tool::kind_of(&tool);
                    let input = wire::take(&mut block, "input");
                    notes.calls.propose(Call { id: wire::name(&block, "id"), tool, kind, input }, out);
                }
                _ => {}
            }
        }
    }

    fn tool_results(message: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        for block in wire::list(&message["message"], "content") {
            if wire::text(block, "type") == "tool_result" {
                let output = content_text(&block["content"]);
                notes.calls.complete(&wire::name(block, "tool_use_id"), !wire::flag(block, "is_error"), &output, out);
            }
        }
    }

    fn streamed(message: &Value, notes: &Notes, out: &mut Vec<Act>) {
        let inner = message.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null());
        let delta = &message["event"]["delta"];
        // Thoughts come whole as well, and need not come twice.
        if !inner && wire::text(delta, "type") == "text_delta" {
            notes.delta(wire::text(delta, "text"), out);
        }
    }

    /// The end of a turn.
    pub(crate) fn result(&mut self, message: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        notes.session(wire::name(message, "session_id"), None, None, out);
        self.used(message, notes, out);
        let subtype = wire::text(message, "subtype");
        let refused = wire::text(message, "stop_reason") == "refusal";
        if wire::flag(message, "is_error") || subtype != "success" || refused {
            notes.trouble(self.error(message, refused), out);
            let reason = if refused { "refusal" } else { subtype };
            return notes.end(false, if reason == "success" { "error" } else { reason }, out);
        }
        match message.get("structured_output").filter(|output| !output.is_null()) {
            Some(output) => notes.answer_is(&output.to_string()),
            None => notes.answer_is(wire::text(message, "result")),
        }
        let reason = wire::text(message, "stop_reason");
        notes.end(true, if reason.is_empty() { subtype } else { reason }, out);
    }

    fn error(&self, message: &Value, refused: bool) -> SessionError {
        let listed = wire::list(message, "errors").iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ");
        let said = [wire::text(message, "result"), &listed, wire::text(message, "subtype")];
        let said = said.into_iter().find(|said| !said.is_empty()).unwrap_or_default();
        if refused {
            return trouble::refused(said);
        }
        of_word(&self.api_error, status(message, "api_error_status"), said)
    }

    fn used(&mut self, message: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let cost = wire::micro_usd(message.get("total_cost_usd"));
        let models = message.get("modelUsage").and_then(Value::as_object).filter(|models| !models.is_empty());
        let mut usage = match models {
            Some(models) => models.values().map(of_model).fold(Usage::default(), add),
            None => {
                self.before = add(self.before, of_result(&message["usage"]));
                self.before
            }
        };
        usage.cost_micro_usd = cost;
        notes.usage_is(usage, out);
    }
}

/// The process's total for one model.
fn of_model(model: &Value) -> Usage {
    let cached = wire::count(model, "cacheReadInputTokens");
    Usage {
        input_tokens: wire::count(model, "inputTokens")
            .saturating_add(wire::count(model, "cacheCreationInputTokens"))
            .saturating_add(cached),
        output_tokens: wire::count(model, "outputTokens"),
        cached_tokens: cached,
        ..Usage::default()
    }
}

/// One turn's count.
fn of_result(usage: &Value) -> Usage {
    let cached = wire::count(usage, "cache_read_input_tokens");
    Usage {
        input_tokens: wire::count(usage, "input_tokens")
            .saturating_add(wire::count(usage, "cache_creation_input_tokens"))
            .saturating_add(cached),
        output_tokens: wire::count(usage, "output_tokens"),
        cached_tokens: cached,
        ..Usage::default()
    }
}

fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        cached_tokens: a.cached_tokens.saturating_add(b.cached_tokens),
        ..Usage::default()
    }
}

fn status(message: &Value, key: &str) -> Option<u16> {
    message.get(key).and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok())
}

/// By the status, then by claude's word for it, then by what it says.
fn of_word(word: &str, status: Option<u16>, said: &str) -> SessionError {
    match (status, word) {
        (Some(status), _) => trouble::judge(Some(status), said),
        (None, "authentication_failed" | "oauth_org_not_allowed") => trouble::with(ErrorKind::Auth, said, None),
        (None, "rate_limit" | "billing_error") => trouble::rate_limited(said, None),
        (None, word) => {
            let mut error = trouble::judge(None, said);
            // Claude calls a connection that broke the server's error as well.
            if error.kind == ErrorKind::Other && word == "server_error" {
                error.kind = ErrorKind::Server;
            }
            error
        }
    }
}

/// The text of a tool's result: a text, or a list of blocks.
fn content_text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice).iter();
    blocks.map(|block| wire::text(block, "text")).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
