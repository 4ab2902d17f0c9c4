//! plan → do → check → act, round and round, until a PASS counts or a budget is used up. In the last round
//! `act` still runs: its patch and its words are evidence for whoever continues from there.

use super::budget::{ask, exhausted, stopped};
use super::{Due, over};
use crate::Run;
use crate::bounded::bounded_len;
use crate::state::{Core, Outcome, StepRecord};
use contract::{
    Budget, BudgetExceeded, Budgets, ChangeDropped, PatchApplied, Reason, Role, Status, StepCommitted, StepRef,
    StepStatus, Timestamp, TreeId, TurnEnd, Verdict, VerdictGiven,
};
use std::sync::Arc;

/// What happened last, as far as it decides what is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Nothing yet.
    Fresh,
    /// A turn is under way.
    StepOpen(StepRef),
    /// A turn is on record.
    StepDone {
        /// Its place in the run.
        step: StepRef,
        /// How it ended.
        end: TurnEnd,
        /// Why, unless it is fine.
        reason: Option<Reason>,
        /// Whether it left a patch to apply.
        patch: bool,
        /// Whether a budget of the run cut it off which somebody may raise.
        held: bool,
    },
    /// A change is being judged.
    ChangeOpen {
        /// Its number.
        change: u32,
        /// The step that proposed it.
        step: StepRef,
    },
    /// A change was applied.
    ChangeApplied,
    /// A change was refused.
    ChangeDropped(Arc<ChangeDropped>),
}

/// Where the loop is.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// What happened last.
    pub stage: Stage,
    /// Round of the loop, from 1.
    pub iteration: u32,
    /// The last verdict that counts. A FAIL stays until another verdict is given.
    pub verdict: Option<Verdict>,
    /// When that verdict was given; dates the commit.
    pub verdict_at: Option<Timestamp>,
    /// The check that gave it. A verdict is worth something only for the turn it was given in.
    pub judged: Option<StepRef>,
    /// How many changes were opened.
    pub changes: u32,
    /// What the next agent should know.
    pub notes: Vec<String>,
}

/// The law: how facts change the state of a loop.
impl State {
    pub(super) fn new() -> State {
        State {
            stage: Stage::Fresh,
            iteration: 1,
            verdict: None,
            verdict_at: None,
            judged: None,
            changes: 0,
            notes: Vec::new(),
        }
    }

    pub(super) fn open(&mut self, core: &Core, step: StepRef) -> Outcome {
        let follows = (self.iteration..=self.iteration + 1).contains(&step.iteration);
        let is_ours = step.item.is_none() && Role::PDCA.contains(&step.role);
        let is_busy = self.has_open_change() || !core.open.is_empty() || core.has_begun_to_land();
        if is_busy || !is_ours || !follows || step.index != next_index(core) {
            return Err(format!("step {} of iteration {} cannot come next", step.dir_name(), step.iteration));
        }
        self.iteration = step.iteration;
        self.stage = Stage::StepOpen(step);
        Ok(())
    }

    pub(super) fn commit(&mut self, done: &StepCommitted, held: bool) {
        if done.end == TurnEnd::Answered {
            self.notes.clear();
        } else if done.end == TurnEnd::Interrupted {
            self.note_interrupted(done.step);
        }
        let StepCommitted { step, end, reason, patch, .. } = *done;
        self.stage = Stage::StepDone { step, end, reason, patch, held };
    }

    pub(super) fn lose(&mut self, step: StepRef) {
        self.note_interrupted(step);
        self.try_again(step);
    }

    /// As if this step had been interrupted: whatever came of it, it is taken again.
    fn try_again(&mut self, step: StepRef) {
        let reason = Some(Reason::Interrupted);
        self.stage = Stage::StepDone { step, end: TurnEnd::Interrupted, reason, patch: false, held: false };
    }

    /// A step that the budget cut off is taken again.
    pub(super) fn grant_more(&mut self) {
        if let Stage::StepDone { step, held: true, .. } = self.stage {
            let note = format!(
                "Step {} was cut off by a budget that was raised since; this is another attempt.",
                step.dir_name()
            );
            self.notes.push(note);
            self.try_again(step);
        }
    }

    /// A step that the budget cut off has failed.
    pub(super) fn grant_nothing(&mut self) {
        if let Stage::StepDone { held, .. } = &mut self.stage {
            *held = false;
        }
    }

    fn note_interrupted(&mut self, step: StepRef) {
        self.notes.push(format!("Step {} was interrupted; this is another attempt.", step.dir_name()));
    }

    pub(super) fn note_protocol_error(&mut self, step: StepRef, problems: &[String]) -> Outcome {
        match &self.stage {
            Stage::StepDone { step: done, end: TurnEnd::ProtocolError, .. } if *done == step => {
                self.notes.push(format!("Attempt {} broke the protocol: {}", step.attempt, problems.join("; ")));
                Ok(())
            }
            stage => Err(format!("no protocol error is expected in {stage:?}")),
        }
    }

