//! What is written down at the end of a change, as it follows from how it was judged: receipt, commit, `gates.json` and
//! facts. No clock and no chance: whoever replays the end gives the id and the time that are on record, and gets the
//! same bytes.

use super::judged::{Asked, Judged, Proposal};
use super::whole::identity;
use crate::change::acceptance::Acceptance;
use crate::git::CommitSpec;
use crate::git::id;
use contract::receipt::{LeftOut, Phase, Receipt, ReceiptArtifact, ReceiptGit, ReceiptSchema, ReceiptTests};
use contract::work::{Gate, GateResult, TestCounts};
use contract::{
    ChangeDropped, CommitId, Digest, Fact, ItemEnded, ItemStatus, PatchApplied, Reason, ReceiptRef, Timestamp, TreeId,
};
use contract::{RULES_ALL_FINDINGS, RULES_ALL_TESTS, RULES_UNTESTED};
use run::Run;
use run::gate::shown;
use serde_json::json;

/// How a change ends.
pub(crate) struct Ending {
    pub(crate) judged: Judged,
    pub(crate) status: ItemStatus,
    pub(crate) reason: Option<Reason>,
    pub(crate) message: String,
    pub(crate) landed: Option<Landed>,
}

/// What a change adds to the run's history.
pub(crate) struct Landed {
    pub(crate) before: TreeId,
    pub(crate) after: TreeId,
}

impl Landed {
    /// None if the line stays as it is.
    pub(crate) fn new(before: TreeId, after: TreeId) -> Option<Landed> {
        (before != after).then_some(Landed { before, after })
    }
}

impl Ending {
    /// The tree of the run's line before and after.
    pub(crate) fn trees(&self) -> (TreeId, TreeId) {
        match &self.landed {
            Some(landed) => (landed.before, landed.after),
            None => (self.judged.on, self.judged.on),
        }
    }
}

/// The gates that refused an item, as events of their own; a patch that was refused has one event that says all of it.
pub(crate) fn refusals(ending: &Ending) -> Vec<Fact> {
    let Some(item) = ending.judged.place else { return Vec::new() };
    let fact = |result: &GateResult| {
        let (gate, findings) = (result.gate, result.findings.clone());
        match gate {
            Gate::Scope => Fact::PolicyViolation { item: Some(item), node: None, gate, findings },
            Gate::Merged if ending.reason == Some(Reason::PolicyViolation) => {
                Fact::PolicyViolation { item: Some(item), node: None, gate, findings }
            }
            _ => Fact::GateFailed { item, gate, findings },
        }
    };
    ending.judged.results().iter().filter(|result| !result.passed).map(fact).collect()
}

/// The digest of the contract that a change was made under.
fn contract_of(run: &Run, ending: &Ending) -> Digest {
    ending.judged.place.map_or_else(|| run.contract_digest(), |place| run.contract_digest_at(place))
}

