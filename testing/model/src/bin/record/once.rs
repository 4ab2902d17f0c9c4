//! The other way to use an agent: one prompt, one turn, no questions. Recorded for what these modes print.

use crate::Outcome;
use crate::scenario::Scenario;
use crate::session::{World, leave, listen};
use crate::talk;
use scripted_model::agents::Agent;
use scripted_model::home;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How long a turn may take before the agent is ended.
const TURN_MAX: Duration = Duration::from_secs(25);

/// Runs one turn and answers what was printed.
pub(crate) fn run(world: &World, scenario: &Scenario) -> Outcome<Vec<Value>> {
    let prompt = talk::prompt(scenario);
    let log = std::fs::File::create(world.base.join("stderr"))?;
    let mut command = world.command(&args(world.agent, &prompt));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let mut stdin = child.stdin.take().ok_or("there is no standard input")?;
    if world.agent == Agent::Opencode {
        // As an argument it would reach the model in quotation marks.
        stdin.write_all(prompt.as_bytes())?;
    }
    drop(stdin);
    let heard = listen(&mut child)?;
    let started = Instant::now();
    let mut lines = Vec::new();
    while started.elapsed() < TURN_MAX {
        match heard.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => lines.push(json!({ "dir": "out", "line": line })),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    lines.push(json!({ "dir": "exit", "line": leave(&mut child)? }));
    Ok(lines)
}

fn args(agent: Agent, prompt: &str) -> Vec<String> {
    let model = home::model(agent);
    let args: Vec<&str> = match agent {
        Agent::Codex => vec!["exec", "--json", "-m", model, "-s", "danger-full-access", prompt],
        Agent::Claude => {
            let edits = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
            let output = ["-p", prompt, "--output-format", "stream-json", "--verbose", "--model", model];
            output.into_iter().chain(edits).collect()
        }
        Agent::Gemini => {
            vec!["-p", prompt, "-m", model, "--output-format", "stream-json", "--approval-mode", "yolo"]
        }
        Agent::Opencode => vec!["run", "--pure", "--format", "json", "-m", model],
    };
    args.into_iter().map(str::to_owned).collect()
}
