//! What norma says of itself: pages, manual pages, completions with ids, schemas, its version.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn pages_are_in_the_binary() {
    let env = TestEnvironment::bare();
    let overview = env.norma(&["help"]);
    let listed = overview.success().raw.split_once("Topics (norma help TOPIC):").unwrap().1.to_owned();
    let topics: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for topic in
        ["contracts", "batches", "config", "sandbox", "receipts", "approvals", "landing", "agents", "exit-codes"]
    {
        assert!(topics.contains(&topic), "{topics:?}");
    }
    for topic in &topics {
        let page = env.norma(&["help", topic]);
        let page = &page.success().raw;
        assert!(page.lines().count() > 5, "{topic}");
        assert!(!page.contains("]("), "{topic}: {page}");
    }
    let codes = env.norma(&["help", "exit-codes"]);
    assert!(codes.raw.contains("130") && !codes.raw.contains("completions SHELL"), "{codes}");
    // Both are called so: whoever asks for either finds it.
    let both = env.norma(&["help", "sandbox"]);
    assert!(both.raw.contains("Usage: norma sandbox") && both.raw.contains("Landlock"), "{both}");
    assert!(env.norma(&["help", "agent", "add"]).success().raw.contains("Usage: norma agent add"));
    let unknown = env.norma(&["help", "flying"]);
    assert!(unknown.exits(2).raw_err.contains("troubleshooting"), "{unknown}");
    let value = env.json(&["help", "contracts"]);
    assert!(value["markdown"].as_str().unwrap().starts_with("# "), "{value}");
}

#[test]
fn every_verb_has_a_manual_page() {
    let env = TestEnvironment::bare();
    env.norma_in(&env.dir, &["man", "man1"]).success();
    let page = |name: &str| std::fs::read_to_string(env.dir.join("man1").join(name)).unwrap();
    assert!(page("norma.1").contains("norma-run(1)") || page("norma.1").contains("norma\\-run(1)"));
    assert!(page("norma-agent-add.1").contains("unchecked"));
    assert!(!env.dir.join("man1/norma-man.1").exists(), "what is hidden has none");
}

/// What a shell is offered behind these words.
fn offered(env: &mut TestEnvironment, words: &[&str]) -> Vec<String> {
    env.env.insert("NORMA_COMPLETE".into(), "fish".into());
    let output = env.norma(&[&["--", "norma"], words].concat());
    env.env.remove("NORMA_COMPLETE");
    output.success().raw.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

fn files_below(dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_below(&path, found),
            false => drop(found.insert(path.display().to_string(), std::fs::read(&path).unwrap_or_default())),
        }
    }
}

#[test]
fn completions_offer_ids_and_write_nothing() {
    let mut env = TestEnvironment::new(json!({"check": [[{"verdict": "PASS"}]]}));
    env.norma(&["run", "1"]).success();
    let run = env.last()["run_id"].as_str().unwrap().to_owned();
    let before = {
        let mut found = BTreeMap::new();
        files_below(&env.root.join(".norma"), &mut found);
        found
    };
    for verb in ["show", "diff", "undo", "events", "verify", "export", "resume", "replay"] {
        let offered = offered(&mut env, &[verb, ""]);
        assert!(offered.contains(&run) && offered.contains(&"@last".to_owned()), "{verb}: {offered:?}");
    }
    assert!(offered(&mut env, &["run", ""]).contains(&"1".to_owned()));
    assert!(offered(&mut env, &["task", "show", ""]).contains(&"1".to_owned()));
    assert!(offered(&mut env, &["help", "tro"]).contains(&"troubleshooting".to_owned()));
    assert!(offered(&mut env, &["sh"]).contains(&"show".to_owned()));
    let mut after = BTreeMap::new();
    files_below(&env.root.join(".norma"), &mut after);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "completions changed a file");
}

#[test]
fn completions_outside_of_a_repository_offer_verbs() {
    let mut env = TestEnvironment::bare();
    assert!(!offered(&mut env, &["show", ""]).contains(&"@last".to_owned()));
    assert!(offered(&mut env, &["ver"]).contains(&"verify".to_owned()));
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let env = TestEnvironment::bare();
    for shell in ["bash", "zsh", "fish"] {
        let output = env.norma(&["completions", shell]);
        assert!(output.success().raw.contains("NORMA_COMPLETE"), "{shell}");
    }
    env.norma(&["completions", "basic"]).exits(2);
}

#[test]
fn files_that_norma_writes_name_schemas_that_are_there() {
    let env = TestEnvironment::initialized();
    let made = ["contract", "new", "--goal", "g", "--allow", "src", "--test", "make test", "--agent", "claude"];
    std::fs::create_dir(env.root.join("contracts")).unwrap();
    env.norma(&[&made[..], &["-o", "contracts/a.json"]].concat()).success();
    let policies = std::fs::read_dir(env.root.join(".norma/policies")).unwrap().map(|entry| entry.unwrap().path());
    let files = policies.chain([env.root.join(".norma/config.json"), env.root.join("contracts/a.json")]);
    let mut count = 0;
    for file in files {
        let document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let schema = file.parent().unwrap().join(document["$schema"].as_str().unwrap());
        let schema: Value = serde_json::from_slice(&std::fs::read(&schema).unwrap()).unwrap();
        assert!(schema["properties"]["$schema"].is_object(), "{}", file.display());
        count += 1;
    }
    assert_eq!(count, 9);
    env.norma(&["contract", "check", "contracts/a.json"]).success();
    assert!(env.norma(&["trust", "--show"]).success().raw.contains("trusted"));
    // It is for people who write documents; elsewhere an unknown member is refused as before.
    env.write("items.json", "[{\"$schema\": \"x\", \"id\": \"a\", \"agent_id\": \"agent-1\", \"description\": \"d\", \"dependencies\": []}]");
    assert!(env.norma(&["contract", "check", "items.json"]).exits(2).raw_err.contains("$schema"));
    let printed = env.norma(&["schema", "task_contract"]);
    assert_eq!(printed.success().raw, env.read(".norma/schemas/task_contract.v1.json"));
    assert!(env.norma(&["schema"]).success().raw.lines().any(|name| name == "config.v1.json"));
    env.norma(&["schema", "nothing"]).exits(2);
}

#[test]
fn the_version_says_commit_and_rules() {
    let env = TestEnvironment::bare();
    let version = env.norma(&["--version"]);
    let line = version.success().raw.trim_end();
    let (commit, rules) = line.split_once(" (commit ").and_then(|(_, rest)| rest.split_once(", rules ")).unwrap();
    assert!(commit == "unknown" || commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
    assert_eq!(rules, format!("{})", contract::RULES));
}
