//! The law of conflicts with the user's branch: when the line of a pipeline may be put on a commit of it, whose conflict that is, which
//! fix may follow, and what takes the line back.

use crate::added::success;
use crate::bundle::{Ends, item};
use crate::history::{self, History, budgets, commit, committed, tree};
use crate::items_property::agent;
use contract::documents::{TaskContract, task_contract};
use contract::pipeline::{Cause, ContractMade, FixAttempt, LineMoved, WHOLE_ROLE};
use contract::work::{Gate, GateResult};
use contract::{
    Addition, Contract, Digest, Fact, Item, ItemAdded, ItemBase, ItemStatus, PipelineFact, PipelineTerms, Reason,
    RepoPath, Status, StepCommitted, TurnEnd, Workflow,
};
use run::workflow::pipeline::{State, told_at_end};
use run::{Due, Run};

const ROOT: &str = "the-task";

/// A contract about these paths. Nothing of it has to be tested as a whole.
fn task(id: &str, paths: &[&str]) -> TaskContract {
    let text = include_bytes!("../../../../contracts/task_contract.json");
    let mut contract = task_contract::read(text).expect("it is an example");
    contract.task_id = id.to_owned();
    contract.allowed_paths = paths.iter().map(|path| (*path).to_owned()).collect();
    contract.acceptance_tests.retain(|test| !test.must_pass);
    contract
}

fn item_of(contract: &TaskContract) -> Item {
    let mut item = item(&contract.task_id, Ends::Landed);
    item.scope.allowed_paths = parsed(&contract.allowed_paths);
    item
}

fn parsed<S: AsRef<str>>(paths: &[S]) -> Vec<RepoPath> {
    paths.iter().map(|path| RepoPath::parse(path.as_ref()).expect("it is a path")).collect()
}

/// A pipeline of a contract in these parts; without any it is its own.
fn pipeline(root: TaskContract, parts: &[TaskContract]) -> History {
    let items = if parts.is_empty() { std::slice::from_ref(&root) } else { parts }.iter().map(item_of).collect();
    let terms = PipelineTerms {
        pm: None,
        tech_lead: None,
        worker: "worker".into(),
        review: None,
        skeleton: Box::new(root.clone()),
        root: Some(Box::new(root)),
        parts: parts.to_vec(),
    };
    let contract = Contract {
        workflow: Workflow::Pipeline,
        task_id: None,
        items,
        pipeline: Some(terms),
        workers: [("worker".to_owned(), agent())].into(),
        ..history::contract(budgets(3), 0)
    };
    History::of_items(contract)
}

/// One task whose change has passed.
fn one() -> History {
    let mut history = pipeline(task(ROOT, &["src"]), &[]);
    pass(&mut history, 0);
    assert_eq!(history.run.next(), Due::Land);
    history
}

fn state(history: &History) -> &State {
    history.run.pipeline().expect("it is a pipeline")
}

#[track_caller]
fn work(history: &mut History, place: u32) {
    let of_item = |due| matches!(due, Due::Turn(step) if step.item == Some(place)).then_some(due);
    let Some(Due::Turn(step)) = history.run.due().find_map(of_item) else { panic!("a turn of {place} should be due") };
    history.record(Fact::StepStarted { step, base: Some(history.run.base_for(place)), taken: None });
    let tree = Some(tree(&format!("made-{place}")));
    history.record(Fact::StepCommitted(StepCommitted { tree, ..committed(step, TurnEnd::Answered, false) }));
}