    pub(crate) fn give_verdict(&mut self, core: &Core, given: &VerdictGiven, ts: Timestamp) -> Outcome {
        match &self.stage {
            Stage::StepDone { step, end: TurnEnd::Answered, .. } if *step == given.step && step.role == Role::Check => {
            }
            stage => return Err(format!("no verdict is expected in {stage:?}")),
        }
        if self.judged == Some(given.step) {
            return Err("a check gives one verdict".into());
        }
        let stands_by_it = core.steps.last().is_some_and(|record| record.status == StepStatus::Ok);
        let claimed = given.claimed == Verdict::Pass && stands_by_it;
        if given.verdict == Verdict::Pass && (!claimed || !given.findings.is_empty()) {
            return Err("a PASS counts only if it was claimed and nothing speaks against it".into());
        }
        if !given.findings.is_empty() {
            self.notes.push(format!("The claimed PASS does not count: {}", given.findings.join("; ")));
        }
        self.verdict = Some(given.verdict);
        self.verdict_at = Some(ts);
        self.judged = Some(given.step);
        Ok(())
    }

    pub(crate) fn open_change(&mut self, core: &Core, change: u32, step: u32, before: TreeId) -> Outcome {
        let by = match &self.stage {
            Stage::StepDone { step: by, end: TurnEnd::Answered, patch: true, .. } if by.index == step => *by,
            _ => return Err(format!("step {step} did not just leave a patch")),
        };
        if change != self.changes + 1 || before != core.tree {
            return Err("a change follows the one before it, on the run's tree".into());
        }
        self.changes = change;
        self.stage = Stage::ChangeOpen { change, step: by };
        Ok(())
    }

    fn close_change(&self, core: &Core, change: u32, step: u32, before: TreeId) -> Result<StepRef, String> {
        match &self.stage {
            Stage::ChangeOpen { change: open, step: by } if *open == change && by.index == step => {
                if before == core.tree { Ok(*by) } else { Err("the change does not start from the run's tree".into()) }
            }
            stage => Err(format!("change {change} is not open but {stage:?}")),
        }
    }

    pub(crate) fn apply_patch(&mut self, core: &mut Core, budgets: &Budgets, applied: &PatchApplied) -> Outcome {
        self.close_change(core, applied.change, applied.step, applied.before)?;
        let listed = |texts: &[String], count: u64| texts.len() as u64 == bounded_len(count);
        if !listed(&applied.files, applied.file_count) || !listed(&applied.risky, applied.risky_count) {
            return Err("the change lists other paths than it counts".into());
        }
        if let Some(over) = over_budget(budgets, applied) {
            return Err(format!("the change exceeds {}", over.budget));
        }
        core.tree = applied.after;
        if let Some(receipt) = applied.receipt.as_ref().filter(|_| applied.before != applied.after) {
            core.line.receipt = Some(receipt.receipt_hash);
            Arc::make_mut(&mut core.receipts).push(receipt.sha256);
        }
        self.notes.push(format!("The patch of step {} was applied: {}", applied.step, applied.files.join(", ")));
        self.stage = Stage::ChangeApplied;
        Ok(())
    }

    pub(crate) fn drop_change(&mut self, core: &mut Core, dropped: &ChangeDropped) -> Outcome {
        let by = self.close_change(core, dropped.change, dropped.step, dropped.before)?;
        // A step whose change was refused did not do what it was for, whatever it answered.
        if let Some(place) = (0..core.steps.len()).rev().find(|place| core.steps[*place].step == by) {
            core.steps.update(place, |record| Arc::make_mut(record).status = StepStatus::Fail);
        }
        self.stage = Stage::ChangeDropped(Arc::new(dropped.clone()));
        Ok(())
    }

    pub(crate) fn reopen_change(&mut self, change: u32) -> Outcome {
        match self.stage {
            Stage::ChangeOpen { change: open, step } if open == change => {
                self.changes = change - 1;
                self.stage = Stage::StepDone { step, end: TurnEnd::Answered, reason: None, patch: true, held: false };
                Ok(())
            }
            _ => Err(format!("change {change} is not open but {:?}", self.stage)),
        }
    }

    pub(super) fn has_just_closed(&self, change: u32) -> bool {
        matches!(self.stage, Stage::ChangeApplied | Stage::ChangeDropped(_)) && self.changes == change
    }

    pub(super) fn has_open_change(&self) -> bool {
        matches!(self.stage, Stage::ChangeOpen { .. })
    }