/// The receipt of a change; `hashes` are the state hashes of the trees of the line before and after.
pub(crate) fn receipt(run: &Run, ending: &Ending, hashes: (Digest, Digest), id: String, at: Timestamp) -> Receipt {
    let (before, after) = ending.trees();
    let (before_hash, after_hash) = hashes;
    let Judged { number, item, base, change, left_out, tests, .. } = &ending.judged;
    let contract = &run.started.contract;
    let success = ending.status == ItemStatus::Success;
    let candidate_tree = ending.judged.tree;
    let denied = ending.status == ItemStatus::Denied;
    let said = || Some(ending.message.clone()).filter(|message| !message.is_empty());
    let result = candidate_tree.unwrap_or(base.tree);
    let has_proof = success && ending.judged.place.is_some();
    let mut receipt = Receipt {
        schema: ReceiptSchema::V1,
        id,
        run_id: run.id.slug(),
        task_id: item.id.clone(),
        change: *number,
        agent_id: item.agent_id.clone(),
        phase: if run::reconciles(item) { Phase::Reconcile } else { Phase::Tranche },
        timestamp_ns: format!("{}000000", at.unix_ms()),
        timestamp_iso: at,
        status: ending.status,
        reason: ending.reason,
        error: said().filter(|_| !denied),
        denial_reason: said().filter(|_| denied),
        before_hash,
        after_hash,
        git: ReceiptGit {
            base_commit: base.commit,
            base_tree: base.tree,
            before_tree: before,
            candidate_tree,
            after_tree: after,
        },
        contract: contract_of(run, ending),
        submitted: item.submitted,
        policies: contract.policies.clone(),
        toolchain_version: run.started.version.clone(),
        sandbox: sandbox_word(run),
        artifacts: artifacts(&change.artifacts, contract.rules),
        left_out: left_out.clone().map(|it| it.with_files_max(LeftOut::RECEIPT_FILES_MAX)),
        proof_artifacts: has_proof.then(|| format!("proof/replay-{}.sh", item.id)).into_iter().collect(),
        deltas: change.deltas.clone(),
        tool_trace: ending.judged.tool_trace.clone(),
        tool_ops: ending.judged.tool_ops,
        tool_ops_source: ending.judged.tool_ops_source,
        gates: ending.judged.results(),
        tests: tests.as_ref().and_then(|tests| tests.told(contract.rules)),
        // Of a loop, its checks judge the result; no patch is tried by itself.
        untested: has_proof && ending.landed.is_some() && tests.is_none() && contract.rules >= RULES_UNTESTED,
        test_log_path: tests
            .as_ref()
            .and_then(Acceptance::first_log)
            .map(|name| format!("{}/{name}", ending.judged.dir())),
        approvals: run.approvals().to_vec(),
        previous_receipt_hash: run.line().receipt.filter(|_| ending.landed.is_some()),
        content_hash: Receipt::content(&item.submitted, base.tree, result),
        receipt_hash: Digest::from_bytes([0; 32]),
    };
    receipt.receipt_hash = receipt.hash();
    receipt
}

/// What differs, as receipts under these rules tell it.
fn artifacts(all: &[ReceiptArtifact], rules: u32) -> Vec<ReceiptArtifact> {
    let blake3 = |it: &ReceiptArtifact| it.blake3.filter(|_| rules >= RULES_ALL_TESTS);
    all.iter().map(|it| ReceiptArtifact { blake3: blake3(it), ..it.clone() }).collect()
}

fn sandbox_word(run: &Run) -> String {
    let value = serde_json::to_value(run.started.contract.sandbox).expect("BUG: a backend is plain data");
    value.as_str().unwrap_or_default().to_owned()
}

/// The commit that carries an item's change, with the digest of its receipt; what a loop made is one commit when it
/// lands. Its date comes from the log, so that it is the same commit however often it is made.
pub(crate) fn commit(run: &Run, ending: &Ending, receipt: &Digest) -> Option<CommitSpec> {
    let (Some(landed), Some(_)) = (&ending.landed, ending.judged.place) else { return None };
    let since = ending.judged.worked().map(|worked| worked.since).unwrap_or_default();
    Some(CommitSpec {
        tree: id(landed.after),
        parents: vec![id(run.line().head.commit)],
        author: identity(run),
        seconds: (since.unix_ms() / 1000) as i64,
        message: message(run, ending, receipt),
    })
}

fn message(run: &Run, ending: &Ending, receipt: &Digest) -> String {
    let item = &ending.judged.item;
    let goal = item.goal.trim();
    let (subject, rest) = goal.split_once('\n').unwrap_or((goal, ""));
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    let (slug, contract) = (run.id.slug(), contract_of(run, ending));
    format!(
        "{subject}\n\n{body}Norma-Run: {slug}\nNorma-Task: {}\nNorma-Receipt: sha256:{receipt}\nNorma-Contract: {contract}\n",
        item.id
    )
}

/// What is made of a change when it ends: its receipt by what can be checked of it, the commit that carries it, and the
/// digest of its evidence.
pub(crate) struct Made {
    pub(crate) receipt: ReceiptRef,
    pub(crate) commit: Option<CommitId>,
    pub(crate) evidence: Digest,
}

impl Made {
    pub(crate) fn new(receipt: &Receipt, sha256: Digest, commit: Option<CommitId>, evidence: Digest) -> Made {
        let (receipt_hash, content_hash) = (receipt.receipt_hash, receipt.content_hash);
        Made { receipt: ReceiptRef { id: receipt.id.clone(), sha256, receipt_hash, content_hash }, commit, evidence }
    }
}

