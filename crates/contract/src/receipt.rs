//! `RECEIPT.json`: what one change was, from what to what, judged by which gates, with which outcome. Every change has
//! one, whatever came of it. Two hashes are kept apart: the *content hash* says whether two changes are the same change
//! (no ids, no times), the *receipt hash* whether this document is the one that was written.

use crate::schema::JsonSchema;
use crate::work::{GateResult, ItemStatus, TestCounts, TestStatus, ToolOpsSource};
use crate::{ApprovalId, CommitId, Digest, Domain, ObjectId, Reason, Slug, Timestamp, TreeId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Always `receipt.v1`.
    pub schema: ReceiptSchema,
    /// UUID.
    pub id: String,
    /// The run's slug.
    pub run_id: Slug,
    /// The item's id.
    pub task_id: String,
    /// `changes/NNN`.
    pub change: u32,
    /// Who did it.
    pub agent_id: String,
    /// Whether it is one of many, or reconciles them.
    pub phase: Phase,
    /// When, in nanoseconds since 1970, as decimal digits: the number does not fit into JSON's.
    pub timestamp_ns: String,
    /// When, for people.
    pub timestamp_iso: Timestamp,
    /// How it ended.
    pub status: ItemStatus,
    /// Why, unless it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What went wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was refused, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial_reason: Option<String>,
    /// State hash of the tree before.
    pub before_hash: Digest,
    /// State hash of the tree after; the same as before where nothing changed.
    pub after_hash: Digest,
    /// The same trees as git knows them.
    pub git: ReceiptGit,
    /// Digest of the run's contract.
    pub contract: Digest,
    /// SHA-256 of the submitted document.
    pub submitted: Digest,
    /// SHA-256 of every policy that it was judged by.
    pub policies: std::collections::BTreeMap<String, Digest>,
    /// norma's version.
    pub toolchain_version: String,
    /// What confined the agent and the tests.
    pub sandbox: String,
    /// Each file that differs.
    pub artifacts: Vec<ReceiptArtifact>,
    /// Ignored files that the agent left beside its change, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Scripts that show it again, below the run's directory.
    pub proof_artifacts: Vec<String>,
    /// The same files by what they are.
    pub deltas: Deltas,
    /// What the agent says it called, as far as it was told.
    pub tool_trace: Vec<Value>,
    /// How many operations there were.
    pub tool_ops: u64,
    /// Who counted them.
    pub tool_ops_source: ToolOpsSource,
    /// What each gate said, in order.
    pub gates: Vec<GateResult>,
    /// What came of the tests; none if there were none to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<ReceiptTests>,
    /// No test was run: the change succeeded by its other gates alone. Receipts of earlier versions do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untested: bool,
    /// The log of the tests, below the run's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_log_path: Option<String>,
    /// Approvals that were used, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalId>,
    /// For a change that landed: the receipt hash of the one before it on the run's line.
    pub previous_receipt_hash: Option<Digest>,
    /// What the change is, apart from when and by which run it was made.
    pub content_hash: Digest,
    /// Over everything else in this document.
    pub receipt_hash: Digest,
}

/// The one schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReceiptSchema {
    /// Version 1.
    #[serde(rename = "receipt.v1")]
    V1,
}

/// Whether a change is one of many, or reconciles them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// One of many.
    Tranche,
    /// Made by the reconciler.
    Reconcile,
}

/// Git's names for the trees of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptGit {
    /// The commit that the agent worked on.
    pub base_commit: CommitId,
    /// Its tree.
    pub base_tree: TreeId,
    /// The tree that the change starts from where it lands.
    pub before_tree: TreeId,
    /// The tree that the agent left, if it was looked at.
    pub candidate_tree: Option<TreeId>,
    /// The tree that lands.
    pub after_tree: TreeId,
}

/// What came of the tests of a change. Counts are there as far as a runner said so; receipts of the first two versions of
/// the rules have nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiptTests {
    /// All of them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TestStatus>,
    /// Every command, in order, once for each version of the tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<TestedCommand>,
    /// Tests that passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// Tests that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Tests that did neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

/// What one command came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestedCommand {
    /// What it is called.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether the change is refused if it fails.
    pub must_pass: bool,
    /// Whether it ran with the tests as they were before the change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// What it came to.
    pub status: TestStatus,
    /// The number for it; none if it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl ReceiptTests {
    /// Nothing but counts.
    pub fn counted(counts: TestCounts) -> ReceiptTests {
        let TestCounts { passed, failed, skipped } = counts;
        ReceiptTests { passed: Some(passed), failed: Some(failed), skipped: Some(skipped), ..ReceiptTests::default() }
    }

    /// The counts, if a runner said so.
    pub fn counts(&self) -> Option<TestCounts> {
        Some(TestCounts { passed: self.passed?, failed: self.failed?, skipped: self.skipped? })
    }

    /// Whether something failed, be it that it need not pass.
    pub fn has_failures(&self) -> bool {
        let failed = |command: &TestedCommand| matches!(command.status, TestStatus::Fail | TestStatus::Error);
        self.failed.is_some_and(|failed| failed > 0) || self.commands.iter().any(failed)
    }
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptArtifact {
    /// Its place in the list, from 1.
    pub id: u64,
    /// What was done to it.
    #[serde(rename = "type")]
    pub kind: ArtifactKind,
    /// Where, escaped so that it can be shown.
    pub path: String,
    /// Mode afterwards, in git's digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// BLAKE3 of the content afterwards, as state hashes have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<Digest>,
    /// BLAKE3 of the content afterwards, as `b3sum` prints it; receipts of the first two versions of the rules have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<Digest>,
    /// SHA-256 of the content afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
}

