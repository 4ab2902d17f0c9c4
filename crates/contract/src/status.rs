//! The words a run speaks: roles, statuses, verdicts, budgets and reason codes. They are closed sets, so
//! that every reader can match on all of them; how a status is spelled in an older view is decided here too.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose turn it is. The first four are those of the `pdca` workflow, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Outlines the approach.
    Plan,
    /// Executes work and gathers evidence.
    Do,
    /// Judges the evidence against the acceptance criteria.
    Check,
    /// Proposes a patch for what failed.
    Act,
    /// Carries out an item of a contract in a workspace of its own.
    Worker,
    /// Takes the turns of a node of a graph.
    Node,
    /// Makes a choice of a plan.
    Decide,
    /// Carries out a node of a plan.
    Execute,
    /// Turns a request into a contract.
    Pm,
    /// Splits a contract into smaller ones.
    TechLead,
    /// Judges a change without touching it.
    Reviewer,
}

impl Role {
    /// The roles of the `pdca` workflow, in order.
    pub const PDCA: [Role; 4] = [Role::Plan, Role::Do, Role::Check, Role::Act];

    /// The role's name as it appears in directories, rows and requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Plan => "plan",
            Role::Do => "do",
            Role::Check => "check",
            Role::Act => "act",
            Role::Worker => "worker",
            Role::Node => "node",
            Role::Decide => "decide",
            Role::Execute => "execute",
            Role::Pm => "pm",
            Role::TechLead => "tech_lead",
            Role::Reviewer => "reviewer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a run is. One machine; older spellings are projections ([`Status::legacy`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted, not started.
    Queued,
    /// A process works on it.
    Running,
    /// Held by an approval or a question.
    Waiting,
    /// Held; `norma resume` continues.
    Paused,
    /// Every gate passed.
    Succeeded,
    /// An agent, its answer or its patch failed.
    Failed,
    /// A gate refused what was proposed.
    Denied,
    /// A deadline passed.
    TimedOut,
    /// A budget is used up.
    Stopped,
    /// Somebody asked for the end.
    Canceled,
}

