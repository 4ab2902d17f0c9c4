//! The state of a run and the one match that changes it. Live work and recovery use the same `apply`; a fact
//! that does not fit the state is illegal, which is the default: `RunPassed` is reachable only over a PASS that
//! counts, and, if the run changed anything, over a finished landing decision on that very tree.
//!
//! This is the law: what can never be true of a run, in no version of norma. It does not ask what is due. That is the
//! schedule's to say ([`Run::admits`]), which may change, while a log that was written stays legal for ever.

mod core;
mod read;
mod waits;

pub use self::core::{Core, Line, OpenTurn, RateLimit, StepRecord, Unfinished};
use crate::workflow::Flow;
use contract::work::Gate;
use contract::{
    BudgetExceeded, Event, Fact, IntentFact, ItemBase, Landing, Reason, RunId, RunStarted, Status, StepCommitted,
    StepRef, Taken, Timestamp,
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

/// A run: the fold of its facts.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its first fact: contract, base, author. Never changes, so copies share it.
    pub started: Arc<RunStarted>,
    /// Where it is.
    pub status: Status,
    /// Why it has this status, where there is more to say than the status does.
    pub reason: Option<Reason>,
    /// How many facts were applied.
    pub seq: u64,
    /// What the runs of all workflows have.
    pub core: Core,
    /// Its workflow, and where that is.
    pub flow: Flow,
}

