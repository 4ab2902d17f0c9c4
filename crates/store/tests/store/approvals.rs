//! Approvals: asked for one run and its reasons, answered once, used once and in time, or not at all.

use crate::fixture::{Driving, World, run_id};
use contract::{
    ApprovalDecision, ApprovalId, ApprovalState, ApprovalView, ApprovalWait, End, Fact, Reason, Wait, WaitKind,
};
use store::{Error, Store};

use ApprovalDecision::{Denied, Granted};

/// Long ago.
const PAST: &str = "2020-01-01T00:00:00.000Z";

fn ask(driving: &Driving<'_>, reasons: &[&str]) -> ApprovalWait {
    let reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
    driving.store.ask_approval(&driving.run, reasons).wait().unwrap()
}

fn answer(store: &Store, id: ApprovalId, decision: ApprovalDecision) -> Result<ApprovalView, String> {
    let reason = Some("looked at it".to_owned());
    store
        .answer_approval(id, decision, "Ada".into(), reason, Default::default())
        .wait()
        .map_err(|error| error.to_string())
}

/// Has a run's log say that it used an approval.
fn use_it(driving: &mut Driving<'_>, id: ApprovalId, by: &str) -> Result<(), String> {
    let fact = Fact::ApprovalUsed { approval: id, by: by.into() };
    driving.store.append(&mut driving.log, vec![fact], vec![]).map(drop).map_err(|error| error.to_string())
}

fn states(world: &World) -> Vec<ApprovalState> {
    world.reader().approvals(false).unwrap().iter().map(|asked| asked.state).collect()
}

#[test]
fn an_approval_is_asked_granted_and_used_once() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let wait = ask(&driving, &["wide paths require approval: src"]);
    let asked = world.reader().approval(&wait.approval.to_string()).unwrap();
    assert_eq!((asked.state, asked.run_id), (ApprovalState::Pending, driving.run.id.slug()));
    assert_eq!((&asked.reasons, asked.expires_at), (&wait.reasons, wait.expires_at));
    assert_eq!(asked.expires_at.unix_ms() - asked.asked_at.unix_ms(), contract::APPROVAL_LIFETIME_MS);
    let granted = answer(&store, wait.approval, Granted).unwrap();
    assert_eq!((granted.state, granted.by.as_deref()), (ApprovalState::Granted, Some("Ada")));
    assert_eq!(use_it(&mut driving, wait.approval, "Ada"), Ok(()));
    assert_eq!(states(&world), [ApprovalState::Used]);
    let again = use_it(&mut driving, wait.approval, "Ada").unwrap_err();
    assert!(again.ends_with("cannot be used: Ada granted it, and its run has used it already"), "{again}");
    let types = world.texts("SELECT type FROM audit WHERE type LIKE 'approval%' ORDER BY seq");
    assert_eq!(types, ["approval_asked", "approval_answered", "approval_used"]);
    assert_eq!(world.event_types(&driving.slug()), ["run_started", "approval_used"]);
}

#[test]
fn without_a_yes_of_this_person_to_this_run_nothing_is_used() {
    let world = World::new();
    let store = world.store();
    let (mut driving, mut other) = (Driving::start(&store, 1, None), Driving::start(&store, 2, None));
    let wait = ask(&driving, &["network on-request requires approval"]);
    let refused = |driving: &mut Driving<'_>, by: &str| use_it(driving, wait.approval, by).unwrap_err();
    assert!(refused(&mut driving, "Ada").ends_with("cannot be used: it has not been answered yet"));
    answer(&store, wait.approval, Granted).unwrap();
    assert!(refused(&mut driving, "Eve").ends_with("cannot be used: it was granted by somebody else"));
    assert!(refused(&mut other, "Ada").contains("cannot be used: it is about run"));
    let unknown = use_it(&mut driving, ApprovalId::new(0, [0; 10]), "Ada").unwrap_err();
    assert!(unknown.starts_with("there is no approval "), "{unknown}");
    assert_eq!(states(&world), [ApprovalState::Granted]);
    assert_eq!(world.event_types(&other.slug()), ["run_started"]);
    // A refused fact is no reason for the store to stop.
    driving.steps(1);
}

