//! The bundle of a run: complete, truthful, sealed to the last byte, and with scripts that show each change again.

use crate::environment::TestEnvironment;
use contract::json::schema::Schema;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What seed documents ask a bundle to have, for a run with these items.
const FILES: [&str; 26] = [
    "contract.json",
    "manifest.json",
    "events.jsonl",
    "patch.diff",
    "diff_name_only.txt",
    "meta.json",
    "worktree_ref.txt",
    "reports/task_result.json",
    "reports/review_report.json",
    "reports/test_report.json",
    "reports/evidence_bundle.json",
    "reports/evidence_report.json",
    "reports/work_report.json",
    "tasks/alpha.json",
    "results/alpha/result.json",
    "results/alpha/patch.diff",
    "ci/alpha/test_report.json",
    "patches/alpha.diff",
    "git/baseline_commit.txt",
    "git/patch.diff",
    "git/diff_name_only.txt",
    "tests/command.txt",
    "tests/stderr.log",
    "tests/stdout.log",
    "trace/trace_id.txt",
    "proof/replay-alpha.sh",
];

/// A repository with an agent that adds a file named after its step.
fn environment() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    let file = json!({"path": "src/made-{index}.txt", "content": "made by step {index}\n"});
    env.script(json!({"worker": [[{"append_repo": file}]]}));
    env.configure(|config| {
        let agent = config["agents"]["plan"].clone();
        config["agents"]["agent-1"] = agent;
    });
    env
}

fn item(id: &str, more: Value) -> Value {
    let mut item = json!({"id": id, "agent_id": "agent-1", "description": format!("Make {id}")});
    for (name, value) in more.as_object().unwrap() {
        item[name] = value.clone();
    }
    item
}

/// One that lands with a passing test, one whose test fails, one that waits for it, one that must not change anything,
/// and one more that lands.
fn batch() -> TestEnvironment {
    let env = environment();
    let items = json!([
        item("alpha", json!({"test_command": "grep -c one src/lib.txt"})),
        item("beta", json!({"test_command": "grep -c nothing src/lib.txt"})),
        item("gamma", json!({"dependencies": ["beta"]})),
        item("delta", json!({"read_only": true})),
        item("epsilon.2", json!({})),
    ]);
    env.write("items.json", &items.to_string());
    env.norma(&["batch", "items.json", "--jobs", "1"]).exits(1);
    env
}

