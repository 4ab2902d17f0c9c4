//! Gates: pure functions from a contract and captured evidence to findings. No finding means pass; the first
//! gate with findings closes what it judges, and nothing later starts.

pub mod budget;
pub mod command;
mod finding;
pub mod policy;
pub mod scope;
pub mod verdict;

pub use finding::{Finding, Rule, shown};