/// Has a task end like this, and tells what is told of that.
#[track_caller]
fn end(history: &mut History, place: u32, failed: Option<(Gate, Reason)>) {
    work(history, place);
    let Fact::ItemEnded(mut ended) = success(history, place) else { panic!("an item ends") };
    if let Some((gate, reason)) = failed {
        let is_denied = reason == Reason::PolicyViolation;
        ended.status = if is_denied { ItemStatus::Denied } else { ItemStatus::Failure };
        (ended.reason, ended.message) = (Some(reason), "no".into());
        ended.gates.retain(|result| result.gate != gate);
        ended.gates.push(GateResult { gate, passed: false, findings: vec!["no".into()] });
        (ended.commit, ended.after) = (None, ended.before);
    } else {
        ended.gates.push(GateResult { gate: Gate::Tests, passed: true, findings: Vec::new() });
    }
    history.record(Fact::ItemEnded(ended.clone()));
    for fact in told_at_end(&history.run, &ended) {
        history.record(fact);
    }
}

#[track_caller]
fn pass(history: &mut History, place: u32) {
    end(history, place, None);
}

fn decline(history: &mut History) {
    history.record(Fact::LandingStarted(history::landing("refs/heads/main"))).decline();
}

fn at(name: &str) -> ItemBase {
    ItemBase { commit: commit(name), tree: tree(name) }
}

/// The line of a run on a commit of the user's that conflicts with it.
fn moved(run: &Run, number: u32, owner: u32) -> LineMoved {
    LineMoved {
        conflict: number,
        from: run.line().head.clone(),
        onto: at(&format!("by-the-user-{number}")),
        head: at(&format!("on-it-{number}")),
        owner,
        findings: vec!["src/a.txt: both sides changed line 1".into()],
        evidence: Digest::from_bytes([8; 32]),
    }
}

fn line_moved(moved: LineMoved) -> Fact {
    Fact::Pipeline(PipelineFact::LineMoved(Box::new(moved)))
}

fn triggered(item: u32, cause: Cause) -> Fact {
    let evidence = Vec::new();
    Fact::Pipeline(PipelineFact::FixLoopTriggered { item, task_id: ROOT.into(), cause, evidence })
}

fn exhausted(item: u32, attempts: u32) -> Fact {
    let tried = Vec::new();
    Fact::Pipeline(PipelineFact::FixLoopExhausted { item, task_id: ROOT.into(), attempts, tried })
}

fn restored(item: u32, head: &ItemBase) -> Fact {
    Fact::Pipeline(PipelineFact::LineRestored { item, head: head.clone(), why: "nobody fixes it".into() })
}

/// The fix of an item, from the end of the line.
fn fix(history: &History, of: u32, cause: Cause, attempt: u32) -> FixAttempt {
    let state = state(history);
    let original = state.task(state.task(of).expect("it is there").original).expect("it is there").contract.clone();
    let original = original.expect("it has a contract");
    let mut contract = (*original).clone();
    contract.task_id = format!("{}-fix-{attempt}", original.task_id);
    contract.parent_task_id = Some(original.task_id.clone());
    let item = item_of(&contract);
    let addition = Some(Addition::new(&history.run.contract_digest(), &item, None));
    let added = ItemAdded { index: history.run.items().len() as u32, item, earlier: None, addition };
    let document = serde_json::to_string(&contract).expect("it is plain data");
    let base = history.run.line().head.clone();
    let tree = base.tree;
    let parent_task_id = original.task_id.clone();
    FixAttempt { contract: ContractMade { document, added }, of, parent_task_id, attempt, cause, base, tree }
}

fn attempted(fix: FixAttempt) -> Fact {
    Fact::Pipeline(PipelineFact::FixLoopAttempt(Box::new(fix)))
}

/// Puts the line on the user's commit, and what fixes it on record.
#[track_caller]
fn meet(history: &mut History, number: u32, owner: u32, attempt: u32) {
    history.record(line_moved(moved(&history.run, number, owner))).record(triggered(owner, Cause::Conflict));
    let fix = fix(history, owner, Cause::Conflict, attempt);
    history.record(attempted(fix));
}

