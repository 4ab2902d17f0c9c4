//! What is committed together, in which order, and who is told what.

use crate::fixture::{Driving, LARGE, World, commit, open, run_id, sign, snapshot};
use contract::{Audit, End, Fact, Reason, Status};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use store::{Attached, Error, KeptFile, Owner, OwnerLock, Preparing, Reader, Store, Writing};

fn canceled() -> Vec<Fact> {
    vec![Fact::RunCanceled(End { reason: Some(Reason::Canceled), message: "no more".into() })]
}

#[test]
fn what_is_appended_can_be_read_and_verified() {
    let world = World::new();
    let store = world.store();
    let task = store.add_task("Make it work".into(), vec!["it works".into()]).wait().unwrap();
    let mut driving = Driving::start(&store, 1, Some(task));
    driving.finish();
    let slug = driving.slug();
    let reader = world.reader();
    let (id, events, log) = reader.log(&slug).unwrap();
    assert_eq!((id, log.seq, log.head), (driving.run.id, driving.log.seq, driving.log.head));
    assert_eq!(log.name, driving.log.name);
    assert_eq!(run::Run::fold(id, &events).unwrap(), driving.run);
    let view = reader.run(&slug).unwrap().unwrap();
    assert_eq!((view.status, view.iteration, view.landed), (Status::Succeeded, 2, Some(commit("commit-1"))));
    assert_eq!(reader.task(task).unwrap().unwrap().status, contract::TaskStatus::Done);
    assert_eq!(world.one::<String>("SELECT status || ' ' || verdict FROM runs"), "passed PASS");
    assert_eq!(world.problems(&slug), [""; 0]);
    let checkpoint = store.audit_head().unwrap();
    assert!(store::verify(&reader, &slug, Some(checkpoint), &open).unwrap().verified);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM copies"), 0);
    let lines = reader.lines(&slug, 0, 1000).unwrap().join("\n") + "\n";
    assert_eq!(std::fs::read_to_string(driving.dir().join("events.jsonl")).unwrap(), lines);
}

#[test]
fn event_numbers_grow_by_one_within_a_run() {
    let world = World::new();
    let store = world.store();
    Driving::start(&store, 1, None).finish();
    Driving::start(&store, 2, None).finish();
    for n in [1, 2] {
        let seqs = world
            .texts(&format!("SELECT CAST(seq AS TEXT) FROM events WHERE run_id = '{}' ORDER BY seq", run_id(n).slug()));
        let expected: Vec<String> = (1..=seqs.len()).map(|seq| seq.to_string()).collect();
        assert_eq!(seqs, expected);
    }
}

#[test]
fn a_step_is_committed_in_the_order_of_the_document() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let step = driving.open_step();
    let steps = driving.dir().join("steps");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&steps).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let rows = || world.one::<i64>("SELECT count(*) FROM steps");
    let mut filled = driving.fill_step(step);
    assert_eq!((names(), rows()), (Vec::new(), 0), "small files are in memory until then");
    filled.write("large", &vec![b'x'; LARGE]).unwrap();
    let [tmp] = &names()[..] else { panic!("{:?}", names()) };
    assert!(tmp.starts_with("001-plan.tmp-"), "{tmp}");
    assert!(steps.join(tmp).join("large").is_file() && !steps.join("001-plan").exists());
    assert_eq!(rows(), 0);
    drop(filled);
    std::fs::remove_dir_all(steps.join(tmp)).unwrap();
    let prepared = driving.prepare_step(step);
    assert_eq!((names(), rows()), (vec!["001-plan".to_owned()], 0));
    driving.record(prepared.facts, prepared.files);
    assert_eq!(rows(), 1);
}

