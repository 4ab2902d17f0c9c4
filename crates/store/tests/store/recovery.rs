//! What is found at the start, row by row of the design's table, and after a crash at every named point. Each
//! test recovers twice: the second time nothing is written.

use crate::commit::child;
use crate::fixture::{Driving, LARGE, World, run_id, snapshot, tree};
use contract::{Item, Reason, Status};
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A run with this many steps done, whose process is gone.
fn cut_off(world: &World, steps: usize) -> (String, PathBuf) {
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(steps);
    (driving.slug(), driving.dir())
}

/// The run continues after recovery and passes.
#[track_caller]
fn goes_on(world: &World, slug: &str) {
    let store = world.store();
    Driving::resume(&store, slug).finish();
    let view = world.reader().run(slug).expect("a readable row").expect("a row");
    assert_eq!(view.status, Status::Succeeded);
    assert_eq!(world.problems(slug), [""; 0]);
}

fn quarantined(world: &World) -> Vec<String> {
    world.texts("SELECT data_json FROM audit WHERE type = 'quarantined'")
}

#[test]
fn a_running_run_whose_process_is_gone_is_paused() {
    let world = World::new();
    let (slug, _) = cut_off(&world, 2);
    assert_eq!(world.recover_twice().interrupted, [slug.as_str()]);
    let view = world.reader().run(&slug).unwrap().unwrap();
    assert_eq!((view.status, view.reason), (Status::Paused, Some(Reason::Interrupted)));
    assert_eq!(world.one::<String>("SELECT status FROM runs"), "stopped");
    assert_eq!(world.problems(&slug), [""; 0]);
    goes_on(&world, &slug);
}

#[test]
fn a_temporary_step_directory_is_deleted_on_start() {
    let world = World::new();
    let (slug, dir) = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        driving.step();
        let step = driving.open_step();
        let _ = driving.fill_step(step);
        (driving.slug(), driving.dir())
    };
    std::fs::create_dir(dir.join("steps/001-plan.tmp-old")).unwrap();
    assert_eq!(std::fs::read_dir(dir.join("steps")).unwrap().count(), 3);
    world.recover_twice();
    assert_eq!(std::fs::read_dir(dir.join("steps")).unwrap().count(), 1);
    assert_eq!(world.event_types(&slug)[4..], ["step_interrupted", "run_paused"]);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM steps"), 1);
    goes_on(&world, &slug);
}

#[test]
fn a_step_directory_without_a_record_becomes_a_failed_step() {
    let world = World::new();
    let (slug, dir) = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        driving.step();
        let step = driving.open_step();
        let _ = driving.prepare_step(step);
        (driving.slug(), driving.dir())
    };
    let before = snapshot(&dir.join("steps"));
    world.recover_twice();
    assert_eq!(snapshot(&dir.join("steps")), before, "the directory is kept as it is");
    let row = world.one::<String>("SELECT step_index || role || status || step_dir FROM steps WHERE step_index = 2");
    assert_eq!(row, format!("2dofail.norma/runs/{slug}/steps/002-do"));
    assert_eq!(world.one::<Option<String>>("SELECT summary FROM steps WHERE step_index = 2"), None);
    let message = world.one::<String>("SELECT message FROM events WHERE type = 'reconciled_step'");
    assert_eq!(message, "Step dir exists but DB record was missing; inserted during recovery");
    assert_eq!(world.problems(&slug), [""; 0]);
    goes_on(&world, &slug);
    assert!(world.layout.run(&slug).join("steps/003-do").is_dir(), "another attempt has a number of its own");
}

#[test]
fn a_step_directory_that_a_power_cut_damaged_is_recorded_as_it_is() {
    let world = World::new();
    let (slug, dir) = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        let step = driving.open_step();
        let _ = driving.prepare_step(step);
        (driving.slug(), driving.dir())
    };
    // The name was on disk, the small files were not: their bytes would have been in the commit.
    std::fs::write(dir.join("steps/001-plan/plan.md"), "").unwrap();
    std::fs::remove_file(dir.join("steps/001-plan/output.json")).unwrap();
    std::fs::write(dir.join("steps/001-plan/manifest.json"), "").unwrap();
    world.recover_twice();
    assert_eq!(world.event_types(&slug)[2..], ["reconciled_step", "run_paused"]);
    goes_on(&world, &slug);
}

