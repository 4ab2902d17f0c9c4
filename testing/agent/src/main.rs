//! An exec agent that does what a script says, for end-to-end tests: `scripted-agent SCRIPT.json`.
//!
//! The script is an object keyed by role; each role has a list of turns, and the n-th invocation of the role plays
//! the n-th of them (the last one repeats). A turn is a list of actions, each a word (`"hang"`) or an object with one
//! key (`{"write": {"path": "plan.md", "content": "…"}}`), done in order. A role without turns does what a good agent
//! would: `plan` leaves a plan, `do` leaves `files/test.log`, `check` passes every criterion on that log, `act`
//! proposes nothing. Unless a turn prints an answer itself, it ends with a good one that names the files it wrote.
//! In texts, `{role}`, `{index}`, `{iteration}`, `{run_id}`, `{repo_root}`, `{run_dir}` and `{step_dir}` are filled in.

mod action;

use serde_json::{Value, json};
use std::error::Error;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What an agent reports when the script itself is wrong: unlike any code a test asks for.
const BAD_SCRIPT: u8 = 99;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// One invocation.
struct Turn {
    /// The request as parsed, and the bytes it came in.
    request: Value,
    raw: Vec<u8>,
    /// Files written below the step directory.
    files: Vec<String>,
    /// Whether an answer was printed.
    answered: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "scripted-agent: {error}");
            ExitCode::from(BAD_SCRIPT)
        }
    }
}

fn run() -> Outcome {
    let path = std::env::args_os().nth(1).ok_or("expected a script")?;
    let script: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let mut raw = Vec::new();
    std::io::stdin().read_to_end(&mut raw)?;
    let mut turn = Turn { request: serde_json::from_slice(&raw)?, raw, files: Vec::new(), answered: false };
    for action in turn.actions(&script)? {
        action::carry_out(&mut turn, &action)?;
    }
    if !turn.answered {
        turn.respond(&json!({}))?;
    }
    Ok(())
}

impl Turn {
    fn text(&self, pointer: &str) -> &str {
        self.request.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn role(&self) -> &str {
        self.text("/step/role")
    }

    fn step_dir(&self) -> PathBuf {
        PathBuf::from(self.text("/paths/step_dir"))
    }

    /// What the script has for this turn.
    fn actions(&self, script: &Value) -> Outcome<Vec<Value>> {
        let Some(turns) = script.get(self.role()) else { return Ok(self.good_actions()) };
        let turns = turns.as_array().ok_or("a role is a list of turns")?;
        let end = format!("-{}", self.role());
        let earlier = self.request.pointer("/context/previous_step_dirs").and_then(Value::as_array);
        let earlier = earlier.into_iter().flatten().filter_map(Value::as_str).filter(|dir| dir.ends_with(&end)).count();
        let turn = turns.get(earlier).or(turns.last()).ok_or("a role needs a turn")?;
        Ok(turn.as_array().ok_or("a turn is a list of actions")?.clone())
    }

    fn good_actions(&self) -> Vec<Value> {
        match self.role() {
            "plan" => vec![json!({"write": {"path": "plan.md", "content": "1. Run the tests.\n"}})],
            "do" => vec![json!({"write": {"path": "files/test.log", "content": "all tests passed\n"}})],
            "check" => vec![json!({"verdict": "PASS"})],
            _ => Vec::new(),
        }
    }

    fn fill_in(&self, text: &str) -> String {
        let number = |pointer: &str| self.request.pointer(pointer).map(ToString::to_string).unwrap_or_default();
        text.replace("{role}", self.role())
            .replace("{index}", &number("/step/index"))
            .replace("{iteration}", &number("/step/iteration"))
            .replace("{run_id}", self.text("/run_id"))
            .replace("{repo_root}", self.text("/paths/repo_root"))
            .replace("{run_dir}", self.text("/paths/run_dir"))
            .replace("{step_dir}", self.text("/paths/step_dir"))
    }

    /// Writes below the step directory.
    fn write(&mut self, path: &str, content: &[u8]) -> Outcome {
        write_file(&self.step_dir().join(path), content)?;
        self.files.push(path.to_owned());
        Ok(())
    }

    /// Prints an answer: a good one, but for what `overrides` says otherwise.
    fn respond(&mut self, overrides: &Value) -> Outcome {
        let summary = format!("{} did its part", self.role());
        let mut answer = json!({"version": 1, "status": "ok", "summary": summary, "files": self.files,
                                "next_actions": [], "errors": []});
        for (name, value) in overrides.as_object().into_iter().flatten() {
            answer[name] = value.clone();
        }
        self.print(format!("{answer}\n").as_bytes())
    }

    fn print(&mut self, bytes: &[u8]) -> Outcome {
        self.answered = true;
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }
}

fn write_file(path: &Path, content: &[u8]) -> Outcome {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    Ok(std::fs::write(path, content)?)
}
