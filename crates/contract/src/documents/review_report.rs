//! `review_report.v1`: what a reviewer says of a change, which it must not touch.

use super::ArtifactRef;
use crate::Timestamp;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct ReviewReport {
    /// The run's slug.
    #[schemars(length(min = 1))]
    pub run_id: String,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub task_id: Option<String>,
    /// Which try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// Who looked at it.
    pub reviewer: Reviewer,
    /// When.
    pub reviewed_at: Timestamp,
    /// What came of it.
    pub verdict: ReviewVerdict,
    /// In words.
    pub summary: String,
    /// Whether it stays within what may change.
    pub scope_check: ScopeCheck,
    /// What it was judged from.
    pub evidence: Vec<ArtifactRef>,
    /// Always false: a reviewer that changes anything is a fault of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("const" = false))]
    pub produced_diff: Option<bool>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// Who looked at a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct Reviewer {
    /// Always the reviewer's.
    pub role: ReviewerRole,
    /// Who.
    pub agent_id: String,
    /// The session it was done in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codex_thread_id: Option<String>,
}

/// The one role that reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReviewerRole {
    /// A reviewer.
    Reviewer,
}

/// What came of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReviewVerdict {
    /// Good.
    Pass,
    /// Not good.
    Fail,
    /// It could not be judged.
    Blocked,
}

impl ReviewVerdict {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewVerdict::Pass => "PASS",
            ReviewVerdict::Fail => "FAIL",
            ReviewVerdict::Blocked => "BLOCKED",
        }
    }
}

/// Whether a change stays within what may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopeCheck {
    /// Whether it does.
    pub passed: bool,
    /// Where it does not.
    pub violations: Vec<String>,
}
