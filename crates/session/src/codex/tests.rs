//! What `codex` says, and what it is told for that.

use crate::testing::{Talk, brief, deny, error_kind, worker};
use crate::{Exit, Kind, Mode, Rights, ShellRight};
use contract::session::{Decision, ToolKind, Usage};
use serde_json::{Value, json};

const THREAD: &str = "01a1e2fc-f030-7993-a2b0-457a9d4a6e0d";

fn opened(rights: Rights) -> Talk {
    let mut brief = brief(Kind::Codex);
    brief.rights = rights;
    let mut talk = Talk::open(&brief, Mode::Live);
    talk.hear(&json!({"id": 1, "result": {"userAgent": "norma/0.166.0 (Linux)"}}));
    talk.hear(&json!({"id": 2, "result": {"thread": {"id": THREAD}, "model": "m-1"}}));
    talk.hear(&json!({"id": 3, "result": {"turn": {"id": "turn-1", "status": "inProgress"}}}));
    talk.said();
    talk.told();
    talk
}

fn notice(method: &str, mut params: Value) -> Value {
    params["threadId"] = json!(THREAD);
    json!({"method": method, "params": params})
}

fn completed(status: &str, error: &Value) -> Value {
    notice("turn/completed", json!({"turn": {"id": "turn-1", "status": status, "error": error}}))
}

fn command_item(status: &str, code: Option<i64>) -> Value {
    json!({"item": {"id": "call-1", "type": "commandExecution", "command": "ls", "cwd": "/src/tree",
                    "status": status, "exitCode": code, "aggregatedOutput": "a\nb\n"}})
}

#[test]
fn the_handshake_ends_with_the_prompt() {
    let schema = json!({"type": "string"});
    let mut brief = brief(Kind::Codex);
    brief.output_schema = Some(&schema);
    brief.effort = Some("high");
    let mut talk = Talk::open(&brief, Mode::Live);
    let hello = talk.said();
    assert_eq!(hello.len(), 1);
    assert_eq!((&hello[0]["method"], &hello[0]["id"]), (&json!("initialize"), &json!(1)));
    assert_eq!(hello[0].get("jsonrpc"), None);
    talk.hear(&json!({"id": 1, "result": {"userAgent": "norma/0.166.0"}}));
    assert_eq!(
        talk.said(),
        [
            json!({"method": "initialized"}),
            json!({"id": 2, "method": "thread/start", "params": {
                "cwd": "/src/tree", "model": "m-1", "approvalPolicy": "on-request", "sandbox": "danger-full-access"}}),
        ]
    );
    talk.hear(&json!({"id": 2, "result": {"thread": {"id": THREAD}, "model": "m-1"}}));
    assert_eq!(
        talk.said(),
        [json!({"id": 3, "method": "turn/start", "params": {
            "threadId": THREAD, "input": [{"type": "text", "text": "do it"}], "outputSchema": {"type": "string"},
            "effort": "high"}})]
    );
    assert_eq!(talk.told(), [json!({"type": "session", "id": THREAD, "model": "m-1", "agent": "norma/0.166.0"})]);
}

#[test]
fn only_the_answer_that_is_waited_for_is_taken_for_one() {
    let mut talk = opened(worker());
    // Ids of ours begin with 1, and the answers to all three were given.
    for id in [0, 3, 9] {
        talk.hear(&json!({"id": id, "error": {"message": "no such thread"}}));
    }
    assert_eq!(talk.types(), ["other", "other", "other"]);
    assert!(!talk.session.turn_over());
    talk.hear(&completed("completed", &Value::Null));
    assert!(talk.finish(Exit::Code(0)).ok);
}

#[test]
fn rights_become_policy_and_sandbox_of_the_thread() {
    for (write, shell, policy, sandbox) in [
        (true, ShellRight::Deny, None, "danger-full-access"),
        (true, ShellRight::Never, Some("never"), "danger-full-access"),
        (true, ShellRight::OnRequest, Some("on-request"), "danger-full-access"),
        (true, ShellRight::Untrusted, Some("untrusted"), "danger-full-access"),
        (false, ShellRight::Deny, None, "read-only"),
        (false, ShellRight::Never, Some("never"), "read-only"),
    ] {
        let mut brief = brief(Kind::Codex);
        brief.rights = Rights { write, shell, ..Rights::default() };
        let (method, params) = super::opening(&brief);
        assert_eq!(method, "thread/start");
        assert_eq!(params.get("approvalPolicy").and_then(Value::as_str), policy, "{shell:?}");
        assert_eq!(params["sandbox"], sandbox);
        brief.resume = Some(THREAD);
        let (method, params) = super::opening(&brief);
        assert_eq!((method, &params["threadId"]), ("thread/resume", &json!(THREAD)));
        assert_eq!(params["sandbox"], sandbox);
    }
}

