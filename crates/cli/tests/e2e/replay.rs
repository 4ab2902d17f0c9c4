//! Replays: on the evidence, with the tests, and by carrying a run out again.

use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use crate::sandbox::confining;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::{Layout, Reader};

/// Every byte below a directory.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut due) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(dir) = due.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => due.push(entry),
                false => drop(found.insert(entry.clone(), std::fs::read(&entry).unwrap())),
            }
        }
    }
    found
}

/// What the audit log says of replays.
fn on_record(env: &TestEnvironment) -> Vec<Value> {
    let lines = Reader::open(&Layout::new(&env.root, None)).unwrap().audit_lines().unwrap();
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "replayed").map(|mut line| line["payload"].take()).collect()
}

#[test]
fn a_run_is_replayed_any_number_of_times_without_a_byte_of_it_changing() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    let (dir, repository) = (env.run_dir(), env.repository());
    let sealed = files(&dir);
    insta::assert_snapshot!(env.norma(&["replay", "@last"]), @r"
    chain          ok     22
    columns        ok     22
    state machine  ok     22
    events.jsonl   ok     22
    evidence       ok     124
    seal           ok     1
    approvals      ok     1
    audit log      ok     1
    turns          ok     7
    patches        ok     1
    decisions      ok     3
    the same: run <run> judged again on its evidence
    report: .norma/replays/<run>/<time>-rehydrate.json
    [exit 0]
    ");
    for _ in 0..2 {
        env.norma(&["replay", &slug, "--rehydrate"]).success();
    }
    assert!(files(&dir) == sealed, "a byte of the run has changed");
    assert_eq!(env.repository(), repository);
    env.norma(&["verify", &slug]).success();
    let reports: Vec<(PathBuf, Vec<u8>)> = files(&env.root.join(".norma/replays").join(&slug)).into_iter().collect();
    let records = on_record(&env);
    assert_eq!((reports.len(), records.len()), (3, 3));
    for ((path, bytes), record) in reports.iter().zip(&records) {
        assert!(path.display().to_string().ends_with("Z-rehydrate.json"), "{}", path.display());
        let report = contract::hash::sha256(bytes).to_string();
        let expected = json!({"run_id": slug, "mode": "rehydrate", "status": "pass", "report": report});
        assert_eq!(*record, expected);
        let report: Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!((&report["schema"], &report["status"]), (&json!("replay_report.v1"), &json!("pass")));
    }
    env.norma(&["reindex"]).success();
}

#[test]
fn whatever_came_of_a_loop_it_is_judged_the_same_again() {
    let scripts = [
        json!({"plan": [[{"respond": {"version": 1, "status": "fail", "summary": "no"}}]]}),
        json!({"plan": [[{"print": "nonsense"}]]}),
        json!({"plan": [[{"exit": 3}]]}),
        json!({"check": [[{"verdict": {"verdict": "PASS", "evidence": "nowhere.log"}}]]}),
        json!({"check": [[{"verdict": "FAIL"}]], "act": [[{"patch": PATCH.replace("-two", "-deux")}]]}),
        json!({"check": [[{"verdict": "FAIL"}]], "act": [[{"patch": PATCH.replace("src/lib.txt", ".github/x")}]]}),
        json!({"check": [[{"verdict": "FAIL"}]], "plan": [[{"print_bytes": 2_000_000}]]}),
    ];
    for script in scripts {
        let env = TestEnvironment::new(script.clone());
        env.configure(|config| config["limits"] = json!({"output_mb": 1}));
        assert_ne!(env.norma(&["run", "1"]).code(), Some(4), "{script}");
        let replayed = env.norma(&["replay", "@last"]);
        assert_eq!(replayed.code(), Some(0), "{script}: {replayed}");
    }
}

