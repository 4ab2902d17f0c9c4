//! Every transcript of the real agents is heard again. What the recorder had said to the agent is what a session is
//! made to say: its requests are matched with the recorded ones by method and order, since ids are each side's own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use contract::SessionEvent;
use contract::session::Decision;
use serde_json::{Value, json};
use session::{Act, Brief, Exit, Kind, Mode, Outcome, Rights, Session, ShellRight};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where transcripts are kept, beside the model they were recorded against.
fn transcripts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testing/model/transcripts"))
}

/// A session that hears a transcript.
struct Replay {
    session: Session,
    /// Our requests by method, in order: ids that are not matched yet.
    ours: BTreeMap<String, Vec<Value>>,
    /// From the recorder's ids to ours.
    ids: Vec<(Value, Value)>,
    /// Requests of the agent that wait, by our name.
    asked: Vec<String>,
    told: Vec<SessionEvent>,
    prompts: u32,
}

impl Replay {
    fn perform(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Say(bytes) => self.said(&bytes),
                Act::Tell(event) => self.told.push(event),
                Act::Ask(permission) => self.asked.push(permission.id),
                Act::WriteFile { .. } | Act::CloseInput => {}
            }
        }
    }

    fn said(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        if let Some((method, id)) = request(&message) {
            self.ours.entry(method).or_default().push(id);
        }
    }

    /// What the recorder said to the agent.
    fn recorded_in(&mut self, message: &Value) {
        let Some((method, id)) = request(message) else {
            let prompt = message["type"] == "user";
            if message["method"] == "session/cancel" {
                let acts = self.session.cancel();
                return self.perform(acts);
            }
            if prompt {
                return self.prompt();
            }
            return self.recorded_answer(message);
        };
        match method.as_str() {
            "turn/interrupt" | "interrupt" => {
                let acts = self.session.cancel();
                self.perform(acts);
            }
            "turn/start" | "session/prompt" => self.prompt(),
            _ => {}
        }
        let ours = self.ours.get_mut(&method).filter(|ids| !ids.is_empty()).map(|ids| ids.remove(0));
        self.ids.push((id, ours.unwrap_or(json!(1_000_000))));
    }

    fn prompt(&mut self) {
        self.prompts += 1;
        if self.prompts > 1 {
            let acts = self.session.prompt("do it");
            self.perform(acts);
        }
    }

    fn recorded_answer(&mut self, message: &Value) {
        if self.asked.is_empty() {
            return;
        }
        let text = message.to_string();
        let yes = ["\"accept\"", "\"allow\"", "proceed_once", "\"once\""].iter().any(|word| text.contains(word));
        let decision = if yes { Decision::Allow } else { Decision::Deny { message: "no".to_owned() } };
        let id = self.asked.remove(0);
        let acts = self.session.answer(&id, &decision);
        self.perform(acts);
    }

    /// What the agent said.
    fn recorded_out(&mut self, message: &Value) {
        let mut message = message.clone();
        let of_ours = |id: &Value| self.ids.iter().rev().find(|(theirs, _)| theirs == id).map(|(_, ours)| ours.clone());
        if message.get("method").is_none() && message.get("type").is_none() {
            if let Some(ours) = message.get("id").and_then(of_ours) {
                message["id"] = ours;
            }
        } else if message["type"] == "control_response"
            && let Some(ours) = of_ours(&message["response"]["request_id"])
        {
            message["response"]["request_id"] = ours;
        }
        let line = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
        let acts = self.session.hear(line.as_bytes());
        self.perform(acts);
    }
}

/// A message that is a request: its method and id.
fn request(message: &Value) -> Option<(String, Value)> {
    if message["type"] == "control_request" {
        return Some((message["request"]["subtype"].as_str()?.to_owned(), message["request_id"].clone()));
    }
    Some((message["method"].as_str()?.to_owned(), message.get("id")?.clone()))
}

