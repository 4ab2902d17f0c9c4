//! What `acp` says, and what it is told for that.

use crate::testing::{Talk, brief, deny, error_kind, worker};
use crate::{Exit, Kind, Mode, Rights, ShellRight};
use contract::session::{Decision, ErrorKind, ToolKind};
use serde_json::{Value, json};

const SESSION: &str = "ses_1";

fn opened(kind: Kind, rights: Rights) -> Talk {
    let mut brief = brief(kind);
    brief.rights = rights;
    let mut talk = Talk::open(&brief, Mode::Live);
    talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {}}}));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": SESSION}}));
    talk.said();
    talk.told();
    talk
}

fn update(update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}})
}

fn chunk(text: &str) -> Value {
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn tool(kind: &str, status: &str) -> Value {
    update(&json!({"sessionUpdate": kind, "toolCallId": "c1", "title": "ls", "kind": "execute", "status": status}))
}

fn over(result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 3, "result": result})
}

fn options() -> Value {
    json!([
        {"optionId": "proceed_always", "name": "Always", "kind": "allow_always"},
        {"optionId": "proceed_once", "name": "Once", "kind": "allow_once"},
        {"optionId": "cancel", "name": "No", "kind": "reject_once"},
    ])
}

fn ask(id: &Value, options: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": SESSION, "options": options,
        "toolCall": {"toolCallId": "c1", "title": "ls", "kind": "execute", "status": "pending",
                     "rawInput": {"command": "ls -l", "description": "look"}}}})
}

#[test]
fn the_handshake_ends_with_the_prompt() {
    let mut talk = Talk::open(&brief(Kind::Gemini), Mode::Live);
    let hello = talk.said();
    assert_eq!((&hello[0]["jsonrpc"], &hello[0]["method"]), (&json!("2.0"), &json!("initialize")));
    assert_eq!(
        hello[0]["params"]["clientCapabilities"],
        json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false})
    );
    talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1,
        "agentInfo": {"name": "gemini-cli", "version": "0.61.0"}, "agentCapabilities": {"loadSession": true}}}));
    assert_eq!(
        talk.said(),
        [json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/src/tree", "mcpServers": []}})]
    );
    talk.hear(
        &json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": SESSION, "models": {"currentModelId": "m-1"}}}),
    );
    assert_eq!(
        talk.said(),
        [json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {
            "sessionId": SESSION, "prompt": [{"type": "text", "text": "do it"}]}})]
    );
    assert_eq!(talk.told(), [json!({"type": "session", "id": SESSION, "model": "m-1", "agent": "gemini-cli 0.61.0"})]);
}

#[test]
fn a_session_is_resumed_in_the_way_the_agent_can() {
    for (capabilities, method) in [
        (json!({"sessionCapabilities": {"resume": {}}, "loadSession": true}), Some("session/resume")),
        (json!({"loadSession": true}), Some("session/load")),
        (json!({}), None),
    ] {
        let mut brief = brief(Kind::Acp);
        brief.resume = Some(SESSION);
        let mut talk = Talk::open(&brief, Mode::Live);
        talk.said();
        talk.hear(&json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}}));
        let said = talk.said();
        assert_eq!(said.first().map(|line| line["method"].as_str().unwrap()), method);
        if method.is_none() {
            assert_eq!(error_kind(&talk.finish(Exit::Code(0))), "protocol");
            continue;
        }
        assert_eq!(said[0]["params"]["sessionId"], SESSION);
        // What was said before is told again when a session is loaded, and is no answer to anything.
        talk.hear(&chunk("old"));
        talk.hear(&json!({"id": 2, "result": null}));
        talk.hear(&over(&json!({"stopReason": "end_turn"})));
        let outcome = talk.finish(Exit::Code(0));
        assert_eq!((outcome.ok, outcome.answer), (true, None));
        assert_eq!(outcome.session_id.as_deref(), Some(SESSION));
    }
}

#[test]
fn an_agent_of_another_version_is_left_alone() {
    let mut talk = Talk::open(&brief(Kind::Acp), Mode::Live);
    talk.hear(&json!({"id": 1, "result": {"protocolVersion": 2}}));
    assert!(talk.closed && talk.session.turn_over());
}