#[test]
fn what_is_changed_of_the_evidence_is_named_and_nothing_of_it_is_run() {
    let cases = [
        ("steps/003-check/verdict.json", "FAIL", "PASS", "gate verdict"),
        ("steps/001-plan/logs/stdout.txt", "did", "Did", "gate output: steps/001-plan: summary is"),
        ("changes/001/gates.json", "true", "false", "changes/001/gates.json is not what follows from the evidence"),
        ("changes/001/patch.diff", "+TWO", "+TOO", "changes/001/patch.diff is not what follows from the evidence"),
        ("steps/004-act/patch.diff", "+TWO", "+TOO", "gate patch: after is"),
        ("patch.diff", "+TWO", "+TOO", "patch.diff is not what the run changed"),
    ];
    for (path, from, to, expected) in cases {
        let env = TestEnvironment::with_patch(PATCH);
        env.norma(&["run", "1"]).success();
        let changed = env.run_dir().join(path);
        let text = std::fs::read_to_string(&changed).unwrap();
        assert!(text.contains(from), "{path}: {text}");
        std::fs::write(&changed, text.replace(from, to)).unwrap();
        let replayed = env.norma(&["replay", "@last"]);
        assert!(replayed.exits(5).raw.contains(expected), "{path}: {replayed}");
        assert!(replayed.raw.contains("NOT the same"), "{replayed}");
        let runs = env.json(&["runs"]);
        for mode in ["--reverify", "--reexec"] {
            let refused = env.norma(&["replay", "@last", mode]);
            assert!(
                refused.exits(5).raw_err.contains("it does not verify, so nothing of it was run again"),
                "{refused}"
            );
        }
        assert_eq!(env.json(&["runs"]), runs);
    }
}

#[test]
fn a_batch_is_replayed_in_every_way() {
    let Some(_) = confining() else { return };
    let env = with_worker("echo \"$id\" > \"made-$id\"");
    let test = |id: &str| json!({"test_command": format!("grep -q {id} made-{id}")});
    batch(&env, &[item("a", test("a")), item("b", test("b"))], 0);
    let (slug, dir) = (env.last()["run_id"].as_str().unwrap().to_owned(), env.run_dir());
    let (sealed, repository) = (files(&dir), env.repository());
    for mode in ["--rehydrate", "--reverify", "--reexec"] {
        for _ in 0..2 {
            let replayed = env.json(&["replay", &slug, mode]);
            assert_eq!((&replayed["run_id"], &replayed["status"]), (&json!(slug), &json!("pass")), "{replayed}");
            let report = std::fs::read(env.root.join(replayed["path"].as_str().unwrap())).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&report).unwrap(), replayed["report"]);
        }
    }
    assert!(files(&dir) == sealed, "a byte of the run has changed");
    assert_eq!(env.repository(), repository, "nothing lands");
    let modes: Vec<Value> = on_record(&env).iter().map(|record| record["mode"].clone()).collect();
    assert_eq!(modes, ["rehydrate", "rehydrate", "reverify", "reverify", "reexec", "reexec"]);
    env.norma(&["verify", &slug]).success();
    let again = env.last();
    assert_eq!((&again["status"], &again["landing"]), (&json!("succeeded"), &Value::Null));
    let again = again["run_id"].as_str().unwrap();
    env.norma(&["verify", again]).success();
    let landed = env.norma(&["land", again]);
    assert!(landed.exits(1).raw_err.contains("only to be compared with"), "{landed}");
}

