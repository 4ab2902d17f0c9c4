//! `manifest.json` of a run: from what to what, by which tasks, and the digest of every file.

use super::record::{Record, reference};
use super::spoken::{Conversation, agreed};
use super::words;
use contract::documents::role_binding::RoleBindingSummary;
use contract::documents::run_manifest::{
    Integrity, ManifestModel, ManifestRepo, ManifestRunner, ManifestTask, Trace, Versions,
};
use contract::documents::{AgentRole, ArtifactRef, RunManifest, Sha256};
use contract::{AgentType, Status};

/// The version of the documents that norma writes.
const DOCUMENTS: &str = "v1";

/// The manifest of a run, once all files of its directory are on its record.
pub fn manifest(record: &Record<'_>) -> RunManifest {
    let (run, started, files) = (record.run, &record.run.started, &record.files);
    let codex = record.spoken.iter().filter(|conversation| conversation.kind == AgentType::Codex);
    let failed = (run.status != Status::Succeeded).then(|| reason(record));
    RunManifest {
        run_id: run.id.slug().to_string(),
        task_id: Some(record.task_id()),
        created_at: record.since(),
        finished_at: Some(record.until()),
        status: words::run_status(run.status),
        failure_reason: failed,
        user_request: said(&started.contract.goal),
        trace_id: record.trace_id(),
        diagnostic: None,
        runner: Some(ManifestRunner { name: Some("norma".to_owned()), mcp_only: None, profile: None }),
        policy_pack: record.given.as_ref().and_then(|given| given.policy_pack),
        repo: ManifestRepo {
            root: record.surroundings.repository.clone(),
            baseline_ref: started.base.commit.to_string(),
            remote_url: None,
            branch: started.base.branch.clone(),
            final_ref: run.landed().map(|landing| landing.commit.to_string()),
        },
        versions: Versions {
            contracts_schema: DOCUMENTS.to_owned(),
            orchestrator: started.version.clone(),
            codex_cli: agreed(codex.flat_map(Conversation::versions)),
            agents_sdk: None,
            python: None,
            node: None,
        },
        model: model(record),
        role_binding_summary: role_binding(record),
        tasks: tasks(record),
        artifacts: files.iter().map(|(path, file)| reference(name_of(path), path, file)).collect(),
        evidence_hashes: files.iter().map(|(path, file)| (path.clone(), Sha256(file.sha256))).collect(),
        integrity: Some(Integrity {
            contract_sha256: files.get("contract.json").map(|file| Sha256(file.sha256)),
            // Each line carries the hash of the one before.
            events_hashchain_path: Some("events.jsonl".to_owned()),
            ..Integrity::default()
        }),
        trace: Some(Trace { trace_id: Some(record.trace_id()), trace_url: None }),
        workflow: None,
        observability: None,
        notes: None,
    }
}

/// What the task contract bound its role to. Nothing reads it but people and tools: what was carried out is the contract.
fn role_binding(record: &Record<'_>) -> Option<RoleBindingSummary> {
    let (given, item) = (record.given.as_ref()?, &record.run.items().first()?.item);
    Some(RoleBindingSummary::new(given, &item.worker, record.run.worker_of(item)))
}

/// The model, where all agents with a session say the same one.
fn model(record: &Record<'_>) -> Option<ManifestModel> {
    let id = agreed(record.spoken.iter().flat_map(Conversation::models))?;
    Some(ManifestModel { id: Some(id), ..ManifestModel::default() })
}

/// A document wants some words; a run may have been asked for without any.
fn said(goal: &str) -> String {
    if goal.is_empty() { "(nothing was said)".to_owned() } else { goal.to_owned() }
}

fn reason(record: &Record<'_>) -> String {
    match record.run.reason {
        Some(reason) => format!("{reason}: {}", record.message()),
        None => record.message(),
    }
}

fn tasks(record: &Record<'_>) -> Vec<ManifestTask> {
    let find = |name: &str, path: String| record.files.get(&path).map(|file| reference(name, &path, file));
    let mut tasks = Vec::new();
    for (place, state) in (0..).zip(record.run.items().iter()) {
        let id = &state.item.id;
        let Some(contract) = find("contract", format!("tasks/{id}.json")) else { continue };
        tasks.push(ManifestTask {
            task_id: id.clone(),
            role: words::agent_role(&state.item.role),
            status: words::task_status(record.ended(place).map(|end| words::item_outcome(end.status, end.reason))),
            contract,
            assigned_agent_id: Some(state.item.agent_id.clone()),
            thread_id: record.spoken_for(place).and_then(Conversation::session).map(str::to_owned),
            result: find("result", format!("results/{id}/result.json")),
            review_report: find("review_report", format!("reviews/{id}.json")),
            test_report: find("test_report", format!("ci/{id}/test_report.json")),
        });
    }
    if tasks.is_empty() {
        tasks.extend(find("contract", "contract.json".to_owned()).map(|contract| the_run(record, contract, find)));
    }
    tasks
}

/// A run without items is one task.
fn the_run(
    record: &Record<'_>,
    contract: ArtifactRef,
    find: impl Fn(&str, String) -> Option<ArtifactRef>,
) -> ManifestTask {
    ManifestTask {
        task_id: record.task_id(),
        role: AgentRole::Worker,
        status: words::task_status(Some(words::run_outcome(record.run.status))),
        contract,
        assigned_agent_id: None,
        thread_id: None,
        result: find("result", "reports/task_result.json".to_owned()),
        review_report: find("review_report", "reports/review_report.json".to_owned()),
        test_report: find("test_report", "reports/test_report.json".to_owned()),
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
