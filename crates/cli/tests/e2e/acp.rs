//! An agent of somebody else that speaks the Agent Client Protocol: nothing is known of it but its command line.

use crate::environment::{TestEnvironment, eventually};
use serde_json::json;

/// It takes the three requests of a turn in their order, and in the last one asks whether it may make a file.
const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":'"$1"'}}'; }
read -r hello
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"mine","version":"7"}}}'
read -r new
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}'
read -r prompt
say '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s-1",
  "toolCall":{"toolCallId":"c-1","kind":"other","title":"mine","rawInput":{"command":"cp README.md made.txt"}},
  "options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}' | tr -d '\n'; echo
read -r told
case "$told" in
*'"optionId":"y"'*) cp README.md made.txt && status=completed ;;
*) status=failed ;;
esac
update '{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"'$status'"}'
answer='{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\",\"files\":[],\"next_actions\":[],\"errors\":[]}'
update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$answer"'"}}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r more
"#;

/// What the script above asks to run.
pub(crate) const COMMAND: &str = "cp README.md made.txt";
const COMMAND_ASKED: &str = r#""command":"cp README.md made.txt""#;

/// An item whose agent asks to run this.
pub(crate) fn with_request(command: &str) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write("agent.sh", &AGENT.replace(COMMAND_ASKED, &format!("\"command\":\"{command}\"")));
    env.commit("an agent");
    env.configure(|config| config["agents"] = json!({"worker": {"type": "acp", "cmd": ["sh", "agent.sh"]}}));
    env.write("item.json", &json!({"id": "a", "agent_id": "worker", "description": "make it"}).to_string());
    env
}

/// Has it carry out an item, and answers its question.
#[track_caller]
fn carried_out(verb: &str, exit: i32) -> TestEnvironment {
    let env = with_request(COMMAND);
    let running = env.spawn(&["run", "item.json"]);
    eventually("it asks", || env.json(&["approvals"])[0]["id"].is_string());
    let asked = env.json(&["approvals"])[0].take();
    assert!(asked["reasons"].to_string().contains(COMMAND), "{asked}");
    env.norma(&[verb, asked["id"].as_str().unwrap(), "--reason", "as I say"]).success();
    running.wait().exits(exit);
    env.norma(&["verify", "@last"]).success();
    env
}

/// What an agent wants to run is shown, bound and stored to its last character, wherever a person looks.
#[test]
fn a_long_command_is_shown_to_its_end() {
    let padding = "x".repeat(3000);
    let command = format!("cp README.md made.txt # {padding}\\n rm -rf the-end");
    let env = with_request(&command);
    let running = env.spawn(&["run", "item.json"]);
    eventually("it asks", || env.json(&["approvals"])[0]["id"].is_string());
    let asked = env.json(&["approvals"])[0].take();
    let whole = format!("command: cp README.md made.txt # {padding}\n rm -rf the-end");
    assert!(asked["reasons"].as_array().unwrap().contains(&json!(whole)), "{asked}");
    let shown = format!("made.txt # {padding}\\u{{a}} rm -rf the-end");
    assert!(env.norma(&["approvals"]).raw.contains(&shown));
    env.norma(&["approve", asked["id"].as_str().unwrap()]).success();
    let output = running.wait();
    assert!(output.success().raw.contains(&shown), "{output}");
    assert_eq!(env.read("made.txt"), "hello\n");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn nobody_is_asked_about_a_command_that_cannot_be_shown() {
    for length in [20 << 10, 300 << 10] {
        let env = with_request(&format!("cp README.md made.txt # {}", "x".repeat(length)));
        env.norma(&["run", "item.json"]).success();
        assert!(!env.root.join("made.txt").exists());
        assert_eq!(env.json(&["approvals", "--all"]), json!([]));
        let events = env.norma(&["events", "@last", "--json"]).success().raw.clone();
        assert!(events.contains("nobody can be asked about a request that takes"), "{events}");
        env.norma(&["verify", "@last"]).success();
    }
}

#[test]
fn any_agent_that_speaks_acp_asks_and_lands_what_it_was_allowed() {
    let env = carried_out("approve", 0);
    assert_eq!(env.read("made.txt"), "hello\n");
    let outcome = env.run_dir().join("steps/001-worker/session/outcome.json");
    let outcome: serde_json::Value = serde_json::from_slice(&std::fs::read(outcome).unwrap()).unwrap();
    assert_eq!((&outcome["agent"], &outcome["session_id"]), (&json!("acp"), &json!("s-1")), "{outcome}");
}

#[test]
fn any_agent_that_speaks_acp_is_told_no() {
    let env = carried_out("deny", 0);
    assert!(!env.root.join("made.txt").exists());
}
