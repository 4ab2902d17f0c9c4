//! A handshake with an agent that speaks ACP, outside of any run: it is started in a workspace at HEAD, confined as it would
//! be for a turn, and asked for a session and nothing else.

use crate::agent::{self, Greeted, Greeter};
use crate::context::scratch::Scratch;
use crate::machine::execute::{Call, command};
use crate::machine::redactor;
use crate::machine::trial::{AtHead, at_head};
use crate::process::{self, Cancel, End, Limits, Said, confined};
use crate::{Context, Error, Result};
use contract::session::ErrorKind;
use contract::work::ShellRight;
use contract::{AgentConfig, Config, RepoPath};
use serde::Serialize;
use session::Exit;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store::Layout;

/// Kept of what the agent prints besides its messages.
const OUTPUT_BYTES: u64 = 256 << 10;

/// The port of name servers.
const NAMES: u16 = 53;

/// What came of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Handshake {
    /// What the agent calls itself, with its version.
    pub agent: Option<String>,
    /// The model that it chose.
    pub model: Option<String>,
    /// The ways to sign in that it offers.
    pub ways_to_sign_in: Vec<String>,
    /// Hosts that it tried to reach and may not, as `host:port`.
    pub refused_hosts: Vec<String>,
    /// What kept it from opening a session.
    pub problem: Option<HandshakeProblem>,
}

/// What keeps an agent from working, told apart by what a person has to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "message", rename_all = "snake_case")]
pub enum HandshakeProblem {
    /// There is no such program.
    NotInstalled(String),
    /// It does not start, or ends before it has opened a session.
    NotStarted(String),
    /// It wants a sign-in, or a key that is not there.
    NotSignedIn(String),
    /// It does not answer in time.
    TimedOut(String),
    /// It does not speak the protocol.
    Protocol(String),
}

impl HandshakeProblem {
    /// For people.
    pub fn message(&self) -> &str {
        use HandshakeProblem::{NotInstalled, NotSignedIn, NotStarted, Protocol, TimedOut};
        let (NotInstalled(text) | NotStarted(text) | NotSignedIn(text) | TimedOut(text) | Protocol(text)) = self;
        text
    }
}

impl Handshake {
    fn failed(problem: HandshakeProblem) -> Handshake {
        Handshake { problem: Some(problem), ..Handshake::default() }
    }
}

/// Greets an agent of type `acp`. An error means that norma itself could not; what the agent does is in the answer.
pub fn handshake(context: &Context, config: &Config, agent: &AgentConfig, patience: Duration) -> Result<Handshake> {
    let scratch = Scratch::new("handshake")?;
    // Nothing is made where norma was never initialized.
    let kept = match context.layout.exists() {
        true => context.layout.clone(),
        false => Layout::new(&context.layout.root, Some(&scratch.0.join("state"))),
    };
    let AtHead { objects, stand, tools } = &AtHead::new(context, &kept, config)?;
    let in_tree = |path: &RepoPath| {
        let entry = objects.tree_entry(stand.tree, path.as_str().as_bytes()).ok().flatten();
        entry.is_some_and(|(mode, _)| mode & 0o170_000 == 0o100_000)
    };
    let Some(program) = find_program(context, agent, in_tree) else {
        let message = format!("{:?} is not an executable file here", agent.program());
        return Ok(Handshake::failed(HandshakeProblem::NotInstalled(message)));
    };
    let program = agent::program(&program);
    let redactor = Arc::new(redactor(context));
    let greeter = match Greeter::new(context, config, agent, &scratch.0, &tools.home, &redactor)? {
        Ok(greeter) => greeter,
        Err(why) => return Ok(Handshake::failed(HandshakeProblem::NotSignedIn(why))),
    };
    let scene = at_head(context, config, stand, tools);
    let refused = |why: String| Error::environment(why, "what is missing: norma doctor");
    let root = &context.layout.root;
    let extra = greeter.extra(&program, agent);
    let policy = scene.agent(agent, (root, &program), extra, ShellRight::Never).map_err(refused)?;
    let args = greeter.args().iter().map(OsString::from).collect();
    let call = Call { program, args, cwd: root.clone() };
    let ready = confined::get_ready(&context.sandbox, &policy, &command(&call).map_err(refused)?);
    let mut ready = ready.map_err(|error| refused(error.to_string()))?;
    let cancel = Cancel::new().map_err(|source| Error::io("watch", &call.program, source))?;
    let (mut greeting, answering) = greeter.begin(ready.take_door(), cancel.clone())?;
    let limits = Limits { wall: patience, idle: None, output_bytes_max: OUTPUT_BYTES, clock: None };
    let finished = ready.go(Said::Talk(&mut greeting), limits, &cancel);
    let finished = finished.map_err(|error| refused(error.to_string()))?;
    drop(answering);
    let attempts = finished.report.iter().flat_map(|report| &report.network);
    // Asking the machine's name server, which is out of reach, says nothing of whom was to be reached.
    let refused = attempts.filter(|attempt| !attempt.verdict.is_allowed() && attempt.port != NAMES);
    let refused = refused.map(|it| format!("{}:{}", it.host, it.port));
    let refused_hosts = refused.collect::<BTreeSet<_>>().into_iter().collect();
    let stderr = redactor.redact(&finished.outcome.stderr.bytes).bytes.into_owned();
    let (exit, end) = (exit(&finished.outcome.end), &finished.outcome.end);
    let Greeted { agent, model, ways_to_sign_in, is_signing_in, error } = greeting.end(exit);
    let problem = error.map(|error| match (end, is_signing_in) {
        (End::WallDeadline, true) => {
            let ways = ways_to_sign_in.join(", ");
            HandshakeProblem::NotSignedIn(format!("it asks for a sign-in (it offers {ways})"))
        }
        _ => problem(error, end, session::cause(&stderr), patience),
    });
    Ok(Handshake { agent, model, ways_to_sign_in, refused_hosts, problem })
}

/// The program of an agent: of the tree, or of the machine.
fn find_program(context: &Context, agent: &AgentConfig, in_tree: impl Fn(&RepoPath) -> bool) -> Option<PathBuf> {
    let (program, root) = (agent.program(), &context.layout.root);
    if program.contains('/') && !program.starts_with('/') {
        let path = RepoPath::parse(program).ok().filter(in_tree)?;
        return Some(root.join(path.as_str()));
    }
    let path = context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    process::resolve(program, &path, root)
}

fn exit(end: &End) -> Exit {
    match end {
        End::Exited(code) => Exit::Code(*code),
        End::Signaled(signal) => Exit::Signal(*signal),
        _ => Exit::Killed,
    }
}

fn problem(
    error: contract::session::SessionError,
    end: &End,
    cause: Option<String>,
    patience: Duration,
) -> HandshakeProblem {
    let because = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
    match (end, error.kind) {
        (_, ErrorKind::Auth) => HandshakeProblem::NotSignedIn(error.message),
        (End::NotStarted(why), _) => HandshakeProblem::NotStarted(why.clone()),
        (End::WallDeadline, _) => {
            HandshakeProblem::TimedOut(format!("it opened no session within {} s{because}", patience.as_secs()))
        }
        (End::Exited(_) | End::Signaled(_) | End::LimitReached(_), _) => {
            let error = cause.map_or_else(|| error.clone(), |cause| agent::caused(error.clone(), &cause));
            HandshakeProblem::NotStarted(error.message)
        }
        _ => HandshakeProblem::Protocol(format!("{}{because}", error.message)),
    }
}
