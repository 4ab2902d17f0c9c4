//! The real agents, where `cargo xtask agents` has installed them, do what the scripted model tells them.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

use scripted_model::agents::{self, Agent};
use scripted_model::home::{self, Setup};
use scripted_model::script::{Step, inline};
use scripted_model::{Options, Server};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The prompt carries its script, so the whole way is taken: from base64 to a file on disk.
fn prompt() -> String {
    let write = Step::Write { path: "a.txt".into(), content: "one\n".into() };
    let shell = Step::Shell { command: "cat a.txt a.txt > b.txt".into() };
    inline(&[write, shell, Step::Text("That was {step} calls.".into())])
}

/// One turn in a repository of its own; its files `a.txt` and `b.txt`, and all it printed.
fn turn(agent: Agent, program: &Path, base: &Path) -> (String, String, String) {
    let server = Server::start(Options { key: Some("k".into()), ..Options::default() }).unwrap();
    let setup = Setup { port: server.port(), key: "k", asks: false };
    let env = home::furnish(agent, &base.join("home"), &setup).unwrap();
    let tree = base.join("tree");
    assert!(Command::new("git").args(["init", "--quiet"]).arg(&tree).status().unwrap().success());
    let is_script = program.extension().is_some();
    let mut command = Command::new(if is_script { Path::new("node") } else { program });
    command.args(is_script.then_some(program)).args(home::one_shot(agent, &prompt()));
    command.current_dir(&tree).env_clear().envs(env).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    if agent == Agent::Opencode {
        stdin.write_all(prompt().as_bytes()).unwrap();
    }
    drop(stdin);
    let printed = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let read = |name: &str| fs::read_to_string(tree.join(name)).unwrap_or_default();
    (read("a.txt"), read("b.txt"), printed)
}

fn check(agent: Agent) {
    let Some(program) = agents::needed(agent) else { return };
    let base: PathBuf = std::env::temp_dir().join(format!("scripted-model-{}-{}", agent.name(), std::process::id()));
    fs::create_dir_all(base.join("tree")).unwrap();
    let (a, b, printed) = turn(agent, &program, &base);
    assert_eq!((a.as_str(), b.as_str()), ("one\n", "one\none\n"), "{printed}");
    assert!(printed.contains("That was 2 calls."), "{printed}");
    fs::remove_dir_all(&base).unwrap();
}

#[test]
fn codex_follows_a_script() {
    check(Agent::Codex);
}

#[test]
fn claude_follows_a_script() {
    check(Agent::Claude);
}

#[test]
fn gemini_follows_a_script() {
    check(Agent::Gemini);
}

#[test]
fn opencode_follows_a_script() {
    check(Agent::Opencode);
}
