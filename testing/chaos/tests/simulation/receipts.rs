//! The judge of receipts: every change has one in its directory, it is the one in the log, and those that became part of a
//! run's history form one chain over all runs of a day.

use crate::world::Outside;
use contract::{Digest, Event, Fact, ItemStatus, Receipt};
use run::Run;
use store::{Layout, Reader};

pub(crate) fn check(layout: &Layout, reader: &Reader, outside: &Outside<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut last = None;
    for slug in &outside.started {
        // A process that died before its run was on record.
        if reader.run(slug).unwrap().is_none() {
            continue;
        }
        let (id, events, _) = reader.log(slug).unwrap();
        let run = Run::fold(id, &events).unwrap();
        if run.started.receipt != last {
            broken.push(format!("{slug}: it starts after receipt {:?}, not {last:?}", run.started.receipt));
        }
        for event in &events {
            let found = check_change(layout, slug, event, &mut last, outside);
            broken.extend(found.into_iter().map(|what| format!("{slug}: {what}")));
        }
    }
    broken
}

fn check_change(
    layout: &Layout,
    slug: &str,
    event: &Event,
    last: &mut Option<Digest>,
    outside: &Outside<'_>,
) -> Option<String> {
    let end = event.fact.change_end()?;
    let Some(recorded) = end.receipt else { return Some(format!("change {} has no receipt", end.change)) };
    let before = if end.lands { last.replace(recorded.receipt_hash) } else { None };
    let refused = end.gates.iter().any(|gate| !gate.passed);
    if refused && end.status == ItemStatus::Success || !refused && matches!(event.fact, Fact::ChangeDropped(_)) {
        return Some(format!("change {} is not what its gates say", end.change));
    }
    // Somebody was at its evidence, which is said elsewhere.
    if outside.spoilt.iter().any(|spoilt| spoilt == slug) {
        return None;
    }
    let path = layout.run(slug).join(format!("changes/{:03}/RECEIPT.json", end.change));
    let Ok(bytes) = std::fs::read(&path) else { return Some(format!("change {} has no RECEIPT.json", end.change)) };
    let receipt: Receipt = serde_json::from_slice(&bytes).unwrap();
    let is_recorded =
        contract::hash::sha256(&bytes) == recorded.sha256 && receipt.receipt_hash == recorded.receipt_hash;
    if !is_recorded || receipt.hash() != receipt.receipt_hash || receipt.status != end.status {
        return Some(format!("change {} has another receipt than the log says", end.change));
    }
    if receipt.previous_receipt_hash != before {
        return Some(format!("change {} follows {:?}, not {before:?}", end.change, receipt.previous_receipt_hash));
    }
    None
}
