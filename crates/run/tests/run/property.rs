//! Histories nobody thought of. A script of random bytes decides what happens whenever something is due; a
//! checker that keeps its own books, and knows nothing of `Run`'s fields, judges the log that comes out. Then
//! one event is inserted, removed, swapped or changed: either the log no longer folds, or it was not accepted
//! over a failed gate; and if nothing in it is out of schedule either, the checker has nothing at all against it.

use crate::history::{History, commit, committed, end, landing, renumbered, run_id, tree, verdict};
use contract::{
    BudgetExceeded, Event, Fact, ItemEnded, ItemStatus, Reason, Role, RunStarted, StepRef, StepStatus, Timestamp,
    TreeId, TurnEnd, Verdict,
};
use proptest::prelude::*;
use run::{Due, Run};
use std::collections::BTreeMap;

/// Random bytes, one a decision; the same bytes make the same history.
pub(crate) struct Script<'a>(std::slice::Iter<'a, u8>);

impl Script<'_> {
    pub(crate) fn new(bytes: &[u8]) -> Script<'_> {
        Script(bytes.iter())
    }

    pub(crate) fn pick(&mut self, choices: u8) -> Option<u8> {
        self.0.next().map(|byte| byte % choices)
    }

    /// Continues the first choice when the script is over, so that nothing stays half done.
    pub(crate) fn pick_or_first(&mut self, choices: u8) -> u8 {
        self.pick(choices).unwrap_or(0)
    }
}

pub(crate) fn played(script: &[u8], max_iterations: u32, retries: u32) -> History {
    let mut history = History::new(max_iterations, retries);
    let mut script = Script::new(script);
    while let Some(mood) = script.pick(24) {
        match mood {
            0 => crash(&mut history),
            1 => history.wait_ms(7 * 60_000),
            2 => drop(history.try_record(Fact::RunCanceled(end(Some(Reason::Canceled))))),
            _ => {}
        }
        match history.run.next() {
            Due::Turn(step) => play_turn(&mut history, &mut script, step),
            Due::Change { .. } => play_change(&mut history, &mut script),
            Due::Land => play_landing(&mut history, &mut script),
            Due::End { .. } => drop(history.finish()),
            Due::Item { .. } | Due::Approval | Due::Ask(_) | Due::Pause { .. } | Due::Nothing => break,
            Due::Advance(_) | Due::AskFor(_) | Due::Stall(_) | Due::FollowUp { .. } | Due::Plan | Due::Questions(_) => {
                break;
            }
        }
    }
    history
}

/// What recovery and `norma resume` record when the process died with nothing open.
fn crash(history: &mut History) {
    if history.try_record(Fact::RunPaused(end(Some(Reason::Interrupted)))).is_ok() {
        history.record(Fact::RunResumed { pid: 2 });
    }
}

fn play_turn(history: &mut History, script: &mut Script<'_>, step: StepRef) {
    let outcome = script.pick_or_first(16);
    let end = match outcome {
        12 => TurnEnd::Failed,
        13 => TurnEnd::ProtocolError,
        14 => TurnEnd::TimedOut,
        15 => TurnEnd::Interrupted,
        _ => TurnEnd::Answered,
    };
    match outcome {
        10 => {
            history.open();
            history.record(Fact::StepInterrupted { step });
            crash(history);
        }
        11 => {
            history.open();
            history.record(Fact::ReconciledStep {
                step,
                dir: format!("steps/{}", step.dir_name()),
                evidence: contract::Digest::from_bytes([4; 32]),
            });
            crash(history);
        }
        _ if step.role == Role::Check && end == TurnEnd::Answered => play_check(history, script),
        _ => {
            let patch = step.role == Role::Act && end == TurnEnd::Answered && script.pick_or_first(4) > 0;
            history.open();
            history.wait_ms(1_000);
            history.record(Fact::StepCommitted(committed(step, end, patch)));
            if end == TurnEnd::ProtocolError {
                history.record(Fact::ProtocolError { step, problems: vec!["no JSON".into()] });
            }
        }
    }
}

