//! Killing norma at its persistence system calls, named points or not: strace has the n-th of them answered by
//! SIGKILL before it happens. Counters are per thread, so the loop's own thread is walked with the calls that make
//! directories and files, and the writer of the log with the two calls that only SQLite and the mirror use.
//! A sample, spread evenly; `NORMA_STRACE_SAMPLES=1000` takes every one. Not run without strace.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

mod place;

use place::{Place, Ran};
use std::collections::{BTreeMap, BTreeSet};

/// How many calls are tried on each thread.
const SAMPLES: usize = 10;

/// The calls, and whether strace follows threads and children (which use none of the second set).
const WALKS: [(&str, bool); 2] = [
    ("mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,write,fsync,ftruncate", false),
    ("pwrite64,fdatasync", true),
];

fn strace(place: &Place, options: &[&str], follow: bool) -> Ran {
    let mut all = vec!["-qq".to_owned()];
    all.extend(follow.then(|| "-f".to_owned()));
    all.extend(options.iter().map(ToString::to_string));
    place.norma_under("strace", &all, &["run", "1", "--json"])
}

/// Every call of a whole run as strace can name it: which one, and the how manieth of its kind on its thread.
fn calls(names: &str, follow: bool) -> Vec<(String, usize)> {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(dir.path());
    let log = dir.path().join("calls");
    let ran = strace(&place, &["-o", log.to_str().unwrap(), "-e", &format!("trace={names}")], follow);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = std::fs::read_to_string(log).unwrap();
    let mut seen = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.contains("resumed>")) {
        let Some((head, _)) = line.split_once('(') else { continue };
        let nth = seen.entry(head.to_owned()).or_insert(0);
        *nth += 1;
        let name = head.rsplit(' ').next().unwrap_or(head);
        found.insert((name.to_owned(), *nth));
    }
    found.into_iter().collect()
}

/// Kills at the n-th call of a kind; what is broken after that, or none if nobody died.
fn killed_at(call: &str, follow: bool, n: usize) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(dir.path());
    let inject = format!("inject={call}:signal=SIGKILL:when={n}");
    let ran = strace(&place, &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject], follow);
    if !ran.killed {
        return None;
    }
    place.wait_for_processes();
    let mut broken = place.check_branch_between(None);
    match place.go_on(n.is_multiple_of(2)) {
        Ok(told) => broken.extend(place.check_end(&[ran.told(), told].concat())),
        Err(why) => broken.push(why),
    }
    Some(broken.into_iter().map(|what| format!("{call} {n}: {what}")).collect())
}

#[test]
fn nothing_is_lost_at_any_persistence_call() {
    let there = std::process::Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return not_run::because("strace is not installed, or may not trace");
    }
    let samples = std::env::var("NORMA_STRACE_SAMPLES").map_or(SAMPLES, |text| text.parse().unwrap());
    let mut broken = Vec::new();
    for (names, follow) in WALKS {
        let all = calls(names, follow);
        let step = all.len().div_ceil(samples).max(1);
        let tried: Vec<_> = all.iter().step_by(step).collect();
        let found: Vec<Vec<String>> = tried.iter().filter_map(|(call, n)| killed_at(call, follow, *n)).collect();
        println!("killed at {} of {} calls: {names}", found.len(), all.len());
        assert!(!found.is_empty(), "nobody was killed");
        broken.extend(found.into_iter().flatten());
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}
