//! What one norma process can ask of the one that owns the state directory, over `norma.sock`. The same
//! function carries it out when nobody owns it and the asking process takes the lock itself.

use crate::Error;
use contract::documents::ReexecStatus;
use contract::replay::ReplayMode;
use contract::{ApprovalDecision, ApprovalId, ApprovalTerms, Digest, Timestamp, Violation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A verb that changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A new task.
    TaskAdd {
        /// What.
        goal: String,
        /// What must hold.
        criteria: Vec<String>,
    },
    /// One task waits for others.
    TaskLink {
        /// The one that waits.
        task: i64,
        /// What it waits for.
        depends_on: Vec<i64>,
    },
    /// A person says it is done.
    TaskDone {
        /// Which.
        task: i64,
    },
    /// End a run.
    Cancel {
        /// Slug.
        run: String,
    },
    /// Move a passed run's result onto the branch.
    Land {
        /// Slug.
        run: String,
    },
    /// Take a landing back.
    Undo {
        /// Slug.
        run: String,
    },
    /// Keep what came of replaying a run.
    KeepReplay {
        /// Slug.
        run: String,
        /// How it was replayed.
        mode: ReplayMode,
        /// What came of it.
        status: ReexecStatus,
        /// When.
        at: Timestamp,
        /// The report.
        report: Value,
    },
    /// Put on record that a document was not taken for a contract.
    ContractRefused {
        /// SHA-256 of the document.
        sha256: Digest,
        /// What it claims to be, as far as that could be told.
        kind: Option<String>,
        /// What is wrong with it.
        violations: Vec<Violation>,
    },
    /// A person answers a question.
    Answer {
        /// UUID of the approval.
        approval: ApprovalId,
        /// What they say.
        decision: ApprovalDecision,
        /// Who they are.
        by: String,
        /// Why, in their words.
        reason: Option<String>,
        /// How far a yes goes.
        #[serde(default)]
        terms: ApprovalTerms,
    },
    /// Rebuild the index tables.
    Reindex,
    /// Remove what nobody needs any more.
    Gc,
    /// Set a damaged run aside.
    Quarantine {
        /// Slug.
        run: String,
        /// Why, in their words.
        reason: String,
        /// Who asks for it.
        by: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Done and durable.
    Done {
        /// One sentence for people.
        message: String,
        /// For programs.
        value: Value,
    },
    /// Not done.
    Refused {
        /// What kept it from being done.
        message: String,
        /// What led to that, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<String>,
        /// What to do next.
        hint: Option<String>,
        /// The exit code that belongs to it.
        code: u8,
    },
}

impl From<&Error> for Answer {
    fn from(error: &Error) -> Answer {
        Answer::Refused {
            message: error.to_string(),
            causes: error.causes(),
            hint: error.hint().map(str::to_owned),
            code: error.exit_code(),
        }
    }
}
