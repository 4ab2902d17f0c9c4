//! Graph runs from outside: a real server, nodes whose agents are small programs that do what they are told, and clients
//! that speak HTTP as the contract has it.

mod approvals;
mod build;
mod changes;
mod handoffs;
mod kills;
mod rights;
mod terminal;
mod turns;
pub(crate) mod world;