#[test]
fn a_tool_that_has_changed_is_found_by_running_the_tests_again() {
    let mut env = with_worker("echo hello > made");
    let tool = |script: &str| {
        std::fs::create_dir_all(env.dir.join("bin")).unwrap();
        let path = env.dir.join("bin/judge");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    tool("exit 0");
    let path = format!("{}:{}", env.at("bin"), env.env["PATH"]);
    env.env.insert("PATH".into(), path);
    batch(&env, &[item("a", json!({"test_command": "judge"}))], 0);
    env.norma(&["replay", "@last", "--reverify"]).success();
    let path = env.dir.join("bin/judge");
    std::fs::write(path, "#!/bin/sh\necho 'I see it differently' >&2\nexit 1\n").unwrap();
    insta::assert_snapshot!(env.norma(&["replay", "@last", "--reverify"]), @r"
    chain          ok     8
    columns        ok     8
    state machine  ok     8
    events.jsonl   ok     8
    evidence       ok     60
    seal           ok     1
    approvals      ok     1
    audit log      ok     1
    patches        ok     1
    gates          FAILED 1
                   event 5: gate tests: on record it passed, now it refused it (test_command: exit code 1: I see it differently)
    tests          FAILED 1
                   event 5: gate tests: test test_command was PASS and is FAIL now: exit code 1: I see it differently
                   note: test test_command was started with another program than $DIR/bin/judge as it is now
    NOT the same: run <run> with its patches applied and its tests run again
    report: .norma/replays/<run>/<time>-reverify.json
    [exit 5]
    ");
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_loop_carried_out_again_is_compared_and_leaves_its_task_and_the_branch_alone() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    let (task, repository) = (env.json(&["task", "show", "1"]), env.repository());
    env.norma(&["replay", &slug, "--reexec"]).success();
    let script = json!({
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
        "act": [[{"patch": PATCH.replace("+TWO", "+too")}]],
    });
    std::fs::write(env.dir.join("script.json"), script.to_string()).unwrap();
    let replayed = env.json(&["replay", &slug, "--reexec"]);
    let hard = replayed["report"]["hard_diffs"].as_array().unwrap();
    let keys: Vec<&str> = hard.iter().map(|difference| difference["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["change/001/patch", "patch", "tree"]);
    env.norma(&["replay", &slug, "--reexec"]).exits(5);
    assert_eq!(env.json(&["task", "show", "1"]), task);
    assert_eq!(env.repository(), repository);
}

#[test]
fn what_cannot_be_replayed_is_said_with_what_to_do() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["replay", "@last"]).exits(2);
    env.norma(&["run", "1"]).success();
    env.norma(&["replay", "@last", "--reverify", "--reexec"]).exits(2);
    let policy = env.root.join(".norma/policies/protected_paths.json");
    let text = std::fs::read_to_string(&policy).unwrap();
    let other = text.replacen("\"reason\": \"", "\"reason\": \"as before: ", 1);
    assert_ne!(other, text);
    std::fs::write(&policy, other).unwrap();
    let refused = env.norma(&["replay", "@last"]);
    assert!(refused.exits(4).raw_err.contains("was started under other policies than the current ones"), "{refused}");
    std::fs::write(&policy, text).unwrap();
    env.norma(&["replay", "@last"]).success();
    env.script_unconfined(json!({"plan": [[{"write_abs": {"path": env.at("started"), "content": ""}}, "hang"]]}));
    let running = env.spawn(&["run", "1", "--new"]);
    env.wait_for("started");
    running.signal("INT");
    running.wait().exits(130);
    let refused = env.norma(&["replay", "@last"]);
    assert!(refused.exits(1).raw_err.contains("only a run that has ended can be replayed"), "{refused}");
}

/// In a user namespace that may make no other one, with every capability given up.
#[test]
fn without_a_sandbox_a_run_is_judged_again_but_nothing_of_it_is_started() {
    let Some(_) = confining() else { return };
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    for (mode, code) in [("--rehydrate", 0), ("--reverify", 4), ("--reexec", 4)] {
        let norma = env!("CARGO_BIN_EXE_norma");
        let script = format!(
            "echo 0 > /proc/sys/user/max_user_namespaces &&
             exec setpriv --bounding-set -all --inh-caps -all --ambient-caps -all '{norma}' replay @last {mode}"
        );
        let mut command = std::process::Command::new("unshare");
        command.args(["-Ur", "sh", "-c", &script]).current_dir(&env.root).env_clear().envs(&env.env);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