#[test]
fn a_turn_is_told_and_its_last_message_is_the_answer() {
    let mut talk = opened(Rights { shell: ShellRight::Never, ..worker() });
    talk.hear_all(&[
        notice("turn/started", json!({"turn": {"id": "turn-1"}})),
        notice("item/completed", json!({"item": {"id": "m1", "type": "agentMessage", "text": "I begin."}})),
        notice("item/started", command_item("inProgress", None)),
        notice("item/completed", command_item("completed", Some(0))),
        notice("item/reasoning/summaryTextDelta", json!({"delta": "hm"})),
        notice("item/agentMessage/delta", json!({"itemId": "m2", "delta": "do"})),
        notice("item/completed", json!({"item": {"id": "m2", "type": "agentMessage", "text": "done"}})),
        notice(
            "thread/tokenUsage/updated",
            json!({"tokenUsage": {
            "total": {"inputTokens": 10, "cachedInputTokens": 4, "outputTokens": 5, "reasoningOutputTokens": 2},
            "last": {"inputTokens": 10, "cachedInputTokens": 4, "outputTokens": 5, "reasoningOutputTokens": 2}}}),
        ),
        notice("turn/diff/updated", json!({"diff": "…"})),
        notice("turn/plan/updated", json!({"plan": [{"step": "one", "status": "inProgress"}]})),
        notice("something/new", json!({"x": 1})),
    ]);
    assert!(!talk.session.turn_over());
    talk.hear(&completed("completed", &Value::Null));
    assert!(talk.session.turn_over());
    let input = json!({"command": "ls", "cwd": "/src/tree"});
    assert_eq!(
        talk.told(),
        [
            json!({"type": "message", "text": "I begin."}),
            json!({"type": "tool_started", "call": "call-1", "tool": "shell", "kind": "shell", "input": input}),
            json!({"type": "tool_completed", "call": "call-1", "ok": true, "output": "a\nb\n"}),
            json!({"type": "thought", "text": "hm"}),
            json!({"type": "message_delta", "text": "do"}),
            json!({"type": "message", "text": "done"}),
            json!({"type": "usage", "input_tokens": 10, "output_tokens": 5, "cached_tokens": 4, "reasoning_tokens": 2}),
            json!({"type": "plan", "entries": [{"text": "one", "status": "in_progress"}]}),
            json!({"type": "other", "raw": {"method": "something/new", "params": {"x": 1, "threadId": THREAD}}}),
            json!({"type": "ended", "ok": true, "reason": "completed"}),
        ]
    );
    talk.close();
    assert!(talk.closed);
    let outcome = talk.finish(Exit::Code(0));
    assert!(outcome.ok);
    assert_eq!(outcome.answer.as_deref(), Some("done"));
    assert_eq!(outcome.session_id.as_deref(), Some(THREAD));
    assert_eq!(outcome.usage.input_tokens, 10);
    assert_eq!((outcome.tool_ops, outcome.error), (1, None));
}

#[test]
fn commands_are_asked_for_and_answered_by_our_own_ids() {
    let mut talk = opened(worker());
    let request = json!({"id": 0, "method": "item/commandExecution/requestApproval", "params": {
        "threadId": THREAD, "turnId": "turn-1", "itemId": "call-1", "command": "rm -r x", "cwd": "/src/tree",
        "reason": "to clean up"}});
    talk.hear_all(&[notice("item/started", command_item("inProgress", None)), request.clone(), request]);
    assert_eq!(talk.types(), ["tool_proposed", "permission_requested", "permission_requested"]);
    let [first, second] = &talk.asked[..] else { panic!("two requests") };
    assert_eq!((first.id.as_str(), second.id.as_str()), ("permission-1", "permission-2"));
    assert_eq!(first.kind, ToolKind::Shell);
    assert_eq!(first.command.as_deref(), Some("rm -r x"));
    assert_eq!((first.cwd.as_deref(), first.reason.as_deref()), (Some("/src/tree"), Some("to clean up")));
    for (decision, word) in [(Decision::Allow, "accept"), (deny(), "decline")] {
        let id = if word == "accept" { "permission-1" } else { "permission-2" };
        talk.answer(id, &decision);
        assert_eq!(talk.said().last(), Some(&json!({"id": 0, "result": {"decision": word}})));
    }
    talk.answer("permission-1", &Decision::Allow);
    assert!(talk.said().is_empty());
    assert_eq!(talk.types(), ["permission_answered", "tool_started", "permission_answered"]);
}

