//! Somebody, or a disk, changes what is on record: one run is damaged or gone, or the whole state directory is an older
//! one. What is not touched continues, and what is touched is named until a person has decided.

use crate::environment::{Output, TestEnvironment, eventually};
use crate::terminals::waiting_run;
use serde_json::json;

/// Changes the database as somebody who is not norma.
fn tamper(env: &TestEnvironment, sql: &str) {
    let db = rusqlite::Connection::open(env.root.join(".norma/norma.db")).unwrap();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; DROP TRIGGER IF EXISTS events_no_update; DROP TRIGGER IF EXISTS events_no_delete;
         DROP TRIGGER IF EXISTS audit_no_update;",
    )
    .unwrap();
    db.execute_batch(sql).unwrap();
}

/// An environment with a paused run of task 1, which an agent that now succeeds would take part in; answers its slug.
fn with_paused_run() -> (TestEnvironment, String) {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("INT");
    running.wait().exits(130);
    env.script(json!({}));
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    (env, slug)
}

/// What doctor says about the record.
fn records(doctor: &Output) -> Vec<String> {
    let about = ["damaged", "missing", "quarantine", "record", "checkpoint"];
    let is_about = |line: &&str| line.split_whitespace().nth(1).is_some_and(|name| about.contains(&name));
    doctor.out().lines().filter(is_about).map(str::to_owned).collect()
}

/// Every audit line of a kind, in order.
fn audit(env: &TestEnvironment, kind: &str) -> Vec<serde_json::Value> {
    let db = rusqlite::Connection::open(env.root.join(".norma/norma.db")).unwrap();
    let mut statement = db.prepare("SELECT data_json FROM audit WHERE type = ?1 ORDER BY seq").unwrap();
    let found = statement.query_map([kind], |row| row.get::<_, String>(0)).unwrap();
    found.map(|data| serde_json::from_str(&data.unwrap()).unwrap()).collect()
}

