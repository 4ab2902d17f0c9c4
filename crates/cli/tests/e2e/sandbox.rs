//! `norma sandbox`: a program that sees, changes and reaches only what it was given. On a machine that cannot confine
//! the tests say so and pass: there is nothing to look at.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use std::io::Write;

/// An environment, unless this machine cannot confine at all.
fn confining() -> Option<TestEnvironment> {
    let env = TestEnvironment::bare();
    let tried = env.norma(&["sandbox", "run", "--", "true"]);
    if tried.code() == Some(0) {
        return Some(env);
    }
    let _ = writeln!(std::io::stderr(), "skipped: this machine cannot confine: {}", tried.err());
    None
}

#[test]
fn a_confined_program_ends_as_it_would_outside() {
    let Some(env) = confining() else { return };
    env.norma(&["sandbox", "run", "--", "sh", "-c", "exit 7"]).exits(7);
    assert_eq!(env.norma(&["sandbox", "run", "--", "sh", "-c", "echo hello"]).success().raw, "hello\n");
    env.norma(&["sandbox", "run", "--", "no-such-program"]).exits(2);
}

#[test]
fn a_confined_program_changes_only_what_it_was_given() {
    let Some(env) = confining() else { return };
    env.write("kept.txt", "as it was");
    env.write("given/x", "");
    let script = "echo changed > kept.txt; echo new > given/y; echo z > /tmp/z";
    env.norma(&["sandbox", "run", "--", "sh", "-c", script]);
    assert_eq!(env.read("kept.txt"), "as it was");
    assert!(!env.root.join("given/y").exists());
    env.norma(&["sandbox", "run", "--write", "given", "--", "sh", "-c", script]);
    assert_eq!(env.read("kept.txt"), "as it was");
    assert_eq!(env.read("given/y"), "new\n");
}

#[test]
fn a_confined_program_sees_no_secrets_and_cannot_change_history() {
    let Some(env) = confining() else { return };
    env.write(".env", "TOKEN=1");
    let seen = env.norma(&[
        "sandbox",
        "run",
        "--write",
        ".",
        "--",
        "sh",
        "-c",
        "cat .env; echo x >> .git/config || echo kept",
    ]);
    assert_eq!(seen.raw, "kept\n");
    assert!(!env.git(&["config", "--list"]).contains("x="));
}

#[test]
fn an_explanation_has_a_reason_for_every_line() {
    let env = TestEnvironment::bare();
    let lines = env.json(&["sandbox", "explain", "--write", ".", "--net", "example.org:443"]);
    let lines = lines.as_array().unwrap();
    assert!(lines.iter().all(|line| !line["reason"].as_str().unwrap().is_empty()));
    assert!(lines.iter().any(|line| line["what"] == "network" && line["subject"] == "example.org:443"));
    let own = json!(env.root.display().to_string());
    assert!(lines.iter().any(|line| line["what"] == "write" && line["subject"] == own));
    env.norma(&["sandbox", "explain", "--net", "nonsense"]).exits(2);
    env.norma(&["sandbox", "explain", "--write", "missing"]).exits(2);
}

#[test]
fn no_attack_of_the_drill_succeeds() {
    let Some(env) = confining() else { return };
    // Neither a repository nor a state directory is needed to ask what the machine can do.
    let output = env.norma(&["doctor", "--drill", "--json"]);
    let lines: Vec<Value> = output.success().raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, tried) = lines.split_last().unwrap();
    assert!(tried.iter().all(|line| line["outcome"] == "blocked"), "{output}");
    assert_eq!(summary["succeeded"], json!([]));
    assert_eq!(summary["not_made"], json!([]));
    assert_eq!((&summary["blocked"], &summary["attacks"]), (&json!(tried.len()), &json!(tried.len())));
    let output = env.norma(&["doctor", "--drill"]);
    let last = output.success().raw.lines().last().unwrap().to_owned();
    assert!(last.starts_with(&format!("{0} of {0} blocked at level A", tried.len())), "{output}");
    assert_eq!(std::fs::read_dir(env.dir.join("tmp")).unwrap().count(), 0, "the drill leaves nothing behind");
}

#[test]
fn nobody_is_attacked_outside_of_a_sandbox() {
    let env = TestEnvironment::bare();
    let output = env.norma(&["__drill", "attack", "{}"]);
    assert_eq!((output.exits(1).raw.as_str(), output.raw_err.as_str()), ("", ""));
}
