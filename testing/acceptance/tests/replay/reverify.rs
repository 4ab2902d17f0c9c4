//! Patches applied and tests run again.

use crate::place::{Place, differences, is_same, task};
use contract::documents::ReexecStatus;
use std::fs;

#[test]
fn a_patch_makes_its_tree_again_and_its_tests_pass_again() {
    for place in Place::all() {
        place.agent(
            "agent",
            "echo 2 > a; printf 'x' > no-newline; mkdir -p d; echo '#!/bin/sh' > d/run; chmod +x d/run",
        );
        place.tool("check", "test \"$(cat a)\" = 2");
        let slug = place.run(vec![task("one", "agent", &[&["check"]])]);
        assert_eq!(place.statuses(&slug), ["one: success: inputs output scope admission outputs tests"]);
        let (sealed, seen) = (place.files(&slug), place.world.seen());
        for _ in 0..2 {
            is_same(&place.reverify(&slug), &["patches", "gates", "tests"]);
        }
        assert!(place.files(&slug) == sealed, "a byte of the run has changed");
        assert_eq!(place.world.seen(), seen, "nothing of the user's is touched");
    }
}

#[test]
fn a_test_that_passes_no_more_is_named() {
    for place in Place::all() {
        place.agent("agent", "echo 2 > a");
        place.tool("check", "exit 0");
        let slug = place.run(vec![task("one", "agent", &[&["check"]])]);
        place.tool("check", "echo 'not today' >&2; exit 3");
        let report = place.reverify(&slug);
        assert_eq!(report.status, ReexecStatus::Fail);
        let found = differences(&report);
        let gate = |line: &&String| line.contains("gate tests: on record it passed, now it refused it");
        assert_eq!(found.iter().filter(gate).count(), 1, "{found:#?}");
        let named = "gate tests: test one-t1 was PASS and is FAIL now: exit code 3: not today";
        assert!(found.iter().any(|line| line.contains(named)), "{found:#?}");
        let notes: Vec<&String> = report.checks.iter().flat_map(|check| &check.notes).collect();
        assert!(notes.iter().any(|note| note.contains("another program")), "{notes:?}");
        // What is on record is not touched by that.
        is_same(&place.rehydrate(&slug), &["gates", "tests", "receipts"]);
    }
}

#[test]
fn binary_content_is_compared_by_its_tree() {
    let Some(place) = Place::new(contract::Backend::None) else { return };
    place.agent("agent", "printf 'a\\000b' > blob");
    let mut item = task("one", "agent", &[]);
    item.scope.allow_binary = true;
    let slug = place.run(vec![item]);
    assert_eq!(place.statuses(&slug), ["one: success: inputs output scope admission outputs"]);
    let report = place.reverify(&slug);
    is_same(&report, &["gates"]);
    let notes: Vec<&String> = report.checks.iter().flat_map(|check| &check.notes).collect();
    assert!(notes.iter().any(|note| note.contains("leaves out binary content")), "{notes:?}");
}

#[test]
fn nothing_of_a_run_that_does_not_verify_is_run() {
    let Some(place) = Place::new(contract::Backend::None) else { return };
    place.agent("agent", "echo 2 > a");
    place.tool("check", "exit 0");
    let slug = place.run(vec![task("one", "agent", &[&["check"]])]);
    let ran = place.world.repo.parent().unwrap().join("ran");
    place.tool("check", &format!("touch {}", ran.display()));
    fs::write(place.dir(&slug).join("changes/001/gates.json"), "{}").unwrap();
    let refused = place.own(|context, owner| {
        let reader = place.reader();
        let record = runner::verify_run(&reader, &context.trust, &slug).unwrap();
        let (control, policies) = (runner::Control::new().unwrap(), contract::Policies::built_in());
        let mut machine = runner::Machine::new(context.clone(), owner.state(), control.cancel.clone());
        let replay = runner::Replay { reader: &reader, objects: owner.objects(), policies: &policies };
        replay.reverify(&record, &mut machine, &control).unwrap_err().to_string()
    });
    assert!(refused.contains("it does not verify, so nothing of it was run again"), "{refused}");
    assert!(!ran.exists());
}
