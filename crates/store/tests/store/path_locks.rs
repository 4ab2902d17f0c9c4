//! Path locks between real processes and many threads: what overlaps is never held twice, a holder that was killed is
//! told from one that lives, and nobody holds half of what it asked for.

use contract::{RepoPath, Timestamp};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{Conflict, Holder, Layout, PathLock, PathLocks, Taken};

/// Names the state directory to the process that [`hold_until_killed`] runs in.
const HOLD_IN: &str = "NORMA_TEST_HOLD_PATHS_IN";

fn paths(texts: &[&str]) -> Vec<RepoPath> {
    texts.iter().map(|text| RepoPath::parse(text).unwrap()).collect()
}

/// Somebody who took their locks when time began: age alone takes nothing away.
fn who(run: &str) -> Holder {
    let owner = "Ada".to_owned();
    Holder { run_id: run.into(), task: "t".into(), pid: std::process::id(), owner, since: Timestamp::from_unix_ms(0) }
}

#[track_caller]
fn ours(locks: &PathLocks, wanted: &[&str]) -> PathLock {
    match locks.try_take(&paths(wanted), &who("run-1")).unwrap() {
        Taken::Ours(lock) => lock,
        Taken::Theirs(conflicts) => panic!("{wanted:?}: {conflicts:?}"),
    }
}

#[track_caller]
fn theirs(locks: &PathLocks, wanted: &[&str]) -> Vec<Conflict> {
    match locks.try_take(&paths(wanted), &who("run-2")).unwrap() {
        Taken::Ours(_) => panic!("{wanted:?} should be taken"),
        Taken::Theirs(conflicts) => conflicts,
    }
}

fn files(layout: &Layout) -> Vec<String> {
    let entries = std::fs::read_dir(layout.locks()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn table() -> (tempfile::TempDir, Layout, PathLocks) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path(), None);
    let locks = PathLocks::open(&layout).unwrap();
    (dir, layout, locks)
}

#[test]
fn a_lock_is_one_on_everything_below_and_by_any_spelling() {
    let (_dir, _layout, locks) = table();
    for (held, wanted, conflicts) in [
        ("src", "src", true),
        ("src", "src/a.txt", true),
        ("src/a.txt", "src", true),
        ("src", "SRC/a.txt", true),
        ("gr\u{f6}\u{df}e", "GRO\u{308}SSE/x", true),
        ("src", "src-evil", false),
        ("src/a", "src/ab", false),
        ("src", "lib/src", false),
    ] {
        let lock = ours(&locks, &[held]);
        let taken = locks.try_take(&paths(&[wanted]), &who("run-2")).unwrap();
        assert_eq!(matches!(taken, Taken::Theirs(_)), conflicts, "{held} and {wanted}");
        drop((taken, lock));
    }
}

#[test]
fn a_lock_says_who_has_it_and_is_gone_when_it_is_given_back() {
    let (_dir, layout, locks) = table();
    let lock = ours(&locks, &["src"]);
    let name = format!("{}.lock", contract::hash::sha256(b"src"));
    assert_eq!(files(&layout), [name.clone(), "paths.lock".into()]);
    let pid = std::process::id();
    assert_eq!(
        std::fs::read_to_string(layout.locks().join(name)).unwrap(),
        format!("run_id=run-1\ntask=t\npid={pid}\nowner=Ada\nts=1970-01-01T00:00:00.000Z\npath=src\n")
    );
    let conflicts = theirs(&locks, &["docs", "src/a"]);
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].holder, Some(who("run-1")));
    let told = format!("src/a overlaps src, which is locked by task t of run run-1 (pid {pid}, Ada)");
    assert_eq!(conflicts[0].to_string(), told);
    drop(lock);
    assert_eq!(files(&layout), ["paths.lock"]);
}

#[test]
fn whoever_cannot_have_all_has_none() {
    let (_dir, layout, locks) = table();
    let lock = ours(&locks, &["b"]);
    let before = files(&layout);
    assert_eq!(theirs(&locks, &["a", "b", "c"]).len(), 1);
    assert_eq!(files(&layout), before);
    assert_eq!(ours(&locks, &["a", "c", "a", "a/below"]).reclaimed, [""; 0]);
    drop(lock);
    assert_eq!(ours(&locks, &["a", "b", "c"]).reclaimed, [""; 0]);
}

