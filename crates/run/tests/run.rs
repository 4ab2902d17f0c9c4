//! The run as a whole: what is due after what, what a turn is worth, and what can never be on record. Each test
//! drives a run through facts from outside; the properties hold over histories nobody thought of.

#[path = "run/added.rs"]
mod added;
#[path = "run/after.rs"]
mod after;
#[path = "run/bundle.rs"]
mod bundle;
#[path = "run/conflict.rs"]
mod conflict;
#[path = "run/flow.rs"]
mod flow;
#[path = "run/graph.rs"]
mod graph;
#[path = "run/history.rs"]
mod history;
#[path = "run/items_property.rs"]
mod items_property;
#[path = "run/prompt.rs"]
mod prompt;
#[path = "run/property.rs"]
mod property;
#[path = "run/view.rs"]
mod view;
#[path = "run/waits.rs"]
mod waits;

use contract::policy::ProtectedPaths;
use contract::session::SessionError;
use contract::{
    Budget, BudgetExceeded, Budgets, Fact, ProcessEnd, Reason, ResponseStatus, Role, SessionOutcome, Status, StepRef,
    StepStatus, TurnEnd, Usage, Verdict,
};
use history::{History, budgets, committed, contract, end, landing, verdict};
use run::gate::budget::{Sizes, over_budget};
use run::gate::scope::{ChangedPath, Observed, Scope, judge as judge_scope};
use run::gate::verdict::IterationFiles;
use run::turn::{Judgement, TurnEvidence, judge};
use run::{Due, Run};

const OK: &str = r#"{"version":1,"status":"ok","summary":"s"}"#;
const FAIL: &str = r#"{"version":1,"status":"fail","summary":"s"}"#;
const PASS_VERDICT: &str =
    r#"{"version":1,"verdict":"PASS","criteria":[{"id":"AC1","text":"t","pass":true,"evidence":"files/test.log"}]}"#;
const FAIL_VERDICT: &str = r#"{"version":1,"verdict":"FAIL","criteria":[]}"#;

/// The raw evidence of a turn.
struct Turn<'a> {
    process: ProcessEnd,
    stdout: &'a str,
    verdict: Option<&'a str>,
    files: &'a [&'a str],
    session: Option<&'a SessionOutcome>,
}

impl Default for Turn<'_> {
    fn default() -> Self {
        Turn { process: ProcessEnd::Exited(0), stdout: OK, verdict: None, files: &[], session: None }
    }
}

/// Judges a turn and puts it on record; the directory of a `do` with `files/test.log` lies beside it.
#[track_caller]
fn take(history: &mut History, turn: &Turn<'_>) -> Judgement {
    let step = history.open();
    let judged = judged(history, step, turn);
    let mut done = committed(step, judged.end, judged.patch);
    (done.status, done.reason, done.notes) = (judged.status, judged.reason, judged.notes.clone());
    history.record(Fact::StepCommitted(done));
    for fact in &judged.facts {
        history.record(fact.clone());
    }
    judged
}

fn judged(history: &History, step: StepRef, turn: &Turn<'_>) -> Judgement {
    let own = turn.files.iter().map(ToString::to_string).collect();
    let mut files = IterationFiles::new(&step.dir_name(), own);
    if step.role == Role::Check {
        files.add("002-do", vec!["files/test.log".into()]);
    }
    let evidence = TurnEvidence {
        process: turn.process.clone(),
        stdout: turn.stdout.as_bytes(),
        stdout_truncated: false,
        verdict: turn.verdict.map(str::as_bytes),
        files: &files,
        session: turn.session,
        item: None,
        command: false,
        choices: None,
        notes: vec![],
    };
    judge(&history.run.started.contract, &history.run.id.slug(), step, &evidence)
}

fn check_turn<'a>(stdout: &'a str, verdict: &'a str) -> Turn<'a> {
    Turn { stdout, verdict: Some(verdict), files: &["verdict.json", "scorecard.md"], ..Turn::default() }
}

/// A history whose next turn is this role's, in the first iteration.
fn before(role: Role) -> History {
    let mut history = History::new(3, 0);
    if role > Role::Plan {
        history.answered(Role::Plan);
    }
    if role > Role::Do {
        history.answered(Role::Do);
    }
    if role > Role::Check {
        history.check(Verdict::Fail, &[]);
    }
    history
}

