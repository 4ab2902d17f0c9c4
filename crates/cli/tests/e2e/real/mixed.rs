//! Everything at once under one owner: loops, batches and the four makes, cut off in the middle.

use super::{Agent, Lab, item, lab, then_answer, write};
use crate::environment::{Running, eventually, scripted_agent};
use scripted_model::Step;
use serde_json::{Value, json};

/// What a batch's worker does: it takes a while over a file of its item's name.
const WORKER: &str = r#"id=$(sed -n 's/.*"contract":{"id":"\([^"]*\)".*/\1/p'); sleep 1; echo "$id" > "$id.txt"
echo '{"version":1,"status":"ok","summary":"did it"}'"#;

/// What a loop finds missing: a file of its own.
const PATCH: &str = "--- /dev/null\n+++ b/loop-{run_id}.txt\n@@ -0,0 +1 @@\n+mended\n";

/// How many loops, and how many batches of three items.
const OF_EACH: usize = 3;

#[test]
fn ten_runs_of_every_kind_come_to_their_end_once_though_their_owner_is_killed() {
    let half = vec![write("{after:SCN=it}.txt", "half done\n"), Step::Hang];
    let scripts = [("step 1 ·", half), ("step 2 ·", then_answer([write("{after:SCN=it}.txt", "done\n")]))];
    let Some(lab) = lab(&Agent::ALL, scripts) else { return };
    with_loops_and_batches(&lab);
    let mut running = start(&lab);
    eventually("the four models hang", || lab.calls().len() == 2 * Agent::ALL.len());
    running[0].signal("KILL");
    running.remove(0).wait();
    for watching in running {
        let ended = watching.wait().code().unwrap();
        assert!(matches!(ended, 0 | 130), "{ended}");
    }
    lab.env.norma(&["resume", "--all"]).success();
    let runs = lab.env.json(&["runs"]);
    let statuses: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, vec!["succeeded"; 2 * OF_EACH + Agent::ALL.len()]);
    each_is_there_once(&lab);
    lab.env.norma(&["verify", "--all"]).success();
}

fn with_loops_and_batches(lab: &Lab) {
    let looks = json!([[{"sleep_ms": 1500}, {"write": {"path": "files/test.log", "content": "ok"}}]]);
    let script =
        json!({"do": looks, "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]], "act": [[{"patch": PATCH}]]});
    std::fs::write(lab.env.dir.join("script.json"), script.to_string()).unwrap();
    let agent = json!({"type": "exec", "cmd": [scripted_agent(), lab.env.dir.join("script.json")]});
    lab.configure(|config| {
        for role in ["plan", "do", "check", "act"] {
            config["agents"][role] = agent.clone();
        }
        config["agents"]["worker"] = json!({"type": "exec", "cmd": ["/bin/sh", "-c", WORKER]});
    });
}

fn start(lab: &Lab) -> Vec<Running> {
    let env = &lab.env;
    let document = |name: &str, items: Vec<Value>| {
        std::fs::write(env.dir.join(name), Value::from(items).to_string()).unwrap();
        env.at(name)
    };
    let mut running = Vec::new();
    for agent in Agent::ALL {
        let file = document(&format!("{}.json", agent.name()), vec![item(agent.name(), agent, &json!({}))]);
        running.push(env.spawn(&["batch", &file]));
        eventually("it is under way", || env.json(&["runs"]).as_array().unwrap().len() == running.len());
    }
    for batch in 0..OF_EACH {
        let ids: Vec<String> = (0..3).map(|n| format!("b{batch}-{n}")).collect();
        let items = ids.iter().enumerate().map(|(n, id)| {
            json!({"id": id, "agent_id": "worker", "description": format!("do {id}"),
                "dependencies": ids[..n].iter().take(1).collect::<Vec<_>>()})
        });
        running.push(env.spawn(&["batch", &document(&format!("b{batch}.json"), items.collect())]));
    }
    for n in 0..OF_EACH {
        env.norma(&["task", "add", &format!("loop {n}"), "--ac", "the tests pass"]).success();
        running.push(env.spawn(&["run", &(n + 1).to_string()]));
    }
    running
}

/// What a run makes is put on the branch by one commit, its own or that of the merge.
fn each_is_there_once(lab: &Lab) {
    let made = |path: &str, content: &str| {
        assert_eq!(lab.env.read(path), content, "{path}");
        let commits = lab.env.git(&["log", "--format=%h", "--diff-filter=A", "--", path]);
        assert_eq!(commits.lines().count(), 1, "{path}: {commits}");
    };
    for agent in Agent::ALL {
        made(&format!("{}.txt", agent.name()), "done\n");
    }
    for id in (0..OF_EACH).flat_map(|batch| (0..3).map(move |n| format!("b{batch}-{n}"))) {
        made(&format!("{id}.txt"), &format!("{id}\n"));
    }
    let loops = lab.env.git(&["ls-files", "loop-*.txt"]);
    assert_eq!(loops.lines().count(), OF_EACH, "{loops}");
    loops.lines().for_each(|path| made(path, "mended\n"));
}
