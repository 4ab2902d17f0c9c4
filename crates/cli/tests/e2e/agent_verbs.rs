//! `norma agent`: an agent is added by its command line, and what is missing is said before anything is written.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// It greets, opens a session and then makes a file.
const AGENT: &str = r#"#!/bin/sh
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":'"$1"'}}'; }
read -r hello
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"mine","version":"7"}}}'
read -r new
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1","models":{"currentModelId":"m-1"}}}'
read -r prompt
cp README.md made.txt
answer='{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\",\"files\":[],\"next_actions\":[],\"errors\":[]}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$answer"'"}}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r more
"#;

/// It wants a key.
const NOT_SIGNED_IN: &str = r#"#!/bin/sh
read -r hello
printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"closed"},"authMethods":[{"id":"api-key","vars":[{"name":"SOME_API_KEY"}]}]}}'
read -r new
printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}'
read -r authenticate
printf '%s\n' '{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no key"}}'
read -r more
"#;

/// A repository that norma has never seen, with a program in it.
fn with_program(script: &str) -> TestEnvironment {
    let env = TestEnvironment::unseen();
    env.write("agents/mine", script);
    env.output_of("chmod", &["+x", "agents/mine"]).success();
    env.commit("an agent");
    env
}

fn config(env: &TestEnvironment) -> Value {
    serde_json::from_str(&env.read(".norma/config.json")).unwrap()
}

/// What is said when nothing is added, and that nothing was.
#[track_caller]
fn refused(env: &TestEnvironment, args: &[&str], exit: i32) -> String {
    let before = env.root.join(".norma").exists().then(|| env.read(".norma/config.json"));
    let output = env.norma(&[&["agent", "add"], args].concat());
    output.exits(exit);
    assert_eq!(env.root.join(".norma").exists().then(|| env.read(".norma/config.json")), before);
    output.err()
}

