//! Runs of items that continue from another one: what stays done, where an agent begins that comes after one that was cut off,
//! and when a budget has stopped items at all.

use crate::bundle::{Ends, batch, item};
use crate::history::{self, History, budgets, earlier, tree};
use contract::{
    Contract, Earlier, Fact, ItemAdded, ItemEnded, ItemStatus, Reason, Slug, Status, StepCommitted, TreeId, TurnEnd,
    Usage, Workflow,
};
use run::{Due, Unfinished};

/// A contract of these items, of which the second needs the first.
fn contract() -> Contract {
    let mut items = vec![item("a", Ends::Landed), item("b", Ends::Landed)];
    items[1].needs = vec!["a".to_owned()];
    Contract { workflow: Workflow::Batch, task_id: None, items, ..history::contract(budgets(3), 0) }
}

/// How the first of them ended in the run before.
fn ended() -> ItemEnded {
    let parent = batch(&[("a", Ends::Landed)]);
    parent.history.run.items()[0].ended().expect("it has ended").clone()
}

fn done(ended: ItemEnded) -> Option<Earlier> {
    Some(Earlier::Done { run: earlier(), ended: Box::new(ended) })
}

fn unfinished(base: TreeId) -> Option<Earlier> {
    Some(Earlier::Unfinished { run: earlier(), base, tree: tree("half") })
}

/// Opens the turn that is due and ends it like this.
fn take(history: &mut History, edit: impl FnOnce(&mut StepCommitted), end: TurnEnd) -> Fact {
    let step = history.due_turn();
    let place = step.item.expect("it is about an item");
    history.record(Fact::StepStarted { step, base: Some(history.run.base_for(place)), taken: None });
    history.wait_ms(1000);
    let mut done = history::committed(step, end, false);
    edit(&mut done);
    Fact::StepCommitted(done)
}

#[test]
fn what_succeeded_before_stays_done_and_what_needs_it_may_start() {
    let history = History::after(Some(earlier()), contract(), vec![done(ended()), None]);
    assert_eq!(history.due_turn().item, Some(1), "nothing is due of the first");
    let first = &history.run.items()[0];
    assert_eq!((first.done_by(), first.ended_here()), (Some(earlier()), None));
    assert_eq!(history.run.line().head.commit, history.run.started.base.commit, "it is part of the base");
}

#[test]
fn only_what_passed_every_gate_of_the_same_item_stays_done() {
    let refused = |parent: Option<Slug>, edit: fn(&mut ItemEnded)| {
        let mut ended = ended();
        edit(&mut ended);
        let (mut history, mut items) = History::before_items(parent, contract());
        let added = ItemAdded { index: 0, item: items.remove(0), earlier: done(ended), addition: None };
        history.refuse(Fact::ItemAdded(Box::new(added)));
    };
    refused(None, |_| {});
    refused(Some(earlier()), |ended| ended.item = 1);
    refused(Some(earlier()), |ended| ended.gates[2].passed = false);
    refused(Some(earlier()), |ended| drop(ended.gates.pop()));
    refused(Some(earlier()), |ended| {
        (ended.status, ended.reason) = (ItemStatus::Denied, Some(Reason::PolicyViolation));
        ended.message = "no".into();
    });
}

#[test]
fn an_agent_begins_where_another_was_cut_off_only_on_the_same_base() {
    let history =
        History::after(Some(earlier()), contract(), vec![unfinished(history::BASE_TREE), unfinished(tree("other"))]);
    let shown = |place: u32| history.run.items()[place as usize].shown_on(&history.run.base_for(place)).to_owned();
    assert_eq!((shown(0), shown(1)), (tree("half"), history::BASE_TREE));
}

#[test]
fn the_tree_of_a_turn_that_was_cut_off_is_kept_and_never_judged() {
    let cut_off = |done: &mut StepCommitted| {
        (done.reason, done.tree) = (Some(Reason::BudgetExceeded), Some(tree("half")));
    };
    let mut history = History::of_items(contract());
    let fact = take(&mut history, cut_off, TurnEnd::Failed);
    history.record(fact);
    let made = Unfinished { base: history::BASE_TREE, tree: tree("half") };
    assert_eq!(history.run.items()[0].unfinished(), Some(made));
    match &history.run.items()[0].stage {
        run::ItemStage::Worked(worked) => assert_eq!(worked.tree, None),
        other => panic!("{other:?}"),
    }
    let mut history = History::of_items(contract());
    let failed = take(&mut history, |done| done.tree = Some(tree("half")), TurnEnd::Failed);
    history.refuse(failed);
    let mut history = History::of_items(contract());
    let answered = take(&mut history, |done| done.tree = None, TurnEnd::Answered);
    history.refuse(answered);
}