fn document(dir: &Path, path: &str) -> Value {
    let bytes = std::fs::read(dir.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[track_caller]
fn check(schema: &str, what: &str, document: &Value) {
    let schema = Schema::compile(contract::schema::built_in(schema).unwrap().as_bytes()).unwrap();
    assert_eq!(schema.violations(document), [], "{what}: {document:#}");
}

/// Every file below a directory, by its path there.
fn files(dir: &Path) -> Vec<String> {
    let (mut found, mut waiting) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = waiting.pop() {
        for entry in std::fs::read_dir(dir.join(&below)).unwrap().flatten() {
            let path = below.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(path),
                false => found.push(path.to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// The schema that a file of a bundle is checked against.
fn schema_of(path: &str) -> Option<String> {
    let report = path.strip_prefix("reports/").and_then(|name| name.strip_suffix(".json"));
    let name = match path {
        "manifest.json" => "run_manifest",
        path if path.starts_with("results/") && path.ends_with("result.json") => "task_result",
        path if path.starts_with("reviews/") => "review_report",
        path if path.starts_with("ci/") => "test_report",
        "receipts/BATCH_RECEIPT.json" => "batch_receipt",
        path if path.ends_with("/RECEIPT.json") => "receipt",
        _ => report?,
    };
    Some(format!("{name}.v1.json"))
}

#[test]
fn every_document_of_a_bundle_is_there_and_fits_its_schema() {
    let env = batch();
    let dir = env.run_dir();
    let there = files(&dir);
    for file in FILES {
        assert!(there.iter().any(|path| path == file), "{file} is not there: {there:#?}");
    }
    for path in &there {
        if let Some(schema) = schema_of(path) {
            check(&schema, path, &document(&dir, path));
        }
    }
    for line in std::fs::read_to_string(dir.join("events.jsonl")).unwrap().lines() {
        check("orchestrator_event.v1.json", "events.jsonl", &serde_json::from_str(line).unwrap());
    }
    let listed: BTreeSet<String> =
        document(&dir, "manifest.json")["evidence_hashes"].as_object().unwrap().keys().cloned().collect();
    let expected = there.into_iter().filter(|path| path != "manifest.json" && path != "seal.dsse.json");
    assert_eq!(listed, expected.collect());
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_bundle_says_what_happened_and_what_did_not() {
    let env = batch();
    let dir = env.run_dir();
    let status = |task: &str| document(&dir, &format!("results/{task}/result.json"))["status"].clone();
    let found = ["alpha", "beta", "gamma", "delta", "epsilon.2"].map(status);
    assert_eq!(found, ["SUCCESS", "FAILED", "BLOCKED", "FAILED", "SUCCESS"]);
    assert_eq!(document(&dir, "ci/alpha/test_report.json")["status"], "PASS");
    assert_eq!(document(&dir, "ci/beta/test_report.json")["status"], "FAIL");
    assert!(!dir.join("ci/delta").exists(), "no test of it was run");
    assert_eq!(document(&dir, "reports/test_report.json")["status"], "FAIL");
    assert_eq!(document(&dir, "reports/review_report.json")["summary"], "not requested");
    assert_eq!(document(&dir, "reports/evidence_report.json"), json!({"status": "ok", "missing": []}));
    let manifest = document(&dir, "manifest.json");
    assert_eq!((&manifest["status"], &manifest["tasks"][4]["status"]), (&json!("FAILURE"), &json!("BLOCKED")));
    assert_eq!(manifest["repo"]["final_ref"], json!(env.git(&["rev-parse", "HEAD"])));
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).unwrap();
    assert_eq!(read("git/baseline_commit.txt").trim(), env.git(&["rev-parse", "HEAD~2"]));
    assert_eq!(read("tests/stdout.log"), "1\n0\n", "the logs of all commands");
    let tasks = env.events().into_iter().filter(|event| event["type"] == "item_ended");
    let tasks: BTreeSet<String> = tasks.map(|event| event["task_id"].as_str().unwrap().to_owned()).collect();
    assert!(tasks.contains("gamma") && tasks.len() == 5, "{tasks:?}");
}

#[test]
fn a_changed_byte_of_any_file_of_a_bundle_is_found_and_named() {
    let env = batch();
    let dir = env.run_dir();
    for file in files(&dir) {
        let path = dir.join(&file);
        let bytes = std::fs::read(&path).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        std::fs::write(&path, changed).unwrap();
        let found = env.norma(&["verify", "@last"]);
        found.exits(5);
        assert!(found.raw.contains(&file), "{file}: {found}");
        std::fs::write(&path, bytes).unwrap();
    }
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn the_other_workflow_and_a_canceled_run_have_a_valid_bundle_too() {
    let env = TestEnvironment::with_patch(crate::environment::PATCH);
    env.norma(&["run", "1"]).success();
    let passed = env.run_dir();
    let running = crate::terminals::waiting_run(&env, &["run", "1", "--new"]);
    running.signal("INT");
    running.wait().exits(130);
    env.norma(&["cancel", "@last"]).success();
    for (dir, status, outcome) in [(passed, "SUCCESS", "SUCCESS"), (env.run_dir(), "FAILURE", "SKIPPED")] {
        for path in files(&dir) {
            if let Some(schema) = schema_of(&path) {
                check(&schema, &path, &document(&dir, &path));
            }
        }
        assert_eq!(document(&dir, "manifest.json")["status"], status);
        assert_eq!(document(&dir, "reports/task_result.json")["status"], outcome);
        assert_eq!(document(&dir, "reports/test_report.json")["status"], "SKIPPED");
    }
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn the_bundle_of_a_contract_has_its_answer_and_what_was_not_requested() {
    let (env, _) = with_contract();
    let answer = json!({"task_id": "task-hello-0001", "status": "SUCCESS", "summary": "done", "evidence_refs": {},
        "failure": null});
    env.norma(&["run", "contract.json"]).success();
    let dir = env.run_dir();
    assert_eq!(document(&dir, "artifacts/task-hello-0001.json"), answer);
    assert_eq!(document(&dir, "reviews/task-hello-0001.json")["verdict"], "BLOCKED");
    assert_eq!(document(&dir, "ci/task-hello-0001/test_report.json")["status"], "PASS");
    let result = document(&dir, "reports/task_result.json");
    assert_eq!(result["task_id"], "task-hello-0001");
    assert_eq!(result["producer"], json!({"role": "WORKER", "agent_id": "agent-1"}));
    assert_eq!(result["gates"]["tests_gate"], json!({"passed": true}));
    assert_eq!(document(&dir, "manifest.json")["status"], "SUCCESS");
    ended(&replay(&env, "task-hello-0001", &env.root), 0, "✅ Replay successful: hash verified");
    env.norma(&["verify", "@last"]).success();
}

/// The example contract of the repository, for an agent that does what it asks for.
fn with_contract() -> (TestEnvironment, String) {
    let env = environment();
    let answer = json!({"task_id": "task-hello-0001", "status": "SUCCESS", "summary": "done", "evidence_refs": {},
        "failure": null});
    let file = json!({"path": "src/made.txt", "content": "made\n"});
    env.script(json!({"worker": [[{"append_repo": file}, {"respond": {"result": answer}}]]}));
    env.configure(|config| {
        let agent = config["agents"]["plan"].clone();
        config["agents"]["agent-1"] = agent;
    });
    let mut contract: Value = serde_json::from_str(include_str!("../../../../contracts/task_contract.json")).unwrap();
    contract["required_outputs"] = json!([{"name": "patch.diff", "type": "patch", "acceptance": "It is there."}]);
    contract["allowed_paths"] = json!(["src/made.txt"]);
    contract["acceptance_tests"] = json!([{"name": "unit", "cmd": "grep -c made src/made.txt", "must_pass": true}]);
    // As a person writes it, and not as norma would.
    let text = format!("  {}\n\n", serde_json::to_string_pretty(&contract).unwrap());
    env.write("contract.json", &text);
    (env, text)
}

#[test]
fn the_contract_of_a_bundle_is_the_one_that_was_given() {
    let (env, given) = with_contract();
    env.norma(&["run", "contract.json"]).success();
    let dir = env.run_dir();
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).unwrap();
    assert_eq!(read("contract.json"), given);
    assert_eq!(document(&dir, "compiled_contract.json")["schema"], "contract.v1");
    assert_eq!(read("worktree_ref.txt"), format!("{}\n", env.root.display()), "where its agent saw its tree");
    let manifest = document(&dir, "manifest.json");
    let digest = contract::hash::sha256(given.as_bytes());
    assert_eq!(manifest["integrity"]["contract_sha256"], json!(digest));
    let binding = &manifest["role_binding_summary"];
    assert_eq!(
        (&binding["execution_authority"], &binding["source"]),
        (&json!("task_contract"), &json!("contract.json"))
    );
    assert_eq!(binding["runtime_binding"]["summary"]["runner"], "exec");
    // Whoever looks at the run is shown the same, for reading only.
    let shown: Value = serde_json::from_str(&env.norma(&["show", "@last", "--json"]).success().raw).unwrap();
    assert_eq!(&shown["role_binding_read_model"], binding);
    let case = &shown["workflow_case_read_model"];
    assert_eq!(&case["role_binding_summary"], binding);
    assert_eq!((&case["run_id"], &case["workflow_id"]), (&shown["run_id"], &shown["run_id"]));
    assert_eq!((&case["access"], &case["execution_authority"]), (&json!("read-only"), &json!("task_contract")));
    crate::receipts::verifies_elsewhere(&env);
    for (file, bytes) in [("contract.json", "{}"), ("compiled_contract.json", given.as_str())] {
        let before = read(file);
        std::fs::write(dir.join(file), bytes).unwrap();
        let found = env.norma(&["verify", "@last"]);
        assert!(found.exits(5).raw.contains(file), "{found}");
        std::fs::write(dir.join(file), before).unwrap();
    }
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

/// Without a sandbox an agent works in a directory that is there while it works.
#[test]
fn the_place_where_agents_worked_is_named_as_it_was() {
    let (env, _) = with_contract();
    let before: Value = serde_json::from_str(&env.read(".norma/config.json")).unwrap();
    env.configure(|config| {
        *config = before;
        config["sandbox"] = json!({"backend": "none"});
    });
    env.norma(&["run", "contract.json"]).success();
    let dir = env.run_dir();
    let named = std::fs::read_to_string(dir.join("worktree_ref.txt")).unwrap();
    let slug = dir.file_name().unwrap().to_str().unwrap();
    assert_eq!(named, format!(".norma/worktrees/{slug}\n"));
    let place: Value =
        serde_json::from_str(&env.read(&format!(".norma/runs/{slug}/steps/001-worker/sandbox.json"))).unwrap();
    assert_eq!(place["backend"], "none", "{place}");
}

/// Runs the script of an item on a repository, with norma on the PATH.
fn replay(env: &TestEnvironment, task: &str, repository: &Path) -> Output {
    let norma = Path::new(env!("CARGO_BIN_EXE_norma")).parent().unwrap();
    let mut command = Command::new("bash");
    command.arg(env.run_dir().join(format!("proof/replay-{task}.sh"))).current_dir(repository);
    command.env_clear().envs(&env.env).env("PATH", format!("{}:{}", norma.display(), env.env["PATH"]));
    command.output().unwrap()
}

#[track_caller]
fn ended(output: &Output, code: i32, says: &str) {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(says), "{text}");
}

#[test]
fn a_script_shows_a_change_again_from_a_clean_clone_and_touches_nothing() {
    let env = batch();
    let clone = env.dir.join("clone");
    // Whoever replays may have settings that change what a checkout looks like.
    std::fs::write(env.dir.join("home/.gitattributes"), "* text eol=crlf\n").unwrap();
    env.git(&["config", "--global", "core.attributesFile", &env.at("home/.gitattributes")]);
    env.git(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    let before = files(&clone);
    for task in ["alpha", "epsilon.2", "alpha"] {
        ended(&replay(&env, task, &clone), 0, "✅ Replay successful: hash verified");
    }
    assert_eq!(files(&clone), before, "nothing was added");
    assert!(!env.run_dir().join("proof/replay-beta.sh").exists(), "what failed has nothing to show");
    assert_eq!(std::fs::read_dir(env.dir.join("tmp")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_script_fails_on_a_changed_patch_and_says_when_it_could_not_be_done() {
    let env = batch();
    let patch = env.run_dir().join("patches/alpha.diff");
    let text = std::fs::read_to_string(&patch).unwrap();
    std::fs::write(&patch, text.replace("made by", "MADE by")).unwrap();
    ended(&replay(&env, "alpha", &env.root), 1, "ERROR: Hash mismatch after the change\n  recorded: ");
    std::fs::write(&patch, "not a patch\n").unwrap();
    ended(&replay(&env, "alpha", &env.root), 2, "ERROR: the patch of alpha does not apply");
    std::fs::remove_file(&patch).unwrap();
    ended(&replay(&env, "alpha", &env.root), 2, "is missing");
    ended(&replay(&env, "epsilon.2", &env.dir), 2, "is not in a git repository");
    let empty = env.dir.join("empty");
    env.git(&["init", "--quiet", empty.to_str().unwrap()]);
    ended(&replay(&env, "epsilon.2", &empty), 2, "fetch it first");
}
