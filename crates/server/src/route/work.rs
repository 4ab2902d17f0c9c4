//! Having something done: starting runs, pausing, continuing and ending them, landing and taking back, judging again.
//! Each is what the command line does, carried out by the same host and put on record with who asked.

use super::graph::{edit, require_version};
use super::{run_of, shown, with_run};
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem, done};
use crate::route::sentence::{Proposed, Said};
use crate::sessions::Right;
use axum::http::StatusCode;
use contract::api::{ForkRun, NewIntake, NewRun, PatchRun, ReplayHow, ReplayRun, ResumeRun, RunWish, WishedStatus};
use contract::documents::ReexecStatus;
use contract::graph::GraphEdit;
use contract::replay::ReplayMode;
use contract::{Status, Violation};
use runner::{Follower, Replay, Request, Start};
use serde_json::{Value, json};
use std::sync::Arc;

/// How many items of a run are worked on at once, unless somebody says.
pub(crate) const JOBS: usize = 2;

pub(crate) fn start(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let given: NewRun = call.read()?;
    require_version(given.contract_version.as_deref())?;
    let start = match order(app, call, &given)? {
        Proposed::Shown(intake) => return Reply::ok(json!(intake.preview)),
        Proposed::Started(start) => start,
    };
    started(app, call, "POST /api/runs", start)
}

/// Proposes the contract of a sentence with what norma would like to know, or starts it.
pub(crate) fn intake(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let given: NewIntake = call.read()?;
    match super::sentence::propose(app, call, &Said::of_intake(&given))? {
        Proposed::Shown(intake) => Reply::ok(json!(intake)),
        Proposed::Started(start) => started(app, call, "POST /api/intake", start),
    }
}

/// Has the host start something; answers with the run.
fn started(app: &Arc<App>, call: &Call, what: &str, start: Start) -> Outcome<Reply> {
    app.on_record(call, what, None)?;
    let (follower, notes) = app.hosting.start(&app.sender, start)?;
    begun(app, call, "POST /api/runs", follower, notes)
}

/// Answers with a run that was started, and puts on record what it is called.
pub(super) fn begun(app: &App, call: &Call, what: &str, follower: Follower, notes: Vec<String>) -> Outcome<Reply> {
    let slug = follower.run().id.slug();
    drop(follower);
    // Once more with its name, which it did not have before.
    app.on_record(call, what, Some(&slug))?;
    let beside = if notes.is_empty() { json!({}) } else { json!({"notes": notes}) };
    with_run(app, &slug, StatusCode::CREATED, beside)
}

/// What is to be started.
fn order(app: &Arc<App>, call: &Call, given: &NewRun) -> Outcome<Proposed> {
    refuse_stray(given)?;
    let start = match (&given.contract, &given.batch, &given.goal, &given.sentence) {
        (Some(contract), None, None, None) => document(app, call, given, ("contract", json!(contract)))?,
        (None, Some(batch), None, None) => document(app, call, given, ("batch", json!(batch)))?,
        (None, None, Some(goal), None) => {
            let (goal, agent) = (goal.clone(), given.agent.clone());
            Start::Goal { goal, criteria: given.acceptance_criteria.clone(), agent }
        }
        (None, None, None, Some(sentence)) => {
            return super::sentence::propose(app, call, &Said::of_run(given, sentence));
        }
        (None, None, None, None) => {
            let (mode, global_mode, tests) = (given.mode, given.global_mode, given.test.clone());
            Start::Graph { goal: String::new(), mode, global_mode, tests }
        }
        _ => return Err(Problem::at("", "exactly one of contract, batch, goal and sentence")),
    };
    Ok(Proposed::Started(start))
}