#[test]
fn a_turn_that_was_interrupted_goes_on_where_it_was_and_one_that_failed_does_not() {
    let shown_after = |saved: Option<&str>, end: &dyn Fn(&mut History, contract::StepRef)| {
        let mut history = History::of_items(contract());
        let step = history.due_turn();
        history.record(Fact::StepStarted { step, base: Some(history.run.base_for(0)), taken: None });
        if let Some(name) = saved {
            history.record(Fact::WorkSaved { step, tree: tree(name) });
        }
        end(&mut history, step);
        let item = &history.run.items()[0];
        item.shown_on(&history.run.base_for(0))
    };
    let lost = |history: &mut History, step| {
        history.record(Fact::StepInterrupted { step });
    };
    let ended = |end: TurnEnd, left: Option<&'static str>| {
        move |history: &mut History, step| {
            let mut done = history::committed(step, end, false);
            done.tree = left.map(tree);
            history.record(Fact::StepCommitted(done));
        }
    };
    assert_eq!(shown_after(None, &lost), history::BASE_TREE);
    assert_eq!(shown_after(Some("half"), &lost), tree("half"));
    assert_eq!(shown_after(Some("half"), &ended(TurnEnd::Interrupted, None)), tree("half"));
    assert_eq!(shown_after(Some("half"), &ended(TurnEnd::Interrupted, Some("more"))), tree("more"));
    assert_eq!(shown_after(Some("half"), &ended(TurnEnd::Failed, None)), history::BASE_TREE);
}

#[test]
fn what_is_kept_of_a_turn_is_kept_while_it_is_open() {
    let mut history = History::of_items(contract());
    let step = history.due_turn();
    history.refuse(Fact::WorkSaved { step, tree: tree("half") });
}

/// How a run of one item ends whose turn took so long and used so many tokens, and ended like this.
fn check(minutes: u64, tokens: u64, (end, reason): (TurnEnd, Reason), expected: (Status, &str)) {
    let mut terms = contract();
    terms.items.truncate(1);
    terms.budgets.max_tokens = Some(100);
    let mut history = History::of_items(terms);
    let used = Usage { input_tokens: tokens, ..Usage::default() };
    let fact = take(&mut history, |done| (done.reason, done.usage) = (Some(reason), Some(used)), end);
    history.wait_ms(minutes * 60_000);
    history.record(fact);
    let status = if end == TurnEnd::TimedOut { ItemStatus::Timeout } else { ItemStatus::Failure };
    let refused = ItemEnded {
        status,
        reason: Some(reason),
        message: "no".into(),
        before: history::BASE_TREE,
        after: history::BASE_TREE,
        commit: None,
        ..ended()
    };
    history.record(Fact::ItemEnded(Box::new(refused)));
    let Due::End { status, budget, .. } = history.run.next() else { panic!("{:?}", history.run.next()) };
    let more = budget.as_ref().map(contract::BudgetExceeded::more).unwrap_or_default();
    assert_eq!((status, more.as_str()), expected);
    if let Some(over) = budget {
        history.record(Fact::BudgetExceeded(over.clone()));
        assert_eq!(history.run.exceeded(), Some(&over));
    }
}

#[test]
fn a_run_of_items_is_stopped_by_what_its_agents_used_up_together() {
    let (out_of_budget, too_long) =
        ((TurnEnd::Failed, Reason::BudgetExceeded), (TurnEnd::TimedOut, Reason::AgentTimeout));
    check(1, 150, out_of_budget, (Status::Stopped, "max_tokens=300"));
    check(60, 0, too_long, (Status::Stopped, "max_minutes=122"));
    check(1, 0, too_long, (Status::TimedOut, ""));
    check(1, 150, (TurnEnd::Failed, Reason::AgentFailed), (Status::Failed, ""));
}
