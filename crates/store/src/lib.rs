//! KEEPS. The log and its index tables in SQLite, the run directories, the lock, recovery and verification.
//! Only this crate links SQLite; only it writes `norma.db`, `runs/`, `locks/` and `quarantine/`. Everything
//! here blocks; an acknowledgement can be awaited too ([`Ticket`]).

pub mod crash;
mod db;
mod error;
mod evidence;
mod index;
mod layout;
mod lock;
mod log;
mod mirror;
mod place;
mod read;
mod recover;
mod replays;
mod seal;
mod tasks;
mod verify;

pub use db::{JournalMode, SQLITE_VERSION_MIN, reindex, sqlite_version};
pub use error::{Error, IoContext, Result};
pub use evidence::{Prepared, Preparing, SMALL_FILE_BYTES_MAX, StepFile, read_manifest, remove_tree, temporary_name};
pub use layout::Layout;
pub use lock::{Owner, OwnerLock, owner_of};
pub use log::{RunLog, Store, Ticket, new_run_id, new_uuid, now};
pub use read::{LandedReceipt, Reader};
pub use recover::{Recovery, lost_evidence, make_way, recover};
pub use seal::seal;
pub use verify::{Check, Verification, verify};
