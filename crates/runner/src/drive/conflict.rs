//! A result that commits of the user's branch are in the way of. It goes back to the task that the paths belong to, as the contract
//! of a fix that has both sides; where nobody fixes it, the run's line is what it was before, and goes to a branch of its own.

use super::pipeline::{Adding, fix, fixes_of, tried};
use crate::Result;
use crate::change::conflict::both_sides;
use crate::change::{Sides, merge_without, text_bytes_max, with_paths_of};
use crate::git::{Conflict, Merged, ObjectId, Objects, id, recorded};
use crate::landing::merged_spec;
use crate::record::Driver;
use contract::pipeline::{Cause, ContractMade, FailedEvidence, FixAttempt, LineMoved};
use contract::{Fact, ItemBase, PipelineFact, RepoPath, TreeId, hash};
use run::Run;
use run::workflow::pipeline::State;
use store::{Preparing, Writing, crash, now};

/// A result on a commit of the user's branch, but for what conflicts with it.
pub(crate) struct Met {
    sides: Sides,
    onto: ItemBase,
    pub(crate) head: ItemBase,
    found: Vec<Conflict>,
}

/// Puts what a run has made on a commit, but for what conflicts with it; none where nothing does, or that cannot be either.
pub(crate) fn meet(objects: &Objects, run: &Run, onto: ObjectId) -> Result<Option<Met>> {
    let theirs = recorded(objects.tree_of(onto)?);
    let sides = Sides { base: run.ground().tree, ours: run.tree(), theirs };
    let Merged::Conflicts(found) = objects.merge(id(sides.base), id(sides.ours), id(theirs))? else { return Ok(None) };
    let Some(tree) = merge_without(objects, run.started.contract.rules, sides, &paths(&found))? else {
        return Ok(None);
    };
    let commit = recorded(objects.commit(&merged_spec(run, onto, id(tree)))?);
    let onto = ItemBase { commit: recorded(onto), tree: theirs };
    Ok(Some(Met { sides, onto, head: ItemBase { commit, tree }, found }))
}

fn paths(found: &[Conflict]) -> Vec<Vec<u8>> {
    found.iter().map(|conflict| conflict.path.clone()).collect()
}

/// Has whoever owns what conflicts with a commit of the user's branch fix it there; false where nobody can.
pub(crate) fn hand_back(driver: &mut Driver<'_, '_>, onto: ObjectId) -> Result<bool> {
    let state = driver.run.pipeline().filter(|state| state.given_up().is_none()).cloned();
    let Some(state) = state else { return Ok(false) };
    let Some(met) = meet(driver.objects, &driver.run, onto)? else { return Ok(false) };
    let Some(owner) = owner(&state, &met.found) else { return Ok(false) };
    let number = state.next_conflict();
    let dir = LineMoved::dir_of(number);
    let files = evidence(driver, &met)?;
    let hashed =
        files.iter().map(|(name, bytes)| FailedEvidence { path: format!("{dir}/{name}"), sha256: hash::sha256(bytes) });
    let fixed = fixed(driver, &state, owner, &met, hashed.collect())?;
    driver.objects.pin(&format!("runs/{}/{dir}", driver.run.id.slug()), id(met.head.commit))?;
    let target = driver.run_dir().join(&dir);
    store::make_way(driver.store, &target, "its conflict is not on record")?;
    let mut keeping = Preparing::new(&target);
    for (name, bytes) in &files {
        keeping.write(name, bytes)?;
    }
    let moved = LineMoved {
        conflict: number,
        from: driver.run.line().head.clone(),
        onto: met.onto,
        head: met.head,
        owner,
        findings: findings(&met.found),
        evidence: keeping.evidence(),
    };
    let facts = [PipelineFact::LineMoved(Box::new(moved))].into_iter().chain(fixed).map(Fact::Pipeline).collect();
    let points = ["change.before_rename", "change.after_rename"];
    let prepared = keeping.finish(&driver.run.id.slug(), &dir, now(), facts, Writing::AtOnce, points)?;
    driver.record(prepared.facts, prepared.files)?;
    crash::point("change.after_submit");
    Ok(true)
}

