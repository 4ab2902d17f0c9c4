//! The gateway between a real client connection and a local server that plays a provider.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

mod budget;
mod desk;
mod garbage;
mod lifetime;
mod provider;
mod recording;
mod refusals;
mod replay;
mod retries;
mod streaming;
mod tls;
mod usage;
