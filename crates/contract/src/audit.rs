//! The state directory's own log: tasks, run states, approvals, landings asked for later. It is a chain like a run's, and every
//! state change of a run is a line of it too, so that no run can vanish or be rewritten alone.

use crate::documents::ReexecStatus;
use crate::json::{self, Violation};
use crate::replay::ReplayMode;
use crate::review::{Arrangement, Comment, SentTo};
use crate::schema::JsonSchema;
use crate::{
    AcceptanceCriterion, ApprovalDecision, ApprovalId, ApprovalTerms, Digest, Landing, LandingUndone, Reason, Slug,
    Status, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many violations of a refused document are put on record; the document can be checked again for the rest.
const VIOLATIONS_KEPT: usize = 32;

/// How many characters of each.
const WORDS_KEPT: usize = 300;

/// Everything that happens to the state directory itself: tasks, run states, approvals, landings asked for later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum Audit {
    /// The state directory was made.
    Initialized {
        /// norma's version.
        version: String,
    },
    /// Somebody wants something done.
    TaskAdded {
        /// Small integer.
        task_id: i64,
        /// What they want done.
        goal: String,
        /// What must hold.
        acceptance_criteria: Vec<AcceptanceCriterion>,
    },
    /// One task waits for another.
    TaskLinked {
        /// The one that waits.
        task_id: i64,
        /// What it waits for.
        depends_on: Vec<i64>,
    },
    /// A person says it is done.
    TaskDone {
        /// The task that is done.
        task_id: i64,
    },
    /// Somebody wants something else done. What is left out stays as it was.
    TaskEdited {
        /// The task that is changed.
        task_id: i64,
        /// What they want done now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<String>,
        /// What must hold now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acceptance_criteria: Option<Vec<AcceptanceCriterion>>,
    },
    /// Nobody wants it done any more.
    TaskRemoved {
        /// The task that is removed; its number is not given again.
        task_id: i64,
    },
    /// A run came to this state; ties the run's chain to this one.
    RunState {
        /// Slug.
        run_id: Slug,
        /// Its task.
        task_id: Option<i64>,
        /// Canonical status.
        status: Status,
        /// Why it has this status.
        reason: Option<Reason>,
        /// How many events its log has.
        seq: u64,
        /// The log's last hash.
        head: Digest,
    },
    /// A run's directory is complete and on disk; nothing in it changes any more.
    RunSealed {
        /// Slug.
        run_id: Slug,
        /// Digest of the exact bytes of the run's manifest.
        evidence: Digest,
    },
    /// A result was moved onto a ref after the run had ended.
    Landed {
        /// Slug.
        run_id: Slug,
        /// What moved.
        landing: Landing,
    },
    /// A landing was taken back.
    Undone {
        /// Slug.
        run_id: Slug,
        /// The move that took it back.
        landing: LandingUndone,
    },
    /// A run cannot continue before a person has approved it.
    ApprovalAsked {
        /// UUID.
        id: ApprovalId,
        /// Slug.
        run_id: Slug,
        /// Why a person is asked.
        reasons: Vec<String>,
        /// Run, contract and reasons, in one digest.
        bound: Digest,
        /// Nobody can approve it, and no run can use it, from then on.
        expires_at: Timestamp,
    },
    /// A person answered.
    ApprovalAnswered {
        /// Which approval.
        id: ApprovalId,
        /// What they said.
        decision: ApprovalDecision,
        /// Who answered.
        by: String,
        /// Why, in their words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How far an approval goes.
        #[serde(default, skip_serializing_if = "ApprovalTerms::is_plain")]
        terms: ApprovalTerms,
    },
    /// The run went on with it; in the same commit as the run's own fact.
    ApprovalUsed {
        /// Which approval.
        id: ApprovalId,
        /// Slug.
        run_id: Slug,
    },
    /// Something that did not belong was moved aside.
    Quarantined {
        /// Where it was, below the state directory.
        path: String,
        /// Where it is now, below the state directory.
        to: String,
        /// Why it does not belong.
        why: String,
    },
    /// A person set a damaged run aside: its lines stay as they are, and it is not continued any more.
    RunQuarantined {
        /// Slug.
        run_id: Slug,
        /// What was wrong with it.
        problem: String,
        /// Where its directory is moved to, below the state directory; none if there was none.
        to: Option<String>,
        /// Why, in their words.
        reason: String,
        /// Who set it aside.
        by: String,
    },
    /// The audit log was not the one that the last checkpoint was made of, and a person accepted that.
    CheckpointAccepted {
        /// What the checkpoint said; none if it could not be read.
        expected: Option<AuditHead>,
        /// Where the log ended instead.
        found: AuditHead,
        /// Why, in their words.
        reason: String,
        /// Who accepted it.
        by: String,
    },
    /// A run was judged or carried out again, and this is what came of it.
    Replayed {
        /// Slug.
        run_id: Slug,
        /// How much of it was done again.
        mode: ReplayMode,
        /// What came of it.
        status: ReexecStatus,
        /// SHA-256 of the report, which is kept below `replays/`.
        report: Digest,
    },
    /// A document was not taken for a contract; nothing was run.
    ContractRefused {
        /// SHA-256 of the document.
        sha256: Digest,
        /// What it claims to be, as far as that could be told.
        kind: Option<String>,
        /// What is wrong with it, as far as it fits.
        violations: Vec<Violation>,
        /// What it was refused by; the first version did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event_type: Option<RefusedBy>,
    },
    /// The index tables were rebuilt from the logs.
    Reindexed {
        /// How many runs.
        runs: u64,
    },
    /// Somebody asked for something over HTTP that changes something.
    Requested {
        /// Who.
        by: String,
        /// The method and the route.
        what: String,
        /// The run or the approval that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<String>,
    },
    /// Somebody wants something, and nobody has begun with it.
    IntentCreated {
        /// `it_` and 16 digits.
        intent_id: String,
        /// The intent in its one spelling.
        document: String,
        /// Who.
        by: String,
    },
    /// A person took a run off the list; its log and its evidence stay.
    RunUnlisted {
        /// Slug.
        run_id: Slug,
        /// Who.
        by: String,
    },
    /// A person commented on a line of a change.
    ChangeCommented {
        /// Slug.
        run_id: Slug,
        /// The comment.
        comment: Comment,
        /// Who.
        by: String,
    },
    /// A person took back a comment that had not been sent to anybody.
    CommentWithdrawn {
        /// Slug.
        run_id: Slug,
        /// UUID of the comment.
        id: String,
        /// Who.
        by: String,
    },
    /// Comments on a change were sent to whoever fixes it.
    CommentsSent {
        /// Slug.
        run_id: Slug,
        /// UUIDs of the comments.
        comments: Vec<String>,
        /// Who gets them.
        to: SentTo,
        /// Who sent them.
        by: String,
    },
    /// A person moved what is drawn of a run. It says nothing about the run, so it is no part of its bundle.
    GraphArranged {
        /// Slug.
        of: Slug,
        /// What was moved.
        moved: Arrangement,
        /// Who.
        by: String,
    },
    /// Large files that nothing but refused changes of a run had were removed; those changes cannot be judged again.
    RefusedFilesRemoved {
        /// Slug.
        run_id: Slug,
        /// How many files.
        files: u64,
    },
}

