//! The Agent Client Protocol, version 1: `gemini`, `opencode` and any other agent that speaks it. JSON-RPC over stdio;
//! a session is the conversation, a prompt is a request that is answered when the turn is over, and what happens
//! meanwhile are updates. Norma offers neither files nor terminals: an agent has its own, inside the sandbox.
//!
//! The messages that are used are few, and agents take liberties with them, so they are read here field by field.
//! The types of the protocol's own crate would bring thirty packages and, for the whole program, maps of JSON that
//! keep the order of their keys, which changes the bytes of documents.

use crate::brief::{Brief, Kind};
use crate::calls::Call;
use crate::limits;
use crate::node_tools::{SERVER, ToolServer};
use crate::notes::Notes;
use crate::open::Open;
use crate::rpc::{self, Heard, Speaker};
use crate::session::{Act, tell_answer, without_changes};
use crate::tool;
use crate::trouble;
use crate::turns::{Stage, Turns};
use crate::wire;
use contract::session::{Decision, ErrorKind, Permission, SessionError, ToolKind, Usage};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The only version there is agreement on.
const VERSION: u64 = 1;

/// What gemini says into the conversation when its mode changes.
const MODE_UPDATE: &str = "[MODE_UPDATE]";

/// The protocol's own code for an agent that wants a sign-in.
const AUTH_REQUIRED: i64 = -32000;

/// Choices of a permission that are looked at; agents offer three or four.
const OPTIONS_MAX: usize = 16;

/// A request of the agent's, as its answer needs it.
enum Asked {
    Permission { rpc_id: Value, call: String, options: Vec<Value> },
    File { rpc_id: Value },
}

/// How an agent is signed in that asks for it: with what it finds in its environment, since nobody is there to ask.
#[derive(Default)]
struct SignIn {
    /// What it offers, for people: the id, and the variables that it takes.
    offered: Vec<String>,
    /// The ids of the methods that need nobody, in the order in which they are tried.
    untried: VecDeque<String>,
    /// How the session is opened, kept for the time after.
    opening: Option<(&'static str, Value)>,
    is_under_way: bool,
}

impl SignIn {
    fn new(methods: &[Value], opening: (&'static str, Value)) -> SignIn {
        // What it is called says nothing where there is only one.
        let is_only = methods.len() == 1;
        let by_key = |method: &&Value| {
            let id = wire::text(method, "id").to_ascii_lowercase();
            let says_so = ["key", "token", "gateway"].iter().any(|word| id.contains(word)) || id == "openai";
            is_only || says_so || wire::text(method, "type") == "env_var"
        };
        let untried = methods.iter().filter(by_key).filter_map(|method| wire::some_name(method, "id")).collect();
        let offered = methods.iter().filter_map(way_to_sign_in).collect();
        SignIn { offered, untried, opening: Some(opening), is_under_way: false }
    }
}

fn server(server: &ToolServer) -> Value {
    json!({"name": SERVER, "command": server.command, "args": server.args, "env": []})
}

/// A method for people. Some say which variables they take as data, some in a sentence.
fn way_to_sign_in(method: &Value) -> Option<String> {
    let id = wire::some_name(method, "id")?;
    let listed = wire::list(method, "vars").iter().filter_map(|variable| wire::some_name(variable, "name"));
    let is_variable = |word: &&str| {
        let spelled = word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        spelled && ["_KEY", "_TOKEN"].iter().any(|end| word.ends_with(end))
    };
    let described = wire::text(method, "description").split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut variables: Vec<String> = listed.chain(described.filter(is_variable).map(str::to_owned)).collect();
    variables.dedup();
    Some(if variables.is_empty() { id } else { format!("{id} with {}", variables.join(" and ")) })
}

/// The talk with one agent.
pub(crate) struct Acp {
    kind: Kind,
    speaker: Speaker,
    turns: Turns,
    cwd: String,
    /// Where it may write.
    writable: Vec<String>,
    resume: Option<String>,
    /// Servers of tools that it is told of; those with settings of their own have them there.
    servers: Vec<Value>,
    agent: Option<String>,
    session: String,
    /// Ways to sign in that it offers, and how far that is.
    sign_in: SignIn,
    /// The agent's name for the message it is writing, where it has one.
    message: String,
    /// Nothing came after a denial yet.
    denied: bool,
    /// What the turn used so far, by an agent that counts it message by message.
    counted: Usage,
    open: Open<Asked>,
}

impl Acp {
    pub(crate) fn open(brief: &Brief<'_>, prompt: &str, out: &mut Vec<Act>) -> Acp {
        Acp::with(brief, Turns::of(prompt), out)
    }