#[test]
fn the_answer_is_what_follows_the_last_tool() {
    let mut talk = opened(Kind::Gemini, worker());
    talk.hear_all(&[
        chunk("[MODE_UPDATE] yolo"),
        chunk("I lo"),
        chunk("ok."),
        update(&json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}})),
        tool("tool_call", "pending"),
        tool("tool_call", "pending"),
        tool("tool_call_update", "in_progress"),
        update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "a"}}]})),
        chunk("do"),
        chunk("ne"),
        update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": []})),
        update(&json!({"sessionUpdate": "plan", "entries": [{"content": "one", "status": "completed"}]})),
        update(&json!({"sessionUpdate": "brand_new", "x": 1})),
        over(&json!({"stopReason": "end_turn", "_meta": {"quota": {"token_count": {"input_tokens": 7, "output_tokens": 3}}}})),
    ]);
    assert_eq!(
        talk.types(),
        [
            "message_delta",
            "message_delta",
            "thought",
            "message",
            "tool_proposed",
            "tool_started",
            "tool_completed",
            "message_delta",
            "message_delta",
            "plan",
            "other",
            "usage",
            "message",
            "ended"
        ]
    );
    talk.close();
    // It may have to be killed: with servers of its own it does not leave.
    let outcome = talk.finish(Exit::Killed);
    assert!(outcome.ok);
    assert_eq!((outcome.answer.as_deref(), outcome.tool_ops), (Some("done"), 1));
    assert_eq!((outcome.usage.input_tokens, outcome.usage.output_tokens), (7, 3));
}