#[test]
fn recovery_refers_to_a_verdict_and_never_guesses_it() {
    let world = World::new();
    let slug = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        driving.steps(2);
        let step = driving.open_step();
        let _ = driving.prepare_step(step);
        driving.slug()
    };
    let verdict = world.layout.run(&slug).join("steps/003-check/verdict.json");
    assert!(std::fs::read_to_string(&verdict).unwrap().contains("PASS"));
    world.recover_twice();
    assert!(verdict.is_file());
    assert_eq!(world.one::<Option<String>>("SELECT verdict FROM runs"), None);
    assert!(!world.event_types(&slug).contains(&"verdict".to_owned()));
    assert!(world.one::<String>("SELECT step_dir FROM steps WHERE role = 'check'").ends_with("steps/003-check"));
}

#[test]
fn every_step_directory_of_every_run_is_reconciled() {
    let world = World::new();
    {
        let store = world.store();
        for n in 1..=3 {
            let mut driving = Driving::start(&store, n, None);
            driving.steps(usize::from(n));
            let step = driving.open_step();
            let _ = driving.prepare_step(step);
            std::fs::create_dir_all(driving.dir().join("steps/077-act")).unwrap();
        }
    }
    world.recover_twice();
    for n in 1..=3 {
        let slug = run_id(n).slug();
        for entry in std::fs::read_dir(world.layout.run(&slug).join("steps")).unwrap() {
            let dir = format!(".norma/runs/{slug}/steps/{}", entry.unwrap().file_name().to_str().unwrap());
            assert_eq!(world.one::<i64>(&format!("SELECT count(*) FROM steps WHERE step_dir = '{dir}'")), 1, "{dir}");
        }
    }
    assert_eq!(quarantined(&world).len(), 3, "a directory that is no step of its run is moved aside");
    assert_eq!(std::fs::read_dir(world.layout.quarantine()).unwrap().count(), 3);
}

#[test]
fn lost_and_empty_small_files_are_restored_from_the_commit() {
    let world = World::new();
    let (slug, dir) = cut_off(&world, 3);
    let before = snapshot(&dir.join("steps"));
    std::fs::remove_dir_all(dir.join("steps/001-plan")).unwrap();
    std::fs::write(dir.join("steps/002-do/input.json"), "").unwrap();
    std::fs::remove_file(dir.join("steps/003-check/manifest.json")).unwrap();
    let found = world.recover_twice();
    assert_eq!(found.notes.iter().filter(|note| note.ends_with("restored")).count(), 2, "{found:?}");
    assert!(
        found.notes.contains(&format!("{slug}: 1 directory(s) were in the commit alone; written out")),
        "{found:?}"
    );
    assert_eq!(snapshot(&dir.join("steps")), before);
    goes_on(&world, &slug);
}

/// Has the database be as it was when the bytes of each file were in the list of files.
fn with_bytes_in_the_list(world: &World, run_dir: &Path) {
    let db = world.raw();
    db.execute_batch(
        "CREATE TABLE listed AS SELECT * FROM artifacts; DROP VIEW artifacts; DROP TABLE copies; DROP TABLE directories;
         DELETE FROM schema_migrations WHERE version >= 11;
         CREATE TABLE artifacts (run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE, dir TEXT NOT NULL,
           path TEXT NOT NULL, size INTEGER NOT NULL, blake3 TEXT NOT NULL, sha256 TEXT NOT NULL, bytes BLOB NULL,
           PRIMARY KEY (run_id, dir, path));
         INSERT INTO artifacts SELECT *, NULL FROM listed; DROP TABLE listed;",
    )
    .unwrap();
    for name in world.texts("SELECT dir || '/' || path FROM artifacts WHERE size <= 65536") {
        let bytes = std::fs::read(run_dir.join(&name)).unwrap();
        db.execute("UPDATE artifacts SET bytes = ?1 WHERE dir || '/' || path = ?2", rusqlite::params![bytes, name])
            .unwrap();
    }
}

#[test]
fn what_an_older_norma_committed_of_small_files_is_restored_too() {
    let world = World::new();
    let (slug, dir) = cut_off(&world, 3);
    with_bytes_in_the_list(&world, &dir);
    let output = std::fs::read(dir.join("steps/002-do/output.json")).unwrap();
    std::fs::remove_file(dir.join("steps/002-do/output.json")).unwrap();
    std::fs::remove_dir_all(dir.join("steps/001-plan")).unwrap();
    world.recover_twice();
    assert_eq!(std::fs::read(dir.join("steps/002-do/output.json")).unwrap(), output);
    assert!(dir.join("steps/001-plan/logs/stdout.txt").is_file());
    goes_on(&world, &slug);
}

