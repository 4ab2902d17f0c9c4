//! What `claude` says, and what it is told for that.

use crate::testing::{Talk, brief, deny, error_kind, worker};
use crate::{Exit, Kind, Mode, Rights, ShellRight};
use contract::session::{Decision, ToolKind};
use serde_json::{Value, json};

const SESSION: &str = "5b2c";

fn opened(rights: Rights) -> Talk {
    let mut brief = brief(Kind::Claude);
    brief.rights = rights;
    let mut talk = Talk::open(&brief, Mode::Live);
    talk.hear(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": "norma-hello", "response": {"commands": []}}}));
    talk.hear(&json!({"type": "system", "subtype": "init", "session_id": SESSION, "model": "m-1",
        "claude_code_version": "2.1.197", "tools": ["Read"]}));
    talk.said();
    talk.told();
    talk
}

fn assistant(block: &Value) -> Value {
    json!({"type": "assistant", "message": {"content": [block]}, "session_id": SESSION, "parent_tool_use_id": null})
}

fn bash() -> Value {
    json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}})
}

fn tool_result(is_error: bool) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a"}],
        "is_error": is_error});
    json!({"type": "user", "message": {"content": [block]}})
}

fn can_use_tool(tool: &str, input: &Value) -> Value {
    json!({"type": "control_request", "request_id": "r-9", "request": {"subtype": "can_use_tool", "tool_name": tool,
        "input": input, "tool_use_id": "toolu_1", "permission_suggestions": [
            {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}], "behavior": "allow",
             "destination": "localSettings"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"}]}})
}

fn result(changes: &Value) -> Value {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
        "stop_reason": "end_turn", "session_id": SESSION, "total_cost_usd": 0.0123, "num_turns": 2,
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "modelUsage": {"m-1": {"inputTokens": 10, "outputTokens": 20, "cacheReadInputTokens": 5,
            "cacheCreationInputTokens": 7}, "m-2": {"inputTokens": 1, "outputTokens": 1}}});
    for (key, value) in changes.as_object().unwrap() {
        result[key] = value.clone();
    }
    result
}

#[test]
fn the_handshake_ends_with_the_prompt() {
    let mut talk = Talk::open(&brief(Kind::Claude), Mode::Live);
    assert_eq!(
        talk.said(),
        [json!({"type": "control_request", "request_id": "norma-hello",
                "request": {"subtype": "initialize", "hooks": null}})]
    );
    talk.hear(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": "norma-hello", "response": {}}}));
    assert_eq!(
        talk.said(),
        [json!({"type": "user", "message": {"role": "user", "content": "do it"}, "parent_tool_use_id": null,
                "session_id": ""})]
    );
    talk.hear(&json!({"type": "system", "subtype": "init", "session_id": SESSION, "model": "m-1",
        "claude_code_version": "2.1.197"}));
    assert_eq!(talk.told(), [json!({"type": "session", "id": SESSION, "model": "m-1", "agent": "claude 2.1.197"})]);
}

#[test]
fn a_turn_is_told_and_its_result_is_the_answer() {
    let mut talk = opened(worker());
    talk.hear_all(&[
        json!({"type": "stream_event", "event": {"type": "content_block_delta",
            "delta": {"type": "text_delta", "text": "I "}}, "parent_tool_use_id": null}),
        assistant(&json!({"type": "thinking", "thinking": "hm"})),
        assistant(&json!({"type": "text", "text": "I look."})),
        assistant(&bash()),
        tool_result(false),
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "inner"}]},
            "parent_tool_use_id": "toolu_0"}),
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}),
        result(&json!({})),
    ]);
    let call = json!({"call": "toolu_1", "tool": "Bash", "kind": "shell", "input": {"command": "ls"}});
    let with = |kind: &str| {
        let mut event = call.clone();
        event["type"] = json!(kind);
        event
    };
    assert_eq!(
        talk.told(),
        [
            json!({"type": "message_delta", "text": "I "}),
            json!({"type": "thought", "text": "hm"}),
            json!({"type": "message", "text": "I look."}),
            with("tool_proposed"),
            with("tool_started"),
            json!({"type": "tool_completed", "call": "toolu_1", "ok": true, "output": "a"}),
            json!({"type": "other", "raw": {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}}),
            json!({"type": "usage", "input_tokens": 23, "output_tokens": 21, "cached_tokens": 5,
                   "reasoning_tokens": 0, "cost_micro_usd": 12300}),
            json!({"type": "ended", "ok": true, "reason": "end_turn"}),
        ]
    );
    talk.close();
    let outcome = talk.finish(Exit::Code(0));
    assert!(outcome.ok);
    assert_eq!(outcome.answer.as_deref(), Some("done"));
    assert_eq!((outcome.tool_ops, outcome.session_id.as_deref()), (1, Some(SESSION)));
}

