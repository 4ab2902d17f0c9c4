//! What the runs of all workflows have in common: their turns, the line of what was made, the landing, and what was used
//! up. What grows with a run is shared between its copies, so that a copy costs the same after a thousand turns as after
//! one.

use super::Outcome;
use crate::persistent::{Element, PersistentVec};
use contract::{
    Answered, ApprovalId, Budget, BudgetExceeded, Budgets, Digest, ItemBase, Landing, Reason, RunStarted,
    StepCommitted, StepRef, StepStatus, Timestamp, TreeId, TurnEnd, Usage, Wait, WaitId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A turn under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTurn {
    /// Its place in the run.
    pub step: StepRef,
    /// When it was opened.
    pub since: Timestamp,
    /// The commit that it starts from, where it has one of its own.
    pub base: Option<ItemBase>,
    /// What it had made when that was last kept.
    pub saved: Option<TreeId>,
}

/// A turn that is over, as the run remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// Its place in the run.
    pub step: StepRef,
    /// As the `steps` table spells it.
    pub status: StepStatus,
    /// As the workflow reads it.
    pub end: TurnEnd,
    /// Its directory below the run's; none if nothing was kept.
    pub dir: Option<String>,
    /// When it was opened.
    pub since: Timestamp,
    /// How long it took; nothing where it was lost, since nobody knows.
    pub took_ms: u64,
    /// What its model used, where somebody counted.
    pub usage: Option<Usage>,
    /// What its agent had made when it was cut off.
    pub unfinished: Option<Unfinished>,
}

impl Element for Arc<StepRecord> {
    type Summary = ();

    fn summary(&self) {}
}

impl OpenTurn {
    fn unfinished(&self, made: Option<TreeId>) -> Option<Unfinished> {
        self.base.as_ref().zip(made).map(|(base, tree)| Unfinished { base: base.tree, tree })
    }
}

/// What an agent that was cut off had made, which nobody has judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The tree it started from.
    pub base: TreeId,
    /// What it made of that.
    pub tree: TreeId,
}

/// The commits that a run has made so far, one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it ends.
    pub head: ItemBase,
    /// What all of it is put on: where the run started, or a commit of the user's branch that was in its way.
    pub base: ItemBase,
    /// The receipt hash of the change it ends with.
    pub receipt: Option<Digest>,
}

/// A provider that lets nobody continue for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Until then, if that was said.
    pub until: Option<Timestamp>,
}

/// What all workflows share.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// The turns that are over, in the order in which they were closed.
    pub steps: PersistentVec<Arc<StepRecord>>,
    /// The turns under way, in the order in which they were opened.
    pub open: Vec<Arc<OpenTurn>>,
    /// The run's current tree.
    pub tree: TreeId,
    /// What was made so far.
    pub line: Line,
    /// The SHA-256 of the receipts of the patches that were applied.
    pub receipts: Arc<Vec<Digest>>,
    /// The move of a ref that is under way.
    pub landing: Option<Landing>,
    /// The move that landed it.
    pub landed: Option<Landing>,
    /// Why it did not land by itself.
    pub declined: Option<String>,
    /// How long its turns took together.
    pub active_ms: u64,
    /// What its models used together.
    pub spent: Usage,
    /// Its provider is rate limited.
    pub limited: Option<RateLimit>,
    /// How many times in a row it continued by itself after a limit.
    pub limit_pauses: u32,
    /// What was asked and not answered yet.
    pub waits: BTreeMap<WaitId, Wait>,
    /// What was answered, in that order.
    pub answers: Arc<Vec<Arc<Answered>>>,
    /// Every approval that was asked for: one may be used that nobody waits for any more.
    pub asked: BTreeSet<ApprovalId>,
    /// Approvals that it has used.
    pub approvals: Vec<ApprovalId>,
    /// The reasons for which a person approved what the run waited for.
    pub approved: Arc<Vec<Vec<String>>>,
    /// What may be used up: the contract's budgets, with what was granted since.
    pub budgets: Arc<Budgets>,
    /// Whether somebody answered that the run gets no more than that.
    pub ends_at_budget: bool,
    /// The budget that ended it.
    pub exceeded: Option<BudgetExceeded>,
}

impl Core {
    pub(super) fn new(started: &RunStarted) -> Core {
        Core {
            steps: PersistentVec::default(),
            open: Vec::new(),
            tree: started.tree,
            line: Line {
                head: started.head(),
                base: ItemBase { commit: started.base.commit, tree: started.base.tree },
                receipt: started.receipt,
            },
            receipts: Arc::default(),
            landing: None,
            landed: None,
            declined: None,
            active_ms: 0,
            spent: Usage::default(),
            limited: None,
            limit_pauses: 0,
            waits: BTreeMap::new(),
            answers: Arc::default(),
            asked: BTreeSet::new(),
            approvals: Vec::new(),
            approved: Arc::default(),
            budgets: Arc::new(started.contract.budgets.clone()),
            ends_at_budget: false,
            exceeded: None,
        }
    }

    /// Whether a landing is under way or done: nothing is made any more.
    pub(crate) fn has_begun_to_land(&self) -> bool {
        self.landing.is_some() || self.landed.is_some()
    }

    /// What is said of a turn is said while it is open.
    pub(crate) fn require_open(&self, step: StepRef) -> Outcome {
        match self.open.iter().any(|turn| turn.step == step) {
            true => Ok(()),
            false => Err(format!("step {} is not open", step.index)),
        }
    }

