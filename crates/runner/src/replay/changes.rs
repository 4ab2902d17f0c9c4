//! Patches of a loop, applied and judged again.

use super::Walk;
use super::tally::{Found, fields, found};
use crate::Result;
use crate::change::{judge_patch, read_patch};
use crate::machine::apply_patch;
use contract::{Event, Fact};
use run::Stage;

pub(super) fn differences(walk: &Walk<'_, '_, '_>, event: &Event) -> Result<Vec<Found>> {
    let Stage::ChangeOpen { change, step } = walk.run.stage else {
        unreachable!("BUG: the log was folded before, and a change is recorded only where it is open")
    };
    let evidence = match &event.fact {
        Fact::PatchApplied(applied) => applied.evidence,
        Fact::ChangeDropped(dropped) => dropped.evidence,
        _ => unreachable!("BUG: only patches are judged here"),
    };
    let patch = read_patch(&walk.dir, &walk.run, step)?;
    let judged = judge_patch(&walk.rules, &walk.run, &patch, |run, patch| apply_patch(walk.with.objects, run, patch))?;
    let gates = judged.gates_json(&walk.run.tree);
    let kept = judged.patch_to_keep(&patch).into_owned();
    let now = judged.fact(&walk.run, (change, step), patch.len() as u64, evidence);
    let mut all: Vec<Found> = match (&event.fact, &now) {
        (Fact::PatchApplied(recorded), Fact::PatchApplied(now)) => fields(recorded, now, &[]),
        (Fact::ChangeDropped(recorded), Fact::ChangeDropped(now)) => fields(recorded, now, &[]),
        (recorded, now) => vec![format!("on record: {}, now: {}", recorded.message(), now.message())],
    }
    .into_iter()
    .map(|what| found(Some("patch"), what))
    .collect();
    let dir = format!("changes/{change:03}");
    for (name, bytes) in [("patch.diff", &kept), ("gates.json", &gates)] {
        if walk.read(&format!("{dir}/{name}"))? != *bytes {
            all.push(found(Some("patch"), format!("{dir}/{name} is not what follows from the turn")));
        }
    }
    Ok(all)
}
