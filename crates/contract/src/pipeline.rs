//! Pipelines: what the run of one was started with, and the facts that reviews and pipelines have. What its roles answer is in
//! `documents/roles.rs`; the contracts between them are task contracts.

use crate::documents::TaskContract;
use crate::documents::review_report::ReviewVerdict;
use crate::schema::JsonSchema;
use crate::work::TestStatus;
use crate::{Digest, ItemAdded, ItemBase, StepRef, TreeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The task of the role that turns a request into a contract.
pub const PM_TASK: &str = "pipeline-pm";

/// The task of the role that splits it.
pub const TECH_LEAD_TASK: &str = "pipeline-tech-lead";

/// The role of nobody: its item is what the parts of a contract came to, for the contract's own tests.
pub const WHOLE_ROLE: &str = "TEST_RUNNER";

/// The contract that these two agree on, where nobody has named one.
pub const ROOT_TASK: &str = "pipeline-task";

/// How many contracts one may be split into.
pub const CONTRACTS_MAX: usize = 256;

/// How many times a change that failed is fixed, where no contract says it.
pub const FIXES: u32 = 2;

/// How the names of directories begin that keep both sides of a conflict with the user's branch.
pub const CONFLICT_DIR: &str = "conflict-";

/// Longest contract in its one spelling: a line of the log has a limit, and holds its item beside it.
pub const CONTRACT_BYTES_MAX: usize = 64 << 10;

/// Who reviews an item, before its tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewTerms {
    /// By their names among the contract's `workers`, one for each review.
    #[schemars(length(min = 1))]
    pub agents: Vec<String>,
    /// How many of them must say PASS.
    pub quorum: u32,
}

/// What the run of a pipeline was started with; part of its contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineTerms {
    /// Who turns the request into a contract, by its name among the contract's `workers`; nobody where there is one already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pm: Option<String>,
    /// Who splits it; nobody where it stays one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tech_lead: Option<String>,
    /// Who carries out the parts.
    pub worker: String,
    /// Who reviews them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewTerms>,
    /// What norma fills of every contract. What a role answers is put into it.
    pub skeleton: Box<TaskContract>,
    /// The contract that a person wrote, or that follows from the repository by rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Box<TaskContract>>,
    /// Its parts, where a person has split it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<TaskContract>,
}

/// Where a task of a pipeline is. It goes on by one at a time, or from a review or a test to a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Stage {
    /// A request becomes a contract.
    S0,
    /// The contract is split.
    S1,
    /// A worker carries out a part.
    S2,
    /// It is reviewed.
    S3,
    /// It is tested.
    S4,
    /// It is fixed, by a contract of its own.
    S5,
    /// It is part of the result.
    S6,
}

impl Stage {
    /// Whether a task may go on there from here.
    pub fn leads_to(self, next: Stage) -> bool {
        use Stage::{S0, S1, S2, S3, S4, S5, S6};
        matches!((self, next), (S0, S1) | (S1, S2) | (S2, S3) | (S3, S4 | S5) | (S4, S5 | S6))
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a change is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A reviewer blocks it.
    Review,
    /// A test fails.
    Tests,
    /// What landed meanwhile changed the same lines.
    Conflict,
}

impl Cause {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Review => "review",
            Cause::Tests => "tests",
            Cause::Conflict => "conflict",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A contract that became part of a pipeline, and the item that it is carried out as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractMade {
    /// The task contract in its one spelling.
    pub document: String,
    /// Its item.
    pub added: ItemAdded,
}

/// A fix: a new contract for what a task did not come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixAttempt {
    /// The contract and its item.
    pub contract: ContractMade,
    /// The place of the item that failed.
    pub of: u32,
    /// The task that it fixes.
    pub parent_task_id: String,
    /// Which fix of that task it is, from 1 on.
    pub attempt: u32,
    /// Why it is one.
    pub cause: Cause,
    /// Where its worker starts: the end of the run's line at that moment.
    pub base: ItemBase,
    /// With what, before it changes anything: what failed, on top of that.
    pub tree: TreeId,
}

/// A file of the evidence that a fix is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedEvidence {
    /// Below the run's directory.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

/// A result that commits of the user's branch are in the way of: it is put on them, but for the paths that both changed in ways that
/// cannot be merged. Those are as the branch has them, until whoever owns them has made its change again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineMoved {
    /// Which conflict of the run it is, from 1; its directory is `conflict-NNN`.
    pub conflict: u32,
    /// Where the run's line ended.
    pub from: ItemBase,
    /// The commit of the branch that it stands on from now on.
    pub onto: ItemBase,
    /// Where it ends now.
    pub head: ItemBase,
    /// The place of the task that the paths belong to.
    pub owner: u32,
    /// What cannot be merged, as far as it fits.
    pub findings: Vec<String>,
    /// The digest of the list of files in its directory.
    pub evidence: Digest,
}

