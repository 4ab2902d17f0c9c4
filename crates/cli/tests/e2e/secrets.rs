//! Secrets in changes: refused, named by their place, and nowhere in what is kept.

use crate::batches::{batch, item, with_worker};
use crate::environment::TestEnvironment;
use serde_json::json;
use std::path::Path;

/// Put together here, so that no file of the repository has it.
const KEY: &str = concat!("AK", "IAJ4XQ2WZ7R5T9V1B3");

/// Every file below a directory that holds the key.
fn files_with_key(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_key(&path));
        } else if std::fs::read(&path).unwrap().windows(KEY.len()).any(|window| window == KEY.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_worker_that_adds_a_secret_is_denied_and_the_secret_is_kept_nowhere() {
    let env = with_worker("printf 'region = \"x\"\\nkey = \"%s%s\"\\n' AK IAJ4XQ2WZ7R5T9V1B3 > src/config.py");
    let before = env.repository();
    let results = batch(&env, &[item("a", json!({}))], 1);
    assert_eq!(results[0]["status"], "denied");
    assert_eq!(results[0]["denial_reason"], "src/config.py: line 2 adds what looks like an access key (aws)");
    assert_eq!(env.repository().get("src/config.py"), before.get("src/config.py"));
    let patch = std::fs::read_to_string(env.run_dir().join("changes/001/patch.diff")).unwrap();
    assert!(patch.contains("\n+key = \"[redacted:aws_key]\"\n"), "{patch}");
    assert_eq!(files_with_key(&env.run_dir()), Vec::<String>::new());
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_patch_that_adds_a_secret_is_dropped_and_its_evidence_has_a_mark() {
    let patch = format!(
        "diff --git a/src/k b/src/k\nnew file mode 100644\n--- /dev/null\n+++ b/src/k\n@@ -0,0 +1 @@\n+key = \"{KEY}\"\n"
    );
    let env = TestEnvironment::with_patch(&patch);
    env.norma(&["run", "1"]).exits(1);
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("denied"), &json!("policy_violation")), "{run}");
    let gates = std::fs::read_to_string(env.run_dir().join("changes/001/gates.json")).unwrap();
    assert!(gates.contains("\"rule\": \"secret\"") && gates.contains("line 1 adds"), "{gates}");
    assert_eq!(files_with_key(&env.run_dir()), Vec::<String>::new());
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_line_in_the_middle_of_a_key_is_kept_nowhere_though_the_patch_does_not_show_where_the_key_begins() {
    let line = |n: u32| format!("{n:02}{}\n", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(2));
    let body: String = (0..20).map(line).collect();
    let env = with_worker("sed -i s/^10MI/10XX/ src/k.pem");
    env.write("src/k.pem", &format!("-----BEGIN {0} KEY-----\n{body}-----END {0} KEY-----\n", "PRIVATE"));
    env.commit("a key that is there already");
    let results = batch(&env, &[item("a", json!({}))], 1);
    assert_eq!(results[0]["denial_reason"], "src/k.pem: line 1 adds what looks like a private key");
    let patch = std::fs::read_to_string(env.run_dir().join("changes/001/patch.diff")).unwrap();
    assert!(patch.contains("\n+[redacted:known]\n") && !patch.contains("BADANBgkqhkiG9w0"), "{patch}");
    env.norma(&["replay", "@last", "--reverify"]).success();
}

#[test]
fn a_patch_beside_a_secret_that_is_there_already_still_fits_its_file() {
    let patch = format!(
        "diff --git a/src/k b/src/k\n--- a/src/k\n+++ b/src/k\n@@ -1,2 +1,2 @@\n key = \"{KEY}\"\n-old\n+new\n"
    );
    let env = TestEnvironment::with_patch(&patch);
    env.write("src/k", &format!("key = \"{KEY}\"\nold\n"));
    env.commit("a key that is there already");
    env.norma(&["run", "1"]).success();
    assert_eq!(env.git(&["show", "HEAD:src/k"]).trim(), format!("key = \"{KEY}\"\nnew"));
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_file_that_an_agent_leaves_and_what_tests_print_are_kept_without_secrets() {
    let env = with_worker(concat!(
        "echo x > src/new\n",
        "printf 'aws %s%s\\n' AK IAJ4XQ2WZ7R5T9V1B3 > \"$NORMA_STEP_DIR/notes.txt\"\n",
        "echo 'I guess it is hunter-and-gatherer' > \"$NORMA_STEP_DIR/guess.txt\"\n",
    ));
    env.write(".env", "DB_PASSWORD=hunter-and-gatherer\n");
    env.write(".gitignore", ".env\nitems.json\n");
    env.write("t.sh", "printf 'ok %s%s\\n' AK IAJ4XQ2WZ7R5T9V1B3; printf '%s%s\\n' AK IAJ4XQ2WZ7R5T9V1B3 >&2\n");
    env.commit("tests that talk");
    let results = batch(&env, &[item("a", json!({"test_command": "sh t.sh"}))], 0);
    assert_eq!(results[0]["status"], "success");
    assert_eq!(files_with_key(&env.run_dir()), Vec::<String>::new());
    let read = |path: &str| std::fs::read_to_string(env.run_dir().join(path)).unwrap();
    assert_eq!(read("steps/001-worker/notes.txt"), "aws [redacted:aws_key]\n");
    assert_eq!(read("steps/001-worker/guess.txt"), "I guess it is [redacted:known]\n");
    assert_eq!(read("changes/001/tests/1/stdout.log"), "ok [redacted:aws_key]\n");
    assert!(read("changes/001/gates.json").contains("\"aws_key\": 2"));
    let notes = env.event("step_committed")["notes"].to_string();
    assert!(notes.contains("secrets were taken out of the files it left: 1 known, 1 aws_key"), "{notes}");
    for args in [&["verify", "@last"][..], &["replay", "@last"], &["replay", "@last", "--reverify"]] {
        env.norma(args).success();
    }
}

/// A worker that adds what looks like a key to a test, and the id of the approval that this needs.
fn with_fixture() -> (TestEnvironment, String) {
    let env = with_worker("mkdir -p tests; printf 'key=%s%s\\n' AK IAJ4XQ2WZ7R5T9V1B3 > tests/key.txt");
    env.write("items.json", &json!([item("a", json!({}))]).to_string());
    env.norma(&["batch", "items.json"]).exits(3);
    assert_eq!(files_with_key(&env.run_dir()), Vec::<String>::new(), "nobody has approved it yet");
    let asked = env.json(&["approvals"])[0].clone();
    let reasons = asked["reasons"].to_string();
    let digest = contract::hash::sha256(format!("key={KEY}\n").as_bytes());
    assert!(reasons.contains("tests/key.txt: line 1 adds what looks like an access key (aws)"), "{reasons}");
    assert!(reasons.contains(&format!("tests/key.txt has SHA-256 {digest}")) && !reasons.contains(KEY), "{reasons}");
    (env, asked["id"].as_str().unwrap().to_owned())
}

#[test]
fn what_looks_like_a_secret_in_a_test_lands_with_a_persons_approval_of_exactly_that_file() {
    let (env, id) = with_fixture();
    env.norma(&["approve", &id]).success();
    env.norma(&["resume", "@last"]).success();
    assert_eq!(env.read("tests/key.txt"), format!("key={KEY}\n"));
    let patch = std::fs::read_to_string(env.run_dir().join("changes/001/patch.diff")).unwrap();
    assert!(patch.contains(KEY), "a patch without it would make another tree: {patch}");
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
    env.norma(&["replay", "@last", "--reverify"]).success();
}

#[test]
fn what_looks_like_a_secret_in_a_test_and_is_not_approved_lands_nowhere() {
    let (env, id) = with_fixture();
    env.norma(&["deny", &id, "--reason", "it is a real one"]).success();
    env.norma(&["batch", "items.json"]).exits(1);
    let ended = env.events().into_iter().find(|event| event["type"] == "item_ended").unwrap();
    assert_eq!(
        (&ended["payload"]["status"], &ended["payload"]["reason"]),
        (&json!("denied"), &json!("approval_denied"))
    );
    assert!(!env.root.join("tests/key.txt").exists());
    assert_eq!(files_with_key(&env.run_dir()), Vec::<String>::new());
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_secret_beside_those_of_tests_and_a_mark_in_a_test_are_refused_without_a_question() {
    for script in [
        format!("mkdir -p tests; echo key={KEY} > tests/key.txt; echo key={KEY} > src/key.txt"),
        "mkdir -p tests; echo 'key=[redacted:aws_key]' > tests/key.txt".to_owned(),
    ] {
        let env = with_worker(&script);
        let results = batch(&env, &[item("a", json!({}))], 1);
        assert_eq!(results[0]["status"], "denied", "{script}");
    }
}
