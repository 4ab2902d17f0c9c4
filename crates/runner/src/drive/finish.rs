//! The end of a change: its receipt, signed, with everything it was judged by, and the commit where it landed. All of it
//! is one directory and one entry of the log, so that a change has ended with its receipt or not at all.

use crate::Result;
use crate::change::{self, Ending, Made};
use crate::git::{id, recorded};
use crate::record::{Driver, Pending};
use contract::{CommitId, Digest, Fact, ItemStatus};
use store::{Preparing, Writing, crash, now};

/// Puts the end of a change on its way to the disk, held for the intent of what follows. `sealed` is the record of its
/// turn, where that is on its way there too.
pub(crate) fn finish(driver: &mut Driver<'_, '_>, ending: Ending, sealed: Option<Pending>) -> Result<()> {
    let dir = ending.judged.dir();
    let hashes = state_hashes(driver, &ending)?;
    let receipt = change::receipt(&driver.run, &ending, hashes, store::new_uuid(), now());
    let bytes = receipt.to_bytes();
    let sha256 = contract::hash::sha256(&bytes);
    let commit = commit(driver, &ending, &sha256)?;
    let target = driver.run_dir().join(&dir);
    let mut evidence = Preparing::new(&target);
    store::make_way(driver.store, &target, "its change has not ended")?;
    if !ending.judged.change.patch.is_empty() {
        evidence.write("patch.diff", &ending.judged.change.patch)?;
    }
    evidence.write("gates.json", &change::gates_json(&driver.run, &ending, &receipt))?;
    for (name, bytes) in ending.judged.tests.iter().flat_map(|tests| &tests.files) {
        evidence.write(name, bytes)?;
    }
    evidence.write("RECEIPT.json", &bytes)?;
    for (name, bytes) in driver.world.keys().attest_receipt(&receipt, &bytes) {
        evidence.write(name, &bytes)?;
    }
    // What went well is looked at when the run has ended; anything else may be looked at now.
    let is_success = ending.status == ItemStatus::Success && ending.judged.place.is_some();
    let writing = if is_success { Writing::Later } else { Writing::AtOnce };
    let mut facts = change::refusals(&ending);
    let made = Made::new(&receipt, sha256, commit, evidence.evidence());
    let end = change::end(&driver.run, ending, &receipt, made);
    let told = match &end {
        Fact::ItemEnded(ended) => run::workflow::pipeline::told_at_end(&driver.run, ended),
        _ => Vec::new(),
    };
    facts.push(end);
    facts.extend(told);
    let points = ["change.before_rename", "change.after_rename"];
    if writing == Writing::AtOnce || !evidence.is_small() {
        // A directory that is there is rolled forward after a crash, and what it names must be there with it.
        driver.objects.sync()?;
    }
    let prepared = evidence.finish(&driver.run.id.slug(), &dir, now(), facts, writing, points)?;
    let pending = driver.submit_with_objects(prepared.facts, prepared.files)?;
    for pending in sealed.into_iter().chain([pending]) {
        driver.shared.hold(pending);
    }
    crash::point("change.after_submit");
    Ok(())
}

fn state_hashes(driver: &mut Driver<'_, '_>, ending: &Ending) -> Result<(Digest, Digest)> {
    let (before, after) = ending.trees();
    let hash = driver.world.state_hash(id(before))?;
    Ok((hash, if before == after { hash } else { driver.world.state_hash(id(after))? }))
}

/// The commit that carries the change, if there is one.
fn commit(driver: &mut Driver<'_, '_>, ending: &Ending, receipt: &Digest) -> Result<Option<CommitId>> {
    let Some(spec) = change::commit(&driver.run, ending, receipt) else { return Ok(None) };
    let commit = driver.objects.commit(&spec)?;
    Ok(Some(recorded(commit)))
}