impl LineMoved {
    /// The directory of a conflict, below the run's. It is no directory among others, so that recovery finds what was left of one.
    pub fn dir_of(conflict: u32) -> String {
        format!("{CONFLICT_DIR}{conflict:03}")
    }

    /// Where both sides are kept, below the run's directory.
    pub fn dir(&self) -> String {
        LineMoved::dir_of(self.conflict)
    }
}

/// What a reviewer said of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewGiven {
    /// The place of the item.
    pub item: u32,
    /// What it is called.
    pub task_id: String,
    /// The reviewer's turn.
    pub step: StepRef,
    /// Who it was, by its name among the contract's `workers`.
    pub reviewer: String,
    /// What came of it. A PASS with something that blocks is none.
    pub verdict: ReviewVerdict,
    /// In words.
    pub summary: String,
    /// What blocks, as `path:line message`, as far as it fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking: Vec<String>,
    /// How many remarks do not.
    #[serde(default)]
    pub remarks: u32,
}

/// What only reviews and pipelines have happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum PipelineFact {
    /// A task goes on to its next stage.
    #[serde(rename = "STATE_TRANSITION")]
    StateTransition {
        /// The place of its item.
        item: u32,
        /// What it is called.
        task_id: String,
        /// From there.
        from: Stage,
        /// To there.
        to: Stage,
    },
    /// A contract was written by a role, checked, and became part of the run.
    ContractMade(Box<ContractMade>),
    /// A change that passed the gates before is looked at by reviewers.
    ReviewAsked {
        /// The place of its item.
        item: u32,
    },
    /// Whether a reviewer left everything as it was.
    #[serde(rename = "REVIEWER_GATE_RESULT")]
    ReviewerGateResult {
        /// The place of the item.
        item: u32,
        /// The reviewer's turn.
        step: StepRef,
        /// Whether it did.
        passed: bool,
        /// The tree that it was shown.
        before: TreeId,
        /// The tree that it left.
        after: TreeId,
    },
    /// What a reviewer said.
    #[serde(rename = "REVIEW_RESULT")]
    ReviewResult(ReviewGiven),
    /// What the tests of a task came to.
    #[serde(rename = "TEST_RESULT")]
    TestResult {
        /// The place of its item.
        item: u32,
        /// What it is called.
        task_id: String,
        /// All of them together.
        status: TestStatus,
    },
    /// A task is to be fixed.
    #[serde(rename = "FIX_LOOP_TRIGGERED")]
    FixLoopTriggered {
        /// The place of the item that failed.
        item: u32,
        /// The task that is fixed.
        task_id: String,
        /// Why.
        cause: Cause,
        /// What the fix is made from.
        evidence: Vec<FailedEvidence>,
    },
    /// The contract of a fix became part of the run.
    #[serde(rename = "FIX_LOOP_ATTEMPT")]
    FixLoopAttempt(Box<FixAttempt>),
    /// A task is not fixed any more.
    #[serde(rename = "FIX_LOOP_EXHAUSTED")]
    FixLoopExhausted {
        /// The place of the item that failed last.
        item: u32,
        /// The task that was to be fixed.
        task_id: String,
        /// How many fixes there were.
        attempts: u32,
        /// What was tried, and what came of it.
        tried: Vec<String>,
    },
    /// Every part is there: the tests of the contract that they are parts of are run on what they came to, as an item that nobody
    /// works on.
    WholeAsked(Box<ItemAdded>),
    /// What the run has made is put on commits that are in its way, as far as that goes; the rest is fixed by whoever owns it.
    LineMoved(Box<LineMoved>),
    /// It is not fixed any more: the run's line is as it was before.
    LineRestored {
        /// The place of the item that failed last.
        item: u32,
        /// Where the line ends.
        head: ItemBase,
        /// What came of the fixes.
        why: String,
    },
}

impl PipelineFact {
    /// The type words of all of them, in order.
    pub(crate) const KINDS: [&str; 12] = [
        "STATE_TRANSITION",
        "contract_made",
        "review_asked",
        "REVIEWER_GATE_RESULT",
        "REVIEW_RESULT",
        "TEST_RESULT",
        "FIX_LOOP_TRIGGERED",
        "FIX_LOOP_ATTEMPT",
        "FIX_LOOP_EXHAUSTED",
        "whole_asked",
        "line_moved",
        "line_restored",
    ];