pub(crate) type Outcome = Result<(), String>;

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
        if started.parent.is_none() && (started.tree != started.base.tree || started.fork.is_some()) {
            return Err(illegal("a run without a parent starts from its base"));
        }
        if started.items == 0 && started.contract.digest() != started.contract_digest {
            return Err(illegal("the contract differs from its digest"));
        }
        if !started.contract.items.is_empty() {
            return Err(illegal("items are facts of their own"));
        }
        Ok(Run {
            id,
            core: Core::new(started),
            flow: Flow::new(&started.contract),
            started: Arc::new((**started).clone()),
            status: Status::Running,
            reason: None,
            seq: 1,
        })
    }

    /// Folds a whole log.
    pub fn fold(id: RunId, events: &[Event]) -> Result<Run, Illegal> {
        let (first, rest) = events.split_first().ok_or(Illegal { seq: 0, why: "the log is empty".to_owned() })?;
        let mut run = Run::start(id, first)?;
        for event in rest {
            run.advance(event)?;
        }
        Ok(run)
    }

    /// Applies one event, or says why it cannot have happened here. On error the state is unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        let mut next = self.clone();
        next.advance(event)?;
        *self = next;
        Ok(())
    }

    /// The same without keeping the state there was: on error this one is worth nothing and must be thrown away. For those
    /// who only follow a log.
    pub fn advance(&mut self, event: &Event) -> Result<(), Illegal> {
        self.step_to(event).map_err(|why| Illegal { seq: event.seq, why })
    }

    fn step_to(&mut self, event: &Event) -> Outcome {
        if event.seq != self.seq + 1 {
            return Err(format!("expected seq {}", self.seq + 1));
        }
        self.seq = event.seq;
        self.require_live(&event.fact)?;
        let Run { started, core, flow, .. } = self;
        match &event.fact {
            Fact::RunStarted(_) => Err("the run has started already".into()),
            Fact::StepStarted { step, base, taken } => self.open_step(*step, base.as_ref(), taken.as_deref(), event.ts),
            Fact::StepCommitted(done) => self.commit_step(done, event.ts),
            Fact::ReconciledStep { step, dir, .. } => flow.lose(&core.lose(*step, Some(dir.clone()))?),
            Fact::StepInterrupted { step } => flow.lose(&core.lose(*step, None)?),
            Fact::WorkSaved { step, tree } => core.save(*step, *tree),
            Fact::ProtocolError { step, problems } => flow.note_protocol_error(core, *step, problems),
            Fact::OutputSchemaEnforced { step, sha256, .. } => flow.batch()?.require_enforced(*step, sha256),
            Fact::AgentEvent { step, .. } => core.require_open(*step),
            Fact::Verdict(given) => flow.pdca()?.give_verdict(core, given, event.ts),
            Fact::ChangeStarted { change, step, before } => flow.pdca()?.open_change(core, *change, *step, *before),
            Fact::PatchApplied(applied) => flow.pdca()?.apply_patch(core, &started.contract.budgets, applied),
            Fact::ChangeDropped(dropped) => flow.pdca()?.drop_change(core, dropped),
            Fact::ChangeInterrupted { change } => flow.pdca()?.reopen_change(*change),
            Fact::ChangeRecovered { change } => self.note_recovered(*change),
            Fact::ItemAdded(added) => flow.add_item(core, started, added),
            Fact::PolicyViolation { item: None, node: Some(node), gate: Gate::Tools, .. } => {
                flow.require_at_work(*node)
            }
            Fact::PolicyViolation { item: Some(item), node: None, gate: Gate::Tools, .. } => {
                flow.require_working(*item)
            }
            Fact::GateFailed { item, .. } | Fact::PolicyViolation { item: Some(item), node: None, .. } => {
                flow.require_judged(*item)
            }
            Fact::PolicyViolation { .. } => Err("a violation is that of an item, or of a node that is at work".into()),
            Fact::ItemEnded(ended) => flow.end_item(core, ended),
            Fact::ApprovalAsked { step, wait } => self.ask_approval_within(*step, wait),
            Fact::RunWaiting(wait) => self.wait_for_approval(wait),
            Fact::ApprovalUsed { approval, .. } => self.use_approval(*approval),
            Fact::Asked(wait) => self.ask(wait),
            Fact::Answered(said) => self.take_answer(said, event.ts),
            Fact::Graph(fact) => flow.graph()?.apply(core, started, fact, event.ts),
            Fact::Intent(fact) => self.apply_to_intent(fact, event.ts),
            Fact::Pipeline(fact) => flow.apply_pipeline(core, started, fact),
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

    /// A paused run can only be answered, added to, resumed, ended or found damaged; nothing happens to an ended one.
    fn require_live(&self, fact: &Fact) -> Outcome {
        match (self.status, fact) {
            (Status::Running, _) => Ok(()),
            (Status::Paused | Status::Waiting, Fact::Answered(_)) => Ok(()),
            (Status::Paused | Status::Waiting, Fact::ItemAdded(added)) if added.addition.is_some() => Ok(()),
            // Everything that a plan waits for is asked at once, and lapses when its time is up.
            (Status::Waiting, Fact::Asked(wait)) if self.intent().is_some_and(|it| it.may_ask(&wait.id)) => Ok(()),
            (Status::Waiting, Fact::Intent(IntentFact::PlanNodeExpired { .. })) => Ok(()),
            // People build a graph while it is held, too; nothing of it gets a turn.
            (Status::Paused | Status::Waiting, Fact::Graph(fact)) if fact.is_said_by_people() => Ok(()),
            (Status::Paused, Fact::RunResumed { .. } | Fact::RunCanceled(_) | Fact::EvidenceLost { .. }) => Ok(()),
            (Status::Waiting, Fact::RunResumed { .. } | Fact::RunCanceled(_) | Fact::EvidenceLost { .. }) => Ok(()),
            (Status::Waiting, Fact::RunDenied(end)) if end.reason == Some(Reason::ApprovalDenied) => Ok(()),
            // Recovery rolls a landing forward that had already moved the ref when the process died.
            (Status::Paused, Fact::Landed(_)) => Ok(()),
            (status, _) => Err(format!("the run is {status}")),
        }
    }

    fn require_closed(&self) -> Outcome {
        match self.core.landing.is_some() || self.has_open_work() {
            true => Err("something is still open".into()),
            false => Ok(()),
        }
    }

    /// Whether a turn or a change is under way.
    fn has_open_work(&self) -> bool {
        !self.core.open.is_empty() || self.flow.has_open_change()
    }

    fn open_step(
        &mut self,
        step: StepRef,
        base: Option<&ItemBase>,
        taken: Option<&Taken>,
        since: Timestamp,
    ) -> Outcome {
        let turn = Arc::new(OpenTurn { step, since, base: base.cloned(), saved: None });
        self.flow.open(&self.core, &self.started, &turn, taken)?;
        self.core.open.push(turn);
        Ok(())
    }

    fn commit_step(&mut self, done: &StepCommitted, ts: Timestamp) -> Outcome {
        let record = self.core.commit(done, ts)?;
        let held = self.may_ask_for_more() && self.core.is_cut_off(done);
        self.flow.commit(&self.started, &record, done, held)
    }

    /// Whether a budget that is used up is a question, and not the end.
    pub(crate) fn may_ask_for_more(&self) -> bool {
        self.started.contract.attended && !self.core.ends_at_budget
    }

    fn note_recovered(&self, change: u32) -> Outcome {
        match self.flow.has_closed(change) {
            true => Ok(()),
            false => Err(format!("change {change} was not just completed")),
        }
    }

    fn apply_to_intent(&mut self, fact: &IntentFact, ts: Timestamp) -> Outcome {
        let Run { started, core, flow, .. } = self;
        flow.intent()?.apply(core, started, fact, ts)?;
        if let IntentFact::PlanHeld { reason } = fact {
            self.require_closed()?;
            (self.status, self.reason) = (Status::Waiting, Some(*reason));
        }
        Ok(())
    }

    /// A budget that is on record as exceeded is the end of the run.
    fn exceed(&mut self, over: &BudgetExceeded) -> Outcome {
        self.require_closed()?;
        if over.actual < over.limit {
            return Err(format!("budget {} is not exceeded", over.budget));
        }
        self.core.exceeded = Some(over.clone());
        Ok(())
    }

    /// One that is open may be begun again: nothing has moved yet.
    fn open_landing(&mut self, landing: &Landing) -> Outcome {
        if !self.has_to_land() || self.core.landed.is_some() || self.core.exceeded.is_some() {
            return Err("there is nothing to land".into());
        }
        if !self.flow.is_judged(&self.started) {
            return Err("only a result that was judged lands".into());
        }
        self.core.landing = Some(landing.clone());
        Ok(())
    }

    fn land(&mut self, landing: &Landing) -> Outcome {
        if self.core.landing.as_ref() != Some(landing) {
            return Err("this landing is not open".into());
        }
        self.core.landed = self.core.landing.take();
        Ok(())
    }

    /// Declining one target makes room for another attempt: the branch `norma/<run>`.
    fn decline(&mut self, why: &str) -> Outcome {
        self.core.landing.take().ok_or("no landing is open")?;
        self.core.declined = Some(why.to_owned());
        Ok(())
    }

    fn pause(&mut self, reason: Option<Reason>) -> Outcome {
        if self.has_open_work() {
            return Err("something is still open".into());
        }
        self.status = Status::Paused;
        self.reason = reason;
        if reason == Some(Reason::ProviderLimit) {
            // Whoever has it continue after the last of them begins to count anew.
            let is_last = self.core.limit_pauses >= self.started.contract.limits.provider_retries();
            self.core.limit_pauses = if is_last { 0 } else { self.core.limit_pauses + 1 };
        }
        Ok(())
    }

    fn resume(&mut self) -> Outcome {
        if !matches!(self.status, Status::Paused | Status::Waiting) {
            return Err("the run is not held".into());
        }
        self.status = Status::Running;
        self.reason = None;
        self.core.limited = None;
        if let Flow::Graph(state) = &mut self.flow {
            state.resume();
        }
        Ok(())
    }

    fn pass(&mut self) -> Outcome {
        let decided = self.core.landed.is_some() || self.flow.is_judged(&self.started) && !self.has_to_land();
        if !self.flow.passed() || !decided || self.core.exceeded.is_some() {
            return Err("a run passes only over a PASS that counts, or over every item, and a finished landing".into());
        }
        self.end(Status::Succeeded, None)
    }

    /// A run ends with nothing open, but for a landing that has not moved anything, and whatever lost its evidence.
    fn end(&mut self, status: Status, reason: Option<Reason>) -> Outcome {
        if self.core.landing.take().is_none() && reason != Some(Reason::EvidenceLost) {
            self.require_closed()?;
        }
        self.core.waits.clear();
        self.status = status;
        self.reason = reason;
        Ok(())
    }
}
