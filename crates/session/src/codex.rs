//! `codex app-server`: JSON-RPC over stdio, without the `jsonrpc` member. A thread is the conversation, a turn one
//! prompt, and what codex does in it are items that start and complete. Approvals are requests of the server, with
//! ids from 0. It does not tell of a command that its own sandbox refused, so items are no evidence of absence.

use crate::brief::Brief;
use crate::calls::Call;
use crate::launch::codex::{approval_policy, sandbox};
use crate::limits;
use crate::notes::Notes;
use crate::open::Open;
use crate::rpc::{self, Heard, Speaker};
use crate::session::{Act, tell_answer, without_changes};
use crate::strict::is_strict;
use crate::trouble;
use crate::turns::{Stage, Turns};
use crate::wire;
use contract::session::{Decision, ErrorKind, Permission, SessionError, ToolKind, Usage};
use serde_json::{Value, json};

/// A request for an approval, as its answer needs it.
struct Asked {
    rpc_id: Value,
    call: String,
}

/// The talk with one app server.
pub(crate) struct Codex {
    speaker: Speaker,
    turns: Turns,
    /// `thread/start` or `thread/resume`, with its parameters.
    opening: (&'static str, Value),
    schema: Option<Value>,
    effort: Option<String>,
    agent: Option<String>,
    thread: String,
    turn: String,
    /// What the thread had used before this process; not known yet for a resumed one.
    before: Option<Usage>,
    open: Open<Asked>,
}

impl Codex {
    pub(crate) fn open(brief: &Brief<'_>, prompt: &str, out: &mut Vec<Act>) -> Codex {
        let mut codex = Codex {
            speaker: Speaker::new(false),
            turns: Turns::of(prompt),
            opening: opening(brief),
            schema: brief.output_schema.filter(|schema| is_strict(schema)).cloned(),
            effort: brief.effort.map(str::to_owned),
            agent: None,
            thread: String::new(),
            turn: String::new(),
            before: brief.resume.is_none().then(Usage::default),
            open: Open::default(),
        };
        let client = json!({"name": "norma", "title": "norma", "version": env!("CARGO_PKG_VERSION")});
        let hello = json!({"clientInfo": client, "capabilities": {"experimentalApi": false}});
        codex.speaker.ask("initialize", &hello, out);
        codex
    }

    pub(crate) fn hear(&mut self, message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match self.speaker.sort(message) {
            Heard::Answer(result) => self.answered(result, notes, out),
            Heard::Stray(Ok(_)) => {}
            Heard::Stray(Err(error)) => notes.other(error, out),
            Heard::Request { id, method, params } => self.requested(id, &method, params, notes, out),
            Heard::Notice { method, params } => self.noticed(&method, params, notes, out),
            Heard::Strange(raw) => notes.other(raw, out),
        }
    }

    fn answered(&mut self, result: Result<Value, Value>, notes: &mut Notes, out: &mut Vec<Act>) {
        let result = match result {
            Ok(result) => result,
            Err(error) => return self.failed(&error, notes, out),
        };
        match self.turns.stage {
            Stage::Greeting => {
                self.agent = wire::some_name(&result, "userAgent");
                self.speaker.notice("initialized", None, out);
                self.turns.stage = Stage::Opening;
                let (method, params) = &self.opening;
                self.speaker.ask(method, params, out);
            }
            Stage::Opening => self.opened(&result, notes, out),
            Stage::Turning => self.turn_is(wire::text(&result["turn"], "id"), out),
            Stage::Idle | Stage::Failed => {}
        }
    }

    fn failed(&mut self, error: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let problem = trouble::judge(None, wire::text(error, "message"));
        if self.turns.stage != Stage::Turning {
            return self.turns.fail(problem, notes, out);
        }
        self.turns.stage = Stage::Idle;
        notes.trouble(problem, out);
        notes.end(false, "not started", out);
    }

    fn opened(&mut self, result: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        self.thread = wire::name(&result["thread"], "id");
        if self.thread.is_empty() {
            return self.failed(&json!({"message": "a thread without an id"}), notes, out);
        }
        self.turns.stage = Stage::Idle;
        notes.session(self.thread.clone(), wire::some_name(result, "model"), self.agent.take(), out);
        self.start_turn(notes, out);
    }

    fn start_turn(&mut self, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(prompt) = self.turns.begin(notes, out) else { return };
        self.turn.clear();
        let mut params = json!({"threadId": self.thread, "input": [{"type": "text", "text": prompt}]});
        if let Some(schema) = &self.schema {
            params["outputSchema"] = schema.clone();
        }
        if let Some(effort) = &self.effort {
            params["effort"] = json!(effort);
        }
        self.speaker.ask("turn/start", &params, out);
    }

