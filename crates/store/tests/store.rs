//! The store as a whole, on a real SQLite in a temporary directory: what is committed together, what is found
//! when somebody tampers with it, and what is left after a crash at any point. Only the public surface is used;
//! tables are looked at through a connection of the test's own. Every commit is synced for real;
//! `TMPDIR=/dev/shm` makes the tests four times as fast.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "store/approvals.rs"]
mod approvals;
#[path = "store/commit.rs"]
mod commit;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/fixture.rs"]
mod fixture;
#[path = "store/graph.rs"]
mod graph;
#[path = "store/path_locks.rs"]
mod path_locks;
#[path = "store/recovery.rs"]
mod recovery;
#[path = "store/replays.rs"]
mod replays;
#[path = "store/schema.rs"]
mod schema;
#[path = "store/tamper.rs"]
mod tamper;
