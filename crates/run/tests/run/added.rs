//! Items that are added to a run of items while it lives: what they may be, where they come in, and what its contract then is.

use crate::bundle::{Ends, item};
use crate::history::{self, History, budgets, committed, end, landing};
use crate::items_property::agent;
use contract::{
    Addition, Contract, Event, Fact, Item, ItemAdded, ItemEnded, ItemStatus, Reason, RepoPath, Status, StepCommitted,
    TurnEnd, Workflow,
};
use run::{Due, Run};

fn contract_of(ids: &[&str]) -> Contract {
    let items = ids.iter().map(|id| item(id, Ends::Landed)).collect();
    Contract { workflow: Workflow::Batch, task_id: None, items, ..history::contract(budgets(3), 0) }
}

fn items(ids: &[&str]) -> History {
    History::of_items(contract_of(ids))
}

fn needing(id: &str, needs: &[&str]) -> Item {
    Item { needs: needs.iter().map(|need| (*need).to_owned()).collect(), ..item(id, Ends::Landed) }
}

/// Adds an item as somebody does who asks the run for the fact.
#[track_caller]
fn add(history: &mut History, item: Item) {
    match history.run.add_item(item, Some(agent())) {
        Ok(fact) => drop(history.record(fact)),
        Err(why) => panic!("{why}"),
    }
}

fn refused(history: &History, item: Item) -> String {
    history.run.add_item(item, Some(agent())).expect_err("it should be refused")
}

/// The places of the items whose turns are due.
fn due(run: &Run) -> Vec<u32> {
    let place = |due| match due {
        Due::Turn(step) => step.item,
        Due::Item { item } => Some(item),
        _ => None,
    };
    run.due().filter_map(place).collect()
}

/// Has an item do its work and succeed, with a commit of its own.
#[track_caller]
fn finish(history: &mut History, place: u32) {
    work(history, place);
    land(history, place);
}

#[track_caller]
fn work(history: &mut History, place: u32) {
    let of_item = |due| matches!(due, Due::Turn(step) if step.item == Some(place)).then_some(due);
    let Some(Due::Turn(step)) = history.run.due().find_map(of_item) else { panic!("a turn of {place} should be due") };
    history.record(Fact::StepStarted { step, base: Some(history.run.base_for(place)), taken: None });
    let tree = Some(history::tree(&format!("made-{place}")));
    history.record(Fact::StepCommitted(StepCommitted { tree, ..committed(step, TurnEnd::Answered, false) }));
}

pub(crate) fn success(history: &History, place: u32) -> Fact {
    let parent = crate::bundle::batch(&[("a", Ends::Landed)]);
    let ended = parent.history.run.items()[0].ended().expect("it has ended").clone();
    Fact::ItemEnded(Box::new(ItemEnded {
        item: place,
        change: place + 1,
        step: history.run.items()[place as usize].worked().map(|worked| worked.step.index),
        before: history.run.tree().to_owned(),
        after: history::tree(&format!("tree-of-{place}")),
        commit: Some(history::commit(&format!("commit-of-{place}"))),
        ..ended
    }))
}

#[track_caller]
fn land(history: &mut History, place: u32) {
    let fact = success(history, place);
    history.record(fact);
}

#[test]
fn an_item_that_is_added_is_due_with_those_of_the_level_and_lands_after_them() {
    let mut history = items(&["a", "b"]);
    work(&mut history, 0);
    add(&mut history, item("c", Ends::Landed));
    add(&mut history, item("d", Ends::Landed));
    assert_eq!(due(&history.run), [0, 1, 2, 3]);
    assert_eq!(history.run.base_for(2), history.run.base_for(1), "all of a level start from the same commit");
    work(&mut history, 3);
    for place in [0, 1, 2, 3] {
        let others = (0..4).filter(|other| *other != place);
        assert!(history.run.may_land(place) && !others.into_iter().any(|other| history.run.may_land(other)));
        if history.run.items()[place as usize].worked().is_none() {
            work(&mut history, place);
        }
        land(&mut history, place);
    }
    assert_eq!(history.run.next(), Due::Land);
    history.land("refs/heads/main");
    assert_eq!(history.finish(), Status::Succeeded);
}

