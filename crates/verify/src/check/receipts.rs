//! Receipts: each is hashed again, says of its change what the log says, and follows the one before it.

use super::RUN;
use super::log::Log;
use crate::Found;
use contract::json::{self, Limits};
use contract::receipt::ReceiptTests;
use contract::{ChangeEnd, Digest, ItemStatus, Receipt};

/// A receipt names every file of a change.
const RECEIPT_LIMITS: Limits = Limits::new(64 << 20, 32);

/// A receipt that could be read.
pub(crate) struct Kept<'a> {
    pub(crate) receipt: Receipt,
    pub(crate) bytes: &'a [u8],
    /// What the log says came of it.
    pub(crate) ended: ChangeEnd<'a>,
}

/// Every receipt of the bundle, in the order of the log.
pub(crate) fn check<'a>(found: &Found<'a>, log: &'a Log) -> (Vec<Kept<'a>>, Vec<String>) {
    let (mut receipts, mut problems) = (Vec::new(), Vec::new());
    let mut previous = log.chain_before();
    for event in &log.events {
        let Some(ended) = event.fact.change_end() else { continue };
        let dir = format!("changes/{:03}", ended.change);
        let at = format!("{RUN}{dir}/RECEIPT.json");
        match (read(found, &at), ended.receipt) {
            (Ok(Some((receipt, bytes))), Some(told)) => {
                let wrong = contradictions(&receipt, &dir, &ended, previous, found, log);
                problems.extend(wrong.into_iter().map(|what| format!("{at} {what}")));
                if Some(told.sha256) != found.sha256(&at) {
                    problems.push(format!("{at} is not the file that the log refers to"));
                }
                if ended.lands {
                    previous = Some(receipt.receipt_hash);
                }
                receipts.push(Kept { receipt, bytes, ended });
            }
            (Ok(Some(_)), None) => problems.push(format!("{at} is one that the log does not refer to")),
            (Ok(None), None) => {}
            (Ok(None), Some(_)) => problems.push(format!("{at} is missing")),
            (Err(why), _) => problems.push(format!("{at} {why}")),
        }
    }
    (receipts, problems)
}

fn read<'a>(found: &Found<'a>, at: &str) -> Result<Option<(Receipt, &'a [u8])>, String> {
    let Some(bytes) = found.bundle.bytes(at) else { return Ok(None) };
    let first = |violations: Vec<json::Violation>| violations.first().map(ToString::to_string).unwrap_or_default();
    let value = json::parse(bytes, &RECEIPT_LIMITS).map_err(|found| format!("cannot be read: {}", first(found)))?;
    let receipt = serde_json::from_value(value).map_err(|e| format!("cannot be read: {e}"))?;
    Ok(Some((receipt, bytes)))
}

/// What a receipt says that cannot be.
fn contradictions(
    receipt: &Receipt,
    dir: &str,
    ended: &ChangeEnd<'_>,
    previous: Option<Digest>,
    found: &Found<'_>,
    log: &Log,
) -> Vec<String> {
    let git = &receipt.git;
    let result = git.candidate_tree.unwrap_or(git.base_tree);
    let content = Receipt::content(&receipt.submitted, git.base_tree, result);
    let refers = ended.receipt.map(|told| (told.id.as_str(), told.receipt_hash, told.content_hash));
    let all = [
        (receipt.hash() == receipt.receipt_hash, "differs from its receipt hash"),
        (content == receipt.content_hash, "differs from its content hash"),
        (receipt.run_id == found.index.run_id, "is of another run"),
        (format!("changes/{:03}", receipt.change) == dir, "is of another change"),
        (receipt.contract == log.contract_digest_of(ended.change), "is of another contract"),
        (receipt.previous_receipt_hash == previous.filter(|_| ended.lands), "does not follow the receipt before"),
        (
            refers == Some((receipt.id.as_str(), receipt.receipt_hash, receipt.content_hash)),
            "is not the one the log refers to",
        ),
        ((ended.status, ended.reason) == (receipt.status, receipt.reason), "tells another outcome than the log"),
        (ended.gates == receipt.gates, "tells of other gates than the log"),
        (ended.tests == receipt.tests.as_ref().and_then(ReceiptTests::counts), "tells of other tests than the log"),
        ((ended.before, ended.after) == (git.before_tree, git.after_tree), "tells of other trees than the log"),
        (ended.status != ItemStatus::Success || passed(ended), "tells of a success that its gates did not allow"),
    ];
    all.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what.to_owned()).collect()
}

/// Whether every gate that was asked let the change pass; who was asked nothing did not pass.
fn passed(ended: &ChangeEnd<'_>) -> bool {
    !ended.gates.is_empty() && ended.gates.iter().all(|result| result.passed)
}

#[cfg(test)]
mod tests;
