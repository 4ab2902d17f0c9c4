//! The state of a run and the one match that changes it. Live work and recovery use the same `apply`; a fact
//! that does not fit the state is illegal, which is the default: `RunPassed` is reachable only over a PASS that
//! counts, and, if the run changed anything, over a finished landing decision on that very tree.
//!
//! This is the law: what can never be true of a run, in no version of norma. It does not ask what is due. That is the
//! schedule's to say ([`Run::admits`]), which may change, while a log that was written stays legal for ever.

mod of_items;

use crate::bounded::bounded_len;
use crate::items::{ItemState, Line};
use contract::work::Gate;
use contract::{
    ApprovalId, Budget, BudgetExceeded, ChangeDropped, Digest, Event, Fact, ItemBase, Landing, PatchApplied, Reason,
    Role, RunId, RunStarted, Status, StepCommitted, StepRef, StepStatus, Timestamp, TreeId, TurnEnd, Usage, Verdict,
    VerdictGiven, Wait,
};
use std::fmt;
use std::sync::Arc;

/// A fact that does not fit the state it was applied to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal {
    /// Which event.
    pub seq: u64,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} is illegal here: {}", self.seq, self.why)
    }
}

impl std::error::Error for Illegal {}

/// One turn as the run remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// Which.
    pub step: StepRef,
    /// How it ended.
    pub status: StepStatus,
    /// As the workflow reads it.
    pub end: TurnEnd,
    /// Its directory below the run's; none if nothing was kept.
    pub dir: Option<String>,
}

/// What happened last, as far as it decides what is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Nothing yet.
    Fresh,
    /// A turn is under way.
    StepOpen(StepRef, Timestamp),
    /// A turn is on record.
    StepDone {
        /// Which.
        step: StepRef,
        /// How it ended.
        end: TurnEnd,
        /// Why, unless it is fine.
        reason: Option<Reason>,
        /// Whether it left a patch to apply.
        patch: bool,
    },
    /// A change is being judged.
    ChangeOpen {
        /// Which.
        change: u32,
        /// The step that proposed it.
        step: StepRef,
    },
    /// A change was applied.
    ChangeApplied,
    /// A change was refused.
    ChangeDropped(ChangeDropped),
    /// A ref is being moved.
    LandingOpen(Landing),
    /// It moved, or it was declined.
    LandingDone,
    /// There is no next.
    Ended,
}

/// A run: the fold of its facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its first fact: contract, base, author. Never changes, so copies share it.
    pub started: Arc<RunStarted>,
    /// Where it is.
    pub status: Status,
    /// Why.
    pub reason: Option<Reason>,
    /// Round of the loop.
    pub iteration: u32,
    /// The last verdict that counts. A FAIL stays until another verdict is given.
    pub verdict: Option<Verdict>,
    /// When that verdict was given; dates the commit.
    pub verdict_at: Option<Timestamp>,
    /// The check that gave it. A verdict is worth something only for the turn it was given in.
    pub judged: Option<StepRef>,
    /// Every turn so far.
    pub steps: Vec<StepRecord>,
    /// How many changes were opened.
    pub changes: u32,
    /// The run's current tree.
    pub tree: TreeId,
    /// What happened last.
    pub stage: Stage,
    /// How long its turns took together.
    pub active_ms: u64,
    /// What its models used together.
    pub spent: Usage,
    /// Its provider has had enough for now: until then, if that was said.
    pub limited: Option<Option<Timestamp>>,
    /// The approvals that its turns asked for.
    pub asked: Vec<ApprovalId>,
    /// What the next agent should know.
    pub notes: Vec<String>,
    /// The move that landed it.
    pub landed: Option<Landing>,
    /// Why it did not land by itself.
    pub declined: Option<String>,
    /// What it is made of, where it is made of items.
    pub items: Vec<Arc<ItemState>>,
    /// What was made so far.
    pub line: Line,
    /// The SHA-256 of the receipts of the patches that were applied.
    pub receipts: Vec<Digest>,
    /// The level that was started last, and what it started from.
    pub level_base: Option<(u32, ItemBase)>,
    /// The highest number that a turn of an item was given.
    pub opened: u32,
    /// What it waits for, or waited for last.
    pub waits: Option<Wait>,
    /// Approvals that it has used.
    pub approvals: Vec<ApprovalId>,
    /// The budget that ended it.
    pub exceeded: Option<BudgetExceeded>,
    /// How many facts were applied.
    pub seq: u64,
}

