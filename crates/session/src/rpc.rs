//! JSON-RPC over lines, as far as both of its users need it: `codex app-server`, which leaves the `jsonrpc` member
//! out, and the Agent Client Protocol, which has it.

use crate::notes::Notes;
use crate::session::Act;
use crate::wire;
use serde_json::{Value, json};

/// What codes mean.
const NO_SUCH_METHOD: i64 = -32601;
/// The request cannot be done as it is.
const BAD_REQUEST: i64 = -32602;

/// What a line is.
pub(crate) enum Heard {
    /// Wants an answer with this id, which is a number or a text.
    Request { id: Value, method: String, params: Value },
    /// Wants none.
    Notice { method: String, params: Value },
    /// The answer that is waited for.
    Answer(Result<Value, Value>),
    /// An answer to something else.
    Stray(Result<Value, Value>),
    /// Anything else.
    Strange(Value),
}

/// Our side: numbers our requests, writes everything, and knows the answer that is waited for.
pub(crate) struct Speaker {
    next_id: u64,
    awaited: Option<u64>,
    jsonrpc: bool,
}

impl Speaker {
    /// `jsonrpc` is whether the member of that name is written.
    pub(crate) fn new(jsonrpc: bool) -> Speaker {
        Speaker { next_id: 1, awaited: None, jsonrpc }
    }

    /// Tells what a line is. An answer is waited for once.
    pub(crate) fn sort(&mut self, mut message: Value) -> Heard {
        let method = wire::text(&message, "method").to_owned();
        let id = message.get("id").filter(|id| id.is_number() || id.is_string()).cloned();
        if !method.is_empty() {
            let params = wire::take(&mut message, "params");
            return match id {
                Some(id) => Heard::Request { id, method, params },
                None => Heard::Notice { method, params },
            };
        }
        let Some(id) = id.as_ref().and_then(Value::as_u64) else { return Heard::Strange(message) };
        let result = if message.get("error").is_some_and(|error| !error.is_null()) {
            Err(wire::take(&mut message, "error"))
        } else if message.get("result").is_some() {
            Ok(wire::take(&mut message, "result"))
        } else {
            return Heard::Strange(message);
        };
        match self.awaited.take_if(|awaited| *awaited == id) {
            Some(_) => Heard::Answer(result),
            None => Heard::Stray(result),
        }
    }

    /// A request whose answer is waited for, instead of any before it.
    pub(crate) fn ask(&mut self, method: &str, params: &Value, out: &mut Vec<Act>) {
        self.awaited = Some(self.request(method, params, out));
    }

    /// A request, with the id of its answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value, out: &mut Vec<Act>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.say(json!({"id": id, "method": method, "params": params}), out);
        id
    }

    /// A notice.
    pub(crate) fn notice(&self, method: &str, params: Option<Value>, out: &mut Vec<Act>) {
        let mut message = json!({"method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        self.say(message, out);
    }

    /// The answer to a request of theirs.
    pub(crate) fn result(&self, id: &Value, result: &Value, out: &mut Vec<Act>) {
        self.say(json!({"id": id, "result": result}), out);
    }

    /// Its refusal: it cannot be done as it is.
    pub(crate) fn refuse(&self, id: &Value, message: &str, out: &mut Vec<Act>) {
        self.error(id, BAD_REQUEST, message, out);
    }

    /// The refusal of a request for something that norma does not do, which goes on record.
    pub(crate) fn refuse_unknown(
        &self,
        id: &Value,
        method: &str,
        params: Value,
        notes: &mut Notes,
        out: &mut Vec<Act>,
    ) {
        self.error(id, NO_SUCH_METHOD, "norma does not do this", out);
        unread(method, params, notes, out);
    }

    fn error(&self, id: &Value, code: i64, message: &str, out: &mut Vec<Act>) {
        self.say(json!({"id": id, "error": {"code": code, "message": message}}), out);
    }

    fn say(&self, mut message: Value, out: &mut Vec<Act>) {
        if self.jsonrpc {
            message["jsonrpc"] = json!("2.0");
        }
        out.push(Act::Say(wire::line(&message)));
    }
}

/// Puts on record what nobody here reads.
pub(crate) fn unread(method: &str, params: Value, notes: &mut Notes, out: &mut Vec<Act>) {
    notes.other(json!({"method": method, "params": params}), out);
}