#[test]
fn a_conflict_moves_the_line_and_its_fix_starts_there_and_lands() {
    let mut history = one();
    let moved = moved(&history.run, 1, 0);
    meet(&mut history, 1, 0, 1);
    assert_eq!((history.run.ground(), &history.run.line().head), (&moved.onto, &moved.head));
    assert_eq!((history.run.tree(), history.run.base_for(1)), (moved.head.tree, moved.head.clone()));
    let fixing = state(&history).task(1).expect("it is there");
    assert_eq!(
        (fixing.original, fixing.fix, fixing.conflict.as_deref()),
        (0, Some((Cause::Conflict, 1)), Some(&moved))
    );
    assert_eq!(state(&history).lost_conflict(), None);
    pass(&mut history, 1);
    assert_eq!((history.run.next(), history.run.ground()), (Due::Land, &moved.onto));
    assert_eq!(state(&history).lost_conflict(), None);
    history.land("refs/heads/main");
    history.refuse(line_moved(self::moved(&history.run, 2, 1)));
    assert_eq!(history.finish(), Status::Succeeded);
}

#[test]
fn a_line_is_moved_only_as_it_is_by_whoever_can_fix_it() {
    let history = one();
    let good = moved(&history.run, 1, 0);
    let base = history.run.started.base.commit;
    for bad in [
        LineMoved { conflict: 2, ..good.clone() },
        LineMoved { from: at("elsewhere"), ..good.clone() },
        LineMoved { onto: ItemBase { commit: base, ..good.onto.clone() }, ..good.clone() },
        LineMoved { owner: 1, ..good.clone() },
    ] {
        history.clone().refuse(line_moved(bad));
    }
    let mut declined = history.clone();
    decline(&mut declined);
    declined.refuse(line_moved(good.clone()));
    let mut moved_once = history;
    moved_once.record(line_moved(good));
    moved_once.refuse(line_moved(moved(&moved_once.run, 2, 0)));
    let mut at_work = pipeline(task(ROOT, &["src"]), &[]);
    at_work.refuse(line_moved(moved(&at_work.run, 1, 0)));
    // Whoever has a fix is not asked for another one; the fix is.
    let mut fixed = one();
    meet(&mut fixed, 1, 0, 1);
    pass(&mut fixed, 1);
    fixed.refuse(line_moved(moved(&fixed.run, 2, 0)));
    fixed.record(line_moved(moved(&fixed.run, 2, 1)));
}

#[test]
fn a_fix_starts_at_the_end_of_the_moved_line_and_is_of_its_owner() {
    let mut history = one();
    history.refuse(triggered(0, Cause::Conflict));
    history.record(line_moved(moved(&history.run, 1, 0)));
    history.refuse(triggered(0, Cause::Tests));
    history.refuse(attempted(fix(&history, 0, Cause::Conflict, 1)));
    history.record(triggered(0, Cause::Conflict));
    history.refuse(triggered(0, Cause::Conflict));
    let good = fix(&history, 0, Cause::Conflict, 1);
    for bad in [
        FixAttempt { base: state(&history).line_before().expect("it has moved").clone(), ..good.clone() },
        FixAttempt { attempt: 2, ..good.clone() },
        FixAttempt { cause: Cause::Tests, ..good.clone() },
        FixAttempt { parent_task_id: "another-task".into(), ..good.clone() },
    ] {
        assert_eq!(history.refuse(attempted(bad)), "this is not the next fix of its task");
    }
    history.record(attempted(good));
}

/// A conflict does not start to count anew.
#[test]
fn fixes_of_conflicts_and_of_tests_are_counted_together() {
    let mut history = pipeline(task(ROOT, &["src"]), &[]);
    end(&mut history, 0, Some((Gate::Tests, Reason::TestsFailed)));
    let (task_id, from, to) = (ROOT.to_owned(), contract::pipeline::Stage::S4, contract::pipeline::Stage::S5);
    history.record(Fact::Pipeline(PipelineFact::StateTransition { item: 0, task_id, from, to }));
    history.record(triggered(0, Cause::Tests));
    let first = fix(&history, 0, Cause::Tests, 1);
    history.record(attempted(first));
    pass(&mut history, 1);
    assert_eq!(state(&history).owner_of(&parsed(&["src/a.txt"])), Some(1), "what came last of it");
    history.record(line_moved(moved(&history.run, 1, 1))).record(triggered(1, Cause::Conflict));
    history.refuse(attempted(fix(&history, 1, Cause::Conflict, 1)));
    let second = fix(&history, 1, Cause::Conflict, 2);
    history.record(attempted(second));
    let fixing = state(&history).task(2).expect("it is there");
    assert_eq!((fixing.original, fixing.fix, fixing.fixes), (0, Some((Cause::Conflict, 2)), Some(1)));
}

