//! `RunViewModel.v0`: a run as whoever started an intent is shown it. The document is closed; what else there is to say is in
//! its steps and artifacts, which are open.

use crate::Status;
use crate::documents::Open;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("$id" = "RunViewModel.v0"), transform = absent_is_not_null)]
pub struct RunViewModel {
    /// `run_` and 32 digits.
    pub run_id: String,
    /// Where it is.
    pub status: ViewStatus,
    /// In the order in which they began.
    pub steps: Vec<Open>,
    /// In the order of their steps.
    pub artifacts: Vec<Open>,
    /// What its starter traces it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it; a document gives them no other meaning")]
pub enum ViewStatus {
    Queued,
    Running,
    WaitingInput,
    Succeeded,
    Failed,
    Canceled,
}

impl From<Status> for ViewStatus {
    fn from(status: Status) -> ViewStatus {
        match status {
            Status::Queued => ViewStatus::Queued,
            Status::Running => ViewStatus::Running,
            Status::Waiting | Status::Paused => ViewStatus::WaitingInput,
            Status::Succeeded => ViewStatus::Succeeded,
            Status::Failed | Status::Denied | Status::TimedOut | Status::Stopped => ViewStatus::Failed,
            Status::Canceled => ViewStatus::Canceled,
        }
    }
}
