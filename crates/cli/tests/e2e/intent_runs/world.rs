//! A server whose intents are compiled by a program that answers with a file of the repository. Commands of plans are `true`
//! and `false`, or, without a sandbox, programs that leave a trace outside of the repository.

use crate::environment::{TestEnvironment, eventually};
use crate::serve::client::{Answer, Served, serve, serve_at};
use serde_json::{Value, json};

/// Compiles to `agents/answer.json`, decides what `agents/choice` says, and tells what it was told otherwise.
const AGENT: &str = r#"
import json, os, sys
request = json.load(sys.stdin)
role, context = request["step"]["role"], request["context"]
answer = {"version": 1, "status": "ok"}
if role == "worker":
    answer["result"] = json.load(open("agents/answer.json"))
    answer["summary"] = "compiled"
elif role == "decide":
    answer["result"] = {"choice": open("agents/choice").read().strip()}
    answer["summary"] = "chose between " + " ".join(context["choices"])
else:
    answer["summary"] = request["goal"] + ": " + context["notes"].splitlines()[0]
print(json.dumps(answer))
"#;

/// A server and the repository that it is for.
pub(crate) struct World {
    pub(crate) env: TestEnvironment,
    pub(crate) served: Served,
}

/// A node of a plan.
pub(crate) fn node(id: &str, kind: &str, deps: &[&str], budget: Value) -> Value {
    json!({"id": id, "kind": kind, "deps": deps, "budget": budget})
}

/// One that only runs `true`.
pub(crate) fn run_true(id: &str, deps: &[&str]) -> Value {
    node(id, "compute", deps, json!({"cmd": ["true"]}))
}

/// What is answered with this plan and no patch.
pub(crate) fn plan(nodes: &[Value]) -> Value {
    json!({"plan": {"nodes": nodes}, "patch": {"files": []}, "tests": []})
}

pub(crate) fn environment(answer: &Value, change: impl FnOnce(&mut Value)) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write("agents/compiler.py", AGENT);
    env.write("agents/choice", "left");
    env.write("agents/answer.json", &answer.to_string());
    env.commit("an agent");
    env.configure(|config| {
        config["agents"] = json!({"compiler": {"type": "exec", "cmd": ["python3", "agents/compiler.py"]}});
        change(config);
    });
    env
}

pub(crate) fn world(answer: &Value) -> World {
    world_with(answer, |_| {})
}

pub(crate) fn world_with(answer: &Value, change: impl FnOnce(&mut Value)) -> World {
    let env = environment(answer, change);
    let served = serve(&env);
    World { env, served }
}

impl World {
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.served.ask("POST", path, Some(body))
    }

    /// The id of a new intent with this goal.
    #[track_caller]
    pub(crate) fn intent(&self, goal: &str) -> String {
        let intent = json!({"goal": goal, "inputs": {}, "constraints": {}});
        self.post("/intents", &intent).with(201)["intentId"].as_str().unwrap().to_owned()
    }

    /// The id of the run that carries it out.
    #[track_caller]
    pub(crate) fn start(&self, intent: &str) -> String {
        let started = self.served.ask("POST", &format!("/intents/{intent}/run"), None).with(202);
        assert_eq!(started["workflowId"], intent);
        started["runId"].as_str().unwrap().to_owned()
    }

    /// A new intent, started.
    #[track_caller]
    pub(crate) fn started(&self) -> String {
        self.start(&self.intent("daily brief"))
    }

    pub(crate) fn view(&self, run: &str) -> Value {
        self.served.get(&format!("/runs/{run}"))
    }

    /// The view once it has this status.
    #[track_caller]
    pub(crate) fn until(&self, run: &str, status: &str) -> Value {
        let mut view = Value::Null;
        let is_over = |view: &Value| ["succeeded", "failed", "canceled"].iter().any(|end| view["status"] == *end);
        eventually(&format!("the run is {status}"), || {
            view = self.view(run);
            view["status"] == status || is_over(&view)
        });
        assert_eq!(view["status"], status, "{view:#}");
        view
    }

    pub(crate) fn answer(&self, run: &str, event: &Value) -> Answer {
        self.post(&format!("/runs/{run}/events"), event)
    }

    /// How many intents and runs there are.
    pub(crate) fn rows(&self) -> (usize, usize) {
        let runs = self.served.get("/api/runs")["runs"].as_array().unwrap().len();
        let log = self.env.root.join(".norma/norma.db");
        let db = rusqlite::Connection::open_with_flags(log, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let intents: i64 = db.query_row("SELECT count(*) FROM intents", [], |row| row.get(0)).unwrap();
        (intents as usize, runs)
    }

    /// Kills the server and starts it again on its port.
    pub(crate) fn killed(self) -> World {
        let World { env, served } = self;
        let port = served.port();
        served.norma.signal("KILL");
        drop(served);
        let served = serve_at(&env, port, &[]);
        World { env, served }
    }
}

/// The step of a node, or the first of this name.
#[track_caller]
pub(crate) fn step<'v>(view: &'v Value, name: &str) -> &'v Value {
    let steps = view["steps"].as_array().unwrap();
    let found = steps.iter().find(|step| step["nodeId"] == name || step["nodeId"].is_null() && step["stepId"] == name);
    found.unwrap_or_else(|| panic!("there is no step {name}: {view:#}"))
}

/// The status of each of these steps.
pub(crate) fn statuses(view: &Value, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| step(view, name)["status"].as_str().unwrap().to_owned()).collect()
}
