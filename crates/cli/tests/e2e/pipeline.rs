//! Pipelines: from a sentence to a merged change, with agents that do as they should and with those that do not.

mod conflicts;
mod fixes;
mod hostile;
pub(crate) mod kills;
mod stories;
mod tampered;
mod whole;
mod world;
