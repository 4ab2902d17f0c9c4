//! Intents: what is asked, what is kept of it and given again, and everything that is refused on the way. The agent is a
//! script here that answers with a file of the repository, and in the last tests the real `opencode` with a scripted model.

use crate::environment::TestEnvironment;
use crate::real::{Agent, answer, lab};
use scripted_model::{Options, Server, Step};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What a new environment compiles.
const INTENT: &str = r#"{"goal":"make two loud","inputs":{"file":"src/lib.txt","times":1},"constraints":{}}"#;

/// The same in another spelling.
const SAME_INTENT: &str =
    r#"{ "constraints": {}, "inputs": {"times": 1.0, "file": "src/\u006cib.txt"}, "goal": "make two loud" }"#;

/// Answers as `agents/answer.json` says, and as `agents/after.sh` does.
const COMPILER: &str = r#"#!/bin/sh
while IFS= read -r line; do :; done
. agents/after.sh
while IFS= read -r line || [ -n "$line" ]; do printf '%s\n' "$line"; done < agents/answer.json
"#;

fn compiled() -> Value {
    json!({
        "plan": {"nodes": [
            {"id": "edit", "kind": "compute", "deps": [], "budget": {"minutes": 1.0}},
            {"id": "check", "kind": "io", "deps": ["edit"]},
        ]},
        "patch": {"files": [{"path": "src/lib.txt", "diff": crate::environment::PATCH}]},
        "tests": ["grep -q TWO src/lib.txt"],
    })
}