/// What a document is refused by, in the words that events of runs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    /// It does not have the form of its kind.
    GateFailed,
    /// It asks for what policy, configuration or commit do not give.
    PolicyViolation,
}

impl Audit {
    /// The run that it is about, by its slug. An answer names only the approval that it answers.
    pub fn run(&self) -> Option<Slug> {
        match self {
            Audit::RunState { run_id, .. }
            | Audit::RunSealed { run_id, .. }
            | Audit::Landed { run_id, .. }
            | Audit::Undone { run_id, .. }
            | Audit::ApprovalAsked { run_id, .. }
            | Audit::ApprovalUsed { run_id, .. }
            | Audit::RunQuarantined { run_id, .. }
            | Audit::RunUnlisted { run_id, .. }
            | Audit::RefusedFilesRemoved { run_id, .. }
            | Audit::ChangeCommented { run_id, .. }
            | Audit::CommentWithdrawn { run_id, .. }
            | Audit::CommentsSent { run_id, .. }
            | Audit::Replayed { run_id, .. } => Some(*run_id),
            // Spelled out: whatever has a run is exported with it, and a bundle with a line about no run is refused.
            Audit::Initialized { .. }
            | Audit::TaskAdded { .. }
            | Audit::TaskLinked { .. }
            | Audit::TaskDone { .. }
            | Audit::TaskEdited { .. }
            | Audit::TaskRemoved { .. }
            | Audit::Quarantined { .. }
            | Audit::Reindexed { .. }
            | Audit::Requested { .. }
            | Audit::IntentCreated { .. }
            | Audit::GraphArranged { .. }
            | Audit::CheckpointAccepted { .. }
            | Audit::ApprovalAnswered { .. }
            | Audit::ContractRefused { .. } => None,
        }
    }

    /// The record of a refused document. How many violations it has and how long they are is up to whoever wrote it, so
    /// both are bounded here.
    pub fn contract_refused(
        by: RefusedBy,
        sha256: Digest,
        kind: Option<String>,
        mut violations: Vec<Violation>,
    ) -> Audit {
        violations.truncate(VIOLATIONS_KEPT);
        for violation in &mut violations {
            violation.pointer = violation.pointer.chars().take(WORDS_KEPT).collect();
            violation.message = violation.message.chars().take(WORDS_KEPT).collect();
        }
        Audit::ContractRefused { sha256, kind, violations, event_type: Some(by) }
    }

    /// Type word and payload, apart.
    pub fn parts(&self) -> (String, Value) {
        let mut value = serde_json::to_value(self).expect("BUG: an audit fact is plain data");
        let kind = value["type"].as_str().expect("BUG: an audit fact has a type").to_owned();
        (kind, value["payload"].take())
    }

    /// Reads a fact from its type word and payload.
    pub fn from_parts(kind: &str, payload: Value) -> Result<Audit, String> {
        serde_json::from_value(json!({"type": kind, "payload": payload})).map_err(|e| e.to_string())
    }
}

/// A place in the audit log, for example its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditHead {
    /// Which line, from 1.
    pub seq: u64,
    /// The chain's digest there.
    pub hash: Digest,
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditLine {
    /// From 1, without gaps.
    pub seq: u64,
    /// Hash of the line before.
    pub prev: Digest,
    /// RFC 3339 UTC.
    pub ts: Timestamp,
    /// What kind of fact.
    #[serde(rename = "type")]
    pub kind: String,
    /// The fact's own fields.
    pub payload: Value,
}

impl AuditLine {
    /// Makes the line of a fact.
    pub fn new(seq: u64, prev: Digest, ts: Timestamp, fact: &Audit) -> AuditLine {
        let (kind, payload) = fact.parts();
        AuditLine { seq, prev, ts, kind, payload }
    }

    /// The exact bytes that are stored and hashed.
    pub fn to_bytes(&self) -> Vec<u8> {
        json::canonical(self).expect("BUG: an audit line holds only small integers and strings")
    }
}
