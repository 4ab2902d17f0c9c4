//! `replay_report.v1`: what came of judging a run again, on the evidence that is kept of it. A run that is carried out
//! again has a report of its own, [`crate::documents::ReexecReport`].

use crate::Timestamp;
use crate::documents::ReexecStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a run is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayMode {
    /// Everything is judged again on what is kept; nothing is started.
    Rehydrate,
    /// Patches are applied and tests are run again; no agent is asked.
    Reverify,
    /// The contract is carried out again.
    Reexec,
}

impl ReplayMode {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ReplayMode::Rehydrate => "rehydrate",
            ReplayMode::Reverify => "reverify",
            ReplayMode::Reexec => "reexec",
        }
    }
}

impl fmt::Display for ReplayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayReport {
    /// Always `replay_report.v1`.
    pub schema: ReplaySchema,
    /// The run's slug.
    pub run_id: String,
    /// How it was replayed.
    pub mode: ReplayMode,
    /// What came of it.
    pub status: ReexecStatus,
    /// When.
    pub replayed_at: Timestamp,
    /// What was compared, in this order.
    pub checks: Vec<ReplayCheck>,
}

/// The one schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplaySchema {
    /// Version 1.
    #[serde(rename = "replay_report.v1")]
    V1,
}

/// One kind of thing that was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayCheck {
    /// What.
    pub name: String,
    /// How many of them.
    pub compared: u64,
    /// What is not as it was recorded; none = it is.
    pub differences: Vec<ReplayDifference>,
    /// What could not be compared, though nothing speaks against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One thing that is not as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayDifference {
    /// The event that recorded it; none where it is not about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The gate that says something else now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// What, in words.
    pub what: String,
}

impl ReplayReport {
    /// A report on these checks; one difference is enough to fail it.
    pub fn new(run_id: String, mode: ReplayMode, replayed_at: Timestamp, checks: Vec<ReplayCheck>) -> ReplayReport {
        let same = checks.iter().all(|check| check.differences.is_empty());
        let status = if same { ReexecStatus::Pass } else { ReexecStatus::Fail };
        ReplayReport { schema: ReplaySchema::V1, run_id, mode, status, replayed_at, checks }
    }
}

impl fmt::Display for ReplayDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seq) = self.seq {
            write!(f, "event {seq}: ")?;
        }
        if let Some(gate) = &self.gate {
            write!(f, "gate {gate}: ")?;
        }
        f.write_str(&self.what)
    }
}
