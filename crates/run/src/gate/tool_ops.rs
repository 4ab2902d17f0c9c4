//! How many tools an agent used, and which: from the `events.jsonl` that an exec agent may leave in its step directory.
//! It is the agent's own word, and recorded as that. Every operation is one id, however many lines tell of it; a line
//! without an id counts when something was completed.
//!
//! All that is kept are short texts: what an agent writes may be a number or a depth that no receipt can hold.

use crate::bounded::cut;
use contract::work::ToolOpsSource;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// How many operations are told apart. Beyond that every line counts: rather too many than too few.
const IDS_MAX: usize = 100_000;

/// How many operations a receipt lists.
const TRACE_MAX: usize = 200;

/// How long a text of one of them may be.
const TEXT_CHARS_MAX: usize = 1000;

/// The tool operations of a turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOps {
    /// How many.
    pub ops: u64,
    /// Who counted them.
    pub source: ToolOpsSource,
    /// The first of them, in the order in which they were first told of.
    pub trace: Vec<Value>,
}

/// A line, as far as it matters.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Kind,
    id: Option<Value>,
    name: Option<Value>,
    input: Option<Value>,
    output: Option<Value>,
    status: Option<Value>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[serde(rename = "tool_proposed")]
    Proposed,
    #[serde(rename = "tool_started")]
    Started,
    #[serde(rename = "tool_completed")]
    Completed,
}

/// Reads what the agent left; none if it left nothing.
pub fn read(events: Option<&[u8]>) -> ToolOps {
    let Some(events) = events else { return ToolOps::default() };
    let mut reading = Reading::default();
    // What is no such line is about something else.
    for line in events.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok()) {
        reading.take(line);
    }
    let trace = reading.trace.into_iter().map(Value::Object).collect();
    ToolOps { ops: reading.ops, source: ToolOpsSource::Agent, trace }
}

/// What norma counted itself, where it did: tools by the session's outcome, else processes by the sandbox's report. The
/// trace is the agent's own where it left one.
pub fn counted(reported: ToolOps, outcome: Option<&[u8]>, sandbox: Option<&[u8]>) -> ToolOps {
    let document = |bytes: Option<&[u8]>| bytes.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    if let Some(ops) = document(outcome).and_then(|outcome| outcome.get("tool_ops")?.as_u64()) {
        return ToolOps { ops, source: ToolOpsSource::Protocol, ..reported };
    }
    let commands = document(sandbox).and_then(|sandbox| sandbox.pointer("/report/commands").cloned());
    let Some((ops, commands)) = commands.and_then(|it| Some((it.get("direct")?.as_u64()?, it))) else {
        return reported;
    };
    let mut trace = reported.trace;
    if trace.is_empty() {
        let first = commands.get("first").and_then(Value::as_array).into_iter().flatten().take(TRACE_MAX);
        trace.extend(first.map(|command| json!({ "name": "process", "input": short(command) })));
    }
    ToolOps { ops, source: ToolOpsSource::Processes, trace }
}

#[derive(Default)]
struct Reading {
    ops: u64,
    /// Each id, and where in the trace it is.
    ids: HashMap<String, Option<usize>>,
    trace: Vec<Map<String, Value>>,
}

impl Reading {
    fn take(&mut self, line: Line) {
        let id = line.id.as_ref().filter(|id| !id.is_null()).map(whole);
        let known = id.as_ref().and_then(|id| self.ids.get(id)).copied();
        let place = match known {
            Some(place) => place,
            None if id.is_none() && line.kind != Kind::Completed => return,
            None => self.begin(id),
        };
        if let Some(entry) = place.and_then(|place| self.trace.get_mut(place)) {
            tell(entry, &line);
        }
    }

    /// Counts an operation that was not told of before.
    fn begin(&mut self, id: Option<String>) -> Option<usize> {
        self.ops += 1;
        let place = (self.trace.len() < TRACE_MAX).then_some(self.trace.len());
        if place.is_some() {
            self.trace.push(Map::new());
        }
        if let Some(id) = id.filter(|_| self.ids.len() < IDS_MAX) {
            self.ids.insert(id, place);
        }
        place
    }
}

/// Adds what a line says to what is known of its operation; the first word on anything counts, but for the status.
fn tell(entry: &mut Map<String, Value>, line: &Line) {
    for (name, value) in [("id", &line.id), ("name", &line.name), ("input", &line.input), ("output", &line.output)] {
        if let (Some(value), false) = (value.as_ref().filter(|value| !value.is_null()), entry.contains_key(name)) {
            entry.insert(name.to_owned(), short(value));
        }
    }
    let status = line.status.as_ref().filter(|status| !status.is_null()).map(short);
    let pending = || Value::from(if line.kind == Kind::Completed { "success" } else { "pending" });
    entry.insert("status".to_owned(), status.unwrap_or_else(pending));
}

