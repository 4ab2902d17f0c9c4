//! `claude` with lines of JSON both ways.

use super::{Reaction, Talk, words};
use crate::scenario::Permission;
use scripted_model::agents::Agent;
use scripted_model::home;
use serde_json::{Value, json};

pub(crate) struct StreamJson {
    prompt: String,
    permission: Option<Permission>,
    schema: Option<Value>,
}

impl StreamJson {
    pub(crate) fn new(prompt: String, permission: Option<Permission>, schema: Option<Value>) -> Self {
        Self { prompt, permission, schema }
    }

    fn user(&self) -> Value {
        let message = json!({ "role": "user", "content": self.prompt });
        json!({ "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "" })
    }

    fn decide(&self, request: &Value) -> Value {
        let response = match self.permission {
            Some(Permission::Approve) => json!({ "behavior": "allow", "updatedInput": request["request"]["input"] }),
            _ => json!({ "behavior": "deny", "message": "not allowed", "interrupt": false }),
        };
        let response = json!({ "subtype": "success", "request_id": request["request_id"], "response": response });
        json!({ "type": "control_response", "response": response })
    }
}

impl Talk for StreamJson {
    fn args(&self) -> Vec<String> {
        let both = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        let more = ["--permission-prompt-tool", "stdio", "--model", home::model(Agent::Claude)];
        let mode: &[&str] = match self.permission {
            Some(_) => &["--permission-mode", "default"],
            None => &["--permission-mode", "acceptEdits", "--allowedTools", "Bash"],
        };
        let schema = self.schema.iter().flat_map(|schema| ["--json-schema".to_owned(), schema.to_string()]);
        [words(&both), words(&more), words(mode), schema.collect()].concat()
    }

    fn open(&mut self) -> Vec<Value> {
        let request = json!({ "subtype": "initialize", "hooks": null });
        vec![json!({ "type": "control_request", "request_id": "r1", "request": request })]
    }

    fn hear(&mut self, line: &Value) -> Reaction {
        match line["type"].as_str() {
            Some("control_response") if line["response"]["request_id"] == "r1" => Reaction::say(self.user()),
            Some("control_request") if line["request"]["subtype"] == "can_use_tool" => Reaction::say(self.decide(line)),
            Some("result") => Reaction::over(),
            _ => Reaction::nothing(),
        }
    }

    fn turn(&mut self) -> Vec<Value> {
        vec![self.user()]
    }

    fn cancel(&mut self) -> Vec<Value> {
        vec![json!({ "type": "control_request", "request_id": "r2", "request": { "subtype": "interrupt" } })]
    }
}
