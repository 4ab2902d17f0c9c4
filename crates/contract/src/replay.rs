//! `replay_report.v1`: what came of judging a run again, on the evidence that is kept of it. A run that is carried out
//! again has a report of its own, [`crate::documents::ReexecReport`].

use crate::documents::ReexecStatus;
use crate::schema::JsonSchema;
use crate::{AgentType, Timestamp};
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
    /// Agents work again with the recorded answers of their models; nothing goes out.
    Recorded,
}

impl ReplayMode {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ReplayMode::Rehydrate => "rehydrate",
            ReplayMode::Reverify => "reverify",
            ReplayMode::Reexec => "reexec",
            ReplayMode::Recorded => "recorded",
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
    /// When it was replayed.
    pub replayed_at: Timestamp,
    /// What was compared, in this order.
    pub checks: Vec<ReplayCheck>,
    /// Where agents were to work again: what came of each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Vec<RecordedStep>>,
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
    /// The kind of thing, such as `gates`.
    pub name: String,
    /// How many of them.
    pub compared: u64,
    /// What is not as it was recorded; none = it is.
    pub differences: Vec<ReplayDifference>,
    /// What could not be compared, though nothing speaks against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A turn that was taken again with what is on record of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedStep {
    /// Its evidence, `steps/003-check`.
    pub dir: String,
    /// The item that it is about; none in a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Whose turn it was.
    pub agent: AgentType,
    /// What was done.
    pub how: RecordedHow,
    /// Why its agent did not work again, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How the agent's calls of its model were answered, where it worked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<RecordedCalls>,
    /// What came of it.
    pub result: RecordedResult,
    /// What is not as it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What is worth knowing, though nothing speaks against the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was done with a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedHow {
    /// Its agent worked again, with the recorded answers of its model.
    AgentAgain,
    /// The change on record was applied to the base on record.
    ChangeApplied,
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedResult {
    /// The same as on record.
    Same,
    /// Something else.
    Differs,
    /// It left nothing that could be compared.
    Nothing,
    /// It could not be tried here, which `why` explains.
    NotTried,
}

/// How calls of a model were answered from a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedCalls {
    /// How many are on record.
    pub recorded: u64,
    /// Calls with the very same body.
    pub exact: u64,
    /// Calls with the same body but for ids and times.
    pub masked: u64,
    /// Calls that could only mean one of those on record.
    pub order: u64,
    /// Calls that nothing on record is like; they were refused.
    pub mismatches: u64,
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
        ReplayReport { schema: ReplaySchema::V1, run_id, mode, status, replayed_at, checks, recorded: None }
    }
}

impl ReplayReport {
    /// Whether a turn could not be tried here, so that nothing is known of it.
    pub fn is_incomplete(&self) -> bool {
        self.recorded.iter().flatten().any(|step| step.result == RecordedResult::NotTried)
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
