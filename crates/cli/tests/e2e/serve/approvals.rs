//! Approvals over HTTP, from the question to the end of the run: a command of an agent that waits for its answer, a change
//! that waits to land, who answered, and what becomes of those who ask the same, too late, or twice.

use super::client::{Served, serve, serve_at};
use crate::acp::{COMMAND, with_request};
use crate::batches::{item, with_worker};
use crate::environment::{TestEnvironment, eventually};
use serde_json::{Value, json};

const ADA: &str = "Ada <ada@example.org>";

fn pending(served: &Served) -> Vec<Value> {
    served.get("/api/approvals")["approvals"].as_array().unwrap().clone()
}

/// The approvals that are asked for, once there are so many.
fn asked(served: &Served, count: usize) -> Vec<Value> {
    eventually("somebody is asked", || pending(served).len() >= count);
    pending(served)
}

fn resolve(served: &Served, asked: &Value, resolution: Value) -> super::client::Answer {
    let path = format!("/api/approvals/{}/resolve", asked["approvalId"].as_str().unwrap());
    served.ask("POST", &path, Some(&json!({ "resolution": resolution })))
}

fn start(served: &Served, items: &[Value]) -> String {
    let run = served.ask("POST", "/api/runs", Some(&json!({"batch": items}))).with(201)["run"].clone();
    run["id"].as_str().unwrap().to_owned()
}

fn work_item(id: &str) -> Value {
    json!({"id": id, "agent_id": "worker", "description": "make it"})
}

#[track_caller]
fn ends(served: &Served, id: &str, status: &str) -> Value {
    let path = format!("/api/runs/{id}");
    eventually("the run has come to its end", || {
        matches!(served.get(&path)["run"]["status"].as_str(), Some("completed" | "failed"))
    });
    let run = served.get(&path)["run"].clone();
    assert_eq!(run["status"], status, "{run:#}");
    run
}

#[test]
fn a_command_that_is_approved_runs_and_its_run_completes() {
    let env = with_request(COMMAND);
    let served = serve(&env);
    let id = start(&served, &[work_item("a")]);
    let mut watching = served.watch(&format!("runId={id}&since=0"));
    let asked = asked(&served, 1).remove(0);
    let args = &asked["tool"]["args"];
    assert_eq!((&args["cmd"], &args["argv"]), (&json!(COMMAND), &json!(["cp", "README.md", "made.txt"])), "{asked}");
    assert!(args["cwd"].is_string(), "{asked}");
    assert_eq!((&asked["runId"], &asked["alike"]), (&json!(id), &json!([asked["approvalId"]])));
    let graph = served.get(&format!("/api/runs/{id}"))["run"].clone();
    let node = &graph["nodes"][asked["nodeId"].as_str().unwrap()];
    assert_eq!((&node["status"], &node["permissions"]["cliPermissionsMode"]), (&json!("blocked"), &json!("gated")));
    let resolved = resolve(&served, &asked, json!({"status": "approved", "reason": "looked at it"})).with(200);
    assert_eq!((&resolved["approvalId"], &resolved["resolution"]["by"]), (&asked["approvalId"], &json!(ADA)));
    resolve(&served, &asked, json!({"status": "denied"})).with(409);
    ends(&served, &id, "completed");
    assert_eq!(env.read("made.txt"), "hello\n");
    let told = watching.until(|event| event["patch"]["status"] == "completed");
    let of = |kind: &str| told.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
    let (requests, answers) = (of("approval.requested"), of("approval.resolved"));
    assert_eq!((requests.len(), answers.len()), (1, 1), "each is told once");
    assert_eq!(requests[0]["tool"], asked["tool"]);
    assert_eq!(answers[0]["approvalId"], asked["approvalId"]);
    let on_record = &served.get("/api/approvals?all=1")["approvals"][0];
    assert_eq!((&on_record["state"], &on_record["by"]), (&json!("used"), &json!(ADA)));
    drop(served);
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_command_that_is_denied_does_not_run_and_another_is_taken_only_where_the_agent_can() {
    let env = with_request(COMMAND);
    let served = serve(&env);
    let id = start(&served, &[work_item("a")]);
    let asked = asked(&served, 1).remove(0);
    for args in [json!({"cmd": "cp README.md other.txt"}), json!({"argv": ["cp", "README.md", "other.txt"]})] {
        let refused = resolve(&served, &asked, json!({"status": "modified", "modifiedArgs": args})).with(409);
        assert!(refused["error"].as_str().unwrap().contains("nothing was granted"), "{refused}");
    }
    for (resolution, pointer) in [
        (json!({"status": "modified", "modifiedArgs": {"cmd": "ls", "argv": ["ls"]}}), "/resolution/modifiedArgs"),
        (json!({"status": "modified", "modifiedArgs": {}}), "/resolution/modifiedArgs"),
        (json!({"status": "modified"}), "/resolution/modifiedArgs"),
        (json!({"status": "modified", "modifiedArgs": {"cmd": "ls"}, "scope": "contract"}), "/resolution/scope"),
        (json!({"status": "approved", "modifiedArgs": {"cmd": "ls"}}), "/resolution/modifiedArgs"),
        (json!({"status": "approved", "scope": "always"}), "/resolution/scope"),
        (json!({"status": "denied", "scope": "contract"}), "/resolution/scope"),
    ] {
        let refused = resolve(&served, &asked, resolution.clone()).with(400);
        assert_eq!(refused["details"]["violations"][0]["pointer"], json!(pointer), "{resolution}: {refused}");
    }
    resolve(&served, &asked, json!({"status": "denied", "reason": "not here"})).with(200);
    ends(&served, &id, "completed");
    assert!(!env.root.join("made.txt").exists());
    let on_record = &served.get("/api/approvals?all=1")["approvals"][0];
    assert_eq!((&on_record["state"], &on_record["reason"]), (&json!("denied"), &json!("not here")));
}

#[test]
fn those_who_ask_the_same_are_grouped_and_an_approval_for_the_contract_holds_for_its_run() {
    let env = with_request(COMMAND);
    let served = serve(&env);
    let items = [work_item("a"), work_item("b")];
    let id = start(&served, &items);
    let both = asked(&served, 2);
    let ids = [&both[0]["approvalId"], &both[1]["approvalId"]];
    for one in &both {
        let alike = one["alike"].as_array().unwrap();
        assert!(alike.len() == 2 && ids.iter().all(|id| alike.contains(id)), "{one}");
        resolve(&served, one, json!({"status": "approved", "scope": "contract"})).with(200);
    }
    let run = ends(&served, &id, "completed");
    assert_eq!(run["nodes"].as_object().unwrap().len(), 2);
    let terms: Vec<Value> = served.get("/api/approvals?all=1")["approvals"].as_array().unwrap().clone();
    assert!(terms.iter().all(|asked| asked["terms"]["lasting"] == true), "{terms:?}");
    // Another run is another contract, and asks by itself.
    env.write("README.md", "hello again\n");
    env.commit("something else to copy");
    start(&served, &[work_item("c")]);
    let again = asked(&served, 1).remove(0);
    resolve(&served, &again, json!({"status": "denied"})).with(200);
}

#[test]
fn what_nobody_answers_in_time_cannot_be_answered_any_more() {
    let env = with_request(COMMAND);
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "acp", "cmd": ["sh", "agent.sh"]}});
        config["limits"] = json!({"approval_seconds": 1});
    });
    let served = serve(&env);
    let id = start(&served, &[work_item("a")]);
    let asked = asked(&served, 1).remove(0);
    assert!(asked["expiresAt"].is_string());
    ends(&served, &id, "completed");
    assert_eq!(pending(&served), Vec::<Value>::new());
    resolve(&served, &asked, json!({"status": "approved"})).with(409);
    assert!(!env.root.join("made.txt").exists());
}

