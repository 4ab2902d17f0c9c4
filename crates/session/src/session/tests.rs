//! Whatever an agent says, a session stays small, does not panic and has an outcome.

use super::*;
use crate::testing::{Talk, brief, deny};
use contract::session::Decision;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a session may hold at most, all bounds together.
const HELD_BYTES_MAX: usize = limits::ANSWER_BYTES_MAX
    + limits::OPEN_BYTES_MAX
    + limits::CALLS_MAX * (limits::INPUT_BYTES_MAX + limits::NAME_BYTES_MAX)
    + limits::ERROR_BYTES_MAX
    + 8 * limits::NAME_BYTES_MAX;

/// Every form of session there is.
const FORMS: [(Kind, Mode); 9] = [
    (Kind::Codex, Mode::Live),
    (Kind::Claude, Mode::Live),
    (Kind::Gemini, Mode::Live),
    (Kind::Opencode, Mode::Live),
    (Kind::Acp, Mode::Live),
    (Kind::Codex, Mode::OneShot),
    (Kind::Claude, Mode::OneShot),
    (Kind::Gemini, Mode::OneShot),
    (Kind::Opencode, Mode::OneShot),
];

/// Lines that bring a session into its turn.
fn opening(kind: Kind) -> Vec<Value> {
    match kind {
        Kind::Codex => vec![
            json!({"id": 1, "result": {}}),
            json!({"id": 2, "result": {"thread": {"id": "t"}}}),
            json!({"id": 3, "result": {"turn": {"id": "u"}}}),
        ],
        Kind::Claude => vec![json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": "norma-hello"}})],
        _ => vec![json!({"id": 1, "result": {"protocolVersion": 1}}), json!({"id": 2, "result": {"sessionId": "t"}})],
    }
}

/// Lines of every protocol, well-formed and each with something that is remembered.
fn lines() -> Vec<Value> {
    let update = |update: Value| json!({"method": "session/update", "params": {"sessionId": "t", "update": update}});
    vec![
        json!({"method": "item/agentMessage/delta", "params": {"delta": "x"}}),
        json!({"method": "item/started", "params": {"item": {"id": "c", "type": "commandExecution", "command": "ls"}}}),
        json!({"method": "item/completed", "params": {"item": {"id": "c", "type": "commandExecution", "exitCode": 1}}}),
        json!({"method": "item/completed", "params": {"item": {"id": "m", "type": "agentMessage", "text": "hello"}}}),
        json!({"id": 0, "method": "item/commandExecution/requestApproval", "params": {"itemId": "c", "command": "ls"}}),
        json!({"id": "a", "method": "item/fileChange/requestApproval", "params": {"itemId": "c"}}),
        json!({"method": "thread/tokenUsage/updated", "params": {"tokenUsage": {"total": {"inputTokens": 1}}}}),
        json!({"method": "turn/completed", "params": {"turn": {"id": "u", "status": "completed"}}}),
        json!({"method": "turn/completed", "params": {"turn": {"status": "failed", "error": {"message": "429"}}}}),
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "t"}, {"type": "tool_use",
            "id": "c", "name": "Bash", "input": {"command": "ls"}}]}}),
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}}),
        json!({"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool",
            "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "c"}}),
        json!({"type": "control_cancel_request", "request_id": "r"}),
        json!({"type": "result", "subtype": "success", "result": "done", "total_cost_usd": 1e300}),
        json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 529}),
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}})),
        update(
            json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "rawInput": {"command": "x"}}),
        ),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})),
        update(json!({"sessionUpdate": "plan", "entries": [{"content": "x"}]})),
        update(json!({"sessionUpdate": "usage_update", "cost": {"amount": 0.1}})),
        json!({"id": 0, "method": "session/request_permission", "params": {"options": [{"kind": "allow_once",
            "optionId": "o"}], "toolCall": {"toolCallId": "c", "kind": "edit"}}}),
        json!({"id": 0, "method": "fs/write_text_file", "params": {"path": "/src/tree/x", "content": "y"}}),
        json!({"id": 3, "result": {"stopReason": "end_turn", "usage": {"inputTokens": u64::MAX, "outputTokens": 1}}}),
        json!({"id": 3, "error": {"code": 429, "message": "retry in 3s"}}),
        json!({"type": "item.completed", "item": {"id": "c", "type": "agent_message", "text": "x"}}),
        json!({"type": "turn.completed", "usage": {"input_tokens": 1}}),
        json!({"type": "message", "role": "assistant", "content": "x", "delta": true}),
        json!({"type": "tool_use", "tool_name": "x", "tool_id": "c", "part": {"tool": "bash", "callID": "c"}}),
        json!({"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "tokens": {"input": 1}}}),
        json!({"type": "result", "status": "success", "stats": {"total_tokens": 1}}),
    ]
}