fn play_check(history: &mut History, script: &mut Script<'_>) {
    let step = history.open();
    let choice = script.pick_or_first(6);
    let mut done = committed(step, TurnEnd::Answered, false);
    if choice == 3 {
        done.status = StepStatus::Fail;
    }
    history.record(Fact::StepCommitted(done));
    history.record(match choice {
        0 | 1 => verdict(step, Verdict::Pass, Verdict::Pass, &[]),
        2 => verdict(step, Verdict::Pass, Verdict::Fail, &["AC1 does not pass"]),
        3 => verdict(step, Verdict::Pass, Verdict::Fail, &["the check answered fail"]),
        _ => verdict(step, Verdict::Fail, Verdict::Fail, &[]),
    });
}

fn play_change(history: &mut History, script: &mut Script<'_>) {
    let (change, step) = history.open_change();
    let over = BudgetExceeded { budget: contract::Budget::MaxPatchKb, limit: 8, actual: 9 };
    let fact = match script.pick_or_first(10) {
        5 => history.dropped(change, step, Reason::PatchFailed, None),
        6 => history.dropped(change, step, Reason::PolicyViolation, None),
        7 => history.dropped(change, step, Reason::BudgetExceeded, Some(over)),
        8 => Fact::ChangeInterrupted { change },
        choice => {
            let applied = history.applied(change, step, 8 * 1024, 3, 1);
            history.record(applied);
            if choice != 9 {
                return;
            }
            Fact::ChangeRecovered { change }
        }
    };
    history.record(fact);
    crash(history);
}

fn play_landing(history: &mut History, script: &mut Script<'_>) {
    let target = if script.pick_or_first(2) == 0 { "refs/heads/main" } else { "refs/heads/norma/x" };
    history.record(Fact::LandingStarted(landing(target)));
    match script.pick_or_first(6) {
        3 => drop(history.decline()),
        4 => {
            history.record(Fact::RunPaused(end(Some(Reason::Interrupted))));
            history.record(Fact::Landed(landing(target)));
            history.record(Fact::RunResumed { pid: 2 });
        }
        5 => crash(history),
        _ => drop(history.record(Fact::Landed(landing(target)))),
    }
}

/// The checker's own books.
#[derive(Default)]
struct Books {
    kept: u32,
    tree: Option<TreeId>,
    judged: Option<(StepRef, Verdict, Option<TreeId>)>,
    last_answered: Option<(StepRef, StepStatus)>,
    protocol_errors: BTreeMap<(Role, u32), u32>,
    landed: bool,
    refusals: Vec<String>,
    ended: bool,
}

/// What no log may say, under whichever schedule it was written.
fn crimes(events: &[Event]) -> Vec<String> {
    complaints(events).into_iter().filter(|complaint| !complaint.starts_with(SCHEDULE)).collect()
}

/// What marks a complaint about when something was done, not about what was accepted.
pub(crate) const SCHEDULE: &str = "schedule: ";

/// Whether every fact of a log was due when it was recorded.
pub(crate) fn is_scheduled(events: &[Event]) -> bool {
    let Ok(mut run) = Run::start(run_id(), &events[0]) else { return false };
    events[1..].iter().all(|event| run.admits(&event.fact).is_ok() && run.apply(event).is_ok())
}

/// What is wrong with a log, read from outside; nothing if it is sound.
fn complaints(events: &[Event]) -> Vec<String> {
    let Some(Fact::RunStarted(started)) = events.first().map(|event| &event.fact) else {
        return vec!["no start".into()];
    };
    let mut books = Books { tree: Some(started.base.tree), ..Books::default() };
    let mut complaints = Vec::new();
    for event in &events[1..] {
        if books.ended {
            complaints.push(format!("event {} comes after the end", event.seq));
        }
        books.enter(started, &event.fact, &mut complaints);
    }
    complaints
}