    /// The turn has its name now; a wish to cancel may have waited for it.
    fn turn_is(&mut self, turn: &str, out: &mut Vec<Act>) {
        if !turn.is_empty() && self.turn.is_empty() {
            wire::clip(turn, limits::NAME_BYTES_MAX).clone_into(&mut self.turn);
        }
        if !self.turn.is_empty() && std::mem::take(&mut self.turns.cancelled) {
            self.interrupt(out);
        }
    }

    fn interrupt(&mut self, out: &mut Vec<Act>) {
        let params = json!({"threadId": self.thread, "turnId": self.turn});
        self.speaker.request("turn/interrupt", &params, out);
    }

    fn noticed(&mut self, method: &str, params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        // Codex can have agents of its own, each with a thread; only their tools concern us.
        let thread = wire::text(&params, "threadId");
        let ours = thread.is_empty() || thread == self.thread;
        match method {
            "item/agentMessage/delta" if ours => notes.delta(wire::text(&params, "delta"), out),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" if ours => {
                notes.thought(wire::text(&params, "delta"), out);
            }
            "item/started" => Codex::item_started(params, notes, out),
            "item/completed" => Codex::item_completed(params, ours, notes, out),
            // Whoever says something runs.
            "item/commandExecution/outputDelta" => notes.calls.start(&wire::name(&params, "itemId"), out),
            "turn/started" if ours => self.turn_is(wire::text(&params["turn"], "id"), out),
            "turn/completed" if ours => self.turn_completed(&params["turn"], notes, out),
            "turn/plan/updated" if ours => notes.plan(wire::list(&params, "plan"), "step", out),
            "thread/tokenUsage/updated" if ours => self.used(&params["tokenUsage"], notes, out),
            "error" if ours => notes.trouble(error_of(&params["error"]), out),
            "account/rateLimits/updated" if params["rateLimits"]["primary"].is_null() => {}
            _ if is_known(method) || !ours => {}
            _ => rpc::unread(method, params, notes, out),
        }
    }

    fn item_started(mut params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(call) = tool_call(wire::take(&mut params, "item")) else { return };
        // Codex calls an item started before it asks whether it may.
        if notes.may_ask(call.kind) {
            notes.calls.propose(call, out);
        } else {
            notes.calls.begin(call, out);
        }
    }

    fn item_completed(mut params: Value, ours: bool, notes: &mut Notes, out: &mut Vec<Act>) {
        let item = wire::take(&mut params, "item");
        if wire::text(&item, "type") == "agentMessage" {
            if ours {
                notes.message(wire::text(&item, "text"), out);
            }
            return;
        }
        let status = wire::text(&item, "status");
        let code = item.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
        let ok = matches!(status, "completed" | "") && code == 0;
        let declined = status == "declined";
        let output = item_output(&item);
        let Some(call) = tool_call(item) else { return };
        let id = call.id.clone();
        if declined {
            notes.calls.deny(&id);
        } else {
            notes.calls.begin(call, out);
        }
        notes.calls.complete(&id, ok, &output, out);
    }

    fn turn_completed(&mut self, turn: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        if self.turns.stage != Stage::Turning {
            return;
        }
        let id = wire::name(turn, "id");
        if !self.turn.is_empty() && !id.is_empty() && id != self.turn {
            return;
        }
        self.turns.stage = Stage::Idle;
        self.open.take_all();
        match wire::text(turn, "status") {
            "completed" => notes.end(true, "completed", out),
            "interrupted" => {
                notes.trouble(trouble::other("interrupted"), out);
                notes.end(false, "interrupted", out);
            }
            status => {
                notes.trouble(error_of(&turn["error"]), out);
                notes.end(false, if status.is_empty() { "failed" } else { status }, out);
            }
        }
        self.start_turn(notes, out);
    }

    fn used(&mut self, usage: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let total = tokens(&usage["total"]);
        if self.before.is_none() && self.turns.stage != Stage::Turning {
            // What a resumed thread had used is told before anything is asked of it, if at all.
            return;
        }
        let last = tokens(&usage["last"]);
        let before = *self.before.get_or_insert_with(|| total.less(&last));
        notes.usage_is(total.less(&before), out);
    }

