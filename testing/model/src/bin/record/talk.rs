//! How one talks to each agent while it works: three protocols, each as a small machine that is told what the agent
//! said and answers what to say next.

mod acp;
mod app_server;
mod stream_json;

use crate::scenario::{self, Scenario};
use crate::session::World;
use scripted_model::agents::Agent;
use serde_json::Value;

/// What follows from a line of the agent's.
#[derive(Debug, Default)]
pub(crate) struct Reaction {
    pub(crate) say: Vec<Value>,
    /// The turn has ended.
    pub(crate) is_over: bool,
}

impl Reaction {
    fn nothing() -> Self {
        Self::default()
    }

    fn say(message: Value) -> Self {
        Self { say: vec![message], is_over: false }
    }

    fn over() -> Self {
        Self { say: Vec::new(), is_over: true }
    }
}

/// One side of a protocol.
pub(crate) trait Talk {
    /// How the agent is started for it.
    fn args(&self) -> Vec<String>;
    /// What is said first.
    fn open(&mut self) -> Vec<Value>;
    /// Takes a line in.
    fn hear(&mut self, line: &Value) -> Reaction;
    /// What starts another turn once one is over.
    fn turn(&mut self) -> Vec<Value>;
    /// What stops a turn.
    fn cancel(&mut self) -> Vec<Value>;
}

/// The protocol that an agent speaks.
pub(crate) fn with(world: &World, scenario: &Scenario) -> Box<dyn Talk> {
    let tree = world.tree().to_string_lossy().into_owned();
    let (prompt, permission) = (prompt(scenario), scenario.permission);
    let schema = scenario.is_structured.then(scenario::schema);
    match world.agent {
        Agent::Codex => Box::new(app_server::AppServer::new(tree, prompt, permission, schema)),
        Agent::Claude => Box::new(stream_json::StreamJson::new(prompt, permission, schema)),
        Agent::Gemini | Agent::Opencode => Box::new(acp::Acp::new(world.agent, tree, prompt, permission)),
    }
}

/// What the user says.
pub(crate) fn prompt(scenario: &Scenario) -> String {
    format!("Please do what the script says. SCN={}", scenario.script)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
