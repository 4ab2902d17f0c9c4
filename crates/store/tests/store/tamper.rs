//! Somebody changes what is on record. Whatever they touch, `verify` names it.

use crate::fixture::{
    BASE_TREE, Driving, World, assert_same, commit, contract, copy_dir, open, run_id, sign, snapshot, tree,
};
use contract::documents::RunManifest;
use contract::{Earlier, End, Fact, Item, ItemAdded, ItemEnded, Reason, RunStarted, Workflow};
use rusqlite::params;
use serde_json::json;
use store::RunLog;

/// A short run that has ended and is sealed: one step, then the end.
fn short_run(world: &World) -> String {
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.step();
    driving.keep_diff();
    let end = End { reason: Some(Reason::Canceled), message: "no more".into() };
    driving.record(vec![Fact::RunCanceled(end)], vec![]);
    driving.finish();
    driving.slug()
}

#[test]
fn a_changed_byte_of_a_stored_line_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let db = world.raw_writable();
    assert_eq!(world.problems(&slug), [""; 0]);
    for table in ["events", "audit"] {
        let last: i64 = world.one(&format!("SELECT max(seq) FROM {table}"));
        for seq in 1..=last {
            let line: String = world.one(&format!("SELECT line FROM {table} WHERE seq = {seq}"));
            let update = format!("UPDATE {table} SET line = ?1 WHERE seq = ?2");
            // The first line holds the whole contract: every byte of the others, every third of it.
            let stride = if line.len() > 1000 { 3 } else { 1 };
            for at in (0..line.len()).step_by(stride) {
                let mut changed = line.clone().into_bytes();
                changed[at] ^= 1;
                let changed = String::from_utf8(changed).unwrap();
                db.execute(&update, params![changed, seq]).unwrap();
                let problems = world.problems(&slug);
                assert!(!problems.is_empty(), "{table} {seq}, byte {at}");
            }
            db.execute(&update, params![line, seq]).unwrap();
        }
    }
    assert_eq!(world.problems(&slug), [""; 0]);
}

#[test]
fn a_changed_column_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let db = world.raw_writable();
    for (damage, mend) in [
        ("UPDATE events SET type = 'verdict' WHERE seq = 2", "UPDATE events SET type = 'step_started' WHERE seq = 2"),
        (
            "UPDATE events SET message = message || 'x'",
            "UPDATE events SET message = substr(message, 1, length(message) - 1)",
        ),
        (
            "UPDATE events SET data_json = replace(data_json, 'plan', 'act') WHERE seq = 2",
            "UPDATE events SET data_json = replace(data_json, 'act', 'plan') WHERE seq = 2",
        ),
        ("UPDATE events SET ts = 'x' || ts", "UPDATE events SET ts = substr(ts, 2)"),
        (
            "UPDATE events SET hash = 'x' || hash WHERE seq = 3",
            "UPDATE events SET hash = substr(hash, 2) WHERE seq = 3",
        ),
        (
            "UPDATE audit SET data_json = '{\"version\":\"9\"}' WHERE seq = 1",
            concat!("UPDATE audit SET data_json = '{\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}' WHERE seq = 1"),
        ),
        ("UPDATE audit SET data_json = 'x' || data_json", "UPDATE audit SET data_json = substr(data_json, 2)"),
        (
            "UPDATE audit SET data_json = replace(data_json, '\"seq\":1,', '\"seq\":0,')",
            "UPDATE audit SET data_json = replace(data_json, '\"seq\":0,', '\"seq\":1,')",
        ),
        ("UPDATE audit SET type = 'x' || type", "UPDATE audit SET type = substr(type, 2)"),
        ("UPDATE audit SET ts = 'x' || ts", "UPDATE audit SET ts = substr(ts, 2)"),
        (
            "UPDATE audit SET seq = seq + 10 WHERE seq = (SELECT max(seq) FROM audit)",
            "UPDATE audit SET seq = seq - 10 WHERE seq = (SELECT max(seq) FROM audit)",
        ),
        ("UPDATE runs SET sealed = 0", "UPDATE runs SET sealed = 1"),
    ] {
        db.execute_batch(damage).unwrap();
        assert_ne!(world.problems(&slug), [""; 0], "{damage}");
        db.execute_batch(mend).unwrap();
        assert_eq!(world.problems(&slug), [""; 0], "{mend}");
    }
}

#[test]
fn a_changed_byte_of_any_file_of_a_sealed_run_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let dir = world.layout.run(&slug);
    let files = snapshot(&dir);
    assert!(files.len() > 9, "{files:?}");
    for (path, bytes) in files.iter().filter(|(path, _)| path.is_file()) {
        let stride = 1 + bytes.len() / 100;
        for at in (0..bytes.len()).step_by(stride) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(path, changed).unwrap();
            let problems = world.problems(&slug).join("\n");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(problems.contains(name), "byte {at} of {}: {problems}", path.display());
        }
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(world.problems(&slug), [""; 0]);
}