#[test]
fn a_held_lock_that_cannot_be_read_stands_in_the_way_of_everything() {
    let (_dir, layout, locks) = table();
    let lock = ours(&locks, &["src"]);
    let file = layout.locks().join(format!("{}.lock", contract::hash::sha256(b"src")));
    std::fs::write(&file, "nonsense").unwrap();
    let conflicts = theirs(&locks, &["docs"]);
    assert_eq!(conflicts[0].to_string(), "docs is locked by an unknown process");
    drop(lock);
    std::fs::write(&file, "nonsense").unwrap();
    let told = "a path was still locked by a process that is gone";
    assert_eq!(ours(&locks, &["docs"]).reclaimed, [told]);
}

#[test]
fn nobody_can_write_a_field_into_the_lock_of_another_path() {
    let (_dir, _layout, locks) = table();
    let evil = Holder { owner: "Eve\npath=elsewhere".into(), ..who("run-1") };
    let Taken::Ours(_lock) = locks.try_take(&paths(&["src"]), &evil).unwrap() else { panic!("it is free") };
    assert_eq!(theirs(&locks, &["src"]).len(), 1);
    assert!(matches!(locks.try_take(&paths(&["elsewhere"]), &who("run-2")).unwrap(), Taken::Ours(_)));
}

/// Not a test by itself: the process that other tests start, and kill.
#[test]
fn hold_until_killed() {
    let Some(dir) = std::env::var_os(HOLD_IN) else { return };
    let locks = PathLocks::open(&Layout::new(dir.as_ref(), None)).unwrap();
    let _lock = ours(&locks, &["src"]);
    // Not captured by the test harness, unlike what is printed.
    std::io::Write::write_all(&mut std::io::stderr(), b"holding\n").unwrap();
    // Comes to its end only if whoever started it does.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process that holds `src`.
fn holding(dir: &std::path::Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "path_locks::hold_until_killed", "--nocapture"])
        .env(HOLD_IN, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "holding"));
    child
}

#[test]
fn a_live_process_keeps_its_lock_and_a_killed_one_loses_it() {
    let (dir, layout, locks) = table();
    let mut child = holding(dir.path());
    let conflicts = theirs(&locks, &["src/a.txt"]);
    assert_eq!(conflicts[0].holder.as_ref().unwrap().pid, child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(files(&layout).len(), 2, "what a killed process leaves behind is its file");
    let lock = ours(&locks, &["src/a.txt"]);
    let pid = child.id();
    let told = format!("src was still locked by task t of run run-1 (pid {pid}, Ada), which is gone");
    assert_eq!(lock.reclaimed, [told]);
    assert_eq!(theirs(&locks, &["src"]).len(), 1);
}

#[test]
fn what_is_left_of_a_killed_process_is_swept_and_what_somebody_holds_is_not() {
    let (dir, layout, locks) = table();
    let mut child = holding(dir.path());
    let own = ours(&locks, &["docs"]);
    assert_eq!(locks.sweep().unwrap(), [""; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
    let told = format!("src was still locked by task t of run run-1 (pid {}, Ada), which is gone", child.id());
    assert_eq!(locks.sweep().unwrap(), [told]);
    assert_eq!(files(&layout).len(), 2, "the table, and what is held");
    drop(own);
    assert_eq!(files(&layout), ["paths.lock"]);
}

#[test]
fn many_threads_never_hold_what_overlaps() {
    const ROUNDS: usize = 200;
    let (_dir, layout, _) = table();
    let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for wanted in [["src", "a"], ["src/x", "b"], ["SRC/x/y", "c"], ["d", "src"]] {
            let (layout, inside, entered) = (&layout, &inside, &entered);
            scope.spawn(move || {
                let locks = PathLocks::open(layout).unwrap();
                for _ in 0..ROUNDS {
                    let Taken::Ours(lock) = locks.try_take(&paths(&wanted), &who("run")).unwrap() else { continue };
                    assert_eq!(lock.reclaimed, [""; 0], "everybody here lives");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{wanted:?}");
                    entered.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(entered.load(Ordering::SeqCst) > 0);
    assert_eq!(files(&layout), ["paths.lock"]);
}
