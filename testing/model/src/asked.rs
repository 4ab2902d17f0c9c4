//! What a request says, whatever interface it came by: the conversation so far, the tools on offer, and where the agent
//! works. Each interface reads its own form into this.

use crate::api::Api;
use crate::script::{Script, Scripts};
use serde_json::Value;

/// A request, understood.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) api: Api,
    pub(crate) model: String,
    /// Whether the answer is to be a stream of events.
    pub(crate) streamed: bool,
    /// Whether the interface was asked for JSON in place of prose.
    pub(crate) wants_json: bool,
    /// The conversation in order, as far as it selects a step.
    pub(crate) said: Vec<Said>,
    pub(crate) tools: Vec<Tool>,
    /// The directory the agent works in, as its prompt tells the model.
    pub(crate) cwd: Option<String>,
    /// How long the request is: what it is said to have cost.
    pub(crate) bytes: usize,
}

/// Something in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A text of the user's side; agents put texts of their own there too.
    User(String),
    /// A tool that the model called.
    Call,
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// It takes a text as it is, not JSON.
    pub(crate) is_freeform: bool,
}

/// Which script answers, and which step of it is due.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Due {
    pub(crate) name: String,
    pub(crate) script: Script,
    pub(crate) step: usize,
}

impl Asked {
    /// With its length, which only the request itself knows.
    pub(crate) fn with_length(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The tool of this name, if it is on offer.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The last marker counts, and the calls since then: a later turn of a conversation starts its own script.
    pub(crate) fn due(&self, scripts: &Scripts) -> Option<Due> {
        let find = |said: &Said| match said {
            Said::User(text) => scripts.asked_for(text),
            Said::Call => None,
        };
        let (at, (name, script)) = self.said.iter().enumerate().rev().find_map(|(at, said)| Some((at, find(said)?)))?;
        let step = self.said[at..].iter().filter(|said| **said == Said::Call).count();
        Some(Due { name, script, step })
    }

    /// Fills a text's placeholders in; braces that are none of them stay.
    pub(crate) fn fill(&self, text: &str, step: usize) -> String {
        let text = text
            .replace("{cwd}", self.cwd.as_deref().unwrap_or_default())
            .replace("{model}", &self.model)
            .replace("{step}", &step.to_string());
        let mut parts = text.split("{after:");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (label, rest) = part.split_once('}').unwrap_or((part, ""));
            filled += &self.after(label);
            filled += rest;
        }
        filled
    }

    /// The same in every text of a document.
    pub(crate) fn fill_json(&self, value: &Value, step: usize) -> Value {
        match value {
            Value::String(text) => self.fill(text, step).into(),
            Value::Array(values) => values.iter().map(|value| self.fill_json(value, step)).collect(),
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), self.fill_json(value, step))).collect(),
            other => other.clone(),
        }
    }

    /// The word that follows a label in the newest text that has it, without what JSON puts around words.
    fn after(&self, label: &str) -> String {
        let texts = self.said.iter().rev().filter_map(|said| match said {
            Said::User(text) => Some(text),
            Said::Call => None,
        });
        let found = texts.into_iter().find_map(|text| text.split_once(label));
        let rest = found.map_or("", |(_, rest)| rest);
        let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "\"':=".contains(c));
        let end = rest.find(|c: char| c.is_whitespace() || "\"',}])".contains(c));
        rest[..end.unwrap_or(rest.len())].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Step;

    fn asked(said: Vec<Said>) -> Asked {
        Asked {
            api: Api::Chat,
            model: "m".into(),
            streamed: true,
            wants_json: false,
            said,
            tools: Vec::new(),
            cwd: Some("/src/tree".into()),
            bytes: 0,
        }
    }

    #[test]
    fn the_step_is_the_number_of_calls_since_the_last_marker() {
        let scripts = Scripts::default().with("a", Script::new()).with("b", vec![Step::Hang]);
        let user = |text: &str| Said::User(text.into());
        assert_eq!(asked(vec![user("hello"), Said::Call]).due(&scripts), None);
        let first = asked(vec![user("SCN=a"), Said::Call, user("go on"), Said::Call]).due(&scripts).unwrap();
        assert_eq!((first.name.as_str(), first.step), ("a", 2));
        let second = asked(vec![user("SCN=a"), Said::Call, user("SCN=b")]).due(&scripts).unwrap();
        assert_eq!(second, Due { name: "b".into(), script: vec![Step::Hang], step: 0 });
    }

    #[test]
    fn a_placeholder_is_filled_from_the_request_and_other_braces_stay() {
        let asked = asked(vec![Said::User("the request: {\"run_id\": \"r-7\", \"index\": 3}".into())]);
        assert_eq!(asked.fill("{cwd}/a by {model} at {step} {x}", 2), "/src/tree/a by m at 2 {x}");
        assert_eq!(asked.fill("{after:run_id} {after:index} {after:nowhere}.", 0), "r-7 3 .");
        assert_eq!(asked.fill_json(&serde_json::json!({"a": ["{step}", 1]}), 5), serde_json::json!({"a": ["5", 1]}));
    }
}
