//! Items, judged again: every gate in its order, by the functions that asked them the first time, and from that what is
//! written down at the end of the change.

use super::tally::{Found, fields, found, gates};
use super::{Tallies, Tests, Walk, tests};
use crate::change::acceptance::Acceptance;
use crate::change::{self, Ending, Gates, Judged, Made, OnLine, Tried, Verdict, bring_onto_line, duplicate_of};
use crate::git::{GitError, PatchLimits, PatchProblem};
use crate::git::{id, recorded};
use crate::machine::state_hash::hash_tree_with;
use crate::{Error, Result};
use contract::work::{Gate, GateResult};
use contract::{Digest, Fact, Item, ItemBase, ItemEnded, ItemStatus, Reason, Receipt, TreeId};
use run::Run;
use std::path::Path;
use store::LandedReceipt;

/// Judges an item again on what is kept of it.
pub(super) fn judge_again(walk: &mut Walk<'_, '_>, at: usize, ended: &ItemEnded, tallies: &mut Tallies) -> Result<()> {
    let seq = walk.events[at].seq;
    let mut tested = Vec::new();
    let found = rejudge(walk, ended, &mut tested).and_then(|(run, ending)| written_down(walk, &run, at, ending));
    if let Err(error) = &found
        && was_removed(walk, ended, error)?
    {
        let why = "it was refused, and `norma gc` has removed its large files, so it was not judged again";
        tallies.gates.note(format!("changes/{:03}: {why}", ended.change));
        return Ok(());
    }
    if !walk.run.items()[ended.item as usize].item.tests.is_empty() {
        tallies.tests.compare(Some(seq), Ok(tested))?;
    }
    let (of_gates, of_papers) = found.map_or_else(|error| (Err(error), None), |(gates, rest)| (Ok(gates), Some(rest)));
    tallies.gates.compare(Some(seq), of_gates)?;
    of_papers.map_or(Ok(()), |rest| tallies.receipts.compare(Some(seq), Ok(rest)))
}

/// Whether a refused change lacks a file because somebody had those removed.
fn was_removed(walk: &Walk<'_, '_>, ended: &ItemEnded, error: &Error) -> Result<bool> {
    let lacks = matches!(error, Error::Git(GitError::MissingObject { .. }));
    Ok(lacks && ended.status != ItemStatus::Success && walk.with.reader.lacks_refused_files(&walk.run.id.slug())?)
}

/// How an item ends by what is kept of it; what speaks against the record of its tests is added to `tested`.
fn rejudge(walk: &Walk<'_, '_>, ended: &ItemEnded, tested: &mut Vec<Found>) -> Result<(Run, Ending)> {
    let dir = walk.dir.join(format!("changes/{:03}", ended.change));
    let run = walk.run.clone();
    let mut on_record = |item: &Item, tree: TreeId, base: TreeId| {
        let on = tests::Ground { objects: walk.with.objects, run: &run, dir: &dir, tree: id(tree), base: id(base) };
        tests::judge_again(&on, item, tested)
    };
    let ending = judge(walk, &run, ended, &mut on_record)?;
    Ok((run, ending))
}

/// Asks the gates again; `tests` says what the tests came to on a tree that was made of another.
fn judge(
    walk: &Walk<'_, '_>,
    run: &Run,
    ended: &ItemEnded,
    tests: &mut dyn FnMut(&Item, TreeId, TreeId) -> Result<Acceptance>,
) -> Result<Ending> {
    let landed = |content: &Digest| recorded_duplicate(walk, ended, content);
    let (objects, rules) = (walk.with.objects, walk.rules.clone());
    // What ended without an approval ended because there is none.
    let run_dir = walk.dir.clone();
    let gates = Gates { objects, rules, run, run_dir, left: None, landed: &landed, denied: &|_| Ok(true) };
    let mut judged = Judged::of_item(run, ended.item);
    if judged.worked().is_none() {
        let base = base_on_record(walk, ended)?;
        judged.on = base.tree;
        judged.base = base;
        return never_started(&gates, judged);
    }
    // Of tests that passed before others landed, only that is kept; they ran again on the merged tree.
    let merged = ended.gates.iter().any(|result| result.gate == Gate::Merged && result.passed);
    let mut unkept = merged || of_whole(walk, ended);
    let mut try_tests = |item: &Item, tree: TreeId, base: TreeId| match std::mem::take(&mut unkept) {
        true => Ok(Tried::Passed),
        false => tests(item, tree, base).map(Tried::Ran),
    };
    match change::judge(&gates, &mut judged, &mut try_tests)? {
        Verdict::Refused(refusal) => return Ok(judged.ends(refusal)),
        Verdict::Passed if judged.change.paths.is_empty() => return Ok(judged.succeeds(None)),
        Verdict::Passed | Verdict::NeedsReview | Verdict::Interrupted => {}
    }
    Ok(match bring_onto_line(&gates, &mut judged, &mut try_tests)? {
        OnLine::Refused(refusal) => judged.ends(refusal),
        OnLine::At(landed) => judged.succeeds(landed),
        OnLine::Asks(_) | OnLine::Interrupted => unreachable!("BUG: what is on record is decided"),
    })
}

