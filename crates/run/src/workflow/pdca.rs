//! plan → do → check → act, round and round, until a PASS counts or a budget is used up. In the last round
//! `act` still runs: its patch and its words are evidence for whoever goes on from there.

use super::Due;
use crate::{Run, Stage};
use contract::{Budget, BudgetExceeded, End, Reason, Role, Status, StepRef, TurnEnd, Usd, Verdict};

pub(super) fn next(run: &Run) -> Due {
    match &run.stage {
        Stage::Fresh => turn(run, Role::Plan, 1),
        Stage::StepDone { step, end: TurnEnd::Answered, patch, .. } => after_answer(run, *step, *patch),
        Stage::StepDone { step, end, reason, .. } => after_failure(run, *step, *end, *reason),
        Stage::ChangeApplied => next_iteration(run),
        Stage::ChangeDropped(dropped) => after_drop(dropped),
        Stage::LandingOpen(_) => Due::Land,
        Stage::LandingDone => passed(run),
        Stage::StepOpen(..) | Stage::ChangeOpen { .. } | Stage::Ended => Due::Nothing,
    }
}

fn after_answer(run: &Run, step: StepRef, patch: bool) -> Due {
    match step.role {
        Role::Plan => turn(run, Role::Do, step.iteration),
        Role::Do => turn(run, Role::Check, step.iteration),
        // Nothing goes on past a check whose verdict is not on record.
        Role::Check if run.judged != Some(step) => Due::Nothing,
        Role::Check if run.verdict == Some(Verdict::Pass) && !run.has_to_land() => passed(run),
        Role::Check if run.verdict == Some(Verdict::Pass) => Due::Land,
        Role::Check => turn(run, Role::Act, step.iteration),
        Role::Act if patch => Due::Change { change: run.changes + 1, step },
        Role::Act => next_iteration(run),
        Role::Worker => Due::Nothing,
    }
}

fn after_failure(run: &Run, step: StepRef, end: TurnEnd, reason: Option<Reason>) -> Due {
    match end {
        TurnEnd::Interrupted => turn(run, step.role, step.iteration),
        TurnEnd::ProtocolError if protocol_errors(run, step) <= protocol_retries(run) => {
            turn(run, step.role, step.iteration)
        }
        TurnEnd::TimedOut => match run.out_of_time() {
            Some(over) => stopped(over),
            None => over(Status::TimedOut, reason, format!("step {} ran past its deadline", step.dir_name())),
        },
        TurnEnd::ProtocolError => over(Status::Failed, reason, format!("step {} broke the protocol", step.dir_name())),
        TurnEnd::Failed if reason == Some(Reason::BudgetExceeded) => match run.used_up() {
            Some(over) => stopped(over),
            None => over(Status::Failed, reason, format!("step {} failed", step.dir_name())),
        },
        TurnEnd::Failed | TurnEnd::Answered => over(Status::Failed, reason, format!("step {} failed", step.dir_name())),
    }
}

fn after_drop(dropped: &contract::ChangeDropped) -> Due {
    let message = format!("change {} was refused: {}", dropped.change, dropped.findings.join("; "));
    match (&dropped.budget, dropped.reason) {
        (Some(over), _) => stopped(over.clone()),
        (None, Reason::PolicyViolation) => over(Status::Denied, Some(Reason::PolicyViolation), message),
        (None, reason) => over(Status::Failed, Some(reason), message),
    }
}

/// A turn, unless time is up. Attempts count within role and iteration; the index never repeats.
fn turn(run: &Run, role: Role, iteration: u32) -> Due {
    if let Some(over) = run.used_up() {
        return stopped(over);
    }
    let tries = run.steps.iter().filter(|record| record.step.role == role && record.step.iteration == iteration);
    let attempt = tries.count() as u32 + 1;
    Due::Turn(StepRef { index: run.next_index(), role, iteration, attempt, item: None })
}

fn protocol_retries(run: &Run) -> u32 {
    run.started.contract.limits.protocol_retries.unwrap_or_default()
}

fn protocol_errors(run: &Run, step: StepRef) -> u32 {
    let same = run.steps.iter().filter(|r| r.step.role == step.role && r.step.iteration == step.iteration);
    same.filter(|record| record.end == TurnEnd::ProtocolError).count() as u32
}

fn next_iteration(run: &Run) -> Due {
    let limit = run.started.contract.budgets.max_iterations;
    if run.iteration < limit {
        turn(run, Role::Plan, run.iteration + 1)
    } else {
        let actual = u64::from(run.iteration) + 1;
        stopped(BudgetExceeded { budget: Budget::MaxIterations, limit: u64::from(limit), actual })
    }
}

pub(super) fn stopped(budget: BudgetExceeded) -> Due {
    let message = match budget.budget {
        Budget::MaxCostUsd => {
            format!("budget {} is used up: ${} of ${}", budget.budget, Usd(budget.actual), Usd(budget.limit))
        }
        Budget::MaxTokens => format!("budget {} is used up: {} of {}", budget.budget, budget.actual, budget.limit),
        _ => format!("budget {} is used up: {} > {}", budget.budget, budget.actual, budget.limit),
    };
    Due::End {
        status: Status::Stopped,
        end: End { reason: Some(Reason::BudgetExceeded), message },
        budget: Some(budget),
    }
}

fn passed(run: &Run) -> Due {
    over(Status::Succeeded, None, format!("PASS in iteration {}", run.iteration))
}

fn over(status: Status, reason: Option<Reason>, message: String) -> Due {
    Due::End { status, end: End { reason, message }, budget: None }
}