#[test]
fn a_directory_that_is_written_later_is_in_the_commit_until_somebody_needs_it() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let step = driving.open_step();
    let (slug, dir) = (driving.slug(), driving.dir().join("steps/001-plan"));
    let prepared = driving.prepare_step_as(step, Writing::Later);
    driving.record(prepared.facts, prepared.files);
    assert!(!dir.exists());
    let reader = world.reader();
    let plan = || reader.evidence(&slug, "steps/001-plan", "plan.md").unwrap().unwrap();
    assert_eq!(plan(), b"# Plan\n");
    assert_eq!(store::lost_evidence(&reader, &slug).unwrap(), Vec::<String>::new());
    let verified = store::verify(&reader, &slug, None, &open).unwrap();
    assert!(verified.verified, "{verified:?}");
    let written = |dir: &str| store::write_out_dir(&reader, &slug, dir).unwrap();
    assert_eq!((written("steps/002-do"), written("steps/001-plan"), written("steps/001-plan")), (0, 1, 0));
    assert_eq!(store::write_out(&reader, &slug).unwrap(), 0);
    assert_eq!((std::fs::read(dir.join("plan.md")).unwrap(), plan()), (b"# Plan\n".to_vec(), b"# Plan\n".to_vec()));
    std::fs::write(dir.join("plan.md"), "# Another\n").unwrap();
    assert_eq!(store::lost_evidence(&reader, &slug).unwrap().len(), 1);
}

#[test]
fn of_a_program_that_left_no_files_only_its_answer_is_shown_until_the_rest_is_written() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let step = driving.open_step();
    let (slug, dir) = (driving.slug(), driving.dir().join("steps/001-plan"));
    let mut evidence = Preparing::new(&dir);
    for name in ["input.json", "logs/stdout.txt", "output.json"] {
        evidence.write(name, name.as_bytes()).unwrap();
    }
    let prepared = driving.prepare_filled(step, evidence, Writing::Later);
    let shown = store::shown(&prepared.files);
    driving.record(prepared.facts, prepared.files);
    store::write_dir(&dir, &shown).unwrap();
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["output.json"]);
    let reader = world.reader();
    let lost = || store::lost_evidence(&reader, &slug).unwrap();
    let is_verified = || store::verify(&reader, &slug, None, &open).unwrap().verified;
    assert_eq!(reader.evidence(&slug, "steps/001-plan", "input.json").unwrap().unwrap(), b"input.json");
    assert_eq!((lost(), is_verified()), (Vec::new(), true));
    std::fs::write(dir.join("output.json"), "another").unwrap();
    assert_eq!(lost(), ["steps/001-plan/output.json differs from what was recorded"]);
    assert!(!is_verified());
    std::fs::write(dir.join("output.json"), "output.json").unwrap();
    // Beside anything else it is not taken for what norma has shown.
    std::os::unix::fs::symlink("/var", dir.join("logs")).unwrap();
    assert_eq!((lost().len(), is_verified()), (3, false));
    assert_eq!(store::write_out(&reader, &slug).unwrap(), 0);
    std::fs::remove_file(dir.join("logs")).unwrap();
    assert_eq!(store::write_out(&reader, &slug).unwrap(), 1);
    assert_eq!(names(), ["input.json", "logs", "manifest.json", "output.json"]);
    assert_eq!((lost(), is_verified(), store::write_out(&reader, &slug).unwrap()), (Vec::new(), true, 0));
}

#[test]
fn a_file_that_facts_rely_on_is_in_their_commit_until_the_run_is_sealed() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let step = driving.open_step();
    let prepared = driving.prepare_step(step);
    let object = KeptFile { path: "git/objects/ab/cdef".into(), bytes: b"an object".to_vec() };
    let at = store.layout.state.join(&object.path);
    let attached = Attached { files: prepared.files, kept: vec![object.clone()] };
    driving.record(prepared.facts, attached);
    // As a power cut leaves it: it never reached the disk, or only its name did.
    let mut left: Vec<Option<&[u8]>> = vec![None, Some(b""), Some(b"an object")];
    while let Some(torn) = left.pop() {
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&at);
        torn.iter().for_each(|bytes| std::fs::write(&at, bytes).unwrap());
        store::recover_one(&store, &driving.slug(), &sign).unwrap();
        assert_eq!(std::fs::read(&at).unwrap(), object.bytes, "after {torn:?}");
    }
    let kept = || world.one::<i64>("SELECT count(*) FROM kept");
    assert_eq!(kept(), 1);
    let slug = driving.slug();
    let mut resumed = Driving::resume(&store, &slug);
    resumed.finish();
    assert!(resumed.is_sealed());
    assert_eq!(kept(), 0);
    assert_eq!(std::fs::read(&at).unwrap(), object.bytes);
}