/// A change that a person has to look at: its test fails as it was before, since the change edits it.
fn with_edited_test() -> (TestEnvironment, Value) {
    let env = with_worker("sed -i s/one/ONE/ src/lib.txt tests/t.sh");
    env.write("tests/t.sh", "grep -q one src/lib.txt\n");
    env.commit("a test");
    (env, item("a", json!({"test_commands": ["sh tests/t.sh"]})))
}

#[test]
fn a_change_that_is_approved_lands_whether_or_not_the_server_ended_in_between() {
    for is_restarted in [false, true] {
        let (env, item) = with_edited_test();
        let mut served = serve(&env);
        let id = start(&served, &[item]);
        let waits = |served: &Served| served.get(&format!("/api/runs/{id}"))["run"]["state"] == "waiting";
        eventually("it waits", || waits(&served));
        if is_restarted {
            let port = served.port();
            served.norma.signal("KILL");
            drop(served);
            served = serve_at(&env, port, &[]);
            assert!(waits(&served), "it waits as before");
        }
        let asked = asked(&served, 1).remove(0);
        assert!(asked["tool"]["args"]["reasons"].to_string().contains("edits tests/t.sh"), "{asked}");
        let diff = asked["tool"]["args"]["diff"].as_str().unwrap_or_default();
        assert!(diff.contains("-grep -q one src/lib.txt\n+grep -q ONE src/lib.txt\n"), "{asked}");
        resolve(&served, &asked, json!({"status": "approved"})).with(200);
        ends(&served, &id, "completed");
        assert!(env.read("tests/t.sh").contains("ONE"), "restarted: {is_restarted}");
        drop(served);
        env.norma(&["verify", "@last"]).success();
    }
}

#[test]
fn a_change_that_is_denied_lands_nowhere() {
    let (env, item) = with_edited_test();
    let served = serve(&env);
    let id = start(&served, &[item]);
    let asked = asked(&served, 1).remove(0);
    resolve(&served, &asked, json!({"status": "denied", "reason": "it is meant to be one"})).with(200);
    let run = ends(&served, &id, "failed");
    assert_eq!(run["state"], json!("denied"), "{run}");
    assert!(env.read("tests/t.sh").contains("one"));
}
