//! The tests of an item, run by norma with real commands: what passes, what does not, and what a hostile test cannot do.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
#![allow(clippy::print_stderr, reason = "a test that was skipped must say so")]

mod baseline;
mod hostile;
mod ordinary;
mod world;
