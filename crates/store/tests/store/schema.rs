//! The tables and the directory as the first document describes them.

use crate::fixture::{Driving, World};
use contract::Timestamp;
use store::{Error, JournalMode, Store};

/// `name type notnull default pk` of the columns that the document names.
const COLUMNS: &[(&str, &[&str])] = &[
    ("schema_migrations", &["version INTEGER 0 - 1", "applied_at TEXT 1 - 0"]),
    (
        "runs",
        &[
            "run_id TEXT 0 - 1",
            "created_at TEXT 1 - 0",
            "goal TEXT 1 - 0",
            "status TEXT 1 - 0",
            "iteration INTEGER 1 0 0",
            "current_step_index INTEGER 1 0 0",
            "verdict TEXT 0 - 0",
            "run_dir TEXT 1 - 0",
        ],
    ),
    (
        "steps",
        &[
            "run_id TEXT 1 - 1",
            "step_index INTEGER 1 - 2",
            "role TEXT 1 - 0",
            "iteration INTEGER 1 - 0",
            "status TEXT 1 - 0",
            "step_dir TEXT 1 - 0",
            "started_at TEXT 1 - 0",
            "ended_at TEXT 0 - 0",
            "summary TEXT 0 - 0",
        ],
    ),
    (
        "events",
        &[
            "run_id TEXT 1 - 1",
            "seq INTEGER 1 - 2",
            "ts TEXT 1 - 0",
            "type TEXT 1 - 0",
            "message TEXT 1 - 0",
            "data_json TEXT 0 - 0",
        ],
    ),
    ("kv_run", &["run_id TEXT 1 - 1", "key TEXT 1 - 2", "value_json TEXT 1 - 0"]),
];

#[test]
fn the_tables_have_the_columns_of_the_document() {
    let world = World::new();
    drop(world.store());
    for (table, expected) in COLUMNS {
        let found = world.texts(&format!(
            "SELECT name || ' ' || type || ' ' || \"notnull\" || ' ' || coalesce(dflt_value, '-') || ' ' || pk
             FROM pragma_table_info('{table}') ORDER BY cid"
        ));
        assert_eq!(&found[..expected.len()], *expected, "{table}");
    }
    for table in ["steps", "events", "kv_run"] {
        let found = world.texts(&format!(
            "SELECT \"from\" || ' ' || \"table\" || ' ' || \"to\" || ' ' || on_delete FROM pragma_foreign_key_list('{table}')"
        ));
        assert_eq!(found, ["run_id runs run_id CASCADE"], "{table}");
    }
}

#[test]
fn the_state_directory_has_the_layout_of_the_document() {
    let world = World::new();
    let store = world.store();
    let owner = store::Owner { pid: 1, command: "norma run 1".into(), since: Timestamp::from_unix_ms(0) };
    let _lock = store::OwnerLock::try_take(&world.layout, &owner).unwrap().unwrap();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(4);
    let state = world.root().join(".norma");
    let run = format!("runs/{}", driving.slug());
    for path in ["norma.db", "locks/run.lock", ".gitignore"] {
        assert!(state.join(path).is_file(), "{path}");
    }
    for path in [
        "norma.md",
        "steps/001-plan/input.json",
        "steps/001-plan/output.json",
        "steps/001-plan/logs/stdout.txt",
        "steps/001-plan/logs/stderr.txt",
        "steps/002-do/files/large.log",
        "steps/003-check/verdict.json",
        "steps/003-check/scorecard.md",
        "steps/004-act/patch.diff",
    ] {
        assert!(state.join(&run).join(path).is_file(), "{path}");
    }
}

