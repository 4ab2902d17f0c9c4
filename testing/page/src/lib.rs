//! A web page that is a client of seed 003's API (`page/`), a forwarder that makes it same-origin with a server that
//! serves no pages of others, and Chromium to have it in. The page is as careless as an existing client is; what it
//! shows is what that client would.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod chromium;
mod forwarder;

pub use chromium::{Chromium, Tab};
pub use forwarder::Forwarder;