/// Refuses what means nothing for what is started.
fn refuse_stray(given: &NewRun) -> Outcome<()> {
    let (sentence, goal) = (given.sentence.is_some(), given.goal.is_some());
    let graph = !sentence && !goal && given.contract.is_none() && given.batch.is_none();
    let stray = [
        ("allow", !given.allow.is_empty() && !sentence, "only a sentence has this"),
        ("test", !given.test.is_empty() && !sentence && !graph, "only a sentence and a graph run have this"),
        ("mode", given.mode.is_some() && !graph, "only a graph run has this"),
        ("globalMode", given.global_mode.is_some() && !graph, "only a graph run has this"),
        ("budget", !given.budget.is_empty() && !sentence, "only a sentence has this"),
        ("yes_wide", given.yes_wide && !sentence, "only a sentence has this"),
        ("agent", given.agent.is_some() && !sentence && !goal, "only a goal and a sentence have this"),
        (
            "acceptance_criteria",
            !given.acceptance_criteria.is_empty() && !sentence && !goal,
            "only a goal and a sentence have this",
        ),
    ];
    let violation =
        |(name, _, why): &(&str, bool, &str)| Violation { pointer: format!("/{name}"), message: (*why).to_owned() };
    let found: Vec<Violation> = stray.iter().filter(|(_, is_stray, _)| *is_stray).map(violation).collect();
    if found.is_empty() { Ok(()) } else { Err(Problem::violations("the body is refused", found)) }
}

/// A contract or a batch. What is wrong with it is told with its place in the body, and goes on record.
fn document(app: &Arc<App>, call: &Call, given: &NewRun, (name, document): (&str, Value)) -> Outcome<Start> {
    if given.yes && !call.principal.role.may(Right::Approve) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "you may start runs, but not approve what they need"));
    }
    let approved_by = given.yes.then(|| call.principal.name.clone());
    let text = document.to_string();
    check(app, name, &text)?;
    Ok(Start::Document { name: name.to_owned(), text, jobs: JOBS, new: false, approved_by, typed: None })
}

/// Refuses a document that would not be accepted; `place` is the member of the body that it is.
pub(crate) fn check(app: &Arc<App>, place: &str, text: &str) -> Outcome<runner::Submitted> {
    let context = app.hosting.context();
    let settings = app.settings()?;
    let (objects, layout) = (&app.hosting.state().objects, &context.layout);
    let submitted = runner::submit(&context.user, objects, layout, &settings, text.as_bytes(), &Default::default())?;
    if let Some(refusal) = submitted.refusal() {
        done(app.hosting.handle(refusal))?;
    }
    if let Err(violations) = &submitted.items {
        let at = |violation: &Violation| Violation {
            pointer: if place.is_empty() {
                violation.pointer.clone()
            } else {
                format!("/{place}{}", violation.pointer)
            },
            message: violation.message.clone(),
        };
        return Err(Problem::violations("it is refused, so nothing is run", violations.iter().map(at).collect()));
    }
    Ok(submitted)
}

/// Has the host do something to one run; answers with the run as it is then.
fn change(app: &Arc<App>, call: &Call, what: &str, request: impl FnOnce(String) -> Request) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    app.on_record(call, what, Some(&slug))?;
    let (message, value) = app.ask(request(slug.clone()))?;
    with_run(app, &slug, StatusCode::OK, json!({"message": message, "value": value}))
}

pub(crate) fn land(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    change(app, call, "POST /api/runs/{id}/land", |run| Request::Land { run })
}

pub(crate) fn undo(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    change(app, call, "POST /api/runs/{id}/undo", |run| Request::Undo { run })
}

pub(crate) fn cancel(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    change(app, call, "POST /api/runs/{id}/cancel", |run| Request::Cancel { run })
}

pub(crate) fn delete(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let id = app.id_of(&slug)?;
    app.ask(Request::Unlist { run: slug, by: call.principal.name.clone() })?;
    Reply::ok(json!({"runId": id}))
}

