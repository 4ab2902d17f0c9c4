//! A graph for a test. Its agents do what the JSON in the last thing that they are told says, and say what they were told, so
//! that a test reads from their answers what reached them.

use crate::environment::{TestEnvironment, eventually};
use crate::serve::client::{Answer, Served, serve};
use serde_json::{Value, json};

/// An agent of a node. Each input that is a JSON object is an order: `write` and `append` (path: content), `run` (argv whose exit code is
/// told), `touch` and `wait` (files outside, for tests without a sandbox), `say` (the summary), `status`, and `result`.
pub(crate) const AGENT: &str = r#"
import json, os, subprocess, sys, time
request = json.load(sys.stdin)
context = request["context"]
told = [m["content"] for m in context["messages"]] + [h["payload"]["message"] for h in context["handoffs"]]
answer = {"version": 1, "status": "ok", "result": {}}
saw, notes = [], []
for text in told:
    try:
        order = json.loads(text)
    except ValueError:
        order = None
    if not isinstance(order, dict):
        saw.append(text)
        continue
    for path, content in order.get("write", {}).items():
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w") as file:
                file.write(content)
        except OSError as error:
            notes.append("could not write " + path)
    for path, content in order.get("append", {}).items():
        with open(path, "a") as file:
            file.write(content)
    if "run" in order:
        try:
            notes.append("ran: %d" % subprocess.run(order["run"], stdout=subprocess.DEVNULL).returncode)
        except OSError as error:
            notes.append("could not run")
    if "touch" in order:
        open(order["touch"], "w").close()
    while "wait" in order and not os.path.exists(order["wait"]):
        time.sleep(0.02)
    saw.append(order.get("name", "order"))
    answer["status"] = order.get("status", answer["status"])
    answer["result"].update(order.get("result", {}))
    if "say" in order:
        answer["summary"] = order["say"]
step = request["step"]
said = "turn %d of %s: %s" % (step["iteration"], step["role"], " | ".join(saw + notes))
answer.setdefault("summary", said)
print(json.dumps(answer))
"#;

/// A server with one graph run.
pub(crate) struct Graph {
    pub(crate) env: TestEnvironment,
    pub(crate) served: Served,
    pub(crate) id: String,
}

/// A repository whose `custom` agent is the one above; others have the same under other names.
pub(crate) fn environment(change: impl FnOnce(&mut Value)) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    std::fs::write(env.dir.join("agent.py"), AGENT).unwrap();
    env.write("agents/node.py", AGENT);
    env.commit("an agent");
    env.configure(|config| {
        let agent = json!({"type": "exec", "cmd": ["python3", "agents/node.py"]});
        config["agents"] = json!({"custom": agent, "other": agent});
        change(config);
    });
    env
}

/// A graph whose agents are confined.
pub(crate) fn graph() -> Graph {
    started(environment(|_| {}), json!({}))
}

/// One whose agents meet the test at files outside of the repository.
pub(crate) fn graph_unconfined() -> Graph {
    started(environment(|config| config["sandbox"] = json!({"backend": "none"})), json!({}))
}

pub(crate) fn started(env: TestEnvironment, body: Value) -> Graph {
    let served = serve(&env);
    let run = served.ask("POST", "/api/runs", Some(&body)).with(201)["run"].clone();
    Graph { id: run["id"].as_str().unwrap().to_owned(), env, served }
}

impl Graph {
    /// A path below the run's.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/runs/{}{rest}", self.id)
    }

    pub(crate) fn post(&self, rest: &str, body: &Value) -> Answer {
        self.served.ask("POST", &self.path(rest), Some(body))
    }

    #[track_caller]
    pub(crate) fn patch(&self, rest: &str, patch: Value) -> Value {
        self.served.ask("PATCH", &self.path(rest), Some(&json!({ "patch": patch }))).with(200)
    }

    /// The id of a new node.
    #[track_caller]
    pub(crate) fn node(&self, label: &str, more: Value) -> String {
        let mut node = json!({"label": label, "roleTemplate": "implementer", "provider": "custom"});
        node.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        self.post("/nodes", &json!({ "node": node })).with(201)["node"]["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn edge(&self, from: &str, to: &str, more: Value) -> Value {
        let mut edge = json!({"from": from, "to": to});
        edge.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        self.post("/edges", &json!({ "edge": edge })).with(201)["edge"].clone()
    }

    /// Tells a node something; the id of the message.
    #[track_caller]
    pub(crate) fn say(&self, node: &str, content: impl ToString, interrupt: bool) -> String {
        let body = json!({"nodeId": node, "content": content.to_string(), "interrupt": interrupt});
        self.post("/chat", &body).with(201)["messageId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self) -> Value {
        self.served.get(&self.path(""))["run"].clone()
    }

    pub(crate) fn shown(&self, node: &str) -> Value {
        self.run()["nodes"][node].clone()
    }

    /// Everything that was told of a type, oldest first.
    pub(crate) fn told(&self, kind: &str) -> Vec<Value> {
        let (mut found, mut since) = (Vec::new(), 0);
        loop {
            let page = self.served.get(&self.path(&format!("/events?since={since}")));
            found.extend(page["events"].as_array().unwrap().iter().filter(|event| event["type"] == kind).cloned());
            match page["next"].as_u64() {
                Some(next) => since = next,
                None => return found,
            }
        }
    }

    /// What a node has answered, oldest first.
    pub(crate) fn answers(&self, node: &str) -> Vec<String> {
        let of_node =
            |event: &Value| (event["nodeId"] == node).then(|| event["content"].as_str().unwrap_or_default().to_owned());
        self.told("message.assistant.final").iter().filter_map(of_node).collect()
    }

    /// Waits until a node has answered so many times.
    #[track_caller]
    pub(crate) fn answered(&self, node: &str, count: usize) -> Vec<String> {
        eventually(&format!("{count} answer(s)"), || self.answers(node).len() >= count);
        self.answers(node)
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        eventually(what, || {
            last = self.run();
            holds(&last)
        });
        last
    }

    /// Waits until nobody is at work and nothing waits.
    #[track_caller]
    pub(crate) fn quiet(&self) -> Value {
        self.until("nobody is at work", |run| {
            let nodes = run["nodes"].as_object().unwrap();
            nodes.values().all(|node| node["status"] != "running" && node["inboxCount"] == 0)
        })
    }

    /// The requests that a node's agent was given, oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let steps = self.env.run_dir().join("steps");
        let mut dirs: Vec<_> = std::fs::read_dir(steps).unwrap().map(|entry| entry.unwrap().path()).collect();
        dirs.sort();
        let read = |dir: &std::path::PathBuf| std::fs::read(dir.join("input.json")).ok();
        dirs.iter().filter_map(read).map(|bytes| serde_json::from_slice(&bytes).unwrap()).collect()
    }
}
