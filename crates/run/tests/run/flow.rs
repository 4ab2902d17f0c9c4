//! A run is what all workflows share and one workflow: what each of them has of the other, and what a copy of it costs.

use crate::bundle::{Ends, item};
use crate::history::{History, budgets, contract, run_id};
use contract::{Contract, Fact, ItemAdded, Role, Workflow};
use run::Run;

#[test]
fn whoever_follows_a_log_comes_to_the_same_state_without_keeping_the_one_before() {
    let mut history = History::new(3, 0);
    history.failing_round();
    let mut followed = Run::start(run_id(), &history.events[0]).unwrap();
    for event in &history.events[1..] {
        followed.advance(event).unwrap();
    }
    assert_eq!(followed, history.run);
    let again = history.events[3].clone();
    assert_eq!(followed.advance(&again).unwrap_err().seq, again.seq);
}

#[test]
fn copies_of_a_run_share_what_grows_with_it() {
    let mut history = History::new(3, 0);
    history.failing_round();
    let copy = history.run.clone();
    assert_eq!(copy.steps().len(), 3);
    history.answered(Role::Act);
    assert_eq!((copy.steps().len(), history.run.steps().len()), (3, 4));
    assert!(std::sync::Arc::ptr_eq(&copy.steps()[0], &history.run.steps()[0]), "records are shared one by one");
}

#[test]
fn facts_of_one_workflow_are_illegal_in_another() {
    let mut history = History::new(3, 0);
    let added = ItemAdded { index: 0, item: item("a", Ends::Landed), earlier: None, addition: None };
    assert_eq!(history.refuse(Fact::ItemAdded(Box::new(added))), "a loop has no items");
    assert_eq!(history.run.items().len(), 0);
    let items = vec![item("a", Ends::Landed)];
    let terms = Contract { workflow: Workflow::Batch, items, ..contract(budgets(3), 0) };
    let mut history = History::of_items(terms);
    let started = Fact::ChangeStarted { change: 1, step: 1, before: history.run.tree().to_owned() };
    history.refuse(started.clone());
    let illegal = history.run.clone().apply(&history.next_event(started)).unwrap_err();
    assert_eq!(illegal.why, "a batch has no rounds");
    assert_eq!((history.run.verdict(), history.run.changes(), history.run.open_change()), (None, 0, None));
}
