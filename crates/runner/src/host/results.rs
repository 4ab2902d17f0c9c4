//! What came of the items of a run, as whoever submitted them reads it.

use crate::Result;
use contract::documents::RunResult;
use contract::documents::run_result::RunMetrics;
use contract::receipt::{ArtifactKind, Receipt, ReceiptArtifact};
use contract::{ItemEnded, ItemStatus};
use run::{ItemState, Run};
use std::path::Path;
use store::{Layout, Reader};

/// How much of what tests printed is part of a result; all of it is in the evidence.
const TEST_OUTPUT_BYTES_MAX: usize = 64 * 1024;

const RECEIPT: &str = "RECEIPT.json";

/// The result of every item that has come to its end, in the order of the contract.
pub fn results(layout: &Layout, run: &Run) -> Result<Vec<RunResult>> {
    let (slug, reader) = (run.id.slug(), Reader::open(layout)?);
    let of = |state: &std::sync::Arc<ItemState>| {
        // Whoever did it has the evidence.
        let by = state.done_by().unwrap_or(slug);
        Some(result(&reader, &by, state.item.id.clone(), state.ended()?))
    };
    run.items().iter().filter_map(of).collect()
}

fn result(reader: &Reader, slug: &str, id: String, ended: &ItemEnded) -> Result<RunResult> {
    let (layout, change) = (reader.layout(), format!("changes/{:03}", ended.change));
    let run_dir = layout.run(slug);
    let path = run_dir.join(&change).join(RECEIPT);
    let damaged = |why: String| store::Error::Damaged { log: path.display().to_string(), why };
    let bytes = reader.evidence(slug, &change, RECEIPT)?.ok_or_else(|| damaged("it is not on record".to_owned()))?;
    let receipt: Receipt = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
    let absolute = |artifact: &ReceiptArtifact| layout.root.join(&artifact.path).to_string_lossy().into_owned();
    // What did not land changed nothing of the user's.
    let landed = || receipt.artifacts.iter().filter(|_| ended.status == ItemStatus::Success);
    let of = |kind| landed().filter(|it| it.kind == kind).map(absolute).collect();
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Ok(RunResult {
        id: Some(id),
        status: ended.status,
        receipt_id: receipt.id.clone(),
        receipt_path: text(&path),
        modified_files: of(ArtifactKind::Edit),
        created_files: of(ArtifactKind::Create),
        deleted_files: of(ArtifactKind::Delete),
        left_out: receipt.left_out,
        output_hash: receipt.after_hash,
        artifact_hashes: landed().filter_map(|it| Some((absolute(it), it.blake3.or(it.content_hash)?))).collect(),
        metrics: RunMetrics {
            execution_time_ms: ended.took_ms,
            tool_ops_count: ended.tool_ops,
            delta_size: ended.delta_size,
            files_touched: ended.files.iter().sum(),
            tests_passed: ended.tests.map(|tests| tests.passed),
            tests_failed: ended.tests.map(|tests| tests.failed),
        },
        test_output: receipt.test_log_path.as_ref().map(|log| first_of(reader, slug, log)).transpose()?,
        proof_script: receipt.proof_artifacts.first().map(|script| text(&run_dir.join(script))),
        error: receipt.error.map(|error| with_recovery(error, ended)),
        denial_reason: receipt.denial_reason,
    })
}

/// What went wrong, and what may help.
fn with_recovery(error: String, ended: &ItemEnded) -> String {
    ended.recovery().map_or_else(|| error.clone(), |recovery| format!("{error}; to recover: {recovery}"))
}

/// The beginning of what tests printed; `path` is below the run.
fn first_of(reader: &Reader, slug: &str, path: &str) -> Result<String> {
    let mut parts = path.splitn(3, '/');
    let (dir, name) = (parts.by_ref().take(2).collect::<Vec<_>>().join("/"), parts.next().unwrap_or_default());
    let mut bytes = reader.evidence(slug, &dir, name)?.unwrap_or_default();
    bytes.truncate(TEST_OUTPUT_BYTES_MAX);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
