//! What a run waits for: questions that are asked and answered, and budgets that somebody may raise while the run lives.

use crate::bundle::{Ends, item};
use crate::history::{self, History, budgets, committed, end};
use contract::{
    Answered, ApprovalId, ApprovalWait, Budgets, Contract, Event, Fact, ItemEnded, ItemStatus, Reason, Role, Status,
    StepCommitted, StepRef, Timestamp, TurnEnd, Usage, Verdict, Wait, WaitId, WaitKind, Workflow,
};
use run::{Due, Run};

fn question(id: &str, about: Option<StepRef>) -> Wait {
    let (reasons, choices) = (vec!["which one?".to_owned()], vec!["left".to_owned(), "right".to_owned()]);
    Wait { id: id.into(), kind: WaitKind::Question, about, reasons, choices, deadline: None }
}

/// An approval of this name.
fn approval(name: &str) -> ApprovalId {
    ApprovalId::new(name.bytes().map(u64::from).sum(), [0; 10])
}

fn answered(wait: &str, choice: &str) -> Answered {
    Answered { wait: wait.into(), choice: choice.into(), by: "Ada".into(), text: None, budgets: None }
}

fn answer(wait: &str, choice: &str) -> Fact {
    Fact::Answered(Box::new(answered(wait, choice)))
}

/// Applies a fact whether or not it is due.
fn apply(run: &mut Run, fact: Fact, ms: u64) -> Result<(), String> {
    let event = Event { seq: run.seq + 1, ts: Timestamp::from_unix_ms(ms), fact };
    run.apply(&event).map_err(|illegal| illegal.why)
}

fn used(tokens: u64) -> Option<Usage> {
    Some(Usage { input_tokens: tokens, ..Usage::default() })
}

#[test]
fn a_turn_asks_and_the_run_works_on() {
    let mut history = History::new(3, 0);
    let step = history.open();
    history.record(Fact::Asked(question("q1", Some(step))));
    assert_eq!((history.run.status, history.run.waits().count()), (Status::Running, 1));
    assert_eq!(history.run.waits_for(), None, "it is the turn that waits");
    assert_eq!(history.refuse(answer("q1", "up")), "q1 cannot be answered by \"up\"");
    assert_eq!(history.refuse(answer("q2", "left")), "nobody asked q2");
    history.record(answer("q1", "left"));
    assert_eq!(history.run.waits().count(), 0);
    assert_eq!(history.run.answer_to(&"q1".into()).map(|said| said.choice.as_str()), Some("left"));
    assert_eq!(history.refuse(answer("q1", "right")), "nobody asked q1");
    assert_eq!(history.refuse(Fact::Asked(question("q1", Some(step)))), "q1 was asked before");
}

#[test]
fn what_a_turn_asked_is_over_with_it() {
    let mut history = History::new(3, 0);
    let step = history.open();
    history.record(Fact::Asked(question("q1", Some(step))));
    history.record(Fact::StepCommitted(committed(step, TurnEnd::Answered, false)));
    assert_eq!(history.run.waits().count(), 0);
    assert_eq!(history.refuse(answer("q1", "left")), "nobody asked q1");
    assert_eq!(history.refuse(Fact::Asked(question("q2", Some(step)))), "step 1 is not open");
}