#[test]
fn the_model_is_told_why_something_was_denied() {
    let mut talk = opened(worker());
    talk.hear(
        &json!({"id": 4, "method": "item/commandExecution/requestApproval", "params": {"itemId": "i", "command": "x"}}),
    );
    talk.answer("permission-1", &Decision::Deny { message: "Ada said no: use make".to_owned() });
    let said = talk.said();
    assert_eq!((said.len(), &said[0]["method"]), (2, &json!("turn/steer")), "{said:?}");
    assert_eq!(
        (&said[0]["params"]["expectedTurnId"], &said[0]["params"]["threadId"]),
        (&json!("turn-1"), &json!(THREAD))
    );
    assert!(said[0]["params"]["input"][0]["text"].as_str().unwrap().ends_with("Ada said no: use make"));
    assert_eq!(said[1], json!({"id": 4, "result": {"decision": "decline"}}));
}

#[test]
fn what_cannot_be_allowed_with_other_arguments_is_declined() {
    let mut talk = opened(worker());
    talk.hear(&json!({"id": "a", "method": "item/commandExecution/requestApproval", "params": {"itemId": "i"}}));
    talk.answer("permission-1", &Decision::AllowModified { input: json!({}) });
    assert_eq!(talk.said().last(), Some(&json!({"id": "a", "result": {"decision": "decline"}})));
    assert_eq!(talk.told().last().unwrap()["decision"]["decision"], "deny");
}

#[test]
fn a_patch_is_asked_for_with_the_files_it_changes() {
    let mut talk = opened(worker());
    let change = json!({"path": "/src/tree/a.rs", "kind": {"type": "add"}, "diff": "+x"});
    talk.hear_all(&[
        notice(
            "item/started",
            json!({"item": {"id": "p1", "type": "fileChange", "changes": [change], "status": "inProgress"}}),
        ),
        json!({"id": 1, "method": "item/fileChange/requestApproval", "params": {"itemId": "p1", "threadId": THREAD}}),
    ]);
    assert_eq!(talk.asked[0].paths, ["/src/tree/a.rs"]);
    assert_eq!(talk.asked[0].input["changes"][0]["diff"], "+x");
    talk.answer("permission-1", &Decision::AllowForSession);
    assert_eq!(talk.said(), [json!({"id": 1, "result": {"decision": "acceptForSession"}})]);
}

#[test]
fn what_the_role_may_not_is_declined_at_once() {
    for (rights, method) in [
        (Rights { shell: ShellRight::Deny, ..worker() }, "item/commandExecution/requestApproval"),
        (Rights { write: false, ..worker() }, "item/fileChange/requestApproval"),
    ] {
        let mut talk = opened(rights);
        talk.hear(&json!({"id": 7, "method": method, "params": {"itemId": "i", "command": "ls"}}));
        assert_eq!(talk.said(), [json!({"id": 7, "result": {"decision": "decline"}})]);
        assert_eq!(talk.types(), ["permission_requested", "permission_answered"]);
        assert!(talk.asked.is_empty());
    }
}

#[test]
fn requests_that_are_not_known_are_refused() {
    let mut talk = opened(worker());
    talk.hear(&json!({"id": 4, "method": "item/tool/requestUserInput", "params": {}}));
    assert_eq!(talk.said()[0]["error"]["code"], -32601);
    assert_eq!(talk.types(), ["other"]);
}

