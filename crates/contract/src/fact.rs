//! Facts: everything that can happen to a run. Nothing else changes one. A fact is plain data; what it does to a
//! run is decided by the state machine, what it does to the tables by the store.

mod graph;

pub use graph::GraphFact;

use crate::graph::TurnDelta;
use crate::hash::{Hasher, digest};
use crate::intent::IntentFact;
use crate::pipeline::PipelineFact;
use crate::receipt::LeftOut;
use crate::schema::JsonSchema;
use crate::session::{SessionEvent, Usage};
use crate::work::{Gate, GateResult, TestCounts, ToolOpsSource};
use crate::{
    AgentConfig, Answered, ApprovalId, Budget, CommitId, Contract, Digest, Domain, Item, ItemStatus, ProcessEnd,
    Reason, Role, Slug, Status, StepStatus, Timestamp, TreeId, Verdict, Wait,
};
use serde::de::Error as _;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// Which turn a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRef {
    /// 1-based over the whole run; the directory number.
    pub index: u32,
    /// Whose turn.
    pub role: Role,
    /// Round of the loop, from 1.
    pub iteration: u32,
    /// Try of this role in this round, from 1.
    pub attempt: u32,
    /// The item that it is about, by its place in the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The node that takes it, by its place in the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
}

impl StepRef {
    /// `003-check`.
    pub fn dir_name(&self) -> String {
        format!("{:03}-{}", self.index, self.role)
    }
}

/// Where a run starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The commit that was HEAD.
    pub commit: CommitId,
    /// That commit's tree: what a change is measured against.
    pub tree: TreeId,
    /// The branch HEAD was on, as a full ref; none when detached.
    pub branch: Option<String>,
}

/// Who signs the commits norma makes for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Author {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
}

/// How a turn ended, as far as the workflow cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The agent answered as asked.
    Answered,
    /// It answered `fail`, or its process failed.
    Failed,
    /// Its answer breaks the protocol.
    ProtocolError,
    /// A deadline passed.
    TimedOut,
    /// norma was asked to stop in the middle.
    Interrupted,
}

/// A turn that is now part of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepCommitted {
    /// Which turn.
    pub step: StepRef,
    /// As the `steps` table spells it.
    pub status: StepStatus,
    /// As the workflow reads it.
    pub end: TurnEnd,
    /// Why, unless it is fine.
    pub reason: Option<Reason>,
    /// The agent's summary, or norma's own.
    pub summary: String,
    /// Directory below the run's, `steps/003-check`.
    pub dir: String,
    /// When the turn was opened.
    pub started_at: Timestamp,
    /// How the process ended.
    pub process: ProcessEnd,
    /// Whether an `act` left a patch to apply.
    pub patch: bool,
    /// What norma noticed and did not follow: ignored patches, special files, truncated output.
    pub notes: Vec<String>,
    /// Digest of the manifest's file list: ties the directory's content to the chain.
    pub evidence: Digest,
    /// The tree that a worker left, captured by norma. Of one that did not answer it is what somebody may continue from,
    /// and is never judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// When its provider lets it continue, where it was held up and that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What its model used, where there is one that somebody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What a node changed in its workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<TurnDelta>,
}

/// What the turn of a node begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The tree that it finds: its own of before, with what has landed since; or that of whoever handed it work.
    pub tree: TreeId,
    /// The ids of the messages and handoffs that it is told of, in the order in which it is.
    pub inputs: Vec<String>,
}

/// What the check said and what it is worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerdictGiven {
    /// Which turn.
    pub step: StepRef,
    /// What `verdict.json` says.
    pub claimed: Verdict,
    /// What counts: PASS only if every rule holds.
    pub verdict: Verdict,
    /// Why a claimed PASS does not count.
    pub findings: Vec<String>,
}

/// A patch that became the run's tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchApplied {
    /// Which change, from 1; its directory is `changes/NNN`.
    pub change: u32,
    /// The step that proposed it.
    pub step: u32,
    /// Tree before.
    pub before: TreeId,
    /// Tree after.
    pub after: TreeId,
    /// Paths that differ, as far as they fit; all of them are in `gates.json`.
    pub files: Vec<String>,
    /// How many paths differ.
    pub file_count: u64,
    /// Size of the patch.
    pub patch_bytes: u64,
    /// Paths on the risky list, each with its reason, as far as they fit.
    pub risky: Vec<String>,
    /// How many paths are on the risky list.
    pub risky_count: u64,
    /// What its tests counted, if it had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// What each gate that was asked said, in order; a run under the first rules does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateResult>,
    /// Its receipt; the first version wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptRef>,
    /// Digest of the manifest's file list.
    pub evidence: Digest,
}