#[test]
fn a_session_that_failed_says_why_and_a_deadline_only_where_the_provider_did_not_fail_it() {
    use contract::session::ErrorKind::{self, Auth, Network, Other, Protocol, RateLimited, Refused, Server};
    let limited = RateLimited { reset_after_seconds: Some(9), resets_at: None };
    let rows: [(ErrorKind, Reason, Reason); 7] = [
        (Auth, Reason::SignInFailed, Reason::SignInFailed),
        (limited, Reason::ProviderLimit, Reason::ProviderLimit),
        (Network, Reason::ProviderFailed, Reason::ProviderFailed),
        (Server, Reason::ProviderFailed, Reason::ProviderFailed),
        (Refused, Reason::AgentRefused, Reason::AgentTimeout),
        (Protocol, Reason::ProtocolError, Reason::AgentTimeout),
        (Other, Reason::AgentFailed, Reason::AgentTimeout),
    ];
    for (kind, left, late) in rows {
        let error = SessionError { kind, message: "no".into(), status: None };
        let session = SessionOutcome {
            agent: "codex".into(),
            protocol: "events".into(),
            ok: false,
            session_id: None,
            usage: Usage::default(),
            error: Some(error),
            tool_ops: 0,
            out_of_budget: false,
            redacted: Default::default(),
        };
        for (process, reason) in [(ProcessEnd::Exited(0), left), (ProcessEnd::IdleDeadline, late)] {
            let turn = Turn { process, session: Some(&session), ..Turn::default() };
            let history = History::new(3, 0);
            assert_eq!(judged(&history, history.due_turn(), &turn).reason, Some(reason), "{kind:?}");
        }
    }
}

#[test]
fn a_run_starts_in_iteration_one() {
    let history = History::new(3, 0);
    assert_eq!(history.run.iteration(), 1);
    assert_eq!(
        history.due_turn(),
        StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None }
    );
}

#[test]
fn roles_run_in_the_order_plan_do_check_act() {
    let mut history = History::new(3, 0);
    let mut order = Vec::new();
    for _ in 0..2 {
        history.failing_round();
        history.answered(Role::Act);
    }
    for event in &history.events {
        if let Fact::StepStarted { step, base: None, taken: None } = &event.fact {
            order.push(format!("{} in {}", step.dir_name(), step.iteration));
        }
    }
    assert_eq!(
        order,
        [
            "001-plan in 1",
            "002-do in 1",
            "003-check in 1",
            "004-act in 1",
            "005-plan in 2",
            "006-do in 2",
            "007-check in 2",
            "008-act in 2"
        ]
    );
}

#[test]
fn no_role_can_take_its_turn_before_it_is_due() {
    for due in Role::PDCA {
        for other in Role::PDCA.into_iter().filter(|other| *other != due) {
            let mut history = before(due);
            let step = StepRef { role: other, ..history.due_turn() };
            history.refuse(Fact::StepStarted { step, base: None, taken: None });
        }
    }
}

#[test]
fn the_loop_ends_only_at_a_pass_a_failure_or_an_exceeded_budget() {
    let mut statuses = Vec::new();
    let mut passing = before(Role::Check);
    passing.check(Verdict::Pass, &[]);
    statuses.push(passing.finish());
    for turn_end in [TurnEnd::Failed, TurnEnd::ProtocolError, TurnEnd::TimedOut] {
        for role in Role::PDCA {
            let mut history = before(role);
            history.turn(role, turn_end, false);
            statuses.push(history.finish());
        }
    }
    let mut long = History::new(2, 0);
    for _ in 0..2 {
        long.failing_round();
        long.answered(Role::Act);
    }
    statuses.push(long.finish());
    let (f, t) = (Status::Failed, Status::TimedOut);
    assert_eq!(statuses, [Status::Succeeded, f, f, f, f, f, f, f, f, t, t, t, t, Status::Stopped]);
    let mut interrupted = before(Role::Do);
    interrupted.turn(Role::Do, TurnEnd::Interrupted, false);
    assert_eq!(
        interrupted.due_turn(),
        StepRef { index: 3, role: Role::Do, iteration: 1, attempt: 2, item: None, node: None }
    );
}

#[test]
fn a_pass_marks_the_run_passed_and_ends_it() {
    let mut history = before(Role::Check);
    take(&mut history, &check_turn(OK, PASS_VERDICT));
    assert_eq!(history.run.verdict(), Some(Verdict::Pass));
    assert_eq!(history.finish(), Status::Succeeded);
    assert_eq!(history.run.status.legacy(history.run.reason), "passed");
    assert_eq!(history.run.next(), Due::Nothing);
}

#[test]
fn a_pass_over_a_changed_tree_lands_before_the_run_has_passed() {
    let mut history = before(Role::Act);
    history.turn(Role::Act, TurnEnd::Answered, true);
    history.change().answered(Role::Plan);
    history.answered(Role::Do);
    history.check(Verdict::Pass, &[]);
    history.refuse(Fact::RunPassed(end(None)));
    history.record(Fact::LandingStarted(landing("refs/heads/main"))).decline();
    assert_eq!(history.run.declined(), Some("the branch moved"));
    history.refuse(Fact::RunPassed(end(None)));
    history.land("refs/heads/norma/x");
    assert_eq!(history.run.landed(), Some(&landing("refs/heads/norma/x")));
    assert_eq!(history.finish(), Status::Succeeded);
}

