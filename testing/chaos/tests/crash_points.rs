//! Every named crash point, at every visit: norma dies there by SIGKILL, the user continues, and nothing is lost.
//! A point that is never reached fails the test, and so does a call that the list does not name.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

mod place;

use place::{Place, Ran, walk};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More visits than any point has in this run; an end to counting.
const VISITS_MAX: usize = 100;

/// Kills a run at a point; none if the run ended before that visit.
fn killed_at(point: &str, visit: usize) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(dir.path());
    let ran = place.norma(&["run", "1", "--json"], Some(&format!("{point}:{visit}")));
    if !ran.killed {
        assert_eq!(ran.code, Some(0), "{point}:{visit}: {}{}", ran.stdout, ran.stderr);
        return None;
    }
    Some(after(&place, &ran, visit.is_multiple_of(2)))
}

/// What is broken after a kill.
fn after(place: &Place, ran: &Ran, by_task: bool) -> Vec<String> {
    let mut broken = place.check_branch_between(None);
    match place.go_on(by_task) {
        Ok(told) => broken.extend(place.check_end(&[ran.told(), told].concat())),
        Err(why) => broken.push(why),
    }
    broken
}

/// Does something for every item, two at a time; answers what came of each.
fn for_each<T: Sync, R: Send>(items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = act(item);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn nothing_is_lost_at_any_crash_point() {
    let walked = for_each(store::crash::POINTS, |point| {
        let mut broken = Vec::new();
        let mut visits = 0;
        while let Some(found) = killed_at(point, visits + 1) {
            visits += 1;
            assert!(visits < VISITS_MAX, "{point} is visited without end");
            broken.extend(found.into_iter().map(|what| format!("{point}:{visits}: {what}")));
        }
        println!("{point}: killed at {visits} visits");
        if visits == 0 {
            broken.push(format!("{point} is never reached"));
        }
        (visits, broken)
    });
    let visits: usize = walked.iter().map(|(visits, _)| visits).sum();
    let broken: Vec<String> = walked.into_iter().flat_map(|(_, broken)| broken).collect();
    println!("{} points, {visits} kills", store::crash::POINTS.len());
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

/// Recovery is interrupted too: at each of its own commits, by the restart that would have mended the first kill.
#[test]
fn nothing_is_lost_when_recovery_is_killed_as_well() {
    let firsts =
        ["step.after_intent:2", "step.after_rename:3", "change.after_rename", "land.ref_moved", "end.after_commit"];
    let broken: Vec<String> = for_each(&firsts, |first| {
        let mut broken = Vec::new();
        for visit in 1..VISITS_MAX {
            let dir = tempfile::tempdir().unwrap();
            let place = Place::new(dir.path());
            let ran = place.norma(&["run", "1", "--json"], Some(first));
            assert!(ran.killed, "{first} is not reached");
            // A verb that recovers and then has nothing to do.
            let again = place.norma(&["gc"], Some(&format!("mirror.before_append:{visit}")));
            if !again.killed {
                println!("{first}: recovery killed at {} commits", visit - 1);
                break;
            }
            let found = after(&place, &ran, visit.is_multiple_of(2));
            broken.extend(found.into_iter().map(|what| format!("{first}, then commit {visit}: {what}")));
        }
        broken
    })
    .concat();
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn the_list_of_points_is_what_the_sources_call() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut called = BTreeSet::new();
    for path in walk(&crates).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        if path.ends_with("store/src/crash.rs") {
            continue;
        }
        // `crash::point("x")`, and the pair that `Preparing::finish` is given.
        for (marker, end) in [("crash::point(\"", ')'), ("let points = [", ']')] {
            for part in text.split(marker).skip(1) {
                let inside = part.split(end).next().unwrap();
                called.extend(
                    inside.split([',', '"']).map(str::trim).filter(|name| name.contains('.')).map(str::to_owned),
                );
            }
        }
    }
    let listed: BTreeSet<String> = store::crash::POINTS.iter().map(ToString::to_string).collect();
    assert_eq!(called, listed);
}
