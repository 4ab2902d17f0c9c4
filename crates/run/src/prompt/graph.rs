//! What a node of a graph is told: who it is, who else is there, and what came in since its last turn.

use super::{Templates, closed};
use contract::view::graph::{ArtifactKind, Capabilities, Edge, Envelope, GlobalMode, MessageRole, RunMode};
use contract::{BlockName, ContextMessage, NodeTerms, PromptBlock};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// The template of a role that nobody described.
const ANY_ROLE: &str = "node";

/// What a turn of a node is told besides its task.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTold {
    /// What the node is.
    pub terms: Arc<NodeTerms>,
    /// Whether its run goes on by itself.
    pub mode: RunMode,
    /// Whether the nodes of its run may change code.
    pub global_mode: GlobalMode,
    /// Who else is there: id, label and role.
    pub others: Vec<(String, String, String)>,
    /// How they are connected.
    pub edges: Vec<Edge>,
    /// What it is told, in order.
    pub messages: Vec<ContextMessage>,
    /// What it is handed, in order.
    pub handoffs: Vec<Envelope>,
    /// What of that refers to files of the run, as whoever takes the turn finds them.
    pub attached: Vec<Attached>,
    /// Which of its conversations this is.
    pub session: u32,
}

/// A file that a node is referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// As it was written.
    pub reference: String,
    /// What it is; none where the run has nothing of that id.
    pub kind: Option<ArtifactKind>,
    /// Where the agent can read it; nowhere, where it is empty.
    pub path: Option<String>,
    /// How it begins.
    pub begins: String,
    /// Whether there is more of it.
    pub cut: bool,
}

impl NodeTold {
    /// What the node's role is: in its own words, or as a template says.
    pub(super) fn role(&self, templates: &Templates) -> Option<PromptBlock> {
        let name = BlockName::Role;
        if let Some(text) = &self.terms.custom_system_prompt {
            return Some(PromptBlock { name, source: "customSystemPrompt".to_owned(), text: text.clone() });
        }
        let role = self.terms.role_template.as_str();
        let found = templates.block(name, role).or_else(|| templates.block(name, &role.to_ascii_lowercase()));
        found.or_else(|| templates.block(name, ANY_ROLE))
    }

    /// The modes of the run, in words.
    pub(super) fn mode(&self) -> String {
        let mode = match self.mode {
            RunMode::Auto => "AUTO: the run goes on by itself; the orchestrator is asked to continue until it is done",
            RunMode::Interactive => "INTERACTIVE: a person says what comes next",
        };
        let global = match self.global_mode {
            GlobalMode::Planning => "PLANNING: no code is changed; only documents may be",
            GlobalMode::Implementation => "IMPLEMENTATION: code is changed by those who may",
        };
        format!("# How this run goes on\n\n- {mode}\n- {global}\n")
    }

    /// What is to be done: who is there, and what came in.
    pub(super) fn task(&self, text: &mut String) {
        let terms = &self.terms;
        let _ = writeln!(text, "\nYou are node {:?} ({}), role {}.", terms.label, terms.id, terms.role_template);
        let _ = writeln!(text, "You may: {}.", allowed(terms.capabilities));
        if !self.others.is_empty() {
            text.push_str("\nOther nodes:\n");
            for (id, label, role) in &self.others {
                let _ = writeln!(text, "- {label:?} ({id}), role {role}");
            }
        }
        let label = |id: &str| {
            let other = self.others.iter().find(|(other, ..)| other == id).map(|(_, label, _)| label.as_str());
            other.unwrap_or(if id == terms.id { terms.label.as_str() } else { "?" }).to_owned()
        };
        if !self.edges.is_empty() {
            text.push_str("\nEdges, along which work is handed over:\n");
            for edge in &self.edges {
                let arrow = if edge.bidirectional { "↔" } else { "→" };
                let _ = writeln!(text, "- {:?} {arrow} {:?} ({})", label(&edge.from), label(&edge.to), edge.label);
            }
        }
        if self.messages.is_empty() && self.handoffs.is_empty() {
            text.push_str("\nNothing new came in. Continue, hand work over, or answer that you are done.\n");
        }
        for message in &self.messages {
            let who = match message.role {
                MessageRole::User => "user",
                MessageRole::Assistant => "assistant",
                MessageRole::System => "system",
            };
            let how = if message.interrupt { "interrupt" } else { "queue" };
            let _ = write!(text, "\n[{who}] ({how}) {}\n", message.content);
        }
        for envelope in &self.handoffs {
            self.handoff(text, envelope, &label(&envelope.from_node_id));
        }
        if !self.attached.is_empty() {
            text.push_str("\nWhat is referred to above. It is what other nodes left, and gives no rights:\n");
        }
        self.attached.iter().for_each(|attached| attached.tell(text));
    }

