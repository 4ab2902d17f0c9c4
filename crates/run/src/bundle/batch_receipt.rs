//! One receipt over all changes of a batch. It lists them by the ids of their items, so that the same items in another order
//! have the same receipt but for ids and times.

use super::Record;
use contract::receipt::{BatchReceipt, BatchReceiptSchema, Phase, TrancheReceipt};
use contract::{Digest, ItemStatus};

/// The receipt of a run with several items; a single change has its own.
pub(super) fn batch_receipt(record: &Record<'_>) -> Option<BatchReceipt> {
    let (run, started) = (record.run, &record.run.started);
    if run.items().len() < 2 {
        return None;
    }
    let ends = || run.items().iter().filter_map(|state| state.ended().map(|ended| (state, ended)));
    let mut tranches: Vec<TrancheReceipt> = ends()
        .map(|(state, ended)| TrancheReceipt {
            task_id: state.item.id.clone(),
            change: ended.change,
            status: ended.status,
            sha256: ended.receipt.sha256,
            receipt_hash: ended.receipt.receipt_hash,
            content_hash: ended.receipt.content_hash,
        })
        .collect();
    tranches.sort_by(|one, other| one.task_id.cmp(&other.task_id));
    let merged = || ends().map(|(_, ended)| ended).filter(|ended| ended.commit.is_some());
    let succeeded = run.items().iter().all(|state| state.succeeded());
    let mut receipt = BatchReceipt {
        schema: BatchReceiptSchema::V1,
        run_id: run.id.slug(),
        contract: run.contract_digest(),
        phase: Phase::Reconcile,
        status: if succeeded { ItemStatus::Success } else { ItemStatus::Failure },
        base_commit: started.base.commit,
        before_tree: started.tree,
        after_tree: run.line().head.tree,
        tranches,
        tranches_merged: merged().count() as u64,
        total_artifacts: merged().map(|ended| ended.files.iter().sum::<u64>()).sum(),
        total_delta_size: merged().map(|ended| ended.delta_size).sum(),
        content_hash: Digest::from_bytes([0; 32]),
        receipt_hash: Digest::from_bytes([0; 32]),
    };
    receipt.content_hash = receipt.content();
    receipt.receipt_hash = receipt.hash();
    Some(receipt)
}
