//! `evidence_report.v1`: whether the evidence of a run is all there.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceReport {
    /// Whether it is.
    pub status: EvidenceStatus,
    /// What is not there.
    pub missing: Vec<String>,
}

/// Whether it is all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceStatus {
    /// It is.
    Ok,
    /// It is not.
    Fail,
}
