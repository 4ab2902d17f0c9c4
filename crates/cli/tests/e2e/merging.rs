//! Branches that move while a run is under way: what is merged and lands, what conflicts and is named, and how a merged
//! landing is checked, replayed and taken back.

use crate::batches::{batch, item, with_worker};
use crate::environment::{Output, TestEnvironment};
use crate::receipts::problems;
use serde_json::{Value, json};

/// A text with ten lines.
const TEXT: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

/// An environment whose worker does this outside any sandbox, where it can play the user as well; `$root` is the user's
/// repository.
fn unconfined(script: &str, landing: &str) -> TestEnvironment {
    let env = with_worker("");
    env.write("agents/do.sh", &format!("root='{}'\n{script}\n", env.root.display()));
    env.write("text", TEXT);
    env.write("lonely.sh", "test ! -e other\n");
    env.commit("a text and a test");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        config["sandbox"] = json!({"backend": "none"});
        config["landing"] = json!({"mode": landing});
    });
    env
}

/// What the user does meanwhile.
fn user_does(script: &str) -> String {
    format!("(cd \"$root\" && {script} && git add -A -- text other && git commit -qm 'by the user')")
}

/// The first line becomes the item's, while the user does something.
fn while_the_user(does: &str, test: Option<&str>) -> (TestEnvironment, Vec<Value>) {
    let env = unconfined(&script(does), "auto");
    let tests = test.map_or(json!({}), |test| json!({"test_command": test}));
    let results = batch(&env, &[item("a", tests)], 0);
    (env, results)
}

/// Changes the first line of the text, then plays the user who commits something.
fn script(user: &str) -> String {
    format!("sed -i \"s/^1\\$/$id/\" text\n{}", user_does(user))
}

fn subjects(env: &TestEnvironment) -> Vec<String> {
    env.git(&["log", "-2", "--format=%s"]).lines().map(str::to_owned).collect()
}

