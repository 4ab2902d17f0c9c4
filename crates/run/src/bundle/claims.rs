//! `evidence_bundle`: what is claimed of a run, and what the claims stand on. The claims are those that norma checked
//! itself: what its gates said. The source is the repository as it was.

use super::gates::NOT_REQUESTED;
use super::record::Record;
use super::subject::NORMA;
use contract::documents::evidence_bundle::{Claim, ClaimStatus, Query, Requester, RequesterRole, Source, SourceKind};
use contract::documents::{ArtifactRef, EvidenceBundle};
use contract::work::Gate;
use contract::{Verdict, Workflow};
use std::collections::BTreeMap;

/// The one source.
const BASELINE: &str = "baseline";

pub(super) fn evidence_bundle(record: &Record<'_>) -> EvidenceBundle {
    let (run, base) = (record.run, &record.run.started.base);
    let goal = &run.started.contract.goal;
    EvidenceBundle {
        bundle_id: run.id.slug().to_string(),
        created_at: record.until(),
        requested_by: Requester { role: RequesterRole::Orchestrator, agent_id: NORMA.to_owned() },
        query: Query { raw_question: goal.clone(), refined_prompt: goal.clone(), freshness_requirement_days: None },
        sources: vec![Source {
            source_id: BASELINE.to_owned(),
            kind: SourceKind::Repo,
            title: format!("commit {}", base.commit),
            retrieved_at: record.since(),
            url: None,
            publisher: None,
            content_sha256: None,
            notes: Some(format!("tree {}", base.tree)),
        }],
        claims: claims(record),
        limitations: limitations(record),
        consensus: None,
        artifacts: spoken(record),
    }
}

/// What was said with agents: nobody's claim, but what it was worked out from.
fn spoken(record: &Record<'_>) -> Option<Vec<ArtifactRef>> {
    let names = ["events.jsonl", "transcript.md", "thread_id.txt"];
    let all = record.spoken.iter();
    let files: Vec<_> = all.flat_map(|it| names.into_iter().filter_map(|name| it.file(record, name))).collect();
    (!files.is_empty()).then_some(files)
}

fn claims(record: &Record<'_>) -> Vec<Claim> {
    match record.run.started.contract.workflow {
        Workflow::Batch | Workflow::Graph | Workflow::Intent | Workflow::Pipeline => of_gates(record),
        Workflow::Pdca => vec![of_verdict(record)],
    }
}

/// One claim a gate, over all items that it was asked about.
fn of_gates(record: &Record<'_>) -> Vec<Claim> {
    let mut asked: BTreeMap<Gate, (u64, u64)> = BTreeMap::new();
    for result in record.run.items().iter().filter_map(|state| state.ended_here()).flat_map(|ended| &ended.gates) {
        let (passed, count) = asked.entry(result.gate).or_default();
        *count += 1;
        *passed += u64::from(result.passed);
    }
    let claim = |(gate, (passed, count)): (Gate, (u64, u64))| {
        let status = if passed == count { ClaimStatus::Verified } else { ClaimStatus::Rejected };
        claim(&format!("gate.{gate}"), format!("{gate}: {passed} of {count} item(s) passed"), status)
    };
    asked.into_iter().map(claim).collect()
}

/// The verdict that counts on the acceptance criteria.
fn of_verdict(record: &Record<'_>) -> Claim {
    let (text, status) = match record.run.verdict() {
        Some(Verdict::Pass) => ("the last verdict that counts is PASS", ClaimStatus::Verified),
        Some(Verdict::Fail) => ("the last verdict that counts is FAIL", ClaimStatus::Rejected),
        None => ("no verdict was given", ClaimStatus::Unverified),
    };
    claim("verdict", text.to_owned(), status)
}

fn claim(id: &str, text: String, status: ClaimStatus) -> Claim {
    Claim {
        claim_id: id.to_owned(),
        text,
        status,
        // norma looked itself, or nobody did.
        confidence: if status == ClaimStatus::Unverified { 0.0 } else { 1.0 },
        supporting_source_ids: vec![BASELINE.to_owned()],
        contradicting_source_ids: None,
        verification_notes: None,
        risk_if_wrong: None,
    }
}

fn limitations(record: &Record<'_>) -> Vec<String> {
    let tested = record.kept.values().any(|kept| kept.tests.is_some());
    let tests = (!tested).then(|| format!("tests: {NOT_REQUESTED}, or not come to"));
    let reviewed = record.run.items().iter().any(|state| state.item.review.is_some());
    let review = (!reviewed).then(|| format!("review: {NOT_REQUESTED}"));
    review.into_iter().chain(tests).collect()
}
