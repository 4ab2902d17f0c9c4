//! What `oneshot` says, and what it is told for that.

use crate::testing::{Talk, brief, error_kind};
use crate::{Brief, Exit, Kind, Mode};
use contract::session::Usage;
use serde_json::{Value, json};

fn run(kind: Kind, lines: &[Value]) -> Talk {
    let mut talk = Talk::open(&brief(kind), Mode::OneShot);
    assert_eq!(talk.said_text(), "do it");
    assert!(talk.closed);
    talk.hear_all(lines);
    talk
}

fn codex_item(kind: &str, item: &Value) -> Value {
    json!({"type": kind, "item": item})
}

#[test]
fn codex_exec() {
    let command = |status: &str, code: Value| {
        json!({"id": "item_1", "type": "command_execution",
        "command": "/bin/bash -lc 'ls'", "aggregated_output": "a\n", "exit_code": code, "status": status})
    };
    let mut talk = run(
        Kind::Codex,
        &[
            json!({"type": "thread.started", "thread_id": "t-1"}),
            json!({"type": "turn.started"}),
            codex_item("item.completed", &json!({"id": "item_0", "type": "error", "message": "unknown model"})),
            codex_item("item.started", &command("in_progress", Value::Null)),
            codex_item("item.completed", &command("failed", json!(3))),
            codex_item(
                "item.completed",
                &json!({"id": "item_2", "type": "file_change",
                "changes": [{"path": "/src/tree/a", "kind": "add"}], "status": "completed"}),
            ),
            codex_item("item.completed", &json!({"id": "item_3", "type": "agent_message", "text": "done"})),
            json!({"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4,
                "output_tokens": 3, "reasoning_output_tokens": 1}}),
        ],
    );
    assert_eq!(
        talk.types(),
        [
            "session",
            "other",
            "tool_started",
            "tool_completed",
            "tool_started",
            "tool_completed",
            "message",
            "usage",
            "ended"
        ]
    );
    let outcome = talk.finish(Exit::Code(0));
    assert!(outcome.ok);
    assert_eq!((outcome.answer.as_deref(), outcome.session_id.as_deref()), (Some("done"), Some("t-1")));
    assert_eq!(outcome.tool_ops, 2);
    let usage =
        Usage { input_tokens: 9, output_tokens: 3, cached_tokens: 4, reasoning_tokens: 1, cost_micro_usd: None };
    assert_eq!(outcome.usage, usage);
    // A good end and a bad exit, or an end by force, is no success.
    for exit in [Exit::Code(1), Exit::Signal(9), Exit::Killed] {
        assert!(!talk.finish(exit).ok, "{exit:?}");
    }
}

#[test]
fn codex_goes_on_counting_where_its_thread_stood() {
    let used = Usage { input_tokens: 6, output_tokens: 2, cached_tokens: 4, reasoning_tokens: 0, cost_micro_usd: None };
    let brief = Brief { resume: Some("t-1"), used, ..brief(Kind::Codex) };
    let mut talk = Talk::open(&brief, Mode::OneShot);
    talk.hear(&json!({"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4,
        "output_tokens": 3, "reasoning_output_tokens": 1}}));
    let usage = talk.finish(Exit::Code(0)).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_tokens), (3, 1, 0));
}

#[test]
fn codex_exec_failures() {
    for (message, kind) in [
        ("exceeded retry limit, last status: 429", "rate_limited"),
        ("We're currently experiencing high demand, which may cause temporary errors.", "server"),
        ("Connection failed: error sending request", "network"),
        ("{\"error\":{\"message\":\"no\"}}", "other"),
    ] {
        let talk = run(
            Kind::Codex,
            &[
                json!({"type": "thread.started", "thread_id": "t-1"}),
                json!({"type": "error", "message": message}),
                json!({"type": "turn.failed", "error": {"message": message}}),
            ],
        );
        assert_eq!(error_kind(&talk.finish(Exit::Code(1))), kind, "{message}");
    }
    // Nothing at all, as after an unknown thread.
    assert_eq!(error_kind(&run(Kind::Codex, &[]).finish(Exit::Code(1))), "other");
    assert_eq!(error_kind(&run(Kind::Codex, &[]).finish(Exit::Code(0))), "protocol");
}