    /// Only opens the conversation.
    pub(crate) fn greet(brief: &Brief<'_>, out: &mut Vec<Act>) -> Acp {
        Acp::with(brief, Turns::none(), out)
    }

    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub(crate) fn is_signing_in(&self) -> bool {
        self.sign_in.is_under_way
    }

    pub(crate) fn ways_to_sign_in(&self) -> &[String] {
        &self.sign_in.offered
    }

    fn with(brief: &Brief<'_>, turns: Turns, out: &mut Vec<Act>) -> Acp {
        let mut writable = vec![brief.cwd.to_owned()];
        writable.extend(brief.extra_write.iter().map(|directory| (*directory).to_owned()));
        let mut acp = Acp {
            kind: brief.kind,
            speaker: Speaker::new(true),
            turns,
            cwd: brief.cwd.to_owned(),
            writable,
            resume: brief.resume.map(str::to_owned),
            servers: brief.tools.filter(|_| brief.kind == Kind::Acp).map(server).into_iter().collect(),
            agent: None,
            session: String::new(),
            sign_in: SignIn::default(),
            message: String::new(),
            denied: false,
            counted: Usage::default(),
            open: Open::default(),
        };
        let hello = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "norma", "title": "norma", "version": env!("CARGO_PKG_VERSION")},
        });
        acp.speaker.ask("initialize", &hello, out);
        acp
    }

    pub(crate) fn hear(&mut self, message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match self.speaker.sort(message) {
            Heard::Answer(result) => self.answered(result, notes, out),
            Heard::Stray(result) => notes.other(result.unwrap_or_else(|error| error), out),
            Heard::Request { id, method, params } => self.requested(id, &method, params, notes, out),
            Heard::Notice { method, params } if method == "session/update" => self.updated(params, notes, out),
            Heard::Notice { method, params } => rpc::unread(&method, params, notes, out),
            Heard::Strange(raw) => notes.other(raw, out),
        }
    }

    fn answered(&mut self, result: Result<Value, Value>, notes: &mut Notes, out: &mut Vec<Act>) {
        let result = match result {
            Ok(result) => result,
            Err(error) if self.signs_in(&error, out) => return,
            Err(error) => return self.failed(self.not_signed_in(error_of(&error)), notes, out),
        };
        match self.turns.stage {
            Stage::Greeting => self.greeted(&result, notes, out),
            Stage::Opening if std::mem::take(&mut self.sign_in.is_under_way) => {
                let (method, params) = self.sign_in.opening.as_ref().expect("BUG: it was opened before");
                self.speaker.ask(method, params, out);
            }
            Stage::Opening => self.opened(&result, notes, out),
            Stage::Turning => self.turn_over(&result, notes, out),
            Stage::Idle | Stage::Failed => {}
        }
    }

    /// Signs in where the agent opens no session without it, by one method after the other.
    fn signs_in(&mut self, error: &Value, out: &mut Vec<Act>) -> bool {
        let is_asked = error.get("code").and_then(Value::as_i64) == Some(AUTH_REQUIRED);
        if self.turns.stage != Stage::Opening || !(is_asked || self.sign_in.is_under_way) {
            return false;
        }
        let Some(method) = self.sign_in.untried.pop_front() else { return false };
        self.sign_in.is_under_way = true;
        self.speaker.ask("authenticate", &json!({"methodId": method}), out);
        true
    }

    /// With the ways to sign in that there are.
    fn not_signed_in(&self, mut problem: SessionError) -> SessionError {
        if self.sign_in.is_under_way {
            problem.kind = ErrorKind::Auth;
        }
        if problem.kind == ErrorKind::Auth && !self.sign_in.offered.is_empty() {
            problem.message =
                format!("{} (it offers to sign in by {})", problem.message, self.sign_in.offered.join(", "));
        }
        problem
    }

    pub(crate) fn failed(&mut self, problem: SessionError, notes: &mut Notes, out: &mut Vec<Act>) {
        if self.turns.stage != Stage::Turning {
            return self.turns.fail(problem, notes, out);
        }
        notes.trouble(problem, out);
        self.end_turn(false, "error", notes, out);
    }

    fn greeted(&mut self, result: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        if wire::count(result, "protocolVersion") != VERSION {
            let message = format!("the agent uses version {} of the protocol", result["protocolVersion"]);
            return self.failed(trouble::protocol(&message), notes, out);
        }
        let info = &result["agentInfo"];
        let agent = format!("{} {}", wire::name(info, "name"), wire::name(info, "version"));
        self.agent = Some(agent.trim().to_owned()).filter(|agent| !agent.is_empty());
        let mut params = json!({"cwd": self.cwd, "mcpServers": self.servers});
        let method = match &self.resume {
            None => "session/new",
            Some(session) => {
                params["sessionId"] = json!(session);
                let Some(method) = resume_method(&result["agentCapabilities"]) else {
                    return self.failed(trouble::protocol("the agent cannot resume a session"), notes, out);
                };
                method
            }
        };
        let methods = wire::list(result, "authMethods");
        self.turns.stage = Stage::Opening;
        self.speaker.ask(method, &params, out);
        self.sign_in = SignIn::new(&methods[..methods.len().min(OPTIONS_MAX)], (method, params));
    }

    fn opened(&mut self, result: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        // Only a new session has a new name to tell.
        let named = wire::some_name(result, "sessionId").or_else(|| self.resume.clone());
        let Some(session) = named else {
            return self.failed(trouble::protocol("a session without an id"), notes, out);
        };
        self.session = session;
        self.turns.stage = Stage::Idle;
        let model = wire::some_name(&result["models"], "currentModelId");
        notes.session(self.session.clone(), model, self.agent.clone(), out);
        self.start_turn(notes, out);
    }

    fn start_turn(&mut self, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(prompt) = self.turns.begin(notes, out) else { return };
        (self.denied, self.counted) = (false, Usage::default());
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": prompt}]});
        self.speaker.ask("session/prompt", &params, out);
    }

    fn turn_over(&mut self, result: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        // What the result of the prompt says is the whole of it.
        let counted = std::mem::take(&mut self.counted);
        let used = used(result);
        notes.usage_more(if used == Usage::default() { counted } else { used }, out);
        let reason = wire::text(result, "stopReason");
        let ok = reason == "end_turn" && !self.denied && !self.broke_off(result);
        match reason {
            "end_turn" | "cancelled" if self.denied => {
                notes.stopped_after_denial = true;
                notes.trouble(trouble::other("the agent stopped after a denial"), out);
            }
            "end_turn" if !ok => notes.trouble(trouble::network("the model's stream broke off"), out),
            "end_turn" => {}
            "cancelled" => notes.trouble(trouble::other("cancelled"), out),
            "refusal" => notes.trouble(trouble::refused("the model refused"), out),
            "" => notes.broken("a turn that ended without a reason", out),
            reason => notes.trouble(trouble::other(&format!("the turn ended with {reason}")), out),
        }
        self.end_turn(ok, reason, notes, out);
    }

    fn end_turn(&mut self, ok: bool, reason: &str, notes: &mut Notes, out: &mut Vec<Act>) {
        self.turns.stage = Stage::Idle;
        self.open.take_all();
        notes.end(ok, reason, out);
        self.start_turn(notes, out);
    }

    /// Gemini calls it an end as well when the connection to the model breaks; then no call was counted.
    fn broke_off(&self, result: &Value) -> bool {
        let counted = result["_meta"]["quota"].get("model_usage").and_then(Value::as_array);
        self.kind == Kind::Gemini && counted.is_some_and(Vec::is_empty)
    }

    fn updated(&mut self, mut params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        // A session that is loaded tells its whole history again; and what comes after the end belongs to no turn.
        if self.turns.stage != Stage::Turning || wire::text(&params, "sessionId") != self.session {
            return;
        }
        let mut update = wire::take(&mut params, "update");
        match wire::text(&update, "sessionUpdate") {
            "agent_message_chunk" => self.chunk(&update, notes, out),
            "agent_thought_chunk" => notes.thought(wire::text(&update["content"], "text"), out),
            "tool_call" | "tool_call_update" => self.tool(&mut update, notes, out),
            "plan" => notes.plan(wire::list(&update, "entries"), "content", out),
            "usage_update" => {
                if let Some(cost) = cost(&update["cost"]) {
                    let usage = Usage { cost_micro_usd: Some(cost), ..notes.usage() };
                    notes.usage_is(usage, out);
                }
            }
            "user_message_chunk"
            | "available_commands_update"
            | "current_mode_update"
            | "config_option_update"
            | "session_info_update" => {}
            _ => notes.other(update, out),
        }
    }

    fn chunk(&mut self, update: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let text = wire::text(&update["content"], "text");
        if self.kind == Kind::Gemini && text.starts_with(MODE_UPDATE) {
            return;
        }
        if let Some(more) = token_counts(&update["_meta"]["usage"]) {
            self.counted.add(&more);
        }
        if text.is_empty() {
            return;
        }
        self.denied = false;
        if let Some(message) = wire::some_name(update, "messageId")
            && message != self.message
        {
            notes.end_message(out);
            self.message = message;
        }
        notes.piece(text, out);
    }

    fn tool(&mut self, update: &mut Value, notes: &mut Notes, out: &mut Vec<Act>) {
        // The answer is what comes after the last tool.
        notes.end_message(out);
        let status = wire::name(update, "status");
        let output =
            if matches!(status.as_str(), "completed" | "failed") { content_text(update) } else { String::new() };
        let call = tool_call(update, notes);
        let (id, kind) = (call.id.clone(), call.kind);
        let known = notes.calls.get(&id).is_some();
        self.denied &= known;
        if known || wire::text(update, "sessionUpdate") == "tool_call" {
            notes.calls.propose(call, out);
        }
        match status.as_str() {
            "in_progress" if !notes.may_ask(kind) => notes.calls.start(&id, out),
            "completed" => notes.calls.complete(&id, true, &output, out),
            "failed" => notes.calls.complete(&id, false, &output, out),
            _ => {}
        }
    }

    fn requested(&mut self, id: Value, method: &str, params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match method {
            "session/request_permission" => self.permission(id, params, notes, out),
            // Opencode asks for this after an approved edit, so that an editor's window follows, does not wait for
            // the answer and writes the file itself.
            "fs/write_text_file" if self.kind == Kind::Opencode => {
                self.speaker.result(&id, &json!({}), out);
            }
            "fs/write_text_file" => self.write_file(id, params, notes, out),
            _ => self.speaker.refuse_unknown(&id, method, params, notes, out),
        }
    }

    fn permission(&mut self, rpc_id: Value, mut params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let options = match wire::take(&mut params, "options") {
            Value::Array(options) => options.into_iter().take(OPTIONS_MAX).collect(),
            _ => Vec::new(),
        };
        let mut asked_for = wire::take(&mut params, "toolCall");
        let input = asked_for.clone();
        let call = tool_call(&mut asked_for, notes);
        let permission = permission(&call, input);
        let bytes = wire::weight(&rpc_id) + call.id.len() + options.iter().map(wire::weight).sum::<usize>();
        let asked = Asked::Permission { rpc_id, call: call.id.clone(), options };
        notes.end_message(out);
        notes.calls.propose(call, out);
        if let Some((asked, decision)) = self.open.consider(&notes.rights, permission, asked, bytes, out) {
            self.reply(asked, &decision, notes, out);
        }
    }

    fn write_file(&mut self, rpc_id: Value, mut params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        let path = wire::text(&params, "path").to_owned();
        if !notes.rights.write || !is_inside(&path, &self.writable) {
            return self.speaker.refuse(&rpc_id, "this file may not be written", out);
        }
        let Value::String(content) = wire::take(&mut params, "content") else {
            return self.speaker.refuse(&rpc_id, "a file without content", out);
        };
        // The content is handed on and not kept; only the request waits.
        let bytes = wire::weight(&rpc_id);
        if self.open.no_room(bytes).is_some() {
            return self.speaker.refuse(&rpc_id, "too many requests at once", out);
        }
        let id = self.open.name();
        self.open.put(id.clone(), bytes, Asked::File { rpc_id });
        out.push(Act::WriteFile { id, path, content });
    }

    pub(crate) fn answer(&mut self, id: &str, decision: &Decision, notes: &mut Notes, out: &mut Vec<Act>) {
        let Some(asked) = self.open.take(id) else { return };
        let mut decision = without_changes(decision);
        if let Asked::Permission { options, .. } = &asked {
            if choose(options, &decision).is_none() && !matches!(decision, Decision::Deny { .. }) {
                decision = Decision::Deny { message: "the agent offers no such choice".to_owned() };
            }
            tell_answer(id, decision.clone(), out);
        }
        self.reply(asked, &decision, notes, out);
    }

    fn reply(&mut self, asked: Asked, decision: &Decision, notes: &mut Notes, out: &mut Vec<Act>) {
        match (asked, decision) {
            (Asked::Permission { rpc_id, call, options }, decision) => {
                self.denied |= matches!(decision, Decision::Deny { .. });
                notes.calls.decide(&call, decision, out);
                let outcome = match choose(&options, decision) {
                    Some(option) => json!({"outcome": "selected", "optionId": option}),
                    None => json!({"outcome": "cancelled"}),
                };
                self.speaker.result(&rpc_id, &json!({"outcome": outcome}), out);
            }
            (Asked::File { rpc_id }, Decision::Deny { message }) => self.speaker.refuse(&rpc_id, message, out),
            (Asked::File { rpc_id }, _) => self.speaker.result(&rpc_id, &json!({}), out),
        }
    }

    pub(crate) fn prompt(&mut self, text: &str, notes: &mut Notes, out: &mut Vec<Act>) {
        self.turns.add(text);
        self.start_turn(notes, out);
    }

    pub(crate) fn cancel(&mut self, notes: &mut Notes, out: &mut Vec<Act>) {
        if self.turns.stage != Stage::Turning {
            self.turns.cancelled = true;
            return;
        }
        self.speaker.notice("session/cancel", Some(json!({"sessionId": self.session})), out);
        let decision = Decision::Deny { message: "cancelled".to_owned() };
        for (id, asked) in self.open.take_all() {
            let Asked::Permission { rpc_id, call, .. } = asked else {
                self.reply(asked, &decision, notes, out);
                continue;
            };
            tell_answer(&id, decision.clone(), out);
            notes.calls.deny(&call);
            self.speaker.result(&rpc_id, &json!({"outcome": {"outcome": "cancelled"}}), out);
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.open.size().1 + self.session.len() + self.message.len()
    }
}