/// Something that happens to a session.
#[derive(Debug, Clone)]
enum Happens {
    Bytes(Vec<u8>),
    Line(Value),
    Cut(Value, usize),
    Answer(u64, bool),
    Prompt,
    Cancel,
    Close,
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        ".{0,6}",
        prop::sample::select(vec![
            "id",
            "method",
            "params",
            "result",
            "error",
            "type",
            "message",
            "item",
            "turn",
            "content",
            "request",
            "sessionId",
            "update",
            "toolCall",
            "part",
            "usage",
            "status",
            "code",
            "data",
            "input",
            "changes",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A line with one field, somewhere, replaced by something else.
fn bent() -> impl Strategy<Value = Value> {
    (prop::sample::select(lines()), any::<prop::sample::Index>(), any_json()).prop_map(|(mut line, at, other)| {
        let places = places(&line, "");
        let place = places[at.index(places.len())].clone();
        if let Some(found) = line.pointer_mut(&place) {
            *found = other;
        }
        line
    })
}

fn places(value: &Value, place: &str) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.replace('/', "~1"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let mut found = vec![place.to_owned()];
    found.extend(inner.into_iter().flat_map(|(key, value)| places(value, &format!("{place}/{key}"))));
    found
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Happens::Bytes),
        2 => any_json().prop_map(Happens::Line),
        4 => prop::sample::select(lines()).prop_map(Happens::Line),
        4 => bent().prop_map(Happens::Line),
        1 => (prop::sample::select(lines()), 0..200_usize).prop_map(|(line, at)| Happens::Cut(line, at)),
        2 => (1..6_u64, any::<bool>()).prop_map(|(id, yes)| Happens::Answer(id, yes)),
        1 => Just(Happens::Prompt),
        1 => Just(Happens::Cancel),
        1 => Just(Happens::Close),
    ]
}

fn perform(session: &mut Session, happens: &Happens) -> Vec<Act> {
    match happens {
        Happens::Bytes(bytes) => session.hear(bytes),
        Happens::Line(line) => session.hear(line.to_string().as_bytes()),
        Happens::Cut(line, at) => {
            let text = line.to_string();
            session.hear(&text.as_bytes()[..(*at).min(text.len())])
        }
        Happens::Answer(id, yes) => {
            session.answer(&format!("permission-{id}"), &if *yes { Decision::Allow } else { deny() })
        }
        Happens::Prompt => session.prompt("more"),
        Happens::Cancel => session.cancel(),
        Happens::Close => session.close(),
    }
}

/// What is said is a line, each request is answered at most once, and what is kept is bounded.
fn check(session: &Session, acts: &[Act]) {
    for act in acts {
        if let Act::Say(bytes) = act {
            assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
            serde_json::from_slice::<Value>(bytes).expect("what is said is JSON");
        }
    }
    assert!(session.bytes() <= HELD_BYTES_MAX);
}

proptest! {
    #[test]
    fn nothing_an_agent_says_does_harm(
        form in prop::sample::select(FORMS.to_vec()),
        opened in any::<bool>(),
        story in prop::collection::vec(happens(), 0..60),
        exit in prop::sample::select(vec![Exit::Code(0), Exit::Code(1), Exit::Signal(9), Exit::Killed]),
    ) {
        let (mut session, _) = Session::open(&brief(form.0), form.1, "do it");
        if opened {
            for line in opening(form.0) {
                let acts = session.hear(line.to_string().as_bytes());
                check(&session, &acts);
            }
        }
        for happens in &story {
            let acts = perform(&mut session, happens);
            check(&session, &acts);
        }
        let outcome = session.finish(exit);
        prop_assert_eq!(outcome.ok, outcome.error.is_none());
        prop_assert!(!outcome.ok || session.turn_over());
    }
}

fn in_turn(kind: Kind) -> Talk {
    let mut talk = Talk::open(&brief(kind), Mode::Live);
    talk.hear_all(&opening(kind));
    talk.told();
    talk
}

const MANY: usize = 100_000;

#[test]
fn streaming_keeps_nothing_that_comes_whole_as_well() {
    let delta = json!({"method": "item/agentMessage/delta", "params": {"delta": "a piece of a message"}}).to_string();
    let mut talk = in_turn(Kind::Codex);
    let before = talk.session.bytes();
    for _ in 0..MANY {
        assert_eq!(talk.session.hear(delta.as_bytes()).len(), 1);
    }
    assert_eq!(talk.session.bytes(), before);
}

#[test]
fn an_answer_that_grows_without_end_is_no_answer() {
    let chunk = json!({"method": "session/update", "params": {"sessionId": "t", "update": {
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x".repeat(100)}}}});
    let chunk = chunk.to_string();
    let mut talk = in_turn(Kind::Acp);
    for _ in 0..MANY {
        talk.session.hear(chunk.as_bytes());
    }
    assert!(talk.session.bytes() <= limits::ANSWER_BYTES_MAX + 1000, "{}", talk.session.bytes());
    talk.hear(&json!({"id": 3, "result": {"stopReason": "end_turn"}}));
    let outcome = talk.finish(Exit::Code(0));
    assert_eq!((outcome.ok, outcome.answer), (false, None));
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::Protocol);
}

#[test]
fn what_is_never_finished_is_forgotten() {
    let mut talk = in_turn(Kind::Acp);
    for call in 0..MANY {
        let line = json!({"method": "session/update", "params": {"sessionId": "t", "update": {"sessionUpdate": "tool_call",
            "toolCallId": format!("c{call}"), "kind": "read", "title": "read", "rawInput": {"path": "x"}}}});
        talk.session.hear(line.to_string().as_bytes());
    }
    assert!(talk.session.notes.calls.size().0 <= limits::CALLS_MAX);
}

#[test]
fn requests_without_end_are_refused() {
    for (kind, request) in [
        (Kind::Codex, json!({"id": 0, "method": "item/commandExecution/requestApproval", "params": {"command": "ls"}})),
        (
            Kind::Claude,
            json!({"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool",
            "tool_name": "Bash", "input": {"command": "ls"}}}),
        ),
        (Kind::Acp, json!({"id": 0, "method": "session/request_permission", "params": {"toolCall": {"kind": "edit"}}})),
        (
            Kind::Acp,
            json!({"id": 0, "method": "fs/write_text_file", "params": {"path": "/src/tree/x", "content": "y"}}),
        ),
    ] {
        let mut talk = in_turn(kind);
        talk.said_text();
        for _ in 0..1000 {
            talk.hear(&request);
        }
        assert_eq!(talk.asked.len() + talk.files.len(), limits::OPEN_MAX, "{kind:?}");
        assert_eq!(talk.said().len(), 1000 - limits::OPEN_MAX, "{kind:?}");
    }
}

#[test]
fn requests_are_refused_that_hold_too_much() {
    let content = "x".repeat(limits::OPEN_BYTES_MAX / 3);
    let request = json!({"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool",
        "tool_name": "Write", "input": {"file_path": "/src/tree/x", "content": content}}});
    let mut talk = in_turn(Kind::Claude);
    for _ in 0..4 {
        talk.hear(&request);
    }
    assert_eq!(talk.asked.len(), 2);
    assert_eq!(talk.asked[0].input["content"].as_str().unwrap().len(), content.len());
    assert!(talk.session.bytes() <= limits::OPEN_BYTES_MAX);
    assert!(talk.told().iter().all(|event| event.to_string().len() < 2 * limits::INPUT_BYTES_MAX));
}

#[test]
fn what_is_strange_is_told_only_so_often_in_a_turn() {
    let mut talk = in_turn(Kind::Codex);
    for _ in 0..MANY {
        let acts = talk.session.hear(b"not json");
        talk.perform(acts);
        let acts = talk.session.hear(br#"{"method":"a/new/one","params":{}}"#);
        talk.perform(acts);
    }
    let told = talk.told();
    assert_eq!(told.len(), limits::STRANGE_MAX as usize);
    assert_eq!(told[0]["kind"], "protocol");
    assert!(told.last().unwrap()["raw"]["left_out"].is_string());
    // Noise alone does not spoil a turn.
    talk.hear(&json!({"method": "turn/completed", "params": {"turn": {"id": "u", "status": "completed"}}}));
    assert!(talk.finish(Exit::Code(0)).ok);
}

#[test]
fn a_line_that_is_too_long_is_not_read() {
    let mut talk = in_turn(Kind::Codex);
    let acts = talk.session.hear(&vec![b'{'; limits::LINE_BYTES_MAX + 1]);
    assert!(matches!(&acts[..], [Act::Tell(SessionEvent::Error(error))] if error.kind == ErrorKind::Protocol));
    // Nor is one that would need a deep stack.
    talk.session.hear(&vec![b'['; limits::LINE_BYTES_MAX]);
}