/// A change that left no trace in the run's tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeDropped {
    /// Which change.
    pub change: u32,
    /// The step that proposed it.
    pub step: u32,
    /// The run's tree, unchanged.
    pub before: TreeId,
    /// The kind of refusal.
    pub reason: Reason,
    /// What exactly, one entry a finding.
    pub findings: Vec<String>,
    /// The budget that was exceeded, if that was it.
    pub budget: Option<BudgetExceeded>,
    /// What each gate that was asked said, in order; a run under the first rules does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateResult>,
    /// Its receipt; the first version wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptRef>,
    /// Digest of the manifest's file list.
    pub evidence: Digest,
}

impl ChangeDropped {
    /// The same in the words of a receipt: what is forbidden is denied, what did not work has failed.
    pub fn status(&self) -> ItemStatus {
        match self.reason {
            Reason::PolicyViolation | Reason::BudgetExceeded => ItemStatus::Denied,
            _ => ItemStatus::Failure,
        }
    }
}

/// A budget and how far past it the run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetExceeded {
    /// The budget that is used up.
    pub budget: Budget,
    /// What was allowed.
    pub limit: u64,
    /// What it would have been.
    pub actual: u64,
}

impl BudgetExceeded {
    /// What to say for more of it, as `max_tokens=2000`: twice of what was not enough.
    pub fn more(&self) -> String {
        let twice = self.limit.max(self.actual).saturating_mul(2);
        match self.budget {
            Budget::MaxCostUsd => format!("{}={}", self.budget, crate::Usd(twice)),
            // The round that was not let begin used up nothing.
            Budget::MaxIterations => format!("{}={}", self.budget, self.limit.saturating_mul(2)),
            _ => format!("{}={twice}", self.budget),
        }
    }
}

impl std::fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BudgetExceeded { budget, limit, actual } = self;
        match budget {
            Budget::MaxCostUsd => {
                write!(f, "Budget {budget} exceeded: {} > {}", crate::Usd(*actual), crate::Usd(*limit))
            }
            _ => write!(f, "Budget {budget} exceeded: {actual} > {limit}"),
        }
    }
}

/// The intent to move a ref of the user's repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Landing {
    /// Full ref, or `HEAD` when detached.
    pub target: String,
    /// What the ref must be at; none = it must not exist.
    pub from: Option<CommitId>,
    /// The commit it is moved to.
    pub commit: CommitId,
    /// Whether the user's files move too.
    pub checkout: bool,
}

impl Landing {
    /// Whether the branch had moved since the run started from `base`, so that its result was merged with what was there.
    pub fn is_merged(&self, base: &Base) -> bool {
        self.checkout && self.from.as_ref() != Some(&base.commit)
    }
}

/// A landing that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LandingUndone {
    /// Full ref, or `HEAD` when detached.
    pub target: String,
    /// The commit that had landed.
    pub from: Option<CommitId>,
    /// What the ref is at again; none if there is no such ref any more, which the log spells as an empty text.
    #[serde(with = "empty_is_none")]
    #[schemars(with = "String")]
    pub commit: Option<CommitId>,
    /// Whether the user's files moved too.
    pub checkout: bool,
}

/// An id, or an empty text where there is none.
mod empty_is_none {
    use crate::CommitId;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(id: &Option<CommitId>, serializer: S) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => serializer.collect_str(id),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CommitId>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(de::Error::custom)
    }
}

/// Why the result was not moved onto the user's branch, and how to take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LandingDeclined {
    /// What stands in the way.
    pub why: String,
}

/// How a run came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Why; none for a pass.
    pub reason: Option<Reason>,
    /// In words.
    pub message: String,
}