#[test]
fn failures_have_kinds() {
    for (error, kind, status) in [
        (json!({"message": "bad", "codexErrorInfo": "other"}), "other", None),
        (
            json!({"message": "x", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}}),
            "auth",
            Some(401),
        ),
        (
            json!({"message": "x", "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}}),
            "rate_limited",
            Some(429),
        ),
        (
            json!({"message": "x", "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": null}}}),
            "network",
            None,
        ),
        (json!({"message": "x", "codexErrorInfo": "internalServerError"}), "server", None),
        (json!({"message": "x", "codexErrorInfo": "usageLimitExceeded"}), "rate_limited", None),
        (json!({"message": "x", "codexErrorInfo": "cyberPolicy"}), "refused", None),
        (json!({"message": "exceeded retry limit, last status: 429"}), "rate_limited", Some(429)),
        (json!(null), "other", None),
    ] {
        let mut talk = opened(worker());
        talk.hear(&completed("failed", &error));
        talk.close();
        let outcome = talk.finish(Exit::Code(0));
        assert!(!outcome.ok && talk.session.turn_over());
        assert_eq!(error_kind(&outcome), kind, "{error}");
        assert_eq!(outcome.error.unwrap().status, status);
    }
}

#[test]
fn trouble_on_the_way_does_not_spoil_a_turn_that_succeeds() {
    let mut talk = opened(worker());
    talk.hear(&notice("error", json!({"error": {"message": "Reconnecting..."}, "willRetry": true})));
    talk.hear(&completed("completed", &Value::Null));
    let outcome = talk.finish(Exit::Code(0));
    assert!(outcome.ok && outcome.error.is_none());
}

#[test]
fn cancelling_waits_for_the_turn_to_have_a_name() {
    let mut brief = brief(Kind::Codex);
    brief.rights = worker();
    let mut talk = Talk::open(&brief, Mode::Live);
    talk.hear(&json!({"id": 1, "result": {}}));
    talk.hear(&json!({"id": 2, "result": {"thread": {"id": THREAD}}}));
    talk.said();
    talk.cancel();
    assert!(talk.said().is_empty());
    talk.hear(&json!({"id": 3, "result": {"turn": {"id": "turn-1"}}}));
    let said = talk.said();
    assert_eq!(said[0]["method"], "turn/interrupt");
    assert_eq!(said[0]["params"], json!({"threadId": THREAD, "turnId": "turn-1"}));
    talk.hear(&json!({"id": 4, "result": {}}));
    talk.hear(&completed("interrupted", &Value::Null));
    assert!(talk.session.turn_over());
    assert!(!talk.finish(Exit::Code(0)).ok);
}

#[test]
fn a_second_prompt_is_a_second_turn() {
    let mut talk = opened(worker());
    talk.prompt("and then");
    talk.prompt("and more");
    assert!(talk.said().is_empty());
    talk.hear(&completed("completed", &Value::Null));
    assert!(!talk.session.turn_over());
    let said = talk.said();
    assert_eq!(said[0]["params"]["input"][0]["text"], "and then\n\nand more");
    // The end of the first turn, told again, is not the end of the second.
    talk.hear(&json!({"id": said[0]["id"], "result": {"turn": {"id": "turn-2"}}}));
    talk.hear(&completed("completed", &Value::Null));
    assert!(!talk.session.turn_over());
    talk.hear(&notice("turn/completed", json!({"turn": {"id": "turn-2", "status": "completed"}})));
    assert!(talk.session.turn_over());
}

#[test]
fn a_handshake_that_fails_ends_the_session() {
    let mut brief = brief(Kind::Codex);
    brief.resume = Some("nothing");
    let mut talk = Talk::open(&brief, Mode::Live);
    talk.hear(&json!({"id": 1, "result": {}}));
    talk.hear(&json!({"id": 2, "error": {"code": -32600, "message": "no rollout found for thread id nothing"}}));
    assert!(talk.closed && talk.session.turn_over());
    assert_eq!(error_kind(&talk.finish(Exit::Code(0))), "protocol");
}

#[test]
fn what_a_resumed_thread_had_used_is_not_used_again() {
    let tokens =
        |n: u64| json!({"inputTokens": n, "cachedInputTokens": 0, "outputTokens": n, "reasoningOutputTokens": 0});
    let used = |total, last| {
        notice("thread/tokenUsage/updated", json!({"tokenUsage": {"total": tokens(total), "last": tokens(last)}}))
    };
    let mut brief = brief(Kind::Codex);
    brief.resume = Some(THREAD);
    let mut talk = Talk::open(&brief, Mode::Live);
    talk.hear(&json!({"id": 1, "result": {}}));
    talk.hear(&json!({"id": 2, "result": {"thread": {"id": THREAD}}}));
    talk.hear_all(&[used(120, 20), used(150, 30)]);
    let expected = Usage { input_tokens: 50, output_tokens: 50, ..Usage::default() };
    assert_eq!(talk.finish(Exit::Killed).usage, expected);
}