#[test]
fn a_run_that_carries_out_another_one_again_passes_without_landing_and_can_never_land() {
    let mut history = History::again(history::earlier());
    history.failing_round().turn(Role::Act, TurnEnd::Answered, true);
    history.change().answered(Role::Plan);
    history.answered(Role::Do);
    history.check(Verdict::Pass, &[]);
    assert_ne!(history.run.tree(), history.run.started.base.tree);
    history.refuse(Fact::LandingStarted(landing("refs/heads/main")));
    history.refuse(Fact::Landed(landing("refs/heads/main")));
    assert_eq!(history.finish(), Status::Succeeded);
    assert_eq!(history.run.landed(), None);
}

#[test]
fn a_run_that_carries_out_another_one_again_passes_only_over_a_pass() {
    let mut history = History::again(history::earlier());
    history.answered(Role::Plan);
    history.answered(Role::Do);
    history.refuse(Fact::RunPassed(end(None)));
    history.check(Verdict::Fail, &[]);
    history.refuse(Fact::RunPassed(end(None)));
}

#[test]
fn only_the_landing_that_was_started_can_have_landed() {
    let mut history = before(Role::Act);
    history.turn(Role::Act, TurnEnd::Answered, true);
    history.change().answered(Role::Plan);
    history.answered(Role::Do);
    history.refuse(Fact::LandingStarted(landing("refs/heads/main")));
    history.check(Verdict::Pass, &[]);
    history.refuse(Fact::Landed(landing("refs/heads/main")));
    history.record(Fact::LandingStarted(landing("refs/heads/main")));
    history.refuse(Fact::Landed(landing("refs/heads/other")));
    history.record(Fact::RunPaused(end(Some(Reason::Interrupted))));
    history.record(Fact::Landed(landing("refs/heads/main")));
    history.refuse(Fact::RunPassed(end(None)));
    history.record(Fact::RunResumed { pid: 2 });
    assert_eq!(history.finish(), Status::Succeeded);
}

#[test]
fn a_fail_leads_to_act_and_then_to_the_next_iteration() {
    let mut history = before(Role::Check);
    take(&mut history, &check_turn(OK, FAIL_VERDICT));
    assert_eq!(history.due_turn().role, Role::Act);
    take(&mut history, &Turn { files: &["patch.diff"], ..Turn::default() });
    history.change();
    assert_eq!(
        history.due_turn(),
        StepRef { index: 5, role: Role::Plan, iteration: 2, attempt: 1, item: None, node: None }
    );
    assert_eq!(history.run.verdict(), Some(Verdict::Fail));
}

#[test]
fn a_claimed_pass_that_does_not_count_leads_to_act() {
    let unproven = r#"{"version":1,"verdict":"PASS","criteria":[]}"#;
    for turn in [check_turn(OK, unproven), check_turn(FAIL, PASS_VERDICT)] {
        let mut history = before(Role::Check);
        let judged = take(&mut history, &turn);
        assert_eq!(judged.end, TurnEnd::Answered);
        assert_eq!(history.run.verdict(), Some(Verdict::Fail));
        assert_eq!(history.due_turn().role, Role::Act);
        assert!(history.run.notes().last().unwrap().starts_with("The claimed PASS does not count"));
    }
}

#[test]
fn a_check_that_answers_fail_with_a_valid_verdict_has_judged() {
    let mut history = before(Role::Check);
    let judged = take(&mut history, &check_turn(FAIL, FAIL_VERDICT));
    assert_eq!((judged.status, judged.end, judged.reason), (StepStatus::Fail, TurnEnd::Answered, None));
    assert_eq!(history.due_turn().role, Role::Act);
}

#[test]
fn a_check_gives_exactly_one_verdict_before_anything_else_happens() {
    let mut history = before(Role::Check);
    let step = history.answered(Role::Check);
    assert_eq!(history.run.next(), Due::Nothing);
    history.refuse(Fact::StepStarted {
        step: StepRef { index: 4, role: Role::Act, iteration: 1, attempt: 1, item: None, node: None },
        base: None,
        taken: None,
    });
    history.refuse(Fact::RunPassed(end(None)));
    history.record(verdict(step, Verdict::Fail, Verdict::Fail, &[]));
    let why = history.refuse(verdict(step, Verdict::Pass, Verdict::Pass, &[]));
    assert_eq!(why, "a check gives one verdict");
}

