//! The recorded transcripts are fit to be tested on: complete, small, and of no machine in particular.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its files stops there")]

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A transcript that is longer is about something other than the protocol.
const BYTES_MAX: usize = 60 << 10;

/// What there is of every agent.
const SCENARIOS: [&str; 13] = [
    "write_shell",
    "approved",
    "denied",
    "cancel_before_answer",
    "cancel_mid_stream",
    "cancel_in_tool",
    "unauthorized",
    "rate_limited",
    "server_error",
    "dropped",
    "just_text",
    "usage",
    "two_turns",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_agent_was_recorded_in_every_scenario() {
    for agent in ["codex", "claude", "gemini", "opencode"] {
        for scenario in SCENARIOS {
            let lines = lines(&folder().join(agent).join(format!("{scenario}.jsonl")));
            let said = |dir: &str| lines.iter().filter(|line| line["dir"] == dir).count();
            assert!(said("in") > 1 && said("out") > 2 && said("exit") == 1, "{agent}/{scenario}");
            assert_eq!(lines.last().unwrap()["dir"], "exit", "{agent}/{scenario}");
        }
    }
}

#[test]
fn a_transcript_is_small_and_of_no_machine_in_particular() {
    for agent in std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(&agent).unwrap().map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.len() < BYTES_MAX, "{} is too long", file.display());
            let words = ["/tmp/record", "record-", "target/agents", env!("CARGO_MANIFEST_DIR")];
            for word in words {
                assert!(!text.contains(word), "{} has {word}", file.display());
            }
            assert!(lines(&file).iter().all(|line| line.get("line").is_some()), "{}", file.display());
        }
    }
}