#[test]
fn a_file_that_was_removed_added_or_replaced_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let dir = world.layout.run(&slug);
    for (path, bytes) in snapshot(&dir).iter().filter(|(path, _)| path.is_file()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(world.problems(&slug).join("\n").contains(name), "{name} removed");
        std::os::unix::fs::symlink("/dev/null", path).unwrap();
        assert!(world.problems(&slug).join("\n").contains(name), "{name} is a link");
        std::fs::remove_file(path).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for added in ["steps/001-plan/extra", "extra", "steps/009-act/x", "steps/001-plan/logs/x.tmp-1"] {
        let path = dir.join(added);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x").unwrap();
        assert!(world.problems(&slug).iter().any(|problem| problem.contains("was added")), "{added}");
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(world.problems(&slug), [""; 0]);
}

#[test]
fn a_sealed_run_cannot_be_opened_again_by_a_column() {
    let world = World::new();
    let slug = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        driving.finish();
        driving.slug()
    };
    world.raw().execute_batch("UPDATE runs SET sealed = 0").unwrap();
    std::fs::write(world.layout.run(&slug).join("patch.diff"), "something else").unwrap();
    assert!(world.problems(&slug).iter().any(|problem| problem.contains("patch.diff")));
}

#[test]
fn events_that_were_removed_from_the_end_are_found() {
    let world = World::new();
    let slug = short_run(&world);
    let db = world.raw_writable();
    let last: i64 = world.one("SELECT max(seq) FROM events");
    let dir = world.layout.run(&slug);
    for seq in (2..=last).rev() {
        db.execute("DELETE FROM events WHERE seq = ?1", [seq]).unwrap();
        assert_ne!(world.problems(&slug), [""; 0], "without event {seq}");
        // Whoever does this well also adapts the mirror; the audit log still knows.
        let lines = world.texts("SELECT line || char(10) FROM events ORDER BY seq").concat();
        std::fs::write(dir.join("events.jsonl"), lines).unwrap();
        let problems = world.problems(&slug);
        assert!(problems.iter().any(|problem| problem.contains("the audit log has another event")), "{problems:?}");
    }
}

#[test]
fn an_older_copy_of_everything_is_found_with_a_checkpoint() {
    let world = World::new();
    let slug = short_run(&world);
    let old = tempfile::tempdir().unwrap();
    copy_dir(&world.layout.state, old.path());
    let checkpoint = {
        let store = world.store();
        Driving::start(&store, 2, None).finish();
        store.audit_head().unwrap()
    };
    assert!(store::verify(&world.reader(), &slug, Some(checkpoint), &open).unwrap().verified);
    std::fs::remove_dir_all(&world.layout.state).unwrap();
    copy_dir(old.path(), &world.layout.state);
    assert_eq!(world.problems(&slug), [""; 0], "the copy is whole");
    let found = store::verify(&world.reader(), &slug, Some(checkpoint), &open).unwrap();
    assert!(!found.verified);
    let audit = found.checks.iter().find(|check| check.name == "audit log").unwrap();
    assert!(audit.problems[0].starts_with("the state directory is older than its last checkpoint"), "{audit:?}");
    // Going on from the copy makes another history, however long it gets.
    let store = world.store();
    Driving::start(&store, 3, None).finish();
    Driving::start(&store, 4, None).finish();
    assert!(store.audit_head().unwrap().0 > checkpoint.0);
    assert!(!store::verify(&world.reader(), &slug, Some(checkpoint), &open).unwrap().verified);
}

#[test]
fn a_log_under_another_contract_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let path = world.layout.run(&slug).join("contract.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("Make it work", "Make it worse")).unwrap();
    assert!(world.problems(&slug).iter().any(|problem| problem.contains("contract.json")));
}

#[test]
fn a_run_that_the_audit_log_does_not_know_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let other = World::new();
    drop(other.store());
    let (from, to) = (world.layout.db(), other.raw());
    to.execute("ATTACH ?1 AS theirs", [from.to_str().unwrap()]).unwrap();
    to.execute_batch("INSERT INTO runs SELECT * FROM theirs.runs; INSERT INTO events SELECT * FROM theirs.events")
        .unwrap();
    copy_dir(&world.layout.run(&slug), &other.layout.run(&slug));
    assert!(other.problems(&slug).iter().any(|problem| problem.contains("does not know this run")));
    assert_eq!(slug, run_id(1).slug());
}

#[test]
fn only_who_has_the_key_can_seal_a_run() {
    let world = World::new();
    let slug = short_run(&world);
    let dir = world.layout.run(&slug);
    let seal = std::fs::read(dir.join("seal.dsse.json")).unwrap();
    let sealed_again = |sign: store::Sign<'_>| {
        world.raw().execute_batch("UPDATE runs SET sealed = 0").unwrap();
        store::seal(&world.store(), &slug, sign).unwrap();
        world.problems(&slug)
    };
    assert_eq!(sealed_again(&sign), [""; 0], "who has the key can seal");
    let forged =
        sealed_again(&|said| contract::attestation::Envelope::new(&said.to_bytes(), &somebody(), b"forged").to_bytes());
    assert_eq!(forged, ["seal: seal.dsse.json is not signed by any of the keys"]);
    std::fs::write(dir.join("seal.dsse.json"), seal).unwrap();
    assert_eq!(world.problems(&slug), [""; 0], "the same run has the same seal, whenever it is sealed");
}

