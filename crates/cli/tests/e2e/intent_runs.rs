//! Intents that are carried out over HTTP: plans that decide and ask, crashes, retries, connectors and the verbs. What the
//! wire has to look like is in `wire_intents.rs`.

mod asking;
mod kills;
mod patches;
mod retries;
mod verbs;
pub(crate) mod world;
