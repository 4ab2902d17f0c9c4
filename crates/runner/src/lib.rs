//! DOES. One loop asks a run what is due, does it, and records what happened ([`drive`]): turns by agents in a
//! private checkout, changes made on git objects, landings on the user's branch. With the sandbox, this is the
//! only crate that starts processes.

mod acceptance;
mod after;
mod agent;
mod approval;
mod book;
mod change;
mod checkpoint;
mod clear;
mod collect;
mod confine;
mod drive;
mod error;
mod execute;
mod export;
pub mod git;
pub mod hooks;
mod intents;
mod items;
mod keep;
mod keys;
mod landing;
mod leftovers;
mod machine;
mod observe;
mod owner;
mod policy;
pub mod process;
mod replay;
mod request;
mod results;
mod setup;
mod show;
mod socket;
mod start;
mod state_hash;
mod submit;
mod survey;
mod trial;
mod trust;
mod turn;
mod witness;
pub mod workspace;
mod world;

pub use acceptance::{Acceptance, CommandOutcome, LogFile, Side};
pub use agent::Reach;
pub use approval::{Redeemed, ask, extent, reasons as approval_reasons, redeem};
pub use checkpoint::problem as checkpoint_problem;
pub use confine::{LEVEL_MIN, check_sandbox, check_workspace};
pub use drive::{Control, Driver, Hands, Progress, Stop};
pub use error::{ACCEPT, Error, Result, exit};
pub use export::{export, verify_all, verify_run};
pub use intents::{compiled, patch_of_session};
pub use items::ItemWorld;
pub use keys::Keys;
pub use landing::{land_later, undo};
pub use machine::Machine;
pub use observe::observed;
pub use owner::{Context, News, Owner, Taken};
pub use policy::{load_policies, load_templates, write_policies};
pub use replay::reexec::compare;
pub use replay::{Replay, check_record};
pub use request::{Answer, Request};
pub use results::results;
pub use socket::{is_owned, send};
pub use start::{Order, Resumed, Starting, WorkOrder, resume};
pub use state_hash::{Memo, hash_dir, hash_tree, hash_tree_with};
pub use submit::{Submitted, activate, deactivate, submit};
pub use survey::{Surveyed, look_at, survey};
pub use trial::{Trial, Tried};
pub use trust::{Settings, Trust, load_settings};
pub use world::{
    Again, Answered, Execution, LandResult, PatchResult, Place, Question, Spoken, TurnOrder, Witness, World,
};
