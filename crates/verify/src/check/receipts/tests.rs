//! Receipts against the log, made up item by item.

use super::*;
use crate::bundle::Bundle;
use contract::bundle::{BundleFile, BundleIndex, BundleIndexSchema};
use contract::{CommitId, Event, Fact, ItemEnded, ObjectId, ReceiptRef, Timestamp, TreeId};
use serde_json::json;

const SLUG: &str = "20260123-145501-010101";

fn digest(text: &str) -> Digest {
    contract::hash::sha256(text.as_bytes())
}

fn object(name: &str) -> ObjectId {
    ObjectId::Sha256(*digest(name).as_bytes())
}

/// A receipt that fits [`ended`].
fn receipt(change: u32, previous: Option<Digest>) -> Receipt {
    let mut receipt: Receipt = serde_json::from_value(json!({
        "schema": "receipt.v1", "id": format!("id-{change}"), "run_id": SLUG, "task_id": "t", "change": change,
        "agent_id": "agent-1", "phase": "tranche", "timestamp_ns": "0", "timestamp_iso": "2026-01-23T14:55:01.000Z",
        "status": "success", "before_hash": digest("before"), "after_hash": digest("after"),
        "git": {
            "base_commit": object("c"), "base_tree": object("b"), "before_tree": object("before"),
            "candidate_tree": object("candidate"), "after_tree": object("after"),
        },
        "contract": Digest::from_bytes([0; 32]), "submitted": digest("submitted"), "policies": {},
        "toolchain_version": "0.1.0", "sandbox": "none", "artifacts": [], "proof_artifacts": [],
        "deltas": {"deltaO": [], "deltaPi": [], "deltaLambda": [], "deltaQ": []},
        "tool_trace": [], "tool_ops": 0, "tool_ops_source": "none",
        "gates": [{"gate": "scope", "passed": true}], "tests": {"passed": 1, "failed": 0, "skipped": 0},
        "previous_receipt_hash": previous, "content_hash": digest("later"), "receipt_hash": digest("later"),
    }))
    .unwrap();
    receipt.content_hash = Receipt::content(&receipt.submitted, TreeId(object("b")), TreeId(object("candidate")));
    receipt.receipt_hash = receipt.hash();
    receipt
}

fn ended(receipt: &Receipt) -> ItemEnded {
    ItemEnded {
        item: receipt.change - 1,
        change: receipt.change,
        step: Some(1),
        status: receipt.status,
        reason: receipt.reason,
        message: String::new(),
        before: TreeId(object("before")),
        after: TreeId(object("after")),
        commit: Some(CommitId(object("c"))),
        gates: receipt.gates.clone(),
        files: [0, 1, 0],
        paths: Vec::new(),
        left_out: None,
        delta_size: 0,
        tool_ops: 0,
        tool_ops_source: receipt.tool_ops_source,
        tests: receipt.tests.as_ref().and_then(ReceiptTests::counts),
        took_ms: 1,
        receipt: ReceiptRef {
            id: receipt.id.clone(),
            sha256: contract::hash::sha256(&receipt.to_bytes()),
            receipt_hash: receipt.receipt_hash,
            content_hash: receipt.content_hash,
        },
        evidence: digest("evidence"),
    }
}

fn found(receipts: &[Receipt], events: Vec<ItemEnded>) -> Vec<String> {
    let path = |receipt: &Receipt| format!("run/changes/{:03}/RECEIPT.json", receipt.change);
    let bundle = Bundle::of(receipts.iter().map(|receipt| (path(receipt), receipt.to_bytes())));
    let files = bundle.files.iter().cloned().map(BundleFile::new).collect();
    let index = BundleIndex { schema: BundleIndexSchema::V1, run_id: SLUG.parse().unwrap(), files };
    let facts = events.into_iter().map(|ended| Fact::ItemEnded(Box::new(ended)));
    let events = (1..).zip(facts).map(|(seq, fact)| Event { seq, ts: Timestamp::from_unix_ms(0), fact }).collect();
    let log = Log { run: None, events, heads: Vec::new(), head: digest("head") };
    check(&Found { bundle: &bundle, index: &index }, &log).1
}

#[track_caller]
fn check_found(edit: impl FnOnce(&mut ItemEnded), expected: &str) {
    let receipt = receipt(1, None);
    let mut ended = ended(&receipt);
    edit(&mut ended);
    let problems = found(&[receipt], vec![ended]);
    assert!(problems.iter().any(|problem| problem.contains(expected)), "no {expected:?} in {problems:?}");
}

#[test]
fn receipts_that_follow_each_other_and_say_what_the_log_says_are_fine() {
    let first = receipt(1, None);
    let second = receipt(2, Some(first.receipt_hash));
    let events = vec![ended(&first), ended(&second)];
    assert_eq!(found(&[first, second], events), [""; 0]);
}

#[test]
fn whatever_differs_between_a_receipt_and_the_log_is_found() {
    check_found(|ended| ended.receipt.sha256 = digest("x"), "is not the file that the log refers to");
    check_found(|ended| ended.receipt.receipt_hash = digest("x"), "is not the one the log refers to");
    check_found(|ended| ended.receipt.content_hash = digest("x"), "is not the one the log refers to");
    check_found(|ended| ended.receipt.id = "x".into(), "is not the one the log refers to");
    check_found(|ended| ended.status = ItemStatus::Denied, "tells another outcome than the log");
    check_found(|ended| ended.gates[0].passed = false, "tells of other gates than the log");
    check_found(|ended| ended.gates.clear(), "a success that its gates did not allow");
    check_found(|ended| ended.tests = None, "tells of other tests than the log");
    check_found(|ended| ended.after = TreeId(object("x")), "tells of other trees than the log");
}

#[test]
fn a_receipt_that_is_missing_or_out_of_its_place_is_found() {
    let (first, stray) = (receipt(1, None), receipt(2, Some(digest("x"))));
    let events = || vec![ended(&first), ended(&stray)];
    let missing = found(std::slice::from_ref(&first), events());
    assert_eq!(missing, ["run/changes/002/RECEIPT.json is missing"]);
    let unlinked = found(&[first.clone(), stray.clone()], events());
    assert_eq!(unlinked, ["run/changes/002/RECEIPT.json does not follow the receipt before"]);
}

#[test]
fn a_change_that_did_not_land_is_not_on_the_line_of_receipts() {
    let (first, dropped) = (receipt(1, None), receipt(2, None));
    let third = receipt(3, Some(first.receipt_hash));
    let unlanded = ItemEnded { commit: None, ..ended(&dropped) };
    let events = vec![ended(&first), unlanded, ended(&third)];
    assert_eq!(found(&[first, dropped, third], events), [""; 0]);
}

#[test]
fn a_success_that_a_gate_refused_is_found() {
    let mut receipt = receipt(1, None);
    receipt.gates[0].passed = false;
    receipt.receipt_hash = receipt.hash();
    let ended = ended(&receipt);
    let problems = found(&[receipt], vec![ended]);
    assert_eq!(problems, ["run/changes/001/RECEIPT.json tells of a success that its gates did not allow"]);
}