    /// Keeps what an open turn has made so far of the commit that it started from.
    pub(crate) fn save(&mut self, step: StepRef, tree: TreeId) -> Outcome {
        self.require_open(step)?;
        let turn = self.open.iter_mut().find(|turn| turn.step == step).expect("BUG: it was just found");
        if turn.base.is_none() {
            return Err("what is kept of a turn is kept of an item's".into());
        }
        Arc::make_mut(turn).saved = Some(tree);
        Ok(())
    }

    fn take_open(&mut self, step: StepRef) -> Result<Arc<OpenTurn>, String> {
        self.require_open(step)?;
        self.forget_waits_of(step);
        let place = self.open.iter().position(|turn| turn.step == step).expect("BUG: it was just found");
        Ok(self.open.remove(place))
    }

    /// Puts an open turn on record, with what it used up.
    pub(super) fn commit(&mut self, done: &StepCommitted, ts: Timestamp) -> Result<Arc<StepRecord>, String> {
        require_consistent(done)?;
        let turn = self.take_open(done.step)?;
        let took_ms = ts.unix_ms().saturating_sub(turn.since.unix_ms());
        self.active_ms += took_ms;
        if let Some(usage) = &done.usage {
            self.spent.add(usage);
        }
        if done.reason == Some(Reason::ProviderLimit) {
            self.limited = Some(RateLimit { until: done.until });
        }
        if done.end == TurnEnd::Answered {
            self.limit_pauses = 0;
        }
        let made = match done.end {
            TurnEnd::Answered => None,
            TurnEnd::Interrupted => done.tree.or(turn.saved),
            TurnEnd::Failed | TurnEnd::ProtocolError | TurnEnd::TimedOut => done.tree,
        };
        let unfinished = turn.unfinished(made);
        Ok(self.record(StepRecord {
            step: done.step,
            status: done.status,
            end: done.end,
            dir: Some(done.dir.clone()),
            since: turn.since,
            took_ms,
            usage: done.usage,
            unfinished,
        }))
    }

    /// Puts an open turn on record of which no answer is known.
    pub(super) fn lose(&mut self, step: StepRef, dir: Option<String>) -> Result<Arc<StepRecord>, String> {
        if dir.as_ref().is_some_and(|dir| *dir != step_dir(step)) {
            return Err("a step's directory is named after it".into());
        }
        let turn = self.take_open(step)?;
        let (since, unfinished) = (turn.since, turn.unfinished(turn.saved));
        let (status, end) = (StepStatus::Fail, TurnEnd::Interrupted);
        Ok(self.record(StepRecord { step, status, end, dir, since, took_ms: 0, usage: None, unfinished }))
    }

    fn record(&mut self, record: StepRecord) -> Arc<StepRecord> {
        let record = Arc::new(record);
        self.steps.push(record.clone());
        record
    }
}

/// What is used up of the budgets that turns share.
impl Core {
    pub(crate) fn remaining_ms(&self) -> Option<u64> {
        let minutes = self.budgets.max_minutes?;
        Some((u64::from(minutes) * 60_000).saturating_sub(self.active_ms))
    }

    pub(crate) fn out_of_time(&self) -> Option<BudgetExceeded> {
        let limit = u64::from(self.budgets.max_minutes?);
        let actual = self.active_ms.div_ceil(60_000);
        (self.remaining_ms() == Some(0)).then_some(BudgetExceeded { budget: Budget::MaxMinutes, limit, actual })
    }

    /// Whether a turn that ended like this was cut off by a budget of its run, and not by a limit of its own.
    pub(crate) fn is_cut_off(&self, done: &StepCommitted) -> bool {
        match done.reason {
            Some(Reason::BudgetExceeded) => true,
            // Its own time or the run's, whichever was shorter.
            Some(Reason::AgentTimeout) => self.out_of_time().is_some(),
            _ => false,
        }
    }

    pub(crate) fn used_up(&self) -> Option<BudgetExceeded> {
        let (budgets, spent) = (&self.budgets, &self.spent);
        let spent = [
            (Budget::MaxTokens, budgets.max_tokens, spent.tokens()),
            (Budget::MaxCostUsd, budgets.max_cost_usd.map(|most| most.0), spent.cost_micro_usd.unwrap_or(0)),
        ];
        let over = spent.into_iter().find_map(|(budget, limit, actual)| {
            limit.filter(|limit| actual >= *limit).map(|limit| BudgetExceeded { budget, limit, actual })
        });
        self.out_of_time().or(over)
    }
}

fn step_dir(step: StepRef) -> String {
    format!("steps/{}", step.dir_name())
}

/// What a record of a turn says about itself must fit together, whoever wrote it.
fn require_consistent(done: &StepCommitted) -> Outcome {
    use contract::Role;
    let answered = done.end == TurnEnd::Answered;
    if answered != done.reason.is_none() {
        return Err("a step has a reason exactly when it was not answered".into());
    }
    match (answered, done.status) {
        (true, StepStatus::Ok) | (false, StepStatus::Fail) => {}
        // A check may answer `fail` and still have judged.
        (true, StepStatus::Fail) if done.step.role == Role::Check => {}
        (_, status) => return Err(format!("a step that ended {:?} is not {}", done.end, status.as_str())),
    }
    if done.patch && (done.step.role != Role::Act || !answered) {
        return Err("only an act that answered leaves a patch".into());
    }
    if done.dir != step_dir(done.step) {
        return Err("a step's directory is named after it".into());
    }
    Ok(())
}