#[test]
fn a_changed_step_file_is_noticed_and_never_rewritten() {
    let world = World::new();
    let (slug, dir) = cut_off(&world, 3);
    let path = dir.join("steps/002-do/output.json");
    std::fs::write(&path, "{\"version\":1,\"status\":\"no\"}").unwrap();
    let found = world.recover_twice();
    assert!(found.notes[0].contains("evidence lost: steps/002-do/output.json differs"), "{found:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"version\":1,\"status\":\"no\"}");
    let view = world.reader().run(&slug).unwrap().unwrap();
    assert_eq!((view.status, view.reason), (Status::Failed, Some(Reason::EvidenceLost)));
    assert_eq!(world.event_types(&slug).last().unwrap(), "evidence_lost");
    assert!(!world.reader().is_sealed(&slug).unwrap(), "a seal would drop the last good copy");
    assert_eq!(
        world.one::<i64>("SELECT count(*) FROM copies JOIN directories USING (id) WHERE dir = 'steps/002-do'"),
        1
    );
    assert!(world.problems(&slug).iter().any(|problem| problem.contains("steps/002-do/output.json")));
}

#[test]
fn evidence_that_is_lost_while_an_item_is_worked_on_freezes_the_run_and_not_norma() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start_items(&store, 1, &["a", "b"]);
    let first = driving.open_item();
    let prepared = driving.prepare_step(first);
    driving.record(prepared.facts, prepared.files);
    let second = driving.open_item();
    assert_ne!(first.item, second.item);
    let (slug, path) = (driving.slug(), driving.dir().join("steps").join(first.dir_name()).join("output.json"));
    drop(driving);
    drop(store);
    std::fs::write(&path, "{\"version\":1,\"status\":\"no\"}").unwrap();
    world.recover_twice();
    assert_eq!(world.event_types(&slug).last().unwrap(), "evidence_lost");
    let view = world.reader().run(&slug).unwrap().unwrap();
    assert_eq!((view.status, view.reason), (Status::Failed, Some(Reason::EvidenceLost)));
}

#[test]
fn a_lost_large_file_freezes_the_run_and_not_norma() {
    let world = World::new();
    let (slug, dir) = cut_off(&world, 3);
    let large = dir.join("steps/002-do/files/large.log");
    std::fs::remove_file(&large).unwrap();
    world.recover_twice();
    assert_eq!(world.event_types(&slug).last().unwrap(), "evidence_lost");
    std::fs::write(&large, vec![b'x'; LARGE]).unwrap();
    world.recover_twice();
    assert!(world.reader().is_sealed(&slug).unwrap(), "what comes back can be sealed");
    assert_eq!(world.problems(&slug), [""; 0]);
}

#[test]
fn evidence_that_an_ended_run_lost_before_its_seal_is_told_at_every_start() {
    let world = World::new();
    let slug = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        driving.steps(3);
        let end = contract::End { reason: Some(Reason::Canceled), message: "no more".into() };
        driving.record(vec![contract::Fact::RunCanceled(end)], vec![]);
        driving.slug()
    };
    std::fs::remove_file(world.layout.run(&slug).join("steps/002-do/files/large.log")).unwrap();
    let notes = world.recover_twice().notes;
    assert!(notes[0].contains("evidence lost"), "{notes:?}");
    assert_eq!(world.recover().notes, notes);
    assert_eq!(world.event_types(&slug).last().unwrap(), "run_canceled", "terminal is terminal");
}

