//! What every turn of a run was held to, from the evidence of the turn: the sandbox that was asked for and the one that held, what
//! was started and reached in it, and each call of the model with what it used.

use super::run_of;
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use contract::StepView;
use serde_json::{Value, json};
use std::sync::Arc;

/// How many turns are told, the last ones, and how many calls of each.
const TURNS_MAX: usize = 50;
const CALLS_MAX: usize = 100;

pub(crate) fn list(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let view = app.with_reader(|reader| reader.run(&slug))?;
    let view = view.ok_or_else(|| Problem::not_found("there is no such run"))?;
    let steps = view.steps.unwrap_or_default();
    let left_out = steps.len().saturating_sub(TURNS_MAX);
    let mut turns = Vec::new();
    for step in &steps[left_out..] {
        turns.push(turn(app, &slug, step)?);
    }
    Reply::ok(json!({"turns": turns, "left_out": left_out}))
}

fn turn(app: &App, slug: &str, step: &StepView) -> Outcome<Value> {
    let dir = below_run(&step.dir);
    let read = |name: &str| -> Outcome<Option<Value>> {
        let bytes = app.with_reader(|reader| reader.evidence(slug, dir, name))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    };
    let calls = app.with_reader(|reader| reader.evidence_names(slug, dir, "gateway/"))?;
    let mut exchanges = Vec::new();
    for name in calls.iter().take(CALLS_MAX) {
        exchanges.extend(read(name)?.map(|exchange| summary(&exchange)));
    }
    let mut told = json!({"index": step.index, "role": step.role, "dir": dir, "exchanges": exchanges});
    if let Some(sandbox) = read("sandbox.json")? {
        told["sandbox"] = sandbox;
    }
    if calls.len() > CALLS_MAX {
        told["more_exchanges"] = json!(calls.len() - CALLS_MAX);
    }
    Ok(told)
}

/// The directory of a turn below that of its run.
fn below_run(dir: &str) -> &str {
    dir.rfind("steps/").map_or(dir, |at| &dir[at..])
}

/// A call of the model without what was said in it.
fn summary(exchange: &Value) -> Value {
    let mut told = json!({"seq": exchange["seq"], "path": exchange["path"], "model": exchange["model"]});
    let answer = &exchange["answer"];
    for (name, from) in [("model", "model"), ("status", "status"), ("usage", "usage"), ("problem", "problem")] {
        if !answer[from].is_null() {
            told[name] = answer[from].clone();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_without_its_words() {
        let exchange = json!({"seq": 1, "path": "/v1/messages", "model": "asked", "request_body": "secret",
            "answer": {"status": 200, "model": "said", "body": "secret", "usage": {"input_tokens": 3}, "problem": null}});
        let told =
            json!({"seq": 1, "path": "/v1/messages", "model": "said", "status": 200, "usage": {"input_tokens": 3}});
        assert_eq!(summary(&exchange), told);
        assert_eq!(below_run(".norma/runs/x/steps/001-worker"), "steps/001-worker");
    }
}