/// An item of the contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemAdded {
    /// Its place, from 0.
    pub index: u32,
    /// What it is.
    pub item: Item,
    /// What came of it before, where the run continues another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    /// What it brings along, where it is added to a run that has begun; those that the run starts with are in its contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addition: Option<Addition>,
}

/// What an item brings along that is added to a run which has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// The digest of the run's contract with this item: that of before, chained with the item.
    pub contract: Digest,
    /// Who carries it out, where the run has no agent of that name yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentConfig>,
}

impl Addition {
    /// The addition of an item to a contract with this digest.
    pub fn new(before: &Digest, item: &Item, agent: Option<AgentConfig>) -> Addition {
        let bytes = crate::json::canonical(&json!({"item": item, "agent": agent}));
        let bytes = bytes.expect("BUG: an item holds only small integers and strings");
        let mut chained = Hasher::new(Domain::ContractChain);
        chained.field(before.as_bytes()).field(digest(Domain::AddedItem, &bytes).as_bytes());
        Addition { contract: chained.finish(), agent }
    }
}

/// What came of an item before the run that continues it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Earlier {
    /// It succeeded, and is not done again.
    Done {
        /// The run that did it and has its receipt.
        run: Slug,
        /// How it ended there.
        ended: Box<ItemEnded>,
    },
    /// Its agent was cut off.
    Unfinished {
        /// The run in which it was.
        run: Slug,
        /// The tree that what it had changed lies on.
        base: TreeId,
        /// That tree with what it had changed. Nobody has judged it.
        tree: TreeId,
    },
}

/// Where an item's agent starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemBase {
    /// A commit on the run's line.
    pub commit: CommitId,
    /// Its tree.
    pub tree: TreeId,
}

/// A receipt, by what can be checked of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptRef {
    /// UUID.
    pub id: String,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// Its own hash over its fields.
    pub receipt_hash: Digest,
    /// What the change is, apart from when it was made.
    pub content_hash: Digest,
}

/// How an item ended, with the receipt of its change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemEnded {
    /// Which, by its place in the contract.
    pub item: u32,
    /// Which change, from 1; its directory is `changes/NNN`.
    pub change: u32,
    /// The step that proposed it; none if no agent was asked.
    pub step: Option<u32>,
    /// How the item ended.
    pub status: ItemStatus,
    /// Why, unless it succeeded.
    pub reason: Option<Reason>,
    /// In words; empty where it succeeded.
    pub message: String,
    /// The tree of the run's line before.
    pub before: TreeId,
    /// The tree of the run's line after; the same where nothing landed.
    pub after: TreeId,
    /// The commit that was added to the line, if any.
    pub commit: Option<CommitId>,
    /// What each gate that was asked said, in order.
    pub gates: Vec<GateResult>,
    /// Paths that the change creates, edits and deletes.
    pub files: [u64; 3],
    /// These paths, as far as they fit; all of them are in `gates.json`. Logs of older versions do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Ignored files that its agent left and that are no part of the change, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Entries of its deltas.
    pub delta_size: u64,
    /// Tool operations of the agent.
    pub tool_ops: u64,
    /// Who counted them.
    pub tool_ops_source: ToolOpsSource,
    /// What its tests counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// From the first turn to here.
    pub took_ms: u64,
    /// Its receipt.
    pub receipt: ReceiptRef,
    /// Digest of the manifest's file list.
    pub evidence: Digest,
}

impl ItemEnded {
    /// What may help, in the words of the document that work items come from; none where nothing does but another item.
    pub fn recovery(&self) -> Option<&'static str> {
        match (self.status, self.reason) {
            (ItemStatus::Timeout, _) => Some("increase the timeout or simplify"),
            (ItemStatus::Failure, Some(Reason::AgentFailed)) => Some("fix the tool input"),
            (ItemStatus::Failure, Some(Reason::TestsFailed)) => Some("fix and retry"),
            _ => None,
        }
    }
}

