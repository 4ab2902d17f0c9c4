//! Opening the database: pragmas, the version check, migrations, and rebuilding the index tables from the logs.

use crate::log::now;
use crate::{Error, Layout, Owner, OwnerLock, Result, graph, index};
use contract::{Audit, Event, EventLine, RunId};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::time::Duration;

/// Before this, a WAL reset could lose committed writes.
pub const SQLITE_VERSION_MIN: (i32, &str) = (3_051_003, "3.51.3");

/// How long a writer waits for another one.
const BUSY_TIMEOUT: Duration = Duration::from_millis(5000);

/// Pages that a connection holds, in KiB. SQLite's own default is 2,000 for each connection; what norma reads and writes again
/// and again is the end of a log, and most of the memory that it holds would be these pages.
const WRITER_CACHE_KIB: u32 = 512;
const READER_CACHE_KIB: u32 = 256;

/// Each migration is applied once, in order, and recorded in `schema_migrations`.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
    include_str!("migrations/0008.sql"),
    include_str!("migrations/0009.sql"),
    include_str!("migrations/0010.sql"),
    include_str!("migrations/0011.sql"),
    include_str!("migrations/0012.sql"),
];

/// How SQLite keeps its journal here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalMode {
    /// Readers never wait.
    Wal,
    /// The file system could not do WAL; slower, and readers may wait.
    Delete,
}

/// Opens the one writing connection and brings the schema up to date.
pub(crate) fn open_writer(layout: &Layout) -> Result<(Connection, JournalMode)> {
    check_version()?;
    let mut db = Connection::open_with_flags(
        layout.db(),
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    // Two statements need no parameters and must come before anything is read from the file.
    db.execute_batch(
        "PRAGMA trusted_schema=OFF; PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;",
    )?;
    // Whether it is refused or fails: without WAL everything still works, so it is only told.
    let mode: rusqlite::Result<String> = db.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0));
    let is_wal = mode.is_ok_and(|mode| mode.eq_ignore_ascii_case("wal"));
    let mode = if is_wal { JournalMode::Wal } else { JournalMode::Delete };
    db.execute_batch(&format!("PRAGMA cache_size=-{WRITER_CACHE_KIB}"))?;
    db.set_prepared_statement_cache_capacity(64);
    migrate(&mut db)?;
    Ok((db, mode))
}

/// Opens a connection that only reads: it takes no lock, recovers nothing and never waits for the writer.
pub(crate) fn open_reader(layout: &Layout) -> Result<Connection> {
    check_version()?;
    if !layout.exists() {
        return Err(Error::NoState(layout.state.clone()));
    }
    let mut db = read_only(layout)?;
    if version(&db)? < MIGRATIONS.len() as i64 {
        drop(db);
        bring_up_to_date(layout)?;
        db = read_only(layout)?;
    }
    let (found, known) = (version(&db)?, MIGRATIONS.len() as i64);
    if found > known { Err(Error::SchemaTooNew { found, known }) } else { Ok(db) }
}

fn read_only(layout: &Layout) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(layout.db(), flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.execute_batch(&format!(
        "PRAGMA trusted_schema=OFF; PRAGMA query_only=ON; PRAGMA cache_size=-{READER_CACHE_KIB};"
    ))?;
    Ok(db)
}

/// Once after an update, whoever looks first brings the tables up to date, as their owner for a moment: nobody should have
/// to start something before they can look. Where an older norma owns them, it goes on until it ends.
fn bring_up_to_date(layout: &Layout) -> Result<()> {
    let me = Owner { pid: std::process::id(), command: "an update of norma.db".to_owned(), since: now() };
    match OwnerLock::try_take(layout, &me)? {
        Some(_lock) => open_writer(layout).map(drop),
        None => Err(Error::Refused(
            "norma.db is in use by an older norma, or being updated; try again when that has ended".into(),
        )),
    }
}

/// The version of the SQLite that is linked.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

fn check_version() -> Result<()> {
    let (number, needed) = SQLITE_VERSION_MIN;
    if rusqlite::version_number() < number {
        return Err(Error::SqliteTooOld { found: rusqlite::version().to_owned(), needed });
    }
    Ok(())
}

fn version(db: &Connection) -> Result<i64> {
    let table: Option<i64> = db
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'", [], |row| row.get(0))
        .optional()?;
    match table {
        None => Ok(0),
        Some(_) => Ok(db.query_row("SELECT coalesce(max(version), 0) FROM schema_migrations", [], |row| row.get(0))?),
    }
}

fn migrate(db: &mut Connection) -> Result<()> {
    let known = MIGRATIONS.len() as i64;
    let found = version(db)?;
    if found > known {
        return Err(Error::SchemaTooNew { found, known });
    }
    if found == known {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL);",
    )?;
    for (number, sql) in (1..).zip(MIGRATIONS).skip(found as usize) {
        tx.execute_batch(sql)?;
        tx.execute(
            "INSERT INTO schema_migrations (version, applied_at) VALUES (?1, ?2)",
            params![number, now().to_string()],
        )?;
    }
    Ok(tx.commit()?)
}

