//! `codex app-server`: JSON-RPC without the member that says so.

use super::{Reaction, Talk, words};
use crate::scenario::Permission;
use scripted_model::agents::Agent;
use scripted_model::home;
use serde_json::{Value, json};

pub(crate) struct AppServer {
    tree: String,
    prompt: String,
    permission: Option<Permission>,
    schema: Option<Value>,
    thread: Value,
    turn: Value,
    /// How many turns were started; their requests are numbered on.
    turns: i64,
}

/// The number of the request that starts the first turn.
const FIRST_TURN: i64 = 3;
/// And of the one that stops one: no turn ever gets there.
const INTERRUPT: i64 = 100;

impl AppServer {
    pub(crate) fn new(tree: String, prompt: String, permission: Option<Permission>, schema: Option<Value>) -> Self {
        Self { tree, prompt, permission, schema, thread: Value::Null, turn: Value::Null, turns: 0 }
    }

    fn start_thread(&self) -> Value {
        let (policy, sandbox) = match self.permission {
            Some(_) => ("untrusted", "read-only"),
            None => ("never", "danger-full-access"),
        };
        let model = home::model(Agent::Codex);
        let params = json!({ "cwd": self.tree, "model": model, "approvalPolicy": policy, "sandbox": sandbox });
        json!({ "id": 2, "method": "thread/start", "params": params })
    }

    fn start_turn(&mut self) -> Value {
        let input = json!([{ "type": "text", "text": self.prompt }]);
        let mut params = json!({ "threadId": self.thread, "input": input });
        if let Some(schema) = &self.schema {
            params["outputSchema"] = schema.clone();
        }
        self.turns += 1;
        json!({ "id": FIRST_TURN + self.turns - 1, "method": "turn/start", "params": params })
    }

    fn decide(&self, request: &Value) -> Value {
        let decision = if self.permission == Some(Permission::Approve) { "accept" } else { "decline" };
        json!({ "id": request["id"], "result": { "decision": decision } })
    }
}

impl Talk for AppServer {
    fn args(&self) -> Vec<String> {
        words(&["app-server"])
    }

    fn open(&mut self) -> Vec<Value> {
        let client = json!({ "name": "norma", "title": "norma", "version": "0.1.0" });
        let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": false } });
        vec![json!({ "id": 1, "method": "initialize", "params": params })]
    }

    fn hear(&mut self, line: &Value) -> Reaction {
        match (line["method"].as_str(), line["id"].as_i64()) {
            (None, Some(1)) => {
                Reaction { say: vec![json!({ "method": "initialized" }), self.start_thread()], is_over: false }
            }
            (None, Some(2)) => {
                self.thread = line["result"]["thread"]["id"].clone();
                Reaction::say(self.start_turn())
            }
            (None, Some(FIRST_TURN..INTERRUPT)) => {
                self.turn = line["result"]["turn"]["id"].clone();
                Reaction::nothing()
            }
            (Some(method), Some(_)) if method.ends_with("/requestApproval") => Reaction::say(self.decide(line)),
            (Some("turn/completed"), None) => Reaction::over(),
            _ => Reaction::nothing(),
        }
    }

    fn turn(&mut self) -> Vec<Value> {
        vec![self.start_turn()]
    }

    fn cancel(&mut self) -> Vec<Value> {
        let params = json!({ "threadId": self.thread, "turnId": self.turn });
        vec![json!({ "id": INTERRUPT, "method": "turn/interrupt", "params": params })]
    }
}
