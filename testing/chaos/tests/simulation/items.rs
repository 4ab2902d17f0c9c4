//! The judge of what became of items: from what the world knows of their agents and tests, and from the commits.

use crate::world::Outside;
use contract::{Event, Fact, ItemEnded, ItemStatus, Reason, Status, TurnEnd};
use run::Run;
use runner::git::id;

/// Everything that must hold for the items of a run that is over.
pub(crate) fn check(run: &Run, slug: &str, events: &[Event], outside: &Outside<'_>) -> Vec<String> {
    let ends: Vec<&ItemEnded> = events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::ItemEnded(ended) => Some(&**ended),
            _ => None,
        })
        .collect();
    let mut broken = check_count(run, &ends);
    for ended in &ends {
        let found = check_end(run, slug, ended, outside);
        broken.extend(found.into_iter().map(|what| format!("item {}: {what}", ended.item)));
    }
    broken.extend(check_retries(run, events));
    broken.extend(check_line(run, &ends, outside));
    broken.extend(check_acceptance(run, slug, &ends, outside));
    broken
}

/// Every item ends once, and none is left out unless the run was cut short.
fn check_count(run: &Run, ends: &[&ItemEnded]) -> Vec<String> {
    let cut_short = run.status == Status::Canceled || run.reason == Some(Reason::EvidenceLost);
    let times = |place: u32| ends.iter().filter(|ended| ended.item == place).count();
    let wrong = (0..run.started.items).filter(|place| match times(*place) {
        0 => !cut_short,
        count => count > 1,
    });
    wrong.map(|place| format!("item {place} ended {} times", times(place))).collect()
}

/// No item is tried more often than its contract says.
fn check_retries(run: &Run, events: &[Event]) -> Vec<String> {
    let mut failed = vec![0; run.items().len()];
    for event in events {
        if let Fact::StepCommitted(done) = &event.fact
            && let Some(place) = done.step.item
            && !matches!(done.end, TurnEnd::Answered | TurnEnd::Interrupted)
        {
            failed[place as usize] += 1;
        }
    }
    let tried = run.items().iter().zip(failed).filter(|(state, failed)| *failed > state.item.retries + 1);
    tried.map(|(state, failed)| format!("{} failed {failed} times", state.item.id)).collect()
}

/// An item succeeds over a turn that the world knows to be good, and over tests that passed; and it does not fail for
/// nothing.
fn check_end(run: &Run, slug: &str, ended: &ItemEnded, outside: &Outside<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let item = &run.items()[ended.item as usize].item;
    let turn = outside.turns.iter().rev().find(|turn| turn.run == slug && Some(turn.step.index) == ended.step);
    let acceptable = turn.is_some_and(|turn| turn.passes && turn.step.item == Some(ended.item));
    let judged = outside.tests.iter().rev().find(|test| test.run == slug && test.item == item.id && !test.to_land);
    let tested = item.tests.is_empty() || judged.is_some_and(|test| test.passed);
    let success = ended.status == ItemStatus::Success;
    if success && !(acceptable && tested && ended.gates.iter().all(|gate| gate.passed)) {
        broken.push(format!("it succeeded: acceptable {acceptable}, tested {tested}, {:?}", ended.gates));
    }
    let refused = match ended.reason {
        // Both depend on what others have landed, which the world does not keep.
        Some(Reason::MergeConflict | Reason::DuplicateChange) => true,
        Some(Reason::TestsFailed) => !tested,
        _ => !acceptable,
    };
    if !success && !refused {
        broken.push(format!("nothing speaks against it, but it ended {:?}: {}", ended.reason, ended.message));
    }
    broken
}

/// What succeeded is one line of commits from the base, each with what its end says, and nothing else is in it.
fn check_line(run: &Run, ends: &[&ItemEnded], outside: &Outside<'_>) -> Vec<String> {
    let (mut broken, objects) = (Vec::new(), &outside.ground.objects);
    let (mut head, mut tree) = (id(run.started.base.commit), id(run.started.base.tree));
    for ended in ends.iter().filter(|ended| ended.commit.is_some()) {
        let commit = id(ended.commit.unwrap());
        let follows = objects.parents_of(commit).unwrap() == [head] && id(ended.before) == tree;
        if ended.status != ItemStatus::Success || !follows || objects.tree_of(commit).unwrap() != id(ended.after) {
            broken.push(format!("the commit of item {} is not the next one", ended.item));
        }
        let item = &run.items()[ended.item as usize].item;
        for change in objects.diff(tree, id(ended.after)).unwrap() {
            let path = contract::RepoPath::parse_bytes(&change.path).unwrap();
            let allowed = &item.scope.allowed_paths;
            if item.read_only || !allowed.is_empty() && !allowed.iter().any(|within| path.is_within(within)) {
                broken.push(format!("item {} changed {path}", ended.item));
            }
        }
        (head, tree) = (commit, id(ended.after));
    }
    if id(run.tree()) != tree {
        broken.push("the run's tree is not the end of its line".into());
    }
    broken
}

/// A run succeeds if every item did; what lands is what succeeded, and what was merged was tested as it landed.
fn check_acceptance(run: &Run, slug: &str, ends: &[&ItemEnded], outside: &Outside<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let succeeded = |ended: &&&ItemEnded| ended.status == ItemStatus::Success;
    let all = ends.iter().filter(succeeded).count() == run.started.items as usize;
    if run.status == Status::Succeeded && !all {
        broken.push("it succeeded without every item".into());
    }
    let last = ends.iter().rev().find_map(|ended| ended.commit);
    if last.is_none() && (run.landed().is_some() || outside.moves.iter().any(|moved| moved.run == slug)) {
        broken.push("it landed nothing".into());
    }
    let Some(landing) = run.landed() else {
        if all && last.is_some() && run.status == Status::Succeeded {
            broken.push("it succeeded, but nothing landed".into());
        }
        return broken;
    };
    if !crate::checker::holds(run, landing, outside.ground) {
        broken.push(format!("what landed is not what succeeded: {landing:?}"));
    }
    if last == Some(landing.commit) {
        return broken;
    }
    let merged = outside.ground.tree_of(landing.commit);
    for ended in ends.iter().filter(succeeded) {
        let item = &run.items()[ended.item as usize].item;
        let mut tests = outside.tests.iter().rev();
        let test = tests.find(|test| test.run == slug && test.item == item.id && test.to_land && test.tree == merged);
        if !item.tests.is_empty() && !test.is_some_and(|test| test.passed) {
            broken.push(format!("the merged result was not tested for {}", item.id));
        }
    }
    broken
}
