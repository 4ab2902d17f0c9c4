//! What became of an intent that a run compiled, read back from that run's evidence: the answer, and the conversation that
//! it came from. Nothing is believed that is not on record.

use crate::{Error, Result};
use contract::documents::intent::{ANSWER_SCHEMA, Transcript};
use contract::documents::{CompileAnswer, CompileOutput, Patch};
use contract::{AgentResponse, RunView, StepStatus, StepView};
use run::bundle::{Part, transcript};
use run::{Run, StepRecord};
use store::Reader;

/// What was said in a turn, below its directory.
const EVENTS: &str = "session/events.jsonl";

/// A turn that is over: what the log has of it, and who took it.
struct Turn<'a> {
    /// Its directory, below the run's.
    dir: &'a str,
    step: &'a StepView,
}

/// What a run that compiled an intent came to.
pub fn compiled(reader: &Reader, view: &RunView) -> Result<CompileOutput> {
    let slug = &view.run_id;
    let (run, _) = reader.load(slug)?;
    let turns = turns(&run, view);
    let answered = turns.iter().rev().find(|turn| turn.step.status == StepStatus::Ok);
    let answered = answered.ok_or_else(|| damaged(slug, "no turn of it was answered"))?;
    let answer = answer_in(reader, slug, answered.dir)?;
    Ok(CompileOutput::new(answer, transcript_of(reader, &run, view)?))
}

/// The conversation in which a run has compiled its intent.
pub(crate) fn transcript_of(reader: &Reader, run: &Run, view: &RunView) -> Result<Transcript> {
    let slug = &view.run_id;
    let turns = turns(run, view);
    let answered = turns.iter().rev().find(|turn| turn.step.status == StepStatus::Ok);
    let answered = answered.ok_or_else(|| damaged(slug, "no turn of it was answered"))?;
    let step = answered.step;
    let agent = step.agent.ok_or_else(|| damaged(slug, "nobody is on record who answered"))?;
    Ok(Transcript {
        run_id: slug.to_string(),
        session_id: step.session_id.clone().unwrap_or_else(|| slug.to_string()),
        agent: agent.as_str().to_owned(),
        model: step.model.clone(),
        text: said(reader, slug, &turns)?,
    })
}

/// The answer of a turn, by its directory below the run's.
pub(crate) fn answer_in(reader: &Reader, slug: &str, dir: &str) -> Result<CompileAnswer> {
    let bytes = reader.evidence(slug, dir, "output.json")?;
    let bytes = bytes.ok_or_else(|| damaged(slug, "an answer is not on record"))?;
    let problems = |problems: Vec<contract::Violation>| {
        damaged(slug, &problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let response = AgentResponse::parse(&bytes).map_err(problems)?;
    let result = response.result.ok_or_else(|| damaged(slug, "an answer has no result"))?;
    Ok(CompileAnswer::read(result).map_err(problems)?)
}

/// The patch that came of a session in which an intent was compiled; a run's id stands for a session without a name.
pub fn patch_of_session(reader: &Reader, session: &str) -> Result<Patch> {
    let slug = match reader.run_of_session(session)? {
        Some(slug) => slug,
        None if reader.run(session)?.is_some() => session.to_owned(),
        None => {
            let hint = "`norma show RUN` tells the sessions of a run, and the transcript of a compiled intent its own";
            return Err(Error::usage(format!("there is no session {session:?} on record"), hint));
        }
    };
    let (run, _) = reader.load(&slug)?;
    if !is_compile(&run) {
        let message = format!("session {session:?} is one of run {slug}, which compiled no intent");
        return Err(Error::usage(message, format!("what that run changed: norma diff {slug}")));
    }
    let view = reader.run(&slug)?.ok_or_else(|| damaged(&slug, "it is not in the index"))?;
    let is_asked = |turn: &&Turn<'_>| session == slug || turn.step.session_id.as_deref() == Some(session);
    let turns = turns(&run, &view);
    let answered = turns.iter().filter(is_asked).find(|turn| turn.step.status == StepStatus::Ok);
    match answered {
        Some(turn) => Ok(answer_in(reader, &slug, turn.dir)?.patch),
        None => {
            let message = format!("session {session:?} of run {slug} came to no patch");
            Err(Error::declined(message, format!("see why: norma show {slug}")))
        }
    }
}

/// Whether a run is there to compile an intent: its answer is bound to the form of one that did.
fn is_compile(run: &Run) -> bool {
    let bound = |state: &std::sync::Arc<run::ItemState>| {
        state.item.output_schema.as_ref().is_some_and(|schema| schema.uri == ANSWER_SCHEMA)
    };
    run.items().first().is_some_and(bound)
}

/// The turns of a run that are over and left something.
fn turns<'a>(run: &'a Run, view: &'a RunView) -> Vec<Turn<'a>> {
    let of = |turn: &'a std::sync::Arc<StepRecord>| {
        let step = view.steps.iter().flatten().find(|step| step.index == turn.step.index)?;
        Some(Turn { dir: turn.dir.as_deref()?, step })
    };
    run.items().iter().flat_map(|state| &state.turns).filter_map(of).collect()
}

/// All that was said, turn by turn, as the run's bundle has it too.
fn said(reader: &Reader, slug: &str, turns: &[Turn<'_>]) -> Result<String> {
    let mut text = String::new();
    for Turn { dir, step } in turns {
        if let Some(events) = reader.evidence(slug, dir, EVENTS)? {
            let part = Part { heading: (*dir).to_owned(), events: format!("{dir}/{EVENTS}"), usage: step.usage };
            text.push_str(&transcript(&part, &events));
        }
    }
    Ok(text)
}

fn damaged(slug: &str, why: &str) -> store::Error {
    store::Error::Damaged { log: slug.to_owned(), why: why.to_owned() }
}
