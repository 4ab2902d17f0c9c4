//! What others ask of a run, whichever workflow it has: where a workflow has no such thing, the answer is that there is
//! none.

use super::{Line, OpenTurn, Run, StepRecord};
use crate::items::ItemState;
use crate::workflow::{Flow, pdca};
use contract::{ApprovalId, BudgetExceeded, Digest, Landing, StepRef, Timestamp, TreeId, Usage, Verdict};
use std::sync::Arc;

impl Run {
    /// What it is made of, where it is made of items.
    pub fn items(&self) -> &[Arc<ItemState>] {
        match &self.flow {
            Flow::Batch(state) => &state.items,
            Flow::Pdca(_) => &[],
        }
    }

    fn pdca(&self) -> Option<&pdca::State> {
        match &self.flow {
            Flow::Pdca(state) => Some(state),
            Flow::Batch(_) => None,
        }
    }

    /// Round of the loop; 1 where there is no loop.
    pub fn iteration(&self) -> u32 {
        self.pdca().map_or(1, |state| state.iteration)
    }

    /// The last verdict that counts.
    pub fn verdict(&self) -> Option<Verdict> {
        self.pdca()?.verdict
    }

    /// When that verdict was given; dates the commit.
    pub fn verdict_at(&self) -> Option<Timestamp> {
        self.pdca()?.verdict_at
    }

    /// How many changes its loop has opened.
    pub fn changes(&self) -> u32 {
        self.pdca().map_or(0, |state| state.changes)
    }

    /// The change that is being judged and whose intent is on record, with the step that proposed it.
    pub fn open_change(&self) -> Option<(u32, StepRef)> {
        match self.pdca()?.stage {
            pdca::Stage::ChangeOpen { change, step } => Some((change, step)),
            _ => None,
        }
    }

    /// What the next agent of its loop should know.
    pub fn notes(&self) -> &[String] {
        self.pdca().map_or(&[], |state| &state.notes)
    }

    /// The turns that are over, in the order in which they were closed.
    pub fn steps(&self) -> &[Arc<StepRecord>] {
        &self.core.steps
    }

    /// The turns under way.
    pub fn open_turns(&self) -> &[Arc<OpenTurn>] {
        &self.core.open
    }

    /// Its current tree.
    pub fn tree(&self) -> TreeId {
        self.core.tree
    }

    /// What was made so far.
    pub fn line(&self) -> &Line {
        &self.core.line
    }

    /// The SHA-256 of the receipts of the patches that were applied.
    pub fn receipts(&self) -> &[Digest] {
        &self.core.receipts
    }

    /// The move of a ref that is under way.
    pub fn landing(&self) -> Option<&Landing> {
        self.core.landing.as_ref()
    }

    /// The move that landed it.
    pub fn landed(&self) -> Option<&Landing> {
        self.core.landed.as_ref()
    }

    /// Why it did not land by itself.
    pub fn declined(&self) -> Option<&str> {
        self.core.declined.as_deref()
    }

    /// How long its turns took together.
    pub fn active_ms(&self) -> u64 {
        self.core.active_ms
    }

    /// What its models used together.
    pub fn spent(&self) -> &Usage {
        &self.core.spent
    }

    /// Approvals that it has used.
    pub fn approvals(&self) -> &[ApprovalId] {
        &self.core.approvals
    }

    /// The budget that ended it.
    pub fn exceeded(&self) -> Option<&BudgetExceeded> {
        self.core.exceeded.as_ref()
    }

    /// The directories of the turns on record, oldest first.
    pub fn step_dirs(&self) -> Vec<&str> {
        self.core.steps.iter().filter_map(|record| record.dir.as_deref()).collect()
    }

    /// The directories of this iteration's turns.
    pub fn iteration_dirs(&self) -> Vec<&str> {
        let here = self.core.steps.iter().filter(|record| record.step.iteration == self.iteration());
        here.filter_map(|record| record.dir.as_deref()).collect()
    }

    /// What is left of `max_minutes`, if there is one.
    pub fn remaining_ms(&self) -> Option<u64> {
        self.core.remaining_ms()
    }

    /// The first budget of what turns use up that is used up.
    pub fn used_up(&self) -> Option<BudgetExceeded> {
        self.core.used_up()
    }

    /// The budget that time has used up, if it has.
    pub fn out_of_time(&self) -> Option<BudgetExceeded> {
        self.core.out_of_time()
    }
}