#[test]
fn only_a_check_can_give_a_verdict() {
    for role in [Role::Plan, Role::Do, Role::Act] {
        let mut history = before(role);
        let step = history.answered(role);
        history.refuse(verdict(step, Verdict::Pass, Verdict::Pass, &[]));
        let turn = Turn { verdict: Some(PASS_VERDICT), files: &["verdict.json", "scorecard.md"], ..Turn::default() };
        assert_eq!(judged(&history, step, &turn).facts, []);
    }
    let mut history = before(Role::Check);
    let step = history.open();
    history.refuse(verdict(step, Verdict::Pass, Verdict::Pass, &[]));
    history.record(Fact::StepCommitted(committed(step, TurnEnd::Failed, false)));
    history.refuse(verdict(step, Verdict::Pass, Verdict::Pass, &[]));
}

#[test]
fn a_pass_counts_only_if_it_was_claimed_and_nothing_speaks_against_it() {
    let mut history = before(Role::Check);
    let step = history.open();
    let mut unsure = history.clone();
    history.record(Fact::StepCommitted(committed(step, TurnEnd::Answered, false)));
    history.refuse(verdict(step, Verdict::Fail, Verdict::Pass, &[]));
    history.refuse(verdict(step, Verdict::Pass, Verdict::Pass, &["AC1 does not pass"]));
    history.refuse(verdict(StepRef { index: 2, ..step }, Verdict::Pass, Verdict::Pass, &[]));
    history.record(verdict(step, Verdict::Pass, Verdict::Pass, &[]));
    let done = committed(step, TurnEnd::Answered, false);
    unsure.record(Fact::StepCommitted(contract::StepCommitted { status: StepStatus::Fail, ..done }));
    unsure.refuse(verdict(step, Verdict::Pass, Verdict::Pass, &[]));
}

#[test]
fn a_run_whose_provider_has_had_enough_is_held_and_takes_the_turn_again() {
    let mut history = before(Role::Do);
    let step = history.open();
    let until = Some(contract::Timestamp::from_unix_ms(60_000));
    let held = contract::StepCommitted {
        reason: Some(Reason::ProviderLimit),
        until,
        ..committed(step, TurnEnd::Interrupted, false)
    };
    history.record(Fact::StepCommitted(held));
    let Due::Pause { end, until: said } = history.run.next() else { panic!("{:?}", history.run.next()) };
    assert_eq!((end.reason, said), (Some(Reason::ProviderLimit), until));
    history.record(Fact::RunPaused(end));
    assert_eq!(history.run.next(), Due::Nothing);
    history.record(Fact::RunResumed { pid: 1 });
    let Due::Turn(again) = history.run.next() else { panic!("{:?}", history.run.next()) };
    assert_eq!((again.role, again.iteration, again.attempt), (Role::Do, 1, 2));
}

#[test]
fn what_models_used_stops_a_run_at_its_budget() {
    let mut terms = contract(budgets(3), 0);
    (terms.budgets.max_tokens, terms.budgets.max_cost_usd) = (Some(100), Some(contract::Usd(50)));
    for (usage, budget) in [
        (Usage { input_tokens: 60, output_tokens: 40, ..Default::default() }, Budget::MaxTokens),
        (Usage { cost_micro_usd: Some(50), ..Default::default() }, Budget::MaxCostUsd),
    ] {
        let mut history = History::under(terms.clone());
        let step = history.open();
        let used = contract::StepCommitted { usage: Some(usage), ..committed(step, TurnEnd::Answered, false) };
        history.record(Fact::StepCommitted(used));
        let Due::End { status, budget: Some(over), .. } = history.run.next() else {
            panic!("{:?}", history.run.next())
        };
        assert_eq!((status, over.budget), (Status::Stopped, budget));
    }
}

#[test]
fn a_step_without_its_optional_files_is_complete() {
    for (role, turn) in [
        (Role::Plan, Turn::default()),
        (Role::Do, Turn::default()),
        (Role::Check, check_turn(OK, FAIL_VERDICT)),
        (Role::Act, Turn::default()),
    ] {
        let mut history = before(role);
        let judged = take(&mut history, &turn);
        assert_eq!((judged.status, judged.end, judged.reason), (StepStatus::Ok, TurnEnd::Answered, None), "{role}");
        assert_eq!(judged.notes, [""; 0], "{role}");
    }
}

