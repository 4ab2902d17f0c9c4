//! `orchestrator_event.v1`: an event as outside tools read it. The lines of `events.jsonl` carry both spellings of the
//! shared fields, so every one of them is such a document too.

use super::{Open, OrNull};
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use crate::{Digest, RunId, Timestamp};
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct OrchestratorEvent {
    /// When it was recorded.
    pub ts: Timestamp,
    /// How loud.
    pub level: Level,
    /// What kind of event.
    pub event_type: String,
    /// The run's slug.
    pub run_id: String,
    /// The task.
    pub task_id: OrNull<String>,
    /// Which try.
    pub attempt: OrNull<i64>,
    /// The event's own fields.
    pub payload: Open,
    /// Ties the events of one run together for tracing tools.
    pub trace_id: String,
    /// The event's type under an older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The payload under an older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Open>,
    /// The payload under another older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Open>,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The agent that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// In which role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The tool that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The span, for tracing tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// The span around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// The step, by number or by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepName>,
    /// The tools that were called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<Open>>,
    /// Unique id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The run's UUID.
    #[serde(rename = "runId", default, skip_serializing_if = "Option::is_none")]
    pub run_uuid: Option<RunId>,
    /// From 1, without gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Hash of the line before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<Digest>,
    /// What kind of event, under its other name.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The node, in workflows that have nodes.
    #[serde(rename = "nodeId", default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<OrNull<String>>,
}

/// How loud, in either spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Level {
    #[serde(rename = "INFO")]
    Info,
    #[serde(rename = "WARN")]
    Warn,
    #[serde(rename = "ERROR")]
    Error,
    #[serde(rename = "info")]
    InfoLower,
    #[serde(rename = "warn")]
    WarnLower,
    #[serde(rename = "error")]
    ErrorLower,
}

/// A step, by number or by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StepName {
    /// By number.
    Number(i64),
    /// By name.
    Name(String),
}

#[cfg(test)]
mod tests {
    use crate::documents::tests::violations;
    use crate::{Digest, EventLine, Fact, LogName, RunId, Timestamp};
    use serde_json::json;

    #[test]
    fn every_line_of_a_run_is_such_an_event() {
        let log = LogName { run: RunId::new(1_769_180_101_000, [7; 10]), task: Some(3) };
        for fact in [Fact::RunResumed { pid: 7 }, Fact::EvidenceLost { findings: vec!["x".into()] }] {
            let ts = Timestamp::from_unix_ms(1_769_180_101_042);
            let line = EventLine::new(&log, "e".into(), 5, Digest::from_bytes([1; 32]), ts, &fact);
            assert_eq!(violations("orchestrator_event.v1.json", &serde_json::to_value(&line).unwrap()), [""; 0]);
            super::super::read::<super::OrchestratorEvent>(&line.to_bytes()).unwrap();
        }
    }

    #[test]
    fn an_event_in_the_other_spelling_is_one_too() {
        let event = json!({"ts": "2026-02-06T10:00:00Z", "level": "INFO", "event_type": "TEST_RESULT", "run_id": "r",
            "task_id": null, "attempt": null, "payload": {}, "trace_id": "t", "step": "tests"});
        assert_eq!(violations("orchestrator_event.v1.json", &event), [""; 0]);
        let mut other = event.clone();
        other["span_id"] = json!(null);
        other["level"] = json!("loud");
        other.as_object_mut().unwrap().remove("trace_id");
        assert_eq!(violations("orchestrator_event.v1.json", &other), ["", "/level", "/span_id"]);
    }
}