#[test]
fn an_answer_is_given_once() {
    let world = World::new();
    let store = world.store();
    let driving = Driving::start(&store, 1, None);
    let wait = ask(&driving, &["a"]);
    answer(&store, wait.approval, Denied).unwrap();
    let again = answer(&store, wait.approval, Granted).unwrap_err();
    assert!(again.ends_with("cannot be answered: Ada denied it already"), "{again}");
    assert_eq!(states(&world), [ApprovalState::Denied]);
    let unknown = ApprovalId::new(0, [0; 10]);
    let refused = answer(&store, unknown, Granted).unwrap_err();
    assert!(refused.starts_with(&format!("there is no approval {unknown}")));
    assert!(store.answer_approval(wait.approval, Granted, "  ".into(), None, Default::default()).wait().is_err());
    let long = "x".repeat(2001);
    assert!(
        store.answer_approval(wait.approval, Granted, "Ada".into(), Some(long), Default::default()).wait().is_err()
    );
}

#[test]
fn of_many_answers_at_once_one_counts() {
    let world = World::new();
    let store = world.store();
    let driving = Driving::start(&store, 1, None);
    let wait = ask(&driving, &["a"]);
    let tickets: Vec<_> = (0..50)
        .map(|n| store.answer_approval(wait.approval, Granted, format!("person {n}"), None, Default::default()))
        .collect();
    let answers: Vec<_> = tickets.into_iter().map(store::Ticket::wait).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(world.one::<i64>("SELECT count(*) FROM audit WHERE type = 'approval_answered'"), 1);
}

#[test]
fn what_has_expired_is_neither_answered_nor_used() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let (open, granted) = (ask(&driving, &["a"]), ask(&driving, &["b"]));
    answer(&store, granted.approval, Granted).unwrap();
    world.raw().execute("UPDATE approvals SET expires_at = ?1", [PAST]).unwrap();
    let late = format!("it expired at {PAST}");
    assert!(answer(&store, open.approval, Granted).unwrap_err().ends_with(&late));
    assert!(use_it(&mut driving, granted.approval, "Ada").unwrap_err().ends_with(&late));
    assert_eq!(states(&world), [ApprovalState::Expired; 2]);
    assert_eq!(world.reader().approvals(true).unwrap(), []);
    assert_ne!(ask(&driving, &["a"]).approval, open.approval, "an expired question is asked anew");
}

#[test]
fn the_same_question_is_asked_once_and_another_one_by_itself() {
    let world = World::new();
    let store = world.store();
    let (driving, other) = (Driving::start(&store, 1, None), Driving::start(&store, 2, None));
    let first = ask(&driving, &["a", "b"]);
    assert_eq!(ask(&driving, &["a", "b"]), first);
    assert_ne!(ask(&driving, &["a"]).approval, first.approval);
    assert_ne!(ask(&other, &["a", "b"]).approval, first.approval);
    answer(&store, first.approval, Denied).unwrap();
    assert_ne!(
        ask(&driving, &["a", "b"]).approval,
        first.approval,
        "a no is not asked away, but may be asked about again"
    );
}

#[test]
fn the_list_of_open_questions_is_of_runs_that_still_wait() {
    let world = World::new();
    let store = world.store();
    let (mut driving, other) = (Driving::start(&store, 1, None), Driving::start(&store, 2, None));
    let (ended, open) = (ask(&driving, &["a"]), ask(&other, &["a"]));
    driving.record(vec![Fact::RunCanceled(End { reason: Some(Reason::Canceled), message: "no".into() })], vec![]);
    let pending = world.reader().approvals(true).unwrap();
    assert_eq!(pending.iter().map(|asked| &asked.id).collect::<Vec<_>>(), [&open.approval]);
    assert_eq!(world.reader().approvals(false).unwrap().len(), 2);
    let why = answer(&store, ended.approval, Granted).unwrap_err();
    assert!(why.ends_with(&format!("run {} is canceled already", driving.slug())), "{why}");
}

#[test]
fn an_approval_is_found_by_a_prefix_that_is_its_own() {
    let world = World::new();
    let store = world.store();
    let driving = Driving::start(&store, 1, None);
    let wait = ask(&driving, &["a"]);
    let reader = world.reader();
    assert_eq!(reader.approval(&wait.approval.to_string()[..20]).unwrap().id, wait.approval);
    ask(&driving, &["b"]);
    let said = |given: &str| reader.approval(given).unwrap_err().to_string();
    assert!(said(&wait.approval.to_string()[..4]).contains(" could be "));
    assert_eq!(said("ffff"), "there is no approval ffff; `norma approvals` lists them");
    assert!(said("%").contains("is not the id of an approval") && said("").contains("is not the id"));
}