#[test]
fn a_check_without_a_valid_verdict_fails_the_run() {
    let both: &[&str] = &["verdict.json", "scorecard.md"];
    for (verdict, files, expected) in [
        (None, &["scorecard.md"][..], "missing verdict.json"),
        (Some("PASS"), both, "invalid verdict.json"),
        (Some(r#"{"version":1,"verdict":"pass","criteria":[]}"#), both, "invalid verdict.json: /verdict"),
        (Some(r#"{"version":2,"verdict":"PASS","criteria":[]}"#), both, "invalid verdict.json: /version"),
        (Some(r#"{"version":1,"verdict":"PASS"}"#), both, "criteria"),
        (Some(r#"{"version":1,"verdict":"PASS","verdict":"FAIL","criteria":[]}"#), both, "invalid verdict.json"),
    ] {
        let mut history = before(Role::Check);
        let judged = take(&mut history, &Turn { verdict, files, ..Turn::default() });
        assert!(judged.summary.contains(expected), "{}", judged.summary);
        assert_eq!((judged.status, judged.end), (StepStatus::Fail, TurnEnd::ProtocolError));
        assert_eq!(judged.response.status, ResponseStatus::Fail);
        assert_eq!((history.finish(), history.run.reason), (Status::Failed, Some(Reason::ProtocolError)));
        assert_eq!(history.run.verdict(), None);
    }
}

#[test]
fn a_check_without_a_scorecard_fails_the_run() {
    let mut history = before(Role::Check);
    let turn = Turn { verdict: Some(PASS_VERDICT), files: &["verdict.json"], ..Turn::default() };
    assert_eq!(take(&mut history, &turn).summary, "protocol_error: missing scorecard.md");
    assert_eq!((history.finish(), history.run.reason), (Status::Failed, Some(Reason::ProtocolError)));
}

#[test]
fn an_answer_that_is_not_json_fails_the_step_with_a_protocol_error() {
    for stdout in ["", "hello", "{\"version\":1,\"status\":\"ok\"} and more", "[]"] {
        for role in Role::PDCA {
            let mut history = before(role);
            let judged = take(&mut history, &Turn { stdout, ..Turn::default() });
            assert_eq!((judged.end, judged.reason), (TurnEnd::ProtocolError, Some(Reason::ProtocolError)));
            assert!(judged.response.errors[0].starts_with("protocol_error: "), "{:?}", judged.response);
            assert_eq!(history.finish(), Status::Failed);
        }
    }
}

#[test]
fn a_protocol_error_is_retried_as_often_as_the_limits_say() {
    let mut history = History::new(3, 2);
    for attempt in 1..=3 {
        assert_eq!(history.due_turn().attempt, attempt);
        history.turn(Role::Plan, TurnEnd::ProtocolError, false);
    }
    assert_eq!(history.finish(), Status::Failed);

    // An interruption is nobody's fault and uses up nothing.
    let mut history = History::new(3, 1);
    history.turn(Role::Plan, TurnEnd::ProtocolError, false);
    history.turn(Role::Plan, TurnEnd::Interrupted, false);
    assert_eq!(
        history.due_turn(),
        StepRef { index: 3, role: Role::Plan, iteration: 1, attempt: 3, item: None, node: None }
    );
    assert_eq!(history.run.notes().len(), 2);
    history.answered(Role::Plan);
    assert_eq!(history.run.notes(), [""; 0]);
}

#[test]
fn what_an_agent_says_fits_into_an_event_line() {
    let files: Vec<String> = (0..5000).map(|n| format!("f{n}/{}", "\u{7f}x".repeat(20))).map(json_text).collect();
    let criteria = vec![r#"{"id":"X","pass":false}"#; 5000].join(",");
    let loud = format!(r#"{{"version":1,"status":"ok","summary":{}}}"#, json_text("\u{1}".repeat(9000)));
    let many = format!(r#"{{"version":1,"status":"ok","files":[{}]}}"#, files.join(",").replace('\u{7f}', ""));
    let wrong = format!(r#"{{"version":1,"status":"ok",{}}}"#, vec![r#""status":"ok""#; 500].join(","));
    let verdict = format!(r#"{{"version":1,"verdict":"PASS","criteria":[{criteria}]}}"#);
    for stdout in [&loud, &many, &wrong] {
        let mut history = before(Role::Check);
        take(&mut history, &check_turn(stdout, &verdict));
        for event in &history.events {
            let log = contract::LogName { run: history.run.id, task: None };
            let digest = contract::Digest::from_bytes([0; 32]);
            let bytes = contract::EventLine::new(&log, "e".into(), 1, digest, event.ts, &event.fact).to_bytes();
            assert!(bytes.len() <= contract::LINE_BYTES_MAX, "{} bytes", bytes.len());
        }
    }
}

fn json_text(text: String) -> String {
    serde_json::Value::from(text).to_string()
}

#[test]
fn only_an_act_can_propose_a_patch() {
    for role in [Role::Plan, Role::Do, Role::Check] {
        let mut history = before(role);
        let files = ["patch.diff", "verdict.json", "scorecard.md"];
        let turn = Turn { verdict: Some(FAIL_VERDICT), files: &files, ..Turn::default() };
        let judged = take(&mut history, &turn);
        assert!(!judged.patch);
        assert_eq!(judged.notes, [format!("patch.diff from {role} is ignored: only act proposes patches")]);
        assert!(matches!(history.run.next(), Due::Turn(_)));

        let mut history = before(role);
        let step = history.open();
        history.refuse(Fact::StepCommitted(committed(step, TurnEnd::Answered, true)));
    }
    let mut history = before(Role::Act);
    assert!(take(&mut history, &Turn { files: &["patch.diff"], ..Turn::default() }).patch);
    assert!(matches!(history.run.next(), Due::Change { change: 1, .. }));
}

#[test]
fn the_patch_of_an_act_that_failed_is_not_applied() {
    let mut history = before(Role::Act);
    let turn = Turn { stdout: FAIL, files: &["patch.diff"], ..Turn::default() };
    assert!(!take(&mut history, &turn).patch);
    assert_eq!(history.finish(), Status::Failed);
}

#[test]
fn an_act_without_a_patch_is_recorded_as_such() {
    let mut history = before(Role::Act);
    let judged = take(&mut history, &Turn::default());
    assert!(!judged.patch && judged.end == TurnEnd::Answered);
    let Some(Fact::StepCommitted(done)) = history.events.last().map(|event| &event.fact) else { panic!() };
    assert!(!done.patch);
    assert_eq!(history.due_turn().iteration, 2);
    assert_eq!(history.run.tree(), history::BASE_TREE);
}

#[test]
fn an_exceeded_budget_stops_the_run_with_an_event() {
    let mut rounds = History::new(1, 0);
    rounds.failing_round();
    rounds.answered(Role::Act);
    let mut slow = before(Role::Do);
    slow.open();
    slow.wait_ms(60 * 60_000);
    slow.record(Fact::StepCommitted(committed(
        StepRef { index: 2, role: Role::Do, ..first() },
        TurnEnd::Answered,
        false,
    )));
    let mut large = before(Role::Act);
    large.turn(Role::Act, TurnEnd::Answered, true);
    let (change, step) = large.open_change();
    let over = BudgetExceeded { budget: Budget::MaxPatchKb, limit: 8, actual: 9 };
    large.record(large.dropped(change, step, Reason::BudgetExceeded, Some(over)));
    for (mut history, budget, limit, actual) in
        [(rounds, Budget::MaxIterations, 1, 2), (slow, Budget::MaxMinutes, 60, 60), (large, Budget::MaxPatchKb, 8, 9)]
    {
        let other = BudgetExceeded { budget, limit, actual: actual + 1 };
        history.refuse(Fact::BudgetExceeded(other));
        assert_eq!((history.finish(), history.run.reason), (Status::Stopped, Some(Reason::BudgetExceeded)));
        assert_eq!(history.run.status.legacy(history.run.reason), "stopped");
        let recorded = &history.events[history.events.len() - 2].fact;
        assert_eq!(*recorded, Fact::BudgetExceeded(BudgetExceeded { budget, limit, actual }));
    }
}

fn first() -> StepRef {
    StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None }
}

#[test]
fn a_budget_that_is_not_exceeded_cannot_be_on_record_as_exceeded() {
    let mut history = before(Role::Check);
    history.check(Verdict::Pass, &[]);
    history.refuse(Fact::BudgetExceeded(BudgetExceeded { budget: Budget::MaxIterations, limit: 3, actual: 4 }));
    assert_eq!(history.finish(), Status::Succeeded);
}

#[test]
fn a_run_stops_after_max_iterations() {
    for limit in [1, 2, 5] {
        let mut history = History::new(limit, 0);
        for iteration in 1..=limit {
            assert_eq!(history.due_turn().iteration, iteration);
            history.failing_round();
            history.answered(Role::Act);
        }
        let step = StepRef {
            index: limit * 4 + 1,
            role: Role::Plan,
            iteration: limit + 1,
            attempt: 1,
            item: None,
            node: None,
        };
        history.refuse(Fact::StepStarted { step, base: None, taken: None });
        assert_eq!(history.finish(), Status::Stopped);
        assert_eq!(history.run.iteration(), limit);
    }
}

#[test]
fn a_patch_over_a_budget_is_refused() {
    let limits = budgets(3);
    for (bytes, files, risky, budget) in
        [(8 * 1024 + 1, 1, 0, Budget::MaxPatchKb), (1, 4, 0, Budget::MaxChangedFiles), (1, 3, 2, Budget::MaxRiskyFiles)]
    {
        let sizes = Sizes { patch_bytes: bytes, files: files as u64, risky: risky as u64 };
        let over = over_budget(&limits, &sizes).unwrap();
        assert_eq!(over.budget, budget);
        let mut history = before(Role::Act);
        history.turn(Role::Act, TurnEnd::Answered, true);
        let (change, step) = history.open_change();
        let applied = history.applied(change, step, bytes, files, risky);
        history.refuse(applied);
        history.record(history.dropped(change, step, Reason::BudgetExceeded, Some(over)));
        assert_eq!(history.finish(), Status::Stopped);
        assert_eq!(history.run.tree(), history::BASE_TREE);
    }
    assert_eq!(over_budget(&limits, &Sizes { patch_bytes: 8 * 1024, files: 3, risky: 1 }), None);
    let unlimited = Budgets { max_patch_kb: None, max_changed_files: None, max_risky_files: None, ..limits };
    assert_eq!(over_budget(&unlimited, &Sizes { patch_bytes: u64::MAX, files: u64::MAX, risky: u64::MAX }), None);
}

#[test]
fn both_sides_of_a_change_are_judged() {
    let gone = ChangedPath { path: b".git/hooks/x".to_vec(), old_mode: Some(0o100_644), ..ChangedPath::default() };
    let observed = Observed { changes: vec![gone], ..Observed::default() };
    assert_eq!(
        judge_scope(
            &observed,
            &Scope::new(&contract::Scope::default(), Default::default(), contract::RULES),
            &ProtectedPaths::built_in(),
            None
        )
        .len(),
        1
    );
}

#[test]
fn a_patch_that_does_not_apply_fails_the_step_and_the_run() {
    let mut history = before(Role::Act);
    let act = history.turn(Role::Act, TurnEnd::Answered, true);
    let (change, step) = history.open_change();
    history.record(history.dropped(change, step, Reason::PatchFailed, None));
    let record = history.run.steps().iter().find(|record| record.step == act).unwrap();
    assert_eq!(record.status, StepStatus::Fail);
    assert_eq!((history.finish(), history.run.reason), (Status::Failed, Some(Reason::PatchFailed)));
    assert_eq!(history.run.tree(), history::BASE_TREE);
}

#[test]
fn a_patch_that_breaks_policy_denies_the_run() {
    let mut history = before(Role::Act);
    history.turn(Role::Act, TurnEnd::Answered, true);
    let (change, step) = history.open_change();
    history.record(history.dropped(change, step, Reason::PolicyViolation, None));
    assert_eq!((history.finish(), history.run.reason), (Status::Denied, Some(Reason::PolicyViolation)));
}

#[test]
fn a_change_that_was_cut_off_is_judged_again() {
    let mut history = before(Role::Act);
    history.turn(Role::Act, TurnEnd::Answered, true);
    let due = history.run.next();
    let (change, _) = history.open_change();
    history.refuse(Fact::ChangeRecovered { change });
    history.refuse(Fact::ChangeInterrupted { change: change + 1 });
    history.record(Fact::ChangeInterrupted { change });
    assert_eq!(history.run.next(), due);
    history.change();
    history.refuse(Fact::ChangeRecovered { change: change + 1 });
    history.record(Fact::ChangeRecovered { change });
}

#[test]
fn a_non_zero_exit_fails_the_step_and_the_run() {
    for process in [ProcessEnd::Exited(1), ProcessEnd::Exited(255), ProcessEnd::Signaled(9)] {
        for role in Role::PDCA {
            let mut history = before(role);
            // Whatever else it left behind: an answer, a verdict, a patch.
            let files = ["patch.diff", "verdict.json", "scorecard.md"];
            let turn = Turn { process: process.clone(), verdict: Some(PASS_VERDICT), files: &files, ..Turn::default() };
            let judged = take(&mut history, &turn);
            assert_eq!((judged.status, judged.end), (StepStatus::Fail, TurnEnd::Failed));
            assert!(!judged.patch && judged.facts.is_empty());
            assert_eq!(judged.response.status, ResponseStatus::Fail);
            assert_eq!((history.finish(), history.run.reason), (Status::Failed, Some(Reason::AgentFailed)));
        }
    }
}

#[test]
fn a_deadline_times_the_run_out() {
    for process in [ProcessEnd::WallDeadline, ProcessEnd::IdleDeadline] {
        let mut history = before(Role::Do);
        take(&mut history, &Turn { process, ..Turn::default() });
        assert_eq!((history.finish(), history.run.reason), (Status::TimedOut, Some(Reason::AgentTimeout)));
    }
}

#[test]
fn a_turn_of_which_nothing_was_kept_leaves_its_number_to_the_next_attempt() {
    let mut history = before(Role::Do);
    let step = history.open();
    history.record(Fact::StepInterrupted { step });
    assert_eq!(history.due_turn(), StepRef { attempt: 2, ..step });
    let step = history.open();
    let evidence = contract::Digest::from_bytes([4; 32]);
    history.refuse(Fact::ReconciledStep { step, dir: "steps/009-do".into(), evidence });
    history.record(Fact::ReconciledStep { step, dir: "steps/002-do".into(), evidence });
    assert_eq!(history.due_turn(), StepRef { index: 3, attempt: 3, ..step });
}

#[test]
fn a_record_of_a_step_must_fit_together() {
    let mut history = before(Role::Do);
    let step = history.open();
    let good = committed(step, TurnEnd::Answered, false);
    for bad in [
        contract::StepCommitted { status: StepStatus::Fail, ..good.clone() },
        contract::StepCommitted { status: StepStatus::Skipped, ..good.clone() },
        contract::StepCommitted { reason: Some(Reason::AgentFailed), ..good.clone() },
        contract::StepCommitted { end: TurnEnd::Failed, ..good.clone() },
        contract::StepCommitted { dir: "steps/001-plan".into(), ..good.clone() },
        contract::StepCommitted { step: StepRef { attempt: 2, ..step }, ..good.clone() },
        contract::StepCommitted { patch: true, ..good.clone() },
    ] {
        history.refuse(Fact::StepCommitted(bad));
    }
    history.record(Fact::StepCommitted(good));
}

#[test]
fn a_paused_run_can_only_be_resumed_ended_or_found_damaged() {
    let mut history = before(Role::Do);
    let step = history.open();
    history.refuse(Fact::RunPaused(end(Some(Reason::Interrupted))));
    history.record(Fact::StepInterrupted { step });
    history.record(Fact::RunPaused(end(Some(Reason::Interrupted))));
    assert_eq!(history.run.next(), Due::Nothing);
    history.refuse(Fact::StepStarted { step: StepRef { attempt: 2, ..step }, base: None, taken: None });
    history.refuse(Fact::RunFailed(end(None)));
    history.refuse(Fact::RunPaused(end(None)));
    let mut canceled = history.clone();
    canceled.record(Fact::RunCanceled(end(Some(Reason::Canceled))));
    let mut damaged = history.clone();
    damaged.record(Fact::EvidenceLost { findings: vec!["x".into()] });
    assert_eq!((damaged.run.status, damaged.run.reason), (Status::Failed, Some(Reason::EvidenceLost)));
    history.record(Fact::RunResumed { pid: 2 });
    history.refuse(Fact::RunResumed { pid: 3 });
    assert_eq!(history.due_turn(), StepRef { attempt: 2, ..step });
}

#[test]
fn a_run_starts_only_under_the_contract_it_names() {
    let history = History::new(3, 0);
    let mut other = history.events[0].clone();
    let Fact::RunStarted(started) = &mut other.fact else { panic!() };
    started.contract = contract(budgets(99), 0);
    assert!(Run::start(history.run.id, &other).is_err());
    assert!(Run::fold(history.run.id, &[]).is_err());
    let mut late = history.events[0].clone();
    late.seq = 2;
    assert!(Run::start(history.run.id, &late).is_err());
}

/// Of the roles of a loop, those that plan and judge have nothing to do anything with; those that try and change things do it
/// in a workspace of their own, without a network.
#[test]
fn roles_that_only_think_change_nothing_and_run_nothing() {
    let mut contract = contract(budgets(3), 0);
    let agent = contract::AgentConfig::of(contract::AgentType::Codex);
    contract.agents = Role::PDCA.into_iter().map(|role| (role, agent.clone())).collect();
    let mut history = History::under(contract);
    for (role, works) in [(Role::Plan, false), (Role::Do, true), (Role::Check, false), (Role::Act, true)] {
        let step = history.open();
        let spec = history.run.spec(step).unwrap();
        assert_eq!((step.role, spec.rights.write), (role, works));
        assert_eq!(spec.rights.shell == contract::work::ShellRight::Deny, !works, "{role}");
        assert_eq!(spec.rights.network, contract::work::NetworkRight::Deny, "{role}");
        // What they deliver is a document of this form, and only those that work leave anything else.
        assert_eq!(spec.answer_schema()["type"], "object", "{role}");
        assert_eq!(spec.product == run::Product::Patch, role == Role::Act, "{role}");
        history.record(Fact::StepCommitted(committed(step, TurnEnd::Answered, false)));
        if role == Role::Check {
            history.record(verdict(step, Verdict::Fail, Verdict::Fail, &[]));
        }
    }
}

#[test]
fn a_turn_looks_back_on_the_last_steps_and_knows_how_many_came_before() {
    let mut limited = contract(budgets(20), 0);
    limited.limits.look_back = Some(3);
    let agent = contract::AgentConfig::of(contract::AgentType::Exec);
    limited.agents = Role::PDCA.into_iter().map(|role| (role, agent.clone())).collect();
    let mut history = History::under(limited);
    history.failing_round();
    history.answered(Role::Act);
    let step = history.open();
    let spec = history.run.spec(step).unwrap();
    assert_eq!(spec.look_back.dirs, ["steps/002-do", "steps/003-check", "steps/004-act"]);
    assert_eq!(spec.look_back.earlier, 1);
    assert!(history.run.spec(StepRef { index: 9, ..step }).is_none(), "only what is open has a spec");
}
