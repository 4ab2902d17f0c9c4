//! How a program is locked in: what it can see, change, reach and use up is what a policy says.
//!
//! The crate knows nothing of runs and agents. It takes a [`Policy`], builds the confinement in a
//! process of its own (see [`setup`]: norma executed again), reads back from inside what
//! holds in fact, refuses what is weaker than asked, and only then lets the program run. It is the
//! only crate of the project that may use `unsafe`, and Linux is the only system it knows.

pub mod drill;
pub mod effective;
pub mod level;
pub mod listen;
pub mod policy;
pub mod probe;
pub mod proxy;
pub mod report;
pub mod setup;
pub mod visible;

mod control;
mod give;
mod memory;
mod start;

pub use effective::{Effective, HeldBy};
pub use give::{give_directory, open_directory};
pub use level::{Level, UNPRIVILEGED};
pub use listen::{Commands, Judge, Refused, Starting};
pub use memory::{give_memory_back, share_pools};
pub use policy::{Heard, HostPort, Identity, Limits, Network, Overlay, Placed, Policy, Root, Upper, Violation};
pub use probe::{Probe, has_overlays, probe};
pub use report::{End, Exhausted, Failure, Report, Usage};
pub use start::{Command, Confined, Error, Prepared, Sandbox, SetUp, Streams};