#[test]
fn a_run_that_is_sealed_again_has_the_same_bytes() {
    let world = World::new();
    let slug = short_run(&world);
    let before = snapshot(&world.layout.run(&slug));
    world.raw().execute_batch("UPDATE runs SET sealed = 0").unwrap();
    store::seal(&world.store(), &slug, &sign).unwrap();
    assert_same(&before, &snapshot(&world.layout.run(&slug)));
}

#[test]
fn the_manifest_of_a_run_is_a_run_manifest_over_every_file() {
    let world = World::new();
    let slug = short_run(&world);
    let dir = world.layout.run(&slug);
    let manifest: RunManifest = contract::documents::read(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let there = snapshot(&dir).into_keys().filter(|path| path.is_file());
    let there = there.map(|path| path.strip_prefix(&dir).unwrap().to_str().unwrap().to_owned());
    let there: Vec<String> = there.filter(|path| path != "manifest.json" && path != "seal.dsse.json").collect();
    assert_eq!(manifest.evidence_hashes.into_keys().collect::<Vec<_>>(), there);
    assert!(there.contains(&"reports/evidence_report.json".to_owned()), "{there:?}");
    assert_eq!(manifest.artifacts.len(), there.len());
}

fn somebody() -> contract::Digest {
    contract::hash::sha256(b"somebody else's key")
}

#[test]
fn a_seal_of_another_run_is_found() {
    let world = World::new();
    let slug = short_run(&world);
    let other = {
        let store = world.store();
        let mut driving = Driving::start(&store, 7, None);
        driving.finish();
        driving.slug()
    };
    let seal = world.layout.run(&other).join("seal.dsse.json");
    std::fs::copy(seal, world.layout.run(&slug).join("seal.dsse.json")).unwrap();
    let problems = world.problems(&slug).join("\n");
    for what in
        ["another manifest.json", "is that of another run", "vouches for another log", "vouches for other files"]
    {
        assert!(problems.contains(what), "{problems}");
    }
}

/// The end of an item over every one of its gates.
fn succeeded() -> ItemEnded {
    let digest = contract::hash::sha256(b"");
    let gates = ["inputs", "output", "scope", "admission", "outputs"];
    let gates = gates.map(|gate| json!({"gate": gate, "passed": true, "findings": []}));
    serde_json::from_value(json!({
        "item": 0, "change": 1, "step": 1, "status": "success", "reason": null, "message": "", "before": BASE_TREE,
        "after": tree("tree-1"), "commit": commit("commit-1"), "gates": gates, "files": [1, 0, 0], "delta_size": 1, "tool_ops": 0,
        "tool_ops_source": "none", "took_ms": 1, "evidence": digest,
        "receipt": {"id": "r", "sha256": digest, "receipt_hash": digest, "content_hash": digest},
    }))
    .expect("an end")
}

#[test]
fn what_was_never_done_by_the_run_that_is_said_to_have_done_it_is_found() {
    let world = World::new();
    let parent = short_run(&world);
    let store = world.store();
    let item: Item = serde_json::from_value(json!({
        "id": "a", "agent_id": "agent-1", "role": "WORKER", "worker": "worker", "goal": "do it", "timeout_ms": 1000,
        "scope": {"allowed_paths": [], "allow_binary": false}, "submitted": contract::hash::sha256(b""),
    }))
    .expect("an item");
    let before = (*world.reader().load(&parent).expect("a run").0.started).clone();
    let mut whole = before.contract.clone();
    (whole.workflow, whole.items) = (Workflow::Batch, vec![item.clone()]);
    let contract_digest = whole.digest();
    whole.items.clear();
    let id = run_id(2);
    let run_dir = store.layout.shown(&store.layout.run(&id.slug()));
    let started = RunStarted {
        contract: whole,
        contract_digest,
        items: 1,
        parent: Some(parent.parse().unwrap()),
        run_dir,
        ..before
    };
    let earlier = Some(Earlier::Done { run: parent.parse().unwrap(), ended: Box::new(succeeded()) });
    let added = ItemAdded { index: 0, item, earlier, addition: None };
    store.create_run_dir(&id.slug(), &started, std::slice::from_ref(&added), None).expect("a directory");
    let mut log = RunLog::new(id, None, &contract_digest);
    let facts = vec![Fact::RunStarted(Box::new(started)), Fact::ItemAdded(Box::new(added))];
    store.append(&mut log, facts, Vec::new()).expect("a log");
    let expected = format!("state machine: item a was not done by run {parent} as it says");
    assert_eq!(world.problems(&id.slug()), [expected]);
}

#[test]
fn a_run_under_rules_that_are_not_known_here_is_not_judged() {
    let world = World::new();
    let store = world.store();
    let newer = contract::RULES + 1;
    let mut driving = Driving::start_under(&store, 1, contract::Contract { rules: newer, ..contract(None) });
    driving.finish();
    let expected =
        format!("state machine: its rules have version {newer}, and this build knows 1 to {}", contract::RULES);
    assert_eq!(world.problems(&driving.slug()), [expected]);
}