/// Whether what is kept of its tests is with those of the whole, which are tried last.
fn of_whole(walk: &Walk<'_, '_>, ended: &ItemEnded) -> bool {
    let recorded = tests::on_record(&walk.dir.join(format!("changes/{:03}", ended.change)));
    recorded.is_ok_and(|recorded| recorded.commands.iter().any(|command| command.of_whole))
}

/// An item that no agent was asked for: something that it needs did not succeed, or its inputs are not there.
fn never_started(gates: &Gates<'_>, mut judged: Judged) -> Result<Ending> {
    let refused = match gates.not_started(&judged) {
        Some(refusal) => Some(refusal),
        None => gates.inputs(&mut judged)?,
    };
    Ok(match refused {
        Some(refusal) => judged.ends(refusal),
        None => judged.succeeds(None),
    })
}

/// Where an item would have started that never did: the end of the line at some moment before.
fn base_on_record(walk: &Walk<'_, '_>, ended: &ItemEnded) -> Result<ItemBase> {
    let known = walk.line.iter().rev().find(|base| base.tree == ended.before);
    let why = format!(
        "change {} says that it would have started from {}, where the run never was",
        ended.change, ended.before
    );
    known.cloned().ok_or_else(|| store::Error::Damaged { log: walk.run.id.slug().to_string(), why }.into())
}

/// Whether a change had landed before is a fact about other runs at that time. What is on record of it is believed if a
/// receipt of the same change is on record.
fn recorded_duplicate(walk: &Walk<'_, '_>, ended: &ItemEnded, content: &Digest) -> Result<Option<LandedReceipt>> {
    if ended.reason != Some(Reason::DuplicateChange) {
        return Ok(None);
    }
    let named = |receipt: &LandedReceipt| {
        ended.message.contains(&run::bounded(vec![duplicate_of(receipt, walk.run.started.contract.rules)])[0])
    };
    Ok(walk.with.reader.receipts_of(content)?.into_iter().find(named))
}

fn read_receipt(dir: &Path) -> Result<Receipt> {
    let path = dir.join("RECEIPT.json");
    let bytes = std::fs::read(&path).map_err(|source| Error::io("read", &path, source))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let why = format!("{} is no receipt: {error}", path.display());
        store::Error::Damaged { log: "its evidence".to_owned(), why }.into()
    })
}

/// What is written down at the end of a change now, against what is on record: what its gates say, and the rest.
pub(super) fn written_down(
    walk: &mut Walk<'_, '_>,
    run: &Run,
    at: usize,
    ending: Ending,
) -> Result<(Vec<Found>, Vec<Found>)> {
    let objects = walk.with.objects;
    let fact = &walk.events[at].fact;
    let recorded_end = fact.change_end().expect("BUG: only the end of a change is looked at");
    let dir = format!("changes/{:03}", recorded_end.change);
    let on_record = read_receipt(&walk.dir.join(&dir))?;
    let (before, after) = ending.trees();
    let hashes =
        (hash_tree_with(objects, id(before), &mut walk.memo)?, hash_tree_with(objects, id(after), &mut walk.memo)?);
    let receipt = change::receipt(run, &ending, hashes, on_record.id.clone(), on_record.timestamp_iso);
    let bytes = receipt.to_bytes();
    let sha256 = contract::hash::sha256(&bytes);
    let commit = match change::commit(run, &ending, &sha256) {
        Some(spec) => Some(recorded(objects.commit(&spec)?)),
        None => None,
    };
    let mut rest: Vec<Found> = Vec::new();
    let mut differs = |what: String| rest.push(found(None, what));
    for what in fields(&on_record, &receipt, &["gates", "receipt_hash"]) {
        differs(format!("{dir}/RECEIPT.json: {what}"));
    }
    let patch = (!ending.judged.change.patch.is_empty()).then(|| ending.judged.change.patch.to_vec());
    let gates_json = Some(change::gates_json(run, &ending, &receipt));
    for (name, bytes) in [("patch.diff", patch), ("gates.json", gates_json), ("RECEIPT.json", Some(bytes))] {
        if std::fs::read(walk.dir.join(&dir).join(name)).ok() != bytes {
            differs(format!("{dir}/{name} is not what follows from the evidence"));
        }
    }
    let refusals = change::refusals(&ending);
    let place = ending.judged.place;
    let told = walk.events[..at].iter().rev().map(|event| &event.fact).take_while(|fact| is_refusal(fact, place));
    if told.ne(refusals.iter().rev()) {
        differs("the refusals before it are not those of its gates".to_owned());
    }
    let (_, evidence) = fact.evidence().expect("BUG: a change has evidence");
    let made = Made::new(&receipt, sha256, commit, evidence);
    let now = change::end(run, ending, &receipt, made);
    let gates_now = now.change_end().map(|end| end.gates.to_vec()).unwrap_or_default();
    // Logs of before name no paths.
    let unnamed = matches!(fact, Fact::ItemEnded(ended) if ended.paths.is_empty()).then_some("paths");
    let without: Vec<&str> = ["gates", "receipt"].into_iter().chain(unnamed).collect();
    for what in payload_differences(fact, &now, &without) {
        differs(what);
    }
    if recorded_end.receipt != now.change_end().and_then(|end| end.receipt) {
        differs("it refers to another receipt".to_owned());
    }
    Ok((gates(recorded_end.gates, &gates_now, GateResult::eq), rest))
}

