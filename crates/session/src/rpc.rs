//! JSON-RPC over lines, as far as both of its users need it: `codex app-server`, which leaves the `jsonrpc` member
//! out, and the Agent Client Protocol, which has it.

use crate::wire;
use serde_json::{Value, json};

/// What codes mean.
pub(crate) const NO_SUCH_METHOD: i64 = -32601;
/// The request cannot be done as it is.
pub(crate) const BAD_REQUEST: i64 = -32602;

/// What a line is.
pub(crate) enum Heard {
    /// Wants an answer with this id, which is a number or a text.
    Request { id: Value, method: String, params: Value },
    /// Wants none.
    Notice { method: String, params: Value },
    /// The answer to one of ours.
    Answer { id: u64, result: Result<Value, Value> },
    /// Anything else.
    Strange(Value),
}

/// Tells what a line is.
pub(crate) fn sort(mut message: Value) -> Heard {
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
    if message.get("error").is_some_and(|error| !error.is_null()) {
        return Heard::Answer { id, result: Err(wire::take(&mut message, "error")) };
    }
    if message.get("result").is_some() {
        return Heard::Answer { id, result: Ok(wire::take(&mut message, "result")) };
    }
    Heard::Strange(message)
}

/// Our side: numbers our requests and writes everything.
pub(crate) struct Speaker {
    next_id: u64,
    jsonrpc: bool,
}

impl Speaker {
    /// `jsonrpc` is whether the member of that name is written.
    pub(crate) fn new(jsonrpc: bool) -> Speaker {
        Speaker { next_id: 1, jsonrpc }
    }

    /// A request, with the id of its answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> (u64, Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        (id, self.write(json!({"id": id, "method": method, "params": params})))
    }

    /// A notice.
    pub(crate) fn notice(&self, method: &str, params: Option<Value>) -> Vec<u8> {
        let mut message = json!({"method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        self.write(message)
    }

    /// The answer to a request of theirs.
    pub(crate) fn result(&self, id: &Value, result: &Value) -> Vec<u8> {
        self.write(json!({"id": id, "result": result}))
    }

    /// Its refusal.
    pub(crate) fn error(&self, id: &Value, code: i64, message: &str) -> Vec<u8> {
        self.write(json!({"id": id, "error": {"code": code, "message": message}}))
    }

    fn write(&self, mut message: Value) -> Vec<u8> {
        if self.jsonrpc {
            message["jsonrpc"] = json!("2.0");
        }
        wire::line(&message)
    }
}
