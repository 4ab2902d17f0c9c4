//! DOES. One loop asks a run what is due, does it, and records what happened ([`drive`]): turns by agents in a
//! private checkout, changes made on git objects, landings on the user's branch. With the sandbox, this is the
//! only crate that starts processes.
//!
//! Its modules lie in one order, which ARCHITECTURE.md lists from the bottom up: none uses one that uses it.

mod agent;
mod backend;
mod change;
mod compiled;
mod context;
mod drive;
mod error;
mod evidence;
pub mod git;
pub mod hooks;
mod host;
mod landing;
mod machine;
pub mod process;
mod record;
mod replay;
mod turn;
pub mod workspace;
mod world;

pub use agent::{Reach, tools as node_tools};
pub use backend::{Means, Ran, check_backend, run_job};
pub use change::acceptance::{Acceptance, CommandOutcome, LogFile, Side};
pub use change::conflict::{Conflicting, Sided, conflicts};
pub use change::observed::observed;
pub use compiled::{compiled, patch_of_session};
pub use context::agents::{AgentChange, starting_config};
pub use context::confinement::{LEVEL_MIN, check_sandbox, check_workspace, shows_dependencies};
pub use context::keys::Keys;
pub use context::own::{InForce, keep_default_agent, own_config, own_settings, settings_in_force};
pub use context::policy::extent;
pub use context::policy::{
    load_policies, load_templates, policies_of, remove_template, write_policies, write_schemas, write_template,
};
pub use context::state_dir::StateDir;
pub use context::trust::{Settings, Trust, load_settings, require_own, trusted_settings};
pub use context::{Context, News};
pub use drive::Alone;
pub use error::{ACCEPT, Error, Result, exit};
pub use host::checkpoint::problem as checkpoint_problem;
pub use host::export::{export, verify_all, verify_run};
pub use host::feed::{Delta, DeltaObserver};
pub use host::follow::{Followed, Follower, Line, Lines};
pub use host::intake::agent::{choose as choose_agent, name_one as name_one_agent};
pub use host::intake::{Checked, Draft, Part, Planned, Typing, Unplanned, Wanted, plan, which_agent};
pub use host::intent::retried_from;
pub use host::opencode::Compiler;
pub use host::owner::{Owner, Taken};
pub use host::pipeline::{PipelineWish, Seats};
pub use host::preview::Preview;
pub use host::request::{Answer, IntentEvent, Remark, Request, Sender, Start, Started, Typed, Variables};
pub use host::results::results;
pub use host::socket::{is_owned, send};
pub use host::start::{Order, REFETCH, Resumed, Starting, WorkOrder, resume};
pub use host::submit::{Submitted, activate, deactivate, submit};
pub use host::survey::{HANDSHAKE_PATIENCE, Surveyed, candidates, look_at, survey};
pub use host::{Hosted, Hosting};
pub use landing::{Later, undo};
pub use machine::Machine;
pub use machine::base_tests::{BaseTest, try_on_base};
pub use machine::handshake::{Handshake, HandshakeProblem, handshake};
pub use machine::state_hash::{Memo, hash_dir, hash_tree, hash_tree_with};
pub use machine::trial::{Trial, Tried};
pub use record::approval::{Redeemed, ask, reasons as approval_reasons, redeem};
pub use record::{Control, Progress, Stop};
pub use replay::reexec::compare;
pub use replay::{Replay, check_record};
pub use run::workflow::graph::edit::EditProblem;
pub use world::{Again, Allowed, Answered, Execution, LandResult, Place, Question, Spoken, TurnOrder, Witness, World};
