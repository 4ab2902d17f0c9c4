//! A conversation with an agent as people read it. Whatever an agent, its tools or its model said stands behind `> ` or
//! four spaces, so that no text of theirs can look like a line of the transcript's own.

use contract::SessionEvent;
use contract::session::{Decision, Permission, PlanStatus};
use contract::{Usage, Usd};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How long a transcript of one turn may be; the events themselves have the rest.
const TURN_BYTES_MAX: usize = 512 << 10;

/// How much of one text is shown.
const TEXT_CHARS_MAX: usize = 4000;

/// How much of a word in a line is shown.
const WORD_CHARS_MAX: usize = 120;

/// One turn of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What the turn is called.
    pub heading: String,
    /// The file with its events, below the run's directory.
    pub events: String,
    /// What it used, by who counted best.
    pub usage: Option<Usage>,
}

/// One turn for people. `events` is its `events.jsonl`.
pub fn transcript(part: &Part, events: &[u8]) -> String {
    let mut turn = Transcript::new(part);
    events.split(|byte| *byte == b'\n').for_each(|line| turn.tell(line));
    turn.finish()
}

/// The same, told line by line.
pub struct Transcript<'p> {
    part: &'p Part,
    turn: Telling,
}

impl<'p> Transcript<'p> {
    /// Nothing is told yet.
    pub fn new(part: &'p Part) -> Transcript<'p> {
        let turn = Telling { text: format!("# {}\n", word(&part.heading)), ..Telling::default() };
        Transcript { part, turn }
    }

    /// Tells a line of the turn's `events.jsonl`; one that is no event is counted and left out.
    pub fn tell(&mut self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        match serde_json::from_slice(line) {
            Ok(event) if self.turn.text.len() < TURN_BYTES_MAX => self.turn.tell(&event),
            Ok(SessionEvent::Usage(usage)) => self.turn.usage = Some(usage),
            _ => self.turn.left_out += 1,
        }
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.turn.finish(self.part)
    }
}

#[derive(Default)]
struct Telling {
    text: String,
    /// Calls of tools, by the agent's own name for each.
    calls: BTreeMap<String, usize>,
    /// What each was last shown to be given.
    given: BTreeMap<usize, Value>,
    /// Requests for permission, the same.
    requests: BTreeMap<String, usize>,
    usage: Option<Usage>,
    left_out: usize,
}

impl Telling {
    fn tell(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::Session { id, model, agent } => {
                let with = model.as_ref().map(|model| format!(" with {}", word(model))).unwrap_or_default();
                let by = agent.as_ref().map(|agent| format!(" by {}", word(agent))).unwrap_or_default();
                self.line(&format!("Session {}{with}{by}", word(id)));
            }
            SessionEvent::Message { text } => self.quote("Message", text),
            SessionEvent::Thought { text } => self.quote("Thought", text),
            SessionEvent::ToolProposed { call, tool, input, .. } => self.tool(call, tool, "is wanted", input),
            SessionEvent::ToolStarted { call, tool, input, .. } => self.tool(call, tool, "is used", input),
            SessionEvent::ToolCompleted { call, ok, output } => {
                let number = number(&mut self.calls, call);
                self.line(&format!("Tool {number}: {}", if *ok { "ok" } else { "failed" }));
                self.code(output);
            }
            SessionEvent::PermissionRequested(asked) => self.asked(asked),
            SessionEvent::PermissionAnswered { id, decision } => self.answered(id, decision),
            SessionEvent::Plan { entries } => {
                let done = |status| if status == PlanStatus::Completed { "[x]" } else { "[ ]" };
                let plan = entries.iter().map(|entry| format!("{} {}\n", done(entry.status), word(&entry.text)));
                self.quote("Plan", &plan.collect::<String>());
            }
            SessionEvent::Usage(usage) => self.usage = Some(*usage),
            SessionEvent::Error(error) => {
                let status = error.status.map(|status| format!(" ({status})")).unwrap_or_default();
                self.quote(&format!("Error{status}"), &error.message);
            }
            SessionEvent::Ended { ok, reason } => {
                self.line(&format!("Ended {}: {}", if *ok { "well" } else { "badly" }, word(reason)));
            }
            SessionEvent::MessageDelta { .. } | SessionEvent::Other { .. } => {}
        }
    }

    /// What a tool is given is shown once, however often it is named; some agents name one before they know it all.
    fn tool(&mut self, call: &str, tool: &str, what: &str, input: &Value) {
        let number = number(&mut self.calls, call);
        self.line(&format!("Tool {number} {what}: {}", word(tool)));
        if self.given.get(&number) != Some(input) {
            self.given.insert(number, input.clone());
            self.code(&shown(input));
        }
    }

