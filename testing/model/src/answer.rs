//! From a step to an answer, still in no interface's words: what is said and called, and how the answer comes to its
//! end, which is not always a good one.

use crate::api::Api;
use crate::asked::{Asked, Due};
use crate::script::{Scripts, Step};
use crate::tools;
use serde_json::{Value, json};
use std::time::Duration;

/// What is said where no script has anything to say.
const NOTHING_TO_SAY: &str = "OK.";
/// What a stream that breaks off has said before it does.
const BROKEN_OFF: [&str; 3] = ["This is ", "the beginning ", "of an answer "];
/// How many bytes of text are said to be a token.
const BYTES_PER_TOKEN: usize = 4;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Speak(Speech),
    /// An error, in the interface's own form unless there is a body.
    Refuse {
        status: u16,
        body: Option<Value>,
        retry_after: Option<u64>,
    },
    /// These bytes as an event stream.
    Raw(String),
    /// Nothing, ever.
    Silence,
}

/// What the model says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Speech {
    pub(crate) thought: Option<String>,
    /// The text, in the parts it is sent in.
    pub(crate) text: Vec<String>,
    pub(crate) call: Option<Call>,
    /// Before each part of the text.
    pub(crate) pause: Duration,
    pub(crate) end: End,
}

/// How a speech ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Complete,
    /// No more comes, and the connection stays.
    Stall,
    /// The connection is closed where it is.
    Drop,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) input: Input,
}

/// What a tool is given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    Json(Value),
    /// As it is, for tools that take no JSON.
    Text(String),
}

impl Input {
    /// As one text, which is how most interfaces send it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Json(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// As an object, for interfaces that know no other.
    pub(crate) fn object(&self) -> Value {
        match self {
            Self::Json(value) => value.clone(),
            Self::Text(text) => json!({ "input": text }),
        }
    }
}

/// What an answer is said to have cost. It follows from lengths alone, so a test can know it beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: usize,
    pub(crate) output: usize,
    /// The part of `output` that was thought.
    pub(crate) thought: usize,
}

impl Speech {
    fn of(text: impl Into<String>) -> Self {
        Self { text: vec![text.into()], ..Self::default() }
    }

    fn calling(call: Call) -> Self {
        Self { call: Some(call), ..Self::default() }
    }

    fn breaking_off(end: End) -> Self {
        Self { text: BROKEN_OFF.map(str::to_owned).to_vec(), end, ..Self::default() }
    }

    /// All of the text.
    pub(crate) fn whole_text(&self) -> String {
        self.text.concat()
    }

    pub(crate) fn usage(&self, asked: &Asked) -> Usage {
        let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN);
        let thought = tokens(self.thought.as_ref().map_or(0, String::len));
        let called = self.call.as_ref().map_or(0, |call| call.name.len() + call.input.text().len());
        let said = tokens(self.text.iter().map(String::len).sum::<usize>() + called);
        Usage { input: tokens(asked.bytes).max(1), output: thought + said.max(1), thought }
    }
}

/// What a request is answered, and by which step of which script.
/// `times` says how often a step was come to before, and is asked where that matters.
pub(crate) fn decide(asked: &Asked, scripts: &Scripts, times: impl FnOnce(&Due) -> usize) -> (Option<Due>, Answer) {
    // Agents ask for titles and summaries of a conversation aside; those offer no tools, and the marker in them is
    // only quoted.
    if asked.wants_json && asked.api == Api::Gemini {
        return (None, Answer::Speak(Speech::of(any_json().to_string())));
    }
    let due = if asked.tools.is_empty() { None } else { asked.due(scripts) };
    let Some(due) = due else { return (None, Answer::Speak(Speech::of(NOTHING_TO_SAY))) };
    let answer = match due.script.get(due.step) {
        Some(Step::Flaky { times: few, first, then }) => {
            carry_out(asked, if times(&due) < *few { first } else { then }, due.step)
        }
        Some(step) => carry_out(asked, step, due.step),
        None => Answer::Speak(Speech::of(NOTHING_TO_SAY)),
    };
    (Some(due), answer)
}

/// Has what an agent's side questions are known to look for; all of them say "nothing special, go on".
fn any_json() -> Value {
    json!({
        "reasoning": "as the script says",
        "next_speaker": "user",
        "model_choice": "flash",
        "complexity_reasoning": "as the script says",
        "complexity_score": 1,
        "summary": "a scripted conversation",
    })
}

