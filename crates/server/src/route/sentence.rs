//! A run that is asked for in a sentence: its contract is proposed as on the command line, by the same function, and shown;
//! only with a `yes` is it started. What is wrong is told with its place in the body.

use super::work::JOBS;
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use crate::sessions::Right;
use axum::http::StatusCode;
use contract::Violation;
use contract::api::NewRun;
use runner::{Checked, Context, Error, Part, Planned, Start, Submitted, Typing, Unplanned, Wanted};
use std::sync::Arc;

/// What comes of a sentence.
pub(crate) enum Proposed {
    /// It is shown, and nothing is started.
    Shown(Reply),
    Started(Start),
}

/// Proposes the contract of a sentence.
pub(crate) fn propose(app: &Arc<App>, call: &Call, given: &NewRun, sentence: &str) -> Outcome<Proposed> {
    if given.yes_wide && !call.principal.role.may(Right::Approve) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "you may start runs, but not approve what they need"));
    }
    let context = app.hosting.context_of(&app.sender)?;
    let planned = plan(app, &context, given, sentence)?;
    let checked = planned.check().map_err(refused)?;
    if !given.yes {
        let shown = planned.shown(&checked, next(&checked));
        let value = serde_json::to_value(shown).expect("BUG: a preview is plain data");
        return Ok(Proposed::Shown(Reply::Json(StatusCode::OK, value)));
    }
    if !given.yes_wide && !checked.wide.is_empty() {
        let problem = Problem::conflict("`yes` does not approve what this contract needs approval for");
        let hint = "approve it as well: \"yes_wide\": true; or name less: \"allow\"";
        return Err(problem.with(checked.wide, Some(hint)));
    }
    Ok(Proposed::Started(Start::Document {
        name: "the sentence".to_owned(),
        text: planned.document.to_string(),
        jobs: JOBS,
        new: false,
        approved_by: given.yes_wide.then(|| call.principal.name.clone()),
        typed: Some(planned.typed),
    }))
}

fn plan<'c>(app: &App, context: &'c Context, given: &NewRun, sentence: &str) -> Outcome<Planned<'c>> {
    // Paths are meant from the root of the repository: a client has no current directory.
    let (allow, tests, criteria) = (&given.allow, &given.test, &given.acceptance_criteria);
    let typing = Typing { cwd: &context.layout.root, allow, tests, criteria };
    let wanted = Wanted { sentence, typing, agent: given.agent.as_deref(), model: None, budgets: &given.budget };
    let pick = |ready: &[runner::Surveyed]| Err(runner::name_one_agent(context, ready));
    runner::plan(context, (app.sender.config.as_deref(), app.sender.mode), &wanted, pick).map_err(refused)
}

fn next(checked: &Checked) -> String {
    let wide = if checked.wide.is_empty() { "" } else { ", \"yes_wide\": true" };
    format!("the same with \"yes\": true{wide} starts it")
}

/// Why there is no contract, with the place in the body.
fn refused(unplanned: Unplanned) -> Problem {
    let (pointer, error) = match unplanned {
        Unplanned::Other(error) => return error.into(),
        Unplanned::Contract(submitted) => return violations(*submitted),
        Unplanned::At(Part::Agent, error) => ("/agent".to_owned(), error),
        Unplanned::At(Part::Allow(at), error) => (format!("/allow/{at}"), error),
        Unplanned::At(Part::Test(at), error) => (format!("/test/{at}"), error),
        Unplanned::At(Part::Criteria, error) => ("/acceptance_criteria".to_owned(), error),
        Unplanned::At(Part::Budget, error) => ("/budget".to_owned(), error),
    };
    match &error {
        Error::Usage { message, .. } => Problem::at(&pointer, message).with(error.causes(), error.hint()),
        _ => error.into(),
    }
}

/// What is wrong with a contract that was made of the body, with where each part of it comes from.
fn violations(submitted: Submitted) -> Problem {
    const FROM: [(&str, &str); 4] = [
        ("/allowed_paths", "/allow"),
        ("/test_commands", "/test"),
        ("/agent_id", "/agent"),
        ("/description", "/sentence"),
    ];
    let placed = |violation: Violation| {
        let found = FROM.iter().find_map(|(of, from)| Some((violation.pointer.strip_prefix(of)?, from)));
        let pointer = found.map_or_else(String::new, |(rest, from)| format!("{from}{rest}"));
        Violation { pointer, ..violation }
    };
    let all = submitted.items.err().unwrap_or_default();
    Problem::violations("it is refused, so nothing is run", all.into_iter().map(placed).collect())
}