/// Who fixes what conflicts. A path that no contract can name belongs to nobody.
fn owner(state: &State, found: &[Conflict]) -> Option<u32> {
    let paths: Vec<RepoPath> =
        found.iter().map(|conflict| RepoPath::parse_bytes(&conflict.path).ok()).collect::<Option<_>>()?;
    state.owner_of(&paths)
}

/// What conflicts, as far as it fits into the log.
pub(crate) fn findings(found: &[Conflict]) -> Vec<String> {
    let shown = |conflict: &Conflict| format!("{}: {}", run::gate::shown(&conflict.path), conflict.kind);
    run::bounded(found.iter().map(shown).collect())
}

impl Met {
    /// What conflicts, as it goes on record.
    pub(crate) fn findings(&self) -> Vec<String> {
        findings(&self.found)
    }
}

/// Both sides, and what of the result is not there any more.
fn evidence(driver: &Driver<'_, '_>, met: &Met) -> Result<[(&'static str, Vec<u8>); 2]> {
    let (objects, sides) = (driver.objects, met.sides);
    let both = both_sides(objects, sides, met.found.clone())?;
    let both = contract::json::pretty(&both);
    let ours: Option<TreeId> = with_paths_of(objects, sides.base, sides.ours, &paths(&met.found))?;
    let bytes_max = text_bytes_max(driver.run.started.contract.rules);
    let patch = objects.diff_text(id(sides.base), id(ours.unwrap_or(sides.ours)), bytes_max)?;
    Ok([("conflicts.json", both), ("patch.diff", patch)])
}

/// The contract of the fix, or that there is none any more.
fn fixed(
    driver: &mut Driver<'_, '_>,
    state: &State,
    owner: u32,
    met: &Met,
    evidence: Vec<FailedEvidence>,
) -> Result<Vec<PipelineFact>> {
    let cause = Cause::Conflict;
    let (Ok(task), item) = (state.task(owner), &state.items.items[owner as usize].item) else { return Ok(Vec::new()) };
    let Some((attempts, original)) = fixes_of(state, task) else { return Ok(Vec::new()) };
    let task_id = original.task_id.clone();
    let next = if attempts >= original.timeout_retry.max_retries {
        let tried = run::bounded(tried(state, owner));
        PipelineFact::FixLoopExhausted { item: owner, task_id: task_id.clone(), attempts, tried }
    } else {
        let attempt = attempts + 1;
        let (contract, mut fix) = fix(driver, original, (cause, attempt), &evidence)?;
        // What a change is held to, its fix is held to.
        fix.tests.clone_from(&item.tests);
        let added = Adding::to(&driver.run).add(fix);
        let contract = ContractMade { document: crate::change::contracts::document(&contract), added };
        let (base, tree) = (met.head.clone(), met.head.tree);
        let parent_task_id = task_id.clone();
        PipelineFact::FixLoopAttempt(Box::new(FixAttempt {
            contract,
            of: owner,
            parent_task_id,
            attempt,
            cause,
            base,
            tree,
        }))
    };
    Ok(vec![PipelineFact::FixLoopTriggered { item: owner, task_id, cause, evidence }, next])
}

/// That a conflict stays, and what came of its fixes.
pub(super) fn give_up(state: &State, place: u32) -> Vec<PipelineFact> {
    let Some(head) = state.line_before().cloned() else { return Vec::new() };
    let item = &state.items.items[place as usize];
    let why = match item.ended().filter(|ended| !ended.message.is_empty()) {
        Some(ended) => format!("{}: {}", item.item.id, ended.message),
        None => format!("{} has no fix left", item.item.id),
    };
    vec![PipelineFact::LineRestored { item: place, head, why: run::bounded(vec![why]).remove(0) }]
}
