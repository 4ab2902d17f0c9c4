//! Finding the recording of a request.

use std::sync::{Mutex, PoisonError};

use contract::hash::{Digest, sha256};
use serde_json::Value;

use crate::exchange::{Answer, Exchange, Origin};
use crate::replay::mask::mask;

/// How a recording was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The body is the same.
    Exact,
    /// The body is the same but for ids and times.
    Masked,
    /// No other one could be meant.
    Order,
}

/// Recorded exchanges in their order, each to be served once.
pub(crate) struct Tape {
    left: Mutex<Vec<Recording>>,
}

struct Recording {
    method: String,
    path: String,
    likeness: Likeness,
    answer: Answer,
}

/// What a body is compared by, from strict to lenient.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Likeness {
    exact: Digest,
    masked: Digest,
    shape: Shape,
}

/// What stays the same when every text changes: how far a conversation is, with whom, and with how many tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shape {
    model: Option<String>,
    turns: Option<usize>,
    tools: Option<usize>,
}

impl Tape {
    pub(crate) fn new(exchanges: impl Iterator<Item = Exchange>) -> Tape {
        let mut exchanges: Vec<Exchange> = exchanges.collect();
        exchanges.sort_by_key(|exchange| exchange.seq);
        Tape { left: Mutex::new(exchanges.into_iter().filter_map(recording).collect()) }
    }

    /// Takes the first recording that is most like a request.
    pub(crate) fn find(&self, method: &str, path: &str, body: &[u8]) -> Option<(Answer, Stage)> {
        let likeness = Likeness::of(body);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let same: Vec<usize> =
            (0..left.len()).filter(|&at| left[at].method == method && left[at].path == path).collect();
        let first = |fits: &dyn Fn(&Likeness) -> bool| same.iter().copied().find(|&at| fits(&left[at].likeness));
        let found = first(&|other| other.exact == likeness.exact).map(|at| (at, Stage::Exact));
        let found = found.or_else(|| first(&|other| other.masked == likeness.masked).map(|at| (at, Stage::Masked)));
        let fitting: Vec<usize> =
            same.iter().copied().filter(|&at| left[at].likeness.shape == likeness.shape).collect();
        let found = found.or_else(|| only(&fitting).or_else(|| only(&same)).map(|at| (at, Stage::Order)));
        let (at, stage) = found?;
        Some((left.remove(at).answer, stage))
    }
}

/// One without an answer that anybody got cannot be served.
fn recording(exchange: Exchange) -> Option<Recording> {
    let answer = exchange.answer.filter(|answer| answer.complete || answer.from == Origin::Provider)?;
    let likeness = Likeness::of(&exchange.request_body);
    Some(Recording { method: exchange.method, path: exchange.path, likeness, answer })
}

fn only(places: &[usize]) -> Option<usize> {
    match places {
        [one] => Some(*one),
        _ => None,
    }
}

impl Likeness {
    fn of(body: &[u8]) -> Likeness {
        let value: Option<Value> = serde_json::from_slice(body).ok();
        // Written again, so that spaces and the order of fields do not matter.
        let canonical = value.as_ref().map_or_else(|| body.to_vec(), |value| value.to_string().into_bytes());
        let shape = value.as_ref().map(Shape::of).unwrap_or_default();
        Likeness { exact: sha256(body), masked: sha256(&mask(&canonical)), shape }
    }
}

impl Shape {
    fn of(value: &Value) -> Shape {
        let length = |name: &str| value[name].as_array().map(Vec::len);
        Shape {
            model: value["model"].as_str().map(str::to_owned),
            turns: ["input", "messages", "contents"].into_iter().find_map(length),
            tools: length("tools"),
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::Timestamp;

    use super::*;

    fn exchange(seq: u64, request_body: &str, body: &str) -> Exchange {
        Exchange {
            seq,
            started: Timestamp::default(),
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            model: None,
            request_headers: Vec::new(),
            request_body: request_body.into(),
            retries: Vec::new(),
            answer: Some(Answer {
                ended: Timestamp::default(),
                from: Origin::Provider,
                status: 200,
                headers: Vec::new(),
                body: body.into(),
                complete: true,
                problem: None,
                model: None,
                usage: None,
            }),
        }
    }

    fn find(tape: &Tape, body: &str) -> Option<(String, Stage)> {
        let (answer, stage) = tape.find("POST", "/v1/messages", body.as_bytes())?;
        Some((String::from_utf8(answer.body).unwrap(), stage))
    }

    fn found(body: &str, stage: Stage) -> Option<(String, Stage)> {
        Some((body.to_owned(), stage))
    }

    #[test]
    fn the_same_request_gets_its_answers_in_order() {
        let tape = Tape::new([exchange(2, "same", "second"), exchange(1, "same", "first")].into_iter());
        assert_eq!(find(&tape, "same"), found("first", Stage::Exact));
        assert_eq!(find(&tape, "same"), found("second", Stage::Exact));
        assert_eq!(find(&tape, "same"), None);
    }

    #[test]
    fn ids_and_times_do_not_matter() {
        let one = r#"{"messages":["a"],"session":"0199a8c2-0000-7000-8000-000000000001","day":"2026-11-16"}"#;
        let two = r#"{"messages":["b"],"session":"0199a8c2-0000-7000-8000-000000000001","day":"2026-11-16"}"#;
        let tape = Tape::new([exchange(1, one, "one"), exchange(2, two, "two")].into_iter());
        let asked = r#"{"day": "2027-01-02", "messages": ["b"], "session": "aaaaaaaa-1111-7000-8000-000000000001"}"#;
        assert_eq!(find(&tape, asked), found("two", Stage::Masked));
    }

    #[test]
    fn the_only_one_that_fits_is_taken_and_no_other() {
        let one = r#"{"messages":["in a folder"]}"#;
        let two = r#"{"messages":["in a folder","answer","result"]}"#;
        let recorded = || [exchange(1, one, "one"), exchange(2, two, "two")].into_iter();
        let tape = Tape::new(recorded());
        assert_eq!(find(&tape, r#"{"messages":["elsewhere","answer","result"]}"#), found("two", Stage::Order));
        assert_eq!(find(&tape, r#"{"messages":[1,2,3,4]}"#), found("one", Stage::Order));
        let tape = Tape::new(recorded());
        assert_eq!(find(&tape, r#"{"messages":[1,2,3,4]}"#), None);
        assert_eq!(tape.find("POST", "/v1/responses", one.as_bytes()), None);
        assert_eq!(tape.find("GET", "/v1/messages", one.as_bytes()), None);
    }
}