impl Books {
    fn enter(&mut self, started: &RunStarted, fact: &Fact, complaints: &mut Vec<String>) {
        match fact {
            Fact::StepStarted { step, .. } if step.iteration > started.contract.budgets.max_iterations => {
                complaints.push(format!("{SCHEDULE}iteration {} was started", step.iteration));
            }
            Fact::StepCommitted(done) => {
                self.keep(done.step, complaints);
                match done.end {
                    TurnEnd::Answered => self.last_answered = Some((done.step, done.status)),
                    TurnEnd::ProtocolError => self.break_protocol(started, done.step, complaints),
                    TurnEnd::Failed | TurnEnd::TimedOut => self.refusals.push(format!("step {}", done.step.index)),
                    TurnEnd::Interrupted => {}
                }
            }
            Fact::ReconciledStep { step, .. } => self.keep(*step, complaints),
            Fact::Verdict(given) => {
                let counts = given.claimed == Verdict::Pass && given.findings.is_empty();
                if given.verdict == Verdict::Pass && !counts {
                    complaints.push("a PASS counts that should not".into());
                }
                self.judged = Some((given.step, given.verdict, self.tree));
            }
            Fact::PatchApplied(applied) => {
                if Some(applied.before) != self.tree {
                    complaints.push("a patch starts from another tree".into());
                }
                self.tree = Some(applied.after);
                self.landed = false;
            }
            Fact::ChangeDropped(dropped) => self.refusals.push(format!("change {}", dropped.change)),
            Fact::BudgetExceeded(over) => self.refusals.push(format!("budget {}", over.budget)),
            Fact::Landed(_) => self.landed = true,
            Fact::EvidenceLost { .. } => self.refusals.push("evidence".into()),
            Fact::RunPassed(_) => self.accept(started, complaints),
            _ => {}
        }
        let over = fact.run_state().is_some_and(|(status, _)| status.is_terminal());
        self.ended |= over;
    }

    fn keep(&mut self, step: StepRef, complaints: &mut Vec<String>) {
        self.kept += 1;
        if step.index != self.kept {
            complaints.push(format!("step {} is the {}. that was kept", step.index, self.kept));
        }
    }

    fn break_protocol(&mut self, started: &RunStarted, step: StepRef, complaints: &mut Vec<String>) {
        let errors = self.protocol_errors.entry((step.role, step.iteration)).or_default();
        *errors += 1;
        if *errors > started.contract.limits.protocol_retries.unwrap_or_default() + 1 {
            complaints.push(format!("{SCHEDULE}{} was retried too often", step.role));
        }
    }

    fn accept(&self, started: &RunStarted, complaints: &mut Vec<String>) {
        if !self.refusals.is_empty() {
            complaints.push(format!("{SCHEDULE}accepted over {:?}", self.refusals));
        }
        match (&self.judged, self.last_answered) {
            (Some((judged, Verdict::Pass, tree)), Some((answered, StepStatus::Ok))) => {
                if *judged != answered || answered.role != Role::Check {
                    complaints.push("the verdict is not of the last turn".into());
                }
                if *tree != self.tree {
                    complaints.push("another tree was judged".into());
                }
            }
            _ => complaints.push("accepted without a PASS".into()),
        }
        if self.tree != Some(started.base.tree) && !self.landed {
            complaints.push("accepted without a landing".into());
        }
    }
}

fn facts_of_every_kind(history: &History) -> Vec<Fact> {
    let step = StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None };
    let mut facts: Vec<Fact> = history.events.iter().map(|event| event.fact.clone()).collect();
    facts.extend([
        Fact::StepStarted { step, base: None, taken: None },
        Fact::StepCommitted(committed(step, TurnEnd::Answered, false)),
        Fact::ReconciledStep { step, dir: "steps/001-plan".into(), evidence: contract::Digest::from_bytes([4; 32]) },
        Fact::StepInterrupted { step },
        Fact::ProtocolError { step, problems: vec![] },
        verdict(step, Verdict::Pass, Verdict::Pass, &[]),
        Fact::ChangeStarted { change: 1, step: 4, before: history.run.tree() },
        history.dropped(1, 4, Reason::PatchFailed, None),
        Fact::ChangeInterrupted { change: 1 },
        Fact::ChangeRecovered { change: 1 },
        Fact::BudgetExceeded(BudgetExceeded { budget: contract::Budget::MaxIterations, limit: 1, actual: 2 }),
        Fact::LandingStarted(landing("refs/heads/main")),
        Fact::Landed(landing("refs/heads/main")),
        Fact::LandingDeclined(contract::LandingDeclined { why: String::new() }),
        Fact::RunPaused(end(None)),
        Fact::RunResumed { pid: 1 },
        Fact::EvidenceLost { findings: vec![] },
        Fact::RunPassed(end(None)),
        Fact::RunFailed(end(None)),
        Fact::RunDenied(end(None)),
        Fact::RunTimedOut(end(None)),
        Fact::RunStopped(end(None)),
        Fact::RunCanceled(end(None)),
    ]);
    facts
}