type Outcome = Result<(), String>;

impl Run {
    /// The state after the first event, which must be `RunStarted`.
    pub fn start(id: RunId, first: &Event) -> Result<Run, Illegal> {
        let illegal = |why: &str| Illegal { seq: first.seq, why: why.to_owned() };
        let Fact::RunStarted(started) = &first.fact else {
            return Err(illegal("a log starts with run_started"));
        };
        if first.seq != 1 {
            return Err(illegal("the first event has seq 1"));
        }
        if started.parent.is_none() && started.tree != started.base.tree {
            return Err(illegal("a run without a parent starts from its base"));
        }
        if started.items == 0 && started.contract.digest() != started.contract_digest {
            return Err(illegal("the contract differs from its digest"));
        }
        if !started.contract.items.is_empty() {
            return Err(illegal("items are facts of their own"));
        }
        let head = ItemBase { commit: started.base.commit, tree: started.tree };
        Ok(Run {
            id,
            tree: started.tree,
            started: Arc::new((**started).clone()),
            status: Status::Running,
            reason: None,
            iteration: 1,
            verdict: None,
            verdict_at: None,
            judged: None,
            steps: Vec::new(),
            changes: 0,
            stage: Stage::Fresh,
            active_ms: 0,
            spent: Usage::default(),
            limited: None,
            asked: Vec::new(),
            notes: Vec::new(),
            landed: None,
            declined: None,
            items: Vec::new(),
            line: Line { head, receipt: started.receipt },
            receipts: Vec::new(),
            level_base: None,
            opened: 0,
            waits: None,
            approvals: Vec::new(),
            exceeded: None,
            seq: 1,
        })
    }

    /// Folds a whole log.
    pub fn fold(id: RunId, events: &[Event]) -> Result<Run, Illegal> {
        let (first, rest) = events.split_first().ok_or(Illegal { seq: 0, why: "the log is empty".to_owned() })?;
        let mut run = Run::start(id, first)?;
        for event in rest {
            // Not `apply`: it keeps the state it had, which nobody needs here and which grows with the run.
            run.step_to(event).map_err(|why| Illegal { seq: event.seq, why })?;
        }
        Ok(run)
    }