    /// The item that becomes part of the run by it.
    pub fn added_item(&self) -> Option<&ItemAdded> {
        match self {
            PipelineFact::ContractMade(made) => Some(&made.added),
            PipelineFact::FixLoopAttempt(fix) => Some(&fix.contract.added),
            PipelineFact::WholeAsked(added) => Some(added),
            _ => None,
        }
    }

    /// The place of the item that it is about.
    pub fn item(&self) -> u32 {
        match self {
            PipelineFact::StateTransition { item, .. }
            | PipelineFact::ReviewAsked { item }
            | PipelineFact::ReviewerGateResult { item, .. }
            | PipelineFact::TestResult { item, .. }
            | PipelineFact::FixLoopTriggered { item, .. }
            | PipelineFact::FixLoopExhausted { item, .. }
            | PipelineFact::LineRestored { item, .. } => *item,
            PipelineFact::ReviewResult(given) => given.item,
            PipelineFact::ContractMade(made) => made.added.index,
            PipelineFact::FixLoopAttempt(fix) => fix.contract.added.index,
            PipelineFact::WholeAsked(added) => added.index,
            PipelineFact::LineMoved(moved) => moved.owner,
        }
    }

    /// One sentence for people.
    pub fn message(&self) -> String {
        match self {
            PipelineFact::StateTransition { task_id, from, to, .. } => format!("{task_id}: {from} → {to}"),
            PipelineFact::ContractMade(made) => format!("Contract {}", made.added.item.id),
            PipelineFact::ReviewAsked { item } => format!("Item {item} is reviewed"),
            PipelineFact::ReviewerGateResult { passed: true, .. } => "The reviewer changed nothing".to_owned(),
            PipelineFact::ReviewerGateResult { passed: false, .. } => {
                "The reviewer changed what it was to judge".to_owned()
            }
            PipelineFact::ReviewResult(given) => {
                format!("{}: {}: {}", given.task_id, given.verdict.as_str(), given.summary)
            }
            PipelineFact::TestResult { task_id, status, .. } => format!("{task_id}: tests {status}"),
            PipelineFact::FixLoopTriggered { task_id, cause, .. } => format!("{task_id} is to be fixed: {cause}"),
            PipelineFact::FixLoopAttempt(fix) => {
                format!("Fix {} of {}: {}", fix.attempt, fix.parent_task_id, fix.contract.added.item.id)
            }
            PipelineFact::FixLoopExhausted { task_id, attempts, .. } => {
                format!("{task_id} is not fixed any more, after {attempts} attempt(s)")
            }
            PipelineFact::WholeAsked(added) => format!("{} is tested as a whole", added.item.id),
            PipelineFact::LineMoved(moved) => {
                format!("Commit {} is in the way: {}", moved.onto.commit, moved.findings.join("; "))
            }
            PipelineFact::LineRestored { why, .. } => format!("The conflict stays: {why}"),
        }
    }

    /// How loud, where that is not `info`.
    pub(crate) fn level(&self) -> Option<&'static str> {
        match self {
            PipelineFact::ReviewerGateResult { passed: false, .. } | PipelineFact::FixLoopExhausted { .. } => {
                Some("error")
            }
            PipelineFact::FixLoopTriggered { .. } | PipelineFact::LineMoved(_) | PipelineFact::LineRestored { .. } => {
                Some("warn")
            }
            PipelineFact::ReviewResult(given) if given.verdict != ReviewVerdict::Pass => Some("warn"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_a_pipeline_is_found_by_its_type_word() {
        let schema = serde_json::to_value(schemars::schema_for!(PipelineFact)).unwrap();
        let kinds = schema["oneOf"].as_array().unwrap().iter();
        let words: Vec<&str> = kinds.map(|one| one["properties"]["type"]["const"].as_str().unwrap()).collect();
        assert_eq!(words, PipelineFact::KINDS);
    }

    #[test]
    fn a_task_goes_one_way_and_jumps_over_nothing() {
        use Stage::{S0, S1, S2, S3, S4, S5, S6};
        let all = [S0, S1, S2, S3, S4, S5, S6];
        let legal: Vec<(Stage, Stage)> = all
            .into_iter()
            .flat_map(|from| all.into_iter().filter(move |to| from.leads_to(*to)).map(move |to| (from, to)))
            .collect();
        assert_eq!(legal, [(S0, S1), (S1, S2), (S2, S3), (S3, S4), (S3, S5), (S4, S5), (S4, S6)]);
    }
}
