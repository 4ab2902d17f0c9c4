//! Judged again on what is kept.

use crate::place::{Place, differences, is_same, task};
use contract::documents::ReexecStatus;
use contract::hash::DoubleHasher;
use contract::work::Constraints;
use contract::{Backend, Item, Manifest, RepoPath, Scope};
use std::fs;

const CHECKS: [&str; 5] = ["turns", "gates", "tests", "receipts", "decisions"];

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

#[test]
fn three_replays_of_a_run_pass_and_change_no_byte_of_it() {
    for place in Place::all() {
        place.agent("agent", "echo 2 > a; echo new > b");
        let slug = place.run(vec![task("one", "agent", &[&["grep", "-q", "2", "a"]])]);
        assert_eq!(place.statuses(&slug), ["one: success: inputs output scope admission outputs tests"]);
        let (sealed, seen) = (place.files(&slug), place.world.seen());
        for _ in 0..3 {
            is_same(&place.rehydrate(&slug), &CHECKS);
        }
        assert!(place.files(&slug) == sealed, "a byte of the run has changed");
        assert_eq!(place.world.seen(), seen);
    }
}

#[test]
fn whatever_came_of_an_item_it_is_judged_the_same_again() {
    let Some(place) = Place::new(Backend::None) else { return };
    place.agent("agent", r#"echo 1 > b; echo '{"type":"tool_completed","id":1,"name":"sh"}' > "$step/events.jsonl""#);
    place.agent("other", "echo 2 > a; echo 2 > c");
    place.agent("third", "echo 3 > a");
    let scope = |allowed: &str| Scope { allowed_paths: vec![path(allowed)], ..Scope::default() };
    let good: &[&[&str]] = &[&["test", "-f", "b"]];
    // By name, as they are taken.
    let items = vec![
        task("0-lands", "agent", good),
        // Others have landed when it comes to land, so it is put on top of them and tried again.
        task("1-merged", "other", &[&["test", "-f", "c"]]),
        task("2-same", "agent", &[]),
        task("3-conflict", "third", &[&["test", "-f", "a"]]),
        Item { scope: scope("a"), ..task("4-outside", "agent", &[]) },
        Item { output_files: vec![path("nowhere")], ..task("5-lacks", "other", &[]) },
        Item { input_files: vec![path("nowhere")], ..task("6-unfed", "other", &[]) },
        Item {
            constraints: Constraints { max_files: Some(1), ..Constraints::default() },
            ..task("7-large", "other", &[])
        },
        task("8-fails", "other", &[&["false"], &["true"]]),
        Item { needs: vec!["8-fails".into()], ..task("9-waits", "agent", &[]) },
    ];
    place.tool("false", "echo no >&2; exit 1");
    let slug = place.run(items);
    let ended = place.statuses(&slug);
    let expected = [
        "0-lands: success: inputs output scope admission outputs tests",
        "1-merged: success: inputs output scope admission outputs merged tests",
        "2-same: success: inputs output scope admission outputs merged",
        "3-conflict: denied merge_conflict: inputs output scope admission outputs tests merged",
        "4-outside: denied policy_violation: inputs output scope",
        "5-lacks: failure output_missing: inputs output scope admission outputs",
        "6-unfed: denied input_missing: inputs",
        "7-large: denied constraint_exceeded: inputs output scope admission",
        "8-fails: failure tests_failed: inputs output scope admission outputs tests",
        "9-waits: denied dependency_failed: ",
    ];
    assert_eq!(ended, expected);
    let (run, _) = place.reader().load(&slug).unwrap();
    assert_eq!(run.items()[0].ended().unwrap().tool_ops, 1);
    is_same(&place.rehydrate(&slug), &CHECKS);
    is_same(&place.reverify(&slug), &["patches", "gates", "tests"]);
}

#[test]
fn a_change_that_has_landed_already_is_refused_the_same_again() {
    let Some(place) = Place::new(Backend::None) else { return };
    place.agent("agent", "echo 2 > a");
    let first = place.run(vec![task("one", "agent", &[])]);
    // The user takes it back by hand, so that the base is the same and the landing still stands.
    place.world.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let second = place.run(vec![task("one", "agent", &[])]);
    assert_eq!(place.statuses(&second), ["one: denied duplicate_change: inputs output scope admission"]);
    for slug in [first, second] {
        is_same(&place.rehydrate(&slug), &["turns", "gates", "receipts"]);
    }
}

/// Changes a file of a directory of evidence and has the directory's manifest agree.
fn forge(place: &Place, slug: &str, dir: &str, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let dir = place.dir(slug).join(dir);
    let mut bytes = fs::read(dir.join(name)).unwrap();
    change(&mut bytes);
    fs::write(dir.join(name), &bytes).unwrap();
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let listed = manifest.files.iter_mut().find(|file| file.path == name).unwrap();
    let mut hasher = DoubleHasher::new();
    hasher.update(&bytes);
    let digest = hasher.finish();
    (listed.size, listed.blake3, listed.sha256) = (digest.bytes, digest.blake3, digest.sha256);
    fs::write(dir.join("manifest.json"), serde_json::to_vec_pretty(&manifest).unwrap()).unwrap();
}

fn replaced(from: &'static str, to: &'static str) -> impl Fn(&mut Vec<u8>) {
    move |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        *bytes = text.replace(from, to).into_bytes();
    }
}

