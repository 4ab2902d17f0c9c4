//! `reexec_report.v1`: what differs when a run's result is made and tested once more.

use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReexecReport {
    /// The run's slug.
    pub run_id: String,
    /// What came of it.
    pub status: ReexecStatus,
    /// When it was carried out again.
    pub reexec_ts: Timestamp,
    /// Whether nothing differs that must not.
    pub hard_equal_pass: bool,
    /// Whether nothing differs that may.
    pub soft_equal_pass: bool,
    /// What differs and must not.
    pub hard_diffs: Vec<Difference>,
    /// What differs and may.
    pub soft_diffs: Vec<Difference>,
    /// What could not be compared.
    pub errors: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReexecStatus {
    /// The same.
    Pass,
    /// Not the same.
    Fail,
}

/// One thing that differs. Open: what helps to understand it may stand beside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = absent_is_not_null)]
pub struct Difference {
    /// The name of what differs.
    pub key: String,
    /// As it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// As it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Value>,
    /// Whatever helps to understand it.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}