#[test]
fn an_ended_run_is_sealed_on_start() {
    let world = World::new();
    let slug = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        driving.steps(1);
        let end = contract::End { reason: Some(Reason::Canceled), message: "no more".into() };
        driving.record(vec![contract::Fact::RunCanceled(end)], vec![]);
        driving.slug()
    };
    // What a crash leaves of writing one of the run's own files, and what a power cut leaves of its bundle.
    let dir = world.layout.run(&slug);
    std::fs::write(dir.join("manifest.json.tmp-0badcafe"), "{").unwrap();
    std::fs::create_dir_all(dir.join("reports")).unwrap();
    std::fs::write(dir.join("reports/review_report.json"), [0; 512]).unwrap();
    std::fs::write(dir.join("meta.json"), "").unwrap();
    world.recover_twice();
    assert!(world.reader().is_sealed(&slug).unwrap());
    assert_eq!(world.problems(&slug), [""; 0]);
    let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.join("meta.json")).unwrap()).unwrap();
    assert_eq!(meta["run_id"], slug.as_str(), "the bundle was made again");
    // Nobody wrote down what the run changed, and nothing is made up for it.
    let report = std::fs::read_to_string(dir.join("reports/evidence_report.json")).unwrap();
    assert!(report.contains("\"fail\"") && report.contains("\"patch.diff\""), "{report}");
}

/// A run whose first change was opened and got a directory, but no record.
fn cut_off_in_a_change(world: &World, before: contract::TreeId) -> (String, PathBuf) {
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(4);
    let (change, step) = driving.open_change();
    let _ = driving.prepare_change(change, step, before);
    (driving.slug(), driving.dir())
}

#[test]
fn a_sealed_change_without_a_record_is_rolled_forward() {
    let world = World::new();
    let (slug, dir) = cut_off_in_a_change(&world, crate::fixture::BASE_TREE);
    world.recover_twice();
    let types = world.event_types(&slug);
    assert_eq!(types[types.len() - 3..], ["patch_applied", "change_recovered", "run_paused"]);
    assert_eq!(
        world.one::<String>("SELECT value_json FROM kv_run WHERE key = 'tree'"),
        format!("\"{}\"", tree("tree-1"))
    );
    // Its small files were never synced: from here on the commit has them.
    std::fs::write(dir.join("changes/001/gates.json"), "").unwrap();
    world.recover_twice();
    assert_eq!(std::fs::read_to_string(dir.join("changes/001/gates.json")).unwrap(), "{}\n");
    goes_on(&world, &slug);
}

#[test]
fn a_change_that_was_not_sealed_is_judged_again() {
    let world = World::new();
    let (slug, dir) = cut_off_in_a_change(&world, crate::fixture::BASE_TREE);
    std::fs::rename(dir.join("changes/001"), dir.join("changes/001.tmp-0badcafe")).unwrap();
    world.recover_twice();
    let types = world.event_types(&slug);
    assert_eq!(types[types.len() - 2..], ["change_interrupted", "run_paused"]);
    assert_eq!(std::fs::read_dir(dir.join("changes")).unwrap().count(), 0);
    goes_on(&world, &slug);
}

#[test]
fn a_change_that_does_not_verify_is_moved_aside_and_judged_again() {
    for damage in ["gates.json", "manifest.json", "patch.diff"] {
        let world = World::new();
        let (slug, dir) = cut_off_in_a_change(&world, crate::fixture::BASE_TREE);
        std::fs::write(dir.join("changes/001").join(damage), "something else").unwrap();
        world.recover_twice();
        assert_eq!(quarantined(&world).len(), 1, "{damage}");
        let types = world.event_types(&slug);
        assert_eq!(types[types.len() - 2..], ["change_interrupted", "run_paused"]);
        goes_on(&world, &slug);
    }
}

#[test]
fn a_change_that_a_power_cut_left_without_content_is_removed_and_judged_again() {
    for (damage, content) in [("gates.json", ""), ("manifest.json", ""), ("patch.diff", "\0\0\0\0")] {
        let world = World::new();
        let (slug, dir) = cut_off_in_a_change(&world, crate::fixture::BASE_TREE);
        std::fs::write(dir.join("changes/001").join(damage), content).unwrap();
        world.recover_twice();
        assert_eq!((quarantined(&world).len(), dir.join("changes/001").exists()), (0, false), "{damage}");
        let types = world.event_types(&slug);
        assert_eq!(types[types.len() - 2..], ["change_interrupted", "run_paused"]);
        goes_on(&world, &slug);
    }
}

#[test]
fn a_change_whose_outcome_does_not_follow_from_the_log_is_moved_aside() {
    let world = World::new();
    let (slug, _) = cut_off_in_a_change(&world, tree("another tree"));
    world.recover_twice();
    assert!(quarantined(&world)[0].contains("does not follow from the log"));
    assert!(!world.event_types(&slug).contains(&"patch_applied".to_owned()));
    goes_on(&world, &slug);
}