#[test]
fn levels_of_others_stay_as_they_were_and_what_is_needed_comes_first() {
    let mut history = items(&["a", "b"]);
    add(&mut history, needing("c", &["a"]));
    add(&mut history, needing("d", &["c", "b"]));
    let levels = |history: &History| history.run.items().iter().map(|state| state.level).collect::<Vec<_>>();
    assert_eq!(levels(&history), [0, 0, 1, 2]);
    finish(&mut history, 0);
    finish(&mut history, 1);
    assert_eq!(due(&history.run), [2]);
    // The first level is past: what needs nothing is part of the one that is worked on.
    add(&mut history, item("e", Ends::Landed));
    assert_eq!(levels(&history), [0, 0, 1, 2, 1]);
    assert_eq!(due(&history.run), [2, 4]);
    assert_eq!(history.run.base_for(4).commit, history::commit("commit-of-1"), "it starts from what has landed");
}

#[test]
fn what_is_added_when_all_have_ended_starts_from_what_they_made() {
    let mut history = items(&["a"]);
    finish(&mut history, 0);
    assert_eq!(history.run.next(), Due::Land);
    add(&mut history, item("b", Ends::Landed));
    assert_eq!((due(&history.run), history.run.items()[1].level), (vec![1], 1));
    assert_eq!(history.run.base_for(1).commit, history::commit("commit-of-0"));
    let started = history.next_event(Fact::LandingStarted(landing("refs/heads/main")));
    assert_eq!(history.run.clone().apply(&started).unwrap_err().why, "only a result that was judged lands");
    assert!(history.run.admits(&started.fact).is_err());
}

#[test]
fn what_declares_the_same_paths_follows_and_what_reconciles_comes_last() {
    let path = || vec![RepoPath::parse("src").unwrap()];
    let scoped = |id: &str| {
        let mut scoped = item(id, Ends::Landed);
        scoped.scope.allowed_paths = path();
        scoped
    };
    let mut reconciler = item("r", Ends::Landed);
    reconciler.agent_id = "agent-0".to_owned();
    let terms = history::contract(budgets(3), 0);
    let all = vec![scoped("a"), reconciler];
    let mut history = History::of_items(Contract { workflow: Workflow::Batch, task_id: None, items: all, ..terms });
    add(&mut history, scoped("b"));
    assert_eq!((due(&history.run), history.run.items()[2].blocked_by), (vec![0], Some(0)));
    finish(&mut history, 0);
    assert_eq!(due(&history.run), [2], "the reconciler waits for what was added, too");
    assert_eq!(history.run.base_for(2).commit, history::commit("commit-of-0"));
    finish(&mut history, 2);
    work(&mut history, 1);
    add(&mut history, item("c", Ends::Landed));
    assert_eq!(history.run.items()[3].level, 1, "nothing is added to what is being reconciled");
    assert_eq!(due(&history.run), [1]);
}

#[test]
fn the_digest_of_the_contract_covers_what_was_added() {
    let mut history = items(&["a"]);
    let first = history.run.started.contract_digest;
    assert_eq!((history.run.contract_digest(), history.run.contract_digest_at(0)), (first, first));
    add(&mut history, item("b", Ends::Landed));
    let second = history.run.contract_digest();
    let item_b = item("b", Ends::Landed);
    assert_eq!(second, Addition::new(&first, &item_b, Some(agent())).contract);
    add(&mut history, item("c", Ends::Landed));
    let third = history.run.contract_digest();
    assert_eq!([0, 1, 2].map(|place| history.run.contract_digest_at(place)), [first, second, third]);
    assert!(first != second && second != third && first != third);
    assert_eq!(history.run.started.contract_digest, first, "the log starts with what it started with");
    assert_ne!(Addition::new(&first, &item_b, None).contract, second, "who carries it out is part of it");
    let loops = History::new(3, 0).run;
    assert_eq!(loops.contract_digest(), loops.started.contract_digest);
}

/// Why a fact that is not what `add_item` makes of it is illegal.
fn illegal(history: &History, edit: impl FnOnce(&mut ItemAdded)) -> String {
    let Ok(Fact::ItemAdded(mut added)) = history.run.add_item(item("z", Ends::Landed), Some(agent())) else {
        panic!("it could be added")
    };
    edit(&mut added);
    let event = history.next_event(Fact::ItemAdded(added));
    history.run.clone().apply(&event).expect_err("it should be illegal").why
}