/// An environment whose agent `compiler` answers with this result.
fn with_answer(result: &Value) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write("agents/compiler.sh", COMPILER);
    env.write("agents/after.sh", "");
    env.git(&["update-index", "--add", "--chmod=+x", "agents/compiler.sh"]);
    std::fs::set_permissions(env.root.join("agents/compiler.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    answers(&env, result);
    env.write("intent.json", INTENT);
    env.configure(|config| {
        config["agents"] = json!({"compiler": {"type": "exec", "cmd": ["./agents/compiler.sh"]}});
    });
    env
}

/// Has the agent answer with another result from now on.
fn answers(env: &TestEnvironment, result: &Value) {
    let answer = json!({"version": 1, "status": "ok", "summary": "compiled", "result": result});
    env.write("agents/answer.json", &answer.to_string());
    env.commit("an answer");
}

const RECORD: [&str; 7] = ["intent", "compile", "intent.json", "--agent", "compiler", "--mode", "record"];
const REPLAY: [&str; 3] = ["intent", "compile", "intent.json"];

/// The recordings that are there.
fn recordings(env: &TestEnvironment) -> Vec<PathBuf> {
    let dir = env.root.join(".norma/recordings");
    let found = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    found.collect()
}

fn runs(env: &TestEnvironment) -> usize {
    env.json(&["runs"]).as_array().unwrap().len()
}

#[test]
fn what_is_no_intent_is_refused_with_every_violation_and_nothing_is_written() {
    let env = with_answer(&compiled());
    env.write("bad.json", r#"{"goal":"","inputs":[],"more":1}"#);
    for mode in ["replay", "record", "live"] {
        let refused = env.norma(&["intent", "compile", "bad.json", "--agent", "compiler", "--mode", mode]);
        refused.exits(2);
        for problem in ["/goal: ", "/inputs: ", "/more: ", "\"constraints\""] {
            assert!(refused.raw_err.contains(problem), "{problem} is not in {refused}");
        }
    }
    env.norma(&["intent", "compile", "nowhere.json"]).exits(2);
    env.norma(&[&RECORD[..], &["--agent", "nobody"]].concat()).exits(2);
    assert_eq!((recordings(&env), runs(&env)), (Vec::new(), 0));
}

#[test]
fn without_a_recording_a_replay_asks_nobody_and_says_what_to_do() {
    let env = with_answer(&compiled());
    let refused = env.norma(&REPLAY);
    refused.exits(1);
    assert!(refused.raw_err.contains("no recording with key "), "{refused}");
    assert!(refused.raw_err.contains("--mode record"), "{refused}");
    assert_eq!(runs(&env), 0);
}

#[test]
fn a_compile_is_a_run_and_its_recording_gives_the_same_bytes_again() {
    let env = with_answer(&compiled());
    let before = env.repository();
    let first = env.norma(&[&RECORD[..], &["-o", "out.json", "--json"]].concat());
    first.success();
    let output: Value = serde_json::from_str(&first.raw).unwrap();
    let keys: Vec<&String> = output.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["patch", "plan", "tests", "transcript"]);
    assert_eq!(output["patch"], compiled()["patch"]);
    assert_eq!(env.read("out.json"), first.raw);
    let run = env.last();
    assert_eq!((&run["status"], &run["goal"]), (&json!("succeeded"), &json!("compile the intent: make two loud")));
    assert_eq!(output["transcript"]["run_id"], run["run_id"]);
    assert_eq!(output["transcript"]["agent"], "exec");
    let request = env.read(&format!("{}/submitted/document.json", run["run_dir"].as_str().unwrap()));
    let [recording] = &recordings(&env)[..] else { panic!("one recording") };
    let key = contract::hash::sha256(request.as_bytes()).to_string();
    assert_eq!(recording.file_stem().unwrap().to_str(), Some(key.as_str()));
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();

    env.write("intent.json", SAME_INTENT);
    answers(&env, &json!("something else"));
    assert_eq!(env.norma(&[&REPLAY[..], &["--json"]].concat()).success().raw, first.raw);
    assert_eq!(runs(&env), 1, "a replay starts nothing");
    let shown = env.norma(&REPLAY);
    for part in
        [&key, "mode replay", "edit (compute), check (io)", "patch: src/lib.txt", "evidence: .norma/runs/", "next: "]
    {
        assert!(shown.success().raw.contains(part), "{part} is not in {shown}");
    }
    env.norma(&[&REPLAY[..], &["--seed", "2"]].concat()).exits(1);
    env.norma(&[&REPLAY[..], &["--schema-version", "1"]].concat()).exits(1);
    assert_eq!(env.repository()["src/lib.txt"], before["src/lib.txt"]);
}

#[test]
fn the_diff_of_a_session_is_the_patch_that_came_of_it() {
    let env = with_answer(&compiled());
    let output = env.json(&[&RECORD[..6], &["live"]].concat());
    assert_eq!(recordings(&env), Vec::<PathBuf>::new(), "live answers are evidence of their run only");
    let session = output["transcript"]["session_id"].as_str().unwrap();
    assert_eq!(env.norma(&["intent", "diff", session]).success().raw, crate::environment::PATCH);
    assert_eq!(env.json(&["intent", "diff", session]), compiled()["patch"]);
    let unknown = env.json(&["intent", "diff", "ses_nobody"]);
    assert_eq!(
        (&unknown["code"], &unknown["error"]),
        (&json!(2), &json!("there is no session \"ses_nobody\" on record"))
    );
    let output = env.root.join(env.last()["run_dir"].as_str().unwrap()).join("steps/001-worker/output.json");
    std::fs::write(&output, std::fs::read_to_string(&output).unwrap().replace("TWO", "BAD")).unwrap();
    env.norma(&["intent", "diff", session]).exits(5);
}

#[test]
fn a_recording_that_was_touched_is_refused() {
    let env = with_answer(&compiled());
    env.norma(&RECORD).success();
    let [recording] = &recordings(&env)[..] else { panic!("one recording") };
    let whole = std::fs::read_to_string(recording).unwrap();
    for touched in [whole.replace("+TWO", "+BAD"), whole[..whole.len() / 2].to_owned(), String::new()] {
        std::fs::write(recording, touched).unwrap();
        let refused = env.norma(&REPLAY);
        refused.exits(5);
        assert!(refused.raw_err.contains("was changed after it was recorded, so it is not used"), "{refused}");
        assert_eq!(refused.raw, "");
    }
}

#[test]
fn an_answer_that_means_nothing_fails_with_every_reason_and_the_recording_stays() {
    let env = with_answer(&compiled());
    let first = env.norma(&[&RECORD[..], &["--json"]].concat());
    let kept = std::fs::read(&recordings(&env)[0]).unwrap();
    let mut bad = compiled();
    bad["plan"]["nodes"][0]["deps"] = json!(["check", "nobody"]);
    bad["patch"]["files"][0]["path"] = json!("../outside");
    answers(&env, &bad);
    for mode in ["record", "live"] {
        let failed = env.norma(&[&RECORD[..6], &[mode, "-o", "out.json"]].concat());
        failed.exits(1);
        for problem in
            ["these nodes wait for each other: edit → check → edit", "no node \"nobody\"", "/patch/files/0/path: "]
        {
            assert!(failed.raw_err.contains(problem), "{problem} is not in {failed}");
        }
        let run = env.last();
        assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("protocol_error")));
        assert!(!env.root.join("out.json").exists());
    }
    assert_eq!(recordings(&env).len(), 1);
    assert_eq!(std::fs::read(&recordings(&env)[0]).unwrap(), kept);
    assert_eq!(env.norma(&[&REPLAY[..], &["--json"]].concat()).success().raw, first.raw);

    let mut other = compiled();
    other["tests"] = json!([]);
    answers(&env, &other);
    env.norma(&RECORD).success();
    assert_eq!(env.json(&REPLAY)["tests"], json!([]), "a new recording takes the place of the old one");
}