#[test]
fn a_run_that_asked_waits_until_it_is_resumed() {
    let mut run = History::new(3, 0).run;
    apply(&mut run, Fact::Asked(question("q1", None)), 0).unwrap();
    assert_eq!((run.status, run.reason), (Status::Waiting, Some(Reason::AnswerRequired)));
    assert_eq!((run.next(), run.waits_for().map(|wait| wait.kind)), (Due::Nothing, Some(WaitKind::Question)));
    let start = Fact::StepStarted { step: History::new(3, 0).due_turn(), base: None, taken: None };
    assert_eq!(apply(&mut run, start, 0).unwrap_err(), "the run is waiting");
    let mut canceled = run.clone();
    apply(&mut canceled, Fact::RunCanceled(end(Some(Reason::Canceled))), 0).unwrap();
    assert_eq!((canceled.status, canceled.waits().count()), (Status::Canceled, 0));
    let mut unanswered = run.clone();
    apply(&mut unanswered, Fact::RunResumed { pid: 2 }, 0).unwrap();
    apply(&mut unanswered, Fact::Asked(question("q1", None)), 0).unwrap();
    assert_eq!(unanswered.status, Status::Waiting, "it is the same question, asked again");
    apply(&mut run, answer("q1", "left"), 0).unwrap();
    assert_eq!(run.status, Status::Waiting);
    apply(&mut run, Fact::RunResumed { pid: 2 }, 0).unwrap();
    assert_eq!((run.status, run.reason), (Status::Running, None));
}

#[test]
fn nobody_answers_after_the_deadline_or_without_words() {
    let mut run = History::new(3, 0).run;
    let deadline = Some(Timestamp::from_unix_ms(10));
    let input = Wait { kind: WaitKind::Input, choices: Vec::new(), deadline, ..question("in", None) };
    apply(&mut run, Fact::Asked(input), 0).unwrap();
    assert_eq!(apply(&mut run.clone(), answer("in", ""), 9).unwrap_err(), "in cannot be answered by \"\"");
    let words = Fact::Answered(Box::new(Answered { text: Some("blue".into()), ..answered("in", "") }));
    assert!(apply(&mut run.clone(), words.clone(), 10).unwrap_err().starts_with("in could be answered until"));
    apply(&mut run, words, 9).unwrap();
}

#[test]
fn approvals_are_waits_with_facts_of_their_own() {
    let reasons = vec!["wide".to_owned()];
    let terms = Contract { approval_for: reasons.clone(), ..history::contract(budgets(3), 0) };
    let mut history = History::under(terms);
    let asked = |id: &str, expires: u64| ApprovalWait {
        approval: approval(id),
        reasons: reasons.clone(),
        expires_at: Timestamp::from_unix_ms(expires),
    };
    history.record(Fact::RunWaiting(asked("a1", 5)));
    assert_eq!(history.run.approval_wait(), Some(asked("a1", 5)));
    assert_eq!(history.refuse(answer(&approval("a1").to_string(), "")), "an approval is used by a fact of its own");
    history.record(Fact::RunResumed { pid: 2 }).record(Fact::RunWaiting(asked("a2", 9)));
    assert_eq!(history.run.waits().count(), 1, "the one before has lapsed");
    let used = |id: &str| Fact::ApprovalUsed { approval: approval(id), by: "Ada".into() };
    history.record(Fact::RunResumed { pid: 3 }).record(used("a2"));
    assert_eq!((history.run.waits().count(), history.run.approvals()), (0, &[approval("a2")][..]));
    let step = history.open();
    history.record(Fact::ApprovalAsked { step, wait: asked("a3", 20) });
    assert_eq!(
        history.run.waits().map(|wait| (wait.kind, wait.about)).collect::<Vec<_>>(),
        [(WaitKind::Approval, Some(step))]
    );
    history.record(used("a3"));
    assert_eq!(history.run.waits().count(), 0);
    let approval = Wait { kind: WaitKind::Approval, ..question("a4", Some(step)) };
    assert_eq!(history.refuse(Fact::Asked(approval)), "approvals are asked for by facts of their own");
}

/// A loop of which somebody is there to raise the budgets.
fn attended() -> History {
    let budgets = Budgets { max_tokens: Some(100), ..budgets(1) };
    History::under(Contract { attended: true, ..history::contract(budgets, 0) })
}

fn asks(history: &History) -> Wait {
    match history.run.next() {
        Due::Ask(wait) => wait,
        other => panic!("something should be asked, not {other:?}"),
    }
}

fn end_turn(history: &mut History, end: TurnEnd, edit: impl FnOnce(&mut StepCommitted)) -> StepRef {
    let step = history.open();
    let mut done = committed(step, end, false);
    edit(&mut done);
    history.record(Fact::StepCommitted(done));
    step
}

