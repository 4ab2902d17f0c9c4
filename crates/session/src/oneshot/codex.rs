//! `codex exec --json`. Messages come whole; the count at the end is the thread's.

use crate::calls::Call;
use crate::limits;
use crate::notes::Notes;
use crate::session::Act;
use crate::trouble;
use crate::wire;
use contract::SessionEvent;
use contract::session::{PlanEntry, PlanStatus, ToolKind, Usage};
use serde_json::{Value, json};

/// One event of a thread that had used so much before.
pub(super) fn hear(mut message: Value, before: &Usage, notes: &mut Notes, out: &mut Vec<Act>) {
    match wire::text(&message, "type") {
        "thread.started" => notes.session(wire::name(&message, "thread_id"), None, Some("codex".to_owned()), out),
        "turn.started" => {}
        "item.started" => {
            if let Some(call) = tool_call(wire::take(&mut message, "item")) {
                notes.calls.begin(call, out);
            }
        }
        "item.updated" => plan(&message["item"], out),
        "item.completed" => item_completed(wire::take(&mut message, "item"), notes, out),
        "turn.completed" => {
            notes.usage_is(tokens(&message["usage"]).less(before), out);
            notes.end(true, "completed", out);
        }
        "turn.failed" => {
            notes.trouble(trouble::judge(None, wire::text(&message["error"], "message")), out);
            notes.end(false, "failed", out);
        }
        "error" => notes.trouble(trouble::judge(None, wire::text(&message, "message")), out),
        _ => notes.other(message, out),
    }
}

fn item_completed(item: Value, notes: &mut Notes, out: &mut Vec<Act>) {
    match wire::text(&item, "type") {
        "agent_message" => notes.message(wire::text(&item, "text"), out),
        "reasoning" => notes.thought(wire::text(&item, "text"), out),
        "todo_list" => plan(&item, out),
        // Warnings, such as about a model that is not known.
        "error" => notes.other(item, out),
        _ => {
            let code = item.get("exit_code").and_then(Value::as_i64).unwrap_or_default();
            let ok = matches!(wire::text(&item, "status"), "completed" | "") && code == 0;
            let mut output = wire::text(&item, "aggregated_output").to_owned();
            if output.is_empty() {
                wire::text(&item["error"], "message").clone_into(&mut output);
            }
            let raw = item.clone();
            let Some(call) = tool_call(item) else { return notes.other(raw, out) };
            let id = call.id.clone();
            notes.calls.begin(call, out);
            notes.calls.complete(&id, ok, &output, out);
        }
    }
}

fn tool_call(mut item: Value) -> Option<Call> {
    let id = wire::name(&item, "id");
    let (tool, kind, input) = match wire::text(&item, "type") {
        "command_execution" => {
            ("shell".to_owned(), ToolKind::Shell, json!({"command": wire::take(&mut item, "command")}))
        }
        "file_change" => {
            ("apply_patch".to_owned(), ToolKind::Write, json!({"changes": wire::take(&mut item, "changes")}))
        }
        "mcp_tool_call" => {
            let tool = format!("{}/{}", wire::name(&item, "server"), wire::name(&item, "tool"));
            (tool, ToolKind::Mcp, wire::take(&mut item, "arguments"))
        }
        "web_search" => ("web_search".to_owned(), ToolKind::Fetch, json!({"query": wire::take(&mut item, "query")})),
        _ => return None,
    };
    Some(Call { id, tool, kind, input })
}

fn plan(item: &Value, out: &mut Vec<Act>) {
    if wire::text(item, "type") != "todo_list" {
        return;
    }
    let entries = wire::list(item, "items").iter().take(limits::PLAN_ENTRIES_MAX).map(|entry| PlanEntry {
        text: wire::clip(wire::text(entry, "text"), limits::ERROR_BYTES_MAX).to_owned(),
        status: if wire::flag(entry, "completed") { PlanStatus::Completed } else { PlanStatus::Pending },
    });
    out.push(Act::Tell(SessionEvent::Plan { entries: entries.collect() }));
}

fn tokens(usage: &Value) -> Usage {
    Usage {
        input_tokens: wire::count(usage, "input_tokens"),
        output_tokens: wire::count(usage, "output_tokens"),
        cached_tokens: wire::count(usage, "cached_input_tokens"),
        reasoning_tokens: wire::count(usage, "reasoning_output_tokens"),
        cost_micro_usd: None,
    }
}
