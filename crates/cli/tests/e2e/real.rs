//! The real agent programs under contract: norma starts codex, claude, gemini and opencode as a user would have them, and a
//! scripted model answers in place of their providers. `cargo xtask agents` installs them; where one is not there, its
//! tests are not run, and in CI they fail.

mod acp;
pub(crate) mod approvals;
mod budgets;
mod contracts;
mod day1;
mod form;
mod graph;
mod hostile;
mod instructions;
mod kills;
mod loops;
mod mixed;
mod stops;
mod troubles;

use crate::environment::TestEnvironment;
pub(crate) use scripted_model::agents::Agent;
use scripted_model::{Options, Play, Scripts, Server, Step, agents};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The key that the provider wants and that no agent may ever see.
const KEY: &str = "sk-real-key-0123456789abcdef";

/// A repository with real agents in its configuration, and the model that they talk to.
pub(crate) struct Lab {
    pub(crate) env: TestEnvironment,
    pub(crate) server: Server,
}

/// A test for each agent of a check that takes one, so that each is found and timed by its name.
macro_rules! for_each_agent {
    ($($check:ident),+) => { $(for_each_agent!(@ $check, true; codex Codex, claude Claude, gemini Gemini, opencode Opencode);)+ };
    (@ $check:ident, $runs:expr; $($name:ident $agent:ident),+) => {
        mod $check {
            $(
                #[test]
                fn $name() {
                    if crate::real::runs(crate::real::Agent::$agent, $runs) {
                        super::$check(crate::real::Agent::$agent);
                    }
                }
            )+
        }
    };
}
pub(crate) use for_each_agent;

/// The same of a check that only the protocol decides. Gemini and opencode speak the same one, and opencode takes longest to
/// start: it is left to the long series.
macro_rules! for_each_protocol {
    ($($check:ident),+) => { $(crate::real::for_each_agent!(@ $check, crate::load_server::is_long();
        codex Codex, claude Claude, gemini Gemini, opencode Opencode);)+ };
}
pub(crate) use for_each_protocol;

/// Whether a check is run with an agent; where it is not, that is told.
pub(crate) fn runs(agent: Agent, all: bool) -> bool {
    let runs = all || agent != Agent::Opencode;
    if !runs {
        not_run::because("opencode speaks the protocol that gemini does; `cargo xtask soak agents` runs it, too");
    }
    runs
}

/// A lab with these agents and one script, called `it`; none if one of them is not installed.
pub(crate) fn lab(agents: &[Agent], it: impl Into<Play>) -> Option<Lab> {
    let mut configured = json!({});
    let scripts = Scripts::default().with("it", it);
    let server = Server::start(Options { key: Some(KEY.to_owned()), scripts, ..Options::default() }).unwrap();
    for agent in agents {
        let program = agents::needed(*agent)?;
        let base_url = format!("http://127.0.0.1:{}", server.port());
        configured[agent.name()] =
            json!({"type": agent.name(), "model": model(*agent), "base_url": base_url, "bin": program});
    }
    let mut env = TestEnvironment::initialized();
    for agent in agents {
        env.env.insert(key_variable(*agent).to_owned(), KEY.to_owned());
    }
    env.configure(|config| config["agents"] = configured);
    Some(Lab { env, server })
}

/// One that each agent knows, and that has a price.
fn model(agent: Agent) -> &'static str {
    match agent {
        Agent::Codex | Agent::Opencode => "gpt-5.5",
        Agent::Claude => "claude-sonnet-4-5",
        Agent::Gemini => "gemini-2.5-flash",
    }
}

fn key_variable(agent: Agent) -> &'static str {
    match agent {
        Agent::Codex | Agent::Opencode => "OPENAI_API_KEY",
        Agent::Claude => "ANTHROPIC_API_KEY",
        Agent::Gemini => "GEMINI_API_KEY",
    }
}

impl Lab {
    /// The same configuration, changed.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut Value)) {
        let before: Value = serde_json::from_str(&self.env.read(".norma/config.json")).unwrap();
        self.env.configure(|config| {
            *config = before;
            change(config);
        });
    }

    /// The calls for an answer that reached the model, as it recorded them; side questions are not among them.
    pub(crate) fn calls(&self) -> Vec<Value> {
        self.server.requests().into_iter().filter(|request| request["script"].is_string()).collect()
    }

    /// What was kept of the only turn of the newest run.
    #[track_caller]
    pub(crate) fn step(&self) -> PathBuf {
        self.env.run_dir().join("steps/001-worker")
    }

    /// The events of the newest run of this type.
    #[track_caller]
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.env.events().into_iter().filter(|event| event["type"] == kind);
        events.map(|mut event| event["payload"].take()).collect()
    }

    /// What an agent said and did in the newest run, of one kind.
    #[track_caller]
    pub(crate) fn agent_events(&self, kind: &str) -> Vec<Value> {
        let told = self.events("agent_event").into_iter().map(|mut told| told["event"].take());
        told.filter(|event| event["type"] == kind).collect()
    }
}

pub(crate) fn write(path: &str, content: &str) -> Step {
    Step::Write { path: path.to_owned(), content: content.to_owned() }
}

pub(crate) fn shell(command: impl Into<String>) -> Step {
    Step::Shell { command: command.into() }
}

/// An answer in norma's form, with more in it. Agents that have a tool for it say something afterwards.
pub(crate) fn answer(more: &Value) -> [Step; 2] {
    let mut answer =
        json!({"version": 1, "status": "ok", "summary": "did it", "files": [], "next_actions": [], "errors": []});
    for (name, value) in more.as_object().unwrap() {
        answer[name] = value.clone();
    }
    [Step::Structured(answer), Step::Text("Done.".to_owned())]
}

/// Steps, and then the plain answer.
pub(crate) fn then_answer(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    steps.into_iter().chain(answer(&json!({}))).collect()
}

/// A work item for an agent that follows the script `it`, changed by `change`.
pub(crate) fn item(id: &str, agent: Agent, change: &Value) -> Value {
    let mut item = json!({"id": id, "agent_id": agent.name(), "description": format!("SCN=it {id}")});
    for (name, value) in change.as_object().unwrap() {
        item[name] = value.clone();
    }
    item
}

/// Every file below a directory that holds these bytes.
pub(crate) fn files_with(dir: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if meta.is_file() && std::fs::read(&path).unwrap().windows(bytes.len()).any(|part| part == bytes) {
            found.push(path);
        }
    }
    found
}