/// Resuming is better than loading, which tells the whole history again.
fn resume_method(capabilities: &Value) -> Option<&'static str> {
    let resumes = capabilities["sessionCapabilities"].get("resume").is_some_and(|resume| !resume.is_null());
    if resumes {
        return Some("session/resume");
    }
    wire::flag(capabilities, "loadSession").then_some("session/load")
}

/// The agent's id for the choice that is this decision; ids differ, the kinds are the protocol's. An allowance is
/// never made wider than it is for want of a choice.
fn choose<'o>(options: &'o [Value], decision: &Decision) -> Option<&'o Value> {
    let kinds: &[&str] = match decision {
        Decision::Allow => &["allow_once"],
        Decision::AllowForSession => &["allow_always", "allow_once"],
        Decision::Deny { .. } | Decision::AllowModified { .. } => &["reject_once", "reject_always"],
    };
    let of_kind = |kind: &&str| options.iter().find(|option| wire::text(option, "kind") == *kind);
    kinds.iter().find_map(of_kind).and_then(|option| option.get("optionId"))
}

/// What is known of a tool call from this message, and from those before.
fn tool_call(update: &mut Value, notes: &Notes) -> Call {
    let id = wire::name(update, "toolCallId");
    let known = notes.calls.get(&id);
    let title = wire::name(update, "title");
    let tool = if title.is_empty() { known.map(|call| call.tool.clone()).unwrap_or_default() } else { title };
    let word = wire::text(update, "kind");
    let kind = match known {
        Some(call) if word.is_empty() => call.kind,
        _ => tool::kind_of_acp(word, &tool),
    };
    let arguments = wire::take(update, "rawInput");
    let is_told = !arguments.is_null() || known.is_some_and(|call| !call.input.is_null());
    let input = if is_told { arguments } else { described(update, kind, &tool) };
    Call { id, tool, kind, input }
}