/// One way to tamper with a log.
#[derive(Debug, Clone)]
pub(crate) enum Tamper {
    Remove(prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
    Insert(prop::sample::Index, prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Change(prop::sample::Index, u8),
}

pub(crate) fn tamper() -> impl Strategy<Value = Tamper> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        index().prop_map(Tamper::Remove),
        (index(), index()).prop_map(|(from, to)| Tamper::Repeat(from, to)),
        (index(), index()).prop_map(|(from, to)| Tamper::Insert(from, to)),
        (index(), index()).prop_map(|(one, other)| Tamper::Swap(one, other)),
        (index(), any::<u8>()).prop_map(|(at, how)| Tamper::Change(at, how)),
    ]
}

impl Tamper {
    pub(crate) fn with(&self, history: &History) -> Vec<Event> {
        let mut events = history.events.clone();
        let len = events.len();
        match self {
            Tamper::Remove(at) => drop(events.remove(at.index(len))),
            Tamper::Repeat(from, to) => {
                let event = events[from.index(len)].clone();
                events.insert(to.index(len + 1), event);
            }
            Tamper::Insert(which, to) => {
                let facts = facts_of_every_kind(history);
                let fact = facts[which.index(facts.len())].clone();
                events.insert(to.index(len + 1), Event { seq: 0, ts: Timestamp::from_unix_ms(0), fact });
            }
            Tamper::Swap(one, other) => events.swap(one.index(len), other.index(len)),
            Tamper::Change(at, how) => change(&mut events[at.index(len)].fact, *how),
        }
        events
    }
}

/// Changes one fact so that it says something else.
pub(crate) fn change(fact: &mut Fact, how: u8) {
    match fact {
        Fact::RunStarted(started) => match how % 3 {
            0 => started.contract.budgets.max_iterations += 1,
            1 => started.base.tree = tree("x"),
            _ => {
                *started.contract.limits.protocol_retries.get_or_insert_default() += 1;
            }
        },
        Fact::StepStarted { step, .. } | Fact::StepInterrupted { step } => change_step(step, how),
        Fact::ReconciledStep { step, dir, .. } => match how % 2 {
            0 => change_step(step, how / 2),
            _ => dir.push('x'),
        },
        Fact::StepCommitted(done) => match how % 6 {
            0 => done.status = if done.status == StepStatus::Ok { StepStatus::Fail } else { StepStatus::Ok },
            1 => done.end = if done.end == TurnEnd::Answered { TurnEnd::Failed } else { TurnEnd::Answered },
            2 => done.patch = !done.patch,
            3 => *done = committed(done.step, TurnEnd::Answered, false),
            4 => done.dir.push('x'),
            _ => change_step(&mut done.step, how / 6),
        },
        Fact::Verdict(given) => match how % 5 {
            0 => given.verdict = Verdict::Pass,
            1 => given.claimed = if given.claimed == Verdict::Pass { Verdict::Fail } else { Verdict::Pass },
            2 => given.findings.clear(),
            3 => (given.claimed, given.verdict, given.findings) = (Verdict::Pass, Verdict::Pass, vec![]),
            _ => change_step(&mut given.step, how / 5),
        },
        Fact::ChangeStarted { change, before, .. } => match how % 2 {
            0 => *change += 1,
            _ => *before = tree("x"),
        },
        Fact::PatchApplied(applied) => match how % 5 {
            0 => applied.before = tree("x"),
            1 => applied.after = tree("x"),
            2 => applied.patch_bytes += 1024 * 1024,
            3 => applied.files.extend(vec!["x".to_owned(); 9]),
            _ => applied.after = applied.before,
        },
        Fact::ChangeDropped(dropped) => match how % 2 {
            0 => dropped.budget = None,
            _ => dropped.before = tree("x"),
        },
        Fact::ChangeInterrupted { change } | Fact::ChangeRecovered { change } => *change += 1,
        Fact::ItemAdded(added) => match how % 3 {
            0 => added.item.needs.clear(),
            1 => added.item.tests.clear(),
            _ => added.item.retries += 1,
        },
        Fact::ItemEnded(ended) => change_end_of_item(ended, how),
        Fact::BudgetExceeded(over) => over.limit += 1,
        Fact::LandingStarted(landing) | Fact::Landed(landing) => landing.commit = commit("x"),
        Fact::RunPaused(end)
        | Fact::RunFailed(end)
        | Fact::RunDenied(end)
        | Fact::RunTimedOut(end)
        | Fact::RunStopped(end)
        | Fact::RunCanceled(end) => *fact = Fact::RunPassed(end.clone()),
        _ => {}
    }
}

