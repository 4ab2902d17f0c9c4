//! The papers of an item's end, as they follow from how it was judged: receipt, commit, `gates.json` and facts. No clock
//! and no chance: whoever replays the end gives the id and the time that are on record, and gets the same bytes.

use super::judge::Judged;
use crate::acceptance::Acceptance;
use crate::git::CommitSpec;
use crate::landing::id;
use crate::{Machine, Result};
use contract::receipt::{LeftOut, Phase, Receipt, ReceiptGit, ReceiptSchema};
use contract::work::{Gate, GateResult};
use contract::{Digest, Fact, ItemEnded, ItemStatus, Reason, ReceiptRef, Timestamp};
use run::Run;
use serde_json::json;

/// How an item ends.
pub(crate) struct Ending {
    pub(crate) judged: Judged,
    pub(crate) status: ItemStatus,
    pub(crate) reason: Option<Reason>,
    pub(crate) message: String,
    pub(crate) landed: Option<Landed>,
}

/// What an item adds to the run's line.
pub(crate) struct Landed {
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Landed {
    /// None if the line stays as it is.
    pub(crate) fn new(before: String, after: String) -> Option<Landed> {
        (before != after).then_some(Landed { before, after })
    }
}

impl Ending {
    /// The tree of the run's line before and after.
    pub(crate) fn trees(&self) -> (&str, &str) {
        match &self.landed {
            Some(landed) => (&landed.before, &landed.after),
            None => (&self.judged.base.tree, &self.judged.base.tree),
        }
    }
}

/// The gates that refused, as events of their own.
pub(crate) fn refusals(ending: &Ending) -> Vec<Fact> {
    let item = ending.judged.place;
    let fact = |result: &GateResult| {
        let (gate, findings) = (result.gate, result.findings.clone());
        match gate {
            Gate::Scope => Fact::PolicyViolation { item, gate, findings },
            Gate::Merged if ending.reason == Some(Reason::PolicyViolation) => {
                Fact::PolicyViolation { item, gate, findings }
            }
            _ => Fact::GateFailed { item, gate, findings },
        }
    };
    ending.judged.gates.iter().filter(|result| !result.passed).map(fact).collect()
}

/// The receipt of an item's end; `hashes` are the state hashes of the trees of the line before and after.
pub(crate) fn receipt(run: &Run, ending: &Ending, hashes: (Digest, Digest), id: String, at: Timestamp) -> Receipt {
    let (before, after) = ending.trees();
    let (before_hash, after_hash) = hashes;
    let Judged { item, base, change, left_out, worked, gates, tests, .. } = &ending.judged;
    let contract = &run.started.contract;
    let success = ending.status == ItemStatus::Success;
    let candidate_tree = worked.as_ref().and_then(|worked| worked.tree.clone());
    let denied = ending.status == ItemStatus::Denied;
    let said = || Some(ending.message.clone()).filter(|message| !message.is_empty());
    let result = candidate_tree.clone().unwrap_or_else(|| base.tree.clone());
    let mut receipt = Receipt {
        schema: ReceiptSchema::V1,
        id,
        run_id: run.id.slug(),
        task_id: item.id.clone(),
        change: ending.judged.place + 1,
        agent_id: item.agent_id.clone(),
        phase: if run.items[ending.judged.place as usize].reconciles() { Phase::Reconcile } else { Phase::Tranche },
        timestamp_ns: format!("{}000000", at.unix_ms()),
        timestamp_iso: at,
        status: ending.status,
        reason: ending.reason,
        error: said().filter(|_| !denied),
        denial_reason: said().filter(|_| denied),
        before_hash,
        after_hash,
        git: ReceiptGit {
            base_commit: base.commit.clone(),
            base_tree: base.tree.clone(),
            before_tree: before.to_owned(),
            candidate_tree,
            after_tree: after.to_owned(),
        },
        contract: run.started.contract_digest,
        submitted: item.submitted,
        policies: contract.policies.clone(),
        toolchain_version: run.started.version.clone(),
        sandbox: sandbox_word(run),
        artifacts: change.artifacts.clone(),
        left_out: left_out.clone().map(|it| it.with_files_max(LeftOut::RECEIPT_FILES_MAX)),
        proof_artifacts: success.then(|| format!("proof/replay-{}.sh", item.id)).into_iter().collect(),
        deltas: change.deltas.clone(),
        tool_trace: ending.judged.tool_trace.clone(),
        tool_ops: ending.judged.tool_ops,
        tool_ops_source: ending.judged.tool_ops_source,
        gates: gates.clone(),
        tests: tests.as_ref().and_then(|tests| tests.counts),
        test_log_path: tests
            .as_ref()
            .and_then(Acceptance::first_log)
            .map(|name| format!("changes/{:03}/{name}", ending.judged.place + 1)),
        approvals: run.approvals.clone(),
        previous_receipt_hash: run.line.receipt.filter(|_| ending.landed.is_some()),
        content_hash: Receipt::content(&item.submitted, &base.tree, &result),
        receipt_hash: Digest::from_bytes([0; 32]),
    };
    receipt.receipt_hash = receipt.hash();
    receipt
}

fn sandbox_word(run: &Run) -> String {
    let value = serde_json::to_value(run.started.contract.sandbox).expect("BUG: a backend is plain data");
    value.as_str().unwrap_or_default().to_owned()
}

/// The commit that carries a change, with the digest of its receipt. Its date comes from the log, so that it is the same
/// commit however often it is made.
pub(crate) fn commit(run: &Run, ending: &Ending, receipt: &Digest) -> Result<Option<CommitSpec>> {
    let Some(landed) = &ending.landed else { return Ok(None) };
    let since = ending.judged.worked.as_ref().map(|worked| worked.since).unwrap_or_default();
    Ok(Some(CommitSpec {
        tree: id(&landed.after)?,
        parents: vec![id(&run.line.head.commit)?],
        author: Machine::identity(run),
        seconds: (since.unix_ms() / 1000) as i64,
        message: message(run, ending, receipt),
    }))
}

fn message(run: &Run, ending: &Ending, receipt: &Digest) -> String {
    let item = &ending.judged.item;
    let goal = item.goal.trim();
    let (subject, rest) = goal.split_once('\n').unwrap_or((goal, ""));
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    let (slug, contract) = (run.id.slug(), run.started.contract_digest);
    format!(
        "{subject}\n\n{body}Norma-Run: {slug}\nNorma-Task: {}\nNorma-Receipt: sha256:{receipt}\nNorma-Contract: {contract}\n",
        item.id
    )
}

/// The fact that an item has ended.
pub(crate) fn ended(
    run: &Run,
    ending: Ending,
    receipt: &Receipt,
    sha256: Digest,
    commit: Option<String>,
    evidence: Digest,
) -> ItemEnded {
    let (before, after) = ending.trees();
    let (before, after) = (before.to_owned(), after.to_owned());
    let since = run.items[ending.judged.place as usize].turns.first().map(|turn| turn.since);
    ItemEnded {
        item: ending.judged.place,
        change: ending.judged.place + 1,
        step: ending.judged.worked.as_ref().map(|worked| worked.step.index),
        status: ending.status,
        reason: ending.reason,
        message: run::bounded(vec![ending.message]).remove(0),
        before,
        after,
        commit,
        files: ending.judged.change.files(),
        left_out: ending.judged.left_out.map(|it| it.with_files_max(LeftOut::EVENT_FILES_MAX)),
        delta_size: ending.judged.change.deltas.size(),
        tool_ops: ending.judged.tool_ops,
        tool_ops_source: ending.judged.tool_ops_source,
        tests: receipt.tests,
        took_ms: since.map_or(0, |since| receipt.timestamp_iso.unix_ms().saturating_sub(since.unix_ms())),
        gates: ending.judged.gates,
        receipt: ReceiptRef {
            id: receipt.id.clone(),
            sha256,
            receipt_hash: receipt.receipt_hash,
            content_hash: receipt.content_hash,
        },
        evidence,
    }
}

/// `gates.json`: what was judged, for people and for whoever judges again.
pub(crate) fn gates_json(ending: &Ending, receipt: &Receipt) -> Vec<u8> {
    let value = json!({
        "status": ending.status,
        "git": receipt.git,
        "gates": receipt.gates,
        "files": receipt.artifacts.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(),
        "weight": {
            "files": receipt.artifacts.len(),
            "tool_ops": receipt.tool_ops,
            "delta_size": receipt.deltas.size(),
            "patch_bytes": ending.judged.change.patch.len(),
        },
        "tests": ending.judged.tests.as_ref().map(Acceptance::report),
    });
    let mut bytes = serde_json::to_vec_pretty(&value).expect("BUG: gates are plain data");
    bytes.push(b'\n');
    bytes
}