impl Status {
    /// Terminal is terminal: a retry is a new run.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Queued | Status::Running | Status::Waiting | Status::Paused)
    }

    /// The canonical word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Paused => "paused",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Denied => "denied",
            Status::TimedOut => "timed_out",
            Status::Stopped => "stopped",
            Status::Canceled => "canceled",
        }
    }

    /// Reads the canonical word back.
    pub fn from_word(word: &str) -> Option<Status> {
        const ALL: [Status; 10] = [
            Status::Queued,
            Status::Running,
            Status::Waiting,
            Status::Paused,
            Status::Succeeded,
            Status::Failed,
            Status::Denied,
            Status::TimedOut,
            Status::Stopped,
            Status::Canceled,
        ];
        ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The four-word spelling of the `runs.status` column: `running|passed|failed|stopped`.
    pub fn legacy(self, reason: Option<Reason>) -> &'static str {
        match self {
            Status::Paused if reason == Some(Reason::Interrupted) => "stopped",
            Status::Queued | Status::Running | Status::Waiting | Status::Paused => "running",
            Status::Succeeded => "passed",
            Status::Failed | Status::Denied => "failed",
            Status::TimedOut | Status::Stopped | Status::Canceled => "stopped",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a run is where it is. Travels with every state that has a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The agent answered `fail`, exited non-zero or died by a signal.
    AgentFailed,
    /// The agent's program could not be started.
    AgentMissing,
    /// The agent ran past its wall-clock or idle deadline.
    AgentTimeout,
    /// The agent used more memory than its sandbox allows.
    OutOfMemory,
    /// The agent wrote more than its sandbox allows.
    DiskFull,
    /// The agent used more processor time than its sandbox allows.
    OutOfCpuTime,
    /// Nothing could confine the agent as its contract asks, so it was not started.
    SandboxUnavailable,
    /// The configured setup of workspaces did not succeed, so no agent was started.
    SetupFailed,
    /// The agent's answer or its required files break the protocol.
    ProtocolError,
    /// The patch does not apply to the run's tree.
    PatchFailed,
    /// A gate found something the contract does not allow.
    PolicyViolation,
    /// A budget is used up; the `budget_exceeded` event names it.
    BudgetExceeded,
    /// The process that worked on the run ended before the run did.
    Interrupted,
    /// A person asked for the end.
    Canceled,
    /// Recorded evidence is missing or differs from what was recorded.
    EvidenceLost,
    /// The branch moved while a landing was under way.
    LandingConflict,
    /// An acceptance test failed, or did not end in time.
    TestsFailed,
    /// The change is larger than its contract allows.
    ConstraintExceeded,
    /// The same change has landed already.
    DuplicateChange,
    /// A file that was expected is not there.
    OutputMissing,
    /// A file that must be there first is not, or is another.
    InputMissing,
    /// What it waits for did not succeed.
    DependencyFailed,
    /// What landed meanwhile changed the same files.
    MergeConflict,
    /// Some items of the batch did not succeed.
    ItemsFailed,
    /// A person has to approve it first.
    ApprovalRequired,
    /// Somebody has to answer a question first.
    AnswerRequired,
    /// A person denied it, or nobody approved it in time.
    ApprovalDenied,
    /// The agent is not signed in, or its provider does not let it in.
    SignInFailed,
    /// The provider is rate limited.
    ProviderLimit,
    /// The provider could not be reached, or failed.
    ProviderFailed,
    /// The model or its provider would not.
    AgentRefused,
    /// It does the same again and again.
    Stalled,
    /// A reviewer found something that keeps the change from landing.
    ReviewFailed,
    /// Whoever may change nothing has changed something.
    SystemFault,
}

impl Reason {
    /// The code as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::AgentFailed => "agent_failed",
            Reason::AgentMissing => "agent_missing",
            Reason::AgentTimeout => "agent_timeout",
            Reason::OutOfMemory => "out_of_memory",
            Reason::DiskFull => "disk_full",
            Reason::OutOfCpuTime => "out_of_cpu_time",
            Reason::SandboxUnavailable => "sandbox_unavailable",
            Reason::SetupFailed => "setup_failed",
            Reason::ProtocolError => "protocol_error",
            Reason::PatchFailed => "patch_failed",
            Reason::PolicyViolation => "policy_violation",
            Reason::BudgetExceeded => "budget_exceeded",
            Reason::Interrupted => "interrupted",
            Reason::Canceled => "canceled",
            Reason::EvidenceLost => "evidence_lost",
            Reason::LandingConflict => "landing_conflict",
            Reason::TestsFailed => "tests_failed",
            Reason::ConstraintExceeded => "constraint_exceeded",
            Reason::DuplicateChange => "duplicate_change",
            Reason::OutputMissing => "output_missing",
            Reason::InputMissing => "input_missing",
            Reason::DependencyFailed => "dependency_failed",
            Reason::MergeConflict => "merge_conflict",
            Reason::ItemsFailed => "items_failed",
            Reason::ApprovalRequired => "approval_required",
            Reason::AnswerRequired => "answer_required",
            Reason::ApprovalDenied => "approval_denied",
            Reason::SignInFailed => "sign_in_failed",
            Reason::ProviderLimit => "provider_limit",
            Reason::ProviderFailed => "provider_failed",
            Reason::AgentRefused => "agent_refused",
            Reason::Stalled => "stalled",
            Reason::ReviewFailed => "review_failed",
            Reason::SystemFault => "system_fault",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a check concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every acceptance criterion holds.
    Pass,
    /// At least one does not.
    Fail,
}

impl Verdict {
    /// `PASS` or `FAIL`.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
        }
    }
}