fn replay(kind: Kind, name: &str) -> (Outcome, Vec<SessionEvent>) {
    let path = transcripts().join(kind.as_str()).join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let once = name.starts_with("once_");
    let brief = Brief {
        kind,
        model: None,
        effort: None,
        base_url: None,
        api_key: None,
        key_variable: None,
        cwd: "/src/tree",
        home: "/home/agent",
        extra_write: &[],
        rights: Rights { write: true, shell: ShellRight::OnRequest, network: false, mcp_tools: Vec::new() },
        tools: None,
        output_schema: None,
        resume: None,
        used: contract::Usage::default(),
        args: &[],
    };
    let (session, acts) = Session::open(&brief, if once { Mode::OneShot } else { Mode::Live }, "do it");
    let mut replay =
        Replay { session, ours: BTreeMap::new(), ids: Vec::new(), asked: Vec::new(), told: Vec::new(), prompts: 0 };
    replay.perform(acts);
    let mut exit = Exit::Killed;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        match line["dir"].as_str().unwrap() {
            "in" => replay.recorded_in(&line["line"]),
            "out" => replay.recorded_out(&line["line"]),
            _ => exit = line["line"].as_i64().map_or(Exit::Killed, |code| Exit::Code(i32::try_from(code).unwrap())),
        }
    }
    if !once && replay.session.turn_over() {
        let acts = replay.session.close();
        replay.perform(acts);
    }
    (replay.session.finish(exit), replay.told)
}

/// What must come of each, and of its one-shot form.
#[track_caller]
fn check(kind: Kind, name: &str) {
    let (outcome, told) = replay(kind, name);
    let error = outcome.error.as_ref().map(|error| (json!(error.kind)["kind"].clone(), error.status));
    let label = format!("{} {name}: {outcome:?}", kind.as_str());
    let failed = |kind: &str, status: Option<u16>| {
        assert!(!outcome.ok && error == Some((json!(kind), status)), "{label}");
    };
    match name.strip_prefix("once_").unwrap_or(name) {
        // Opencode stops at the first denial, and calls that an end.
        "denied" if kind == Kind::Opencode => failed("other", None),
        "write_shell" | "approved" | "denied" | "two_turns" => {
            assert!(outcome.ok, "{label}");
            assert_eq!(outcome.answer.as_deref(), Some("I wrote hello.txt and copied it."), "{label}");
        }
        "structured" => {
            assert!(outcome.ok, "{label}");
            assert_eq!(outcome.answer.as_deref(), Some(r#"{"status":"ok","summary":"all done"}"#), "{label}");
        }
        "just_text" | "unstructured" => assert_eq!((outcome.ok, outcome.answer.as_deref()), (true, Some("All done."))),
        "usage" | "plan" => assert!(outcome.ok && outcome.answer.is_some(), "{label}"),
        "unauthorized" => failed("auth", Some(401)),
        "rate_limited" => failed("rate_limited", Some(429)),
        "server_error" => assert!(!outcome.ok && error.as_ref().is_some_and(|(kind, _)| kind == "server"), "{label}"),
        "dropped" => failed("network", None),
        "garbage" => assert!(!outcome.ok && error.is_some(), "{label}"),
        cancelled => {
            assert!(cancelled.starts_with("cancel_"), "{label}: what must come of it?");
            assert!(!outcome.ok && outcome.error.as_ref().is_some_and(|error| error.message == "cancelled"), "{label}");
        }
    }
    let tools = match name {
        "write_shell" | "approved" | "once_write_shell" => Some(2),
        "two_turns" => Some(4),
        "denied" | "just_text" => Some(0),
        _ => None,
    };
    assert!(tools.is_none_or(|tools| tools == outcome.tool_ops), "{label}");
    assert!(outcome.session_id.is_some(), "{label}");
    check_events(&told, &label);
}

/// What is true of every session: each tool has its events in order, and nothing that an agent says today is strange.
#[track_caller]
fn check_events(told: &[SessionEvent], label: &str) {
    let mut started = Vec::new();
    for event in told {
        match event {
            SessionEvent::ToolStarted { call, .. } => {
                assert!(!started.contains(call), "{label}: {call} started twice");
                started.push(call.clone());
            }
            SessionEvent::ToolCompleted { call, .. } => started.retain(|open| open != call),
            SessionEvent::Other { raw } => panic!("{label}: {raw}"),
            _ => {}
        }
        let written = serde_json::to_value(event).unwrap();
        assert_eq!(&serde_json::from_value::<SessionEvent>(written).unwrap(), event, "{label}");
    }
    assert!(matches!(told.first(), Some(SessionEvent::Session { .. })), "{label}: {told:?}");
    assert!(told.iter().any(|event| matches!(event, SessionEvent::Ended { .. })), "{label}");
}

#[test]
fn every_transcript_of_the_real_agents_is_understood() {
    for kind in [Kind::Codex, Kind::Claude, Kind::Gemini, Kind::Opencode] {
        for file in std::fs::read_dir(transcripts().join(kind.as_str())).unwrap() {
            let path = file.unwrap().path();
            check(kind, path.file_stem().unwrap().to_str().unwrap());
        }
    }
}
