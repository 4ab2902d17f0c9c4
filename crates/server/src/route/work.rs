//! Having something done: starting runs, pausing, continuing and ending them, landing and taking back, judging again.
//! Each is what the command line does, carried out by the same host and put on record with who asked.

use super::graph::{edit, require_version};
use super::{run_of, shown, with_run};
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem, done};
use axum::http::StatusCode;
use contract::api::{NewRun, PatchRun, ReplayHow, ReplayRun, ResumeRun, RunWish, WishedStatus};
use contract::documents::ReexecStatus;
use contract::graph::GraphEdit;
use contract::replay::ReplayMode;
use contract::{Status, Violation};
use runner::{Replay, Request, Start};
use serde_json::{Value, json};
use std::sync::Arc;

/// How many items of a run are worked on at once, unless somebody says.
pub(crate) const JOBS: usize = 2;

pub(crate) fn start(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let given: NewRun = call.read()?;
    require_version(given.contract_version.as_deref())?;
    let start = order(app, call, &given)?;
    let (follower, notes) = app.hosting.start(&app.sender, start)?;
    let slug = follower.run().id.slug();
    drop(follower);
    app.on_record(call, "POST /api/runs", Some(&slug))?;
    let beside = if notes.is_empty() { json!({}) } else { json!({"notes": notes}) };
    with_run(app, &slug, StatusCode::CREATED, beside)
}

/// What is to be started.
fn order(app: &Arc<App>, call: &Call, given: &NewRun) -> Outcome<Start> {
    let approved_by = given.yes.then(|| call.principal.name.clone());
    let kinds = [given.contract.is_some(), given.batch.is_some(), given.goal.is_some(), given.sentence.is_some()];
    refuse_strays(given, kinds == [false; 4])?;
    match kinds {
        [true, false, false, false] => document(app, "contract", json!(given.contract), approved_by),
        [false, true, false, false] => document(app, "batch", json!(given.batch), approved_by),
        [false, false, true, false] => {
            let (goal, agent) = (given.goal.clone().unwrap_or_default(), given.agent.clone());
            Ok(Start::Goal { goal, criteria: given.acceptance_criteria.clone(), agent })
        }
        [false, false, false, true] => {
            Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "runs cannot be started from a sentence over HTTP yet"))
        }
        [false, false, false, false] => Ok(Start::Graph {
            goal: String::new(),
            mode: given.mode,
            global_mode: given.global_mode,
            tests: given.test.clone(),
        }),
        _ => Err(Problem::at("", "exactly one of contract, batch, goal and sentence")),
    }
}

/// Refuses what does not belong to this kind of run, since it would be ignored.
fn refuse_strays(given: &NewRun, is_graph: bool) -> Outcome<()> {
    let is_sentence = given.sentence.is_some();
    let strays = [
        ("allow", !given.allow.is_empty() && !is_sentence, "only a sentence has this"),
        ("budget", !given.budget.is_empty() && !is_sentence, "only a sentence has this"),
        ("test", !given.test.is_empty() && !is_sentence && !is_graph, "only a sentence or a graph run has this"),
        ("mode", given.mode.is_some() && !is_graph, "only a graph run has this"),
        ("globalMode", given.global_mode.is_some() && !is_graph, "only a graph run has this"),
        ("agent", given.agent.is_some() && is_graph, "each node of a graph run has its own"),
    ];
    match strays.iter().find(|(_, is_stray, _)| *is_stray) {
        Some((name, _, why)) => Err(Problem::at(&format!("/{name}"), *why)),
        None => Ok(()),
    }
}

/// A contract or a batch. What is wrong with it is told with its place in the body, and goes on record.
fn document(app: &Arc<App>, name: &str, document: Value, approved_by: Option<String>) -> Outcome<Start> {
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
    let (message, value) = app.ask(request(slug.clone()))?;
    app.on_record(call, what, Some(&slug))?;
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
    let id = app.with_reader(|reader| reader.load(&slug))?.0.id;
    app.ask(Request::Unlist { run: slug, by: call.principal.name.clone() })?;
    Reply::ok(json!({"runId": id}))
}

pub(crate) fn patch(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let PatchRun { patch: RunWish { status, mode, global_mode } } = call.read()?;
    let run = shown(app, &slug)?;
    if mode.is_some_and(|mode| mode != run.mode) || global_mode.is_some_and(|mode| mode != run.global_mode) {
        edit(app, call, &slug, GraphEdit::Mode { mode, global_mode }, "/patch")?;
    }
    let is_live = || app.hosting.live(&slug).is_some();
    match status {
        Some(WishedStatus::Paused) if is_live() => drop(app.ask(Request::Pause { run: slug.clone() })?),
        Some(WishedStatus::Paused) if run.state != Status::Paused => {
            return Err(Problem::conflict(format!("the run is {}, so there is nothing to pause", run.state)));
        }
        Some(WishedStatus::Running) if !is_live() => go_on(app, call, &slug, &ResumeRun::default())?,
        Some(WishedStatus::Completed) => {
            edit(app, call, &slug, GraphEdit::Done, "/patch")?;
            if !is_live() {
                go_on(app, call, &slug, &ResumeRun::default())?;
            }
        }
        Some(WishedStatus::Paused | WishedStatus::Running) | None => {}
    }
    app.on_record(call, "PATCH /api/runs/{id}", Some(&slug))?;
    with_run(app, &slug, StatusCode::OK, json!({}))
}

pub(crate) fn resume(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let given: ResumeRun = call.read()?;
    go_on(app, call, &slug, &given)?;
    app.on_record(call, "POST /api/runs/{id}/resume", Some(&slug))?;
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

/// Judges a run again on its evidence, or has it carried out again as a run of its own, to be compared.
pub(crate) fn replay(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let ReplayRun { mode } = call.read()?;
    let (context, state) = (app.hosting.context(), app.hosting.state());
    let record = app.with_reader_and(|reader| Ok(runner::verify_run(reader, &context.trust, &slug)?))?;
    if mode == ReplayHow::Reexec {
        runner::check_record(&record)?;
        let (follower, _) = app.hosting.start(&app.sender, Start::Again { run: slug.clone(), jobs: JOBS })?;
        let again = follower.run().id.slug();
        app.on_record(call, "POST /api/runs/{id}/replay", Some(&slug))?;
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
    let (_, path) = app.ask(request)?;
    app.on_record(call, "POST /api/runs/{id}/replay", Some(&slug))?;
    Reply::ok(json!({"run_id": slug, "mode": ReplayMode::Rehydrate, "status": status, "path": path, "report": kept}))
}