#[test]
fn a_step_directory_appears_only_when_it_is_complete() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let step = driving.open_step();
    let target = driving.dir().join("steps/001-plan");
    std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            while !target.exists() {
                std::hint::spin_loop();
            }
            // Whatever is there the moment the name appears is everything that will be there.
            snapshot(&target)
        });
        let prepared = driving.prepare_step(step);
        let seen = seen.join().unwrap();
        assert_eq!(seen, snapshot(&target));
        assert_eq!(prepared.files.len(), 6);
        let listed = prepared.files.iter().map(|(_, file)| target.join(&file.listed.path));
        assert!(listed.into_iter().all(|path| seen.contains_key(&path)));
    });
    // A directory that is there is never replaced.
    let before = snapshot(&target);
    let again = driving.fill_step(step).finish(
        &run_id(1).slug(),
        "steps/001-plan",
        run_time(),
        vec![],
        Writing::AtOnce,
        POINTS,
    );
    assert!(again.is_err());
    assert_eq!(snapshot(&target), before);
}

const POINTS: [&str; 2] = ["step.before_rename", "step.after_rename"];

fn run_time() -> contract::Timestamp {
    contract::Timestamp::from_unix_ms(0)
}

#[test]
fn a_step_its_events_and_its_run_change_in_one_transaction() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(2);
    let step = driving.open_step();
    let prepared = driving.prepare_step(step);
    let state = || {
        world.texts(
            "SELECT run_id || iteration || current_step_index || coalesce(verdict, '-') || state FROM runs
             UNION ALL SELECT run_id || step_index FROM steps UNION ALL SELECT run_id || seq FROM events
             UNION ALL SELECT run_id || dir || path FROM artifacts UNION ALL SELECT CAST(seq AS TEXT) FROM audit",
        )
    };
    let before = state();
    // A directory that is on record already is refused, after the step, its events and its run were written.
    let again = ("steps/001-plan".to_owned(), prepared.files[0].1.clone());
    let twice: Vec<_> = prepared.files.iter().cloned().chain([again]).collect();
    let mut log = driving.log.clone();
    assert!(matches!(store.append(&mut log, prepared.facts.clone(), twice), Err(Error::Commit(_))));
    assert_eq!(log.seq, driving.log.seq);
    assert_eq!(state(), before);
    driving.record(prepared.facts, prepared.files);
    assert_eq!(
        world.one::<String>("SELECT iteration || ' ' || current_step_index || ' ' || verdict FROM runs"),
        "1 3 FAIL"
    );
    assert_eq!(world.one::<i64>("SELECT count(*) FROM steps"), 3);
    driving.finish();
    assert_eq!(world.problems(&driving.slug()), [""; 0]);
}

#[test]
fn the_log_is_append_only() {
    let world = World::new();
    let store = world.store();
    Driving::start(&store, 1, None);
    for sql in [
        "UPDATE events SET line = 'x'",
        "DELETE FROM events",
        "UPDATE audit SET line = 'x'",
        "DELETE FROM audit",
        "PRAGMA foreign_keys=ON; DELETE FROM runs",
    ] {
        let error = world.raw().execute_batch(sql).unwrap_err();
        assert!(error.to_string().contains("append-only"), "{sql}: {error}");
    }
}

#[test]
fn only_one_of_two_that_append_to_the_same_end_succeeds() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let mut other = driving.log.clone();
    driving.step();
    let before = driving.log.seq;
    match store.append(&mut other, canceled(), vec![]) {
        Err(Error::Conflict { expected: 1, found, .. }) => assert_eq!(found, before),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.one::<String>("SELECT status FROM runs"), "running");
    driving.record(canceled(), vec![]);
    assert_eq!(world.one::<String>("SELECT status FROM runs"), "stopped");
}