#[test]
fn reindexing_gives_the_same_approvals() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let waits = [ask(&driving, &["a"]), ask(&driving, &["b"]), ask(&driving, &["c"])];
    answer(&store, waits[0].approval, Granted).unwrap();
    answer(&store, waits[1].approval, Denied).unwrap();
    use_it(&mut driving, waits[0].approval, "Ada").unwrap();
    let before = world.reader().approvals(false).unwrap();
    for damage in ["DELETE FROM approvals", "UPDATE approvals SET decision = 'granted', used_at = NULL"] {
        world.raw().execute_batch(damage).unwrap();
        store::reindex(&store).unwrap();
        assert_eq!(world.reader().approvals(false).unwrap(), before, "{damage}");
    }
}

#[test]
fn verify_finds_an_approval_that_was_never_given() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let wait = ask(&driving, &["a"]);
    answer(&store, wait.approval, Granted).unwrap();
    use_it(&mut driving, wait.approval, "Ada").unwrap();
    let about_approvals = || -> Vec<String> {
        let problems = world.problems(&run_id(1).slug()).into_iter();
        problems.filter(|problem| problem.starts_with("approvals: ")).collect()
    };
    assert_eq!(about_approvals(), [""; 0]);
    let db = world.raw_writable();
    db.execute_batch("DELETE FROM audit WHERE type IN ('approval_used', 'approval_answered')").unwrap();
    let found = about_approvals();
    assert_eq!(found[0], format!("approvals: approval {} was used, but nobody granted it", wait.approval));
}

#[test]
fn a_database_from_before_there_were_approvals_is_brought_up_to_date() {
    let world = World::new();
    world.layout.create().unwrap();
    let old = world.raw();
    old.execute_batch(include_str!("../../src/migrations/0001.sql")).unwrap();
    old.execute_batch("CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)")
        .unwrap();
    old.execute("INSERT INTO schema_migrations VALUES (1, ?1)", [PAST]).unwrap();
    drop(old);
    // Not by whoever only looks while an older norma works there; by whoever looks first once it has ended.
    let me = store::Owner { pid: std::process::id(), command: "norma run".to_owned(), since: store::now() };
    let older = store::OwnerLock::try_take(&world.layout, &me).unwrap();
    assert!(matches!(store::Reader::open(&world.layout), Err(Error::Refused(why)) if why.contains("older norma")));
    drop(older);
    assert_eq!(states(&world), []);
    let store = world.store();
    let driving = Driving::start(&store, 1, None);
    ask(&driving, &["a"]);
    assert_eq!(states(&world), [ApprovalState::Pending]);
}

#[test]
fn a_run_that_asked_something_waits_through_recovery_and_continues_with_the_answer() {
    let world = World::new();
    let slug = {
        let store = world.store();
        let mut driving = Driving::start(&store, 1, None);
        let wait = Wait {
            id: "q1".into(),
            kind: WaitKind::Decision,
            about: None,
            reasons: vec!["two ways".into()],
            choices: vec!["left".into(), "right".into()],
            deadline: None,
        };
        driving.record(vec![Fact::Asked(wait)], vec![]);
        driving.slug()
    };
    let shown = "SELECT state || ' ' || reason || ' ' || message FROM runs";
    assert_eq!(world.texts(shown), ["waiting answer_required Waiting for decision q1: two ways"]);
    world.recover();
    assert_eq!(world.texts("SELECT state FROM runs"), ["waiting"]);
    let store = world.store();
    let (run, mut log) = world.reader().load(&slug).unwrap();
    let answered = run.answer(&"q1".into(), "left", "Ada", None, None).unwrap();
    store.append(&mut log, vec![answered, Fact::RunResumed { pid: 2 }], vec![]).unwrap();
    assert_eq!(world.texts("SELECT state FROM runs"), ["running"]);
    assert_eq!(world.event_types(&slug), ["run_started", "asked", "answered", "run_resumed"]);
    assert_eq!(world.problems(&slug), [""; 0]);
    let (run, _) = world.reader().load(&slug).unwrap();
    assert_eq!(run.answer_to(&"q1".into()).map(|said| said.choice.as_str()), Some("left"));
}