#[test]
fn the_mirror_becomes_the_log_again() {
    type Damaged = fn(&str) -> String;
    let cases: [(&str, Damaged, bool); 6] = [
        ("missing", |_| String::new(), false),
        ("short", |text| text.lines().take(2).map(|line| format!("{line}\n")).collect(), false),
        ("torn", |text| text[..text.len() - 40].to_owned(), false),
        ("a torn line too many", |text| format!("{text}{{\"id\":\"x"), false),
        ("longer", |text| format!("{text}{{\"id\":\"x\"}}\n"), true),
        ("foreign", |_| "something else\n".to_owned(), true),
    ];
    for (name, damage, moved) in cases {
        let world = World::new();
        let (slug, dir) = cut_off(&world, 1);
        let path = dir.join("events.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        std::fs::write(&path, damage(&text)).unwrap();
        if name == "missing" {
            std::fs::remove_file(&path).unwrap();
        }
        world.recover_twice();
        assert_eq!(quarantined(&world).len(), usize::from(moved), "{name}");
        let lines = world.reader().lines(&slug, 0, 100).unwrap().join("\n") + "\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), lines, "{name}");
        goes_on(&world, &slug);
    }
}

#[test]
fn strays_among_the_runs_are_moved_aside_and_never_deleted() {
    let world = World::new();
    let (slug, _) = cut_off(&world, 1);
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff-name");
    std::fs::write(world.layout.runs().join("note.txt"), "mine").unwrap();
    std::fs::create_dir_all(world.layout.runs().join("20990101-000000-abcdef/steps")).unwrap();
    std::fs::create_dir_all(world.layout.runs().join(odd)).unwrap();
    std::os::unix::fs::symlink("/etc", world.layout.runs().join("link")).unwrap();
    world.recover_twice();
    assert_eq!(std::fs::read_dir(world.layout.runs()).unwrap().count(), 1);
    assert_eq!(quarantined(&world).len(), 4);
    let kept: Vec<Vec<u8>> = snapshot(&world.layout.quarantine()).into_values().collect();
    assert!(kept.contains(&b"mine".to_vec()));
    goes_on(&world, &slug);
}

#[test]
fn a_run_directory_that_is_gone_is_made_again() {
    for steps in [0, 1] {
        let world = World::new();
        let slug = {
            let store = world.store();
            let mut driving = Driving::start(&store, 1, None);
            driving.steps(steps);
            driving.open_step();
            driving.slug()
        };
        std::fs::remove_dir_all(world.layout.run(&slug)).unwrap();
        world.recover_twice();
        assert_eq!(
            std::fs::read_to_string(world.layout.run(&slug).join("norma.md")).unwrap(),
            crate::fixture::NORMA_MD
        );
        goes_on(&world, &slug);
    }
}

#[test]
fn a_database_that_was_only_just_made_is_initialized() {
    let world = World::new();
    world.layout.create().unwrap();
    std::fs::write(world.layout.db(), "").unwrap();
    world.recover_twice();
    assert_eq!(world.texts("SELECT type FROM audit"), ["initialized"]);
}

#[test]
fn a_crash_at_any_point_of_a_commit_is_recovered_from() {
    const POINTS: [&str; 8] = [
        "step.before_rename",
        "step.after_rename",
        "mirror.before_append",
        "mirror.after_append",
        "change.before_rename",
        "change.after_rename",
        "seal.after_sync",
        "seal.after_commit",
    ];
    for point in POINTS {
        let mut crashes = 0;
        // Dies at the first visit, then at the second, until it survives.
        loop {
            let world = World::new();
            let nth = crashes + 1;
            let survived = child(&world, &format!("crash {point}:{nth}")).wait().unwrap().success();
            let slug = run_id(1).slug();
            let known = world.layout.exists() && world.recover_twice_known(&slug);
            if known {
                let before = world.problems(&slug);
                assert_eq!(before, [""; 0], "{point}:{nth}");
                goes_on(&world, &slug);
            }
            if survived {
                break;
            }
            crashes += 1;
        }
        assert!(crashes > 0, "{point} was never reached");
    }
}

impl World {
    /// Recovers, and says whether the run had come to exist before the crash.
    fn recover_twice_known(&self, slug: &str) -> bool {
        self.recover_twice();
        self.reader().run(slug).expect("a row or none").is_some()
    }
}

/// One thing that a power cut, a person or a program may have done to a run's directory.
#[derive(Debug, Clone)]
enum Damage {
    Remove(prop::sample::Index),
    Empty(prop::sample::Index),
    Change(prop::sample::Index),
    Cut(prop::sample::Index, prop::sample::Index),
    Add(&'static str),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    let added = ["steps/001-plan.tmp-1", "steps/044-do", "changes/003", "changes/001.tmp-2", "x.tmp-3", "../stray"];
    prop_oneof![
        2 => index().prop_map(Damage::Remove),
        2 => index().prop_map(Damage::Empty),
        1 => index().prop_map(Damage::Change),
        2 => (index(), index()).prop_map(|(file, at)| Damage::Cut(file, at)),
        3 => prop::sample::select(added.to_vec()).prop_map(Damage::Add),
    ]
}

impl Damage {
    fn do_to(&self, dir: &Path) {
        let files: Vec<PathBuf> = snapshot(dir).into_keys().filter(|path| path.is_file()).collect();
        match self {
            Damage::Remove(file) => std::fs::remove_file(file.get(&files)).expect("the damage is done"),
            Damage::Empty(file) => std::fs::write(file.get(&files), "").expect("the damage is done"),
            Damage::Change(file) => {
                let mut bytes = std::fs::read(file.get(&files)).expect("the damage is done");
                bytes.push(b'!');
                std::fs::write(file.get(&files), bytes).expect("the damage is done");
            }
            Damage::Cut(file, at) => {
                let bytes = std::fs::read(file.get(&files)).expect("the damage is done");
                std::fs::write(file.get(&files), &bytes[..at.index(bytes.len() + 1)]).expect("the damage is done");
            }
            Damage::Add(name) => std::fs::create_dir_all(dir.join(name)).expect("the damage is done"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(40), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened to the directory: recovery works, a second one writes nothing, and the run either is
    /// whole and continues, or is frozen and says what it lost.
    #[test]
    fn any_damage_is_mended_or_told(
        stop in 0usize..4, steps in 1usize..4, damages in proptest::collection::vec(damage(), 1..4)
    ) {
        let world = World::new();
        let (slug, dir) = {
            let store = world.store();
            let mut driving = Driving::start(&store, 1, None);
            driving.steps(steps);
            if stop > 0 {
                let step = driving.open_step();
                match stop {
                    1 => {}
                    2 => drop(driving.fill_step(step)),
                    _ => drop(driving.prepare_step(step)),
                }
            }
            (driving.slug(), driving.dir())
        };
        for damage in &damages {
            damage.do_to(&dir);
        }
        world.recover_twice();
        let view = world.reader().run(&slug).unwrap().unwrap();
        match view.reason {
            Some(Reason::Interrupted) => goes_on(&world, &slug),
            Some(Reason::EvidenceLost) => prop_assert_ne!(world.problems(&slug), [""; 0]),
            other => prop_assert!(false, "{:?} after {:?}", other, damages),
        }
    }
}

#[test]
fn an_item_that_was_added_is_in_the_log_and_not_in_the_contract_that_the_run_started_with() {
    let world = World::new();
    let (slug, dir) = {
        let store = world.store();
        let mut driving = Driving::start_items(&store, 1, &["a"]);
        let item = Item { id: "b".into(), ..(*driving.run.items()[0].item).clone() };
        let agent = serde_json::from_str(r#"{"type":"exec","cmd":["./agent"],"model":"m"}"#).unwrap();
        let added = driving.run.add_item(item, Some(agent)).unwrap();
        driving.record(vec![added], vec![]);
        (driving.slug(), driving.dir())
    };
    let before = std::fs::read(dir.join("contract.json")).unwrap();
    std::fs::remove_file(dir.join("contract.json")).unwrap();
    world.recover_twice();
    assert_eq!(std::fs::read(dir.join("contract.json")).unwrap(), before);
    assert_eq!(world.texts("SELECT task_id FROM items ORDER BY place"), ["a", "b"]);
    assert_eq!(world.problems(&slug), [""; 0]);
    let (run, _) = world.reader().load(&slug).unwrap();
    assert_ne!(run.contract_digest(), run.started.contract_digest);
}