#[test]
fn usage_adds_up_over_prompts() {
    let mut talk = opened(Kind::Opencode, worker());
    let cost = |amount: f64| {
        update(
            &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": amount, "currency": "USD"}}),
        )
    };
    talk.hear(&cost(0.001));
    talk.hear(&over(&json!({"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 4, "thoughtTokens": 2, "cachedReadTokens": 5, "totalTokens": 21}})));
    talk.prompt("more");
    talk.hear(&cost(0.003));
    talk.hear(&json!({"id": 4, "result": {"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 4, "thoughtTokens": 2, "cachedReadTokens": 5, "totalTokens": 14}}}));
    let usage = talk.finish(Exit::Killed).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (25, 10));
    assert_eq!((usage.cached_tokens, usage.reasoning_tokens), (10, 4));
    assert_eq!(usage.cost_micro_usd, Some(3000));
}

#[test]
fn permissions_are_answered_by_the_kind_of_the_choice() {
    for (decision, expected) in [
        (Decision::Allow, json!({"outcome": "selected", "optionId": "proceed_once"})),
        (Decision::AllowForSession, json!({"outcome": "selected", "optionId": "proceed_always"})),
        (deny(), json!({"outcome": "selected", "optionId": "cancel"})),
        (Decision::AllowModified { input: json!({}) }, json!({"outcome": "selected", "optionId": "cancel"})),
    ] {
        for id in [json!(0), json!("0d3c")] {
            let mut talk = opened(Kind::Gemini, worker());
            talk.hear(&ask(&id, &options()));
            let asked = talk.asked[0].clone();
            assert_eq!((asked.kind, asked.command.as_deref()), (ToolKind::Shell, Some("ls -l")));
            talk.answer(&asked.id, &decision);
            assert_eq!(talk.said(), [json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": expected}})]);
        }
    }
}

#[test]
fn an_allowance_is_not_made_wider_for_want_of_a_choice() {
    let mut talk = opened(Kind::Acp, worker());
    talk.hear(&ask(&json!(0), &json!([{"optionId": "always", "kind": "allow_always"}])));
    talk.answer("permission-1", &Decision::Allow);
    assert_eq!(talk.said()[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(talk.told().last().unwrap()["decision"]["decision"], "deny");
}

#[test]
fn what_the_role_may_not_is_refused_at_once() {
    let mut talk = opened(Kind::Gemini, Rights { shell: ShellRight::Deny, ..worker() });
    talk.hear(&ask(&json!(0), &options()));
    assert!(talk.asked.is_empty());
    assert_eq!(talk.said()[0]["result"]["outcome"]["optionId"], "cancel");
    assert_eq!(talk.types(), ["tool_proposed", "permission_requested", "permission_answered"]);
    talk.hear(&over(&json!({"stopReason": "end_turn"})));
    assert_eq!(talk.finish(Exit::Code(0)).tool_ops, 0);
}

#[test]
fn files_are_written_only_inside_and_only_if_somebody_does() {
    let write = |path: &str| {
        json!({"id": 0, "method": "fs/write_text_file", "params": {
        "sessionId": SESSION, "path": path, "content": "x"}})
    };
    for path in
        ["/etc/passwd", "/src/tree", "/src/tree/../x", "/src/tree//x", "a.rs", "/src/treetop/a", "", "/src/tree/./a"]
    {
        let mut talk = opened(Kind::Acp, worker());
        talk.hear(&write(path));
        assert!(talk.files.is_empty(), "{path}");
        assert_eq!(talk.said()[0]["error"]["code"], -32602, "{path}");
    }
    let mut talk = opened(Kind::Acp, worker());
    talk.hear(&write("/src/tree/a.rs"));
    talk.hear(&write("/src/tree/b.rs"));
    assert_eq!(talk.files.len(), 2);
    talk.answer(&talk.files[0].0.clone(), &Decision::Allow);
    talk.answer(&talk.files[1].0.clone(), &deny());
    let said = talk.said();
    assert_eq!((&said[0]["result"], &said[1]["error"]["message"]), (&json!({}), &json!("no")));
    // A thinking role writes nothing, and opencode does it by itself.
    let mut thinking = opened(Kind::Acp, Rights { write: false, ..worker() });
    thinking.hear(&write("/src/tree/a.rs"));
    assert!(thinking.said()[0].get("error").is_some());
    let mut opencode = opened(Kind::Opencode, worker());
    opencode.hear(&write("/src/tree/a.rs"));
    assert!(opencode.files.is_empty());
    assert_eq!(opencode.said()[0]["result"], json!({}));
}

#[test]
fn requests_that_are_not_known_are_refused() {
    for method in ["fs/read_text_file", "terminal/create", "x/y"] {
        let mut talk = opened(Kind::Gemini, worker());
        talk.hear(&json!({"id": "s", "method": method, "params": {}}));
        assert_eq!(talk.said()[0]["error"]["code"], -32601);
    }
}

#[test]
fn cancelling_answers_what_is_open_and_waits_for_the_end() {
    let mut talk = opened(Kind::Gemini, worker());
    talk.hear(&ask(&json!(0), &options()));
    talk.cancel();
    assert_eq!(
        talk.said(),
        [
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}),
            json!({"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "cancelled"}}}),
        ]
    );
    assert!(!talk.session.turn_over());
    talk.hear(&over(&json!({"stopReason": "cancelled"})));
    assert!(talk.session.turn_over() && !talk.finish(Exit::Code(0)).ok);
}

#[test]
fn errors_of_the_model_have_kinds() {
    for (error, kind, status) in [
        (json!({"code": 401, "message": "no"}), "auth", Some(401)),
        (json!({"code": 429, "message": "Please retry in 12.5s"}), "rate_limited", Some(429)),
        (
            json!({"code": -32603, "message": "Internal error: Unauthorized", "data": {"errorName": "APIError"}}),
            "auth",
            None,
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"message": "stream disconnected"}}),
            "network",
            None,
        ),
        (json!({"code": -32603, "message": "API Error: 400 .."}), "other", Some(400)),
        (json!({"code": -32000, "message": "Authentication required"}), "auth", None),
    ] {
        let mut talk = opened(Kind::Gemini, worker());
        talk.hear(&json!({"id": 3, "error": error}));
        let outcome = talk.finish(Exit::Code(0));
        assert_eq!(error_kind(&outcome), kind, "{error}");
        assert_eq!(outcome.error.unwrap().status, status, "{error}");
    }
    for (reason, kind) in [("refusal", "refused"), ("max_tokens", "other")] {
        let mut talk = opened(Kind::Gemini, worker());
        talk.hear(&over(&json!({"stopReason": reason})));
        assert_eq!(error_kind(&talk.finish(Exit::Code(0))), kind);
    }
}

#[test]
fn commands_given_as_words_become_one_line() {
    assert_eq!(super::command_of(&json!(["bash", "-lc", "echo 'a'"])).unwrap(), r"bash -lc 'echo '\''a'\'''");
    assert_eq!(super::command_of(&json!("ls -l")).unwrap(), "ls -l");
    assert_eq!(super::command_of(&json!([])), None);
}

#[test]
fn an_agent_that_wants_a_sign_in_is_signed_in_with_its_key() {
    let mut talk = Talk::open(&brief(Kind::Acp), Mode::Live);
    let methods =
        json!([{"id": "chatgpt", "name": "In a browser"}, {"id": "openai-api-key", "name": "OPENAI_API_KEY"}]);
    talk.said();
    talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "authMethods": methods}}));
    assert_eq!(talk.said()[0]["method"], "session/new");
    let refused = json!({"code": -32000, "message": "Authentication required"});
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": refused}));
    let said = talk.said();
    assert_eq!(
        (&said[0]["method"], &said[0]["params"]),
        (&json!("authenticate"), &json!({"methodId": "openai-api-key"}))
    );
    talk.hear(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    assert_eq!(talk.said()[0]["method"], "session/new");
    talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "result": {"sessionId": SESSION}}));
    assert_eq!(talk.said()[0]["method"], "session/prompt");
}

#[test]
fn an_agent_that_cannot_be_signed_in_says_what_it_offers() {
    for (methods, tries) in [(json!([{"id": "browser"}, {"id": "device"}]), false), (json!([{"id": "api-key"}]), true)]
    {
        let mut talk = Talk::open(&brief(Kind::Acp), Mode::Live);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "authMethods": methods}}));
        let refused = json!({"code": -32000, "message": "Authentication required"});
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": refused}));
        if tries {
            talk.hear(&json!({"jsonrpc": "2.0", "id": 3, "error": refused}));
        }
        let error = talk.session.finish(Exit::Code(0)).error.unwrap();
        assert!(error.message.contains("it offers to sign in by "), "{error:?}");
        assert_eq!(error.kind, ErrorKind::Auth);
    }
}