fn carry_out(asked: &Asked, step: &Step, index: usize) -> Answer {
    let fill = |text: &str| asked.fill(text, index);
    let speech = match step {
        Step::Write { path, content } => called("write", tools::write(asked, &fill(path), &fill(content))),
        Step::Shell { command } => called("shell", tools::shell(asked, &fill(command))),
        Step::Read { path } => called("read", tools::read(asked, &fill(path))),
        Step::Plan { items } => tools::plan(asked, items).map_or_else(|| Speech::of(items.join("\n")), Speech::calling),
        Step::Call { tool, arguments } => Speech::calling(tools::named(&fill(tool), asked.fill_json(arguments, index))),
        Step::Tool { name, arguments } => called(name, tools::ending(asked, name, &asked.fill_json(arguments, index))),
        Step::Text(text) => Speech::of(fill(text)),
        Step::TextJson(value) => Speech::of(asked.fill_json(value, index).to_string()),
        Step::Structured(value) => {
            let value = asked.fill_json(value, index);
            tools::structured(asked, &value).map_or_else(|| Speech::of(value.to_string()), Speech::calling)
        }
        Step::Think { text, then } => return thinking(fill(text), carry_out(asked, then, index)),
        Step::Status { code, body, retry_after } => {
            return Answer::Refuse { status: *code, body: body.clone(), retry_after: *retry_after };
        }
        // Only a whole step can be flaky.
        Step::Flaky { then, .. } => return carry_out(asked, then, index),
        Step::Hang => return Answer::Silence,
        Step::HangMid => Speech::breaking_off(End::Stall),
        Step::Drop => Speech::breaking_off(End::Drop),
        Step::Slow { text, chunks, delay_ms } => {
            let pause = Duration::from_millis(*delay_ms);
            Speech { text: pieces(&fill(text), *chunks), pause, ..Speech::default() }
        }
        Step::Flood { events } => Speech { text: vec!["flood ".to_owned(); *events], ..Speech::default() },
        Step::Raw(bytes) => return Answer::Raw(bytes.clone()),
    };
    Answer::Speak(speech)
}

/// A call, or a text that says why there is none: the agent offers no tool for this.
fn called(what: &str, call: Option<Call>) -> Speech {
    call.map_or_else(|| Speech::of(format!("scripted-model: no tool is offered for {what}")), Speech::calling)
}

fn thinking(thought: String, then: Answer) -> Answer {
    match then {
        Answer::Speak(speech) => Answer::Speak(Speech { thought: Some(thought), ..speech }),
        other => other,
    }
}

/// A text in about so many parts, cut between characters.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(count.max(1)).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::{Said, Tool};

    fn asked(prompt: &str, tools: &[&str]) -> Asked {
        let tool = |name: &&str| Tool { name: (*name).to_owned(), is_freeform: false };
        Asked {
            api: Api::Anthropic,
            model: "m".into(),
            streamed: true,
            wants_json: false,
            said: vec![Said::User(prompt.to_owned())],
            tools: tools.iter().map(tool).collect(),
            cwd: None,
            bytes: 400,
        }
    }

    fn decided(asked: &Asked) -> Answer {
        decide(asked, &Scripts::default(), |_| 0).1
    }

    #[test]
    fn a_side_question_and_an_unmarked_prompt_get_a_short_text() {
        for asked in [asked("SCN=server_error", &[]), asked("hello", &["Bash"])] {
            assert_eq!(decided(&asked), Answer::Speak(Speech::of(NOTHING_TO_SAY)));
        }
    }

    #[test]
    fn a_structured_answer_uses_the_tool_for_it_if_there_is_one() {
        let Answer::Speak(plain) = decided(&asked("SCN=structured", &["Bash"])) else { panic!("it speaks") };
        assert_eq!(plain.whole_text(), r#"{"status":"ok","summary":"all done"}"#);
        let Answer::Speak(called) = decided(&asked("SCN=structured", &["StructuredOutput"])) else {
            panic!("it speaks")
        };
        assert_eq!(called.call.unwrap().name, "StructuredOutput");
    }

    #[test]
    fn a_thought_comes_before_whatever_follows_it() {
        let Answer::Speak(speech) = decided(&asked("SCN=think", &["Bash"])) else { panic!("it speaks") };
        assert_eq!(speech.thought.as_deref(), Some("Let me think about it."));
        assert_eq!(speech.whole_text(), "I thought about it.");
        assert_eq!(speech.usage(&asked("", &[])), Usage { input: 100, output: 6 + 5, thought: 6 });
    }

    #[test]
    fn a_text_is_cut_between_characters_and_nothing_is_lost() {
        assert_eq!(pieces("äöüß", 2), ["äö", "üß"]);
        assert_eq!(pieces("abc", 9), ["a", "b", "c"]);
        assert_eq!(pieces("", 3), Vec::<String>::new());
    }
}
