//! `opencode run --format json`. There is no line for the end: the turn is over when the last step finished with
//! `stop`, and it succeeded if no error was told. A refused permission ends it early, with exit code 0.

use crate::calls::Call;
use crate::notes::Notes;
use crate::session::Act;
use crate::tool;
use crate::trouble;
use crate::wire;
use contract::session::Usage;
use serde_json::Value;

/// How far it is.
#[derive(Default)]
pub(crate) struct Steps {
    /// The last step finished with `stop`, and none began after it.
    stopped: bool,
    failed: bool,
}

impl Steps {
    pub(super) fn hear(&mut self, mut message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        notes.session(wire::name(&message, "sessionID"), None, Some("opencode".to_owned()), out);
        match wire::text(&message, "type") {
            "step_start" => self.stopped = false,
            "text" => notes.message(wire::text(&message["part"], "text"), out),
            "reasoning" => notes.thought(wire::text(&message["part"], "text"), out),
            "tool_use" => tool_used(wire::take(&mut message, "part"), notes, out),
            "step_finish" => self.step_finished(&message["part"], notes, out),
            "error" => {
                self.failed = true;
                notes.trouble(error_of(&message["error"]), out);
                notes.end(false, "error", out);
            }
            _ => notes.other(message, out),
        }
    }

    fn step_finished(&mut self, part: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
        notes.usage_more(tokens(part), out);
        match wire::text(part, "reason") {
            "tool-calls" => {}
            "stop" => {
                self.stopped = true;
                notes.end(true, "stop", out);
            }
            reason => {
                self.failed = true;
                notes.trouble(trouble::other(&format!("the turn ended with {reason:?}")), out);
                notes.end(false, reason, out);
            }
        }
    }

    pub(super) fn ended(&self, notes: &Notes) -> Option<bool> {
        if self.failed {
            return Some(false);
        }
        notes.ended().filter(|_| self.stopped)
    }
}

/// A tool is told of when it is done.
fn tool_used(mut part: Value, notes: &mut Notes, out: &mut Vec<Act>) {
    let tool = wire::name(&part, "tool");
    let id = wire::name(&part, "callID");
    let mut state = wire::take(&mut part, "state");
    let ok = wire::text(&state, "status") == "completed";
    let output = wire::text(&state, if ok { "output" } else { "error" }).to_owned();
    let kind = tool::kind_of(&tool);
    notes.calls.begin(Call { id: id.clone(), tool, kind, input: wire::take(&mut state, "input") }, out);
    notes.calls.complete(&id, ok, &output, out);
}

fn tokens(part: &Value) -> Usage {
    let tokens = &part["tokens"];
    let thoughts = wire::count(tokens, "reasoning");
    let cached = wire::count(&tokens["cache"], "read");
    Usage {
        input_tokens: wire::count(tokens, "input")
            .saturating_add(cached)
            .saturating_add(wire::count(&tokens["cache"], "write")),
        output_tokens: wire::count(tokens, "output").saturating_add(thoughts),
        cached_tokens: cached,
        reasoning_tokens: thoughts,
        cost_micro_usd: wire::micro_usd(part.get("cost")),
    }
}

fn error_of(error: &Value) -> contract::session::SessionError {
    let data = &error["data"];
    let status = data.get("statusCode").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    // The body often knows how long to wait.
    let message = format!("{} {}", wire::text(data, "message"), wire::text(data, "responseBody"));
    let message = message.trim();
    trouble::judge(status, if message.is_empty() { wire::text(error, "name") } else { message })
}