fn checked(env: &TestEnvironment) {
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

fn declined(output: &Output, words: &[&str]) {
    output.exits(1);
    for word in words {
        assert!(output.raw_err.contains(word), "{word}: {}", output.raw_err);
    }
}

#[test]
fn another_file_of_the_users_does_not_keep_a_batch_from_landing() {
    let (env, _) = while_the_user("touch other && echo more > other", Some("test -f text"));
    assert_eq!(subjects(&env), ["do a", "by the user"]);
    assert_eq!((env.read("text"), env.read("other")), (TEXT.replacen('1', "a", 1), "more\n".to_owned()));
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma", ":!items.json"]), "");
    let message = env.git(&["log", "-1", "--format=%B"]);
    for trailer in ["Norma-Run: ", "Norma-Receipt: sha256:", "Norma-Contract: ", "Norma-Merged: "] {
        assert!(message.contains(trailer), "{message}");
    }
    assert_eq!(env.event("landed")["commit"], env.git(&["rev-parse", "HEAD"]));
    assert_eq!(env.event("landed")["from"], env.git(&["rev-parse", "HEAD^"]));
    checked(&env);
}

#[test]
fn another_part_of_the_same_file_is_merged_and_taken_back_again() {
    let (env, _) = while_the_user("touch other && sed -i 's/^10$/ten/' text", None);
    assert_eq!(env.read("text"), TEXT.replace("10", "ten").replacen('1', "a", 1));
    checked(&env);
    std::fs::create_dir(env.root.join("keys")).unwrap();
    env.norma(&["keys", "export", "-o", "keys/norma.pem"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
    env.norma(&["undo", "@last"]).success();
    assert_eq!(subjects(&env)[0], "by the user");
    assert_eq!(env.read("text"), TEXT.replace("10", "ten"));
    // Taken back is not thrown away.
    env.norma(&["land", "@last"]).success();
    assert_eq!(env.read("text"), TEXT.replace("10", "ten").replacen('1', "a", 1));
    checked(&env);
}

#[test]
fn the_same_lines_are_a_conflict_that_names_the_file() {
    let (env, _) = while_the_user("touch other && sed -i 's/^1$/mine/' text", None);
    assert_eq!(subjects(&env)[0], "by the user");
    let why = env.event("landing_declined")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("main has moved meanwhile") && why.contains("text: both sides changed line 1"), "{why}");
    declined(&env.norma(&["land", "@last"]), &["text: both sides changed line 1", "git merge norma/"]);
    let run = env.last()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(env.git(&["show", &format!("norma/{run}:text")]) + "\n", TEXT.replacen('1', "a", 1));
    assert_eq!(env.read("text"), TEXT.replacen('1', "mine", 1));
    checked(&env);
    // Once the user has made room, it lands.
    env.git(&["revert", "--no-edit", "HEAD"]);
    env.norma(&["land", "@last"]).success();
    assert_eq!(env.read("text"), TEXT.replacen('1', "a", 1));
}

#[test]
fn tests_that_fail_on_the_merged_result_keep_it_from_landing() {
    let (env, _) = while_the_user("touch other && echo bad > other", Some("sh lonely.sh"));
    assert_eq!(subjects(&env)[0], "by the user");
    let why = env.event("landing_declined")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("the tests of a fail on the merged result"), "{why}");
    declined(&env.norma(&["land", "@last"]), &["the tests of a fail on the merged result"]);
    assert_eq!(env.read("text"), TEXT);
    checked(&env);
}

#[test]
fn ten_runs_that_started_from_one_commit_all_land() {
    let env = unconfined("echo $id > made-$id; sed -i \"s/^line $id\\$/done $id/\" lines", "branch");
    let lines: Vec<String> = (0..10).flat_map(|n| [format!("line {n}\n"), "between\n".repeat(3)]).collect();
    env.write("lines", &lines.concat());
    env.commit("lines");
    let base = env.git(&["rev-parse", "HEAD"]);
    let run = |id: usize| {
        batch(&env, &[item(&id.to_string(), json!({}))], 0);
        assert_eq!(env.git(&["rev-parse", "HEAD"]), base);
        env.last()["run_id"].as_str().unwrap().to_owned()
    };
    let runs: Vec<String> = (0..10).map(run).collect();
    for run in &runs {
        env.norma(&["land", run]).success();
    }
    assert_eq!(env.read("lines"), lines.concat().replace("line", "done"));
    assert_eq!(env.git(&["rev-list", "--count", &format!("{base}..HEAD")]), "10");
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma", ":!items.json"]), "");
    assert_eq!(env.git(&["branch", "--list", "norma/*"]), "");
    checked(&env);
}

#[test]
fn items_that_change_different_parts_of_one_file_both_land() {
    let env = unconfined("sed -i \"s/^$id\\$/item $id/\" text", "auto");
    let results = batch(&env, &[item("1", json!({})), item("9", json!({}))], 0);
    assert_eq!([&results[0]["status"], &results[1]["status"]], ["success", "success"]);
    assert_eq!(env.read("text"), TEXT.replace("1\n2", "item 1\n2").replace('9', "item 9"));
    checked(&env);
}

#[test]
fn a_merged_landing_that_is_killed_anywhere_is_completed() {
    for point in [
        "land.after_intent",
        "land.exported",
        "land.ref_moved",
        "land.index_locked",
        "land.files_moved",
        "land.after_commit",
    ] {
        let mut env = unconfined(&script("touch other && sed -i 's/^10$/ten/' text"), "auto");
        env.write("items.json", &json!([item("a", json!({}))]).to_string());
        env.env.insert("NORMA_CRASH_POINT".to_owned(), point.to_owned());
        assert_ne!(env.norma(&["batch", "items.json"]).code(), Some(0), "{point}");
        env.env.remove("NORMA_CRASH_POINT");
        env.norma(&["gc"]).success();
        if env.last()["status"] == "paused" {
            env.norma(&["resume", "@last"]).success();
        }
        assert_eq!(env.read("text"), TEXT.replace("10", "ten").replacen('1', "a", 1), "{point}");
        assert_eq!(subjects(&env), ["do a", "by the user"], "{point}");
        assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma", ":!items.json"]), "", "{point}");
        checked(&env);
    }
}
