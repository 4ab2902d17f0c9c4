//! Agents that speak ACP and of which norma knows nothing, as npm installs them: each is added by one command line in a
//! repository that norma has never seen, and lands a change with a model behind norma's gateway.

use super::{KEY, files_with, then_answer, write};
use crate::environment::TestEnvironment;
use scripted_model::agents::needed_link;
use scripted_model::{Options, Scripts, Server};
use serde_json::{Value, json};

/// What codex is told in one variable.
const CODEX_CONFIG: &str = r#"CODEX_CONFIG={"model":"{model}","model_provider":"norma","web_search":"disabled","model_providers":{"norma":{"name":"norma","base_url":"{model_url}","wire_api":"responses","env_key":"OPENAI_API_KEY"}}}"#;

/// Adds the agent whose program npm links under this name, with these arguments of norma's before `--` and of its own after
/// it, and has it make a file.
#[track_caller]
fn is_added_and_works(program: &str, key: &str, version: &str, given: &[&str], own: &[&str]) {
    let Some(link) = needed_link(program) else { return };
    let scripts = Scripts::default().with("it", then_answer([write("made.txt", "made by it\n")]));
    let server = Server::start(Options { key: Some(KEY.to_owned()), scripts, ..Options::default() }).unwrap();
    let mut env = TestEnvironment::unseen();
    env.env.insert(key.to_owned(), KEY.to_owned());
    let url = format!("http://127.0.0.1:{}", server.port());
    let link = link.to_string_lossy();
    let mut args = vec!["--json", "agent", "add", "mine", "--base-url", &url];
    args.extend(given);
    args.extend(["--", &link]);
    args.extend(own);
    let added: Value = serde_json::from_str(&env.norma(&args).success().raw).unwrap();
    assert_eq!((&added["initialized"], &added["handshake"]["problem"]), (&json!(true), &Value::Null), "{added}");
    assert!(added["handshake"]["agent"].as_str().unwrap().contains(version), "{added}");
    assert_eq!(server.requests().iter().filter(|request| request["script"].is_string()).count(), 0);
    env.norma(&["run", "--goal", "SCN=it", "--agent", "mine", "--allow", "made.txt"]).success();
    assert_eq!(env.read("made.txt"), "made by it\n");
    env.norma(&["verify", "@last"]).success();
    let outcome = env.run_dir().join("steps/001-worker/session/outcome.json");
    let outcome: Value = serde_json::from_slice(&std::fs::read(outcome).unwrap()).unwrap();
    assert!(outcome["usage"]["input_tokens"].as_u64().unwrap() > 0, "{outcome}");
    assert_eq!(files_with(&env.root.join(".norma"), KEY.as_bytes()), [""; 0].map(std::path::PathBuf::from));
    env.norma(&["agent", "remove", "mine"]).success();
    assert_eq!(env.json(&["trust", "--show"])["trusted"], true);
}

#[test]
fn qwen() {
    let given = ["--api", "openai", "--model", "gpt-5.5"];
    is_added_and_works("qwen", "OPENAI_API_KEY", "qwen-code", &given, &["--acp"]);
}

#[test]
fn claude_agent_acp() {
    let given = ["--key-env", "ANTHROPIC_API_KEY", "--model", "claude-sonnet-4-5"];
    is_added_and_works("claude-agent-acp", "ANTHROPIC_API_KEY", "claude-agent-acp 0.23.1", &given, &[]);
}

#[test]
fn codex_acp() {
    let mut given =
        vec!["--api", "openai", "--model", "gpt-5.5", "--env", "MODEL_PROVIDER=norma", "--env", CODEX_CONFIG];
    // Its own sandbox cannot be built inside of norma's.
    given.extend(["--env", "INITIAL_AGENT_MODE=agent-full-access"]);
    is_added_and_works("codex-acp", "OPENAI_API_KEY", "codex-acp 2.6.0", &given, &[]);
}

#[test]
fn copilot() {
    let mut given = vec!["--api", "openai", "--model", "gpt-5.5", "--env", "COPILOT_OFFLINE=true"];
    given.extend(["--env", "COPILOT_PROVIDER_BASE_URL={model_url}", "--env", "COPILOT_PROVIDER_API_KEY={model_key}"]);
    given.extend(["--env", "COPILOT_MODEL={model}"]);
    is_added_and_works("copilot", "OPENAI_API_KEY", "Copilot 1.0.102", &given, &["--acp"]);
}