/// What a call is about whose arguments are not told: gemini's title of a command is the command, and of a change it tells
/// the places and both texts.
fn described(update: &Value, kind: ToolKind, title: &str) -> Value {
    let mut about = serde_json::Map::new();
    if kind == ToolKind::Shell && !title.is_empty() {
        about.insert("command".to_owned(), json!(title));
    }
    let places = wire::list(update, "locations").iter().take(limits::PATHS_MAX);
    let paths: Vec<String> = places.filter_map(|place| wire::some_text(place, "path")).collect();
    let changes: Vec<Value> = changes(update).take(limits::PATHS_MAX).cloned().collect();
    let found = [("paths", json!(paths)), ("changes", json!(changes))];
    about.extend(found.into_iter().filter(|(_, list)| list != &json!([])).map(|(key, list)| (key.to_owned(), list)));
    if about.is_empty() { Value::Null } else { Value::Object(about) }
}

/// The changes of files that a message tells of.
fn changes(update: &Value) -> impl Iterator<Item = &Value> {
    wire::list(update, "content").iter().filter(|part| wire::text(part, "type") == "diff")
}

fn permission(call: &Call, input: Value) -> Permission {
    let raw = &input["rawInput"];
    let mut command = command_of(&raw["command"]);
    if command.is_none() && call.kind == ToolKind::Shell {
        // The name of the tool is the same title, but cut where it is long: what is not whole is no command.
        let told_before = || Some(call.tool.clone()).filter(|title| title.len() + 4 <= limits::NAME_BYTES_MAX);
        command = wire::some_text(&input, "title").or_else(told_before).filter(|title| !title.is_empty());
    }
    let named = wire::list(&input, "locations").iter().chain(wire::list(&input, "content"));
    let mut paths: Vec<String> = named.filter_map(|place| wire::some_text(place, "path")).collect();
    for key in ["filePath", "file_path", "filepath", "path"] {
        paths.extend(wire::some_text(raw, key));
    }
    paths.sort();
    paths.dedup();
    paths.truncate(limits::PATHS_MAX);
    Permission {
        id: String::new(),
        tool: call.tool.clone(),
        kind: call.kind,
        command,
        cwd: wire::some_text(raw, "cwd").or_else(|| wire::some_text(raw, "workdir")),
        paths,
        reason: wire::some_text(raw, "reason").or_else(|| wire::some_text(raw, "description")),
        input,
    }
}

