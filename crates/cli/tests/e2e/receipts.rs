//! Keys and bundles: what is signed, what is given away, and what somebody elsewhere finds in it.

use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use crate::terminals::waiting_run;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is wrong with a bundle for somebody who trusts a key.
pub(crate) fn problems(env: &TestEnvironment, bundle: &str, keys: &str) -> Vec<String> {
    let trusted = verify::read_keys(&env.root.join(keys)).unwrap();
    let report = verify::verify(std::fs::File::open(env.root.join(bundle)).unwrap(), &trusted).unwrap();
    report.checks.into_iter().flat_map(|check| check.problems).collect()
}

fn private_key(env: &TestEnvironment) -> PathBuf {
    let public = PathBuf::from(env.json(&["keys"])["public_key"].as_str().unwrap());
    public.with_file_name("signing.key")
}

#[test]
fn a_run_that_landed_is_exported_and_verifies_elsewhere() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    std::fs::create_dir(env.root.join("keys")).unwrap();
    insta::assert_snapshot!(env.norma(&["keys", "export", "-o", "keys/norma.pem"]), @"
    the public key <hash> is in keys/norma.pem
    [exit 0]
    ");
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
    env.norma(&["export", "@last", "-o", "again.tar"]).success();
    assert_eq!(env.read_bytes("bundle.tar"), env.read_bytes("again.tar"), "the same run, the same bytes");
    // What was taken back and judged again is said too, and the run is still what it was.
    env.norma(&["undo", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
    assert_ne!(env.read_bytes("bundle.tar"), env.read_bytes("again.tar"));
}

/// Exports the newest run; somebody who trusts the key finds nothing wrong with it.
#[track_caller]
pub(crate) fn verifies_elsewhere(env: &TestEnvironment) {
    std::fs::create_dir_all(env.at("keys")).unwrap();
    env.norma(&["keys", "export", "-o", &env.at("keys/norma.pem")]).success();
    env.norma(&["export", "@last", "-o", &env.at("bundle.tar")]).success();
    assert_eq!(problems(env, &env.at("bundle.tar"), &env.at("keys")), [""; 0]);
}

#[test]
fn the_receipts_of_a_batch_are_exported_and_verify_elsewhere() {
    let env = with_worker("echo $id > src/$id; test $id != c || touch src/another");
    let small = |id: &str, after: &[&str]| {
        let constraints = json!({"max_files": 1});
        item(id, json!({"dependencies": after, "constraints": constraints, "test_command": "test -e src"}))
    };
    env.write("items.json", &json!([small("a", &[]), small("b", &["a"]), small("c", &["b"])]).to_string());
    let ran = env.norma(&["batch", "items.json"]);
    ran.exits(1);
    let ends: Vec<_> = env.events().into_iter().filter(|event| event["type"] == "item_ended").collect();
    let statuses: Vec<_> = ends.iter().map(|event| event["payload"]["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["success", "success", "denied"], "{ran}");
    verifies_elsewhere(&env);
}

#[test]
fn an_approval_is_exported_with_who_gave_it_and_so_is_a_no() {
    let env = with_worker("echo $id > src/new.txt");
    env.with_most_in_src();
    let wide = |id: &str| json!([item(id, json!({"allowed_paths": ["src"]}))]).to_string();
    let asked = || env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    env.write("items.json", &wide("a"));
    env.norma(&["batch", "items.json"]).exits(3);
    env.norma(&["approve", &asked()]).success();
    env.norma(&["batch", "items.json"]).success();
    verifies_elsewhere(&env);
    env.write("items.json", &wide("b"));
    env.norma(&["batch", "items.json"]).exits(3);
    env.norma(&["deny", &asked(), "--reason", "too much"]).success();
    env.norma(&["batch", "items.json"]).exits(1);
    verifies_elsewhere(&env);
}

#[test]
fn a_run_that_was_refused_is_exported_with_what_was_refused() {
    let env = TestEnvironment::with_patch(&PATCH.replace("src/lib.txt", ".github/workflows/ci.yml"));
    env.norma(&["run", "1"]).exits(1);
    verifies_elsewhere(&env);
}

#[test]
fn only_a_run_that_is_sealed_and_verifies_is_exported() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("INT");
    running.wait().exits(130);
    let refused = env.norma(&["export", "@last", "-o", "bundle.tar"]);
    refused.exits(2);
    assert!(refused.err().contains("only a run that nothing changes any more can be exported"), "{refused}");
    env.norma(&["cancel", "@last"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    std::fs::remove_file(env.root.join("bundle.tar")).unwrap();
    std::fs::write(env.run_dir().join("norma.md"), "something else").unwrap();
    let refused = env.norma(&["export", "@last", "-o", "bundle.tar"]);
    refused.exits(5);
    assert!(refused.err().contains("it does not verify, so it is not exported"), "{refused}");
    assert!(!env.root.join("bundle.tar").exists());
    let left = std::fs::read_dir(&env.root).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains(".tmp-")), "nothing is left");
}

#[test]
fn keys_are_shown_and_made_with_the_state_directory() {
    let env = TestEnvironment::initialized();
    let key = private_key(&env);
    let id = env.json(&["keys"])["key_id"].as_str().unwrap().to_owned();
    let shown = env.norma(&["keys"]);
    assert!(shown.raw.starts_with(&format!("key {id}\npublic key ")), "{shown}");
    assert_eq!(env.json(&["keys"])["public_key"], key.with_file_name(format!("{id}.pem")).to_str().unwrap());
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!key.starts_with(&env.root), "no agent sees it");
    let pem = env.norma(&["keys", "export"]);
    assert!(pem.raw.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{pem}");
}

#[test]
fn a_key_that_others_can_read_signs_nothing() {
    let env = TestEnvironment::with_patch(PATCH);
    let key = private_key(&env);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = env.norma(&["run", "1"]);
    refused.exits(4);
    assert!(refused.err().contains("others may have read the signing key"), "{refused}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    env.norma(&["run", "1"]).success();
    // Another key from now on; what the old one signed still verifies.
    std::fs::remove_file(&key).unwrap();
    env.norma(&["verify", "@last"]).success();
    env.norma(&["run", "1", "--new"]);
    env.norma(&["verify", "@last"]).success();
}

/// The receipt of a change of a run.
fn receipt(env: &TestEnvironment, run_dir: &Path, change: u32) -> Value {
    let path = run_dir.join(format!("changes/{change:03}/RECEIPT.json"));
    serde_json::from_slice(
        &std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", env.redact(&path.display().to_string()))),
    )
    .unwrap()
}

#[test]
fn a_loops_change_has_a_receipt_whatever_came_of_it() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let applied = receipt(&env, &env.run_dir(), 1);
    assert_eq!(
        (&applied["status"], &applied["task_id"], &applied["agent_id"]),
        (&json!("success"), &json!("task-1"), &json!("act"))
    );
    let gates: Vec<&str> =
        applied["gates"].as_array().unwrap().iter().map(|gate| gate["gate"].as_str().unwrap()).collect();
    assert_eq!(gates, ["inputs", "output", "scope", "admission", "outputs"]);
    let sha256 = contract::hash::sha256(&std::fs::read(env.run_dir().join("changes/001/RECEIPT.json")).unwrap());
    assert!(env.git(&["log", "-1", "--format=%B"]).contains(&format!("Norma-Receipt: sha256:{sha256}\n")));
    verifies_elsewhere(&env);
    env.norma(&["replay", "@last"]).success();

    for (patch, status, gate) in [
        ("--- a/nowhere\n+++ b/nowhere\n@@ -1 +1 @@\n-a\n+b\n", "failure", "output"),
        ("--- /dev/null\n+++ b/.github/workflows/x.yml\n@@ -0,0 +1 @@\n+x\n", "denied", "scope"),
    ] {
        let env = TestEnvironment::with_patch(patch);
        env.norma(&["run", "1"]).exits(1);
        let dropped = receipt(&env, &env.run_dir(), 1);
        assert_eq!(dropped["status"], status, "{dropped}");
        let last = dropped["gates"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["gate"], &last["passed"]), (&json!(gate), &json!(false)));
        let judged: Value =
            serde_json::from_slice(&std::fs::read(env.run_dir().join("changes/001/gates.json")).unwrap()).unwrap();
        let finding = &judged["gates"].as_array().unwrap().last().unwrap()["findings"][0];
        assert!(finding["rule"].is_string() && finding["message"].is_string(), "{judged}");
        verifies_elsewhere(&env);
        env.norma(&["replay", "@last"]).success();
    }
}

#[test]
fn receipts_form_one_chain_over_the_runs_of_a_repository() {
    let env = with_worker("echo $id > src/$id");
    let mut previous = Value::Null;
    for id in ["a", "b"] {
        env.write("items.json", &json!([item(id, json!({})), item(&format!("{id}2"), json!({}))]).to_string());
        env.norma(&["batch", "items.json"]).success();
        for change in [1, 2] {
            let receipt = receipt(&env, &env.run_dir(), change);
            assert_eq!(receipt["previous_receipt_hash"], previous, "{id} {change}");
            previous = receipt["receipt_hash"].clone();
        }
        verifies_elsewhere(&env);
    }
}

#[test]
fn the_same_items_in_another_order_end_with_the_same_tree_and_one_receipt_covers_them() {
    let run = |order: [&str; 3]| {
        // All three change the same line: the first to land wins, the others are refused.
        let env = with_worker("echo $id > src/lib.txt");
        let items = order.map(|id| item(id, json!({})));
        env.write("items.json", &json!(items).to_string());
        let ran = env.norma(&["batch", "items.json", "--json"]);
        ran.exits(1);
        let results: Vec<Value> = serde_json::from_str(&ran.raw).unwrap();
        let listed: Vec<&str> = results.iter().map(|result| result["id"].as_str().unwrap()).collect();
        assert_eq!(listed, order, "results come in the order of the file");
        let receipt: Value =
            serde_json::from_slice(&std::fs::read(env.run_dir().join("receipts/BATCH_RECEIPT.json")).unwrap()).unwrap();
        assert_eq!((&receipt["tranches_merged"], &receipt["status"]), (&json!(1), &json!("failure")));
        assert_eq!(receipt["tranches"].as_array().unwrap().len(), 3);
        (env.git(&["rev-parse", "HEAD^{tree}"]), receipt["content_hash"].clone())
    };
    let (tree, content) = run(["x", "y", "z"]);
    for order in [["z", "y", "x"], ["y", "z", "x"]] {
        assert_eq!(run(order), (tree.clone(), content.clone()), "{order:?}");
    }
}

/// The statement in an envelope.
fn statement(path: &Path) -> Value {
    let opened = contract::attestation::Envelope::open(&std::fs::read(path).unwrap()).unwrap();
    serde_json::from_slice(&opened.payload).unwrap()
}

#[test]
fn every_test_has_a_signed_result_whether_or_not_its_output_has_counts() {
    let env = with_worker("echo a > a.txt");
    let work = item("a", json!({"allowed_paths": ["a.txt"], "test_command": "test -f 'a.txt'"}));
    let result = batch(&env, &[work], 0).remove(0);
    let receipt = receipt(&env, &env.run_dir(), 1);
    let command = json!({"name": "test_command", "argv": ["test", "-f", "a.txt"], "must_pass": true, "status": "PASS", "exit_code": 0});
    assert_eq!(receipt["tests"], json!({"status": "PASS", "commands": [command]}));
    let blake3 = contract::hash::plain_blake3(b"a\n").to_string();
    assert_eq!(receipt["artifacts"][0]["blake3"], blake3);
    assert_eq!(result["artifact_hashes"].as_object().unwrap().values().next().unwrap(), &json!(blake3));
    let said = statement(&env.run_dir().join("changes/001/test-result.dsse.json"));
    assert_eq!(said["predicate"]["result"], "PASSED");
    assert_eq!(said["predicate"]["passedTests"], json!(["test_command"]));
    let shown = env.last();
    assert_eq!(shown["tests"], json!({"ran": true, "passed": true, "commands": ["test -f a.txt"]}));
    assert_eq!(shown["receipts"], json!([result["receipt_id"]]));
    assert_eq!((&shown["left_out"], &shown["usage"]), (&json!([]), &Value::Null));
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();

    let failing = item("b", json!({"allowed_paths": ["a.txt"], "test_command": "test -f b.txt"}));
    env.write("agents/do.sh", "echo b > a.txt");
    env.commit("another");
    batch(&env, &[failing], 1);
    let said = statement(&env.run_dir().join("changes/001/test-result.dsse.json"));
    assert_eq!(
        (&said["predicate"]["result"], &said["predicate"]["failedTests"]),
        (&json!("FAILED"), &json!(["test_command"]))
    );
    assert_eq!(env.last()["tests"], json!({"ran": true, "passed": false, "commands": ["test -f b.txt"]}));
}

#[test]
fn a_run_whose_tests_were_not_run_says_so_and_one_without_tests_has_none() {
    let env = with_worker("echo a > a.txt; echo b > b.txt");
    batch(&env, &[item("a", json!({"allowed_paths": ["b.txt"], "test_command": "test -f a.txt"}))], 1);
    assert_eq!(env.last()["tests"], json!({"ran": false, "passed": false, "commands": []}));
    let shown = env.norma(&["show", "@last"]).to_string();
    assert!(shown.contains("no test was run"), "{shown}");
    batch(&env, &[item("b", json!({"allowed_paths": ["a.txt", "b.txt"]}))], 0);
    assert_eq!(env.last()["tests"], Value::Null);
}
