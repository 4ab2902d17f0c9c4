//! How a command line is started for a brief: arguments, environment and the files below its home. Nothing is
//! inherited; the runner clears the environment and adds what a sandbox needs. Telemetry, updates and whatever else
//! calls home are always off, a repository's own settings are not read wherever that can be had, and the rights
//! become settings, so that the model is not offered what it may not use.

mod acp;
mod claude;
pub(crate) mod codex;
mod gemini;
mod opencode;

pub use acp::ModelPlace;

use crate::brief::{Brief, Kind, Mode};
use contract::work::ShellRight;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The variable with the key, for the command lines that can be told a name.
const KEY_VARIABLE: &str = "NORMA_MODEL_KEY";

/// How often a command line tries again by itself. Few: norma has deadlines of its own, and waits for limits better.
const RETRIES_MAX: u32 = 2;

/// What a program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `codex app-server`.
    CodexAppServer,
    /// `claude` with stream-json in both directions.
    ClaudeStream,
    /// The Agent Client Protocol.
    Acp,
    /// Events on stdout, the prompt on stdin.
    Events,
}

impl Protocol {
    /// Its word in evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::CodexAppServer => "codex-app-server",
            Protocol::ClaudeStream => "claude-stream-json",
            Protocol::Acp => "acp",
            Protocol::Events => "events",
        }
    }
}

/// How to start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// After the program.
    pub args: Vec<String>,
    /// All that it needs besides what the sandbox gives to every program; `HOME` is among it.
    pub env: BTreeMap<String, String>,
    /// What to put below its home, for its owner only, before it starts: relative path and content. No key is in
    /// any of them.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it will speak.
    pub protocol: Protocol,
    /// What was configured, as evidence. No key is in it.
    pub configured: Value,
}

impl Launch {
    fn new(protocol: Protocol, home: &str) -> Launch {
        let env = BTreeMap::from([("HOME".to_owned(), home.to_owned())]);
        Launch { args: Vec::new(), env, files: Vec::new(), protocol, configured: Value::Null }
    }

    fn arg(&mut self, arg: &str) {
        self.args.push(arg.to_owned());
    }

    fn args(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
    }

    /// An option, if there is something to say with it.
    fn option(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.args(&[name, value]);
        }
    }

    fn set(&mut self, variable: &str, value: &str) {
        self.env.insert(variable.to_owned(), value.to_owned());
    }

    fn set_each(&mut self, variables: &[(&str, &str)]) {
        for (variable, value) in variables {
            self.set(variable, value);
        }
    }

    fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push((path.to_owned(), content.into()));
    }
}

/// How to start an agent. [`Kind::Acp`] has only the one form, whatever the mode.
pub fn launch(brief: &Brief<'_>, mode: Mode) -> Launch {
    let mut launch = match brief.kind {
        Kind::Codex => codex::launch(brief, mode),
        Kind::Claude => claude::launch(brief, mode),
        Kind::Gemini => gemini::launch(brief, mode),
        Kind::Opencode => opencode::launch(brief, mode),
        Kind::Acp => {
            let mut launch = Launch::new(Protocol::Acp, brief.home);
            launch.args.extend_from_slice(brief.args);
            launch
        }
    };
    let settings = std::mem::take(&mut launch.configured);
    launch.configured = json!({
        "agent": brief.kind.as_str(),
        "protocol": launch.protocol.as_str(),
        "model": brief.model,
        "effort": brief.effort,
        "base_url": brief.base_url,
        "cwd": brief.cwd,
        "extra_write": brief.extra_write,
        "resume": brief.resume,
        "node_tools": brief.tools.is_some(),
        "output_schema": brief.output_schema.is_some(),
        "rights": {
            "write": brief.rights.write,
            "shell": brief.rights.shell,
            "network": brief.rights.network,
            "mcp_tools": brief.rights.mcp_tools,
        },
        "args": launch.args,
        "settings": settings,
    });
    launch
}

/// Whether the model is offered a shell: never without the right, and one-shot not if it would have to ask.
fn has_shell(shell: ShellRight, mode: Mode) -> bool {
    match shell {
        ShellRight::Deny => false,
        ShellRight::Never => true,
        ShellRight::OnRequest | ShellRight::Untrusted => mode == Mode::Live,
    }
}

#[cfg(test)]
mod tests;