/// A line for a shell, or words, which are quoted into one.
fn command_of(command: &Value) -> Option<String> {
    if let Some(words) = command.as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(contract::text::shell_word).collect();
        return Some(words.join(" ")).filter(|line| !line.is_empty());
    }
    command.as_str().filter(|line| !line.is_empty()).map(str::to_owned)
}

/// The text of what a tool made, or the files that it changed with what they hold now.
fn content_text(update: &Value) -> String {
    let parts = wire::list(update, "content").iter();
    let text = parts.map(|part| wire::text(&part["content"], "text").to_owned()).filter(|text| !text.is_empty());
    let changed = changes(update).map(|part| format!("{}:\n{}", wire::text(part, "path"), wire::text(part, "newText")));
    let text = text.chain(changed).collect::<Vec<_>>().join("\n");
    if !text.is_empty() {
        return text;
    }
    match &update["rawOutput"] {
        Value::Null => String::new(),
        Value::String(output) => output.clone(),
        output => wire::some_text(output, "output").unwrap_or_else(|| output.to_string()),
    }
}

/// Money counts only in the currency that it is counted in here.
fn cost(cost: &Value) -> Option<u64> {
    if !matches!(wire::text(cost, "currency"), "" | "USD") {
        return None;
    }
    // An agent that knows no price says that it was nothing.
    wire::micro_usd(cost.get("amount")).filter(|cost| *cost > 0)
}