    fn requested(&mut self, id: Value, method: &str, params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let permission = match method {
            "item/commandExecution/requestApproval" => command_permission(params),
            "item/fileChange/requestApproval" => change_permission(params, notes),
            _ => return self.speaker.refuse_unknown(&id, method, params, notes, out),
        };
        let call = wire::name(&permission.input, "itemId");
        let bytes = wire::weight(&id) + call.len();
        let asked = Asked { rpc_id: id, call };
        if let Some((asked, decision)) = self.open.consider(&notes.rights, permission, asked, bytes, out) {
            self.reply(&asked, &decision, notes, out);
        }
    }

    pub(crate) fn answer(&mut self, id: &str, decision: &Decision, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(asked) = self.open.take(id) else { return };
        let decision = without_changes(decision);
        tell_answer(id, decision.clone(), out);
        self.explain(&decision, out);
        self.reply(&asked, &decision, notes, out);
    }

    /// Tells the model why something was denied. Codex has no place for a reason in its answer, so it is said as an
    /// addition to the turn, before the answer lets the turn continue.
    fn explain(&mut self, decision: &Decision, out: &mut Vec<Act>) {
        let Decision::Deny { message } = decision else { return };
        if self.turn.is_empty() {
            return;
        }
        let input = json!([{"type": "text", "text": format!("The command or change was denied: {message}")}]);
        let params = json!({"threadId": self.thread, "expectedTurnId": self.turn, "input": input});
        self.speaker.request("turn/steer", &params, out);
    }

    fn reply(&self, asked: &Asked, decision: &Decision, notes: &mut Notes, out: &mut Vec<Act>) {
        let word = match decision {
            Decision::Allow => "accept",
            Decision::AllowForSession => "acceptForSession",
            Decision::Deny { .. } | Decision::AllowModified { .. } => "decline",
        };
        notes.calls.decide(&asked.call, decision, out);
        self.speaker.result(&asked.rpc_id, &json!({"decision": word}), out);
    }

    pub(crate) fn prompt(&mut self, text: &str, notes: &mut Notes, out: &mut Vec<Act>) {
        self.turns.add(text);
        self.start_turn(notes, out);
    }

    pub(crate) fn cancel(&mut self, notes: &mut Notes, out: &mut Vec<Act>) {
        self.turns.cancelled = true;
        for (id, asked) in self.open.take_all() {
            tell_answer(&id, Decision::Deny { message: "cancelled".to_owned() }, out);
            notes.calls.deny(&asked.call);
            self.speaker.result(&asked.rpc_id, &json!({"decision": "cancel"}), out);
        }
        self.turn_is("", out);
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.open.size().1 + self.thread.len() + self.turn.len()
    }
}

/// How the thread is opened. What codex may do is said here as well as in its settings, so that a resumed thread
/// has the rights of this turn and not of an earlier one.
fn opening(brief: &Brief<'_>) -> (&'static str, Value) {
    let mut params = json!({"cwd": brief.cwd, "sandbox": sandbox(&brief.rights)});
    if let Some(policy) = approval_policy(brief.rights.shell) {
        params["approvalPolicy"] = json!(policy);
    }
    if let Some(model) = brief.model {
        params["model"] = json!(model);
    }
    match brief.resume {
        Some(thread) => {
            params["threadId"] = json!(thread);
            // The history is codex's own business; it can be large.
            params["excludeTurns"] = json!(true);
            ("thread/resume", params)
        }
        None => ("thread/start", params),
    }
}

/// The item as a call of a tool, if it is one.
fn tool_call(mut item: Value) -> Option<Call> {
    let id = wire::name(&item, "id");
    let (tool, kind, input) = match wire::text(&item, "type") {
        "commandExecution" => {
            let input = json!({"command": wire::take(&mut item, "command"), "cwd": wire::take(&mut item, "cwd")});
            ("shell".to_owned(), ToolKind::Shell, input)
        }
        "fileChange" => ("apply_patch".to_owned(), ToolKind::Write, changes(wire::take(&mut item, "changes"))),
        "mcpToolCall" => {
            let tool = format!("{}/{}", wire::name(&item, "server"), wire::name(&item, "tool"));
            (tool, ToolKind::Mcp, wire::take(&mut item, "arguments"))
        }
        "dynamicToolCall" => (wire::name(&item, "tool"), ToolKind::Other, wire::take(&mut item, "arguments")),
        "collabAgentToolCall" => (wire::name(&item, "tool"), ToolKind::Think, wire::take(&mut item, "prompt")),
        "webSearch" => ("web_search".to_owned(), ToolKind::Fetch, json!({"query": wire::take(&mut item, "query")})),
        "imageView" => ("view_image".to_owned(), ToolKind::Read, json!({"path": wire::take(&mut item, "path")})),
        "imageGeneration" => ("image_generation".to_owned(), ToolKind::Other, Value::Null),
        _ => return None,
    };
    Some(Call { id, tool, kind, input })
}

