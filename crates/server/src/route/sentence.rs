//! A run that is asked for in a sentence: its contract is proposed as on the command line, by the same function, and shown;
//! only with a `yes` (`run` of an intake) is it started. What is wrong is told with its place in the body.

use super::work::JOBS;
use crate::App;
use crate::call::Call;
use crate::problem::{Outcome, Problem};
use crate::sessions::Right;
use axum::http::StatusCode;
use contract::Violation;
use contract::api::{Intake, NewIntake, NewRun};
use runner::{Checked, Context, Error, Part, PipelineWish, Planned, Start, Submitted, Typing, Unplanned, Wanted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What comes of a sentence.
pub(crate) enum Proposed {
    /// It is shown, and nothing is started.
    Shown(Box<Intake>),
    Started(Start),
}

/// What somebody said, over whichever route.
pub(crate) struct Said<'g> {
    sentence: &'g str,
    agent: Option<&'g str>,
    allow: &'g [String],
    test: &'g [String],
    criteria: &'g [String],
    budget: &'g [String],
    answers: BTreeMap<String, String>,
    /// What has it started, if that was said.
    starts: (&'static str, bool),
    yes_wide: bool,
    /// Whether it goes through a pipeline.
    pipeline: bool,
}

impl<'g> Said<'g> {
    pub(crate) fn of_run(given: &'g NewRun, sentence: &'g str) -> Said<'g> {
        Said {
            sentence,
            agent: given.agent.as_deref(),
            allow: &given.allow,
            test: &given.test,
            criteria: &given.acceptance_criteria,
            budget: &given.budget,
            answers: BTreeMap::new(),
            starts: ("yes", given.yes),
            yes_wide: given.yes_wide,
            pipeline: false,
        }
    }

    pub(crate) fn of_intake(given: &'g NewIntake) -> Said<'g> {
        Said {
            sentence: &given.sentence,
            agent: given.agent.as_deref(),
            allow: &given.allow,
            test: &given.test,
            criteria: &given.acceptance_criteria,
            budget: &given.budget,
            answers: given.answers.clone(),
            starts: ("run", given.run),
            yes_wide: given.yes_wide,
            pipeline: given.pipeline,
        }
    }
}

/// Proposes the contract of a sentence.
pub(crate) fn propose(app: &Arc<App>, call: &Call, said: &Said<'_>) -> Outcome<Proposed> {
    if said.yes_wide && !call.principal.role.may(Right::Approve) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "you may start runs, but not approve what they need"));
    }
    let context = app.hosting.context_of(&app.sender)?;
    let planned = plan(app, &context, said)?;
    let checked = planned.check().map_err(refused)?;
    let (start, is_started) = said.starts;
    if !is_started {
        return Ok(Proposed::Shown(Box::new(planned.intake(&checked, next(&checked, start)))));
    }
    if !said.yes_wide && !checked.wide.is_empty() {
        let problem = Problem::conflict(format!("`{start}` does not approve what this contract needs approval for"));
        let hint = "approve it as well: \"yes_wide\": true; or name less: \"allow\"";
        return Err(problem.with(checked.wide, Some(hint)));
    }
    if said.pipeline {
        let mut wish = PipelineWish { goal: said.sentence.to_owned(), ..PipelineWish::default() };
        wish.complete(&planned)?;
        let approved_by = said.yes_wide.then(|| call.principal.name.clone());
        return Ok(Proposed::Started(Start::Pipeline { wish: Box::new(wish), jobs: JOBS, approved_by }));
    }
    Ok(Proposed::Started(Start::Document {
        name: "the sentence".to_owned(),
        text: planned.document.to_string(),
        jobs: JOBS,
        new: false,
        approved_by: said.yes_wide.then(|| call.principal.name.clone()),
        typed: Some(planned.typed),
    }))
}

fn plan<'c>(app: &App, context: &'c Context, said: &Said<'_>) -> Outcome<Planned<'c>> {
    // Paths are meant from the root of the repository: a client has no current directory.
    let (allow, tests, criteria) = (said.allow, said.test, said.criteria);
    let typing = Typing { cwd: &context.layout.root, allow, tests, criteria };
    let Said { sentence, agent, budget: budgets, answers, .. } = said;
    let wanted = Wanted { sentence, typing, agent: *agent, model: None, budgets, answers };
    let mut which = None;
    let pick = |ready: &[runner::Surveyed]| match said.starts {
        // An intake shows the contract of the first, and asks; a run is nobody's guess.
        ("run", false) => {
            which = Some(runner::which_agent(ready));
            Ok(ready[0].name.clone())
        }
        _ => Err(runner::name_one_agent(context, ready)),
    };
    let planned = runner::plan(context, (app.sender.config.as_deref(), app.sender.mode), &wanted, pick);
    let mut planned = planned.map_err(refused)?;
    planned.questions.splice(0..0, which);
    Ok(planned)
}

fn next(checked: &Checked, start: &str) -> String {
    let wide = if checked.wide.is_empty() { "" } else { ", \"yes_wide\": true" };
    format!("the same with \"{start}\": true{wide} starts it")
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
        Unplanned::At(Part::Answer(id), error) => {
            (format!("/answers/{}", id.replace('~', "~0").replace('/', "~1")), error)
        }
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