pub(crate) fn patch(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let PatchRun { patch: RunWish { status, mode, global_mode, layout } } = call.read()?;
    if let Some(layout) = layout {
        super::layout::keep(app, call, &slug, &layout)?;
        // What is drawn where is no work, and has its own line on record.
        if status.is_none() && mode.is_none() && global_mode.is_none() {
            return with_run(app, &slug, StatusCode::OK, json!({}));
        }
    }
    let run = shown(app, &slug)?;
    if mode.is_some_and(|mode| mode != run.mode) || global_mode.is_some_and(|mode| mode != run.global_mode) {
        edit(app, call, &slug, GraphEdit::Mode { mode, global_mode }, "/patch")?;
    }
    app.on_record(call, "PATCH /api/runs/{id}", Some(&slug))?;
    let is_live = || app.hosting.live(&slug).is_some();
    match status {
        Some(WishedStatus::Paused) if is_live() => drop(app.ask(Request::Pause { run: slug.clone() })?),
        Some(WishedStatus::Paused) if run.state != Status::Paused => {
            return Err(Problem::conflict(format!("the run is {}, so there is nothing to pause", run.state)));
        }
        Some(WishedStatus::Running) => {
            app.hosting.wait_for_pause(&slug);
            if !is_live() {
                go_on(app, call, &slug, &ResumeRun::default())?;
            }
        }
        Some(WishedStatus::Completed) => {
            edit(app, call, &slug, GraphEdit::Done, "/patch")?;
            if !is_live() {
                go_on(app, call, &slug, &ResumeRun::default())?;
            }
        }
        Some(WishedStatus::Paused) | None => {}
    }
    with_run(app, &slug, StatusCode::OK, json!({}))
}

pub(crate) fn resume(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let given: ResumeRun = call.read()?;
    app.on_record(call, "POST /api/runs/{id}/resume", Some(&slug))?;
    app.hosting.wait_for_pause(&slug);
    go_on(app, call, &slug, &given)?;
    with_run(app, &slug, StatusCode::OK, json!({}))
}

fn go_on(app: &Arc<App>, call: &Call, slug: &str, given: &ResumeRun) -> Outcome<()> {
    let (run, jobs) = (slug.to_owned(), given.jobs.map_or(JOBS, |jobs| jobs as usize));
    let start = match given.budget.is_empty() {
        true => Start::Resume { run, jobs, approved_by: None },
        false => Start::Extend { run, budgets: given.budget.clone(), jobs, by: call.principal.name.clone() },
    };
    app.hosting.start(&app.sender, start)?;
    Ok(())
}

/// Starts a run from where this one was after an event.
pub(crate) fn fork(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let ForkRun { seq } = call.read()?;
    let last = app.with_reader(|reader| reader.length(&slug))?;
    if seq > last {
        return Err(Problem::at("/seq", format!("the run has {last} events")));
    }
    app.on_record(call, "POST /api/runs/{id}/fork", Some(&slug))?;
    let by = call.principal.name.clone();
    let (follower, notes) = app.hosting.start(&app.sender, Start::Fork { run: slug, seq, jobs: JOBS, by })?;
    begun(app, call, "POST /api/runs/{id}/fork", follower, notes)
}

/// Judges a run again on its evidence, or has it carried out again as a run of its own, to be compared.
pub(crate) fn replay(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let ReplayRun { mode } = call.read()?;
    let (context, state) = (app.hosting.context(), app.hosting.state());
    let record = app.with_reader_and(|reader| Ok(runner::verify_run(reader, &context.trust, &slug)?))?;
    if mode == ReplayHow::Reexec {
        runner::check_record(&record)?;
        app.on_record(call, "POST /api/runs/{id}/replay", Some(&slug))?;
        let (follower, _) = app.hosting.start(&app.sender, Start::Again { run: slug.clone(), jobs: JOBS })?;
        let again = follower.run().id.slug();
        return with_run(app, &again, StatusCode::OK, json!({"run_id": slug, "mode": ReplayMode::Reexec}));
    }
    let policies = runner::load_policies(&context.layout)?;
    let report = app.with_reader_and(|reader| {
        let replay = Replay { reader, objects: &state.objects, policies: &policies };
        Ok(replay.rehydrate(&record)?)
    })?;
    let (status, at): (ReexecStatus, _) = (report.status, report.replayed_at);
    let kept = json!(report);
    let request =
        Request::KeepReplay { run: slug.clone(), mode: ReplayMode::Rehydrate, status, at, report: kept.clone() };
    app.on_record(call, "POST /api/runs/{id}/replay", Some(&slug))?;
    let (_, path) = app.ask(request)?;
    Reply::ok(json!({"run_id": slug, "mode": ReplayMode::Rehydrate, "status": status, "path": path, "report": kept}))
}
