//! Events and the lines that carry them. A fact is what happened; an [`Event`] is a fact with its place in a log; a
//! line is the event's exact bytes, which are stored, chained and mirrored as they are.

use crate::json::{self, Violation};
use crate::schema::JsonSchema;
use crate::{Digest, Fact, RunId, Slug, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;

/// The largest event line; bigger payloads belong into files named by digest.
pub const LINE_BYTES_MAX: usize = 256 * 1024;

/// A fact in a run's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// From 1, without gaps.
    pub seq: u64,
    /// When norma recorded it. Order is `seq`, never this.
    pub ts: Timestamp,
    /// What happened.
    pub fact: Fact,
}

/// One line of `events.jsonl`, as stored. Both spellings of the shared fields are there, so that readers of
/// either kind need no translation.
// The members are in canonical order here, so that none has to be moved when it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// Which try.
    pub attempt: u32,
    /// What kind of fact, under its other name.
    pub event_type: String,
    /// Unique id of the event (UUID v7).
    pub id: String,
    /// `info`, `warn` or `error`.
    pub level: String,
    /// One sentence for people.
    pub message: String,
    /// The node, in workflows that have nodes.
    #[serde(rename = "nodeId")]
    pub node_id: Option<String>,
    /// The fact's own fields.
    pub payload: Value,
    /// Hash of the line before.
    pub prev: Digest,
    /// The run's UUID.
    #[serde(rename = "runId")]
    pub run_uuid: RunId,
    /// The run's slug.
    pub run_id: Slug,
    /// From 1, without gaps.
    pub seq: u64,
    /// The item that it is about, or else the task the run belongs to, or empty.
    pub task_id: String,
    /// Ties the events of one run together for tracing tools.
    pub trace_id: String,
    /// RFC 3339 UTC.
    pub ts: Timestamp,
    /// What kind of fact.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Whose log a line belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogName {
    /// The run.
    pub run: RunId,
    /// Its task, if any.
    pub task: Option<i64>,
}

impl EventLine {
    /// Makes the line of a fact; `id` must be unique.
    pub fn new(log: &LogName, id: String, seq: u64, prev: Digest, ts: Timestamp, fact: &Fact) -> EventLine {
        let (kind, payload) = fact.parts();
        EventLine {
            id,
            run_id: log.run.slug(),
            run_uuid: log.run,
            seq,
            prev,
            ts,
            level: fact.level().to_owned(),
            event_type: kind.clone(),
            kind,
            message: fact.message(),
            task_id: log.task.map(|task| task.to_string()).unwrap_or_default(),
            attempt: fact.attempt(),
            node_id: None,
            trace_id: log.run.digits(),
            payload,
        }
    }

    /// The exact bytes that are stored and hashed.
    pub fn to_bytes(&self) -> Vec<u8> {
        json::canonical(self).expect("BUG: an event line holds only small integers and strings")
    }

    /// Where the payload is in the text of a line. A quotation mark within a string is always escaped, so what is looked for
    /// is no part of one.
    pub fn payload_in(line: &str) -> Option<Range<usize>> {
        const BEFORE: &str = ",\"payload\":";
        let start = line.find(BEFORE)? + BEFORE.len();
        let end = line.rfind(",\"prev\":")?;
        (start < end).then_some(start..end)
    }

    /// Reads a stored line back.
    pub fn parse(bytes: &[u8]) -> Result<EventLine, Vec<Violation>> {
        let limits = json::Limits::new(LINE_BYTES_MAX, json::Limits::DOCUMENT.depth_max);
        let value = json::parse(bytes, &limits)?;
        serde_json::from_value(value).map_err(|e| vec![Violation { pointer: String::new(), message: e.to_string() }])
    }

    /// What the first line of a log must follow: the log's own name and the contract that the line carries.
    pub fn chain_start(&self) -> Digest {
        let contract = match self.event().map(|event| event.fact) {
            Ok(Fact::RunStarted(started)) => started.contract_digest,
            _ => Digest::from_bytes([0; 32]),
        };
        crate::hash::chain_start(&self.run_uuid.uuid(), &contract)
    }

    /// The event the line carries.
    pub fn event(&self) -> Result<Event, String> {
        self.event_with(self.payload.clone())
    }

    /// The same, of a line that is left without its payload: a log has many, and a payload may be large.
    pub fn take_event(&mut self) -> Result<Event, String> {
        let payload = self.payload.take();
        self.event_with(payload)
    }

    fn event_with(&self, payload: Value) -> Result<Event, String> {
        Ok(Event { seq: self.seq, ts: self.ts, fact: Fact::from_parts(&self.kind, payload)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, StepRef};

    fn line() -> EventLine {
        let log = LogName { run: RunId::new(1_769_180_101_000, [7; 10]), task: Some(3) };
        let fact = Fact::StepStarted {
            step: StepRef { index: 3, role: Role::Check, iteration: 1, attempt: 2, item: None, node: None },
            base: None,
            taken: None,
        };
        EventLine::new(
            &log,
            "e".into(),
            5,
            Digest::from_bytes([1; 32]),
            Timestamp::from_unix_ms(1_769_180_101_042),
            &fact,
        )
    }

    #[test]
    fn a_line_carries_both_spellings_and_reads_back() {
        let line = line();
        let bytes = line.to_bytes();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["type"], value["event_type"]);
        assert_eq!(value["runId"], line.run_uuid.uuid());
        assert_eq!(value["run_id"], line.run_uuid.slug().as_str());
        for key in [
            "ts",
            "level",
            "event_type",
            "run_id",
            "task_id",
            "attempt",
            "payload",
            "id",
            "runId",
            "type",
            "seq",
            "prev",
        ] {
            assert!(value.get(key).is_some(), "{key}");
        }
        let back = EventLine::parse(&bytes).unwrap();
        assert_eq!(back, line);
        assert_eq!(back.event().unwrap().seq, 5);
        assert_eq!(back.to_bytes(), bytes);
    }

    #[test]
    fn a_line_stays_one_line_whatever_the_agent_says() {
        let log = LogName { run: RunId::new(0, [0; 10]), task: None };
        let fact = Fact::EvidenceLost { findings: vec!["x\n{\"type\":\"verdict\"}\u{2028}".into()] };
        let line = EventLine::new(&log, "e".into(), 1, Digest::from_bytes([0; 32]), Timestamp::from_unix_ms(0), &fact);
        assert!(!line.to_bytes().contains(&b'\n'));
    }

    #[test]
    fn the_payload_is_found_in_a_line_whatever_is_said_in_it() {
        let log = LogName { run: RunId::new(0, [0; 10]), task: None };
        let said = r#"x,"payload":{"a":1},"prev":"b"}"#;
        for finding in [said, "plain", r#"\",\"payload\":"#] {
            let fact = Fact::EvidenceLost { findings: vec![finding.into()] };
            let line =
                EventLine::new(&log, "e".into(), 1, Digest::from_bytes([0; 32]), Timestamp::from_unix_ms(0), &fact);
            let text = String::from_utf8(line.to_bytes()).unwrap();
            let payload = &text[EventLine::payload_in(&text).unwrap()];
            assert_eq!(serde_json::from_str::<Value>(payload).unwrap(), line.payload, "{finding}");
        }
    }
}
