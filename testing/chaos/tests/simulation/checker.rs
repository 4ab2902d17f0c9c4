//! The judge. It knows what the world was asked, what it answered and what was told, and holds the log, the index
//! and the branch against that.

use crate::ground::Ground;
use crate::place::{compare, dump, entries, walk};
use crate::world::{KEYS, Outside, TRUST};
use crate::{items, receipts};
use contract::{Event, Fact, Landing, Reason, Status, TurnEnd, Verdict};
use run::Run;
use runner::git::{Merged, id, recorded};
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use store::{Layout, Reader, Store};

/// Everything on disk: files by digest and rows of the index.
pub(crate) fn snapshot(layout: &Layout) -> BTreeMap<String, String> {
    let mut all = index(layout);
    for path in walk(&layout.state) {
        let name = path.strip_prefix(&layout.state).unwrap().to_string_lossy().into_owned();
        if path.is_file() && !name.starts_with("norma.db") {
            all.insert(name, contract::hash::sha256(&std::fs::read(&path).unwrap()).to_string());
        }
    }
    all
}

fn index(layout: &Layout) -> BTreeMap<String, String> {
    dump(&Connection::open_with_flags(layout.db(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap())
}

/// Recovery that has just been done writes nothing when it is done again.
pub(crate) fn check_idempotence(store: &Store) -> Vec<String> {
    let reader = Reader::open(&store.layout).unwrap();
    for run in reader.runs(None).unwrap() {
        store.sync_mirror(&run.run_id).unwrap();
    }
    let before = snapshot(&store.layout);
    store::recover(store, &|said| KEYS.sign(said)).unwrap();
    compare(&before, &snapshot(&store.layout)).into_iter().map(|what| format!("recovery again: {what}")).collect()
}

/// Everything that must hold when the day is over. Answers what does not.
pub(crate) fn judge(store: &Store, outside: &Outside<'_>) -> Vec<String> {
    let mut broken = check_idempotence(store);
    let reader = Reader::open(&store.layout).unwrap();
    for view in reader.runs(None).unwrap() {
        let slug = view.run_id;
        let (id, events, _) = reader.log(&slug).unwrap();
        let run = Run::fold(id, &events).unwrap();
        let mut found = check_told(&slug, &events, outside);
        if !run.status.is_terminal() {
            found.push(format!("it ends {}", run.status));
        }
        if run.items().is_empty() {
            found.extend(check_pass(&run, &slug, &events, outside));
        } else {
            found.extend(items::check(&run, &slug, &events, outside));
        }
        found.extend(check_moves(&slug, &events, outside));
        found.extend(check_budgets(&run, &events));
        found.extend(check_verified(&reader, &run, &slug, outside));
        broken.extend(found.into_iter().map(|what| format!("{slug}: {what}")));
    }
    broken.extend(receipts::check(&store.layout, &reader, outside));
    broken.extend(check_index(store));
    broken.extend(check_quarantine(&store.layout));
    broken
}

/// Only what does not belong was moved aside: strays, directories that no run has, changes that do not verify.
fn check_quarantine(layout: &Layout) -> Vec<String> {
    let aside = entries(&layout.quarantine());
    let mirrors = aside.iter().filter(|path| path.to_string_lossy().ends_with("events.jsonl"));
    mirrors.map(|path| format!("a mirror that a crash cut short was taken for a forgery: {}", path.display())).collect()
}

/// No fact that was told is missing or different.
fn check_told(slug: &str, events: &[Event], outside: &Outside<'_>) -> Vec<String> {
    let told = outside.told.iter().filter(|(run, _)| run == slug);
    let lost = told.filter(|(_, event)| events.get(event.seq as usize - 1) != Some(event));
    lost.map(|(_, event)| format!("told and lost: {event:?}")).collect()
}

/// A run succeeds only over a PASS that the world knows to be one, on exactly the tree that landed.
fn check_pass(run: &Run, slug: &str, events: &[Event], outside: &Outside<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    for event in events {
        let Fact::Verdict(given) = &event.fact else { continue };
        let turn = outside.turns.iter().find(|turn| turn.run == slug && turn.step == given.step);
        let worth = turn.map(|turn| turn.passes);
        if worth != Some(given.verdict == Verdict::Pass) {
            broken.push(format!("{:?} counts for a turn that passes: {worth:?}", given.verdict));
        }
        if turn.is_some_and(|turn| given.verdict == Verdict::Pass && turn.tree != run.tree()) {
            broken.push("the PASS was given for another tree than the run ends with".into());
        }
    }
    let passed = events.iter().rev().find_map(|event| match &event.fact {
        Fact::Verdict(given) => Some(given.verdict == Verdict::Pass),
        _ => None,
    });
    if run.status == Status::Succeeded && passed != Some(true) {
        broken.push("it succeeded without a PASS".into());
    }
    let landed = run.landed().is_some_and(|landing| holds(run, landing, outside.ground));
    if run.status == Status::Succeeded && run.tree() != run.started.base.tree && !landed {
        broken.push(format!("it succeeded, but what landed is {:?}", run.landed()));
    }
    broken
}

/// Whether what landed is the run's tree, or that merged with what the user has made of the branch meanwhile.
pub(crate) fn holds(run: &Run, landing: &Landing, ground: &Ground) -> bool {
    let (objects, tree) = (&ground.objects, ground.tree_of(landing.commit));
    let base = &run.started.base;
    if !landing.checkout || landing.from == Some(base.commit) {
        return tree == id(run.tree());
    }
    let [onto] = objects.parents_of(id(landing.commit)).unwrap()[..] else { return false };
    let theirs = objects.tree_of(onto).unwrap();
    let merged = objects.merge(id(base.tree), id(run.tree()), theirs).unwrap();
    landing.from == Some(recorded(onto)) && merged == Merged::Tree(tree)
}

/// The branch moves at most once for a run, and only for one that says so.
fn check_moves(slug: &str, events: &[Event], outside: &Outside<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let moves: Vec<_> = outside.moves.iter().filter(|moved| moved.run == slug).collect();
    if moves.windows(2).any(|two| two[0].user_moves == two[1].user_moves) {
        broken.push("the branch was moved twice".into());
    }
    let landed = events.iter().find_map(|event| match &event.fact {
        Fact::Landed(landing) if landing.checkout => Some(&landing.commit),
        _ => None,
    });
    if let Some(commit) = landed
        && !moves.iter().any(|moved| moved.commit == *commit)
    {
        broken.push("it says landed, but the branch was never moved".into());
    }
    let undisturbed = moves.last().is_some_and(|last| last.user_moves == outside.user_moves);
    // A run that was frozen between the move and its record says only what it was about to do.
    let frozen = outside.spoilt.iter().any(|spoilt| spoilt == slug);
    let intended = |event: &Event| matches!(&event.fact, Fact::LandingStarted(landing) if landing.checkout);
    let is_told = landed.is_some() || frozen && events.iter().any(intended);
    if !is_told && undisturbed {
        broken.push("the branch was moved, and nobody says so".into());
    }
    broken
}

/// No budget was exceeded by what was done, only by what was refused.
fn check_budgets(run: &Run, events: &[Event]) -> Vec<String> {
    let mut broken = Vec::new();
    let contract = &run.started.contract;
    let mut errors = BTreeMap::new();
    for event in events {
        match &event.fact {
            Fact::StepStarted { step, .. } if step.iteration > contract.budgets.max_iterations => {
                broken.push(format!("iteration {} was begun", step.iteration));
            }
            Fact::StepCommitted(done) if done.end == TurnEnd::ProtocolError && done.step.item.is_none() => {
                *errors.entry((done.step.role, done.step.iteration)).or_insert(0) += 1;
            }
            Fact::PatchApplied(applied) => {
                let files = contract.budgets.max_changed_files.is_some_and(|max| applied.files.len() > max as usize);
                let kb = contract.budgets.max_patch_kb.is_some_and(|max| applied.patch_bytes > u64::from(max) << 10);
                if files || kb || applied.files.contains(&"l".to_owned()) {
                    broken.push(format!("change {} was applied", applied.change));
                }
            }
            _ => {}
        }
    }
    if errors.values().any(|count| *count > contract.limits.protocol_retries.unwrap_or_default() + 1) {
        broken.push(format!("more retries than allowed: {errors:?}"));
    }
    broken
}

/// A run is what its log says, unless somebody spoilt it: then it says that, loudly, and does not verify.
fn check_verified(reader: &Reader, run: &Run, slug: &str, outside: &Outside<'_>) -> Vec<String> {
    let verified = runner::verify_run(reader, &TRUST, slug).unwrap();
    if outside.spoilt.iter().any(|spoilt| spoilt == slug) {
        let frozen = run.status == Status::Failed && run.reason == Some(Reason::EvidenceLost);
        // No digest in the chain vouches for a reconciled step before the run is sealed, which a frozen one never is.
        let lost = |end: TurnEnd, dir: &Option<String>| end == TurnEnd::Interrupted && dir.is_some();
        let of_items = run.items().iter().flat_map(|state| &state.turns).any(|turn| lost(turn.end, &turn.dir));
        let unanchored = of_items || run.steps().iter().any(|step| lost(step.end, &step.dir));
        let noticed = frozen && (!verified.verified || unanchored);
        return if noticed { vec![] } else { vec![format!("spoilt evidence went unnoticed: {}", run.status)] };
    }
    let problems = verified.checks.iter().flat_map(|check| &check.problems);
    problems.map(|problem| format!("does not verify: {problem}")).collect()
}

/// The index tables are what the logs make of them.
fn check_index(store: &Store) -> Vec<String> {
    let derived = |layout: &Layout| -> BTreeMap<String, String> {
        index(layout).into_iter().filter(|(name, _)| !name.starts_with("audit ")).collect()
    };
    let before = derived(&store.layout);
    store::reindex(store).unwrap();
    compare(&before, &derived(&store.layout)).into_iter().map(|what| format!("reindex: {what}")).collect()
}
