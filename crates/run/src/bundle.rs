//! The bundle of a run that has ended: every file of its directory that follows from its log and its evidence, and the
//! manifest over all of them. Nothing here has a clock or looks anything up, so a run has the same bundle however often
//! it is made: at its end, or by recovery after a power cut.
//!
//! Nothing is made up to look complete. What did not happen is SKIPPED or BLOCKED, and what is missing is said to be.

mod batch_receipt;
mod claims;
mod gates;
mod manifest;
mod record;
mod replay;
mod reports;
mod spoken;
mod subject;
mod tests_run;
mod transcript;
mod words;

pub use manifest::manifest;
pub use record::{Kept, LogSummary, Record, Surroundings};
pub use spoken::{conversations, said};
pub use tests_run::Tests;
pub use transcript::{Part, Transcript, transcript};

use contract::AgentConfig;
use serde::Serialize;
use serde_json::{Value, json};
use spoken::{Conversation, agreed};
use std::collections::BTreeSet;
use subject::Subject;

/// Directories of a bundle that are there even if nothing is in them.
pub const DIRECTORIES: [&str; 6] = ["artifacts", "ci", "patches", "results", "reviews", "tasks"];

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Below the run's directory.
    pub path: String,
    /// What is in it.
    pub content: Content,
}

/// What is in a file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// What is in these files of the run's directory, one after another.
    Copies(Vec<String>),
    /// What agents said in these exchanges, line by line as they said it, one after another.
    Stream(Vec<String>),
    /// What people read of these turns, one after another.
    Transcript(Vec<Part>),
}

impl Piece {
    fn json(path: impl Into<String>, document: &impl Serialize) -> Piece {
        Piece { path: path.into(), content: Content::Bytes(contract::json::pretty(document)) }
    }

    fn line(path: &str, text: &str) -> Piece {
        Piece { path: path.to_owned(), content: Content::Bytes(format!("{text}\n").into_bytes()) }
    }

    fn copies(path: impl Into<String>, of: Vec<String>) -> Piece {
        Piece { path: path.into(), content: Content::Copies(of) }
    }
}

/// The files of the bundle that are not on record already, once the [`conversations`] are; those of an item are made when
/// they are asked for, since there may be thousands.
pub fn pieces<'r>(record: &'r Record<'_>) -> impl Iterator<Item = Piece> + 'r {
    let mut of_run = of_run(record);
    of_run.push(Piece::json("reports/evidence_report.json", &reports::evidence_report(record, &of_run)));
    let places = 0..record.run.items().len() as u32;
    of_run.into_iter().chain(places.flat_map(|place| of_item(record, place)))
}

fn of_run(record: &Record<'_>) -> Vec<Piece> {
    let about = Subject::of_run(record);
    let mut pieces = vec![
        Piece::json("meta.json", &meta(record)),
        Piece::line("worktree_ref.txt", &record.surroundings.workspace),
        Piece::line("git/baseline_commit.txt", &record.run.started.base.commit.to_string()),
        Piece::line("trace/trace_id.txt", &record.trace_id()),
        Piece::json("reports/review_report.json", &reports::review_report(&about)),
        Piece::json("reports/test_report.json", &reports::test_report(&about)),
        Piece::json("reports/evidence_bundle.json", &claims::evidence_bundle(record)),
        Piece::json("reports/work_report.json", &reports::work_report(record, &about)),
    ];
    pieces.extend(reports::task_result(&about).map(|it| Piece::json("reports/task_result.json", &it)));
    pieces.extend(batch_receipt::batch_receipt(record).map(|it| Piece::json("receipts/BATCH_RECEIPT.json", &it)));
    for name in ["patch.diff", "diff_name_only.txt"] {
        if record.files.contains_key(name) {
            pieces.push(Piece::copies(format!("git/{name}"), vec![name.to_owned()]));
        }
    }
    for name in ["command.txt", "stdout.log", "stderr.log"] {
        let of = about.tests.iter().flat_map(|tried| tried.files(name)).collect();
        pieces.push(Piece::copies(format!("tests/{name}"), of));
    }
    pieces
}