/// How two facts of one kind differ, member by member.
fn payload_differences(recorded: &Fact, now: &Fact, without: &[&str]) -> Vec<String> {
    let ((kind, was), (now_kind, is)) = (recorded.parts(), now.parts());
    if kind != now_kind {
        return vec![format!("on record: {}, now: {}", recorded.message(), now.message())];
    }
    fields(&was, &is, without)
}

fn is_refusal(fact: &Fact, of: Option<u32>) -> bool {
    match fact {
        // Said while its agent was at work; nobody asks again.
        Fact::PolicyViolation { gate: Gate::Tools, .. } => false,
        Fact::GateFailed { item, .. } => Some(*item) == of,
        Fact::PolicyViolation { item, .. } => item.is_some() && *item == of,
        _ => false,
    }
}

/// Applies an item's patch and runs its tests again.
pub(super) fn verify_again(walk: &mut Walk<'_, '_>, seq: u64, ended: &ItemEnded, tallies: &mut Tallies) -> Result<()> {
    let Tests::Again(machine, control) = std::mem::replace(&mut walk.tests, Tests::OnRecord) else { return Ok(()) };
    let run = walk.run.clone();
    let mut again = |item: &Item, tree: TreeId, base: TreeId| machine.accept(&run, item, id(tree), id(base));
    let ending = judge(walk, &run, ended, &mut again);
    walk.tests = Tests::Again(machine, control);
    if control.requested().is_some() {
        return Err(Error::declined("asked to stop, so nothing is known", "nothing was changed; ask again"));
    }
    let ending = match ending {
        Ok(ending) => ending,
        Err(error) => return tallies.gates.compare(Some(seq), Err(error)),
    };
    let same = |old: &GateResult, new: &GateResult| old.passed == new.passed;
    tallies.gates.compare(Some(seq), Ok(gates(&ended.gates, &ending.judged.results(), same)))?;
    let dir = format!("changes/{:03}", ended.change);
    if let Some(acceptance) = &ending.judged.tests {
        let compared = tests::on_record(&walk.dir.join(&dir)).map(|recorded| tests::compare(&recorded, acceptance));
        let (found, notes) = compared.map_or_else(|error| (Err(error), Vec::new()), |(all, notes)| (Ok(all), notes));
        tallies.tests.compare(Some(seq), found)?;
        notes.into_iter().for_each(|note| tallies.tests.note(note));
    }
    // What adds a secret is kept without it, and makes no tree.
    let passed = |gate: Gate| ending.judged.gates.iter().any(|asked| asked.gate == gate && asked.passed());
    let merged = !ending.judged.gates.iter().any(|asked| asked.gate == Gate::Merged && !asked.passed());
    if !passed(Gate::Scope) || !merged || ending.judged.change.patch.is_empty() {
        return Ok(());
    }
    let Some((before, after)) = ending.judged.change.trees else { return Ok(()) };
    match applied(walk, &dir, before, after).transpose() {
        Some(found) => tallies.patches.compare(Some(seq), found),
        None => {
            tallies
                .patches
                .note(format!("{dir}/patch.diff leaves out binary content, so only its trees were compared"));
            Ok(())
        }
    }
}

/// Whether the recorded patch makes the one tree of the other; none if it cannot say.
pub(super) fn applied(walk: &Walk<'_, '_>, dir: &str, before: TreeId, after: TreeId) -> Result<Option<Vec<Found>>> {
    let patch = walk.read(&format!("{dir}/patch.diff"))?;
    // It is norma's own, and it has passed every limit before.
    let limits = PatchLimits { patch_bytes_max: u64::MAX, result_bytes_max: u64::MAX, binary: true };
    let differs = |what: String| Ok(Some(vec![found(Some("patch"), format!("{dir}/patch.diff {what}"))]));
    match walk.with.objects.apply(id(before), &patch, &limits) {
        Ok(applied) if applied.tree == id(after) => Ok(Some(Vec::new())),
        Ok(applied) => differs(format!("makes tree {} of {before}, and {after} is on record", applied.tree)),
        Err(PatchProblem::Git(error)) => Err(error.into()),
        Err(PatchProblem::Binary | PatchProblem::BinaryDelta) => Ok(None),
        Err(problem) => differs(format!("cannot be applied to {before}: {problem}")),
    }
}