/// The files of a patch; their differences only while they are small, since an approval needs the names.
fn changes(mut changes: Value) -> Value {
    if wire::weight(&changes) > limits::INPUT_BYTES_MAX / 2 {
        for change in changes.as_array_mut().into_iter().flatten() {
            wire::take(change, "diff");
        }
    }
    json!({"changes": changes})
}

fn item_output(item: &Value) -> String {
    let output = wire::text(item, "aggregatedOutput");
    let error = item["error"].as_str().unwrap_or_else(|| wire::text(&item["error"], "message"));
    if !output.is_empty() {
        return output.to_owned();
    }
    if !error.is_empty() {
        return error.to_owned();
    }
    item.get("result").filter(|result| !result.is_null()).map(Value::to_string).unwrap_or_default()
}

fn command_permission(params: Value) -> Permission {
    let network = params.get("networkApprovalContext").is_some_and(|context| !context.is_null());
    Permission {
        id: String::new(),
        tool: "shell".to_owned(),
        kind: if network { ToolKind::Fetch } else { ToolKind::Shell },
        command: wire::some_text(&params, "command"),
        cwd: wire::some_text(&params, "cwd"),
        paths: Vec::new(),
        reason: wire::some_text(&params, "reason"),
        input: params,
    }
}

/// The request names only the item; what it changes was said when that started.
fn change_permission(mut params: Value, notes: &Notes) -> Permission {
    let changes = notes.calls.get(&wire::name(&params, "itemId")).map(|call| call.input["changes"].clone());
    let changes = changes.unwrap_or_default();
    let named = changes.as_array().map_or(&[][..], Vec::as_slice).iter();
    let mut paths: Vec<String> = named.filter_map(|change| wire::some_text(change, "path")).collect();
    paths.extend(wire::some_text(&params, "grantRoot"));
    paths.truncate(limits::PATHS_MAX);
    if params.is_object() {
        params["changes"] = changes;
    }
    Permission {
        id: String::new(),
        tool: "apply_patch".to_owned(),
        kind: ToolKind::Write,
        command: None,
        cwd: None,
        paths,
        reason: wire::some_text(&params, "reason"),
        input: params,
    }
}

fn tokens(breakdown: &Value) -> Usage {
    Usage {
        input_tokens: wire::count(breakdown, "inputTokens"),
        output_tokens: wire::count(breakdown, "outputTokens"),
        cached_tokens: wire::count(breakdown, "cachedInputTokens"),
        reasoning_tokens: wire::count(breakdown, "reasoningOutputTokens"),
        cost_micro_usd: None,
    }
}

/// Codex says which kind of trouble it is, as a word or as an object with a status inside.
fn error_of(error: &Value) -> SessionError {
    let message = wire::text(error, "message");
    let info = &error["codexErrorInfo"];
    if let Some((name, detail)) = info.as_object().and_then(|info| info.iter().next()) {
        let status = detail.get("httpStatusCode").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        return match (status, name.as_str()) {
            (Some(status), _) => trouble::judge(Some(status), message),
            (None, "activeTurnNotSteerable") => trouble::other(message),
            (None, _) => trouble::network(message),
        };
    }
    match info.as_str().unwrap_or_default() {
        "usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded" => trouble::rate_limited(message, None),
        "serverOverloaded" | "internalServerError" | "flexUnavailable" | "policyCapacityUnavailable" => {
            trouble::with(ErrorKind::Server, message, None)
        }
        "unauthorized" => trouble::with(ErrorKind::Auth, message, None),
        "cyberPolicy" | "misalignmentPolicyViolation" => trouble::refused(message),
        _ => trouble::judge(None, message),
    }
}

/// Notices that say nothing that is not said otherwise.
fn is_known(method: &str) -> bool {
    matches!(
        method,
        "thread/started"
            | "thread/status/changed"
            | "thread/settings/updated"
            | "thread/name/updated"
            | "turn/diff/updated"
            | "item/reasoning/summaryPartAdded"
            | "item/fileChange/outputDelta"
            | "item/fileChange/patchUpdated"
            | "item/commandExecution/terminalInteraction"
            | "item/mcpToolCall/progress"
            | "item/plan/delta"
            | "serverRequest/resolved"
            | "mcpServer/startupStatus/updated"
            | "skills/changed"
            | "remoteControl/status/changed"
    )
}

#[cfg(test)]
mod tests;
