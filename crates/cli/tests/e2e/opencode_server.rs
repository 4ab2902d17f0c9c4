//! Intents that an `opencode serve` compiles: what is asked of it, what is kept before anybody is told, and what is refused.
//! A stand-in answers; the last test has the real one with a scripted model.

use crate::environment::{PATCH, TestEnvironment, eventually};
use crate::real::Agent;
use machines::Opencode;
use scripted_model::{Options, Scripts, Server, Step, agents, home};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const INTENT: &str = r#"{"goal":"SCN=it make two loud","inputs":{},"constraints":{}}"#;

fn compiled() -> Value {
    json!({"plan": {"nodes": [{"id": "edit", "kind": "compute", "deps": []}]},
        "patch": {"files": [{"path": "src/lib.txt", "diff": PATCH}]}, "tests": ["grep -q TWO src/lib.txt"]})
}

fn environment() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write("intent.json", INTENT);
    env
}

fn calls(env: &TestEnvironment) -> Vec<Value> {
    let entries = std::fs::read_dir(env.root.join(".norma/calls")).into_iter().flatten().flatten();
    let read = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    entries.map(|entry| read(entry.path())).collect()
}

fn compile(env: &TestEnvironment, url: &str, mode: &str) -> crate::environment::Output {
    env.norma(&["intent", "compile", "intent.json", "--server", url, "--mode", mode, "--json"])
}

#[test]
fn a_server_compiles_an_intent_and_every_call_is_in_the_ledger() {
    let env = environment();
    let server = Opencode::start(&[&format!("Here it is:\n```json\n{}\n```", compiled())]);
    let health = env.json(&["intent", "health", "--server", &server.url()]);
    assert_eq!((&health["ok"], &health["version"]), (&json!(true), &json!("1.18.33")));
    let first = compile(&env, &server.url(), "record");
    let output: Value = serde_json::from_str(&first.success().raw).unwrap();
    assert_eq!(output["plan"], compiled()["plan"]);
    assert_eq!(
        (&output["transcript"]["session_id"], &output["transcript"]["agent"]),
        (&json!("ses_0123"), &json!("opencode"))
    );
    let calls = calls(&env);
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&calls[0]["status"], &calls[0]["response"]["info"]["modelID"]),
        (&json!("answered"), &json!("scripted-1"))
    );
    assert_eq!(calls[0]["body"]["tools"]["bash"], false);
    // The recording answers without anybody.
    let asked = server.asked().len();
    assert_eq!(env.norma(&["intent", "compile", "intent.json", "--json"]).success().raw, first.raw);
    assert_eq!(server.asked().len(), asked);
    let diff = env.json(&["intent", "diff", "ses_0123", "--server", &server.url()]);
    assert_eq!(diff[0]["file"], "a");
}

#[test]
fn an_answer_that_is_none_is_asked_for_once_more_and_a_recording_never_stands_in() {
    let env = environment();
    let server = Opencode::start(&["no", &compiled().to_string(), "no", r#"{"plan":{"nodes":[]}}"#]);
    compile(&env, &server.url(), "record").success();
    assert_eq!(calls(&env).len(), 2);
    let refused = compile(&env, &server.url(), "record");
    refused.exits(1);
    assert!(refused.raw.contains("missing required key") && !refused.raw.contains("transcript"), "{}", refused.raw);
    let failed = compile(&env, &server.url(), "live");
    failed.exits(1);
    assert!(failed.raw.contains("no key") && !failed.raw.contains("transcript"), "{}", failed.raw);
    assert!(calls(&env).iter().any(|call| call["status"] == "failed" && call["error"] == "no key"));
}

#[test]
fn what_cannot_be_kept_is_not_asked_and_a_server_that_is_not_there_is_said() {
    let env = environment();
    let server = Opencode::start(&[&compiled().to_string()]);
    env.write(".norma/calls", "in the way");
    compile(&env, &server.url(), "record").exits(4);
    assert!(server.asked().iter().all(|asked| !asked.what.ends_with("/message")), "nothing was asked");
    assert!(!env.root.join(".norma/recordings").exists());
    let gone = env.norma(&["intent", "health", "--server", "http://127.0.0.1:1"]);
    gone.exits(4);
    assert!(gone.err().contains("OC_UNAVAILABLE"), "{}", gone.err());
    env.norma(&["intent", "health", "--server", "http://example.org"]).exits(2);
    let mut env = env;
    env.env.insert("NORMA_MODE".to_owned(), "production".to_owned());
    env.norma(&["intent", "health", "--server", &server.url()]).exits(4);
}

#[test]
fn the_real_server_compiles_an_intent() {
    let Some(program) = agents::needed(Agent::Opencode) else { return };
    let env = environment();
    let scripts = Scripts::default().with("it", vec![Step::Text(compiled().to_string())]);
    let model = Server::start(Options { scripts, ..Options::default() }).unwrap();
    let setup = home::Setup { port: model.port(), key: "k", asks: false };
    let variables = home::furnish(Agent::Opencode, &env.dir.join("oc"), &setup).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let mut command = Command::new(program);
    command.args(["serve", "--hostname", "127.0.0.1", "--port", &port.to_string()]).current_dir(&env.root);
    command.env_clear().envs(variables).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut serving = command.spawn().unwrap();
    eventually("opencode serve", || env.norma(&["intent", "health", "--server", &url]).code() == Some(0));
    let output = compile(&env, &url, "record");
    let diff = env.norma(&["intent", "compile", "intent.json", "--json"]);
    serving.kill().unwrap();
    serving.wait().unwrap();
    let answer: Value = serde_json::from_str(&output.success().raw).unwrap();
    assert_eq!(answer["tests"], compiled()["tests"]);
    assert!(answer["transcript"]["session_id"].as_str().unwrap().starts_with("ses_"));
    assert_eq!(diff.success().raw, output.raw);
    assert_eq!(calls(&env)[0]["status"], "answered");
}
