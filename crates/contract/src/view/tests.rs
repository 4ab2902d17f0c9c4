//! The forms of seed 003, held to the seed's own examples: each is read, has every member that the seed names, and is
//! written as it was read.

use super::graph::{
    Approval, Artifact, ArtifactKind, ConnectionStatus, Edge, EdgeKind, Envelope, GlobalMode, Message, MessageRole,
    Node, NodeStatus, PermissionsMode, Phase, Provider, ResolutionStatus, RunMode, RunStatus,
};
use super::stream::{StreamBody, StreamEvent};
use crate::{AgentType, RunId, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const RUN: &str = "019beb59-f9b2-7f01-8203-040506abcdef";
const TS: &str = "2026-01-01T00:00:00.000Z";

#[track_caller]
fn same<T: Serialize + DeserializeOwned>(example: &Value) -> T {
    let read: T = serde_json::from_value(example.clone()).expect("the seed's example is read");
    assert_eq!(serde_json::to_value(&read).unwrap(), *example);
    read
}

#[track_caller]
fn words<T: Serialize>(all: &[T], expected: &[&str]) {
    let written: Vec<Value> = all.iter().map(|word| serde_json::to_value(word).unwrap()).collect();
    assert_eq!(written, expected);
}

fn node() -> Value {
    json!({
        "id": "node-uuid", "runId": RUN, "label": "Implementer A", "roleTemplate": "implementer", "provider": "codex",
        "status": "idle", "summary": "short live status", "lastActivityAt": TS,
        "capabilities": {
            "spawnNodes": false, "writeCode": true, "writeDocs": true, "runCommands": true, "delegateOnly": false
        },
        "permissions": {"cliPermissionsMode": "gated", "spawnRequiresApproval": true},
        "session": {"sessionId": "provider-session-id", "resetCommands": ["/new", "/clear"]},
        "connection": {"status": "connected", "streaming": true, "lastHeartbeatAt": TS, "lastOutputAt": TS},
        "inboxCount": 0
    })
}

#[test]
fn the_words_of_the_shared_contract_are_spelled_as_there() {
    use RunStatus::{Completed, Failed, Paused, Queued, Running};
    words(&[Queued, Running, Paused, Completed, Failed], &["queued", "running", "paused", "completed", "failed"]);
    let phases = [Phase::Boot, Phase::Execute, Phase::Verify, Phase::DocsSync, Phase::Done];
    words(&phases, &["BOOT", "EXECUTE", "VERIFY", "DOCS_SYNC", "DONE"]);
    words(&[RunMode::Auto, RunMode::Interactive], &["AUTO", "INTERACTIVE"]);
    words(&[GlobalMode::Planning, GlobalMode::Implementation], &["PLANNING", "IMPLEMENTATION"]);
    let providers = [Provider::Codex, Provider::Claude, Provider::Gemini, Provider::Custom];
    words(&providers, &["codex", "claude", "gemini", "custom"]);
    let nodes = [NodeStatus::Idle, NodeStatus::Running, NodeStatus::Blocked, NodeStatus::Failed];
    words(&nodes, &["idle", "running", "blocked", "failed"]);
    words(&[PermissionsMode::Skip, PermissionsMode::Gated], &["skip", "gated"]);
    let connections = [ConnectionStatus::Connected, ConnectionStatus::Idle, ConnectionStatus::Disconnected];
    words(&connections, &["connected", "idle", "disconnected"]);
    words(&[EdgeKind::Handoff, EdgeKind::Report], &["handoff", "report"]);
    assert_eq!((EdgeKind::Handoff.default_label(), EdgeKind::Report.default_label()), ("task", "report"));
    use ArtifactKind::{Contextpack, Diff, Log, Prompt, Report, Transcript};
    let kinds = [Diff, Prompt, Log, Transcript, Contextpack, Report];
    words(&kinds, &["diff", "prompt", "log", "transcript", "contextpack", "report"]);
    words(&[MessageRole::User, MessageRole::Assistant, MessageRole::System], &["user", "assistant", "system"]);
    use ResolutionStatus::{Approved, Denied, Modified};
    words(&[Approved, Denied, Modified], &["approved", "denied", "modified"]);
}

#[test]
fn a_canonical_status_has_one_spelling_in_a_graph() {
    for (status, expected) in [
        (Status::Queued, RunStatus::Queued),
        (Status::Running, RunStatus::Running),
        (Status::Waiting, RunStatus::Running),
        (Status::Paused, RunStatus::Paused),
        (Status::Succeeded, RunStatus::Completed),
        (Status::Failed, RunStatus::Failed),
        (Status::Denied, RunStatus::Failed),
        (Status::TimedOut, RunStatus::Failed),
        (Status::Stopped, RunStatus::Failed),
        (Status::Canceled, RunStatus::Failed),
    ] {
        assert_eq!(RunStatus::from(status), expected, "{status}");
    }
    for (kind, expected) in [
        (AgentType::Codex, Provider::Codex),
        (AgentType::Claude, Provider::Claude),
        (AgentType::Gemini, Provider::Gemini),
        (AgentType::Opencode, Provider::Custom),
        (AgentType::Acp, Provider::Custom),
        (AgentType::Exec, Provider::Custom),
    ] {
        assert_eq!(Provider::from(kind), expected);
    }
}

#[test]
fn the_examples_of_the_shared_contract_are_read_and_written() {
    same::<Node>(&node());
    same::<Edge>(&json!({
        "id": "edge-uuid", "from": "node-a", "to": "node-b", "bidirectional": true, "type": "handoff", "label": "task"
    }));
    same::<Envelope>(&json!({
        "kind": "handoff", "id": "payload-uuid", "fromNodeId": "node-a", "toNodeId": "node-b", "createdAt": TS,
        "payload": {
            "message": "short summary", "structured": {"key": "value"},
            "artifacts": [{"type": "diff", "ref": "artifact://diff/123"}], "status": {"ok": true, "reason": "tests-pass"}
        },
        "contextRef": "contextpack://pack/789"
    }));
    same::<Message>(&json!({
        "id": "msg-uuid", "runId": RUN, "nodeId": "optional-node-uuid", "role": "user", "content": " a\r\nb \u{2028}",
        "interrupt": true, "createdAt": TS
    }));
    same::<Artifact>(&json!({
        "id": "artifact-uuid", "runId": RUN, "nodeId": "node-uuid", "kind": "diff", "name": "diff.patch",
        "path": "/abs/path/to/file", "createdAt": TS,
        "metadata": {"filesChanged": ["path/a.ts", "path/b.ts"], "summary": "short change summary"}
    }));
    same::<Approval>(&json!({
        "approvalId": "approval-uuid", "nodeId": "node-uuid",
        "tool": {"id": "tool-uuid", "name": "command", "args": {"cmd": "..."}}, "context": "optional"
    }));
}

#[test]
fn what_is_optional_is_left_out_and_never_null() {
    let mut value = node();
    for member in ["connection", "inboxCount"] {
        value.as_object_mut().unwrap().remove(member);
    }
    same::<Node>(&value);
    same::<Message>(&json!({"id": "m", "runId": RUN, "role": "system", "content": "", "createdAt": TS}));
}

/// An event with what every event has.
fn event(kind: &str, members: Value) -> Value {
    let mut event = json!({"id": "event-uuid", "runId": RUN, "ts": TS, "type": kind});
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event
}

#[test]
fn every_event_of_the_shared_contract_is_a_flat_object() {
    let tool = json!({"id": "tool-uuid", "name": "command", "args": {"cmd": "..."}});
    let edge = json!({"id": "e", "from": "a", "to": "b", "bidirectional": false, "type": "report", "label": "report"});
    let artifact =
        json!({"id": "a", "runId": RUN, "nodeId": "n", "kind": "log", "name": "x", "path": "/x", "createdAt": TS});
    let message = json!({"id": "m", "runId": RUN, "nodeId": "n", "role": "user", "content": "c", "createdAt": TS});
    let envelope = json!({
        "kind": "handoff", "id": "p", "fromNodeId": "a", "toNodeId": "b", "createdAt": TS, "payload": {"message": "m"}
    });
    for (kind, members) in [
        ("run.patch", json!({"patch": {"status": "paused", "nodes": {"node-uuid": node()}}})),
        ("run.phase", json!({"phase": "EXECUTE", "previousPhase": "BOOT"})),
        ("run.mode", json!({"mode": "INTERACTIVE", "globalMode": "PLANNING"})),
        (
            "run.stalled",
            json!({"evidence": {"outputHash": "a", "diffHash": "b", "verificationFailure": "c", "summaries": []}}),
        ),
        ("node.patch", json!({"nodeId": "n", "patch": {"summary": "s"}})),
        ("node.progress", json!({"nodeId": "n", "status": "running", "summary": "s"})),
        ("node.deleted", json!({"nodeId": "n"})),
        ("edge.created", json!({"edge": edge})),
        ("edge.deleted", json!({"edgeId": "e"})),
        ("handoff.sent", json!({"nodeId": "a", "envelope": envelope})),
        ("message.user", json!({"message": message})),
        ("message.assistant.delta", json!({"nodeId": "n", "delta": "d"})),
        ("message.assistant.final", json!({"nodeId": "n", "content": "c"})),
        ("tool.proposed", json!({"nodeId": "n", "tool": tool})),
        ("tool.started", json!({"nodeId": "n", "tool": tool})),
        ("tool.completed", json!({"nodeId": "n", "toolId": "t", "result": {"ok": false}, "error": {"message": "m"}})),
        ("approval.requested", json!({"approvalId": "a", "nodeId": "n", "tool": tool, "context": "optional"})),
        (
            "approval.resolved",
            json!({"approvalId": "a", "nodeId": "n", "resolution": {"status": "modified", "modifiedArgs": {"cmd": "ls"}}}),
        ),
        ("artifact.created", json!({"nodeId": "n", "artifact": artifact})),
    ] {
        let read: StreamEvent = same(&event(kind, members));
        assert_eq!((read.seq, read.cause_seq), (None, None), "{kind}");
    }
}

#[test]
fn an_event_on_record_names_its_fact() {
    let body = StreamBody::NodeDeleted { node_id: "n".into() };
    let run_id = RunId::parse(RUN).unwrap();
    let told = StreamEvent { id: "e".into(), run_id, ts: TS.parse().unwrap(), seq: Some(7), cause_seq: Some(7), body };
    let text =
        format!(r#"{{"id":"e","runId":"{RUN}","ts":"{TS}","seq":7,"cause_seq":7,"type":"node.deleted","nodeId":"n"}}"#);
    assert_eq!(serde_json::to_string(&told).unwrap(), text);
}