/// Answers the question that is due, and has the run continue.
fn grant(history: &mut History, more: Budgets) {
    let wait = asks(history);
    history.record(Fact::Asked(wait.clone()));
    let fact = history.run.answer(&wait.id, "more", "Ada", None, Some(more)).expect("it is more");
    history.record(fact).record(Fact::RunResumed { pid: 2 });
}

fn stop(history: &mut History) {
    let wait = asks(history);
    history.record(Fact::Asked(wait.clone()));
    let fact = history.run.answer(&wait.id, "stop", "Ada", None, None).expect("it was asked");
    history.record(fact).record(Fact::RunResumed { pid: 2 });
}

#[test]
fn an_attended_run_asks_for_more_and_the_same_run_continues() {
    let mut history = attended();
    end_turn(&mut history, TurnEnd::Answered, |done| done.usage = used(120));
    let wait = asks(&history);
    assert_eq!((wait.kind, wait.id.0.as_str(), wait.about), (WaitKind::Budget, "budget-1", None));
    assert_eq!(wait.choices, ["more", "stop"]);
    assert_eq!(wait.reasons, ["budget max_tokens is used up: 120 of 100", "plan: 1 turn(s), 0 min 0 s, 120 tokens"]);
    history.record(Fact::Asked(wait));
    assert_eq!((history.run.status, history.run.reason), (Status::Waiting, Some(Reason::BudgetExceeded)));
    let id: WaitId = "budget-1".into();
    let given = |tokens| Some(Budgets { max_tokens: Some(tokens), ..history.run.budgets().clone() });
    let refused = |choice: &str, budgets| history.run.answer(&id, choice, "Ada", None, budgets).unwrap_err();
    assert_eq!(refused("more", None), "more of a budget says how much, and nothing else does");
    assert_eq!(refused("stop", given(200)), "more of a budget says how much, and nothing else does");
    assert_eq!(refused("more", given(100)), "these budgets are not larger than those before");
    assert_eq!(refused("more", given(90)), "these budgets are not larger than those before");
    assert_eq!(refused("more", given(110)), "that is not enough: budget max_tokens is used up: 120 of 110");
    let patches = Some(Budgets { max_patch_kb: None, ..given(200).unwrap() });
    assert_eq!(refused("more", patches), "what holds for a single change cannot be raised");
    assert_eq!(refused("less", None), "budget-1 cannot be answered by \"less\"");
    let nobody = history.run.answer(&id, "stop", " ", None, None).unwrap_err();
    assert!(nobody.starts_with("a name and a text need words"), "{nobody}");
    let fact = history.run.answer(&id, "more", "Ada", None, given(200)).unwrap();
    history.record(fact).record(Fact::RunResumed { pid: 2 });
    assert_eq!(history.run.budgets().max_tokens, Some(200));
    assert_eq!(history.due_turn().role, Role::Do);
    end_turn(&mut history, TurnEnd::Answered, |done| done.usage = used(80));
    assert_eq!(asks(&history).id.0, "budget-2", "every question has a name of its own");
}

#[test]
fn rounds_are_a_budget_that_can_be_raised() {
    let mut history = attended();
    history.failing_round().answered(Role::Act);
    assert_eq!(asks(&history).reasons[0], "budget max_iterations is used up: 2 > 1");
    grant(&mut history, Budgets { max_iterations: 2, ..attended().run.budgets().clone() });
    let next = history.due_turn();
    assert_eq!((next.role, next.iteration), (Role::Plan, 2));
    history.answered(Role::Plan);
    history.answered(Role::Do);
    history.check(Verdict::Pass, &[]);
    assert_eq!(history.finish(), Status::Succeeded);
}

