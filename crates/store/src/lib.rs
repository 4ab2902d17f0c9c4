//! KEEPS. The log and its index tables in SQLite, the run directories, the locks, recovery and verification.
//! Only this crate links SQLite; only it writes `norma.db`, `runs/`, `locks/` and `quarantine/`. Everything
//! here blocks; an acknowledgement can be awaited too ([`Ticket`]).

mod agents;
mod answers;
mod approvals;
mod audit_end;
mod bundle;
pub mod crash;
mod damage;
mod db;
mod directories;
mod error;
mod evidence;
mod export;
mod graph;
mod index;
mod intents;
mod kept;
mod layout;
mod lock;
mod log;
mod mirror;
mod past;
mod path_lock;
mod place;
mod queue;
mod read;
mod recordings;
mod recover;
mod replays;
mod review;
mod seal;
mod tasks;
mod verify;

pub use answers::Asked;
pub use audit_end::AuditEnd;
pub use damage::{Damage, Quarantine};
pub use db::{JournalMode, Reindexed, SQLITE_VERSION_MIN, reindex, sqlite_version};
pub use error::{Error, IoContext, Result};
pub use evidence::{
    Attached, KeptFile, Prepared, Preparing, SMALL_FILE_BYTES_MAX, StepFile, Writing, read_manifest, remove_tree,
};
pub use evidence::{shown, temporary_name, write_dir, write_out, write_out_dir};
pub use export::export;
pub use graph::{GraphPage, draw};
pub use intents::INTENT_BYTES_MAX;
pub use layout::Layout;
pub use lock::{Owner, OwnerLock, owner_of};
pub use log::{Observer, RunLog, Store, Ticket, new_run_id, new_uuid, now};
pub use past::Followed;
pub use path_lock::{Conflict, Holder, PathLock, PathLocks, Taken};
pub use read::{LandedReceipt, Reader};
pub use recordings::{keep_recording, recording};
pub use recover::{Recovery, SERVER_ENDED, lost_evidence, make_way, recover, recover_one};
pub use seal::{Sign, seal, write_whole};
pub use verify::{Open, Roster, Verification, verify, verify_all};