#[test]
fn a_conflict_that_is_given_up_takes_the_line_back_and_nothing_else_does() {
    let mut history = one();
    let (ground, head) = (history.run.ground().clone(), history.run.line().head.clone());
    history.refuse(restored(0, &head));
    history.record(line_moved(moved(&history.run, 1, 0))).record(triggered(0, Cause::Conflict));
    let mut exhausted_at_once = history.clone();
    exhausted_at_once.record(exhausted(0, 0));
    let first = fix(&history, 0, Cause::Conflict, 1);
    history.record(attempted(first));
    history.refuse(restored(0, &head));
    history.refuse(restored(1, &head));
    end(&mut history, 1, Some((Gate::Scope, Reason::PolicyViolation)));
    for (mut history, last) in [(history, 1), (exhausted_at_once, 0)] {
        assert!(history.run.due().any(|due| due == Due::FollowUp { item: last }), "{last}");
        assert_ne!(history.run.next(), Due::Land);
        history.refuse(restored(1 - last, &head));
        history.refuse(restored(last, &at("elsewhere")));
        history.record(restored(last, &head));
        assert_eq!((history.run.ground(), &history.run.line().head, history.run.tree()), (&ground, &head, head.tree));
        assert_eq!((history.run.next(), state(&history).given_up()), (Due::Land, Some("nobody fixes it")));
        history.refuse(restored(last, &head));
        decline(&mut history);
        history.land("refs/heads/norma/run");
        assert_eq!(history.finish(), Status::Succeeded, "what was asked for is there, on a branch of its own");
    }
}

#[test]
fn a_conflict_belongs_to_the_part_that_all_paths_are_in_or_to_the_whole() {
    let mut root = task(ROOT, &["src", "docs"]);
    root.acceptance_tests[0].must_pass = true;
    let parts = [task("the-task-1", &["src"]), task("the-task-2", &["docs"])];
    let mut history = pipeline(root, &parts);
    let owner = |history: &History, paths: &[&str]| state(history).owner_of(&parsed(paths));
    assert_eq!(owner(&history, &["src/a.txt"]), None, "nobody has made anything yet");
    pass(&mut history, 0);
    pass(&mut history, 1);
    assert_eq!(owner(&history, &["src/a.txt", "docs/b.md"]), None, "the whole is not there yet");
    let mut whole = item(ROOT, Ends::Landed);
    (whole.role, whole.read_only) = (WHOLE_ROLE.into(), true);
    let addition = Some(Addition::new(&history.run.contract_digest(), &whole, None));
    let added = ItemAdded { index: 2, item: whole, earlier: None, addition };
    history.record(Fact::Pipeline(PipelineFact::WholeAsked(Box::new(added))));
    assert_eq!(owner(&history, &["src/a.txt", "docs/b.md"]), None, "it has not passed yet");
    let Fact::ItemEnded(mut ended) = success(&history, 2) else { panic!("an item ends") };
    (ended.commit, ended.after) = (None, ended.before);
    history.record(Fact::ItemEnded(ended));
    for (paths, expected) in
        [(&["src/a.txt", "src/b/c"][..], Some(0)), (&["docs/b.md"], Some(1)), (&["src/a.txt", "docs/b.md"], Some(2))]
    {
        assert_eq!(owner(&history, paths), expected, "{paths:?}");
    }
    assert_eq!(owner(&history, &["elsewhere"]), Some(2), "which nobody else is to fix");
}