#[test]
fn whatever_is_changed_of_the_evidence_is_named() {
    let step = "steps/001-worker";
    let change = "changes/001";
    let cases: [(&str, &str, &str, &str, &str); 8] = [
        (change, "gates.json", "\"passed\": true", "\"passed\": false", "changes/001/gates.json is not what follows"),
        (change, "gates.json", "\"PASS\"", "\"FAIL\"", "its status is not that of its exit code"),
        (change, "RECEIPT.json", "\"tool_ops\": 0", "\"tool_ops\": 7", "tool_ops is 7 on record and 0 now"),
        (change, "RECEIPT.json", "\"success\"", "\"denied\"", "status is \"denied\" on record and \"success\" now"),
        (change, "patch.diff", "+2", "+3", "changes/001/patch.diff is not what follows"),
        (change, "tests/1/stdout.log", "1 passed", "9 passed", "tests/1/stdout.log is not the log on record"),
        (step, "logs/stdout.txt", "done", "Done", "summary is \"done\" on record and \"Done\" now"),
        (step, "output.json", "done", "Done", "steps/001-worker/output.json is not what follows"),
    ];
    let Some(place) = Place::new(Backend::None) else { return };
    place.agent("agent", "echo 2 > a");
    place.tool("check", "echo '1 passed in 0.01s'");
    for (dir, name, from, to, expected) in cases {
        let slug = place.run(vec![task("one", "agent", &[&["check"]])]);
        place.world.git(&["reset", "--quiet", "--hard", "HEAD"]);
        is_same(&place.rehydrate(&slug), &CHECKS);
        forge(&place, &slug, dir, name, replaced(from, to));
        let report = place.rehydrate(&slug);
        assert_eq!(report.status, ReexecStatus::Fail);
        let found = differences(&report);
        assert!(found.iter().any(|line| line.contains(expected)), "{dir}/{name}: {found:#?}");
        // What the chain says of the directory is named too, whatever its manifest says.
        let vouched = format!("evidence: {dir}/manifest.json lists other files than the chain vouches for");
        assert!(found.contains(&vouched), "{dir}/{name}: {found:#?}");
        // The next one is another change, so that it is no duplicate.
        place.world.git(&[
            "-c",
            "user.name=u",
            "-c",
            "user.email=u@localhost",
            "commit",
            "--quiet",
            "--allow-empty",
            "-mx",
        ]);
        fs::write(place.world.repo.join("a"), format!("{name}{from}\n")).unwrap();
        place.world.git(&["-c", "user.name=u", "-c", "user.email=u@localhost", "commit", "--quiet", "-am", "next"]);
    }
}

#[test]
fn evidence_that_is_gone_is_a_difference() {
    let Some(place) = Place::new(Backend::None) else { return };
    place.agent("agent", "echo 2 > a");
    let slug = place.run(vec![task("one", "agent", &[])]);
    fs::remove_file(place.dir(&slug).join("changes/001/RECEIPT.json")).unwrap();
    let found = differences(&place.rehydrate(&slug));
    assert!(found.iter().any(|line| line.starts_with("gates: event ") && line.contains("RECEIPT.json")), "{found:#?}");
}
