//! What the agent of a node has called of norma's tools, put together with its answer. The file that says so is written inside
//! the sandbox and is the agent's as much as its answer is: here it is only read; whether anything of it is followed is
//! decided where answers are, and by the same rules.

use contract::Limits;
use contract::graph::{NodeCall, NodeResult, WishedHandoff};

/// Most bytes of the file that are read, and most calls of a turn: an agent that has more to say says it in a file.
pub const CALLS_BYTES_MAX: u64 = 1 << 20;
const CALLS_MAX: usize = 100;

/// An answer with what was called before it; and what of that cannot be followed, each in a sentence.
pub fn with_calls(mut result: NodeResult, calls: &[u8]) -> (NodeResult, Vec<String>) {
    let mut refused = Vec::new();
    let mut called: Vec<WishedHandoff> = Vec::new();
    let mut refuse = |number: usize, why: String| refused.push(format!("call {number}: {why}"));
    let lines = calls.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (number, line) in (1..).zip(lines) {
        if number > CALLS_MAX {
            refuse(number, format!("a turn has at most {CALLS_MAX}; this one and what follows it were left out"));
            break;
        }
        match read(line) {
            Ok(NodeCall::SendHandoff(handoff)) => called.push(handoff),
            Ok(NodeCall::Report(report)) => called.push(report.into()),
            Ok(NodeCall::SpawnNode(wish)) if result.spawn.as_ref().is_none_or(|other| *other == wish) => {
                result.spawn = Some(wish);
            }
            Ok(NodeCall::CreateEdge(wish)) if result.edge.as_ref().is_none_or(|other| *other == wish) => {
                result.edge = Some(wish);
            }
            Ok(NodeCall::Ask(wish)) if result.ask.as_ref().is_none_or(|other| *other == wish) => {
                result.ask = Some(wish);
            }
            Ok(NodeCall::SpawnNode(_) | NodeCall::CreateEdge(_) | NodeCall::Ask(_)) => {
                refuse(number, "a turn asks for one thing of a kind; ask again in the next one".to_owned());
            }
            Err(why) => refuse(number, why),
        }
    }
    // Some agents say again in their answer what they have called.
    let said = std::mem::take(&mut result.handoffs);
    let again = |handoff: &WishedHandoff| called.iter().any(|it| it.to == handoff.to && it.message == handoff.message);
    let said: Vec<WishedHandoff> = said.into_iter().filter(|handoff| !again(handoff)).collect();
    result.handoffs = called.into_iter().chain(said).collect();
    (result, refused)
}

fn read(line: &[u8]) -> Result<NodeCall, String> {
    let value = contract::json::parse(line, &Limits::DOCUMENT).map_err(|found| {
        let first = found.first().map(ToString::to_string);
        first.unwrap_or_else(|| "it is no JSON".to_owned())
    })?;
    serde_json::from_value(value).map_err(|problem| problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(calls: &[serde_json::Value]) -> Vec<u8> {
        calls.iter().map(|call| format!("{call}\n")).collect::<String>().into_bytes()
    }

    fn handoff(to: &str, message: &str) -> serde_json::Value {
        json!({"tool": "send_handoff", "arguments": {"to": to, "message": message}})
    }

    #[test]
    fn calls_say_what_an_answer_says() {
        let calls = lines(&[
            handoff("Coder", "do it"),
            json!({"tool": "report", "arguments": {"message": "half done"}}),
            json!({"tool": "ask", "arguments": {"command": ["ls"]}}),
            json!({"tool": "create_edge", "arguments": {"from": "A", "to": "B"}}),
            json!({"tool": "spawn_node", "arguments": {"label": "C", "roleTemplate": "reviewer", "provider": "codex"}}),
        ]);
        let said: NodeResult = serde_json::from_value(json!({
            "handoffs": [{"to": "Coder", "message": "do it"}, {"message": "half done", "report": true}],
            "ask": {"command": ["ls"]},
            "edge": {"from": "A", "to": "B"},
            "spawn": {"label": "C", "roleTemplate": "reviewer", "provider": "codex"},
        }))
        .unwrap();
        assert_eq!(with_calls(NodeResult::default(), &calls), (said.clone(), Vec::new()));
        // What is said again in the answer is said once.
        assert_eq!(with_calls(said.clone(), &calls), (said, Vec::new()));
    }

    #[test]
    fn what_is_wrong_or_too_much_is_refused_by_its_number_and_the_rest_is_followed() {
        let wrong = [
            json!({"tool": "land", "arguments": {}}),
            json!({"tool": "ask", "arguments": {"command": ["ls"], "approved": true}}),
            json!({"tool": "ask", "arguments": {"command": ["a"]}}),
            json!({"tool": "ask", "arguments": {"command": ["b"]}}),
        ];
        let mut bytes = b"no JSON\n".to_vec();
        bytes.extend(lines(&wrong));
        bytes.extend(lines(&[handoff("B", "x")]));
        bytes.extend(b"{\"tool\":\"report\"");
        let (result, refused) = with_calls(NodeResult::default(), &bytes);
        let which: Vec<&str> = refused.iter().map(|it| it.split(':').next().unwrap()).collect();
        assert_eq!(which, ["call 1", "call 2", "call 3", "call 5", "call 7"]);
        assert_eq!((result.handoffs.len(), result.ask.unwrap().command), (1, vec!["a".to_owned()]));
        let many: Vec<_> = (0..CALLS_MAX + 5).map(|n| handoff("B", &n.to_string())).collect();
        let (result, refused) = with_calls(NodeResult::default(), &lines(&many));
        assert_eq!((result.handoffs.len(), refused.len()), (CALLS_MAX, 1));
    }
}
