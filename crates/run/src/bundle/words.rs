//! The words of the documents for how something ended: one table each, so that no report says FAILED where another one
//! says SUCCESS. The manifest says FAILURE where reports say FAILED, and `work_report` has lower case.

use crate::gate::acceptance;
use contract::documents::AgentRole;
use contract::documents::run_manifest::{ManifestTaskStatus, RunStatus};
use contract::documents::task_result::TaskOutcome;
use contract::documents::test_report::TestStatus;
use contract::documents::work_report::{ReportingRole, WorkStatus};
use contract::{ItemStatus, Reason, Status};
use serde_json::Value;

/// A run, as its manifest says it.
pub(super) fn run_status(status: Status) -> RunStatus {
    match status {
        Status::Queued | Status::Running | Status::Waiting | Status::Paused => RunStatus::Running,
        Status::Succeeded => RunStatus::Success,
        Status::Failed | Status::Denied | Status::TimedOut | Status::Stopped | Status::Canceled => RunStatus::Failure,
    }
}

/// A run, as reports say it.
pub(super) fn run_outcome(status: Status) -> TaskOutcome {
    match status {
        Status::Succeeded => TaskOutcome::Success,
        Status::Failed | Status::Denied | Status::TimedOut | Status::Stopped => TaskOutcome::Failed,
        Status::Canceled => TaskOutcome::Skipped,
        Status::Queued | Status::Running | Status::Waiting | Status::Paused => TaskOutcome::Blocked,
    }
}

/// An item that ended, as reports say it.
pub(super) fn item_outcome(status: ItemStatus, reason: Option<Reason>) -> TaskOutcome {
    match (status, reason) {
        (ItemStatus::Success, _) => TaskOutcome::Success,
        (ItemStatus::Denied, Some(Reason::DependencyFailed | Reason::InputMissing)) => TaskOutcome::Blocked,
        (ItemStatus::Failure | ItemStatus::Denied | ItemStatus::Timeout, _) => TaskOutcome::Failed,
    }
}

/// The same, as the manifest says it; an item that has no outcome was not tried to its end.
pub(super) fn task_status(outcome: Option<TaskOutcome>) -> ManifestTaskStatus {
    match outcome {
        Some(TaskOutcome::Success) => ManifestTaskStatus::Success,
        Some(TaskOutcome::Failed) => ManifestTaskStatus::Failed,
        Some(TaskOutcome::Blocked) => ManifestTaskStatus::Blocked,
        Some(TaskOutcome::Skipped) | None => ManifestTaskStatus::Skipped,
    }
}

/// The same in brief.
pub(super) fn work_status(outcome: TaskOutcome) -> WorkStatus {
    match outcome {
        TaskOutcome::Success => WorkStatus::Success,
        TaskOutcome::Failed | TaskOutcome::Blocked => WorkStatus::Fail,
        TaskOutcome::Skipped => WorkStatus::Aborted,
    }
}

/// Tests, as their report says it.
pub(super) fn test_status(status: acceptance::TestStatus) -> TestStatus {
    match status {
        acceptance::TestStatus::Pass => TestStatus::Pass,
        acceptance::TestStatus::Fail => TestStatus::Fail,
        acceptance::TestStatus::Error => TestStatus::Error,
        acceptance::TestStatus::Skipped => TestStatus::Skipped,
    }
}

/// The role that an item names; whoever has another name for it works.
pub(super) fn agent_role(word: &str) -> AgentRole {
    serde_json::from_value(Value::String(word.to_owned())).unwrap_or(AgentRole::Worker)
}

/// Who a role reports as.
pub(super) fn reporting_role(role: AgentRole) -> ReportingRole {
    match role {
        AgentRole::Pm => ReportingRole::Pm,
        AgentRole::TechLead => ReportingRole::TechLead,
        AgentRole::Reviewer => ReportingRole::Reviewer,
        AgentRole::TestRunner | AgentRole::Test => ReportingRole::TestRunner,
        _ => ReportingRole::Worker,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_run_has_one_word_in_each_document() {
        for (status, manifest, report, brief) in [
            (Status::Queued, RunStatus::Running, TaskOutcome::Blocked, WorkStatus::Fail),
            (Status::Running, RunStatus::Running, TaskOutcome::Blocked, WorkStatus::Fail),
            (Status::Waiting, RunStatus::Running, TaskOutcome::Blocked, WorkStatus::Fail),
            (Status::Paused, RunStatus::Running, TaskOutcome::Blocked, WorkStatus::Fail),
            (Status::Succeeded, RunStatus::Success, TaskOutcome::Success, WorkStatus::Success),
            (Status::Failed, RunStatus::Failure, TaskOutcome::Failed, WorkStatus::Fail),
            (Status::Denied, RunStatus::Failure, TaskOutcome::Failed, WorkStatus::Fail),
            (Status::TimedOut, RunStatus::Failure, TaskOutcome::Failed, WorkStatus::Fail),
            (Status::Stopped, RunStatus::Failure, TaskOutcome::Failed, WorkStatus::Fail),
            (Status::Canceled, RunStatus::Failure, TaskOutcome::Skipped, WorkStatus::Aborted),
        ] {
            let outcome = run_outcome(status);
            assert_eq!((run_status(status), outcome, work_status(outcome)), (manifest, report, brief), "{status}");
        }
    }

    #[test]
    fn every_end_of_an_item_has_one_word_in_each_document() {
        for (status, reason, report, manifest) in [
            (ItemStatus::Success, None, TaskOutcome::Success, ManifestTaskStatus::Success),
            (ItemStatus::Failure, Some(Reason::TestsFailed), TaskOutcome::Failed, ManifestTaskStatus::Failed),
            (ItemStatus::Timeout, Some(Reason::AgentTimeout), TaskOutcome::Failed, ManifestTaskStatus::Failed),
            (ItemStatus::Denied, Some(Reason::PolicyViolation), TaskOutcome::Failed, ManifestTaskStatus::Failed),
            (ItemStatus::Denied, Some(Reason::DependencyFailed), TaskOutcome::Blocked, ManifestTaskStatus::Blocked),
            (ItemStatus::Denied, Some(Reason::InputMissing), TaskOutcome::Blocked, ManifestTaskStatus::Blocked),
        ] {
            let outcome = item_outcome(status, reason);
            assert_eq!((outcome, task_status(Some(outcome))), (report, manifest), "{status} {reason:?}");
        }
        assert_eq!(task_status(None), ManifestTaskStatus::Skipped);
    }

    #[test]
    fn a_role_nobody_knows_works() {
        assert_eq!(agent_role("TECH_LEAD"), AgentRole::TechLead);
        assert_eq!(agent_role("agent of chaos"), AgentRole::Worker);
        assert_eq!(reporting_role(AgentRole::Frontend), ReportingRole::Worker);
    }
}