#[test]
fn a_damaged_run_keeps_no_other_from_going_on_and_can_be_set_aside() {
    let (env, slug) = with_paused_run();
    let healthy = env.norma(&["doctor"]);
    let fine = "ok    checkpoint the audit log matches its last checkpoint";
    assert_eq!(records(&healthy), [fine, "ok    record     no run is damaged or missing"]);
    tamper(&env, "UPDATE events SET line = replace(line, 'make two loud', 'make two LOUD') WHERE seq = 1");
    insta::assert_snapshot!(env.norma(&["task", "add", "another"]), @"
    2
    ! damaged: run <run> was left as it is: event 1: differs from its hash; see norma doctor
    [exit 0]
    ");
    for verb in [&["gc"][..], &["reindex"], &["run", "2"], &["runs"], &["show", &slug]] {
        env.norma(verb).success();
    }
    assert!(env.norma(&["runs"]).raw.lines().any(|line| line.starts_with(&slug) && line.contains("damaged")));
    assert!(env.norma(&["show", &slug]).raw.contains("its log is damaged"));
    for verb in ["resume", "cancel", "land", "undo", "diff"] {
        let refused = env.norma(&[verb, &slug]);
        refused.exits(5);
        assert!(refused.raw_err.contains("norma quarantine"), "{verb}: {refused}");
    }
    env.norma(&["replay", &slug]).exits(5);
    env.norma(&["run", "1"]).exits(5);
    env.norma(&["verify", &slug]).exits(5);
    let doctor = env.norma(&["doctor"]);
    doctor.exits(5);
    insta::assert_snapshot!(records(&doctor).join("\n"), @"
    ok    checkpoint the audit log matches its last checkpoint
    FAIL  damaged    run <run>: event 1: differs from its hash
    ");
    env.norma(&["quarantine", &slug, "--reason", " "]).exits(2);
    insta::assert_snapshot!(env.norma(&["quarantine", &slug, "--reason", "the disk lost a block"]), @"
    run <run> is set aside; its directory is in quarantine/; its lines stay in the log
    ! damaged: run <run> was left as it is: event 1: differs from its hash; see norma doctor
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["quarantine", &slug, "--reason", "again"]), @"
    run <run> was set aside already, by Ada <ada@example.org>: the disk lost a block
    [exit 0]
    ");
    let recorded = audit(&env, "run_quarantined");
    assert_eq!(recorded.len(), 1);
    assert_eq!(
        (&recorded[0]["reason"], &recorded[0]["by"]),
        (&json!("the disk lost a block"), &json!("Ada <ada@example.org>"))
    );
    assert!(env.root.join(".norma").join(recorded[0]["to"].as_str().unwrap()).join("steps").is_dir());
    let doctor = env.norma(&["doctor"]);
    assert_eq!(doctor.code(), healthy.code(), "{doctor}");
    insta::assert_snapshot!(records(&doctor).join("\n"), @"
    ok    checkpoint the audit log matches its last checkpoint
    info  quarantine run <run> was set aside by Ada <ada@example.org>: the disk lost a block
    ok    record     no run is damaged or missing
    ");
    assert!(env.norma(&["runs"]).raw.lines().any(|line| line.starts_with(&slug) && line.contains("quarantined")));
    env.norma(&["verify", &slug]).exits(5);
    env.norma(&["verify", "--all"]).success();
    assert_eq!(env.norma(&["run", "1"]).success().raw_err, "", "nothing is said of the run any more");
    env.norma(&["reindex"]).success();
    assert!(env.norma(&["runs"]).raw.lines().any(|line| line.starts_with(&slug) && line.contains("quarantined")));
}

#[test]
fn a_run_that_is_not_damaged_is_not_set_aside() {
    let (env, slug) = with_paused_run();
    insta::assert_snapshot!(env.norma(&["quarantine", &slug, "--reason", "away with it"]), @"
    ! error: the log of run <run> is not damaged, so it is not set aside
    ! next: end it: norma cancel <run>; look for changed evidence: norma verify <run>
    [exit 1]
    ");
    env.norma(&["resume", &slug]).success();
    env.norma(&["quarantine", &slug, "--reason", "away with it"]).exits(1);
    env.norma(&["verify", "--all"]).success();
}

#[test]
fn a_run_that_was_removed_is_missed() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    env.norma(&["run", "1", "--new"]).success();
    env.norma(&["verify", "--all"]).success();
    let tables = ["events", "steps", "directories", "kv_run", "items", "approvals", "runs"];
    tamper(&env, &tables.map(|table| format!("DELETE FROM {table} WHERE run_id = '{slug}';")).concat());
    std::fs::remove_dir_all(env.root.join(".norma/runs").join(&slug)).unwrap();
    env.norma(&["verify", "@last"]).success();
    insta::assert_snapshot!(env.norma(&["verify", "--all"]), @"
    <run>  verified
    <run>  MISSING: the audit log knows it, and it has no log
    NOT verified: 1 runs, 1 missing
    [exit 5]
    ");
    let doctor = env.norma(&["doctor"]);
    doctor.exits(5);
    assert!(records(&doctor)[1].contains("missing"), "{doctor}");
    env.norma(&["reindex"]).success();
    env.norma(&["quarantine", &slug, "--reason", "I removed it myself"]).success();
    env.norma(&["verify", "--all"]).success();
    assert_ne!(env.norma(&["doctor"]).code(), Some(5));
}

/// Copies the state directory, to be put back later.
fn copy(env: &TestEnvironment, from: &str, to: &str) {
    let _ = std::fs::remove_dir_all(env.dir.join(to));
    let status = std::process::Command::new("cp").arg("-a").args([env.dir.join(from), env.dir.join(to)]).status();
    assert!(status.unwrap().success());
}

#[test]
fn a_state_directory_that_was_rolled_back_is_gone_on_with_only_when_a_person_accepts_it() {
    let env = crate::batches::with_worker("echo $id > $id.txt");
    let item = |id: &str| crate::batches::item(id, json!({}));
    crate::batches::batch(&env, &[item("a")], 0);
    copy(&env, "repo/.norma", "older");
    crate::batches::batch(&env, &[item("b")], 0);
    env.norma(&["verify", "@last"]).success();
    copy(&env, "older", "repo/.norma");
    env.norma(&["verify", "@last"]).exits(5);
    let refused = env.norma(&["batch", "items.json"]);
    refused.exits(5);
    assert!(refused.raw_err.starts_with("error: the state directory was rolled back: its audit log has "), "{refused}");
    assert!(refused.raw_err.contains("next: restore the newer one; or, to continue with this one"), "{refused}");
    env.norma(&["task", "add", "another"]).exits(5);
    env.norma(&["init"]).exits(5);
    let doctor = env.norma(&["doctor"]);
    doctor.exits(5);
    assert!(records(&doctor)[0].starts_with("FAIL  checkpoint"), "{doctor}");
    for reading in ["show", "events", "diff"] {
        env.norma(&[reading, "@last"]).success();
    }
    env.norma(&["verify", "--accept"]).exits(2);
    env.norma(&["verify", "--accept", "--reason", "restored from a backup"]).success();
    let accepted = audit(&env, "checkpoint_accepted");
    assert_eq!(accepted.len(), 1);
    assert_eq!(
        (&accepted[0]["reason"], &accepted[0]["by"]),
        (&json!("restored from a backup"), &json!("Ada <ada@example.org>"))
    );
    assert!(accepted[0]["expected"]["seq"].as_u64() > accepted[0]["found"]["seq"].as_u64());
    crate::batches::batch(&env, &[item("c")], 0);
    env.norma(&["verify", "@last"]).success();
    env.norma(&["verify", "--all"]).success();
    env.norma(&["verify", "--accept", "--reason", "once more"]).exits(1);
}

#[test]
fn a_state_directory_that_is_made_anew_says_so() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    std::fs::remove_dir_all(env.root.join(".norma")).unwrap();
    let made = env.norma(&["init"]);
    made.success();
    assert!(made.raw_err.contains("there was a state directory here before"), "{made}");
    assert_eq!(audit(&env, "checkpoint_accepted")[0]["by"], "norma init");
    env.norma(&["task", "add", "another"]).success();
}

/// The checkpoint as it is kept outside the repository.
fn checkpoint(env: &TestEnvironment) -> std::path::PathBuf {
    let homes = std::fs::read_dir(env.dir.join("home/.local/share/norma")).unwrap();
    homes.map(|home| home.unwrap().path().join("checkpoint.json")).find(|path| path.exists()).unwrap()
}

#[test]
fn a_checkpoint_is_kept_when_a_run_is_sealed_and_not_only_at_the_end() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["task", "add", "the second"]).success();
    let before = std::fs::read(checkpoint(&env)).unwrap();
    let go = env.at("go");
    let second = format!(
        "test \"$(ls '{}' | wc -l)\" = 1 || {{ touch '{}'; until test -e '{go}'; do sleep 0.01; done; }}",
        env.root.join(".norma/runs").display(),
        env.at("second")
    );
    env.script_unconfined(json!({"plan": [[{"shell": second}]]}));
    let running = env.spawn(&["run"]);
    env.wait_for("second");
    eventually("the first run's seal is in a checkpoint", || std::fs::read(checkpoint(&env)).unwrap() != before);
    running.signal("KILL");
    assert_eq!(running.wait().code(), None);
    // A checkpoint that nobody signed is not believed, unless it is of the time before they were signed.
    let signed = std::fs::read_to_string(checkpoint(&env)).unwrap();
    std::fs::write(checkpoint(&env), signed.replace("\"sig\":\"M", "\"sig\":\"N")).unwrap();
    env.norma(&["task", "add", "another"]).exits(5);
    std::fs::write(checkpoint(&env), signed).unwrap();
    env.norma(&["task", "add", "another"]).success();
    let db = rusqlite::Connection::open(env.root.join(".norma/norma.db")).unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let (seq, hash) = db.query_row("SELECT seq, hash FROM audit WHERE seq = 2", [], read).unwrap();
    std::fs::write(checkpoint(&env), json!({"seq": seq, "hash": hash}).to_string()).unwrap();
    env.norma(&["task", "add", "another"]).success();
}
