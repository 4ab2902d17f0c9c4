//! Gates: pure functions from a contract and captured evidence to findings. No finding means pass; the first
//! gate with findings closes what it judges, and nothing later starts.

pub mod acceptance;
pub mod admission;
pub mod budget;
pub mod build_products;
pub mod command;
pub mod delta;
mod finding;
mod listed;
pub mod policy;
pub mod scope;
pub mod secret;
pub mod test_files;
pub mod text;
pub mod tool_ops;
pub mod verdict;

pub use finding::{Finding, Rule, shown};

use contract::work::Gate;

/// The one order in which a change is judged; the first gate that finds something ends it. What is merged with what
/// others have landed meanwhile is judged by [`Gate::Merged`], and tested, once more.
pub const ORDER: [Gate; 8] = [
    Gate::Inputs,
    Gate::Output,
    Gate::Scope,
    Gate::Admission,
    Gate::Outputs,
    Gate::Contracts,
    Gate::Review,
    Gate::Tests,
];