/// How a change ended, whichever fact says it: that of an item, or a loop's patch.
#[derive(Debug, Clone, Copy)]
pub struct ChangeEnd<'f> {
    /// Which change.
    pub change: u32,
    /// How the change ended.
    pub status: ItemStatus,
    /// Why, unless it succeeded.
    pub reason: Option<Reason>,
    /// What each gate that was asked said, in order.
    pub gates: &'f [GateResult],
    /// What its tests counted.
    pub tests: Option<TestCounts>,
    /// The run's tree before.
    pub before: TreeId,
    /// The run's tree after; the same where nothing came of it.
    pub after: TreeId,
    /// Whether it became part of the run's history.
    pub lands: bool,
    /// The commit that carries it, where it has one of its own.
    pub commit: Option<CommitId>,
    /// Its receipt; the first version wrote none for patches.
    pub receipt: Option<&'f ReceiptRef>,
}

/// The approval that a run or one of its turns waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalWait {
    /// The approval that would let it continue.
    pub approval: ApprovalId,
    /// Why it is needed.
    pub reasons: Vec<String>,
    /// Nobody can approve it after this.
    pub expires_at: Timestamp,
}

/// Everything that can happen to a run. Nothing else changes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "type", content = "payload", rename_all = "snake_case")]
#[schemars(!remote)]
pub enum Fact {
    /// A run exists.
    RunStarted(Box<RunStarted>),
    /// A turn is about to happen (intent).
    StepStarted {
        /// The turn that is about to start.
        step: StepRef,
        /// Where a worker starts from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<ItemBase>,
        /// What a node is told in it, and with which tree.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        taken: Option<Box<Taken>>,
    },
    /// A turn is on record.
    StepCommitted(StepCommitted),
    /// A step directory was found without its record.
    ReconciledStep {
        /// The turn whose record is missing.
        step: StepRef,
        /// Its directory, kept as it is.
        dir: String,
        /// Digest of the list of all files that were found in it.
        evidence: Digest,
    },
    /// What a turn has made so far is kept: an attempt after it starts from there, should it be cut off.
    WorkSaved {
        /// Which turn.
        step: StepRef,
        /// The tree as it was at that moment, which nobody has judged.
        tree: TreeId,
    },
    /// A turn was cut off before anything was kept.
    StepInterrupted {
        /// The turn that was cut off.
        step: StepRef,
    },
    /// What exactly breaks the protocol.
    ProtocolError {
        /// Which turn.
        step: StepRef,
        /// One entry a problem.
        problems: Vec<String>,
    },
    /// The answer of a turn was checked against the schema that its contract binds, and matches it.
    #[serde(rename = "OUTPUT_SCHEMA_ENFORCED")]
    OutputSchemaEnforced {
        /// Which turn.
        step: StepRef,
        /// The schema, as the contract names it.
        uri: String,
        /// SHA-256 of the schema's text.
        sha256: Digest,
    },
    /// A check's verdict and its worth.
    Verdict(VerdictGiven),
    /// A patch is about to be judged and applied (intent).
    ChangeStarted {
        /// Which change.
        change: u32,
        /// The step that proposed it.
        step: u32,
        /// The run's tree.
        before: TreeId,
    },
    /// The run has a new tree.
    PatchApplied(PatchApplied),
    /// The patch was refused.
    ChangeDropped(ChangeDropped),
    /// A change was cut off; it will be judged again.
    ChangeInterrupted {
        /// Which change.
        change: u32,
    },
    /// A change was completed from its sealed directory after a crash.
    ChangeRecovered {
        /// Which change.
        change: u32,
    },
    /// The contract has this item. Those that a run starts with follow the start, in the same commit; more can be added until
    /// it begins to land.
    ItemAdded(Box<ItemAdded>),
    /// A gate refused an item's change.
    GateFailed {
        /// Which item.
        item: u32,
        /// Which gate.
        gate: Gate,
        /// What it found, as far as it fits.
        findings: Vec<String>,
    },
    /// A change did what its contract or policy does not allow, or an agent asked to.
    PolicyViolation {
        /// Which item; none in a turn of a node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<u32>,
        /// The place of the node whose agent asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u32>,
        /// Which gate.
        gate: Gate,
        /// What it found, as far as it fits.
        findings: Vec<String>,
    },
    /// Something happened in the session with an agent. Pieces of messages are told, but not kept here.
    AgentEvent {
        /// The turn that is open.
        step: StepRef,
        /// What happened.
        event: Box<SessionEvent>,
    },
    /// An item has come to its end; its receipt is on record.
    ItemEnded(Box<ItemEnded>),
    /// A person has to approve what the agent of a turn is about to do; the turn waits.
    ApprovalAsked {
        /// The turn that is open.
        step: StepRef,
        /// What it waits for.
        wait: ApprovalWait,
    },
    /// A person has to approve the run first.
    RunWaiting(ApprovalWait),
    /// A person approved it, and this run has used the approval.
    ApprovalUsed {
        /// Which approval.
        approval: ApprovalId,
        /// Who gave it.
        by: String,
    },
    /// The run, or one of its turns, waits for something else than an approval.
    Asked(Wait),
    /// Somebody answered what was asked.
    Answered(Box<Answered>),
    /// A limit is reached.
    BudgetExceeded(BudgetExceeded),
    /// A ref of the user's is about to move (intent).
    LandingStarted(Landing),
    /// It has moved.
    Landed(Landing),
    /// It has not, and will not by itself.
    LandingDeclined(LandingDeclined),
    /// Held.
    RunPaused(End),
    /// Goes on.
    RunResumed {
        /// The process that continues it.
        pid: u32,
    },
    /// Recorded evidence is gone or different; the run is frozen.
    EvidenceLost {
        /// What, where.
        findings: Vec<String>,
    },
    /// Every gate passed.
    RunPassed(End),
    /// See [`Status::Failed`].
    RunFailed(End),
    /// See [`Status::Denied`].
    RunDenied(End),
    /// See [`Status::TimedOut`].
    RunTimedOut(End),
    /// See [`Status::Stopped`].
    RunStopped(End),
    /// See [`Status::Canceled`].
    RunCanceled(End),
    /// What only a graph has.
    #[serde(untagged, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    Graph(GraphFact),
    /// What only the run of an intent has.
    #[serde(untagged, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    Intent(IntentFact),
    /// What only reviews and pipelines have.
    #[serde(untagged, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    Pipeline(PipelineFact),
}

