//! What a model is to do: steps, the scripts made of them, and where a script comes from. It is named in the prompt
//! (`SCN=write_shell`), or it is in the prompt itself (`SCRIPT=` and base64), so that a test needs no file. One name can
//! stand for several scripts, each for the prompts that say something: a task that is given to several roles in turn
//! carries the same marker to each of them.

use base64ct::{Base64Unpadded, Encoding};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// In a prompt, before the name of a script.
pub const NAMED: &str = "SCN=";
/// In a prompt, before a script of its own.
pub const INLINE: &str = "SCRIPT=";

/// Scripts that every server has, so that a person can try an agent with nothing but a prompt.
const BUILT_IN: &str = include_str!("built_in.json");

/// One answer of the model. In JSON it is a word (`"hang"`) or an object with one key (`{"text": "done"}`).
///
/// In texts, `{cwd}`, `{model}` and `{step}` are filled in, and `{after:LABEL}` becomes the word that follows `LABEL` in
/// the newest prompt that has it: that is how a script answers with an id that it cannot know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Writes a file with the tool that is there for it, or else by the shell.
    Write {
        /// Absolute, or below the directory the agent works in.
        path: String,
        /// All of the file.
        content: String,
    },
    /// Runs a command.
    Shell {
        /// For the shell.
        command: String,
    },
    /// Reads a file with the tool that is there for it, or else by the shell.
    Read {
        /// Absolute, or below the directory the agent works in.
        path: String,
    },
    /// Notes a plan. An agent that offers no tool for it gets the plan as a text, which ends the turn.
    Plan {
        /// What is to be done, in order.
        items: Vec<String>,
    },
    /// Calls a tool by its name, offered or not.
    Call {
        /// The name.
        tool: String,
        /// What it is given.
        arguments: Value,
    },
    /// Calls the tool on offer whose name ends so: agents put the name of a server before those of its tools.
    Tool {
        /// How its name ends.
        name: String,
        /// What it is given.
        arguments: Value,
    },
    /// Answers a text. That ends the turn.
    Text(String),
    /// Answers a JSON document as text.
    TextJson(Value),
    /// Answers a JSON document by the tool for structured answers if there is one, or else as text.
    Structured(Value),
    /// Thinks aloud, then does something else in the same answer.
    Think {
        /// The thought.
        text: String,
        /// What follows it.
        then: Box<Step>,
    },
    /// Refuses the request.
    Status {
        /// The HTTP status.
        code: u16,
        /// What is sent instead of the interface's own form of an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
        /// Seconds, for the header of that name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// Does one thing the first few times that it comes to this step of a conversation, and another from then on.
    Flaky {
        /// How many times.
        times: usize,
        /// What is done then.
        first: Box<Step>,
        /// What is done later.
        then: Box<Step>,
    },
    /// Takes the request and never answers.
    Hang,
    /// Begins an answer and never continues.
    HangMid,
    /// Begins an answer and closes the connection.
    Drop,
    /// Answers a text with a pause before each part of it.
    Slow {
        /// The text.
        text: String,
        /// How many parts.
        chunks: usize,
        /// The pause.
        delay_ms: u64,
    },
    /// Answers a text in very many very small parts.
    Flood {
        /// How many parts.
        events: usize,
    },
    /// Sends these bytes as an event stream, whatever they are.
    Raw(String),
}

/// Steps in order; the n-th is the answer once n tools have been called.
pub type Script = Vec<Step>;

/// What a marker stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Play {
    /// The same for every prompt.
    Always(Script),
    /// By what the prompt says: exactly one of these phrases is in it.
    ByPhrase(BTreeMap<String, Script>),
}

impl From<Script> for Play {
    fn from(script: Script) -> Self {
        Self::Always(script)
    }
}

impl<S: Into<String>, const N: usize> From<[(S, Script); N]> for Play {
    fn from(scripts: [(S, Script); N]) -> Self {
        Self::ByPhrase(scripts.map(|(phrase, script)| (phrase.into(), script)).into())
    }
}

impl Play {
    /// The script for a prompt.
    fn of(self, prompt: &str) -> Result<Script, String> {
        let scripts = match self {
            Self::Always(script) => return Ok(script),
            Self::ByPhrase(scripts) => scripts,
        };
        let mut said: Vec<_> = scripts.into_iter().filter(|(phrase, _)| prompt.contains(phrase)).collect();
        match (said.pop(), said.is_empty()) {
            (Some((_, script)), true) => Ok(script),
            (None, _) => Err("the prompt has none of the script's phrases".to_owned()),
            (Some(_), false) => Err("the prompt has several of the script's phrases".to_owned()),
        }
    }
}

/// Scripts by name.
#[derive(Debug, Clone)]
pub struct Scripts(BTreeMap<String, Play>);

impl Default for Scripts {
    fn default() -> Self {
        Self(serde_json::from_str(BUILT_IN).expect("BUG: the scripts in this crate are read by a test"))
    }
}