#[test]
fn an_agent_is_added_in_a_repository_that_norma_has_never_seen_and_lands_a_change() {
    let env = with_program(AGENT);
    let added = env.norma(&["agent", "add", "mine", "--host", "api.example.com", "--", "agents/mine"]);
    let out = added.success().out();
    assert!(out.contains("state directory .norma created") && out.contains("mine 7"), "{out}");
    assert_eq!(
        config(&env)["agents"]["mine"],
        json!({"type": "acp", "cmd": ["agents/mine"], "network": ["api.example.com:443"]})
    );
    assert_eq!(env.json(&["trust", "--show"])["trusted"], true);
    env.norma(&["run", "--goal", "make it", "--agent", "mine", "--allow", "made.txt"]).success();
    assert_eq!(env.read("made.txt"), "hello\n");
    // The hosts of its model are its own, whatever its tools may reach; what held it is on record.
    let sandbox = env.run_dir().join("steps/001-worker/sandbox.json");
    let sandbox: Value = serde_json::from_slice(&std::fs::read(sandbox).unwrap()).unwrap();
    assert!(sandbox["policy"]["network"].to_string().contains("api.example.com"), "{}", sandbox["policy"]["network"]);
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_program_is_greeted_by_list_and_doctor_unless_nobody_trusts_it() {
    let env = with_program(AGENT);
    env.norma(&["agent", "add", "mine", "--role", "worker", "--role", "reviewer", "--", "agents/mine"]).success();
    let row = |env: &TestEnvironment| {
        let listed = env.json(&["agent", "list"]);
        listed.as_array().unwrap().iter().find(|row| row["name"] == "mine").cloned().unwrap()
    };
    let mine = row(&env);
    assert_eq!((&mine["version"], &mine["ready"]), (&json!("mine 7"), &json!(true)), "{mine}");
    assert_eq!(mine["roles"], json!(["WORKER", "REVIEWER"]));
    let said = env.norma(&["doctor"]).raw.clone();
    assert!(said.contains("mine: mine 7") && said.contains("opens a session"), "{said}");
    env.write(".norma/config.json", &env.read(".norma/config.json").replace("agents/mine", "./agents/mine"));
    let mine = row(&env);
    assert_eq!((&mine["version"], &mine["ready"]), (&Value::Null, &json!(false)), "{mine}");
    assert!(!env.norma(&["doctor"]).raw.contains("mine 7"));
}

#[test]
fn what_is_missing_is_said_and_nothing_is_written() {
    let env = with_program(NOT_SIGNED_IN);
    let said = refused(&env, &["mine", "--", "agents/mine"], 4);
    assert!(said.contains("mine was not added: it is not signed in"), "{said}");
    assert!(said.contains("api-key with SOME_API_KEY") && said.contains("--pass-env"), "{said}");
    let said = refused(&env, &["mine", "--", "no-such-program"], 4);
    assert!(said.contains("it is not installed"), "{said}");
    let said = refused(&env, &["mine", "--api", "openai", "--", "agents/mine"], 4);
    assert!(said.contains("set OPENAI_API_KEY"), "{said}");
    let said = refused(&env, &["mine", "--pass-env", "SOME_API_KEY", "--", "agents/mine"], 4);
    assert!(said.contains("set SOME_API_KEY"), "{said}");
    let said = refused(&env, &["mine", "--", "sh", "-c", "echo 'Error: Cannot find module x' >&2; exit 1"], 4);
    assert!(said.contains("it does not start") && said.contains("Error: Cannot find module x"), "{said}");
    let said = refused(&env, &["mine", "--key-env", "SOME_API_KEY", "--", "agents/mine"], 2);
    assert!(said.contains("--api") && said.contains("--pass-env SOME_API_KEY"), "{said}");
    let said = refused(&env, &["mine", "--", "npx", "-y", "some-agent"], 2);
    assert!(said.contains("npm install -g"), "{said}");
    env.write("agents/new", AGENT);
    let said = refused(&env, &["mine", "--", "agents/new"], 2);
    assert!(said.contains("agents/new is not committed"), "{said}");
    for name in ["claude", "the boss"] {
        refused(&env, &[name, "--", "agents/mine"], 2);
    }
    assert!(!env.root.join(".norma").exists());
    let unchecked = env.norma(&["agent", "add", "mine", "--unchecked", "--", "agents/mine"]);
    assert!(unchecked.success().out().contains("unchecked: no key"), "{unchecked}");
    refused(&env, &["mine", "--", "agents/mine"], 2);
    env.norma(&["agent", "remove", "mine"]).success();
    env.norma(&["agent", "remove", "mine"]).exits(2);
    assert_eq!(config(&env)["agents"], json!({}));
}

#[test]
fn nothing_is_added_to_what_nobody_trusts() {
    let env = with_program(AGENT);
    env.norma(&["init"]).success();
    let other = env.read(".norma/config.json").replace("\"max_iterations\": 5", "\"max_iterations\": 6");
    env.write(".norma/config.json", &other);
    let said = refused(&env, &["mine", "--", "agents/mine"], 4);
    assert!(said.contains("not trusted"), "{said}");
}

#[test]
fn a_key_in_a_file_that_people_commit_is_refused_with_what_to_write_instead() {
    let env = with_program(AGENT);
    let key = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz0123456789";
    let said = refused(&env, &["mine", "--env", &format!("SOME_API_KEY={key}"), "--", "agents/mine"], 2);
    assert!(said.contains("/agents/mine/env/SOME_API_KEY") && said.contains("pass_env"), "{said}");
    assert!(!said.contains(key), "{said}");
    env.norma(&["init"]).success();
    env.configure(|config| {
        config["agents"] = json!({"mine": {"type": "exec", "cmd": ["agents/mine"], "env": {"SOME_API_KEY": "fine"}}});
    });
    env.write(".norma/config.json", &env.read(".norma/config.json").replace("\"fine\"", &format!("\"{key}\"")));
    let output = env.norma(&["run", "--goal", "x", "--agent", "mine"]);
    assert!(output.exits(2).err().contains("looks like"), "{output}");
}

#[test]
fn a_variable_is_passed_on_by_name_and_its_value_is_in_no_file() {
    let value = "opaque-value-7f3a9c1e5b2d";
    let mut env =
        with_program(&AGENT.replace("cp README.md made.txt", "printf %s \"$SOME_API_KEY\" | wc -c > made.txt"));
    env.env.insert("SOME_API_KEY".to_owned(), value.to_owned());
    env.norma(&["agent", "add", "mine", "--pass-env", "SOME_API_KEY", "--", "agents/mine"]).success();
    env.norma(&["run", "--goal", "make it", "--agent", "mine", "--allow", "made.txt"]).success();
    assert_eq!(env.read("made.txt").trim(), value.len().to_string());
    assert!(crate::real::files_with(&env.root.join(".norma"), value.as_bytes()).is_empty());
}

#[test]
fn a_failed_start_is_told_by_what_the_program_said_of_it() {
    let env = with_program(AGENT);
    env.norma(&["agent", "add", "mine", "--", "agents/mine"]).success();
    env.write(
        "agents/mine",
        "#!/bin/sh\necho 'Error: Cannot find module x' >&2\necho '    at require (node:x)' >&2\nexit 1\n",
    );
    env.commit("broken");
    let output = env.norma(&["run", "--goal", "make it", "--agent", "mine", "--allow", "made.txt"]);
    assert!(output.exits(1).raw.contains("acp: Error: Cannot find module x"), "{output}");
}

#[test]
fn an_executable_is_added_without_being_started() {
    let env = with_program("#!/bin/sh\ntouch started\n");
    let added = env.norma(&["--json", "agent", "add", "tool", "--type", "exec", "--", "agents/mine"]);
    let added: Value = serde_json::from_str(&added.success().raw).unwrap();
    assert_eq!((&added["type"], &added["cmd"]), (&json!("exec"), &json!(["agents/mine"])));
    assert!(!env.root.join("started").exists());
    // What it is to be given has to be there before it is started.
    env.norma(&["agent", "add", "other", "--type", "exec", "--pass-env", "NOT_SET", "--", "agents/mine"]).success();
    let output = env.norma(&["run", "--goal", "x", "--agent", "other", "--allow", "made.txt"]);
    assert!(output.exits(4).err().contains("other: set NOT_SET"), "{output}");
}