    fn asked(&mut self, asked: &Permission) {
        let number = number(&mut self.requests, &asked.id);
        self.line(&format!("Question {number}: may it use {}?", word(&asked.tool)));
        match &asked.command {
            Some(command) => self.code(command),
            None if !asked.paths.is_empty() => self.code(&asked.paths.join("\n")),
            None => self.code(&shown(&asked.input)),
        }
        if let Some(reason) = &asked.reason {
            self.quote("Because", reason);
        }
    }

    fn answered(&mut self, id: &str, decision: &Decision) {
        let number = number(&mut self.requests, id);
        match decision {
            Decision::Allow => self.line(&format!("Question {number}: allowed")),
            Decision::AllowForSession => self.line(&format!("Question {number}: allowed for the session")),
            Decision::AllowModified { input } => {
                self.line(&format!("Question {number}: allowed with other arguments"));
                self.code(&shown(input));
            }
            Decision::Deny { message } => self.quote(&format!("Question {number}: denied"), message),
        }
    }

    fn line(&mut self, line: &str) {
        let _ = write!(self.text, "\n{line}\n");
    }

    fn quote(&mut self, what: &str, text: &str) {
        self.line(what);
        self.block("> ", text);
    }

    fn code(&mut self, text: &str) {
        self.block("    ", text);
    }

    fn block(&mut self, before: &str, text: &str) {
        let (text, cut) = bounded(text.trim_end(), TEXT_CHARS_MAX);
        if text.is_empty() {
            return;
        }
        self.text.push('\n');
        for line in text.lines() {
            let _ = writeln!(self.text, "{before}{}", plain(line));
        }
        if cut > 0 {
            let _ = write!(self.text, "\n({cut} characters more)\n");
        }
    }

    fn finish(mut self, part: &Part) -> String {
        if self.left_out > 0 {
            let left_out = self.left_out;
            self.line(&format!("({left_out} events more, in {})", part.events));
        }
        if let Some(usage) = part.usage.or(self.usage) {
            let cost = usage.cost_micro_usd.map(|cost| format!(", ${}", Usd(cost))).unwrap_or_default();
            let Usage { input_tokens, output_tokens, cached_tokens, reasoning_tokens, .. } = usage;
            self.line(&format!(
                "Used: {input_tokens} tokens read ({cached_tokens} of them cached), {output_tokens} written \
                 ({reasoning_tokens} of them thoughts){cost}"
            ));
        }
        self.text
    }
}

/// The number of a call or a question.
fn number(known: &mut BTreeMap<String, usize>, id: &str) -> usize {
    let next = known.len() + 1;
    *known.entry(id.to_owned()).or_insert(next)
}

fn shown(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        input => serde_json::to_string_pretty(input).expect("BUG: a value is plain data"),
    }
}

