//! Keys and bundles: what is signed, what is given away, and what somebody elsewhere finds in it.

use crate::environment::{PATCH, TestEnvironment};
use crate::terminals::waiting_run;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What is wrong with a bundle for somebody who trusts a key.
fn problems(env: &TestEnvironment, bundle: &str, keys: &str) -> Vec<String> {
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
    // What was taken back is said too, and the run is still what it was.
    env.norma(&["undo", "@last"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
    assert_ne!(env.read_bytes("bundle.tar"), env.read_bytes("again.tar"));
}

/// A batch of one agent's items in this order; each does what its line of shell says, in its own workspace.
fn batch(env: &TestEnvironment, items: &[(&str, &str)]) {
    let lines: Vec<String> = items.iter().map(|(id, does)| format!("  *'Do {id}.'*) {does} ;;")).collect();
    let agent = format!(
        "#!/bin/sh\nread -r request\ncase \"$request\" in\n{}\nesac\necho '{}'\n",
        lines.join("\n"),
        json!({"version": 1, "status": "ok", "summary": "done", "files": [], "next_actions": [], "errors": []})
    );
    let path = env.dir.join("agent.sh");
    std::fs::write(&path, agent).unwrap();
    env.configure(|config| {
        config["agents"]["worker"] = json!({"type": "exec", "cmd": ["/bin/sh", path]});
        config["sandbox"] = json!({"backend": "none"});
    });
    let ids: Vec<&str> = items.iter().map(|(id, _)| *id).collect();
    let item = |(place, id): (usize, &&str)| {
        json!({"id": id, "agent_id": "agent-1", "description": format!("Do {id}."), "dependencies": ids[..place],
               "constraints": {"max_files": 1}, "test_command": "test -e src"})
    };
    let items: Vec<_> = ids.iter().enumerate().map(item).collect();
    env.write("batch.json", &json!(items).to_string());
}

#[test]
fn the_receipts_of_a_batch_are_exported_and_verify_elsewhere() {
    let env = TestEnvironment::initialized();
    batch(
        &env,
        &[("item-a", "echo a > src/a.txt"), ("item-b", "echo b > src/b.txt"), ("item-c", "touch src/c1 src/c2")],
    );
    let ran = env.norma(&["batch", "batch.json"]);
    ran.exits(1);
    assert_eq!(env.event_types().iter().filter(|kind| *kind == "item_ended").count(), 3, "{ran}");
    std::fs::create_dir(env.root.join("keys")).unwrap();
    env.norma(&["keys", "export", "-o", "keys/norma.pem"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
}

#[test]
fn a_run_that_was_refused_is_exported_with_what_was_refused() {
    let env = TestEnvironment::with_patch(&PATCH.replace("src/lib.txt", ".github/workflows/ci.yml"));
    env.norma(&["run", "1"]).exits(1);
    std::fs::create_dir(env.root.join("keys")).unwrap();
    env.norma(&["keys", "export", "-o", "keys/norma.pem"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
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