#[test]
fn a_step_that_the_budget_cut_off_is_taken_again_once_there_is_more() {
    for (end, reason, ms, tokens) in [
        (TurnEnd::TimedOut, Reason::AgentTimeout, 3_600_000, 0),
        (TurnEnd::Failed, Reason::BudgetExceeded, 0, 100),
        // A call that was not let through used up nothing.
        (TurnEnd::Failed, Reason::BudgetExceeded, 0, 10),
    ] {
        let mut history = attended();
        let step = history.open();
        history.wait_ms(ms);
        let done = StepCommitted { reason: Some(reason), usage: used(tokens), ..committed(step, end, false) };
        history.record(Fact::StepCommitted(done));
        let more = Budgets { max_tokens: Some(500), max_minutes: Some(90), ..attended().run.budgets().clone() };
        grant(&mut history, more);
        let again = history.due_turn();
        assert_eq!((again.role, again.iteration, again.attempt), (step.role, 1, 2), "{reason}");
        assert!(history.run.notes()[0].contains("cut off by a budget"));
    }
}

#[test]
fn a_step_that_ran_past_its_own_deadline_is_no_question_of_budgets() {
    let mut history = attended();
    end_turn(&mut history, TurnEnd::TimedOut, |_| {});
    assert_eq!(history.finish(), Status::TimedOut);
}

#[test]
fn who_answers_stop_ends_the_run_as_one_that_nobody_attends() {
    let mut history = attended();
    end_turn(&mut history, TurnEnd::Answered, |done| done.usage = used(120));
    stop(&mut history);
    assert_eq!(history.finish(), Status::Stopped);
    assert_eq!(history.run.exceeded().map(contract::BudgetExceeded::more).as_deref(), Some("max_tokens=240"));
    let budgets = Budgets { max_tokens: Some(100), ..budgets(1) };
    let mut alone = History::under(history::contract(budgets, 0));
    end_turn(&mut alone, TurnEnd::Answered, |done| done.usage = used(120));
    assert_eq!(alone.finish(), Status::Stopped);
}

#[test]
fn only_what_is_due_is_asked() {
    let mut history = attended();
    let early = Wait { kind: WaitKind::Budget, id: "budget-1".into(), ..question("", None) };
    assert!(history.refuse(Fact::Asked(early)).ends_with("is not due now"));
    end_turn(&mut history, TurnEnd::Answered, |done| done.usage = used(120));
    let other = Wait { reasons: vec!["put otherwise".into()], ..asks(&history) };
    history.record(Fact::Asked(other));
}

/// Items side by side, of which somebody is there to raise the budgets.
fn attended_items(ids: &[&str]) -> History {
    let items = ids.iter().map(|id| item(id, Ends::Landed)).collect();
    let budgets = Budgets { max_tokens: Some(100), ..budgets(3) };
    let terms = history::contract(budgets, 0);
    History::of_items(Contract { attended: true, workflow: Workflow::Batch, task_id: None, items, ..terms })
}

fn open_item(history: &mut History, place: u32) -> StepRef {
    let turn = |due| matches!(due, Due::Turn(step) if step.item == Some(place)).then_some(due);
    let Some(Due::Turn(step)) = history.run.due().find_map(turn) else { panic!("a turn of {place} should be due") };
    history.record(Fact::StepStarted { step, base: Some(history.run.base_for(place)), taken: None });
    step
}

/// Ends a turn of an item like this; what it left unfinished is the tree `half`.
fn cut_off(history: &mut History, step: StepRef, reason: Reason, tokens: u64) {
    let end = if reason == Reason::AgentTimeout { TurnEnd::TimedOut } else { TurnEnd::Failed };
    let (reason, tree) = (Some(reason), Some(history::tree("half")));
    let done = StepCommitted { reason, tree, usage: used(tokens), ..committed(step, end, false) };
    history.record(Fact::StepCommitted(done));
}