#[test]
fn the_failure_of_one_submitter_is_not_the_failure_of_the_others() {
    let world = World::new();
    let store = world.store();
    let good: Vec<_> = (1..=3).map(|n| Driving::start(&store, n, None).log).collect();
    let mut stale = good[1].clone();
    stale.seq = 7;
    // While somebody else writes, everything below is queued and becomes one transaction.
    let other = world.raw();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let first = store.submit_append(&good[0], canceled(), vec![]).2;
    std::thread::sleep(Duration::from_millis(50));
    let second = store.submit_append(&stale, canceled(), vec![]).2;
    let third = store.submit_append(&good[2], canceled(), vec![]).2;
    let fourth = store.link_task(5, vec![6]);
    let fifth = store.add_task("t".into(), vec![]);
    other.execute_batch("COMMIT").unwrap();
    first.wait().unwrap();
    assert!(matches!(second.wait(), Err(Error::Conflict { .. })));
    third.wait().unwrap();
    assert!(matches!(fourth.wait(), Err(Error::Refused(_))));
    assert_eq!(fifth.wait().unwrap(), 1);
    assert_eq!(world.texts("SELECT status FROM runs ORDER BY run_id"), ["stopped", "running", "stopped"]);
    for n in [1, 2, 3] {
        assert_eq!(world.problems(&run_id(n).slug()), [""; 0]);
    }
}

#[test]
fn what_nobody_waits_for_shares_the_commit_of_what_follows() {
    let world = World::new();
    let store = world.store();
    let logs: Vec<_> = (1..=3).map(|n| Driving::start(&store, n, None).log).collect();
    let ended = || world.one::<i64>("SELECT count(*) FROM runs WHERE status = 'stopped'");
    let patient = store.submit_patient(&logs[0], canceled(), vec![]).2;
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(ended(), 0, "it was committed by itself");
    store.add_task("t".into(), vec![]).wait().unwrap();
    assert_eq!(ended(), 1);
    patient.wait().unwrap();
    // Somebody who waits for it is not kept waiting, and nobody has to.
    store.submit_patient(&logs[1], canceled(), vec![]).2.wait().unwrap();
    assert_eq!(ended(), 2);
    let _ = store.submit_patient(&logs[2], canceled(), vec![]).2;
    drop(store);
    assert_eq!(ended(), 3);
}

#[test]
fn one_connection_writes_and_the_others_only_read() {
    let world = World::new();
    assert!(matches!(Reader::open(&world.layout), Err(Error::NoState(_))));
    assert!(!world.layout.state.exists(), "reading made something");
    let store = world.store();
    // However many threads append, one connection writes: nobody is ever told that the database is busy.
    std::thread::scope(|scope| {
        for n in 1..=8 {
            let store = &store;
            scope.spawn(move || Driving::start(store, n, None).steps(4));
        }
    });
    drop(store);
    let before = snapshot(&world.layout.state);
    let reader = world.reader();
    for n in 1..=8 {
        assert_eq!(reader.run(&run_id(n).slug()).unwrap().unwrap().steps.unwrap().len(), 4);
        assert_eq!(world.problems(&run_id(n).slug()), [""; 0]);
    }
    drop(reader);
    let after = snapshot(&world.layout.state);
    for (path, bytes) in before {
        assert_eq!(after.get(&path), Some(&bytes), "{}", path.display());
    }
}

#[test]
fn a_line_that_no_reader_would_accept_is_refused() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let long = Fact::EvidenceLost { findings: vec!["x".repeat(contract::LINE_BYTES_MAX)] };
    let error = store.append(&mut driving.log, vec![long], vec![]).unwrap_err();
    assert!(error.to_string().contains("event 2 (evidence_lost)"), "{error}");
    driving.finish();
    assert_eq!(world.problems(&driving.slug()), [""; 0]);
}

#[test]
fn work_that_could_not_begin_leaves_nothing_and_can_be_tried_again() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let other = world.raw();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.append(&mut driving.log, canceled(), vec![]).unwrap_err();
    assert!(matches!(&error, Error::Commit(why) if why.contains("held by another program")), "{error}");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(world.one::<i64>("SELECT count(*) FROM events"), 1);
    driving.finish();
    assert_eq!(world.problems(&driving.slug()), [""; 0]);
}

