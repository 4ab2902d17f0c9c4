//! `Intent.v0`: what somebody wants, before anybody has thought about how. An agent compiles one into a plan, a patch and
//! tests; what it was asked, what it answered and what is kept of that are the documents below.

mod answer;
mod recording;
mod request;

pub use answer::{ANSWER_SCHEMA, CompileAnswer};
pub use recording::{CompileOutput, RECORDING_BYTES_MAX, Recording, Transcript};
pub use request::CompileRequest;

use super::Open;
use crate::json::Violation;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("$id" = "Intent.v0"), transform = absent_is_not_null)]
pub struct Intent {
    /// What is wanted.
    #[schemars(length(min = 1))]
    pub goal: String,
    /// What there is to work with.
    pub inputs: Open,
    /// What must hold.
    pub constraints: Open,
    /// What may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connectors: Option<Vec<String>>,
}

impl Intent {
    /// Reads an intent strictly, or says everything that is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Intent, Vec<Violation>> {
        super::read(bytes)
    }
}

#[cfg(test)]
mod tests;