    /// Whether the last turn is the check that passed what there is.
    pub(super) fn is_judged(&self) -> bool {
        match &self.stage {
            Stage::StepDone { step, end: TurnEnd::Answered, .. } => self.passed() && self.judged == Some(*step),
            _ => false,
        }
    }

    pub(super) fn passed(&self) -> bool {
        self.verdict == Some(Verdict::Pass)
    }
}

fn over_budget(budgets: &Budgets, applied: &PatchApplied) -> Option<BudgetExceeded> {
    let sizes = crate::gate::budget::Sizes {
        patch_bytes: applied.patch_bytes,
        files: applied.file_count,
        risky: applied.risky_count,
    };
    crate::gate::budget::over_budget(budgets, &sizes)
}

/// The index that the next step gets. A turn of which nothing was kept leaves its number to the next attempt.
pub(super) fn next_index(core: &Core) -> u32 {
    let kept = core.steps.iter().rev().find(|record| record.dir.is_some());
    kept.map_or(0, |record| record.step.index) + 1
}

/// The schedule: what is due in a loop.
pub(super) fn due(run: &Run, state: &State) -> Due {
    if run.core.landed.is_some() {
        return passed(state);
    }
    match &state.stage {
        Stage::Fresh => turn(run, Role::Plan, 1),
        Stage::StepDone { held: true, .. } => ask(run, run.used_up()),
        Stage::StepDone { step, end: TurnEnd::Answered, patch, .. } => after_answer(run, state, *step, *patch),
        Stage::StepDone { step, end, reason, .. } => after_failure(run, *step, *end, *reason),
        Stage::ChangeApplied => next_iteration(run, state),
        Stage::ChangeDropped(dropped) => after_drop(dropped),
        Stage::StepOpen(_) | Stage::ChangeOpen { .. } => Due::Nothing,
    }
}

fn after_answer(run: &Run, state: &State, step: StepRef, patch: bool) -> Due {
    match step.role {
        Role::Plan => turn(run, Role::Do, step.iteration),
        Role::Do => turn(run, Role::Check, step.iteration),
        // Nothing follows a check whose verdict is not on record.
        Role::Check if state.judged != Some(step) => Due::Nothing,
        Role::Check if state.passed() && !run.has_to_land() => passed(state),
        Role::Check if state.passed() => Due::Land,
        Role::Check => turn(run, Role::Act, step.iteration),
        Role::Act if patch => Due::Change { change: state.changes + 1, step },
        Role::Act => next_iteration(run, state),
        Role::Worker | Role::Node | Role::Decide | Role::Execute | Role::Pm | Role::TechLead | Role::Reviewer => {
            Due::Nothing
        }
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

fn after_drop(dropped: &ChangeDropped) -> Due {
    let message = format!("change {} was refused: {}", dropped.change, dropped.findings.join("; "));
    match (&dropped.budget, dropped.reason) {
        (Some(over), _) => stopped(over.clone()),
        (None, Reason::PolicyViolation) => over(Status::Denied, Some(Reason::PolicyViolation), message),
        (None, reason) => over(Status::Failed, Some(reason), message),
    }
}

/// A turn, unless a budget is used up. Attempts count within role and iteration; the index never repeats.
fn turn(run: &Run, role: Role, iteration: u32) -> Due {
    if let Some(over) = run.used_up() {
        return exhausted(run, over);
    }
    let attempt = attempts(run, role, iteration).count() as u32 + 1;
    Due::Turn(StepRef { index: run.next_index(), role, iteration, attempt, item: None, node: None })
}

/// The turns that a role took in a round, the last one first. Rounds follow each other, so earlier ones are not looked at.
fn attempts(run: &Run, role: Role, iteration: u32) -> impl Iterator<Item = &Arc<StepRecord>> {
    let of_round = run.core.steps.iter().rev().take_while(move |record| record.step.iteration >= iteration);
    of_round.filter(move |record| record.step.role == role && record.step.iteration == iteration)
}

fn protocol_retries(run: &Run) -> u32 {
    run.started.contract.limits.protocol_retries.unwrap_or_default()
}

fn protocol_errors(run: &Run, step: StepRef) -> u32 {
    let same = attempts(run, step.role, step.iteration);
    same.filter(|record| record.end == TurnEnd::ProtocolError).count() as u32
}

fn next_iteration(run: &Run, state: &State) -> Due {
    let limit = run.budgets().max_iterations;
    if state.iteration < limit {
        turn(run, Role::Plan, state.iteration + 1)
    } else {
        let actual = u64::from(state.iteration) + 1;
        exhausted(run, BudgetExceeded { budget: Budget::MaxIterations, limit: u64::from(limit), actual })
    }
}

fn passed(state: &State) -> Due {
    over(Status::Succeeded, None, format!("PASS in iteration {}", state.iteration))
}