#[test]
fn a_reader_is_not_kept_waiting_by_a_long_write() {
    let world = World::new();
    let store = world.store();
    Driving::start(&store, 1, None).finish();
    let writing = world.raw();
    writing.execute_batch("BEGIN IMMEDIATE; UPDATE runs SET goal = 'half done'").unwrap();
    // The write is still open when the reader has its answer.
    let view = world.reader().run(&run_id(1).slug()).unwrap().unwrap();
    assert_eq!(view.goal, "Make it work");
    assert_eq!(world.problems(&run_id(1).slug()), [""; 0]);
    writing.execute_batch("ROLLBACK").unwrap();
}

/// This test binary again, as a process that can be killed: it does what `NORMA_CHILD` says.
pub(crate) fn child(world: &World, what: &str) -> Child {
    Command::new(std::env::current_exe().unwrap_or_default())
        .args(["--exact", "commit::a_child_of_another_test", "--ignored", "--nocapture"])
        .env("NORMA_CHILD", what)
        .env("NORMA_CHILD_ROOT", world.root())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test binary starts")
}

#[test]
#[ignore = "only other tests start it"]
fn a_child_of_another_test() {
    let Some(root) = std::env::var_os("NORMA_CHILD_ROOT") else { return };
    let what = std::env::var("NORMA_CHILD").unwrap_or_default();
    let layout = store::Layout::new(std::path::Path::new(&root), None);
    if let Some(point) = what.strip_prefix("crash ") {
        store::crash::arm(point);
        let store = Store::open(&layout).unwrap();
        Driving::start(&store, 1, None).finish();
        return;
    }
    let store = Store::open(&layout).unwrap();
    let owner = Owner { pid: std::process::id(), command: "norma run 1".into(), since: run_time() };
    let _lock = OwnerLock::try_take(&layout, &owner).unwrap().unwrap();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(2);
    driving.open_step();
    let db = rusqlite::Connection::open(layout.db()).unwrap();
    db.execute_batch("BEGIN IMMEDIATE; UPDATE runs SET goal = 'half done'").unwrap();
    println!("\nready");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn what_a_killed_process_held_is_free_and_what_it_committed_is_there() {
    let world = World::new();
    let mut other = child(&world, "hold");
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"));
    let me = Owner { pid: 1, command: "norma runs".into(), since: run_time() };
    assert!(OwnerLock::try_take(&world.layout, &me).unwrap().is_none(), "a second process must not own it");
    let theirs = store::owner_of(&world.layout).unwrap();
    assert_eq!((theirs.pid, theirs.command.as_str()), (other.id(), "norma run 1"));
    let slug = run_id(1).slug();
    assert_eq!(world.reader().run(&slug).unwrap().unwrap().steps.unwrap().len(), 2);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(world.reader().run(&slug).unwrap().unwrap().goal, "Make it work");
    let _lock = OwnerLock::try_take(&world.layout, &me).unwrap().unwrap();
    assert_eq!(world.recover_twice().interrupted, [slug.as_str()]);
    let store = world.store();
    Driving::resume(&store, &slug).finish();
    assert_eq!(world.problems(&slug), [""; 0]);
}

/// A file system with little room, where the tests may mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=3m", "norma-test"]).arg(dir.path());
        mount.stderr(Stdio::null()).status().ok()?.success().then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let Some(disk) = SmallDisk::mount() else {
        return not_run::because("a small tmpfs cannot be mounted here");
    };
    let layout = store::Layout::new(disk.0.path(), None);
    let store = Store::open(&layout).unwrap();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(1);
    let ballast = disk.0.path().join("ballast");
    let mut filling = std::fs::File::create(&ballast).unwrap();
    while filling.write_all(&[7; 4096]).is_ok() {}
    let (error, acknowledged) = loop {
        let before = driving.log.clone();
        let Err(error) = store.append(&mut driving.log, vec![Fact::RunPaused(end())], vec![]) else {
            store.append(&mut driving.log, vec![Fact::RunResumed { pid: 1 }], vec![]).ok();
            continue;
        };
        assert_eq!(driving.log.seq, before.seq);
        break (error, before.seq);
    };
    assert!(error.is_disk_full(), "{error}");
    assert!(matches!(store.append(&mut driving.log, canceled(), vec![]), Err(Error::Stopped)));
    drop((store, filling));
    std::fs::remove_file(&ballast).unwrap();
    let slug = run_id(1).slug();
    let reader = Reader::open(&layout).unwrap();
    assert_eq!(reader.log(&slug).unwrap().2.seq, acknowledged);
    drop(reader);
    let store = Store::open(&layout).unwrap();
    store::recover(&store, &sign).unwrap();
    Driving::resume(&store, &slug).finish();
    assert!(store::verify(&Reader::open(&layout).unwrap(), &slug, None, &open).unwrap().verified);
}

