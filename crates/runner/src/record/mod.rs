//! The record of a run that is under way, and everybody who works on it: facts get their place in the log, who is at what
//! is claimed here, and whoever has to be waited for or asked to stop is reached from here.

pub(crate) mod answers;
pub(crate) mod approval;
pub(crate) mod claims;
mod control;
mod driver;
mod shared;
mod spare;
mod unwritten;

pub use control::{Control, Stop};
pub(crate) use driver::{Driver, keep_diff};
pub use shared::Progress;
pub(crate) use shared::{Pending, RunState, SharedRun};
pub(crate) use spare::SpareDirs;
pub(crate) use unwritten::Unwritten;
