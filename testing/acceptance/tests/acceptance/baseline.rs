//! Whose version of the tests counts.

use crate::world::{Edits, World, item, statuses};
use contract::work::TestsPolicy;
use run::gate::acceptance::TestStatus::{self, Error, Fail, Pass, Skipped};
use runner::{Acceptance, Side};

/// Runs every test there is.
const RUNNER: &str = "for test in tests/*.sh; do sh \"$test\" || exit 1; done\n";

const FILES: [(&str, &str); 4] = [
    ("check/all.sh", RUNNER),
    ("tests/answer.sh", "grep -q 42 answer\n"),
    ("tests/other.sh", "exit 0\n"),
    ("answer", "41\n"),
];

fn tried(world: &World, policy: TestsPolicy, edits: Edits<'_>) -> Acceptance {
    let mut item = item(&[&["sh", "check/all.sh"]]);
    item.tests_policy = policy;
    world.accept_item(edits, &item)
}

#[track_caller]
fn check(edits: Edits<'_>, expected: [(TestsPolicy, TestStatus); 3], changed: &[&str]) {
    for world in World::all(&FILES) {
        for (policy, status) in expected {
            let acceptance = tried(&world, policy, edits);
            assert_eq!(acceptance.status, status, "{policy:?} {:?}", acceptance.findings);
            let found: Vec<&str> = acceptance.tests_changed.iter().filter_map(|it| it.path.as_deref()).collect();
            assert_eq!(found, changed);
        }
    }
}

#[test]
fn a_change_that_deletes_its_own_failing_test_is_caught_by_the_baseline() {
    check(
        &[("tests/answer.sh", None)],
        [(TestsPolicy::Candidate, Pass), (TestsPolicy::Baseline, Fail), (TestsPolicy::Both, Fail)],
        &["tests/answer.sh"],
    );
}

#[test]
fn a_change_to_the_script_that_runs_the_tests_is_caught_by_the_baseline() {
    check(
        &[("check/all.sh", Some("exit 0\n"))],
        [(TestsPolicy::Candidate, Pass), (TestsPolicy::Baseline, Fail), (TestsPolicy::Both, Fail)],
        &["check/all.sh"],
    );
}

#[test]
fn an_honest_change_with_a_new_test_passes_by_any_version() {
    check(
        &[("answer", Some("42\n")), ("tests/more.sh", Some("test -f answer\n"))],
        [(TestsPolicy::Candidate, Pass), (TestsPolicy::Baseline, Pass), (TestsPolicy::Both, Pass)],
        &["tests/more.sh"],
    );
}

#[test]
fn a_new_test_that_fails_is_no_test_of_the_baseline() {
    check(
        &[("answer", Some("42\n")), ("tests/more.sh", Some("exit 1\n"))],
        [(TestsPolicy::Candidate, Fail), (TestsPolicy::Baseline, Pass), (TestsPolicy::Both, Fail)],
        &["tests/more.sh"],
    );
}

#[test]
fn both_versions_are_tried_one_after_the_other_and_only_if_they_differ() {
    for world in World::all(&FILES) {
        let sides = |acceptance: &Acceptance| acceptance.commands.iter().map(|it| it.tests).collect::<Vec<_>>();
        let deleted = tried(&world, TestsPolicy::Both, &[("tests/answer.sh", None)]);
        assert_eq!(statuses(&deleted), [(Pass, Some(0)), (Fail, Some(1))]);
        assert_eq!(sides(&deleted), [Side::Candidate, Side::Baseline]);
        let findings: Vec<String> = deleted.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, ["t1 with the baseline's tests: exit code 1"]);
        let failed = tried(&world, TestsPolicy::Both, &[("tests/more.sh", Some("exit 1\n"))]);
        assert_eq!(statuses(&failed), [(Fail, Some(1)), (Skipped, None)]);
        let untouched = tried(&world, TestsPolicy::Both, &[("answer", Some("42\n"))]);
        assert_eq!(sides(&untouched), [Side::Candidate]);
    }
}

#[test]
fn tests_that_cannot_be_put_back_are_an_error() {
    for world in World::all(&FILES) {
        let edits: Edits<'_> = &[("check/all.sh", None), ("check", Some("a file where the directory was\n"))];
        let acceptance = tried(&world, TestsPolicy::Baseline, edits);
        assert_eq!((acceptance.status, statuses(&acceptance)), (Error, vec![(Skipped, None)]));
        assert!(acceptance.findings[0].message.contains("cannot be put back"), "{:?}", acceptance.findings);
    }
}