impl Scripts {
    /// Those of a file too: an object from names to scripts, which win over the built-in ones.
    pub fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("could not read {path:?}: {error}"))?;
        let own: BTreeMap<String, Play> =
            serde_json::from_str(&text).map_err(|error| format!("could not read the scripts in {path:?}: {error}"))?;
        let mut all = Self::default();
        all.0.extend(own);
        Ok(all)
    }

    /// Adds one, or puts it in place of the one of that name.
    #[must_use]
    pub fn with(mut self, name: &str, play: impl Into<Play>) -> Self {
        self.0.insert(name.to_owned(), play.into());
        self
    }

    /// The script that a prompt asks for with its last marker, and what to call it; nothing if it has no marker. A
    /// marker that means nothing is a script too, one that says so: a test must not pass by a typing error.
    #[must_use]
    pub fn asked_for(&self, prompt: &str) -> Option<(String, Script)> {
        let named = prompt.rfind(NAMED);
        let inline = prompt.rfind(INLINE);
        let (name, play) = if named > inline {
            let name = word(&prompt[named? + NAMED.len()..], "_-");
            (name, self.0.get(name).cloned().ok_or_else(|| format!("there is no script `{name}`")))
        } else {
            let play = unpack(word(&prompt[inline? + INLINE.len()..], "+/-_="));
            ("(inline)", play.map_err(|error| format!("the script is wrong: {error}")))
        };
        let script = play.and_then(|play| play.of(prompt));
        Some((name.to_owned(), script.unwrap_or_else(|why| wrong(&why))))
    }
}

/// A script as a marker for a prompt.
#[must_use]
pub fn inline(script: &[Step]) -> String {
    let json = serde_json::to_vec(script).expect("BUG: a script is plain data");
    format!("{INLINE}{}", Base64Unpadded::encode_string(&json))
}

fn unpack(base64: &str) -> Result<Play, Box<dyn Error>> {
    let base64 = base64.trim_end_matches('=').replace('-', "+").replace('_', "/");
    let json = Base64Unpadded::decode_vec(&base64).map_err(|error| format!("not base64: {error}"))?;
    Ok(serde_json::from_slice(&json)?)
}

/// Refused with a status that no client takes for a passing trouble.
fn wrong(why: &str) -> Script {
    let body = serde_json::json!({ "error": { "message": format!("scripted-model: {why}") } });
    vec![Step::Status { code: 400, body: Some(body), retry_after: None }]
}

/// What a text begins with, as far as it is letters, digits and these.
fn word<'a>(text: &'a str, also: &str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !also.contains(c));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_built_in_script_has_a_step() {
        let has_steps = |play: &Play| matches!(play, Play::Always(script) if !script.is_empty());
        assert!(Scripts::default().0.values().all(has_steps));
    }

    #[test]
    fn a_script_is_named_in_the_prompt_and_the_last_marker_counts() {
        let scripts = Scripts::default().with("mine", vec![Step::Text("a".into())]);
        let found = scripts.asked_for("do SCN=write_shell, no: SCN=mine. Now").unwrap();
        assert_eq!(found.0, "mine");
        let found = scripts.asked_for("do SCN=write_shell\nno: \"SCN=mine\"").unwrap();
        assert_eq!(found, ("mine".to_owned(), vec![Step::Text("a".into())]));
        assert_eq!(scripts.asked_for("nothing"), None);
    }

    #[test]
    fn a_script_in_the_prompt_comes_back_as_it_was() {
        let script: Script = serde_json::from_value(json!([
            { "write": { "path": "a/ö.txt", "content": "x\n" } },
            { "think": { "text": "hm", "then": { "text_json": { "a": [1, 2] } } } },
            { "status": { "code": 429, "retry_after": 1 } },
            "hang_mid",
        ]))
        .unwrap();
        let prompt = format!("please {} now", inline(&script));
        assert_eq!(Scripts::default().asked_for(&prompt), Some(("(inline)".to_owned(), script)));
    }

    #[test]
    fn what_a_prompt_says_chooses_among_the_scripts_of_a_name() {
        let says = |text: &str| vec![Step::Text(text.into())];
        let scripts = Scripts::default().with("both", [("role plan", says("a")), ("role do", says("b"))]);
        assert_eq!(scripts.asked_for("SCN=both role do").unwrap().1, says("b"));
        let json = serde_json::to_vec(&json!({"role do": [{"text": "c"}]})).unwrap();
        let inline = format!("{INLINE}{} role do", Base64Unpadded::encode_string(&json));
        assert_eq!(scripts.asked_for(&inline).unwrap().1, says("c"));
        for prompt in ["SCN=both", "SCN=both role plan, role do"] {
            assert!(matches!(scripts.asked_for(prompt).unwrap().1[0], Step::Status { code: 400, .. }), "{prompt}");
        }
    }

    #[test]
    fn a_marker_that_means_nothing_is_refused_out_loud() {
        for prompt in ["SCN=no_such_thing", "SCRIPT=!!", "SCRIPT=e30"] {
            let (_, script) = Scripts::default().asked_for(prompt).unwrap();
            assert!(matches!(script[0], Step::Status { code: 400, .. }), "{prompt}");
        }
    }
}