/// How many ways there are to change the end of an item.
pub(crate) const WAYS_TO_CHANGE_AN_END: u8 = 9;

fn change_end_of_item(ended: &mut ItemEnded, how: u8) {
    match how % WAYS_TO_CHANGE_AN_END {
        0 => {
            (ended.status, ended.reason) = (ItemStatus::Success, None);
            ended.message.clear();
        }
        1 => ended.status = ItemStatus::Denied,
        2 => ended.gates.iter_mut().for_each(|result| result.passed = true),
        3 => drop(ended.gates.pop()),
        4 => ended.commit = if ended.commit.is_some() { None } else { Some(commit("commit-x")) },
        5 => ended.before = tree("x"),
        6 => ended.after = tree("x"),
        7 => ended.step = ended.step.map(|step| step + 1),
        _ => (ended.item, ended.change) = (ended.item + 1, ended.change + 1),
    }
}

fn change_step(step: &mut StepRef, how: u8) {
    match how % 4 {
        0 => step.index += 1,
        1 => step.iteration += 1,
        2 => step.attempt += 1,
        _ => step.role = if step.role == Role::Check { Role::Act } else { Role::Check },
    }
}

pub(crate) fn script() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_that_follows_what_is_due_is_sound(script in script(), rounds in 1u32..4, retries in 0u32..3) {
        let history = played(&script, rounds, retries);
        prop_assert_eq!(complaints(&history.events), [""; 0]);
        let folded = Run::fold(run_id(), &history.events);
        prop_assert_eq!(folded.as_ref(), Ok(&history.run));
    }

    #[test]
    fn terminal_is_terminal(script in script(), rounds in 1u32..4) {
        let mut history = played(&script, rounds, 1);
        if !history.run.status.is_terminal() {
            crash(&mut history);
            prop_assume!(history.try_record(Fact::RunCanceled(end(Some(Reason::Canceled)))).is_ok());
        }
        prop_assert_eq!(history.run.next(), Due::Nothing);
        for fact in facts_of_every_kind(&history) {
            let event = history.next_event(fact);
            prop_assert!(history.run.clone().apply(&event).is_err(), "{:?}", event.fact);
        }
    }

    #[test]
    fn no_tampered_history_is_accepted_over_a_failed_gate(
        script in script(), rounds in 1u32..4, retries in 0u32..3, tampers in proptest::collection::vec(tamper(), 1..8)
    ) {
        let history = played(&script, rounds, retries);
        for tamper in tampers {
            let tampered = tamper.with(&history);
            if tampered == history.events {
                continue;
            }
            // Numbered anew, so that the machine and not the numbering must notice.
            let events = renumbered(tampered);
            if Run::fold(run_id(), &events).is_ok() {
                prop_assert_eq!(crimes(&events), [""; 0], "{:?}", tamper);
                if is_scheduled(&events) {
                    prop_assert_eq!(complaints(&events), [""; 0], "{:?}", tamper);
                }
            }
        }
    }

    #[test]
    fn a_history_with_a_gap_or_a_repetition_does_not_fold(script in script(), at in any::<prop::sample::Index>()) {
        let history = played(&script, 3, 1);
        prop_assume!(history.events.len() > 1);
        let at = at.index(history.events.len() - 1);
        let mut gap = history.events.clone();
        gap.remove(at);
        prop_assert!(Run::fold(run_id(), &gap).is_err());
        let mut twice = history.events.clone();
        twice.insert(at, twice[at].clone());
        prop_assert!(Run::fold(run_id(), &twice).is_err());
    }
}

/// The scripts reach every end, or the properties above would say little.
#[test]
fn random_histories_reach_every_end() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut reached: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..3000 {
        let script = script().new_tree(&mut runner).unwrap().current();
        let history = played(&script, 1 + script.len() as u32 % 3, 1);
        let landed = if history.run.landed().is_some() { " landed" } else { "" };
        *reached.entry(format!("{}{landed}", history.run.status)).or_default() += 1;
    }
    for word in ["succeeded", "succeeded landed", "failed", "denied", "timed_out", "stopped", "canceled"] {
        assert!(reached.get(word).is_some_and(|times| *times > 5), "{word}: {reached:?}");
    }
}
