//! Which of the known agents are on this machine, in which version, and whether they can reach their models. For
//! `norma doctor`; nothing of a run depends on it.

use crate::agent::{Reach, kind_of, reach, unused_address};
use crate::context::Context;
use crate::machine::handshake::{Handshake, HandshakeProblem, handshake};
use crate::process::{self, Cancel, Command, End, Limits};
use contract::{AgentConfig, AgentType, Config, Role};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// A version is one short line.
const VERSION_BYTES: u64 = 4096;

/// What is known of one agent here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    /// As it is configured, or as it is known.
    pub name: String,
    /// Which kind.
    pub kind: AgentType,
    /// Whether the configuration names it.
    pub configured: bool,
    /// The program, if it is there.
    pub program: Option<PathBuf>,
    /// The command that installs it, where one is known.
    pub install: Option<&'static str>,
    /// The command with which a person signs in, where one is known.
    pub sign_in: Option<&'static str>,
    /// What it says about itself.
    pub version: Option<String>,
    /// How it reaches its model, or what a person has to do.
    pub reach: Reach,
    /// An address that the environment has for it and that does not count, and what to do about it.
    pub unused_address: Option<String>,
    /// What a handshake came to, with an agent of type `acp` that is there.
    pub handshake: Option<Handshake>,
}

/// The command lines that need no entry in a configuration.
const KNOWN: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// How long an agent may take to open a session.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(30);

/// Looks for every known agent, and for those that are configured.
pub fn survey(context: &Context, config: &Config) -> Vec<Surveyed> {
    let known = KNOWN.map(str::to_owned);
    let configured = config.agents.iter().filter(|(_, agent)| kind_of(agent).is_some()).map(|(name, _)| name.clone());
    let mut names: Vec<String> = known.into_iter().chain(configured).collect();
    names.sort();
    names.dedup();
    // Most of it is waiting for programs to start.
    std::thread::scope(|scope| {
        let looking: Vec<_> = names
            .iter()
            .filter_map(|name| Some((name, config.agent(name)?)))
            .map(|(name, agent)| scope.spawn(move || look_at(context, config, name, &agent)))
            .collect();
        looking.into_iter().filter_map(|it| it.join().expect("BUG: looking at an agent does not panic")).collect()
    })
}

/// Who could work here, as far as that can be told without starting anything: the known command lines, and the agents of the
/// configuration that fill no role of the loop.
pub fn candidates(context: &Context, config: &Config) -> Vec<Surveyed> {
    let known = KNOWN.map(str::to_owned);
    let is_role = |name: &str| Role::PDCA.iter().any(|role| role.as_str() == name);
    let configured = config.agents.keys().filter(|name| !is_role(name)).cloned();
    let names: BTreeSet<String> = known.into_iter().chain(configured).collect();
    names.iter().filter_map(|name| Some(candidate(context, config, name, &config.agent(name)?))).collect()
}

/// One of them.
fn candidate(context: &Context, config: &Config, name: &str, agent: &AgentConfig) -> Surveyed {
    let path = context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let kind = kind_of(agent);
    Surveyed {
        name: name.to_owned(),
        kind: agent.kind,
        configured: config.agents.contains_key(name),
        program: process::resolve(agent.program(), &path, &context.user.root),
        install: kind.and_then(session::install),
        sign_in: kind.and_then(session::sign_in),
        version: None,
        reach: kind.map_or(Reach::Own, |kind| reach(kind, agent, &context.user_env)),
        unused_address: None,
        handshake: None,
    }
}

/// Looks for one agent; none if it has no interactive session.
pub fn look_at(context: &Context, config: &Config, name: &str, agent: &AgentConfig) -> Option<Surveyed> {
    let kind = kind_of(agent)?;
    let path = context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let program = process::resolve(agent.program(), &path, &context.user.root);
    // The known ones say what they are when they are asked; of any other only its protocol is known.
    let is_acp = agent.kind == AgentType::Acp;
    let version = program.as_deref().filter(|_| !is_acp).and_then(|it| version(context, it));
    let handshake = (is_acp && program.is_some()).then(|| greeted(context, config, agent));
    let version = version.or_else(|| handshake.as_ref()?.agent.clone());
    Some(Surveyed {
        name: name.to_owned(),
        kind: agent.kind,
        configured: config.agents.contains_key(name),
        program,
        install: session::install(kind),
        sign_in: session::sign_in(kind),
        version,
        reach: reach(kind, agent, &context.user_env),
        unused_address: unused_address(kind, agent, &context.user_env),
        handshake,
    })
}

/// A handshake, whatever keeps norma itself from it.
fn greeted(context: &Context, config: &Config, agent: &AgentConfig) -> Handshake {
    handshake(context, config, agent, HANDSHAKE_PATIENCE).unwrap_or_else(|error| {
        let problem = Some(HandshakeProblem::NotStarted(error.to_string()));
        Handshake { problem, ..Handshake::default() }
    })
}

/// What a program says when it is asked for its version, in a home of its own that is gone afterwards.
fn version(context: &Context, program: &Path) -> Option<String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let home = std::env::temp_dir().join(format!("norma-survey-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&home).ok()?;
    let mut env = context.agent_env.clone();
    env.insert("HOME".into(), home.clone().into());
    let limits = Limits { wall: PATIENCE, idle: None, output_bytes_max: VERSION_BYTES, clock: None };
    let args = vec!["--version".into()];
    let command = Command { program: program.to_owned(), args, cwd: home.clone(), env, stdin: Vec::new(), limits };
    let outcome = process::run(&command, &context.supervisor, &Cancel::new().ok()?, &mut |_| {});
    let _ = store::remove_tree(&home);
    let outcome = outcome.ok().filter(|outcome| outcome.end == End::Exited(0))?;
    let text = String::from_utf8_lossy(&outcome.stdout.bytes).into_owned();
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}
