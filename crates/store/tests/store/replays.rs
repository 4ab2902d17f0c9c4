//! Reports of replays: kept beside the runs, vouched for by the audit log, and no part of what is sealed.

use crate::fixture::{Driving, World, snapshot};
use contract::documents::ReexecStatus;
use contract::replay::ReplayMode;
use contract::{Audit, Timestamp};

#[test]
fn reports_of_the_same_moment_are_all_kept_and_on_record_and_the_run_stays_as_it_is() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.step();
    driving.finish();
    let (slug, at) = (driving.slug(), Timestamp::from_unix_ms(1_769_180_101_042));
    let sealed = snapshot(&world.layout.run(&slug));
    let keep = |report: &str| {
        let (mode, status) = (ReplayMode::Rehydrate, ReexecStatus::Pass);
        store.keep_replay(&slug, mode, status, at, report.as_bytes()).unwrap()
    };
    let paths = ["one", "two", "three"].map(keep);
    let names = paths.each_ref().map(|path| path.file_name().unwrap().to_str().unwrap());
    let first = "20260123T145501.042Z-rehydrate";
    assert_eq!(names, [format!("{first}.json"), format!("{first}-2.json"), format!("{first}-3.json")]);
    assert!(paths.iter().all(|path| path.starts_with(world.layout.replays(&slug))));
    let recorded = world.texts("SELECT data_json FROM audit WHERE type = 'replayed' ORDER BY seq");
    for (recorded, report) in recorded.iter().zip(["one", "two", "three"]) {
        let found = Audit::from_parts("replayed", serde_json::from_str(recorded).unwrap()).unwrap();
        let report = contract::hash::sha256(report.as_bytes());
        let (mode, status) = (ReplayMode::Rehydrate, ReexecStatus::Pass);
        assert_eq!(found, Audit::Replayed { run_id: slug.parse().unwrap(), mode, status, report });
    }
    assert_eq!(recorded.len(), 3);
    assert!(snapshot(&world.layout.run(&slug)) == sealed, "a byte of the run has changed");
    assert_eq!(world.problems(&slug), [""; 0]);
}

#[test]
fn a_report_on_a_run_that_is_not_there_is_kept_nowhere() {
    let world = World::new();
    let store = world.store();
    let before = store.audit_head().unwrap();
    for name in ["20260123-145501-abcdef", "../runs", ""] {
        let (mode, status) = (ReplayMode::Reverify, ReexecStatus::Fail);
        let refused = store.keep_replay(name, mode, status, store::now(), b"x").unwrap_err();
        assert!(refused.to_string().contains("there is no run"), "{refused}");
    }
    assert_eq!(store.audit_head().unwrap(), before);
    assert!(!world.layout.state.join("replays").exists());
}
