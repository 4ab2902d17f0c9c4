//! The tools that norma gives to the agents of a graph: an MCP server that hands work on, reports, and asks for nodes, edges
//! and commands. It is started by the agent, inside the agent's sandbox, and does nothing but note what was called: what is
//! followed of that is decided outside, when the turn has ended, by the rules that hold for every answer. So nothing here is
//! trusted, and nothing has to be.
//!
//! There is no I/O: a line comes in; a line to answer and a call to note come out.

use crate::wire;
use contract::graph::NodeCall;
use serde_json::{Value, json};

/// The first argument with which norma is this server.
pub const NODE_TOOLS: &str = "__node_tools";

/// What agents know the server as.
pub(crate) const SERVER: &str = "norma";

/// The tools.
pub(crate) const TOOLS: [&str; 5] = ["send_handoff", "report", "spawn_node", "create_edge", "ask"];

/// The versions of the protocol that differ in nothing that is used here, oldest first.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A program that serves tools on its standard streams, as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    /// Absolute.
    pub command: String,
    /// What it is given.
    pub args: Vec<String>,
}

impl ToolServer {
    /// As most command lines have it in their settings.
    pub(crate) fn settings(&self) -> Value {
        json!({"command": self.command, "args": self.args})
    }
}

/// Whether a tool is one of norma's, by what any agent calls it.
pub fn is_node_tool(name: &str) -> bool {
    let prefixes = ["mcp__norma__", "mcp_norma_", "norma_", "norma/", "norma__"];
    let bare = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    bare.is_some_and(|bare| TOOLS.contains(&bare))
}

/// What follows from a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// What was called, to be noted before the answer is given.
    pub call: Option<Vec<u8>>,
    /// The answer.
    pub line: Option<Vec<u8>>,
}

/// Answers a line.
pub fn answer(line: &[u8]) -> Reply {
    let Ok(mut message) = serde_json::from_slice::<Value>(line) else {
        return Reply { call: None, line: Some(error(&Value::Null, -32700, "this is no JSON")) };
    };
    let Some(id) = message.get("id").filter(|id| id.is_number() || id.is_string()).cloned() else {
        // A notice, or nothing that could be answered.
        return Reply::default();
    };
    let params = wire::take(&mut message, "params");
    let method = wire::text(&message, "method");
    match method {
        "initialize" => told(&id, &hello(&params)),
        "ping" => told(&id, &json!({})),
        "tools/list" => told(&id, &json!({"tools": tools()})),
        "tools/call" => called(&id, params),
        "" => Reply::default(),
        _ => Reply { call: None, line: Some(error(&id, -32601, &format!("there is no method {method}"))) },
    }
}

fn told(id: &Value, result: &Value) -> Reply {
    Reply { call: None, line: Some(wire::line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))) }
}

fn error(id: &Value, code: i64, message: &str) -> Vec<u8> {
    wire::line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn hello(params: &Value) -> Value {
    let wanted = wire::text(params, "protocolVersion");
    let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(VERSIONS[VERSIONS.len() - 1]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": SERVER, "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Tools for the graph of agents that you are a node of. What you call is done when your turn has ended; \
                         what cannot be done is told to you in your next turn.",
    })
}

fn called(id: &Value, mut params: Value) -> Reply {
    let name = wire::name(&params, "name");
    let arguments = match wire::take(&mut params, "arguments") {
        Value::Null => json!({}),
        arguments => without_nulls(arguments),
    };
    let call = json!({"tool": name, "arguments": arguments});
    let said = |text: &str, failed: bool| {
        told(id, &json!({"content": [{"type": "text", "text": text}], "isError": failed})).line
    };
    match serde_json::from_value::<NodeCall>(call) {
        Ok(call) => {
            let noted = serde_json::to_value(&call).expect("BUG: a call is plain data");
            Reply { call: Some(wire::line(&noted)), line: said(promise(&call), false) }
        }
        Err(problem) if TOOLS.contains(&name.as_str()) => {
            Reply { call: None, line: said(&format!("{name} was not called: {problem}"), true) }
        }
        Err(_) => Reply { call: None, line: Some(error(id, -32602, &format!("there is no tool {name:?}"))) },
    }
}

