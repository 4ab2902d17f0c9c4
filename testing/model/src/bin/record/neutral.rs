//! What makes a transcript fit to keep: nothing of the machine it was recorded on, and no list of hundreds of tools.

use crate::session::World;
use scripted_model::agents;
use serde_json::{Value, json};

/// Lists longer than this are cut to their beginning: commands, tools and models, which no parser needs all of.
const LIST_MAX: usize = 10;
const LIST_KEPT: usize = 3;
/// Texts longer than this are cut: system prompts and the like.
const TEXT_CHARS_MAX: usize = 1500;

/// Where codex says the machine's name, and what is written there: a name may be a part of any other word.
const HOST_KEY: &str = "serverName";
const HOST: &str = "host";

/// What is written in place of what.
pub(crate) struct Neutral {
    replaced: Vec<(String, &'static str)>,
}

impl Neutral {
    pub(crate) fn new(world: &World) -> Self {
        let at = |below: &str| world.base.join(below).to_string_lossy().into_owned();
        let slug = |path: &str| path.replace(['/', '.', '_'], "-");
        let replaced = vec![
            (slug(&at("tree")), "-src-tree"),
            (at("tree"), "/src/tree"),
            (at("home"), "/home/agent"),
            (at(""), "/"),
            (agents::place().to_string_lossy().into_owned(), "/opt/agents"),
            (format!("127.0.0.1:{}", world.server.port()), "127.0.0.1:8765"),
        ];
        Self { replaced }
    }

    pub(crate) fn line(&self, line: &Value) -> Value {
        match line {
            Value::String(text) => self.text(text).into(),
            Value::Array(values) => {
                let kept = if values.len() > LIST_MAX { LIST_KEPT } else { values.len() };
                values[..kept].iter().map(|value| self.line(value)).collect()
            }
            Value::Object(map) => {
                let field = |(key, value): (&String, &Value)| match key.as_str() {
                    HOST_KEY => (key.clone(), HOST.into()),
                    _ => (self.text(key), self.line(value)),
                };
                Value::Object(map.iter().map(field).collect())
            }
            other => json!(other),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.replaced {
            text = text.replace(from, to);
        }
        if text.chars().count() > TEXT_CHARS_MAX {
            text = text.chars().take(TEXT_CHARS_MAX).chain(['…']).collect();
        }
        text
    }
}
