//! Runs of items, carried out by real agents and replayed: on their evidence, with their tests, and as a whole.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
#![allow(clippy::print_stderr, reason = "a test that was skipped must say so")]

mod forged;
mod place;
mod reexec;
mod rehydrate;
mod reverify;
#[allow(dead_code, reason = "what the tests of acceptance need besides")]
#[path = "../acceptance/world.rs"]
mod world;