/// The first fact of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunStarted {
    /// What it was asked to do.
    pub contract: Contract,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// Where it starts from.
    pub base: Base,
    /// The tree of its first turn: the base's, or that of the run it continues.
    pub tree: TreeId,
    /// Who signs its commit.
    pub author: Author,
    /// Uncommitted paths of the user that are not part of the run (capped).
    pub left_out: Vec<String>,
    /// Ignored files of the user's checkout that its workspaces show, as `.worktreeinclude` asks (capped).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included: Vec<String>,
    /// The run whose tree this one continues from.
    pub parent: Option<Slug>,
    /// Where in its parent's log it was forked; none of a run that continues the end of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// The run that it carries out again, under the same contract and from the same base. Its result is for comparing
    /// only: it never lands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<Slug>,
    /// The receipt hash of the change that this repository's chain of receipts ended with when the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Digest>,
    /// How many items the contract has; each follows as a fact of its own, so that no line grows with their number.
    /// The contract is given here without them, and its digest is that of the whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items: u32,
    /// Relative to the repository where it lies inside it.
    pub run_dir: String,
    /// The process that works on it.
    pub pid: u32,
    /// norma's version.
    pub version: String,
}

/// Where a run was forked from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The last event of the parent that it knows of.
    pub seq: u64,
    /// The last commit that the parent had made by then, which holds [`RunStarted::tree`]; none if it had made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
}

