//! The Agent Client Protocol, as gemini and opencode speak it.

use super::{Reaction, Talk, words};
use crate::scenario::Permission;
use scripted_model::agents::Agent;
use scripted_model::home;
use serde_json::{Value, json};

pub(crate) struct Acp {
    agent: Agent,
    tree: String,
    prompt: String,
    permission: Option<Permission>,
    session: Value,
    /// How many turns were started; their requests are numbered on.
    turns: i64,
}

/// The number of the request that starts the first turn.
const FIRST_TURN: i64 = 3;

impl Acp {
    pub(crate) fn new(agent: Agent, tree: String, prompt: String, permission: Option<Permission>) -> Self {
        Self { agent, tree, prompt, permission, session: Value::Null, turns: 0 }
    }

    fn start_turn(&mut self) -> Value {
        let prompt = json!([{ "type": "text", "text": self.prompt }]);
        self.turns += 1;
        request(FIRST_TURN + self.turns - 1, "session/prompt", &json!({ "sessionId": self.session, "prompt": prompt }))
    }

    /// Options are told apart by their kind: every agent has ids of its own.
    fn decide(&self, asked: &Value) -> Value {
        let kind = if self.permission == Some(Permission::Approve) { "allow_once" } else { "reject_once" };
        let options = asked["params"]["options"].as_array();
        let option = options.into_iter().flatten().find(|option| option["kind"] == kind);
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
            None => json!({ "outcome": "cancelled" }),
        };
        json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "outcome": outcome } })
    }

    /// opencode writes by the client once an edit was approved, whatever the client said it could.
    fn write(asked: &Value) -> Value {
        let (path, content) = (asked["params"]["path"].as_str(), asked["params"]["content"].as_str());
        let written = std::fs::write(path.unwrap_or_default(), content.unwrap_or_default());
        match written {
            Ok(()) => json!({ "jsonrpc": "2.0", "id": asked["id"], "result": null }),
            Err(error) => {
                let error = json!({ "code": -32603, "message": error.to_string() });
                json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })
            }
        }
    }
}

impl Talk for Acp {
    fn args(&self) -> Vec<String> {
        let mode = if self.permission.is_some() { "default" } else { "yolo" };
        match self.agent {
            Agent::Gemini => words(&["--acp", "-m", home::model(self.agent), "--approval-mode", mode]),
            _ => words(&["acp", "--pure"]),
        }
    }

    fn open(&mut self) -> Vec<Value> {
        let files = json!({ "readTextFile": false, "writeTextFile": false });
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": { "fs": files, "terminal": false },
            "clientInfo": { "name": "norma", "version": "0.1.0" },
        });
        vec![request(1, "initialize", &params)]
    }

    fn hear(&mut self, line: &Value) -> Reaction {
        match (line["method"].as_str(), line["id"].as_i64()) {
            (None, Some(1)) => Reaction::say(request(2, "session/new", &json!({ "cwd": self.tree, "mcpServers": [] }))),
            (None, Some(2)) => {
                self.session = line["result"]["sessionId"].clone();
                Reaction::say(self.start_turn())
            }
            (None, Some(FIRST_TURN..)) => Reaction::over(),
            (Some("session/request_permission"), _) => Reaction::say(self.decide(line)),
            (Some("fs/write_text_file"), _) => Reaction::say(Self::write(line)),
            _ => Reaction::nothing(),
        }
    }

    fn turn(&mut self) -> Vec<Value> {
        vec![self.start_turn()]
    }

    fn cancel(&mut self) -> Vec<Value> {
        let params = json!({ "sessionId": self.session });
        vec![json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params })]
    }
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}