fn refused(history: &History, place: u32, reason: Reason) -> Fact {
    let ended =
        crate::bundle::batch(&[("a", Ends::Landed)]).history.run.items()[0].ended().expect("it has ended").clone();
    let tree = history.run.tree().to_owned();
    let step = history.run.items()[place as usize].worked().map(|worked| worked.step.index);
    Fact::ItemEnded(Box::new(ItemEnded {
        item: place,
        change: place + 1,
        step,
        status: ItemStatus::Failure,
        reason: Some(reason),
        message: "no".into(),
        before: tree,
        after: tree,
        commit: None,
        gates: Vec::new(),
        ..ended
    }))
}

#[test]
fn an_item_that_the_budget_cut_off_continues_from_what_it_had_made() {
    let mut history = attended_items(&["a", "b"]);
    let (first, second) = (open_item(&mut history, 0), open_item(&mut history, 1));
    cut_off(&mut history, first, Reason::BudgetExceeded, 60);
    assert_eq!(history.run.next(), Due::Nothing, "what is open comes to its end first");
    cut_off(&mut history, second, Reason::BudgetExceeded, 50);
    assert!(history.run.items().iter().all(|state| state.worked().is_none()), "nothing is judged");
    let lines = ["a: 1 turn(s), 0 min 0 s, 60 tokens", "b: 1 turn(s), 0 min 0 s, 50 tokens"];
    assert_eq!(asks(&history).reasons[1..], lines);
    grant(&mut history, Budgets { max_tokens: Some(1000), ..attended_items(&["a"]).run.budgets().clone() });
    let again = open_item(&mut history, 0);
    assert_eq!(again.attempt, 2);
    assert_eq!(history.run.items()[0].shown_on(&history.run.base_for(0)), history::tree("half"));
    // It does not count against its retries, of which it has none; failing by itself does.
    history.record(Fact::StepCommitted(committed(again, TurnEnd::Failed, false)));
    assert!(history.run.items()[0].worked().is_some());
    let due: Vec<Due> = history.run.due().collect();
    assert_eq!(due[0], Due::Item { item: 0 });
    assert!(matches!(due[1], Due::Turn(step) if step.item == Some(1)));
}

#[test]
fn an_item_is_held_by_the_time_of_the_run_and_not_by_its_own() {
    for (minutes, held) in [(60, true), (1, false)] {
        let mut history = attended_items(&["a"]);
        let step = open_item(&mut history, 0);
        history.wait_ms(minutes * 60_000);
        cut_off(&mut history, step, Reason::AgentTimeout, 0);
        assert_eq!(matches!(history.run.next(), Due::Ask(_)), held, "{minutes} minutes");
        assert_eq!(history.run.items()[0].worked().is_none(), held);
    }
}

#[test]
fn without_budget_what_is_done_is_judged_up_to_the_first_item_that_needs_a_turn() {
    let mut history = attended_items(&["a", "b", "c"]);
    let (first, third) = (open_item(&mut history, 0), open_item(&mut history, 2));
    for step in [first, third] {
        let done = StepCommitted {
            tree: Some(history::tree("t")),
            usage: used(60),
            ..committed(step, TurnEnd::Answered, false)
        };
        history.record(Fact::StepCommitted(done));
    }
    assert_eq!(history.run.due().collect::<Vec<_>>(), [Due::Item { item: 0 }]);
    let fact = refused(&history, 0, Reason::TestsFailed);
    history.record(fact);
    asks(&history);
    stop(&mut history);
    let due: Vec<Due> = history.run.due().collect();
    assert!(matches!(due[..], [Due::Turn(StepRef { item: Some(1), .. }), Due::Item { item: 2 }]), "{due:?}");
}

#[test]
fn an_item_that_gets_no_more_has_failed_and_its_run_is_stopped() {
    let mut history = attended_items(&["a"]);
    let step = open_item(&mut history, 0);
    cut_off(&mut history, step, Reason::BudgetExceeded, 150);
    stop(&mut history);
    assert_eq!(history.run.next(), Due::Item { item: 0 });
    let fact = refused(&history, 0, Reason::BudgetExceeded);
    history.record(fact);
    assert_eq!(history.finish(), Status::Stopped);
}
