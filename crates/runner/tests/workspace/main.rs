//! Workspaces with a real overlay: `unshare` and `mount` stand in for the sandbox. Where user namespaces are not
//! allowed, what needs them says loudly that it was skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
#![allow(clippy::print_stderr, reason = "a test that was skipped must say so")]

mod capture;
mod layers;
mod measure;
mod property;
mod repository;
mod world;