/// What a prompt used: the protocol's own field, where it was before it had one, or gemini's.
fn used(result: &Value) -> Usage {
    let places = [&result["usage"], &result["_meta"]["usage"]];
    places.into_iter().find_map(token_counts).unwrap_or_else(|| {
        let count = &result["_meta"]["quota"]["token_count"];
        Usage {
            input_tokens: wire::count(count, "input_tokens"),
            output_tokens: wire::count(count, "output_tokens"),
            ..Usage::default()
        }
    })
}

/// Tokens as the protocol counts them; none where nothing is said.
fn token_counts(usage: &Value) -> Option<Usage> {
    usage.as_object()?;
    let count = |key| wire::count(usage, key);
    let (input, output, thoughts) = (count("inputTokens"), count("outputTokens"), count("thoughtTokens"));
    let (read, written) = (count("cachedReadTokens"), count("cachedWriteTokens"));
    let apart = [input, output, thoughts, read, written].iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
    // Some count cached input and thoughts inside the others, some beside them; the total tells.
    let beside = apart == count("totalTokens");
    Some(Usage {
        input_tokens: if beside { input.saturating_add(read).saturating_add(written) } else { input },
        output_tokens: if beside { output.saturating_add(thoughts) } else { output },
        cached_tokens: read,
        reasoning_tokens: thoughts,
        cost_micro_usd: None,
    })
}

/// Gemini's codes are those of HTTP; others say what happened in a text.
fn error_of(error: &Value) -> SessionError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let said = wire::text(error, "message");
    let detail = error["data"].as_str().unwrap_or_else(|| wire::text(&error["data"], "message"));
    let message =
        if detail.is_empty() || said.contains(detail) { said.to_owned() } else { format!("{said}: {detail}") };
    if code == AUTH_REQUIRED {
        return trouble::with(ErrorKind::Auth, &message, None);
    }
    trouble::judge(u16::try_from(code).ok().filter(|code| (400..600).contains(code)), &message)
}

/// Whether a path, as a text, is below one of these directories.
fn is_inside(path: &str, directories: &[String]) -> bool {
    let clean = path.starts_with('/') && !path.contains('\0');
    let clean = clean && path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
    clean
        && directories.iter().any(|directory| {
            path.strip_prefix(directory.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
        })
}

#[cfg(test)]
mod tests;
