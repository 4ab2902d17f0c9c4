//! The end of an item: its receipt, signed, with everything it was judged by, and the commit where it landed. All of it
//! is one directory and one entry of the log, so that an item has ended with its receipt or not at all.

use super::judge::Judged;
use super::world;
use crate::acceptance::Acceptance;
use crate::book::Pending;
use crate::drive::Driver;
use crate::git::CommitSpec;
use crate::landing::id;
use crate::{Machine, Result};
use contract::receipt::{Phase, Receipt, ReceiptGit, ReceiptSchema};
use contract::work::{Gate, GateResult};
use contract::{Digest, Fact, ItemEnded, ItemStatus, Reason, ReceiptRef};
use run::Run;
use serde_json::json;
use store::{Preparing, crash, now};

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

/// Puts the end of an item on record. `sealed` is the record of its turn, where that is still on its way to the disk.
pub(super) fn finish(driver: &mut Driver<'_, '_>, ending: Ending, sealed: Option<Pending>) -> Result<()> {
    let place = ending.judged.place;
    let dir = format!("changes/{:03}", place + 1);
    let mut receipt = receipt(driver, &ending)?;
    receipt.receipt_hash = receipt.hash();
    let bytes = receipt.to_bytes();
    let sha256 = contract::hash::sha256(&bytes);
    let commit = commit(driver, &ending, &sha256)?;
    let target = driver.run_dir().join(&dir);
    let mut evidence = Preparing::new(&target)?;
    store::make_way(driver.store, &target, "its item has not ended")?;
    if !ending.judged.change.patch.is_empty() {
        evidence.write("patch.diff", &ending.judged.change.patch)?;
    }
    evidence.write("gates.json", &gates_json(&ending, &receipt))?;
    for (name, bytes) in ending.judged.tests.iter().flat_map(|tests| &tests.files) {
        evidence.write(name, bytes)?;
    }
    evidence.write("RECEIPT.json", &bytes)?;
    for (name, bytes) in driver.world.keys().attest_receipt(&receipt, &bytes) {
        evidence.write(name, &bytes)?;
    }
    let mut facts = refusals(&ending);
    facts.push(Fact::ItemEnded(Box::new(ended(driver, ending, &receipt, sha256, commit, evidence.evidence()))));
    let points = ["change.before_rename", "change.after_rename"];
    let prepared = evidence.finish(&driver.run.id.slug(), &dir, now(), facts, points)?;
    let pending = driver.submit(prepared.facts, prepared.files);
    for pending in sealed.into_iter().chain([pending]) {
        driver.book.settle(pending)?;
    }
    crash::point("change.after_commit");
    Ok(())
}

/// The gates that refused, as events of their own.
fn refusals(ending: &Ending) -> Vec<Fact> {
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

fn trees(ending: &Ending) -> (String, String) {
    match &ending.landed {
        Some(landed) => (landed.before.clone(), landed.after.clone()),
        None => (ending.judged.base.tree.clone(), ending.judged.base.tree.clone()),
    }
}

fn receipt(driver: &mut Driver<'_, '_>, ending: &Ending) -> Result<Receipt> {
    let (before, after) = trees(ending);
    let before_hash = world(driver)?.state_hash(id(&before)?)?;
    let after_hash = if before == after { before_hash } else { world(driver)?.state_hash(id(&after)?)? };
    let Judged { item, base, change, worked, gates, tests, .. } = &ending.judged;
    let (run, at) = (&driver.run, now());
    let contract = &run.started.contract;
    let success = ending.status == ItemStatus::Success;
    let candidate_tree = worked.as_ref().and_then(|worked| worked.tree.clone());
    let denied = ending.status == ItemStatus::Denied;
    let said = || Some(ending.message.clone()).filter(|message| !message.is_empty());
    let result = candidate_tree.clone().unwrap_or_else(|| base.tree.clone());
    Ok(Receipt {
        schema: ReceiptSchema::V1,
        id: store::new_uuid(),
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
            before_tree: before,
            candidate_tree,
            after_tree: after,
        },
        contract: run.started.contract_digest,
        submitted: item.submitted,
        policies: contract.policies.clone(),
        toolchain_version: run.started.version.clone(),
        sandbox: sandbox_word(run),
        artifacts: change.artifacts.clone(),
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
    })
}

fn sandbox_word(run: &Run) -> String {
    let value = serde_json::to_value(run.started.contract.sandbox).expect("BUG: a backend is plain data");
    value.as_str().unwrap_or_default().to_owned()
}

/// The commit that carries the change, with the digest of its receipt. Its date comes from the log, so that it is the
/// same commit however often it is made.
fn commit(driver: &mut Driver<'_, '_>, ending: &Ending, receipt: &Digest) -> Result<Option<String>> {
    let Some(landed) = &ending.landed else { return Ok(None) };
    let run = driver.run.clone();
    let since = ending.judged.worked.as_ref().map(|worked| worked.since).unwrap_or_default();
    let spec = CommitSpec {
        tree: id(&landed.after)?,
        parents: vec![id(&run.line.head.commit)?],
        author: Machine::identity(&run),
        seconds: (since.unix_ms() / 1000) as i64,
        message: message(&run, ending, receipt),
    };
    let objects = world(driver)?.objects();
    let commit = objects.commit(&spec)?;
    // Durable before it can be mentioned.
    objects.sync()?;
    Ok(Some(commit.to_string()))
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

fn ended(
    driver: &Driver<'_, '_>,
    ending: Ending,
    receipt: &Receipt,
    sha256: Digest,
    commit: Option<String>,
    evidence: Digest,
) -> ItemEnded {
    let (before, after) = trees(&ending);
    let since = driver.run.items[ending.judged.place as usize].turns.first().map(|turn| turn.since);
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
fn gates_json(ending: &Ending, receipt: &Receipt) -> Vec<u8> {
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