#[test]
fn nothing_is_added_that_is_not_what_it_says() {
    let history = items(&["a"]);
    let digest = "the contract differs from its digest";
    assert_eq!(illegal(&history, |added| added.item.goal.push('!')), digest);
    let other =
        |added: &mut ItemAdded| added.addition.as_mut().unwrap().agent.as_mut().unwrap().model = Some("x".into());
    assert_eq!(illegal(&history, other), digest);
    let plain = "items come in their order, and no more than there are";
    assert_eq!(illegal(&history, |added| added.addition = None), plain);
    let after = "what is added comes after all others, and was never begun";
    assert_eq!(illegal(&history, |added| added.index = 0), after);
    let (mut before, mut first) = History::before_items(None, contract_of(&["a"]));
    let addition = Some(Addition::new(&before.run.contract_digest(), &first[0], None));
    let added = ItemAdded { index: 0, item: first.remove(0), earlier: None, addition };
    assert_eq!(before.refuse(Fact::ItemAdded(Box::new(added))), plain, "the contract's own items bring nothing along");
}

#[test]
fn an_item_has_a_new_name_needs_what_is_there_and_is_carried_out_by_somebody() {
    let mut history = items(&["a"]);
    assert_eq!(refused(&history, item("a", Ends::Landed)), "there are two items \"a\"");
    assert_eq!(refused(&history, needing("b", &["c"])), "b needs \"c\", which is not there");
    let nobody = history.run.add_item(item("b", Ends::Landed), None).unwrap_err();
    assert!(nobody.starts_with("the run has no agent"), "{nobody}");
    add(&mut history, item("b", Ends::Landed));
    assert_eq!(history.run.worker_of(&item("b", Ends::Landed)), Some(&agent()));
    assert_eq!(history.run.workers().count(), 1);
    let Ok(Fact::ItemAdded(known)) = history.run.add_item(item("c", Ends::Landed), Some(agent())) else { panic!() };
    assert_eq!(known.addition.and_then(|addition| addition.agent), None, "the run has one of that name");
    let twice = |added: &mut ItemAdded| {
        added.addition = Some(Addition::new(&history.run.contract_digest(), &added.item, Some(agent())));
    };
    assert!(illegal(&history, twice).contains("already"));
}

#[test]
fn items_are_added_while_the_run_lives_and_has_not_begun_to_land() {
    let mut history = items(&["a"]);
    history.record(Fact::RunPaused(end(Some(Reason::Interrupted))));
    add(&mut history, item("b", Ends::Landed));
    history.record(Fact::RunResumed { pid: 2 });
    finish(&mut history, 0);
    finish(&mut history, 1);
    let mut canceled = history.clone();
    canceled.record(Fact::RunCanceled(end(Some(Reason::Canceled))));
    assert_eq!(refused(&canceled, item("c", Ends::Landed)), "the run is canceled");
    let late = "nothing is added once the run begins to land";
    history.record(Fact::LandingStarted(landing("refs/heads/main")));
    assert_eq!(refused(&history, item("c", Ends::Landed)), late);
    let mut declined = history.clone();
    declined.decline();
    assert_eq!(refused(&declined, item("c", Ends::Landed)), late);
    history.record(Fact::Landed(landing("refs/heads/main")));
    assert_eq!(refused(&history, item("c", Ends::Landed)), late);
    assert_eq!(refused(&History::new(3, 0), item("c", Ends::Landed)), "a loop has no items");
}

#[test]
fn a_run_passes_only_over_what_was_added_as_well() {
    let mut history = items(&["a"]);
    finish(&mut history, 0);
    add(&mut history, item("b", Ends::Landed));
    work(&mut history, 1);
    let Fact::ItemEnded(mut failed) = success(&history, 1) else { panic!("an item ends") };
    (failed.status, failed.reason, failed.message) = (ItemStatus::Failure, Some(Reason::TestsFailed), "no".into());
    (failed.commit, failed.gates) = (None, Vec::new());
    failed.after = failed.before;
    history.record(Fact::ItemEnded(failed)).land("refs/heads/main");
    let passed = Event { seq: history.run.seq + 1, ..history.next_event(Fact::RunPassed(end(None))) };
    assert!(history.run.clone().apply(&passed).is_err());
    assert_eq!(history.finish(), Status::Failed);
}