#[test]
fn claude_print() {
    let mut talk = run(
        Kind::Claude,
        &[
            json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": "m-1", "claude_code_version": "2.1.197"}),
            json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "u1", "name": "Write",
                "input": {"file_path": "/src/tree/a", "content": "x"}}]}, "parent_tool_use_id": null}),
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "u1",
                "content": "written"}]}}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": "text",
                "structured_output": {"ok": true}, "session_id": "s-1", "total_cost_usd": 0.5,
                "usage": {"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 4}}),
        ],
    );
    assert_eq!(talk.types(), ["session", "tool_proposed", "tool_started", "tool_completed", "usage", "ended"]);
    let outcome = talk.finish(Exit::Code(0));
    assert!(outcome.ok);
    assert_eq!(outcome.answer.as_deref(), Some(r#"{"ok":true}"#));
    let usage = Usage {
        input_tokens: 6,
        output_tokens: 4,
        cached_tokens: 3,
        reasoning_tokens: 0,
        cost_micro_usd: Some(500_000),
    };
    assert_eq!(outcome.usage, usage);
}

#[test]
fn gemini_stream() {
    let said = |text: &str| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
    let lines = [
        json!({"type": "init", "session_id": "s-1", "model": "m-1", "timestamp": "t"}),
        json!({"type": "message", "role": "user", "content": "do it"}),
        said("I "),
        said("look."),
        json!({"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "x1", "parameters": {"command": "ls"}}),
        json!({"type": "tool_result", "tool_id": "x1", "status": "error", "error": {"type": "t", "message": "denied"}}),
        said("done"),
        json!({"type": "result", "status": "success", "stats": {"total_tokens": 20, "input_tokens": 10,
            "output_tokens": 6, "cached": 3, "input": 7, "tool_calls": 1}}),
    ];
    let mut talk = run(Kind::Gemini, &lines);
    assert_eq!(
        talk.types(),
        [
            "session",
            "message_delta",
            "message_delta",
            "message",
            "tool_started",
            "tool_completed",
            "message_delta",
            "usage",
            "message",
            "ended"
        ]
    );
    let outcome = talk.finish(Exit::Code(0));
    assert_eq!((outcome.ok, outcome.answer.as_deref()), (true, Some("done")));
    let usage =
        Usage { input_tokens: 10, output_tokens: 10, cached_tokens: 3, reasoning_tokens: 4, cost_micro_usd: None };
    assert_eq!(outcome.usage, usage);
    // After a signal it leaves with 0 and says nothing.
    let cut = run(Kind::Gemini, &lines[..5]).finish(Exit::Code(0));
    assert_eq!((cut.ok, error_kind(&cut)), (false, json!("protocol")));
}

#[test]
fn gemini_leaves_with_the_status() {
    for (code, kind) in [(145, "auth"), (173, "rate_limited"), (244, "server"), (144, "other"), (1, "other")] {
        assert_eq!(error_kind(&run(Kind::Gemini, &[]).finish(Exit::Code(code))), kind, "{code}");
    }
    let failed =
        json!({"type": "result", "status": "error", "error": {"type": "Error", "message": "[API Error: quota]"}});
    assert_eq!(error_kind(&run(Kind::Gemini, &[failed]).finish(Exit::Code(173))), "rate_limited");
}

fn opencode(kind: &str, part: &Value) -> Value {
    json!({"type": kind, "timestamp": 1, "sessionID": "ses_1", "part": part})
}

fn finish(reason: &str) -> Value {
    opencode(
        "step_finish",
        &json!({"type": "step-finish", "reason": reason, "cost": 0.002,
        "tokens": {"total": 20, "input": 5, "output": 3, "reasoning": 2, "cache": {"read": 10, "write": 0}}}),
    )
}

#[test]
fn opencode_run() {
    let tool = opencode(
        "tool_use",
        &json!({"type": "tool", "tool": "bash", "callID": "c1",
        "state": {"status": "completed", "input": {"command": "ls"}, "output": "a"}}),
    );
    let lines = [
        opencode("step_start", &json!({})),
        tool,
        finish("tool-calls"),
        opencode("step_start", &json!({})),
        opencode("text", &json!({"type": "text", "text": "done"})),
        finish("stop"),
    ];
    let outcome = run(Kind::Opencode, &lines).finish(Exit::Code(0));
    assert_eq!((outcome.ok, outcome.answer.as_deref(), outcome.tool_ops), (true, Some("done"), 1));
    let usage = Usage {
        input_tokens: 30,
        output_tokens: 10,
        cached_tokens: 20,
        reasoning_tokens: 4,
        cost_micro_usd: Some(4000),
    };
    assert_eq!(outcome.usage, usage);
    // A refused permission: it ends after the tool, with 0.
    assert!(!run(Kind::Opencode, &lines[..3]).finish(Exit::Code(0)).ok);
    // A step that began after a stop did not finish.
    let mut unfinished = lines.to_vec();
    unfinished.push(opencode("step_start", &json!({})));
    assert!(!run(Kind::Opencode, &unfinished).finish(Exit::Code(0)).ok);
}

#[test]
fn opencode_run_failures() {
    let error = json!({"type": "error", "sessionID": "ses_1", "error": {"name": "APIError",
        "data": {"message": "Unauthorized", "statusCode": 401, "isRetryable": false, "responseBody": "{}"}}});
    let outcome = run(Kind::Opencode, &[finish("stop"), error]).finish(Exit::Code(0));
    assert_eq!((outcome.ok, error_kind(&outcome)), (false, json!("auth")));
    let outcome = run(Kind::Opencode, &[finish("length")]).finish(Exit::Code(0));
    assert_eq!((outcome.ok, error_kind(&outcome)), (false, json!("other")));
}
