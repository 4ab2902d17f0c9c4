//! `work_item.v1`: one of several pieces of work that depend on each other, each for one agent, with limits on what it
//! may come to.

mod batch;

pub use batch::{Batch, ITEMS_MAX, compile_batch, read_batch};

use super::{Grade, ScopeTerms};
use crate::Backend;
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use crate::work::TestsPolicy;
use serde::{Deserialize, Serialize};

/// The document. A batch is an array of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct WorkItem {
    /// Unique in its batch; fit to be a directory name.
    pub id: String,
    /// Who is to do it.
    pub agent_id: String,
    /// What to do, in words.
    #[schemars(length(min = 1))]
    pub description: String,
    /// The items that must have succeeded first.
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// How much it may come to.
    #[serde(default)]
    pub constraints: WorkConstraints,
    /// What is expected of it; nothing enforces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkBudget>,
    /// Files that must be there before; a leading `/` is the repository's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_files: Option<Vec<String>>,
    /// Files that must be there afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_files: Option<Vec<String>>,
    /// What must succeed, split as a shell would; nothing only a shell understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_command: Option<String>,
    /// More of the same, each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub test_commands: Option<Vec<String>>,
    /// What may change: files, or directories with everything below; without it, the whole tree but for what policy protects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub allowed_paths: Option<Vec<String>>,
    /// What a change may bring besides text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeTerms>,
    /// Whose version of the tests counts; `guarded` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_policy: Option<TestsPolicy>,
    /// Whether nothing at all may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// What confines its agent and its tests, in place of what the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_backend: Option<Backend>,
}

/// How much a work item may come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = absent_is_not_null)]
pub struct WorkConstraints {
    /// Paths that differ. If nothing is said: as many as `allowed_paths` has entries, if none of them is a directory; 50
    /// if one is; 10 without `allowed_paths`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u64>,
    /// Tool operations of the agent. If nothing is said: 50 where they can be counted, and no limit where they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_ops: Option<u64>,
    /// Entries of the four deltas together. If nothing is said: 100, or as many as paths may differ, if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delta_size: Option<u64>,
    /// How long the turn may take, and the test.
    #[schemars(range(min = 1))]
    pub timeout_ms: u64,
}

impl Default for WorkConstraints {
    fn default() -> Self {
        WorkConstraints { max_files: None, max_tool_ops: None, max_delta_size: None, timeout_ms: 300_000 }
    }
}

/// What is expected of a work item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkBudget {
    /// How long it should take.
    pub time_estimate_ms: u64,
    /// How hard it is.
    pub complexity: Grade,
}

#[cfg(test)]
mod tests;