#[test]
fn structured_output_is_the_answer_where_there_is_one() {
    let mut talk = opened(worker());
    talk.hear(&result(&json!({"structured_output": {"n": 1}})));
    assert_eq!(talk.finish(Exit::Code(0)).answer.as_deref(), Some(r#"{"n":1}"#));
}

#[test]
fn tools_are_asked_for_with_their_whole_input() {
    let mut talk = opened(worker());
    let input = json!({"command": "ls", "description": "look"});
    talk.hear_all(&[assistant(&bash()), can_use_tool("Bash", &input)]);
    let asked = talk.asked[0].clone();
    assert_eq!((asked.kind, asked.command.as_deref()), (ToolKind::Shell, Some("ls")));
    assert_eq!((asked.input, asked.reason.as_deref()), (input.clone(), Some("look")));
    talk.answer(&asked.id, &Decision::Allow);
    assert_eq!(
        talk.said(),
        [json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r-9",
                "response": {"behavior": "allow", "updatedInput": input}}})]
    );
    assert_eq!(talk.types(), ["tool_proposed", "permission_requested", "permission_answered", "tool_started"]);
}

#[test]
fn every_decision_has_its_answer() {
    let session_rule = json!([{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}],
        "behavior": "allow", "destination": "session"}]);
    for (decision, expected) in [
        (
            Decision::AllowForSession,
            json!({"behavior": "allow", "updatedInput": {"command": "ls"}, "updatedPermissions": session_rule}),
        ),
        (
            Decision::AllowModified { input: json!({"command": "ls -l"}) },
            json!({"behavior": "allow", "updatedInput": {"command": "ls -l"}}),
        ),
        (deny(), json!({"behavior": "deny", "message": "no", "interrupt": false})),
    ] {
        let mut talk = opened(worker());
        talk.hear(&can_use_tool("Bash", &json!({"command": "ls"})));
        talk.answer("permission-1", &decision);
        assert_eq!(talk.said()[0]["response"]["response"], expected);
    }
}

#[test]
fn a_denied_tool_never_started() {
    let mut talk = opened(Rights { shell: ShellRight::Deny, ..worker() });
    talk.hear_all(&[assistant(&bash()), can_use_tool("Bash", &json!({"command": "ls"})), tool_result(true)]);
    assert_eq!(talk.said()[0]["response"]["response"]["behavior"], "deny");
    assert_eq!(talk.types(), ["tool_proposed", "permission_requested", "permission_answered", "tool_completed"]);
    assert_eq!(talk.finish(Exit::Killed).tool_ops, 0);
}

#[test]
fn what_claude_takes_back_is_not_answered() {
    let mut talk = opened(worker());
    talk.hear(&can_use_tool("Bash", &json!({"command": "ls"})));
    talk.hear(&json!({"type": "control_cancel_request", "request_id": "r-9"}));
    talk.answer("permission-1", &Decision::Allow);
    assert!(talk.said().is_empty());
}

#[test]
fn errors_of_the_api_are_errors_though_they_call_themselves_success() {
    for (changes, word, kind, status) in [
        (json!({"api_error_status": 401, "result": "API Error: 401"}), "authentication_failed", "auth", Some(401)),
        (json!({"api_error_status": 429, "result": "slow"}), "rate_limit", "rate_limited", Some(429)),
        (json!({"api_error_status": 500, "result": "oops"}), "server_error", "server", Some(500)),
        (json!({"api_error_status": null, "result": "Connection error."}), "unknown", "network", None),
        (json!({"api_error_status": null, "result": "please wait"}), "rate_limit", "rate_limited", None),
        (json!({"api_error_status": 400, "result": "bad"}), "unknown", "other", Some(400)),
    ] {
        let mut talk = opened(worker());
        let mut line = assistant(&json!({"type": "text", "text": "API Error"}));
        line["error"] = json!(word);
        talk.hear(&line);
        let mut changes = changes;
        changes["is_error"] = json!(true);
        talk.hear(&result(&changes));
        let outcome = talk.finish(Exit::Code(1));
        assert!(!outcome.ok);
        assert_eq!(error_kind(&outcome), kind, "{changes}");
        assert_eq!(outcome.error.unwrap().status, status);
    }
}

#[test]
fn a_refusal_is_one() {
    let mut talk = opened(worker());
    talk.hear(&result(&json!({"stop_reason": "refusal", "result": "I will not"})));
    assert_eq!(error_kind(&talk.finish(Exit::Code(0))), "refused");
}

#[test]
fn an_interrupt_ends_the_turn_and_the_next_prompt_is_another() {
    let mut talk = opened(worker());
    talk.hear(&can_use_tool("Bash", &json!({"command": "ls"})));
    talk.cancel();
    let said = talk.said();
    assert_eq!(said[0]["response"]["response"]["behavior"], "deny");
    assert_eq!(said[1]["request"], json!({"subtype": "interrupt"}));
    talk.hear(&result(&json!({"subtype": "error_during_execution", "is_error": true, "result": null})));
    assert!(talk.session.turn_over());
    talk.prompt("again");
    assert!(!talk.session.turn_over());
    assert_eq!(talk.said()[0]["message"]["content"], "again");
    talk.hear(&result(&json!({})));
    assert!(talk.finish(Exit::Code(0)).ok);
}

#[test]
fn a_handshake_that_fails_ends_the_session() {
    let mut talk = Talk::open(&brief(Kind::Claude), Mode::Live);
    talk.hear(&json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": "norma-hello", "error": "no"}}));
    assert!(talk.closed);
    assert_eq!(error_kind(&talk.finish(Exit::Code(0))), "protocol");
}