#[test]
fn every_migration_is_recorded_once_with_its_time() {
    let world = World::new();
    drop(world.store());
    drop(world.store());
    assert_eq!(
        world.texts("SELECT CAST(version AS TEXT) FROM schema_migrations"),
        ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"]
    );
    for time in world.texts("SELECT applied_at FROM schema_migrations") {
        time.parse::<Timestamp>().unwrap();
    }
    world.raw().execute_batch("INSERT INTO schema_migrations VALUES (99, 'x')").unwrap();
    assert!(matches!(Store::open(&world.layout), Err(Error::SchemaTooNew { found: 99, .. })));
    assert!(matches!(store::Reader::open(&world.layout), Err(Error::SchemaTooNew { found: 99, .. })));
}

#[test]
fn every_stored_time_is_rfc_3339() {
    let world = World::new();
    let store = world.store();
    Driving::start(&store, 1, None).finish();
    store.add_task("t".into(), vec![]).wait().unwrap();
    for (table, column) in [
        ("runs", "created_at"),
        ("runs", "ended_at"),
        ("steps", "started_at"),
        ("steps", "ended_at"),
        ("events", "ts"),
        ("audit", "ts"),
        ("tasks", "created_at"),
        ("tasks", "updated_at"),
    ] {
        let times = world.texts(&format!("SELECT {column} FROM {table}"));
        assert!(!times.is_empty());
        for time in times {
            assert_eq!(time.parse::<Timestamp>().unwrap().to_string(), time);
        }
    }
}

#[test]
fn a_run_row_names_its_directory_relative_to_the_repository() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.step();
    let slug = driving.slug();
    assert_eq!(world.one::<String>("SELECT run_dir FROM runs"), format!(".norma/runs/{slug}"));
    assert_eq!(world.one::<String>("SELECT step_dir FROM steps"), format!(".norma/runs/{slug}/steps/001-plan"));
    assert!(world.root().join(world.one::<String>("SELECT step_dir FROM steps")).is_dir());
}

#[test]
fn the_summary_of_an_answer_is_kept_with_its_step() {
    let world = World::new();
    let store = world.store();
    Driving::start(&store, 1, None).steps(4);
    assert_eq!(world.one::<String>("SELECT summary FROM steps WHERE role = 'act'"), "act is done");
}

#[test]
fn run_state_is_read_from_the_database_and_never_from_files() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(3);
    let slug = driving.slug();
    store.sync_mirror(&slug).unwrap();
    let view = world.reader().run(&slug).unwrap().unwrap();
    let log = world.reader().log(&slug).unwrap().1;
    assert_eq!((view.iteration, view.steps.as_ref().unwrap().len()), (1, 3));
    std::fs::create_dir_all(world.layout.runs().join("20990101-000000-abcdef/steps/001-plan")).unwrap();
    std::fs::remove_dir_all(driving.dir()).unwrap();
    let reader = world.reader();
    assert_eq!(reader.run(&slug).unwrap().unwrap(), view);
    assert_eq!(reader.log(&slug).unwrap().1, log);
    assert_eq!(reader.run_count().unwrap(), 1);
}

#[test]
fn a_database_without_wal_is_used_and_the_store_says_so() {
    let world = World::new();
    world.layout.create().unwrap();
    // Somebody who reads a database in the old mode keeps it there.
    let other = world.raw();
    other.execute_batch("PRAGMA journal_mode=DELETE; CREATE TABLE theirs (x); BEGIN; SELECT * FROM theirs;").unwrap();
    let opened = std::thread::scope(|scope| {
        let opening = scope.spawn(|| Store::open(&world.layout));
        // The mode cannot change while somebody reads; writing the tables can continue once they are done.
        std::thread::sleep(std::time::Duration::from_millis(7_500));
        other.execute_batch("COMMIT").unwrap();
        opening.join().unwrap()
    });
    let store = opened.unwrap();
    assert_eq!(store.journal, JournalMode::Delete);
    Driving::start(&store, 1, None).finish();
    let slug = crate::fixture::run_id(1).slug();
    assert_eq!(world.problems(&slug), [""; 0]);
    drop((store, other));
    assert_eq!(world.store().journal, JournalMode::Wal);
}
