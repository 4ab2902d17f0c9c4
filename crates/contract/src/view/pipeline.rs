//! A pipeline as it is shown: its stages, contracts, reviews and fixes.

use crate::RepoPath;
use crate::documents::review_report::ReviewVerdict;
use crate::documents::run_manifest::ManifestTaskStatus;
use crate::pipeline::{Cause, Stage};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of a pipeline so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PipelineView {
    /// Each stage that a task has come to, in the order of stages.
    pub stages: Vec<StageView>,
    /// The contracts: the one that everything is a part of, its parts, and fixes.
    pub contracts: Vec<ContractView>,
    /// What reviewers said.
    pub reviews: Vec<ReviewView>,
    /// The fixes.
    pub fixes: Vec<FixView>,
}

/// A stage that a task has come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageView {
    /// Which one.
    pub stage: Stage,
    /// Of which task.
    pub task_id: String,
    /// The turn that was taken in it, by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What came of it.
    pub status: ManifestTaskStatus,
}

/// A contract of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContractView {
    /// Its task.
    pub task_id: String,
    /// The task that it is a part of, or fixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    /// What may change.
    pub allowed_paths: Vec<RepoPath>,
    /// What came of it.
    pub status: ManifestTaskStatus,
}

/// What a reviewer said, or that none was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewView {
    /// Of which task.
    pub task_id: String,
    /// What came of it.
    pub verdict: ReviewVerdict,
    /// In words.
    pub summary: String,
    /// What blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking: Vec<String>,
}

/// A fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixView {
    /// Its task.
    pub task_id: String,
    /// The task that it fixes.
    pub parent_task_id: String,
    /// Why.
    pub cause: Cause,
    /// Which fix of that task it is, from 1 on.
    pub attempt: u32,
    /// What came of it.
    pub status: ManifestTaskStatus,
}