#[test]
fn an_agent_that_fails_or_changes_something_compiles_nothing() {
    let env = with_answer(&compiled());
    for (script, reason) in [("exit 3", "agent_failed"), ("echo more > README.md", "policy_violation")] {
        env.write("agents/after.sh", script);
        env.commit("another agent");
        env.norma(&RECORD).exits(1);
        assert_eq!(env.last()["reason"], reason, "{script}");
        assert_eq!(env.read("README.md"), "hello\n");
    }
    assert_eq!(recordings(&env), Vec::<PathBuf>::new());
}

#[test]
fn what_cannot_be_kept_is_no_success_although_the_run_is_there() {
    let env = with_answer(&compiled());
    // A file where the directory should be: what a full or read-only disk comes to, for root too.
    env.write(".norma/recordings", "");
    let failed = env.norma(&[&RECORD[..], &["-o", "out.json", "--json"]].concat());
    failed.exits(4);
    assert!(failed.raw.contains("\"error\":\"could not create "), "{failed}");
    assert!(!env.root.join("out.json").exists());
    assert_eq!(env.last()["status"], "succeeded");
    env.norma(&["verify", "@last"]).success();
    env.norma(&REPLAY).exits(4);
}

#[test]
fn a_compile_that_was_interrupted_goes_on_when_it_is_asked_for_again() {
    let env = with_answer(&compiled());
    env.write("agents/after.sh", &format!("touch '{0}'; [ -e '{1}' ] || sleep 60\n", env.at("started"), env.at("go")));
    env.commit("an agent that waits");
    env.configure(|config| {
        config["agents"] = json!({"compiler": {"type": "exec", "cmd": ["./agents/compiler.sh"]}});
        config["sandbox"] = json!({"backend": "none"});
    });
    let running = env.spawn(&RECORD);
    env.wait_for("started");
    running.signal("INT");
    let interrupted = running.wait();
    interrupted.exits(130);
    assert!(interrupted.raw_err.contains("run the same command again to continue it"), "{interrupted}");
    assert_eq!(recordings(&env), Vec::<PathBuf>::new());
    env.touch("go");
    env.norma(&RECORD).success();
    assert_eq!((runs(&env), recordings(&env).len()), (1, 1));
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn an_intent_may_come_from_stdin() {
    let env = with_answer(&compiled());
    env.norma(&RECORD).success();
    let replayed = std::process::Command::new(env!("CARGO_BIN_EXE_norma"))
        .args(["intent", "compile", "-", "--json"])
        .current_dir(&env.root)
        .env_clear()
        .envs(&env.env)
        .stdin(std::fs::File::open(env.root.join("intent.json")).unwrap())
        .output()
        .unwrap();
    assert!(replayed.status.success(), "{replayed:?}");
    assert_eq!(String::from_utf8(replayed.stdout).unwrap(), env.norma(&[&REPLAY[..], &["--json"]].concat()).raw);
    env.norma(&["intent", "compile", "-"]).exits(2);
}

#[test]
fn health_says_what_is_missing_and_what_to_do() {
    let env = with_answer(&compiled());
    let good = env.json(&["intent", "health", "--agent", "compiler"]);
    assert_eq!(good["agent"], "compiler");
    let bad = env.json(&["intent", "health"]);
    env.norma(&["intent", "health"]).exits(4);
    assert_eq!((&bad["ok"], &bad["agent"]), (&json!(false), &json!("opencode")));
    let agent = bad["checks"].as_array().unwrap().iter().find(|check| check["name"] == "agent").unwrap();
    assert_eq!(agent["message"], "opencode: not installed");
    assert!(agent["fix"].is_string(), "{bad:#}");
    env.norma(&["intent", "health", "--agent", "nobody"]).exits(2);
    env.write(".norma/config.json", r#"{"budgets":{"max_iterations":1},"agents":{}}"#);
    let untrusted = env.json(&["intent", "health"]);
    assert_eq!((&untrusted["ok"], &untrusted["checks"][0]["status"]), (&json!(false), &json!("fail")));
}

#[test]
fn opencode_compiles_an_intent_and_its_recording_needs_neither_it_nor_its_model() {
    let more = json!({"result": compiled()});
    let Some(mut lab) = lab(&[Agent::Opencode], Vec::from(answer(&more))) else { return };
    lab.env.write("intent.json", &INTENT.replace("make two loud", "SCN=it make two loud"));
    assert_eq!(lab.env.json(&["intent", "health"])["ok"], true);
    let first = lab.env.norma(&[&REPLAY[..], &["--mode", "record", "--json"]].concat());
    first.success();
    let output: Value = serde_json::from_str(&first.raw).unwrap();
    let run = lab.env.last();
    let transcript = &output["transcript"];
    assert_eq!((&transcript["agent"], &transcript["model"]), (&json!("opencode"), &run["steps"][0]["model"]));
    assert_eq!(transcript["session_id"], run["steps"][0]["session_id"]);
    let session = transcript["session_id"].as_str().unwrap();
    assert!(transcript["text"].as_str().unwrap().contains(&format!("\nSession {session}")), "{transcript}");
    let kept: Value = serde_json::from_slice(&std::fs::read(lab.step().join("output.json")).unwrap()).unwrap();
    assert_eq!(kept["result"], compiled());
    lab.env.norma(&["verify", "@last"]).success();

    lab.env.env.retain(|name, _| !name.ends_with("_API_KEY"));
    let failed = lab.env.norma(&[&REPLAY[..], &["--mode", "record", "--json"]].concat());
    failed.exits(1);
    assert_eq!(lab.env.last()["reason"], "sign_in_failed");
    assert!(!failed.raw.contains("\"plan\""), "what is recorded does not stand in for an answer: {failed}");

    let asked = lab.server.requests().len();
    assert_eq!(lab.env.norma(&[&REPLAY[..], &["--json"]].concat()).success().raw, first.raw);
    assert_eq!(lab.server.requests().len(), asked, "a replay asks no model");
    lab.server = Server::start(Options::default()).unwrap();
    lab.env.configure(|config| config["agents"] = json!({}));
    assert_eq!(lab.env.norma(&[&REPLAY[..], &["--json"]].concat()).success().raw, first.raw);
    assert_eq!(lab.env.norma(&["intent", "diff", session]).success().raw, crate::environment::PATCH);
}

#[test]
fn an_answer_of_opencode_that_is_none_is_asked_for_once_more() {
    let script = vec![Step::Text("I would rather not.".to_owned())];
    let Some(lab) = lab(&[Agent::Opencode], script) else { return };
    lab.env.write("intent.json", &INTENT.replace("make two loud", "SCN=it make two loud"));
    lab.env.norma(&[&REPLAY[..], &["--mode", "record"]].concat()).exits(1);
    let run = lab.env.last();
    assert_eq!((&run["reason"], run["steps"].as_array().unwrap().len()), (&json!("protocol_error"), 2));
    assert_eq!(recordings(&lab.env), Vec::<PathBuf>::new());
}