/// How a step ended, as the `steps.status` column spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// The agent answered as the protocol asks.
    Ok,
    /// It did not, or its change was refused.
    Fail,
    /// It was not needed.
    Skipped,
}

impl StepStatus {
    /// `ok`, `fail` or `skipped`.
    pub fn as_str(self) -> &'static str {
        match self {
            StepStatus::Ok => "ok",
            StepStatus::Fail => "fail",
            StepStatus::Skipped => "skipped",
        }
    }
}

/// A limit that ends a run `stopped` when it is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// How many times the loop may go round.
    MaxIterations,
    /// Size of one patch.
    MaxPatchKb,
    /// Paths that one patch may change.
    MaxChangedFiles,
    /// Paths on the risky list that one patch may change.
    MaxRiskyFiles,
    /// Time the run's turns may take together.
    MaxMinutes,
    /// Tokens that models read and wrote.
    MaxTokens,
    /// What models cost, in millionths of a US dollar.
    MaxCostUsd,
}

impl Budget {
    /// The key in `budgets`.
    pub fn as_str(self) -> &'static str {
        match self {
            Budget::MaxIterations => "max_iterations",
            Budget::MaxPatchKb => "max_patch_kb",
            Budget::MaxChangedFiles => "max_changed_files",
            Budget::MaxRiskyFiles => "max_risky_files",
            Budget::MaxMinutes => "max_minutes",
            Budget::MaxTokens => "max_tokens",
            Budget::MaxCostUsd => "max_cost_usd",
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody has worked on it.
    Todo,
    /// A run works on it.
    Doing,
    /// A run passed, or a person said so.
    Done,
    /// Its last run failed.
    Failed,
    /// Its last run was stopped or interrupted.
    Stopped,
}

impl TaskStatus {
    /// All of them, in the order of a task's life.
    pub const ALL: [TaskStatus; 5] =
        [TaskStatus::Todo, TaskStatus::Doing, TaskStatus::Done, TaskStatus::Failed, TaskStatus::Stopped];

    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Todo => "todo",
            TaskStatus::Doing => "doing",
            TaskStatus::Done => "done",
            TaskStatus::Failed => "failed",
            TaskStatus::Stopped => "stopped",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<TaskStatus> {
        TaskStatus::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// What a run's status makes of its task.
    pub fn after_run(status: Status, reason: Option<Reason>) -> TaskStatus {
        match status.legacy(reason) {
            "passed" => TaskStatus::Done,
            "failed" => TaskStatus::Failed,
            "stopped" => TaskStatus::Stopped,
            _ => TaskStatus::Doing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_of_the_four_stored_words() {
        let words = [
            (Status::Queued, None, "running"),
            (Status::Running, None, "running"),
            (Status::Waiting, None, "running"),
            (Status::Paused, None, "running"),
            (Status::Paused, Some(Reason::Interrupted), "stopped"),
            (Status::Succeeded, None, "passed"),
            (Status::Failed, Some(Reason::AgentFailed), "failed"),
            (Status::Denied, Some(Reason::PolicyViolation), "failed"),
            (Status::TimedOut, Some(Reason::AgentTimeout), "stopped"),
            (Status::Stopped, Some(Reason::BudgetExceeded), "stopped"),
            (Status::Canceled, Some(Reason::Canceled), "stopped"),
        ];
        for (status, reason, word) in words {
            assert_eq!(status.legacy(reason), word, "{status}");
            assert_eq!(Status::from_word(status.as_str()), Some(status));
        }
    }

    #[test]
    fn words_and_their_json_spelling_agree() {
        for reason in [Reason::AgentFailed, Reason::AgentTimeout, Reason::LandingConflict] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        for budget in [Budget::MaxIterations, Budget::MaxPatchKb, Budget::MaxMinutes] {
            assert_eq!(serde_json::to_value(budget).unwrap(), budget.as_str());
        }
        assert_eq!(serde_json::to_value(Verdict::Pass).unwrap(), "PASS");
    }
}
