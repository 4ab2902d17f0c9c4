//! The reports on a run or an item. What did not run is said not to have run: a report never passes by default.

use super::gates::NOT_REQUESTED;
use super::record::Record;
use super::subject::{NORMA, Reviewed, Subject};
use super::{Piece, words};
use crate::Flow;
use crate::gate::acceptance::{TestStatus, total};
use contract::AgentType;
use contract::documents::evidence_report::EvidenceStatus;
use contract::documents::review_report::{ReviewVerdict, Reviewer, ReviewerRole, ScopeCheck};
use contract::documents::run_manifest::EVIDENCE;
use contract::documents::task_result::{ProducerRole, ResultGit};
use contract::documents::test_report::{TestRunner, TestRunnerRole, TestSummary};
use contract::documents::work_report::{NextActions, ReportingRole, SmallRef, Span, WorkEvidence, WorkGates};
use contract::documents::{
    ArtifactRef, EvidenceReport, Failure, OrNull, ReviewReport, TaskResult, TestReport, WorkReport,
};
use contract::work::TestCounts;
use serde_json::json;
use std::collections::BTreeSet;

/// What a complete bundle has besides the manifest's own list.
const REPORTS: [&str; 3] = ["reports/task_result.json", "reports/evidence_bundle.json", "reports/work_report.json"];

/// What came of it; none if the patch that it must name is lost.
pub(super) fn task_result(about: &Subject<'_>) -> Option<TaskResult> {
    Some(TaskResult {
        run_id: about.run_id.clone(),
        task_id: about.task_id.clone(),
        attempt: about.attempt,
        producer: about.producer.clone(),
        status: about.outcome,
        started_at: about.since,
        finished_at: about.until,
        summary: about.summary.clone(),
        artifacts: about.receipt.iter().cloned().collect(),
        git: ResultGit {
            baseline_ref: about.baseline.clone(),
            head_ref: about.head.clone(),
            changed_files: about.changed_files.clone()?,
            patch: about.patch.clone()?,
        },
        gates: about.gates.clone(),
        next_steps: about.next_steps.clone(),
        failure: Some(OrNull(failure(about))),
    })
}

fn failure(about: &Subject<'_>) -> Option<Failure> {
    let hint = Some(about.next_steps.suggested_action.clone());
    (!about.succeeded()).then(|| Failure { message: Some(about.summary.clone()), hint })
}

/// What reviewers said. Where several were asked, the report is of all of them: it passes if each of their items did.
pub(super) fn review_report(about: &Subject<'_>) -> ReviewReport {
    let given = || about.reviews.iter().filter_map(|it| it.reviews);
    let who: BTreeSet<&str> = given().flat_map(|it| &it.given).map(|given| given.reviewer.as_str()).collect();
    let blocking: Vec<String> = given().flat_map(|it| it.blocking()).map(|text| format!("blocking: {text}")).collect();
    let passed = |it: &Reviewed<'_>| {
        let quorum = it.item.review.as_ref().map_or(0, |terms| terms.quorum);
        it.reviews.is_some_and(|reviews| reviews.fault.is_none() && reviews.passes() >= quorum)
    };
    let faults =
        given().filter(|it| it.fault.is_some()).map(|_| "the reviewer changed what it was to judge".to_owned());
    let silent = given().filter_map(|it| it.silent.as_ref()).map(|(_, why)| format!("no review: {why}"));
    let mut violations: Vec<String> = blocking.into_iter().chain(faults).chain(silent).collect();
    let words: Vec<String> = given().flat_map(|it| &it.given).map(|given| given.summary.clone()).collect();
    let (verdict, summary) = match about.reviews.iter().all(passed) {
        _ if who.is_empty() => (ReviewVerdict::Blocked, NOT_REQUESTED.to_owned()),
        true => (ReviewVerdict::Pass, words.join("; ")),
        false => (ReviewVerdict::Fail, words.join("; ")),
    };
    if who.is_empty() && violations.is_empty() {
        violations.push(NOT_REQUESTED.to_owned());
    }
    let agent_id = if who.is_empty() { "none".to_owned() } else { who.into_iter().collect::<Vec<_>>().join(", ") };
    let attempts = given().map(|it| it.turns.len() as u64).max();
    ReviewReport {
        run_id: about.run_id.clone(),
        task_id: Some(about.task_id.clone()),
        attempt: attempts,
        reviewer: Reviewer { role: ReviewerRole::Reviewer, agent_id, codex_thread_id: None },
        reviewed_at: about.reviews.iter().filter_map(|it| it.at).max().unwrap_or(about.until),
        verdict,
        summary,
        scope_check: ScopeCheck { passed: violations.is_empty(), violations: crate::bounded(violations) },
        evidence: about.reviews.iter().filter_map(|it| it.findings.clone()).collect(),
        produced_diff: Some(false),
        notes: None,
    }
}