#[test]
fn usage_is_found_where_it_was_before_the_protocol_had_a_place_for_it() {
    let mut talk = opened(Kind::Acp, worker());
    let usage = json!({"inputTokens": 10, "outputTokens": 2, "totalTokens": 12});
    talk.hear(&over(&json!({"stopReason": "end_turn", "_meta": {"usage": usage}})));
    let used = talk.session.finish(Exit::Code(0)).usage;
    assert_eq!((used.input_tokens, used.output_tokens), (10, 2));
}

/// As gemini prints it on stdout where a sign-in has ended and nothing renews it.
#[test]
fn an_agent_that_asks_for_a_sign_in_is_not_waited_for() {
    let mut talk = Talk::open(&brief(Kind::Gemini), Mode::Live);
    for line in
        ["\x1b[2JPlease visit the following URL to authorize the application:", "Enter the authorization code: "]
    {
        let acts = talk.session.hear(line.as_bytes());
        talk.perform(acts);
    }
    assert!(talk.closed);
    let outcome = talk.finish(Exit::Killed);
    let error = outcome.error.unwrap();
    assert_eq!((outcome.ok, error.kind), (false, ErrorKind::Auth), "{}", error.message);
    // Once there is a session these are an agent's own words.
    let mut talk = opened(Kind::Gemini, worker());
    let acts = talk.session.hear(b"visit the following URL to authorize");
    talk.perform(acts);
    assert!(!talk.closed);
}

