//! Carried out again.

use crate::place::{Place, is_same, task};
use contract::documents::ReexecStatus;

#[test]
fn an_agent_that_does_the_same_again_differs_only_where_it_may() {
    for place in Place::all() {
        place.agent("agent", "echo 2 > a");
        let slug = place.run(vec![task("one", "agent", &[&["grep", "-q", "2", "a"]])]);
        let (sealed, seen) = (place.files(&slug), place.world.seen());
        for _ in 0..3 {
            let (again, report) = place.reexec(&slug);
            assert_eq!((&report.hard_diffs, &report.errors), (&Vec::new(), &Vec::new()));
            assert_eq!(report.status, ReexecStatus::Pass);
            let soft: Vec<&str> = report.soft_diffs.iter().map(|difference| difference.key.as_str()).collect();
            assert!(soft.contains(&"item/one/receipt") && soft.contains(&"trace_id"), "{soft:?}");
            let (run, _) = place.reader().load(&again).unwrap();
            assert_eq!(run.started.replay_of.as_deref(), Some(slug.as_str()));
            assert_eq!((run.landed(), run.line().head.commit == run.started.base.commit), (None, false));
            // What was carried out again is a run like any other.
            is_same(&place.rehydrate(&again), &["turns", "gates", "tests", "receipts", "decisions"]);
        }
        assert!(place.files(&slug) == sealed, "a byte of the run has changed");
        assert_eq!(place.world.seen(), seen, "nothing lands");
    }
}

#[test]
fn an_agent_that_does_something_else_is_a_hard_difference() {
    for place in Place::all() {
        place.agent("agent", "read -r id < /proc/sys/kernel/random/uuid; echo $id > a");
        let slug = place.run(vec![task("one", "agent", &[])]);
        let (_, report) = place.reexec(&slug);
        assert_eq!((report.status, report.hard_equal_pass), (ReexecStatus::Fail, false));
        let hard: Vec<&str> = report.hard_diffs.iter().map(|difference| difference.key.as_str()).collect();
        assert_eq!(hard, ["item/one/patch", "patch", "tree"]);
        assert!(report.hard_diffs.iter().all(|difference| difference.expected != difference.actual));
    }
}

#[test]
fn a_test_that_fails_the_second_time_is_a_hard_difference() {
    let Some(place) = Place::new(contract::Backend::None) else { return };
    place.agent("agent", "echo 2 > a");
    place.tool("check", "exit 0");
    let slug = place.run(vec![task("one", "agent", &[&["check"]])]);
    place.tool("check", "exit 1");
    let (_, report) = place.reexec(&slug);
    let hard: Vec<&str> = report.hard_diffs.iter().map(|difference| difference.key.as_str()).collect();
    for key in ["item/one/gates", "item/one/status", "item/one/tests", "status"] {
        assert!(hard.contains(&key), "{key}: {hard:?}");
    }
}

#[test]
fn what_was_carried_out_again_never_lands() {
    let Some(place) = Place::new(contract::Backend::None) else { return };
    place.agent("agent", "echo 2 > a");
    let slug = place.run(vec![task("one", "agent", &[])]);
    let (again, _) = place.reexec(&slug);
    let seen = place.world.seen();
    let refused = place.own(|context, owner| {
        let later = runner::Later { store: owner.store(), user: &context.user, objects: owner.objects() };
        later.land(&again, None).unwrap_err().to_string()
    });
    assert!(refused.contains("only to be compared with"), "{refused}");
    assert_eq!(place.world.seen(), seen);
    // It is no reason to refuse the same change another time either.
    assert_eq!(place.statuses(&again), ["one: success: inputs output scope admission outputs"]);
}