/// What the tests said. The times are those of the log around them.
pub(super) fn test_report(about: &Subject<'_>) -> TestReport {
    let status = together(about.tests.iter().map(|tried| tried.tests.status));
    let commands: Vec<_> = about.tests.iter().flat_map(|tried| tried.commands()).collect();
    let failed = matches!(status, TestStatus::Fail | TestStatus::Error);
    TestReport {
        run_id: about.run_id.clone(),
        task_id: about.task_id.clone(),
        attempt: about.attempt,
        runner: TestRunner { role: TestRunnerRole::Orchestrator, agent_id: NORMA.to_owned() },
        started_at: about.tests_since,
        finished_at: about.until,
        status: words::test_status(status),
        artifacts: commands.iter().flat_map(|command| [command.stdout.clone(), command.stderr.clone()]).collect(),
        commands,
        summary: total(about.tests.iter().map(|tried| tried.tests.counts)).map(summary),
        failure: Some(OrNull(failure(about).filter(|_| failed))),
    }
}

/// What the tests of several items come to: PASS only if some passed and none did anything else.
fn together(all: impl Iterator<Item = TestStatus>) -> TestStatus {
    let rank = |status: &TestStatus| match status {
        TestStatus::Skipped => 0,
        TestStatus::Pass => 1,
        TestStatus::Error => 2,
        TestStatus::Fail => 3,
    };
    all.max_by_key(rank).unwrap_or(TestStatus::Skipped)
}

fn summary(counts: TestCounts) -> TestSummary {
    TestSummary { passed: Some(counts.passed), failed: Some(counts.failed), skipped: Some(counts.skipped) }
}

/// The run in brief.
pub(super) fn work_report(record: &Record<'_>, about: &Subject<'_>) -> WorkReport {
    let changed = changed(record);
    let refs = ["contract.json", "events.jsonl", "patch.diff", "diff_name_only.txt"];
    let refs = refs.iter().filter(|path| record.files.contains_key(**path));
    let role = match about.producer.role {
        ProducerRole::Agent(role) => words::reporting_role(role),
        ProducerRole::Orchestrator(_) => ReportingRole::Orchestrator,
    };
    WorkReport {
        task_id: about.task_id.clone(),
        status: words::work_status(about.outcome),
        patch_ref: "patch.diff".to_owned(),
        diff_summary: changed.map_or_else(String::new, |count| format!("{count} path(s) of items differ")),
        failure_reason: failure(about).and_then(|failure| failure.message).unwrap_or_default(),
        evidence_refs: refs.map(|path| ((*path).to_owned(), json!(path))).collect(),
        run_id: Some(about.run_id.clone()),
        baseline_ref: Some(about.baseline.clone()),
        head_ref: Some(about.head.clone()),
        notes: None,
        attempt: about.attempt,
        role: Some(role),
        patch: about.patch.as_ref().map(small),
        changed_files: about.changed_files.as_ref().map(small),
        gates: Some(WorkGates { diff_gate: Some(about.gates.diff_gate.clone()), tool_gate: None }),
        evidence: Some(WorkEvidence {
            orchestrator_events_jsonl: record.reference("events", "events.jsonl").as_ref().map(small),
            ..spoken(record)
        }),
        next_actions: Some(NextActions {
            recommended: Some(vec![about.next_steps.suggested_action.clone()]),
            suggested_allowed_paths_delta: None,
        }),
        timestamps: Some(Span { started_at: Some(about.since), finished_at: Some(about.until) }),
        metrics: None,
    }
}

/// What was said with the agent, where one kind of agent did all of one task.
fn spoken(record: &Record<'_>) -> WorkEvidence {
    let [conversation] = &record.spoken[..] else { return WorkEvidence::default() };
    let file = |name: &str| conversation.file(record, name).as_ref().map(small);
    WorkEvidence {
        codex_events_jsonl: file("events.jsonl").filter(|_| conversation.kind == AgentType::Codex),
        transcript_md: file("transcript.md"),
        thread_id_txt: file("thread_id.txt"),
        ..WorkEvidence::default()
    }
}

/// How many paths the items changed that landed.
fn changed(record: &Record<'_>) -> Option<u64> {
    let Flow::Batch(batch) = &record.run.flow else { return None };
    let ends = batch.items.iter().filter_map(|state| state.ended_here()).filter(|ended| ended.commit.is_some());
    Some(ends.map(|ended| ended.files.iter().sum::<u64>()).sum())
}

fn small(file: &ArtifactRef) -> SmallRef {
    SmallRef { path: file.path.clone(), sha256: file.sha256, bytes: file.size_bytes, mime: None }
}

/// Whether everything is there that a bundle must have, and if not, what is missing.
pub(super) fn evidence_report(record: &Record<'_>, pieces: &[Piece]) -> EvidenceReport {
    let there = |path: &str| record.files.contains_key(path) || pieces.iter().any(|piece| piece.path == path);
    let missing: Vec<String> =
        EVIDENCE.into_iter().chain(REPORTS).filter(|path| !there(path)).map(str::to_owned).collect();
    let status = if missing.is_empty() { EvidenceStatus::Ok } else { EvidenceStatus::Fail };
    EvidenceReport { status, missing }
}
