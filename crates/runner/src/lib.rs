//! DOES. One loop asks a run what is due, does it, and records what happened ([`drive`]): turns by agents in a
//! private checkout, changes made on git objects, landings on the user's branch. With the sandbox, this is the
//! only crate that starts processes.

mod change;
mod collect;
mod drive;
mod error;
pub mod git;
mod landing;
mod machine;
mod owner;
pub mod process;
mod request;
mod start;
mod state_hash;
mod trust;
mod turn;
mod world;

pub use drive::{Control, Driver, Progress, Stop};
pub use error::{Error, Result};
pub use landing::{land_later, undo};
pub use machine::Machine;
pub use owner::{Context, Owner, Taken, is_owned, send};
pub use request::{Answer, Request};
pub use start::{Order, resume, start};
pub use state_hash::{hash_dir, hash_tree};
pub use trust::{Trust, load_config};
pub use world::{Execution, LandResult, PatchResult, TurnOrder, World};
