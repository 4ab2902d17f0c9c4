//! A server that is killed while agents talk, use tools and ask, and that is started again each time: a client that
//! comes back by its cursor has been told everything once, every turn has one end, and every approval was used at most
//! once. `NORMA_SOAK` kills it twenty times (`cargo xtask soak server`); another suite does so in the middle of turns
//! of the loop (`serve::streams`).

use crate::environment::TestEnvironment;
use crate::load_server::{Dice, so_many};
use crate::serve::{Frame, Served, serve, serve_at};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An agent that talks, asks for a tool, and talks.
const AGENT: &str = r#"
say() { printf '%s\n' "$1" | tr -d '\n'; echo; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":'"$1"'}}'; }
chunk() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
read -r hello
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"mine","version":"7"}}}'
read -r new
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}'
read -r prompt
for word in one two three four; do chunk "$word "; done
say '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s-1",
  "toolCall":{"toolCallId":"c-1","kind":"other","title":"copy","rawInput":{"command":"true and so on"}},
  "options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}'
read -r told
update '{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"completed"}'
chunk '{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\",\"files\":[],\"next_actions\":[],\"errors\":[]}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r more
"#;

/// How many items a run has; each is a turn, and one more for each time it is interrupted.
const ITEMS: usize = 3;
/// How many events a server tells at most before it is killed.
const EVENTS_MAX: u64 = 150;

/// A client that keeps what it was told of a run, and where to continue.
struct Client {
    id: String,
    told: Vec<Value>,
}

impl Client {
    /// The last fact of which everything was told: of the last one, some may be missing.
    fn cursor(&self) -> u64 {
        self.told.last().and_then(|event| event["seq"].as_u64()).unwrap_or(0)
    }

    fn forget_what_may_be_cut(&mut self) {
        let last = self.cursor();
        self.told.retain(|event| event["seq"].as_u64() < Some(last));
    }

    /// Follows the run until its end or until so many events were told, and approves what is asked; answers whether it
    /// has ended.
    fn follow(&mut self, served: &Served, most: u64) -> bool {
        let mut socket = served.watch(&format!("runId={}&since={}", self.id, self.cursor()));
        for _ in 0..most {
            let Frame::Event(event) = socket.next() else { panic!("the stream ended") };
            if event["type"] == "approval.requested" {
                let path = format!("/api/approvals/{}/resolve", event["approvalId"].as_str().unwrap());
                let approved = json!({"resolution": {"status": "approved"}});
                let status = served.ask("POST", &path, Some(&approved)).status;
                assert!([200, 409].contains(&status), "{status}");
            }
            let is_end = event["patch"]["status"] == "completed";
            if event["seq"].is_u64() {
                self.told.push(event);
            }
            if is_end {
                return true;
            }
        }
        served.norma.signal("KILL");
        while let Frame::Event(event) = socket.next() {
            if event["seq"].is_u64() {
                self.told.push(event);
            }
        }
        false
    }
}

/// What the log of the newest run has of this type, counted by a member of its payload.
fn counted(events: &[Value], kinds: &[&str], member: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| kinds.contains(&event["type"].as_str().unwrap())) {
        *counts.entry(event["payload"][member].to_string()).or_default() += 1;
    }
    counts
}

#[track_caller]
fn is_whole(env: &TestEnvironment, served: &Served, client: &Client) {
    let path = format!("/api/runs/{}/events", client.id);
    let history = served.get(&path)["events"].as_array().unwrap().clone();
    let ids = |events: &[Value]| events.iter().map(|event| event["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&client.told), ids(&history[..client.told.len()]));
    let log = env.norma(&["events", &client.id, "--json"]).success().raw.clone();
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started = counted(&log, &["step_started"], "step");
    let ended = counted(&log, &["step_committed", "step_interrupted", "reconciled_step"], "step");
    assert_eq!(started, ended, "every turn has one end");
    assert!(started.values().all(|count| *count == 1), "{started:?}");
    let items = counted(&log, &["item_ended"], "item");
    assert!(items.len() == ITEMS && items.values().all(|count| *count == 1), "{items:?}");
    let used = counted(&log, &["approval_used"], "approval");
    assert!(!used.is_empty() && used.values().all(|count| *count == 1), "{used:?}");
    env.norma(&["verify", &client.id]).success();
}

#[test]
fn a_server_that_is_killed_while_agents_talk_and_ask_loses_and_doubles_nothing() {
    let env = TestEnvironment::initialized();
    env.write("agent.sh", AGENT);
    env.commit("an agent");
    env.configure(|config| config["agents"] = json!({"worker": {"type": "acp", "cmd": ["sh", "agent.sh"]}}));
    let items: Vec<Value> = (0..ITEMS)
        .map(|at| json!({"id": format!("item-{at}"), "agent_id": "worker", "description": "make it"}))
        .collect();
    let mut served = serve(&env);
    let port = served.port();
    let (mut dice, kills, mut killed, mut runs) = (Dice(3), so_many(2, 20), 0, 0);
    while killed < kills {
        let run = served.ask("POST", "/api/runs", Some(&json!({"batch": items}))).with(201)["run"].clone();
        let mut client = Client { id: run["id"].as_str().unwrap().to_owned(), told: Vec::new() };
        loop {
            let most = if killed < kills { 1 + dice.below(EVENTS_MAX) } else { u64::MAX };
            if client.follow(&served, most) {
                break;
            }
            killed += 1;
            client.forget_what_may_be_cut();
            // It has the port and the state directory until it is gone.
            drop(served);
            served = serve_at(&env, port, &[]);
        }
        is_whole(&env, &served, &client);
        runs += 1;
    }
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{killed} kills in {runs} runs\n").as_bytes());
}