impl RunStarted {
    /// The commit and the tree that its first change is made on.
    pub fn head(&self) -> ItemBase {
        let forked = self.fork.and_then(|fork| fork.commit);
        ItemBase { commit: forked.unwrap_or(self.base.commit), tree: self.tree }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Fact {
    /// The terminal fact of a status.
    pub fn ended(status: Status, end: End) -> Fact {
        match status {
            Status::Succeeded => Fact::RunPassed(end),
            Status::Denied => Fact::RunDenied(end),
            Status::TimedOut => Fact::RunTimedOut(end),
            Status::Stopped => Fact::RunStopped(end),
            Status::Canceled => Fact::RunCanceled(end),
            Status::Failed => Fact::RunFailed(end),
            Status::Queued | Status::Running | Status::Waiting | Status::Paused => Fact::RunPaused(end),
        }
    }

    /// The state of the run after this fact, where the fact decides it.
    pub fn run_state(&self) -> Option<(Status, Option<Reason>)> {
        match self {
            Fact::RunStarted(_) | Fact::RunResumed { .. } => Some((Status::Running, None)),
            Fact::RunPaused(end) => Some((Status::Paused, end.reason)),
            Fact::RunWaiting(_) => Some((Status::Waiting, Some(Reason::ApprovalRequired))),
            Fact::Asked(wait) if wait.about.is_none() => Some((Status::Waiting, Some(wait.kind.reason()))),
            Fact::Intent(IntentFact::PlanHeld { reason }) => Some((Status::Waiting, Some(*reason))),
            Fact::EvidenceLost { .. } => Some((Status::Failed, Some(Reason::EvidenceLost))),
            Fact::RunPassed(end) => Some((Status::Succeeded, end.reason)),
            Fact::RunFailed(end) => Some((Status::Failed, end.reason)),
            Fact::RunDenied(end) => Some((Status::Denied, end.reason)),
            Fact::RunTimedOut(end) => Some((Status::TimedOut, end.reason)),
            Fact::RunStopped(end) => Some((Status::Stopped, end.reason)),
            Fact::RunCanceled(end) => Some((Status::Canceled, end.reason)),
            _ => None,
        }
    }

    /// The item that becomes part of the run by it: one of the contract, the change of a node, or the patch of an intent.
    pub fn added_item(&self) -> Option<&ItemAdded> {
        match self {
            Fact::ItemAdded(added) => Some(added),
            Fact::Graph(GraphFact::ChangeProposed(proposed)) => Some(&proposed.added),
            Fact::Intent(IntentFact::PatchProposed(proposed)) => Some(&proposed.added),
            Fact::Pipeline(fact) => fact.added_item(),
            _ => None,
        }
    }

    /// The item that it is about, by its place in the contract.
    pub fn item(&self) -> Option<u32> {
        match self {
            Fact::ItemAdded(_) | Fact::Graph(_) | Fact::Intent(_) => self.added_item().map(|added| added.index),
            Fact::Pipeline(fact) => Some(fact.item()),
            Fact::GateFailed { item, .. } => Some(*item),
            Fact::PolicyViolation { item, .. } => *item,
            Fact::ItemEnded(ended) => Some(ended.item),
            Fact::StepStarted { step, .. }
            | Fact::ReconciledStep { step, .. }
            | Fact::StepInterrupted { step }
            | Fact::WorkSaved { step, .. }
            | Fact::AgentEvent { step, .. }
            | Fact::ApprovalAsked { step, .. }
            | Fact::OutputSchemaEnforced { step, .. }
            | Fact::ProtocolError { step, .. } => step.item,
            Fact::StepCommitted(done) => done.step.item,
            Fact::Asked(wait) => wait.about?.item,
            _ => None,
        }
    }

    /// The directory that this fact vouches for, below the run's, and the digest of the list of its files, apart from
    /// their manifest.
    pub fn evidence(&self) -> Option<(String, Digest)> {
        let change = |number: u32| format!("changes/{number:03}");
        match self {
            Fact::StepCommitted(done) => Some((done.dir.clone(), done.evidence)),
            Fact::PatchApplied(applied) => Some((change(applied.change), applied.evidence)),
            Fact::ChangeDropped(dropped) => Some((change(dropped.change), dropped.evidence)),
            Fact::ItemEnded(ended) => Some((change(ended.change), ended.evidence)),
            Fact::Pipeline(PipelineFact::LineMoved(moved)) => Some((moved.dir(), moved.evidence)),
            _ => None,
        }
    }

    /// How a change ended, if that is what it says.
    pub fn change_end(&self) -> Option<ChangeEnd<'_>> {
        Some(match self {
            Fact::ItemEnded(ended) => ChangeEnd {
                change: ended.change,
                status: ended.status,
                reason: ended.reason,
                gates: &ended.gates,
                tests: ended.tests,
                before: ended.before,
                after: ended.after,
                lands: ended.commit.is_some(),
                commit: ended.commit,
                receipt: Some(&ended.receipt),
            },
            Fact::PatchApplied(applied) => ChangeEnd {
                change: applied.change,
                status: ItemStatus::Success,
                reason: None,
                gates: &applied.gates,
                tests: applied.tests,
                before: applied.before,
                after: applied.after,
                lands: applied.before != applied.after,
                commit: None,
                receipt: applied.receipt.as_ref(),
            },
            Fact::ChangeDropped(dropped) => ChangeEnd {
                change: dropped.change,
                status: dropped.status(),
                reason: Some(dropped.reason),
                gates: &dropped.gates,
                tests: None,
                before: dropped.before,
                after: dropped.before,
                lands: false,
                commit: None,
                receipt: dropped.receipt.as_ref(),
            },
            _ => return None,
        })
    }

    /// Type word and payload, apart.
    pub fn parts(&self) -> (String, Value) {
        let mut value = serde_json::to_value(self).expect("BUG: a fact is plain data");
        let kind = value["type"].as_str().expect("BUG: a fact has a type").to_owned();
        (kind, value["payload"].take())
    }

    /// Reads a fact from its type word and payload.
    pub fn from_parts(kind: &str, payload: Value) -> Result<Fact, String> {
        // The type word first: what follows is then read as what it is, without being kept until it is known.
        let parts = [("type", Value::from(kind)), ("payload", payload)];
        let whole = MapDeserializer::<_, serde_json::Error>::new(parts.into_iter());
        let read = match kind {
            kind if GraphFact::KINDS.contains(&kind) => GraphFact::deserialize(whole).map(Fact::Graph),
            kind if IntentFact::KINDS.contains(&kind) => IntentFact::deserialize(whole).map(Fact::Intent),
            kind if PipelineFact::KINDS.contains(&kind) => PipelineFact::deserialize(whole).map(Fact::Pipeline),
            _ => Fact::deserialize(whole),
        };
        read.map_err(|e| e.to_string())
    }

    /// One sentence for people.
    pub fn message(&self) -> String {
        match self {
            Fact::RunStarted(started) => format!("Run started: {}", started.contract.goal),
            Fact::StepStarted { step, .. } => format!("Step {} started", step.dir_name()),
            Fact::StepCommitted(done) => {
                format!("Step {} committed: {}", done.step.dir_name(), done.status.as_str())
            }
            Fact::ReconciledStep { .. } => "Step dir exists but DB record was missing; inserted during recovery".into(),
            Fact::StepInterrupted { step } => {
                format!("Step {} was interrupted before anything was kept", step.dir_name())
            }
            Fact::WorkSaved { step, .. } => format!("Step {}: what it has made so far is kept", step.dir_name()),
            Fact::ProtocolError { problems, .. } => format!("protocol_error: {}", problems.join("; ")),
            Fact::OutputSchemaEnforced { uri, .. } => format!("The answer matches {uri}"),
            Fact::Verdict(given) if given.claimed != given.verdict => {
                format!("{} does not count: {}", given.claimed.as_str(), given.findings.join("; "))
            }
            Fact::Verdict(given) => given.verdict.as_str().to_owned(),
            Fact::ChangeStarted { change, .. } => format!("Change {change} started"),
            Fact::PatchApplied(applied) => format!("Patch applied: {} file(s)", applied.file_count),
            Fact::ChangeDropped(dropped) => format!("{}: {}", dropped.reason, dropped.findings.join("; ")),
            Fact::ChangeInterrupted { change } => format!("Change {change} was interrupted; it will be judged again"),
            Fact::ChangeRecovered { change } => format!("Change {change} completed from its sealed directory"),
            Fact::AgentEvent { event, .. } => event.message(),
            Fact::ItemAdded(added) => format!("Item {}: {}", added.item.id, first_line(&added.item.goal)),
            Fact::GateFailed { gate, findings, .. } => format!("gate_failed: {gate}: {}", findings.join("; ")),
            Fact::PolicyViolation { gate, findings, .. } => {
                format!("policy_violation: {gate}: {}", findings.join("; "))
            }
            Fact::ItemEnded(ended) if ended.message.is_empty() => format!("Change {}: {}", ended.change, ended.status),
            Fact::ItemEnded(ended) => format!("Change {}: {}: {}", ended.change, ended.status, ended.message),
            Fact::ApprovalAsked { wait, .. } => {
                format!("Waiting for approval {}: {}", wait.approval, wait.reasons.join("; "))
            }
            Fact::RunWaiting(wait) => {
                let lines: Vec<&str> = wait.reasons.iter().map(|reason| first_line(reason)).collect();
                format!("Waiting for approval {}: {}", wait.approval, lines.join("; "))
            }
            Fact::ApprovalUsed { approval, by } => format!("Approval {approval} by {by} was used"),
            Fact::Asked(wait) => format!("Waiting for {} {}: {}", wait.kind, wait.id, wait.reasons.join("; ")),
            Fact::Answered(said) => {
                let words = said.text.as_deref().map(|text| format!(": {}", first_line(text))).unwrap_or_default();
                let choice = if said.choice.is_empty() { String::new() } else { format!(" {:?}", said.choice) };
                format!("{} answered {}{choice}{words}", said.by, said.wait)
            }
            Fact::BudgetExceeded(over) => over.to_string(),
            Fact::LandingStarted(landing) => format!("Landing on {}", landing.target),
            Fact::Landed(landing) => format!("Landed on {}", landing.target),
            Fact::LandingDeclined(declined) => format!("Not landed: {}", declined.why),
            Fact::RunResumed { .. } => "Run resumed".into(),
            Fact::EvidenceLost { findings } => format!("evidence is missing or changed: {}", findings.join("; ")),
            Fact::RunPaused(end)
            | Fact::RunPassed(end)
            | Fact::RunFailed(end)
            | Fact::RunDenied(end)
            | Fact::RunTimedOut(end)
            | Fact::RunStopped(end)
            | Fact::RunCanceled(end) => end.message.clone(),
            Fact::Graph(fact) => fact.message(),
            Fact::Intent(fact) => fact.message(),
            Fact::Pipeline(fact) => fact.message(),
        }
    }

    /// How loud: `info`, `warn` or `error`.
    pub fn level(&self) -> &'static str {
        match self {
            Fact::EvidenceLost { .. }
            | Fact::RunFailed(_)
            | Fact::RunDenied(_)
            | Fact::ProtocolError { .. }
            | Fact::GateFailed { .. }
            | Fact::Intent(IntentFact::PlanRefused { .. })
            | Fact::PolicyViolation { .. } => "error",
            Fact::ItemEnded(ended) if ended.status != ItemStatus::Success => "error",
            Fact::ReconciledStep { .. }
            | Fact::StepInterrupted { .. }
            | Fact::ChangeDropped(_)
            | Fact::ChangeInterrupted { .. }
            | Fact::BudgetExceeded(_)
            | Fact::LandingDeclined(_)
            | Fact::RunPaused(_)
            | Fact::ApprovalAsked { .. }
            | Fact::Graph(GraphFact::NodeAsked(_) | GraphFact::RunStalled(_))
            | Fact::Intent(IntentFact::PlanHeld { .. } | IntentFact::PlanNodeExpired { .. })
            | Fact::RunWaiting(_)
            | Fact::Asked(_)
            | Fact::RunTimedOut(_)
            | Fact::RunStopped(_)
            | Fact::RunCanceled(_) => "warn",
            Fact::Pipeline(fact) => fact.level().unwrap_or("info"),
            _ => "info",
        }
    }

    /// The try this fact belongs to, for readers that group by attempts.
    pub(crate) fn attempt(&self) -> u32 {
        match self {
            Fact::StepStarted { step, .. }
            | Fact::ReconciledStep { step, .. }
            | Fact::StepInterrupted { step }
            | Fact::WorkSaved { step, .. }
            | Fact::AgentEvent { step, .. }
            | Fact::ApprovalAsked { step, .. }
            | Fact::OutputSchemaEnforced { step, .. }
            | Fact::ProtocolError { step, .. } => step.attempt,
            Fact::StepCommitted(done) => done.step.attempt,
            Fact::Verdict(given) => given.step.attempt,
            Fact::Asked(wait) => wait.about.map_or(1, |step| step.attempt),
            _ => 1,
        }
    }
}

impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Fact::serialize(self, to)
    }
}

/// By its type word: what only one workflow has is read as that workflow's, and nothing is tried twice.
impl<'de> Deserialize<'de> for Fact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fact, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parts {
            #[serde(rename = "type")]
            kind: String,
            payload: Value,
        }
        let Parts { kind, payload } = Parts::deserialize(from)?;
        Fact::from_parts(&kind, payload).map_err(D::Error::custom)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
