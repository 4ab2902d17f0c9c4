//! Somebody, or a disk, changes what is on record: one run is damaged or gone, or the whole state directory is an older
//! one. What is not touched goes on, and what is touched is named until a person has decided.

use crate::environment::{Output, TestEnvironment};
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
    assert_eq!(records(&healthy), ["ok    record     no run is damaged or missing"]);
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
    insta::assert_snapshot!(records(&doctor).join("\n"), @"FAIL  damaged    run <run>: event 1: differs from its hash");
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
    let tables = ["events", "steps", "artifacts", "kv_run", "items", "approvals", "runs"];
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
    assert!(records(&doctor)[0].contains("missing"), "{doctor}");
    env.norma(&["reindex"]).success();
    env.norma(&["quarantine", &slug, "--reason", "I removed it myself"]).success();
    env.norma(&["verify", "--all"]).success();
    assert_ne!(env.norma(&["doctor"]).code(), Some(5));
}