    /// Applies one event, or says why it cannot have happened here. On error the state is unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        let mut next = self.clone();
        next.step_to(event).map_err(|why| Illegal { seq: event.seq, why })?;
        *self = next;
        Ok(())
    }

    fn step_to(&mut self, event: &Event) -> Outcome {
        if event.seq != self.seq + 1 {
            return Err(format!("expected seq {}", self.seq + 1));
        }
        self.seq = event.seq;
        self.require_live(&event.fact)?;
        match &event.fact {
            Fact::RunStarted(_) => Err("the run has started already".into()),
            Fact::StepStarted { step, base } => self.open_step(*step, base.as_ref(), event.ts),
            Fact::StepCommitted(done) => self.commit_step(done, event.ts),
            Fact::ReconciledStep { step, dir, .. } => self.lose_step(*step, Some(dir.clone())),
            Fact::StepInterrupted { step } => self.lose_step(*step, None),
            Fact::ProtocolError { step, problems } => self.note_protocol_error(*step, problems),
            Fact::Verdict(given) => self.give_verdict(given, event.ts),
            Fact::ChangeStarted { change, step, before } => self.open_change(*change, *step, *before),
            Fact::PatchApplied(applied) => self.apply_patch(applied),
            Fact::ChangeDropped(dropped) => self.drop_change(dropped),
            Fact::ChangeInterrupted { change } => self.reopen_change(*change),
            Fact::ChangeRecovered { change } => self.note_recovered(*change),
            Fact::AgentEvent { step, .. } => self.require_open(*step),
            Fact::ApprovalAsked { step, wait } => self.ask_within(*step, wait),
            Fact::ItemAdded(added) => self.add_item(added),
            Fact::PolicyViolation { item, gate: Gate::Tools, .. } => self.require_working(*item),
            Fact::GateFailed { item, .. } | Fact::PolicyViolation { item, .. } => self.require_judged(*item),
            Fact::ItemEnded(ended) => self.end_item(ended),
            Fact::RunWaiting(wait) => self.wait(wait),
            Fact::ApprovalUsed { approval, .. } => self.use_approval(*approval),
            Fact::BudgetExceeded(over) => self.exceed(over),
            Fact::LandingStarted(landing) => self.open_landing(landing),
            Fact::Landed(landing) => self.land(landing),
            Fact::LandingDeclined(declined) => self.decline(&declined.why),
            Fact::RunPaused(end) => self.pause(end.reason),
            Fact::RunResumed { .. } => self.resume(),
            Fact::EvidenceLost { .. } => self.end(Status::Failed, Some(Reason::EvidenceLost)),
            Fact::RunPassed(_) => self.pass(),
            Fact::RunFailed(end) => self.end(Status::Failed, end.reason),
            Fact::RunDenied(end) => self.end(Status::Denied, end.reason),
            Fact::RunTimedOut(end) => self.end(Status::TimedOut, end.reason),
            Fact::RunStopped(end) => self.end(Status::Stopped, end.reason),
            Fact::RunCanceled(end) => self.end(Status::Canceled, end.reason),
        }
    }

    /// A paused run can only be resumed, ended or found damaged; an ended one can nothing.
    fn require_live(&self, fact: &Fact) -> Outcome {
        match (self.status, fact) {
            (Status::Running, _) => Ok(()),
            (Status::Paused, Fact::RunResumed { .. } | Fact::RunCanceled(_) | Fact::EvidenceLost { .. }) => Ok(()),
            (Status::Waiting, Fact::RunResumed { .. } | Fact::RunCanceled(_) | Fact::EvidenceLost { .. }) => Ok(()),
            (Status::Waiting, Fact::RunDenied(end)) if end.reason == Some(Reason::ApprovalDenied) => Ok(()),
            // Recovery rolls a landing forward that had already moved the ref when the process died.
            (Status::Paused, Fact::Landed(_)) => Ok(()),
            (status, _) => Err(format!("the run is {status}")),
        }
    }

    fn require_closed(&self) -> Outcome {
        match &self.stage {
            Stage::StepOpen(..) | Stage::ChangeOpen { .. } | Stage::LandingOpen(_) | Stage::Ended => {
                Err("something is still open".into())
            }
            _ => Ok(()),
        }
    }

    fn open_step(&mut self, step: StepRef, base: Option<&ItemBase>, ts: Timestamp) -> Outcome {
        if let Some(place) = step.item {
            return self.open_item(place, step, base, ts);
        }
        self.require_closed()?;
        let follows = (self.iteration..=self.iteration + 1).contains(&step.iteration);
        let is_ours = self.items.is_empty() && Role::PDCA.contains(&step.role) && base.is_none();
        if !is_ours || !follows || step.index != self.next_index() || self.stage == Stage::LandingDone {
            return Err(format!("step {} of iteration {} cannot come next", step.dir_name(), step.iteration));
        }
        self.iteration = step.iteration;
        self.stage = Stage::StepOpen(step, ts);
        Ok(())
    }

    fn close_step(&mut self, step: StepRef) -> Result<Timestamp, String> {
        match &self.stage {
            Stage::StepOpen(open, since) if *open == step => Ok(*since),
            stage => Err(format!("step {} is not open but {stage:?}", step.index)),
        }
    }

    /// What is said of a turn is said while it is open.
    fn require_open(&mut self, step: StepRef) -> Outcome {
        let open = match step.item {
            Some(place) => {
                matches!(&self.item(place)?.stage, crate::ItemStage::Working { step: open, .. } if *open == step)
            }
            None => matches!(&self.stage, Stage::StepOpen(open, _) if *open == step),
        };
        if open { Ok(()) } else { Err(format!("step {} is not open", step.index)) }
    }

    fn ask_within(&mut self, step: StepRef, wait: &Wait) -> Outcome {
        self.require_open(step)?;
        self.asked.push(wait.approval);
        Ok(())
    }

    fn commit_step(&mut self, done: &StepCommitted, ts: Timestamp) -> Outcome {
        if let Some(usage) = &done.usage {
            self.spent.add(usage);
        }
        if done.reason == Some(Reason::ProviderLimit) {
            self.limited = Some(done.until);
        }
        if let Some(place) = done.step.item {
            require_consistent(done)?;
            let item = self.item(place)?;
            item.commit(done)?;
            let since = item.turns.last().map_or(ts, |turn| turn.since);
            self.active_ms += ts.unix_ms().saturating_sub(since.unix_ms());
            return Ok(());
        }
        let since = self.close_step(done.step)?;
        require_consistent(done)?;
        self.active_ms += ts.unix_ms().saturating_sub(since.unix_ms());
        if done.end == TurnEnd::Answered {
            self.notes.clear();
        } else if done.end == TurnEnd::Interrupted {
            self.notes.push(format!("Step {} was interrupted; this is another attempt.", done.step.dir_name()));
        }
        self.record(done.step, done.status, done.end, Some(done.dir.clone()));
        self.stage = Stage::StepDone { step: done.step, end: done.end, reason: done.reason, patch: done.patch };
        Ok(())
    }

    fn lose_step(&mut self, step: StepRef, dir: Option<String>) -> Outcome {
        if let Some(place) = step.item {
            return self.item(place)?.lose(step, dir);
        }
        self.close_step(step)?;
        if dir.as_ref().is_some_and(|dir| *dir != step_dir(step)) {
            return Err("a step's directory is named after it".into());
        }
        self.notes.push(format!("Step {} was interrupted; this is another attempt.", step.dir_name()));
        self.record(step, StepStatus::Fail, TurnEnd::Interrupted, dir);
        self.stage =
            Stage::StepDone { step, end: TurnEnd::Interrupted, reason: Some(Reason::Interrupted), patch: false };
        Ok(())
    }

    fn record(&mut self, step: StepRef, status: StepStatus, end: TurnEnd, dir: Option<String>) {
        self.steps.push(StepRecord { step, status, end, dir });
    }

    fn note_protocol_error(&mut self, step: StepRef, problems: &[String]) -> Outcome {
        if let Some(place) = step.item {
            let last = self.item(place)?.turns.last();
            let broke = last.is_some_and(|turn| turn.step == step && turn.end == TurnEnd::ProtocolError);
            return if broke { Ok(()) } else { Err("no protocol error is expected here".into()) };
        }
        match &self.stage {
            Stage::StepDone { step: done, end: TurnEnd::ProtocolError, .. } if *done == step => {
                self.notes.push(format!("Attempt {} broke the protocol: {}", step.attempt, problems.join("; ")));
                Ok(())
            }
            stage => Err(format!("no protocol error is expected in {stage:?}")),
        }
    }

    fn give_verdict(&mut self, given: &VerdictGiven, ts: Timestamp) -> Outcome {
        match &self.stage {
            Stage::StepDone { step, end: TurnEnd::Answered, .. } if *step == given.step && step.role == Role::Check => {
            }
            stage => return Err(format!("no verdict is expected in {stage:?}")),
        }
        if self.judged == Some(given.step) {
            return Err("a check gives one verdict".into());
        }
        let stands_by_it = self.steps.last().is_some_and(|record| record.status == StepStatus::Ok);
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

    fn open_change(&mut self, change: u32, step: u32, before: TreeId) -> Outcome {
        let by = match &self.stage {
            Stage::StepDone { step: by, end: TurnEnd::Answered, patch: true, .. } if by.index == step => *by,
            _ => return Err(format!("step {step} did not just leave a patch")),
        };
        if change != self.changes + 1 || before != self.tree {
            return Err("a change follows the one before it, on the run's tree".into());
        }
        self.changes = change;
        self.stage = Stage::ChangeOpen { change, step: by };
        Ok(())
    }

    fn close_change(&mut self, change: u32, step: u32, before: TreeId) -> Result<StepRef, String> {
        match &self.stage {
            Stage::ChangeOpen { change: open, step: by } if *open == change && by.index == step => {
                if before == self.tree { Ok(*by) } else { Err("the change does not start from the run's tree".into()) }
            }
            stage => Err(format!("change {change} is not open but {stage:?}")),
        }
    }

    fn apply_patch(&mut self, applied: &PatchApplied) -> Outcome {
        self.close_change(applied.change, applied.step, applied.before)?;
        let listed = |texts: &[String], count: u64| texts.len() as u64 == bounded_len(count);
        if !listed(&applied.files, applied.file_count) || !listed(&applied.risky, applied.risky_count) {
            return Err("the change lists other paths than it counts".into());
        }
        if let Some(over) = self.over_budget(applied) {
            return Err(format!("the change exceeds {}", over.budget));
        }
        self.tree.clone_from(&applied.after);
        if let Some(receipt) = applied.receipt.as_ref().filter(|_| applied.before != applied.after) {
            self.line.receipt = Some(receipt.receipt_hash);
            self.receipts.push(receipt.sha256);
        }
        self.notes.push(format!("The patch of step {} was applied: {}", applied.step, applied.files.join(", ")));
        self.stage = Stage::ChangeApplied;
        Ok(())
    }

    fn over_budget(&self, applied: &PatchApplied) -> Option<BudgetExceeded> {
        let sizes = crate::gate::budget::Sizes {
            patch_bytes: applied.patch_bytes,
            files: applied.file_count,
            risky: applied.risky_count,
        };
        crate::gate::budget::over_budget(&self.started.contract.budgets, &sizes)
    }

    fn drop_change(&mut self, dropped: &ChangeDropped) -> Outcome {
        let by = self.close_change(dropped.change, dropped.step, dropped.before)?;
        // A step whose change was refused did not do what it was for, whatever it answered.
        for record in self.steps.iter_mut().filter(|record| record.step == by) {
            record.status = StepStatus::Fail;
        }
        self.stage = Stage::ChangeDropped(dropped.clone());
        Ok(())
    }

    fn reopen_change(&mut self, change: u32) -> Outcome {
        match self.stage.clone() {
            Stage::ChangeOpen { change: open, step } if open == change => {
                self.changes = change - 1;
                self.stage = Stage::StepDone { step, end: TurnEnd::Answered, reason: None, patch: true };
                Ok(())
            }
            stage => Err(format!("change {change} is not open but {stage:?}")),
        }
    }

    fn note_recovered(&self, change: u32) -> Outcome {
        match &self.stage {
            Stage::ChangeApplied | Stage::ChangeDropped(_) if self.changes == change => Ok(()),
            _ if self.items.get(change as usize - 1).is_some_and(|state| state.ended_here().is_some()) => Ok(()),
            stage => Err(format!("change {change} was not just completed but {stage:?}")),
        }
    }

    /// A budget that is on record as exceeded is the end of the run.
    fn exceed(&mut self, over: &BudgetExceeded) -> Outcome {
        self.require_closed()?;
        if over.actual < over.limit {
            return Err(format!("budget {} is not exceeded", over.budget));
        }
        self.exceeded = Some(over.clone());
        Ok(())
    }

    fn open_landing(&mut self, landing: &Landing) -> Outcome {
        if !self.has_to_land() || self.landed.is_some() || self.exceeded.is_some() {
            return Err("there is nothing to land".into());
        }
        // One that is open may be begun again: nothing has moved yet.
        if !self.is_judged() && !matches!(self.stage, Stage::LandingOpen(_)) {
            return Err("only a result that was judged lands".into());
        }
        self.stage = Stage::LandingOpen(landing.clone());
        Ok(())
    }

    /// Whether what the run has made is judged as it stands: the last turn is the check that passed it, or every item
    /// has come to its end.
    fn is_judged(&self) -> bool {
        match &self.stage {
            Stage::Fresh => !self.items.is_empty() && self.items.iter().all(|state| state.ended().is_some()),
            Stage::StepDone { step, end: TurnEnd::Answered, .. } => {
                self.verdict == Some(Verdict::Pass) && self.judged == Some(*step)
            }
            _ => false,
        }
    }

    fn land(&mut self, landing: &Landing) -> Outcome {
        match &self.stage {
            Stage::LandingOpen(open) if open == landing => {
                self.landed = Some(landing.clone());
                self.stage = Stage::LandingDone;
                Ok(())
            }
            stage => Err(format!("this landing is not open but {stage:?}")),
        }
    }

    fn decline(&mut self, why: &str) -> Outcome {
        match &self.stage {
            Stage::LandingOpen(_) => {
                // Declining one target makes room for another attempt: the branch norma/<run>.
                self.declined = Some(why.to_owned());
                self.stage = match self.items.is_empty() {
                    false => Stage::Fresh,
                    true => {
                        Stage::StepDone { step: self.last_step()?, end: TurnEnd::Answered, reason: None, patch: false }
                    }
                };
                Ok(())
            }
            stage => Err(format!("no landing is open but {stage:?}")),
        }
    }

    fn last_step(&self) -> Result<StepRef, String> {
        self.steps.last().map(|record| record.step).ok_or_else(|| "there is no step".to_owned())
    }

    fn pause(&mut self, reason: Option<Reason>) -> Outcome {
        if matches!(self.stage, Stage::StepOpen(..) | Stage::ChangeOpen { .. }) || self.has_open_item() {
            return Err("something is still open".into());
        }
        self.status = Status::Paused;
        self.reason = reason;
        Ok(())
    }

    fn resume(&mut self) -> Outcome {
        if !matches!(self.status, Status::Paused | Status::Waiting) {
            return Err("the run is not held".into());
        }
        self.status = Status::Running;
        self.reason = None;
        self.limited = None;
        Ok(())
    }

    fn pass(&mut self) -> Outcome {
        let decided = self.stage == Stage::LandingDone || self.is_judged() && !self.has_to_land();
        let passed = match self.items.is_empty() {
            true => self.verdict == Some(Verdict::Pass),
            false => self.items.iter().all(|state| state.succeeded()),
        };
        if !passed || !decided || self.exceeded.is_some() {
            return Err("a run passes only over a PASS that counts, or over every item, and a finished landing".into());
        }
        self.end(Status::Succeeded, None)
    }

    /// Whether there is something to land. What was carried out again only to be compared never lands.
    pub(crate) fn has_to_land(&self) -> bool {
        let changed = match self.items.is_empty() {
            true => self.tree != self.started.base.tree,
            false => self.line.head.commit != self.started.base.commit,
        };
        changed && self.started.replay_of.is_none()
    }

    fn end(&mut self, status: Status, reason: Option<Reason>) -> Outcome {
        let landing_open = matches!(self.stage, Stage::LandingOpen(_));
        if !landing_open && reason != Some(Reason::EvidenceLost) {
            self.require_closed()?;
            if self.has_open_item() {
                return Err("an item is still open".into());
            }
        }
        self.status = status;
        self.reason = reason;
        self.stage = Stage::Ended;
        Ok(())
    }

    /// The directories of the turns on record, oldest first.
    pub fn step_dirs(&self) -> Vec<&str> {
        self.steps.iter().filter_map(|record| record.dir.as_deref()).collect()
    }

    /// The directories of this iteration's turns.
    pub fn iteration_dirs(&self) -> Vec<&str> {
        let here = self.steps.iter().filter(|record| record.step.iteration == self.iteration);
        here.filter_map(|record| record.dir.as_deref()).collect()
    }

    /// The index the next step gets. A turn of which nothing was kept leaves its number to the next attempt.
    pub fn next_index(&self) -> u32 {
        if !self.items.is_empty() {
            return self.opened + 1;
        }
        let kept = self.steps.iter().filter(|record| record.dir.is_some());
        kept.map(|record| record.step.index).max().unwrap_or(0) + 1
    }

    /// What is left of `max_minutes`, if there is one.
    pub fn remaining_ms(&self) -> Option<u64> {
        let minutes = self.started.contract.budgets.max_minutes?;
        Some((u64::from(minutes) * 60_000).saturating_sub(self.active_ms))
    }

    /// The first budget of what turns use up that is used up.
    pub fn used_up(&self) -> Option<BudgetExceeded> {
        let budgets = &self.started.contract.budgets;
        let spent = [
            (Budget::MaxTokens, budgets.max_tokens, self.spent.tokens()),
            (Budget::MaxCostUsd, budgets.max_cost_usd.map(|most| most.0), self.spent.cost_micro_usd.unwrap_or(0)),
        ];
        let over = spent.into_iter().find_map(|(budget, limit, actual)| {
            limit.filter(|limit| actual >= *limit).map(|limit| BudgetExceeded { budget, limit, actual })
        });
        self.out_of_time().or(over)
    }

    /// The budget that time has used up, if it has.
    pub fn out_of_time(&self) -> Option<BudgetExceeded> {
        let minutes = u64::from(self.started.contract.budgets.max_minutes?);
        (self.remaining_ms() == Some(0)).then(|| BudgetExceeded {
            budget: Budget::MaxMinutes,
            limit: minutes,
            actual: self.active_ms.div_ceil(60_000),
        })
    }
}

fn step_dir(step: StepRef) -> String {
    format!("steps/{}", step.dir_name())
}

/// What a record of a turn says about itself must fit together, whoever wrote it.
fn require_consistent(done: &StepCommitted) -> Outcome {
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
