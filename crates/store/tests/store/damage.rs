//! A run whose log cannot be relied on: recovery leaves it alone, and a person can set it aside.

use crate::fixture::{Driving, World};
use contract::Audit;
use store::Damage;

/// A state directory with two runs under way; answers their slugs.
fn two_runs(world: &World) -> [String; 2] {
    let store = world.store();
    [1, 2].map(|n| {
        let mut driving = Driving::start(&store, n, None);
        driving.step();
        driving.slug()
    })
}

/// Ways to damage the log of a run, with what is found.
const DAMAGES: [(&str, &str); 4] = [
    ("UPDATE events SET line = replace(line, 'Make it work', 'Make it lurk') WHERE seq = 1", "differs from its hash"),
    ("UPDATE events SET line = 'x' || line WHERE seq = 2", "cannot be read"),
    ("UPDATE events SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE seq = 3", "differs from its hash"),
    ("DELETE FROM events", "there are no events"),
];

#[test]
fn a_damaged_run_is_left_alone_and_the_others_are_recovered() {
    for (damage, why) in DAMAGES {
        let world = World::new();
        let [first, second] = two_runs(&world);
        let only_first = if damage.contains("WHERE") { " AND" } else { " WHERE" };
        world.raw_writable().execute_batch(&format!("{damage}{only_first} run_id = '{first}'")).unwrap();
        let found = world.recover();
        assert_eq!(found.interrupted, std::slice::from_ref(&second), "{damage}");
        let [damaged] = &found.damaged[..] else { panic!("{damage}: {found:?}") };
        assert_eq!(damaged.run_id, first);
        assert!(damaged.why.contains(why), "{damage}: {}", damaged.why);
        let reader = world.reader();
        assert_eq!(reader.damaged_runs().unwrap(), found.damaged);
        let open: Vec<String> = reader.open_runs().unwrap().iter().map(|(run, _)| run.id.slug().to_string()).collect();
        assert_eq!(open, [second]);
        let store = world.store();
        let aside = store.quarantine_run(damaged.clone(), "it is broken".into(), "Ada".into()).unwrap();
        assert!(world.layout.state.join(aside.to.as_ref().unwrap()).join("steps").is_dir(), "{aside:?}");
        assert!(!world.layout.run(&first).exists());
        assert_eq!(reader.quarantined_runs().unwrap(), [aside]);
        assert_eq!((reader.damaged_runs().unwrap(), reader.missing_runs().unwrap()), (vec![], vec![]));
        store::reindex(&store).unwrap();
        assert!(reader.run(&first).unwrap().unwrap().quarantined, "{damage}");
        assert_ne!(world.problems(&first), [""; 0]);
        drop(store);
        world.recover_twice();
    }
}

#[test]
fn a_run_that_contradicts_the_audit_log_is_damaged() {
    let world = World::new();
    let [first, second] = two_runs(&world);
    let db = world.raw_writable();
    let swapped = format!("replace(replace(replace(line, '{first}', '@'), '{second}', '{first}'), '@', '{second}')");
    db.execute_batch(&format!("UPDATE audit SET line = {swapped} WHERE type = 'run_state'")).unwrap();
    let found: Vec<(String, String)> =
        world.reader().damaged_runs().unwrap().into_iter().map(|it| (it.run_id, it.why)).collect();
    let why = "the audit log has another event 1 of this run".to_owned();
    assert_eq!(found, [(first.clone(), why.clone()), (second, why)]);
    let forgotten = "UPDATE audit SET line = replace(line, 'run_id', 'run') WHERE type = 'run_state'";
    db.execute_batch(forgotten).unwrap();
    let found = world.reader().damage(&first).unwrap().unwrap();
    assert_eq!(found.why, "the audit log does not know this run");
}

#[test]
fn what_a_crash_cut_off_of_setting_a_run_aside_is_completed() {
    let world = World::new();
    let [first, _] = two_runs(&world);
    world.raw_writable().execute_batch(&format!("DELETE FROM events WHERE run_id = '{first}'")).unwrap();
    let to = format!("quarantine/x-{first}");
    let Damage { why: problem, .. } = world.reader().damage(&first).unwrap().unwrap();
    let (to_be, reason, by) = (Some(to.clone()), "it is broken".to_owned(), "Ada".to_owned());
    world
        .store()
        .audit(Audit::RunQuarantined { run_id: first.parse().unwrap(), problem, to: to_be, reason, by })
        .wait()
        .unwrap();
    assert!(world.layout.run(&first).is_dir());
    let found = world.recover_twice();
    assert!(found.notes.iter().any(|note| note.contains("was moved to quarantine, as a person asked")), "{found:?}");
    assert!(world.layout.state.join(to).join("steps").is_dir());
    assert!(!world.layout.run(&first).exists());
    assert_eq!(found.damaged, []);
}