/// What rebuilding the index tables came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reindexed {
    /// How many runs there are.
    pub runs: u64,
    /// Those of which nothing could be rebuilt, since their lines cannot be read; what was shown of them stays.
    pub damaged: Vec<String>,
}

/// The tables that are made of the state directory's own log, in the order in which they can be emptied.
const OF_AUDIT: [&str; 6] = ["task_edges", "tasks", "approvals", "intents", "comments", "arrangements"];

/// Rebuilds the index tables from the logs. `runs` rows are updated in place, never deleted, since `events`
/// hangs on them.
pub fn reindex(store: &crate::Store) -> Result<Reindexed> {
    store
        .submit(|tx| {
            let db = tx.db;
            for table in OF_AUDIT {
                db.execute_batch(&format!("DELETE FROM {table};"))?;
            }
            let slugs: Vec<String> = db
                .prepare("SELECT DISTINCT run_id FROM events ORDER BY run_id")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut damaged = Vec::new();
            for slug in &slugs {
                if !reindex_run(db, slug)? {
                    damaged.push(slug.clone());
                }
            }
            let audits: Vec<(String, String, String)> = db
                .prepare("SELECT type, data_json, ts FROM audit ORDER BY seq")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (kind, data, ts) in audits {
                index::audit(db, &parse_audit(&kind, &data)?, &ts)?;
            }
            let runs = slugs.len() as u64;
            tx.audit(&Audit::Reindexed { runs }, now())?;
            Ok(Reindexed { runs, damaged })
        })
        .wait()
}

/// Rebuilds the rows of one run; if its lines cannot be read, they stay as they were. Answers which.
fn reindex_run(db: &Connection, slug: &str) -> Result<bool> {
    db.execute_batch("SAVEPOINT one_run")?;
    let tables = ["steps", "items", "kv_run", "graph", "intent_runs"];
    let cleared = tables.iter().try_for_each(|table| {
        db.execute(&format!("DELETE FROM {table} WHERE run_id = ?1"), [slug]).map(drop).map_err(Error::from)
    });
    match cleared.and_then(|()| replay(db, slug)) {
        Ok(()) => db.execute_batch("RELEASE one_run").map(|()| true).map_err(Error::from),
        Err(Error::Damaged { .. }) => {
            db.execute_batch("ROLLBACK TO one_run; RELEASE one_run")?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn replay(db: &Connection, slug: &str) -> Result<()> {
    each_event(db, slug, |run, event| index::fact(db, &run, &event))?;
    graph::write_all(db, slug)
}

/// Hands over the events of a run's log, whose chain is not looked at.
pub(crate) fn each_event(db: &Connection, slug: &str, mut each: impl FnMut(RunId, Event) -> Result<()>) -> Result<()> {
    let mut statement = db.prepare_cached("SELECT line FROM events WHERE run_id = ?1 ORDER BY seq")?;
    let mut rows = statement.query([slug])?;
    while let Some(row) = rows.next()? {
        let damaged = |why: String| Error::Damaged { log: slug.to_owned(), why };
        let mut line = EventLine::parse(row.get_ref(0)?.as_bytes().unwrap_or_default())
            .map_err(|violations| damaged(violations.first().map(ToString::to_string).unwrap_or_default()))?;
        each(line.run_uuid, line.take_event().map_err(damaged)?)?;
    }
    Ok(())
}

fn parse_audit(kind: &str, data: &str) -> Result<Audit> {
    let damaged = |why: String| Error::Damaged { log: "audit".to_owned(), why };
    let payload = serde_json::from_str(data).map_err(|e| damaged(e.to_string()))?;
    Audit::from_parts(kind, payload).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pragma<T: rusqlite::types::FromSql>(db: &Connection, name: &str) -> T {
        db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_database_is_opened_with_the_pragmas_of_the_document() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), None);
        layout.create().unwrap();
        let (writer, mode) = open_writer(&layout).unwrap();
        assert_eq!(mode, JournalMode::Wal);
        assert_eq!(pragma::<String>(&writer, "journal_mode"), "wal");
        assert_eq!(pragma::<i64>(&writer, "foreign_keys"), 1);
        assert_eq!(pragma::<i64>(&writer, "busy_timeout"), 5000);
        assert_eq!(pragma::<i64>(&writer, "synchronous"), 2);
        let reader = open_reader(&layout).unwrap();
        assert_eq!(pragma::<i64>(&reader, "busy_timeout"), 5000);
        assert_eq!(pragma::<i64>(&reader, "query_only"), 1);
        assert!(reader.execute_batch("DELETE FROM tasks").is_err());
    }
}
