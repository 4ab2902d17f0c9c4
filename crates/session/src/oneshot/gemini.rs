//! `gemini --output-format stream-json`. After a signal it leaves with 0 and without a `result` line, so only that
//! line is the end of a turn.

use crate::calls::Call;
use crate::notes::Notes;
use crate::session::Act;
use crate::tool;
use crate::trouble;
use crate::wire;
use contract::session::Usage;
use serde_json::Value;

pub(super) fn hear(mut message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
    match wire::text(&message, "type") {
        "init" => {
            let model = wire::some_name(&message, "model");
            notes.session(wire::name(&message, "session_id"), model, Some("gemini".to_owned()), out);
        }
        "message" => said(&message, notes, out),
        "tool_use" => {
            notes.end_message(out);
            let tool = wire::name(&message, "tool_name");
            let kind = tool::kind_of(&tool);
            let input = wire::take(&mut message, "parameters");
            notes.calls.begin(Call { id: wire::name(&message, "tool_id"), tool, kind, input }, out);
        }
        "tool_result" => {
            let error = wire::text(&message["error"], "message");
            let output = if error.is_empty() { wire::text(&message, "output") } else { error };
            let ok = wire::text(&message, "status") == "success";
            notes.calls.complete(&wire::name(&message, "tool_id"), ok, output, out);
        }
        "error" => notes.trouble(trouble::judge(None, wire::text(&message, "message")), out),
        "result" => result(&message, notes, out),
        _ => notes.other(message, out),
    }
}

fn said(message: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
    let text = wire::text(message, "content");
    match (wire::text(message, "role"), wire::flag(message, "delta")) {
        ("assistant", true) => notes.piece(text, out),
        ("assistant", false) => notes.message(text, out),
        _ => {}
    }
}

fn result(message: &Value, notes: &mut Notes, out: &mut Vec<Act>) {
    notes.usage_is(tokens(&message["stats"]), out);
    if wire::text(message, "status") == "success" {
        return notes.end(true, "success", out);
    }
    notes.trouble(trouble::judge(None, wire::text(&message["error"], "message")), out);
    notes.end(false, "error", out);
}

/// Thoughts are told only by what is missing to the total.
fn tokens(stats: &Value) -> Usage {
    let (input, output) = (wire::count(stats, "input_tokens"), wire::count(stats, "output_tokens"));
    let thoughts = wire::count(stats, "total_tokens").saturating_sub(input.saturating_add(output));
    Usage {
        input_tokens: input,
        output_tokens: output.saturating_add(thoughts),
        cached_tokens: wire::count(stats, "cached"),
        reasoning_tokens: thoughts,
        cost_micro_usd: None,
    }
}

/// The status of HTTP that an exit code stands for: gemini leaves with it, and only its last byte arrives.
pub(super) fn status_of(code: i32) -> Option<u16> {
    [400, 401, 403, 404, 408, 429, 500, 502, 503, 504].into_iter().find(|status| i32::from(status % 256) == code)
}
