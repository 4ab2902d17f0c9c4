//! What agents say and do while they work, as it is told of their nodes.

use super::{Out, Projector, short};
use contract::id::derived_uuid;
use contract::session::{Decision, ToolKind};
use contract::view::graph::{NodeStatus, Resolution, ResolutionStatus, Tool};
use contract::view::stream::{StreamBody, ToolError, ToolResult};
use contract::{SessionEvent, StepRef};
use serde_json::{Map, Value};

impl Projector {
    pub(super) fn agent_event(&mut self, step: StepRef, event: &SessionEvent, out: &mut Out) {
        let place = self.place(step);
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        if !out.quiet {
            self.tell_agent_event(node_id, step, event, out);
        }
        let ts = out.ts;
        if let SessionEvent::PermissionAnswered { id, decision } = event {
            self.permission_answered(place, id, decision, out);
        }
        let is_answer = self.is_answer(event);
        let summary = match event {
            _ if is_answer => None,
            SessionEvent::Message { .. }
            | SessionEvent::ToolProposed { .. }
            | SessionEvent::ToolStarted { .. }
            | SessionEvent::Plan { .. }
            | SessionEvent::Error(_) => Some(short(&event.message())),
            _ => None,
        };
        self.change_node(place, out, |state| {
            state.hear(ts);
            state.node.summary = summary.unwrap_or_else(|| std::mem::take(&mut state.node.summary));
            match event {
                SessionEvent::Session { id, model, .. } => {
                    state.node.session.session_id.clone_from(id);
                    state.node.model = model.clone().or_else(|| state.node.model.take());
                }
                SessionEvent::Message { .. } if !is_answer => {
                    if let Some(turn) = state.turn.as_mut() {
                        turn.said = true;
                    }
                }
                _ => {}
            }
        });
    }

    /// Whether a message is the answer that a node of a graph gives to norma: people are told its summary when the turn is on
    /// record.
    fn is_answer(&self, event: &SessionEvent) -> bool {
        let SessionEvent::Message { text } = event else { return false };
        let is_document = |text: &str| {
            let value: Option<Value> = serde_json::from_str(text).ok();
            value.is_some_and(|value| value.get("version").is_some() && value.get("status").is_some())
        };
        self.is_graph() && text.trim_start().starts_with('{') && is_document(text.trim())
    }

    fn tell_agent_event(&self, node_id: String, step: StepRef, event: &SessionEvent, out: &mut Out) {
        let tool_id = |call: &str| derived_uuid(&self.id, &["tool", &step.index.to_string(), call]);
        let tool = |call: &str, name: &str, kind: ToolKind, input: &Value| Tool {
            id: tool_id(call),
            name: name.to_owned(),
            args: args(kind, input),
        };
        if self.is_answer(event) {
            return;
        }
        out.tell(match event {
            SessionEvent::Message { text } => StreamBody::MessageFinal { node_id, content: text.clone(), status: None },
            SessionEvent::ToolProposed { call, tool: name, kind, input } => {
                StreamBody::ToolProposed { node_id, tool: tool(call, name, *kind, input) }
            }
            SessionEvent::ToolStarted { call, tool: name, kind, input } => {
                StreamBody::ToolStarted { node_id, tool: tool(call, name, *kind, input) }
            }
            SessionEvent::ToolCompleted { call, ok, output } => StreamBody::ToolCompleted {
                node_id,
                tool_id: tool_id(call),
                result: ToolResult { ok: *ok, output: Some(output.clone()).filter(|text| !text.is_empty()) },
                error: (!ok).then(|| ToolError { message: short(output) }),
            },
            SessionEvent::Usage(usage) => StreamBody::Usage { node_id, usage: *usage },
            _ => return,
        });
    }

    /// What a person was asked about within a turn is settled when the agent is told.
    fn permission_answered(&mut self, place: usize, id: &str, decision: &Decision, out: &mut Out) {
        let mut approval = None;
        self.change_node(place, out, |state| {
            approval = state.turn.as_mut().and_then(|turn| turn.asked.remove(id));
        });
        let Some(approval) = approval else { return };
        let (status, modified_args, reason) = match decision {
            Decision::Allow | Decision::AllowForSession => (ResolutionStatus::Approved, None, None),
            Decision::Deny { message } => (ResolutionStatus::Denied, None, Some(message.clone())),
            Decision::AllowModified { input } => (ResolutionStatus::Modified, Some(args(ToolKind::Shell, input)), None),
        };
        let by = self.waiting.get(&approval).and_then(|waiting| waiting.by.clone());
        self.settle(&approval, Resolution { status, modified_args, scope: None, by, reason }, out);
        self.progress(place, out, |state| {
            let is_waiting = state.turn.as_ref().is_some_and(|turn| !turn.asked.is_empty());
            if !is_waiting {
                state.node.status = NodeStatus::Running;
                state.node.summary = if status == ResolutionStatus::Denied { "denied" } else { "approved" }.to_owned();
            }
        });
    }
}

/// The arguments of a tool as an object; those of a command have it as `cmd`, however its agent spells that.
fn args(kind: ToolKind, input: &Value) -> Map<String, Value> {
    let mut args = match input {
        Value::Object(members) => members.clone(),
        Value::Null => Map::new(),
        other => Map::from_iter([("input".to_owned(), other.clone())]),
    };
    if kind == ToolKind::Shell && !args.contains_key("cmd") {
        let command = args.get("command").or_else(|| args.get("rawInput").and_then(|raw| raw.get("command")));
        let line = match command {
            Some(Value::String(line)) => Some(line.clone()),
            Some(Value::Array(argv)) => {
                let argv: Option<Vec<String>> = argv.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                argv.map(|argv| contract::policy::join(&argv))
            }
            _ => None,
        };
        args.extend(line.map(|line| ("cmd".to_owned(), line.into())));
    }
    args
}