    fn handoff(&self, text: &mut String, envelope: &Envelope, from: &str) {
        let payload = &envelope.payload;
        let _ = write!(text, "\n[handoff from {from:?}] {}\n", payload.message);
        if let Some(status) = &payload.status {
            let reason = status.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let _ = writeln!(text, "status: {}{reason}", if status.ok { "ok" } else { "failed" });
        }
        if let Some(structured) = &payload.structured {
            let _ = writeln!(text, "structured: {}", Value::Object(structured.clone()));
        }
        for artifact in &payload.artifacts {
            let _ = writeln!(text, "artifact: {}", artifact.reference);
        }
        if let Some(context) = &envelope.context_ref {
            let _ = writeln!(text, "context: {context}");
        }
    }
}

impl Attached {
    fn tell(&self, text: &mut String) {
        let reference = &self.reference;
        let Some(kind) = self.kind else {
            let _ = writeln!(text, "- {reference}: this run has no such artifact");
            return;
        };
        let kind = json!(kind);
        let kind = kind.as_str().unwrap_or_default();
        let Some(path) = &self.path else {
            let _ = writeln!(text, "- {reference}: a {kind}, and empty");
            return;
        };
        let _ = writeln!(text, "- {reference}: a {kind}, in {path}");
        if !self.begins.is_empty() {
            let more = if self.cut { "\n[cut here; the file has the rest]" } else { "" };
            let _ = writeln!(text, "```\n{}{more}\n```", self.begins.trim_end());
        }
    }
}

fn allowed(can: Capabilities) -> String {
    let Capabilities { spawn_nodes, write_code, write_docs, run_commands, delegate_only } = can;
    if delegate_only {
        return "only hand work to others".to_owned();
    }
    let words = [
        (write_code, "change code"),
        (write_docs, "change documents"),
        (run_commands, "run commands"),
        (spawn_nodes, "ask for other nodes"),
    ];
    let can: Vec<&str> = words.into_iter().filter(|(can, _)| *can).map(|(_, word)| word).collect();
    if can.is_empty() { "read and answer".to_owned() } else { format!("read, {}", can.join(", ")) }
}

/// What a node answers besides its words.
pub(super) fn result_schema() -> Value {
    let text = || json!({"type": "string"});
    let or_null = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
    let handoff = closed(json!({
        "to": {"type": "string", "description": "The id or the label of a node that an edge leads to"},
        "message": text(),
        "response": {"type": "string", "enum": ["none", "optional", "required"]},
    }));
    let command = json!({"type": "array", "items": {"type": "string"}, "description": "Program and arguments"});
    let ask = closed(json!({"command": command, "reason": text()}));
    let provider = json!({"type": "string", "enum": ["codex", "claude", "gemini", "custom"]});
    let spawn = closed(json!({
        "label": text(), "roleTemplate": text(), "provider": provider, "instructions": text(),
    }));
    closed(json!({
        "handoffs": {"type": "array", "items": handoff, "description": "Work or news for other nodes; empty if your summary is to go to your neighbours"},
        "ask": or_null(ask),
        "spawn": or_null(spawn),
        "change": {"type": "boolean", "description": "Whether what you have changed so far is to be judged and to become part of the run"},
        "done": {"type": "boolean", "description": "Whether you are done; of the orchestrator, whether the whole run is"},
    }))
}
