//! One recording: a world with a repository, a home and a model, and the conversation with an agent in it.

use crate::Outcome;
use crate::scenario::Scenario;
use crate::talk::{self, Reaction};
use scripted_model::agents::Agent;
use scripted_model::home::{self, Setup};
use scripted_model::{Options, Server};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The key of all recordings.
const KEY: &str = "dummy-key";
/// How long after the model was asked a turn is cancelled: long enough for the stream or the tool to have begun.
const BEFORE_CANCEL: Duration = Duration::from_millis(2500);
/// How long a turn may take. opencode takes more than a minute to give a failing model up; an agent that never does is
/// cancelled then, and the transcript shows how that looks.
pub(crate) const TURN_MAX: Duration = Duration::from_secs(120);
/// And how long an agent may take to leave after that.
const LEAVE_MAX: Duration = Duration::from_secs(8);
/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Where an agent is recorded.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) program: PathBuf,
    pub(crate) base: PathBuf,
    pub(crate) server: Server,
    env: Vec<(&'static str, String)>,
}

impl World {
    pub(crate) fn make(agent: Agent, program: &Path, scenario: &Scenario) -> Outcome<Self> {
        let base = std::env::temp_dir().join(format!("record-{}-{}", agent.name(), std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(base.join("tree"))?;
        let server = Server::start(Options { key: Some(KEY.to_owned()), ..Options::default() })?;
        let setup = Setup { port: server.port(), key: KEY, asks: scenario.permission.is_some() };
        let env = home::furnish(agent, &base.join("home"), &setup)?;
        let world = Self { agent, program: program.to_owned(), base, server, env };
        world.make_repository()?;
        Ok(world)
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.base.join("tree")
    }

    /// What the agent left in the repository.
    pub(crate) fn files(&self) -> Outcome<Vec<String>> {
        let names = std::fs::read_dir(self.tree())?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Result<Vec<String>, std::io::Error> = names.collect();
        Ok(names?.into_iter().filter(|name| name != ".git").collect())
    }

    fn make_repository(&self) -> Outcome {
        let ended = Command::new("git").args(["init", "--quiet"]).arg(self.tree()).status()?;
        if ended.success() { Ok(()) } else { Err("could not make a repository".into()) }
    }

    /// The agent with these arguments, in the repository and with nothing of this process's environment.
    pub(crate) fn command(&self, args: &[String]) -> Command {
        // A script is started by its interpreter, which need not be where the script believes it to be.
        let is_script = self.program.extension().is_some();
        let mut command = Command::new(if is_script { Path::new("node") } else { &self.program });
        if is_script {
            command.arg(&self.program);
        }
        command.args(args).current_dir(self.tree()).env_clear().envs(self.env.iter().cloned());
        command.process_group(0);
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// Talks to the agent until its turn is over, and answers all that was said.
pub(crate) fn run(world: &World, scenario: &Scenario) -> Outcome<Vec<Value>> {
    let mut talk = talk::with(world, scenario);
    let log = std::fs::File::create(world.base.join("stderr"))?;
    let mut command = world.command(&talk.args());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let heard = listen(&mut child)?;
    let mut stdin = child.stdin.take();
    let mut lines = Vec::new();
    let mut tell = |messages: Vec<Value>, lines: &mut Vec<Value>| -> Outcome {
        for message in messages {
            writeln!(stdin.as_mut().ok_or("standard input is closed")?, "{message}")?;
            lines.push(json!({ "dir": "in", "line": message }));
        }
        Ok(())
    };
    tell(talk.open(), &mut lines)?;
    let mut turns_left = scenario.turns;
    let mut clock = Clock { started: Instant::now(), asked: None, is_cancelled: false };
    while clock.started.elapsed() < TURN_MAX + LEAVE_MAX {
        if clock.is_time_to_cancel(world, scenario) {
            tell(talk.cancel(), &mut lines)?;
        }
        match heard.recv_timeout(TICK) {
            Ok(line) => {
                let Reaction { say, is_over } = talk.hear(&line);
                lines.push(json!({ "dir": "out", "line": line }));
                tell(say, &mut lines)?;
                turns_left -= usize::from(is_over);
                match (is_over, turns_left) {
                    (true, 0) => break,
                    (true, _) => tell(talk.turn(), &mut lines)?,
                    (false, _) => {}
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(stdin);
    let code = leave(&mut child)?;
    lines.extend(heard.try_iter().map(|line| json!({ "dir": "out", "line": line })));
    lines.push(json!({ "dir": "exit", "line": code }));
    Ok(lines)
}

/// When a turn is to be stopped.
struct Clock {
    started: Instant,
    /// When the model was first asked.
    asked: Option<Instant>,
    is_cancelled: bool,
}

impl Clock {
    /// True once.
    fn is_time_to_cancel(&mut self, world: &World, scenario: &Scenario) -> bool {
        if self.asked.is_none() && world.server.requests().iter().any(|line| line["script"].is_string()) {
            self.asked = Some(Instant::now());
        }
        let is_due = scenario.is_cancelled && self.asked.is_some_and(|asked| asked.elapsed() > BEFORE_CANCEL);
        let is_late = self.started.elapsed() > TURN_MAX;
        let is_now = !self.is_cancelled && (is_due || is_late);
        self.is_cancelled |= is_now;
        is_now
    }
}

/// The agent's lines as they come, parsed where they can be.
pub(crate) fn listen(child: &mut Child) -> Outcome<Receiver<Value>> {
    let stdout = child.stdout.take().ok_or("there is no standard output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// Waits for the agent to end, and makes it if it does not; its exit code, null if a signal ended it.
pub(crate) fn leave(child: &mut Child) -> Outcome<Option<i32>> {
    let asked = Instant::now();
    while asked.elapsed() < LEAVE_MAX {
        if let Some(ended) = child.try_wait()? {
            // What it wrote last is still on its way through the thread that listens.
            std::thread::sleep(TICK);
            return Ok(ended.code());
        }
        std::thread::sleep(TICK);
    }
    Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
    Ok(child.wait()?.code())
}
