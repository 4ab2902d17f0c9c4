//! The scripted agent by itself: it answers as its script says, and a script that is wrong is told from an agent that
//! fails. That this is an integration test also has cargo build the program together with all tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(script: &Value, request: &Value) -> Output {
    let dir = std::env::temp_dir().join(format!("scripted-agent-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("script.json");
    std::fs::write(&path, script.to_string()).unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_scripted-agent"));
    let mut agent =
        agent.arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    agent.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    let output = agent.wait_with_output().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
    output
}

#[test]
fn it_answers_as_its_script_says() {
    let request = json!({"step": {"role": "act"}});
    let output = run(&json!({}), &request);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((answer["status"].as_str(), answer["summary"].as_str()), (Some("ok"), Some("act did its part")));
    let output = run(&json!({"act": "not a list"}), &request);
    assert_eq!(output.status.code(), Some(99), "{}", String::from_utf8_lossy(&output.stderr));
}