/// The beginning of a text, and how many characters are not shown.
fn bounded(text: &str, chars_max: usize) -> (&str, usize) {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// A few words in one line.
fn word(text: &str) -> String {
    let (text, cut) = bounded(text, WORD_CHARS_MAX);
    let line = plain(text);
    if cut > 0 { format!("{line}…") } else { line }
}

/// Nothing that moves a cursor or turns a line around.
fn plain(line: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    line.chars().map(|c| if (c.is_control() && c != '\t') || turns(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::session::{PlanEntry, SessionError, ToolKind};
    use serde_json::json;

    fn part() -> Part {
        Part { heading: "steps/001-worker".to_owned(), events: "events.jsonl".to_owned(), usage: None }
    }

    const CONVERSATION: &str = "# steps/001-worker

Session s-1 with m by codex 1

Plan

> [x] look
> [ ] write

Message

> I write
> two files.

Tool 1 is used: Write

    {
      \"path\": \"a.txt\"
    }

Tool 2 is used: Edit

    {
      \"path\": \"a.txt\"
    }

Tool 2: failed

    no such file

Tool 1: ok

Question 1: may it use Bash?

    rm -r target

Because

> to build anew

Question 1: denied

> not here

Error (503)

> later

Ended well: completed

Used: 9 tokens read (0 of them cached), 2 written (0 of them thoughts), $0.0015
";

    fn told(events: &[SessionEvent]) -> String {
        let lines: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        transcript(&part(), lines.join("\n").as_bytes())
    }

    fn message(text: &str) -> SessionEvent {
        SessionEvent::Message { text: text.to_owned() }
    }

    fn permission(id: &str) -> SessionEvent {
        SessionEvent::PermissionRequested(Permission {
            id: id.to_owned(),
            tool: "Bash".to_owned(),
            kind: ToolKind::Shell,
            command: Some("rm -r target".to_owned()),
            cwd: None,
            paths: Vec::new(),
            input: json!({}),
            reason: Some("to build anew".to_owned()),
        })
    }

    #[test]
    fn what_becomes_known_of_a_call_later_is_shown_then() {
        let wanted = |input: Value| SessionEvent::ToolProposed {
            call: "c".to_owned(),
            tool: "bash".to_owned(),
            kind: ToolKind::Shell,
            input,
        };
        let text = told(&[wanted(json!("")), wanted(json!("make all")), wanted(json!("make all"))]);
        assert_eq!((text.matches("Tool 1 is wanted").count(), text.matches("    make all").count()), (3, 1), "{text}");
    }

    #[test]
    fn a_conversation_reads_from_top_to_bottom() {
        let tool = |call: &str, tool: &str| SessionEvent::ToolStarted {
            call: call.to_owned(),
            tool: tool.to_owned(),
            kind: ToolKind::Write,
            input: json!({"path": "a.txt"}),
        };
        let done = |call: &str, ok, output: &str| SessionEvent::ToolCompleted {
            call: call.to_owned(),
            ok,
            output: output.to_owned(),
        };
        let denied = Decision::Deny { message: "not here".to_owned() };
        let entry = |text: &str, status| PlanEntry { text: text.to_owned(), status };
        let error =
            SessionError { kind: contract::session::ErrorKind::Server, message: "later".to_owned(), status: Some(503) };
        let text = told(&[
            SessionEvent::Session {
                id: "s-1".to_owned(),
                model: Some("m".to_owned()),
                agent: Some("codex 1".to_owned()),
            },
            SessionEvent::Plan {
                entries: vec![entry("look", PlanStatus::Completed), entry("write", PlanStatus::Pending)],
            },
            message("I write\ntwo files."),
            tool("a", "Write"),
            tool("b", "Edit"),
            done("b", false, "no such file"),
            done("a", true, ""),
            permission("p"),
            SessionEvent::PermissionAnswered { id: "p".to_owned(), decision: denied },
            SessionEvent::Error(error),
            SessionEvent::Usage(Usage {
                input_tokens: 9,
                output_tokens: 2,
                cost_micro_usd: Some(1500),
                ..Usage::default()
            }),
            SessionEvent::Ended { ok: true, reason: "completed".to_owned() },
        ]);
        assert_eq!(text, CONVERSATION);
    }

    #[test]
    fn a_tool_that_is_wanted_first_is_the_same_tool() {
        let proposed = SessionEvent::ToolProposed {
            call: "a".to_owned(),
            tool: "shell".to_owned(),
            kind: ToolKind::Shell,
            input: json!("ls"),
        };
        let started = SessionEvent::ToolStarted {
            call: "a".to_owned(),
            tool: "shell".to_owned(),
            kind: ToolKind::Shell,
            input: json!("ls"),
        };
        let expected = "# steps/001-worker\n\nTool 1 is wanted: shell\n\n    ls\n\nTool 1 is used: shell\n";
        assert_eq!(told(&[proposed, started]), expected);
    }

    #[test]
    fn what_an_agent_says_cannot_look_like_a_line_of_norma() {
        let text = told(&[message("hm\n\nTool 1: ok\r\n\u{1b}[2J# x\u{2028}Ended well: completed")]);
        let expected =
            "# steps/001-worker\n\nMessage\n\n> hm\n> \n> Tool 1: ok\n> \u{fffd}[2J# x\u{fffd}Ended well: completed\n";
        assert_eq!(text, expected);
        let named = SessionEvent::Ended { ok: false, reason: "x\nEnded well: y".to_owned() };
        assert_eq!(told(&[named]), "# steps/001-worker\n\nEnded badly: x\u{fffd}Ended well: y\n");
    }

    #[test]
    fn the_count_on_record_is_the_one_that_is_shown() {
        let part = Part { usage: Some(Usage { input_tokens: 7, ..Usage::default() }), ..part() };
        let event = serde_json::to_vec(&SessionEvent::Usage(Usage { input_tokens: 3, ..Usage::default() })).unwrap();
        let text = transcript(&part, &event);
        assert!(text.ends_with("\nUsed: 7 tokens read (0 of them cached), 0 written (0 of them thoughts)\n"), "{text}");
    }

    #[test]
    fn however_much_is_said_the_transcript_has_an_end() {
        let mut events = vec![message(&"ä".repeat(TEXT_CHARS_MAX + 5)); 200];
        events.push(SessionEvent::Usage(Usage::default()));
        let text = told(&events);
        assert!(text.len() < TURN_BYTES_MAX + 5 * TEXT_CHARS_MAX, "{}", text.len());
        assert!(text.contains("\n(5 characters more)\n"));
        let shown = text.matches("Message\n").count();
        assert!(
            text.contains(&format!("\n({} events more, in events.jsonl)\n\nUsed: 0 tokens", 200 - shown)),
            "{shown}"
        );
    }

    #[test]
    fn what_is_no_event_is_counted() {
        let text = transcript(&part(), b"{\"type\":\"message\",\"text\":\"a\"}\nnonsense\n{\"type\":\"new\"}\n");
        assert_eq!(text, "# steps/001-worker\n\nMessage\n\n> a\n\n(2 events more, in events.jsonl)\n");
    }
}
