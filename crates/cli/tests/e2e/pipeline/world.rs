//! A repository with agents for every role of a pipeline, each a few lines of Python.

use crate::environment::{Output, TestEnvironment};
use serde_json::{Value, json};

/// What every agent begins with.
const BEGIN: &str = r#"
import json, os, sys
q = json.load(sys.stdin)
root, role = q["paths"]["repo_root"], q["step"]["role"]
task = (q.get("contract") or {}).get("id", "")
def put(path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
def get(path):
    path = os.path.join(root, path)
    return open(path).read() if os.path.exists(path) else ""
def say(result=None, status="ok"):
    answer = {"version": 1, "status": status, "summary": role + " " + task}
    if result is not None: answer["result"] = result
    print(json.dumps(answer))
def test(cmd): return [{"name": "t", "cmd": cmd, "must_pass": True}]
def passes(): say({"verdict": "PASS", "summary": "fine", "findings": []})
"#;

/// A PM that wants `a.txt` and `b.txt` to say `done`.
pub(crate) const PM: &str = r#"say({"spec": "both files say done", "allowed_paths": ["src/a.txt", "src/b.txt"],
    "acceptance_tests": test("grep -q done src/a.txt src/b.txt")})"#;

/// A tech lead that gives each file to somebody else.
pub(crate) const TECH_LEAD: &str = r#"say({"contracts": [{"spec": "src/%s.txt says done" % x, "allowed_paths": ["src/%s.txt" % x],
    "acceptance_tests": test("grep -q done src/%s.txt" % x)} for x in "ab"]})"#;

/// A worker that does what its contract names.
pub(crate) const WORKER: &str = r#"
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "done\n")
say()"#;

/// A reviewer that lets everything pass.
pub(crate) const REVIEWER: &str = "passes()";

/// A repository in which these agents fill the roles of their names.
pub(crate) fn world(agents: &[(&str, &str)]) -> TestEnvironment {
    world_with(agents, |_| {})
}

/// The same with another configuration.
pub(crate) fn world_with(agents: &[(&str, &str)], change: impl FnOnce(&mut Value)) -> TestEnvironment {
    world_of(agents, &[], change)
}

/// The same with more files.
pub(crate) fn world_of(
    agents: &[(&str, &str)],
    files: &[(&str, &str)],
    change: impl FnOnce(&mut Value),
) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    for (path, text) in files {
        env.write(path, text);
    }
    for name in ["a", "b"] {
        env.write(&format!("src/{name}.txt"), "to do\n");
    }
    let mut config = json!({"agents": {}, "budgets": {"max_iterations": 3}});
    for (role, body) in agents {
        env.write(&format!("agents/{role}.py"), &format!("{BEGIN}{body}\n"));
        config["agents"][role] = json!({"type": "exec", "cmd": ["python3", format!("agents/{role}.py")]});
    }
    change(&mut config);
    env.commit("agents");
    env.write(".norma/config.json", &config.to_string());
    env.norma(&["trust"]).success();
    env
}

/// Everybody does as they should.
pub(crate) const ALL: [(&str, &str); 4] =
    [("pm", PM), ("tech_lead", TECH_LEAD), ("worker", WORKER), ("reviewer", REVIEWER)];

/// The same with somebody else in one role.
pub(crate) fn all_but(role: &str, body: &'static str) -> Vec<(&'static str, &'static str)> {
    ALL.into_iter().map(|(name, usual)| (name, if name == role { body } else { usual })).collect()
}

/// Has the pipeline run.
pub(crate) fn pipeline(env: &TestEnvironment) -> Output {
    env.norma(&["pipeline", "both files say done", "--yes"])
}

/// What is shown of the last run.
pub(crate) fn shown(env: &TestEnvironment) -> Value {
    env.json(&["show"])
}

/// The members of each entry of a list that are asked for.
pub(crate) fn column(value: &Value, list: &str, member: &str) -> Vec<String> {
    let entries = value[list].as_array().unwrap_or_else(|| panic!("no {list} in {value}"));
    entries.iter().map(|it| it[member].as_str().unwrap_or_default().to_owned()).collect()
}

/// The last run verifies, and comes to the same when it is replayed.
#[track_caller]
pub(crate) fn holds(env: &TestEnvironment) {
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}
