//! `run_result.v1`: what came of a work item.

use crate::receipt::LeftOut;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use crate::{Digest, ItemStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct RunResult {
    /// The work item's id, where results of several stand together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How it ended.
    pub status: ItemStatus,
    /// UUID of its receipt.
    pub receipt_id: String,
    /// Where `RECEIPT.json` is.
    pub receipt_path: String,
    /// Absolute paths of files that are different.
    pub modified_files: Vec<String>,
    /// Absolute paths of files that are new.
    pub created_files: Vec<String>,
    /// Absolute paths of files that are gone.
    pub deleted_files: Vec<String>,
    /// Ignored files that its agent left and that are no part of the change, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// BLAKE3 of the state that it left.
    pub output_hash: Digest,
    /// BLAKE3 of every file that differs, by path.
    pub artifact_hashes: BTreeMap<String, Digest>,
    /// What was counted.
    pub metrics: RunMetrics,
    /// What its tests printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_output: Option<String>,
    /// Where the script is that shows it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_script: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial_reason: Option<String>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct RunMetrics {
    /// How long it took.
    pub execution_time_ms: u64,
    /// Tool operations of the agent.
    pub tool_ops_count: u64,
    /// Entries of the four deltas together.
    pub delta_size: u64,
    /// Paths that differ.
    pub files_touched: u64,
    /// Tests that passed, where somebody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_passed: Option<u64>,
    /// Tests that failed, where somebody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_failed: Option<u64>,
}