/// A text as it is, anything else as JSON.
fn whole(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn short(value: &Value) -> Value {
    cut(&whole(value), TEXT_CHARS_MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(events: &str) -> ToolOps {
        read(Some(events.as_bytes()))
    }

    #[test]
    fn an_operation_is_one_id_however_many_lines_tell_of_it() {
        let found = ops(concat!(
            r#"{"type":"tool_proposed","id":"a","name":"edit","input":{"path":"x"}}"#,
            "\n",
            r#"{"type":"tool_started","id":"a"}"#,
            "\n",
            r#"{"type":"message","id":"m","text":"hello"}"#,
            "\n",
            r#"{"type":"tool_completed","id":"a","output":"done","status":"success"}"#,
            "\n",
            r#"{"type":"tool_started","id":7,"name":"bash"}"#,
            "\n",
        ));
        assert_eq!((found.ops, found.source), (2, ToolOpsSource::Agent));
        let expected = [
            json!({ "id": "a", "name": "edit", "input": r#"{"path":"x"}"#, "output": "done", "status": "success" }),
            json!({ "id": "7", "name": "bash", "status": "pending" }),
        ];
        assert_eq!(found.trace, expected);
    }

    #[test]
    fn a_line_without_an_id_counts_when_it_is_completed() {
        let found = ops("{\"type\":\"tool_started\",\"name\":\"a\"}\n{\"type\":\"tool_completed\",\"name\":\"a\"}\n\
                         {\"type\":\"tool_completed\",\"id\":null,\"name\":\"b\"}\n");
        assert_eq!((found.ops, found.trace.len()), (2, 2));
    }

    #[test]
    fn an_agent_that_left_nothing_counted_nothing() {
        assert_eq!(read(None), ToolOps { ops: 0, source: ToolOpsSource::None, trace: Vec::new() });
        assert_eq!(ops("").source, ToolOpsSource::Agent);
        assert_eq!(ops("not json\n[1]\n{\"type\":\"other\"}\n\u{0}\n").ops, 0);
    }

    #[test]
    fn what_norma_counted_comes_before_what_the_agent_says() {
        let line = br#"{"type":"tool_completed","id":"a","name":"edit"}"#;
        let reported = read(Some(line));
        let outcome = br#"{"tool_ops": 3}"#;
        let sandbox = br#"{"report": {"commands": {"direct": 9, "all": 12, "first": ["ls -a"], "refused": []}}}"#;
        let by_protocol = counted(reported.clone(), Some(outcome), Some(sandbox));
        assert_eq!((by_protocol.ops, by_protocol.source, by_protocol.trace.len()), (3, ToolOpsSource::Protocol, 1));
        let by_processes = counted(ToolOps::default(), None, Some(sandbox));
        assert_eq!((by_processes.ops, by_processes.source), (9, ToolOpsSource::Processes));
        assert_eq!(by_processes.trace, [json!({ "name": "process", "input": "ls -a" })]);
        assert_eq!(counted(reported.clone(), None, Some(br#"{"backend": "none"}"#)), reported);
    }

    #[test]
    fn more_than_a_receipt_can_hold_is_counted_and_not_listed() {
        let line = |id: usize| {
            format!("{{\"type\":\"tool_completed\",\"id\":\"{id}\",\"output\":\"{}\"}}\n", "é".repeat(5000))
        };
        let found = ops(&(0..TRACE_MAX + 50).map(line).collect::<String>());
        assert_eq!((found.ops, found.trace.len()), (TRACE_MAX as u64 + 50, TRACE_MAX));
        let output = found.trace[0]["output"].as_str().unwrap();
        assert_eq!(output.chars().count(), TEXT_CHARS_MAX + 1);
    }

    #[test]
    fn numbers_and_depths_that_no_receipt_can_hold_become_texts() {
        let deep = format!("{{\"type\":\"tool_completed\",\"input\":{}1{}}}\n", "[".repeat(100), "]".repeat(100));
        let far = format!("{{\"type\":\"tool_completed\",\"input\":{}1{}}}\n", "[".repeat(9999), "]".repeat(9999));
        let found = ops(&format!("{deep}{far}{{\"type\":\"tool_completed\",\"id\":1.5e300,\"output\":1e-7}}\n"));
        assert_eq!(found.ops, 2);
        for entry in &found.trace {
            assert!(entry.as_object().unwrap().values().all(Value::is_string), "{entry}");
            contract::json::canonical(entry).unwrap();
        }
    }
}
