//! The other way to use an agent: one prompt, one turn, no questions. Recorded for what these modes print.

use crate::Outcome;
use crate::scenario::Scenario;
use crate::session::{TURN_MAX, World, leave, listen};
use crate::talk;
use scripted_model::agents::Agent;
use scripted_model::home;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Runs one turn and answers what was printed.
pub(crate) fn run(world: &World, scenario: &Scenario) -> Outcome<Vec<Value>> {
    let prompt = talk::prompt(scenario);
    let log = std::fs::File::create(world.base.join("stderr"))?;
    let mut command = world.command(&home::one_shot(world.agent, &prompt));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let mut stdin = child.stdin.take().ok_or("there is no standard input")?;
    if world.agent == Agent::Opencode {
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