/// Models write null for what they leave out.
fn without_nulls(arguments: Value) -> Value {
    match arguments {
        Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

fn promise(call: &NodeCall) -> &'static str {
    match call {
        NodeCall::SendHandoff(_) => "It is handed over when your turn has ended, if there is an edge to that node.",
        NodeCall::Report(_) => "It is told when your turn has ended, if there is an edge to that node.",
        NodeCall::SpawnNode(_) => {
            "The node is made when your turn has ended, if you may make nodes; a person may have to approve it first."
        }
        NodeCall::CreateEdge(_) => {
            "The edge is drawn when your turn has ended, if you may change the graph; a person may have to approve it first."
        }
        NodeCall::Ask(_) => {
            "A person is asked when your turn has ended. Do not wait: end your turn. Your next one is told the answer."
        }
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn tool(name: &str, description: &str, required: &[&str], properties: Value) -> Value {
    let schema =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    json!({"name": name, "description": description, "inputSchema": schema})
}

/// The tools, as a model is told of them.
fn tools() -> Value {
    let to = "The id or the label of a node that an edge leads to";
    let artifact = json!({"type": "object", "properties": {"type": {"type": "string"}, "ref": {"type": "string"}},
        "required": ["type", "ref"], "additionalProperties": false});
    let artifacts =
        json!({"type": "array", "items": artifact, "description": "Files that go with it, as artifact://<id>"});
    let status = json!({"type": "object", "properties": {"ok": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["ok"], "additionalProperties": false, "description": "Whether what it tells of succeeded"});
    json!([
        tool(
            "send_handoff",
            "Hand work to another node. It gets a turn for it when yours has ended.",
            &["to", "message"],
            json!({
                "to": text(to),
                "message": text("What is to be done, with all that the other node has to know"),
                "structured": {"type": "object", "description": "What a program reads"},
                "artifacts": artifacts,
                "status": status,
                "response": {"type": "string", "enum": ["none", "optional", "required"],
                    "description": "With required, the answer starts a turn of yours"},
                "contextRef": text("A context pack that goes with it, as contextpack://<id>"),
            }),
        ),
        tool(
            "report",
            "Tell another node something, by default whoever leads the graph. It starts no turn.",
            &["message"],
            json!({"to": text(to), "message": text("What to tell"), "status": status, "artifacts": artifacts}),
        ),
        tool(
            "spawn_node",
            "Ask for another node. It is made with an edge to it, and told the instructions. One in a turn.",
            &["label", "roleTemplate", "provider"],
            json!({
                "label": text("What it is called"),
                "roleTemplate": text("Its role, for example implementer, reviewer or investigator"),
                "provider": {"type": "string", "enum": ["codex", "claude", "gemini", "custom"]},
                "agent": text("With provider custom, the name of the agent"),
                "instructions": text("What it is to do"),
            }),
        ),
        tool(
            "create_edge",
            "Ask for an edge between two nodes, so that work can be handed over along it. One in a turn.",
            &["from", "to"],
            json!({
                "from": text("The id or the label of a node"),
                "to": text("The id or the label of another"),
                "bidirectional": {"type": "boolean", "description": "Whether results go back over it; they do by default"},
                "type": {"type": "string", "enum": ["handoff", "report"]},
                "label": text("A word for what goes over it"),
            }),
        ),
        tool(
            "ask",
            "Ask a person whether a command may be run that you may not run by yourself. One in a turn.",
            &["command"],
            json!({
                "command": {"type": "array", "items": {"type": "string"}, "minItems": 1,
                    "description": "Program and arguments"},
                "cwd": text("Where"),
                "reason": text("Why it is needed"),
            }),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, params: Value) -> (Option<Value>, Value) {
        let line = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let Reply { call, line } = answer(line.as_bytes());
        let read = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
        (call.map(read), line.map(read).unwrap())
    }

    #[test]
    fn a_client_is_greeted_in_its_version_or_the_newest() {
        for (wanted, given) in [("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")] {
            let (_, said) = ask("initialize", json!({"protocolVersion": wanted}));
            assert_eq!((&said["result"]["protocolVersion"], &said["id"]), (&json!(given), &json!(7)));
        }
        assert_eq!(answer(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), Reply::default());
        assert_eq!(ask("resources/list", json!({})).1["error"]["code"], -32601);
        assert_eq!(ask("ping", Value::Null).1["result"], json!({}));
    }

    /// An example with every member for each tool: what is offered is what is read.
    #[test]
    fn every_member_that_is_offered_is_read() {
        let examples = [
            json!({"to": "A", "message": "m", "structured": {"a": 1}, "artifacts": [{"type": "diff", "ref": "artifact://x"}],
                "status": {"ok": true, "reason": "r"}, "response": "required", "contextRef": "contextpack://x"}),
            json!({"to": "A", "message": "m", "status": {"ok": false, "reason": "r"},
                "artifacts": [{"type": "diff", "ref": "artifact://x"}]}),
            json!({"label": "A", "roleTemplate": "reviewer", "provider": "custom", "agent": "x", "instructions": "i"}),
            json!({"from": "A", "to": "B", "bidirectional": false, "type": "report", "label": "l"}),
            json!({"command": ["ls"], "cwd": "src", "reason": "r"}),
        ];
        let (_, listed) = ask("tools/list", json!({}));
        let listed = listed["result"]["tools"].as_array().unwrap().clone();
        assert_eq!(listed.len(), TOOLS.len());
        for ((name, tool), example) in TOOLS.iter().zip(&listed).zip(examples) {
            let offered: Vec<&String> = tool["inputSchema"]["properties"].as_object().unwrap().keys().collect();
            let members: Vec<&String> = example.as_object().unwrap().keys().collect();
            assert_eq!((&tool["name"], offered), (&json!(name), members), "{name}");
            let (call, said) = ask("tools/call", json!({"name": name, "arguments": example}));
            assert_eq!(call, Some(json!({"tool": name, "arguments": example})));
            assert_eq!(said["result"]["isError"], false, "{said}");
        }
    }

    #[test]
    fn what_is_no_call_is_answered_and_not_noted() {
        let (call, said) = ask("tools/call", json!({"name": "ask", "arguments": {"command": "rm -rf /"}}));
        assert_eq!((call, &said["result"]["isError"]), (None, &json!(true)));
        let (call, said) = ask("tools/call", json!({"name": "land", "arguments": {}}));
        assert_eq!((call, &said["error"]["code"]), (None, &json!(-32602)));
        let (call, _) = ask("tools/call", json!({"name": "report", "arguments": {"to": null, "message": "m"}}));
        assert_eq!(call, Some(json!({"tool": "report", "arguments": {"message": "m"}})));
        assert!(answer(b"no JSON").line.is_some());
    }

    #[test]
    fn its_tools_are_known_by_the_names_of_every_agent() {
        for name in ["mcp__norma__ask", "mcp_norma_send_handoff", "norma_report", "norma/create_edge"] {
            assert!(is_node_tool(name), "{name}");
        }
        for name in ["ask", "mcp__other__ask", "norma_land", "xnorma_ask"] {
            assert!(!is_node_tool(name), "{name}");
        }
    }
}