/// The fact that a change has ended.
pub(crate) fn end(run: &Run, ending: Ending, receipt: &Receipt, made: Made) -> Fact {
    match (&ending.judged.proposal, ending.judged.place, ending.status) {
        (Proposal::Patch { bytes, .. }, _, ItemStatus::Success) => {
            let patch_bytes = bytes.len() as u64;
            Fact::PatchApplied(applied(ending, patch_bytes, counts(receipt), made))
        }
        (Proposal::Patch { .. }, _, _) => Fact::ChangeDropped(dropped(ending, made)),
        (_, Some(place), _) => Fact::ItemEnded(Box::new(ended(run, place, ending, receipt, made))),
        (_, None, _) => unreachable!("BUG: what is no patch is of an item"),
    }
}

fn counts(receipt: &Receipt) -> Option<TestCounts> {
    receipt.tests.as_ref().and_then(ReceiptTests::counts)
}

fn applied(ending: Ending, patch_bytes: u64, tests: Option<TestCounts>, made: Made) -> PatchApplied {
    let (before, after) = ending.trees();
    let gates = ending.judged.results();
    let Judged { number, proposal, change, risky, .. } = ending.judged;
    let Proposal::Patch { step, .. } = proposal else { unreachable!("BUG: only patches are applied") };
    PatchApplied {
        change: number,
        step: step.index,
        before,
        after,
        file_count: change.paths.len() as u64,
        files: run::bounded(change.paths.iter().map(|path| shown(&path.path)).collect()),
        patch_bytes,
        risky_count: risky.len() as u64,
        risky: run::bounded(risky),
        tests,
        gates,
        receipt: Some(made.receipt),
        evidence: made.evidence,
    }
}

fn dropped(ending: Ending, made: Made) -> ChangeDropped {
    let gates = ending.judged.results();
    let Judged { number, on, budget, .. } = &ending.judged;
    ChangeDropped {
        change: *number,
        step: ending.judged.step().unwrap_or_default(),
        before: *on,
        reason: ending.reason.unwrap_or(Reason::PatchFailed),
        findings: gates.iter().flat_map(|result| result.findings.clone()).collect(),
        budget: budget.clone(),
        gates,
        receipt: Some(made.receipt),
        evidence: made.evidence,
    }
}

fn ended(run: &Run, place: u32, ending: Ending, receipt: &Receipt, made: Made) -> ItemEnded {
    let (before, after) = ending.trees();
    let since = run.items()[place as usize].turns.first().map(|turn| turn.since);
    let gates = ending.judged.results();
    ItemEnded {
        item: place,
        change: ending.judged.number,
        step: ending.judged.step(),
        status: ending.status,
        reason: ending.reason,
        message: run::bounded(vec![ending.message]).remove(0),
        before,
        after,
        commit: made.commit,
        files: ending.judged.change.files(),
        paths: run::bounded(ending.judged.change.paths.iter().map(|path| shown(&path.path)).collect()),
        left_out: ending.judged.left_out.map(|it| it.with_files_max(LeftOut::EVENT_FILES_MAX)),
        delta_size: ending.judged.change.deltas.size(),
        tool_ops: ending.judged.tool_ops,
        tool_ops_source: ending.judged.tool_ops_source,
        tests: counts(receipt),
        took_ms: since.map_or(0, |since| receipt.timestamp_iso.unix_ms().saturating_sub(since.unix_ms())),
        gates,
        receipt: made.receipt,
        evidence: made.evidence,
    }
}

/// `gates.json`: what was judged, with every finding, for people and for whoever judges again. Under the first rules it
/// had what fits into the log.
pub(crate) fn gates_json(run: &Run, ending: &Ending, receipt: &Receipt) -> Vec<u8> {
    let full = |asked: &Asked| match asked.passed() {
        true => json!({"gate": asked.gate, "passed": true}),
        false => json!({"gate": asked.gate, "passed": false, "findings": asked.findings}),
    };
    let gates = match run.started.contract.rules >= RULES_ALL_FINDINGS {
        true => ending.judged.gates.iter().map(full).collect(),
        false => json!(receipt.gates),
    };
    let value = json!({
        "status": ending.status,
        "git": receipt.git,
        "gates": gates,
        "files": receipt.artifacts.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(),
        "weight": {
            "files": receipt.artifacts.len(),
            "tool_ops": receipt.tool_ops,
            "delta_size": receipt.deltas.size(),
            "patch_bytes": ending.judged.change.patch.len(),
        },
        "tests": ending.judged.tests.as_ref().map(Acceptance::report),
    });
    contract::json::pretty(&value)
}