/// Ignored files that an agent left in its workspace. They are no part of its change and are gone with the workspace, so
/// they are named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// How many there are.
    pub count: u64,
    /// Their size together.
    pub bytes: u64,
    /// The first of them, by path.
    pub files: Vec<LeftOutFile>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOutFile {
    /// Where it was, escaped so that it can be shown.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// SHA-256 of its content; none if all of them together were more than is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
}

impl LeftOut {
    /// Most files that a receipt lists; the evidence of the turn has more.
    pub const RECEIPT_FILES_MAX: usize = 100;

    /// Most files that a line of the log lists.
    pub const EVENT_FILES_MAX: usize = 10;

    /// The same with no more than so many files listed.
    pub fn with_files_max(mut self, files_max: usize) -> LeftOut {
        self.files.truncate(files_max);
        self
    }
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// It is new.
    Create,
    /// It differs.
    Edit,
    /// It is gone.
    Delete,
}

/// Every changed path in exactly one of four.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deltas {
    /// State: what is in none of the others.
    #[serde(rename = "deltaO")]
    pub state: Vec<Delta>,
    /// Projections: documents.
    #[serde(rename = "deltaPi")]
    pub documents: Vec<Delta>,
    /// Laws: policy, CI, configuration.
    #[serde(rename = "deltaLambda")]
    pub laws: Vec<Delta>,
    /// Invariants: tests and schemas.
    #[serde(rename = "deltaQ")]
    pub invariants: Vec<Delta>,
}

impl Deltas {
    /// How many entries there are.
    pub fn size(&self) -> u64 {
        (self.state.len() + self.documents.len() + self.laws.len() + self.invariants.len()) as u64
    }
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// What was done.
    #[serde(rename = "type")]
    pub kind: DeltaKind,
    /// The path, escaped so that it can be shown.
    pub target: String,
    /// Git's id of the content before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ObjectId>,
    /// Git's id of the content after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectId>,
}

/// What was done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// It is new.
    Add,
    /// It is gone.
    Delete,
    /// It differs.
    Modify,
}

/// One receipt over all changes of a batch: `receipts/BATCH_RECEIPT.json`. What it says of them does not depend on the order in
/// which they were submitted or made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchReceipt {
    /// Always `batch_receipt.v1`.
    pub schema: BatchReceiptSchema,
    /// The run's slug.
    pub run_id: Slug,
    /// Digest of the run's contract.
    pub contract: Digest,
    /// It reconciles the others.
    pub phase: Phase,
    /// Whether every one of them succeeded.
    pub status: ItemStatus,
    /// The commit that the batch started from.
    pub base_commit: CommitId,
    /// The tree that it started from.
    pub before_tree: TreeId,
    /// The tree that it ended with.
    pub after_tree: TreeId,
    /// Each change, by the id of its item.
    pub tranches: Vec<TrancheReceipt>,
    /// How many of them are part of the result.
    pub tranches_merged: u64,
    /// How many paths they changed together.
    pub total_artifacts: u64,
    /// Entries of their deltas together.
    pub total_delta_size: u64,
    /// What the batch is, apart from when and in which order it was made: its base, its result and what became of each item.
    pub content_hash: Digest,
    /// Over everything else in this document.
    pub receipt_hash: Digest,
}

/// The one schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BatchReceiptSchema {
    /// Version 1.
    #[serde(rename = "batch_receipt.v1")]
    V1,
}

/// The receipt of one change of a batch, by what can be checked of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrancheReceipt {
    /// The item's id.
    pub task_id: String,
    /// `changes/NNN`.
    pub change: u32,
    /// How it ended.
    pub status: ItemStatus,
    /// SHA-256 of its `RECEIPT.json`.
    pub sha256: Digest,
    /// Its own hash over its fields.
    pub receipt_hash: Digest,
    /// What the change is.
    pub content_hash: Digest,
}

impl BatchReceipt {
    /// The hash over everything in the document but itself.
    pub fn hash(&self) -> Digest {
        hash_without_itself(self)
    }

    /// What the batch is, whenever and in whichever order it was made. The receipts' own hashes are over the submitted file,
    /// in which the order shows.
    pub fn content(&self) -> Digest {
        let mut hasher = crate::hash::Hasher::new(Domain::Change);
        hasher.field(self.before_tree.to_string().as_bytes()).field(self.after_tree.to_string().as_bytes());
        for tranche in &self.tranches {
            hasher.field(tranche.task_id.as_bytes()).field(tranche.status.as_str().as_bytes());
        }
        hasher.finish()
    }
}

/// The hash over everything in a receipt but the member that holds it.
fn hash_without_itself(receipt: &impl Serialize) -> Digest {
    let mut value = serde_json::to_value(receipt).expect("BUG: a receipt is plain data");
    value.as_object_mut().expect("BUG: a receipt is an object").remove("receipt_hash");
    let bytes = crate::json::canonical(&value).expect("BUG: a receipt holds only small integers and strings");
    crate::hash::digest(Domain::Receipt, &bytes)
}

impl Receipt {
    /// The hash over everything in the document but itself.
    pub fn hash(&self) -> Digest {
        hash_without_itself(self)
    }

    /// What the change is, whenever and by whichever run it was made: the submitted document, the tree that its agent
    /// started from and the one it left.
    pub fn content(submitted: &Digest, base_tree: TreeId, result_tree: TreeId) -> Digest {
        crate::hash::Hasher::new(Domain::Change)
            .field(submitted.as_bytes())
            .field(base_tree.to_string().as_bytes())
            .field(result_tree.to_string().as_bytes())
            .finish()
    }

    /// The bytes that are stored as `RECEIPT.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        crate::json::pretty(self)
    }
}
