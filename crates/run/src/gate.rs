//! Gates: pure functions from a contract and captured evidence to findings. No finding means pass; the first
//! gate with findings closes what it judges, and nothing later starts.

pub mod change;
pub mod verdict;