fn end() -> End {
    End { reason: Some(Reason::Interrupted), message: "x".repeat(2000) }
}

#[test]
fn reindexing_gives_the_same_views() {
    let world = World::new();
    let store = world.store();
    let tasks: Vec<i64> =
        (0..3).map(|_| store.add_task("t".into(), vec!["a".into(), "b".into()]).wait().unwrap()).collect();
    store.link_task(tasks[1], vec![tasks[0]]).wait().unwrap();
    store.finish_task(tasks[2]).wait().unwrap();
    Driving::start(&store, 1, Some(tasks[0])).finish();
    Driving::start(&store, 2, Some(tasks[1])).steps(3);
    let contract::Landing { target, from, commit, checkout } = crate::fixture::landing();
    let landing = contract::LandingUndone { target, from: Some(commit), commit: from, checkout };
    store.audit(Audit::Undone { run_id: run_id(1).slug(), landing }).wait().unwrap();
    let views = || {
        let reader = world.reader();
        let runs: Vec<_> = [1, 2].map(|n| reader.run(&run_id(n).slug()).unwrap()).into();
        let sealed: Vec<_> = [1, 2].map(|n| reader.is_sealed(&run_id(n).slug()).unwrap()).into();
        (runs, sealed, reader.tasks(None).unwrap(), reader.ready_tasks().unwrap(), reader.runs(None).unwrap())
    };
    let rows =
        || world.texts("SELECT run_id || key || value_json FROM kv_run UNION ALL SELECT run_id || state FROM runs");
    let (before, rows_before) = (views(), rows());
    assert_eq!(before.0[0].as_ref().unwrap().landed, None);
    for damage in [
        "DELETE FROM steps; DELETE FROM task_edges; DELETE FROM kv_run",
        "UPDATE runs SET state = 'succeeded', status = 'passed', verdict = 'PASS', iteration = 9, sealed = 1",
        "UPDATE runs SET sealed = 0, landing_json = '{', result = 'x', ended_at = NULL, goal = 'other'",
        "UPDATE steps SET status = 'ok', summary = 'lies', role = 'act'",
        "DELETE FROM tasks WHERE id = 1; UPDATE tasks SET status = 'done', goal = 'other', run_id = NULL",
        "PRAGMA foreign_keys=OFF; DROP TRIGGER events_no_delete; DELETE FROM runs",
    ] {
        world.raw().execute_batch(damage).unwrap();
        assert_eq!(store::reindex(&store).unwrap().runs, 2, "{damage}");
        assert_eq!(views(), before, "{damage}");
        assert_eq!(rows(), rows_before, "{damage}");
    }
    assert_eq!(store.add_task("t".into(), vec![]).wait().unwrap(), 4, "an id is never given twice");
}

#[test]
fn a_cycle_of_tasks_is_refused() {
    let world = World::new();
    let store = world.store();
    for _ in 0..3 {
        store.add_task("t".into(), vec![]).wait().unwrap();
    }
    store.link_task(1, vec![2]).wait().unwrap();
    store.link_task(2, vec![3]).wait().unwrap();
    let error = store.link_task(3, vec![1]).wait().unwrap_err();
    assert_eq!(error.to_string(), "task 3 cannot wait for 1: 3 → 1 → 2 → 3 would be a cycle");
    assert!(store.link_task(1, vec![1]).wait().is_err());
    assert!(store.link_task(1, vec![9]).wait().is_err());
    assert_eq!(world.reader().ready_tasks().unwrap(), [3]);
}
