//! DECIDES. A run is a fold over its facts ([`Run::apply`]: the law); what is due next is a pure function of that state
//! ([`Run::next`], [`Run::admits`]: the schedule); gates are pure functions from a contract and evidence to findings
//! ([`gate`]). Nothing here reads a file, a clock or a random number, so every decision can be replayed from the log.

mod approvals;
mod bounded;
pub mod bundle;
pub mod gate;
mod items;
mod persistent;
pub mod prompt;
pub mod proposal;
pub mod redact;
mod remedy;
mod spec;
mod state;
pub mod turn;
pub mod view;
pub mod workflow;

pub use approvals::approval_problems;
pub use bounded::{bounded, bounded_begins_with};
pub use items::{ItemStage, ItemState, Items, Reviews, Standing, Worked, levels, reconciles};
pub use persistent::{Element, PersistentVec, Summary};
pub use remedy::remedy;
pub use spec::{LookBack, Product, TurnRights, TurnSpec};
pub use state::{Core, Illegal, Line, OpenTurn, RateLimit, Run, StepRecord, Unfinished};
pub use workflow::{Due, Flow, NotDue};