#[test]
fn a_call_without_arguments_is_known_by_its_places_and_changes() {
    let mut talk = opened(Kind::Gemini, worker());
    let change = json!({"type": "diff", "path": "/src/tree/a.txt", "oldText": "", "newText": "hello\n"});
    let about = |status: &str, kind: &str, content: Value| {
        update(&json!({"sessionUpdate": kind, "toolCallId": "w1", "title": "Writing to a.txt", "kind": "edit",
            "status": status, "content": content, "locations": [{"path": "/src/tree/a.txt"}]}))
    };
    talk.hear(&about("in_progress", "tool_call", json!([])));
    talk.hear(&about("completed", "tool_call_update", json!([change])));
    let told = talk.told();
    assert_eq!(told[0]["input"], json!({"paths": ["/src/tree/a.txt"]}), "{told:?}");
    assert_eq!(told.last().unwrap()["output"], "/src/tree/a.txt:\nhello\n");
    // Asked about before anything else is told of it, the whole change is known.
    let asked = json!({"toolCallId": "w2", "title": "Writing to a.txt", "kind": "edit", "status": "pending",
        "content": [change], "locations": [{"path": "/src/tree/a.txt"}]});
    talk.hear(&json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission",
        "params": {"sessionId": SESSION, "toolCall": asked, "options": options()}}));
    let told = talk.told();
    assert_eq!(told[0]["input"]["changes"][0]["newText"], "hello\n", "{told:?}");
    // The title of a command is the command.
    talk.hear(&tool("tool_call", "in_progress"));
    assert_eq!(talk.told()[0]["input"], json!({"command": "ls"}));
}

#[test]
fn usage_is_added_up_where_an_agent_counts_message_by_message() {
    let mut talk = opened(Kind::Acp, worker());
    let counted = |tokens: u64| {
        let usage = json!({"inputTokens": tokens, "outputTokens": 2, "totalTokens": tokens + 2});
        update(
            &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "_meta": {"usage": usage}}),
        )
    };
    talk.hear(&counted(10));
    talk.hear(&chunk("done"));
    talk.hear(&counted(20));
    talk.hear(&over(&json!({"stopReason": "end_turn"})));
    let outcome = talk.session.finish(Exit::Code(0));
    assert_eq!((outcome.usage.input_tokens, outcome.usage.output_tokens), (30, 4));
    assert_eq!(outcome.answer.as_deref(), Some("done"));
    // What the result says is the whole of it, and not added to that.
    let mut talk = opened(Kind::Acp, worker());
    talk.hear(&counted(10));
    talk.hear(&over(
        &json!({"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}}),
    ));
    assert_eq!(talk.session.finish(Exit::Code(0)).usage.input_tokens, 10);
}

#[test]
fn one_way_to_sign_in_is_tried_after_the_other() {
    let mut talk = Talk::open(&brief(Kind::Acp), Mode::Live);
    let methods = json!([
        {"id": "openai-browser"},
        {"id": "first-api-key", "vars": [{"name": "FIRST_API_KEY"}]},
        {"id": "openai", "description": "Requires setting the `OPENAI_API_KEY` environment variable"},
    ]);
    talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "authMethods": methods}}));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "Authentication required"}}));
    talk.said();
    talk.hear(&json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "FIRST_API_KEY is not set"}}));
    assert_eq!(talk.said()[0]["params"], json!({"methodId": "openai"}));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32603, "message": "OPENAI_API_KEY is not set"}}));
    let error = talk.session.finish(Exit::Code(0)).error.unwrap();
    let expected = "OPENAI_API_KEY is not set (it offers to sign in by openai-browser, first-api-key with FIRST_API_KEY, openai \
                    with OPENAI_API_KEY)";
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Auth, expected));
}

#[test]
fn a_greeting_opens_a_session_and_asks_nothing() {
    let (mut session, acts) = crate::Session::greet(&brief(Kind::Acp));
    assert_eq!(acts.len(), 1);
    let hear = |session: &mut crate::Session, line: &Value| session.hear(line.to_string().as_bytes());
    hear(
        &mut session,
        &json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "authMethods": [{"id": "key"}]}}),
    );
    let acts = hear(&mut session, &json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": SESSION}}));
    assert!(matches!(&acts[..], [crate::Act::Tell(contract::SessionEvent::Session { .. })]), "{acts:?}");
    assert_eq!((session.so_far().0, session.ways_to_sign_in()), (Some(SESSION), &["key".to_owned()][..]));
}