/// What there is of an item. A batch may have thousands of them, so a stage that did not run for one has a report only
/// where it is the only one.
fn of_item(record: &Record<'_>, place: u32) -> Vec<Piece> {
    let state = &record.run.items()[place as usize];
    let task = &state.item.id;
    let mut pieces = vec![match record.contract_of(place) {
        Some(contract) => Piece::json(format!("tasks/{task}.json"), contract),
        None => Piece::json(format!("tasks/{task}.json"), &*state.item),
    }];
    let Some(about) = Subject::of_item(record, place) else { return pieces };
    let only = record.run.items().len() == 1;
    pieces.extend(reports::task_result(&about).map(|it| Piece::json(format!("results/{task}/result.json"), &it)));
    let patch: Vec<String> = record.patch_of(place).into_iter().collect();
    if !patch.is_empty() {
        pieces.push(Piece::copies(format!("patches/{task}.diff"), patch.clone()));
    }
    pieces.push(Piece::copies(format!("results/{task}/patch.diff"), patch));
    if only || state.item.review.is_some() {
        pieces.push(Piece::json(format!("reviews/{task}.json"), &reports::review_report(&about)));
    }
    if let Some(bytes) = record.findings_of(place) {
        pieces.push(Piece { path: subject::findings_path(task), content: Content::Bytes(bytes) });
    }
    if only || !about.tests.is_empty() {
        pieces.push(Piece::json(format!("ci/{task}/test_report.json"), &reports::test_report(&about)));
    }
    let kept = record.kept.get(&place);
    pieces
        .extend(kept.and_then(|kept| kept.answer.as_ref()).map(|it| Piece::json(format!("artifacts/{task}.json"), it)));
    pieces.extend(replay::script(record, place));
    pieces
}

/// `meta.json`: under which circumstances it ran, as far as norma knows. Of an agent's model it knows what was
/// configured, and what the agent said when it opened a conversation.
fn meta(record: &Record<'_>) -> Value {
    let (run, started) = (record.run, &record.run.started);
    let contract = &started.contract;
    let named = run.workers().map(|(name, agent)| (name.clone(), agent));
    let agents = contract.agents.iter().map(|(role, agent)| (role.to_string(), agent)).chain(named);
    let agents = agents.map(|(name, agent)| {
        let params = params(record, &name, agent);
        (name, params)
    });
    let environment = environment(record);
    let canonical = |value| contract::json::canonical(value).expect("BUG: a contract holds only small integers");
    json!({
        "run_id": run.id.slug(),
        "runId": run.id.uuid(),
        "task_id": record.task_id(),
        "trace_id": record.trace_id(),
        "workflow": contract.workflow,
        "start_ts": record.since(),
        "end_ts": record.until(),
        "repo_root": record.surroundings.repository,
        "baseline": started.base,
        "platform": record.surroundings.platform,
        "tool_versions": tool_versions(record),
        "environment_sha256": contract::hash::sha256(&canonical(&environment)),
        "environment": environment,
        "llm_params": agents.collect::<serde_json::Map<String, Value>>(),
    })
}

/// How an agent was set, and which model and version it says it had.
fn params(record: &Record<'_>, name: &str, agent: &AgentConfig) -> Value {
    let worker_of = |place: u32| record.run.items()[place as usize].item.worker.as_str();
    let is_own = |it: &&Conversation| it.kind == agent.kind && it.place.is_none_or(|at| worker_of(at) == name);
    let own = || record.spoken.iter().filter(is_own);
    let models: BTreeSet<&str> = own().flat_map(Conversation::models).collect();
    let versions: BTreeSet<&str> = own().flat_map(Conversation::versions).collect();
    json!({
        "runner": agent.kind,
        "model": agent.model,
        "effort": agent.effort,
        "args": agent.args,
        "base_url": agent.base_url,
        "models_used": models,
        "agent_versions": versions,
    })
}

/// norma's version, and what each kind of agent says of its own where all of them say the same.
fn tool_versions(record: &Record<'_>) -> Value {
    let mut versions = json!({"norma": record.run.started.version});
    for kind in record.spoken.iter().map(|conversation| conversation.kind) {
        let of_kind = record.spoken.iter().filter(|conversation| conversation.kind == kind);
        if let Some(version) = agreed(of_kind.flat_map(Conversation::versions)) {
            versions[kind.as_str()] = json!(version);
        }
    }
    versions
}

/// What two runs must have in common to have had the same surroundings.
fn environment(record: &Record<'_>) -> Value {
    let contract = &record.run.started.contract;
    json!({
        "norma": record.run.started.version,
        "platform": record.surroundings.platform,
        "policies": contract.policies,
        "sandbox": contract.sandbox,
        "sandbox_limits": contract.sandbox_limits,
        "sandbox_read": contract.sandbox_read,
        "workspace": contract.workspace,
    })
}
