//! The record of a run as all who work on it share it. Facts are given their place in the log one after another and
//! reach the disk in that order; whoever put them there waits until they have, before acting on them or telling them.
//! The last facts of a piece of work may be *held*: nobody waits for them until the next piece of work has put its own
//! intent behind them, so that both share a commit.

use crate::process::Clock;
use crate::record::claims::Claims;
use crate::record::{SpareDirs, Unwritten};
use crate::{Error, Result};
use contract::{Event, Fact, SessionEvent, StepRef};
use gateway::{Amount, Budget, Ledger};
use run::Run;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Attached, RunLog, Store, Ticket};

/// Told of everything that is on record, in order.
pub trait Progress: Send {
    /// These events are durable, and this is the run with them.
    fn recorded(&mut self, run: &Arc<Run>, events: &Arc<[Event]>);
    /// An agent is in the middle of something; this is on no record.
    fn delta(&mut self, _step: StepRef, _event: &SessionEvent) {}
}

impl<P: Progress + ?Sized> Progress for &mut P {
    fn recorded(&mut self, run: &Arc<Run>, events: &Arc<[Event]>) {
        (**self).recorded(run, events);
    }

    fn delta(&mut self, step: StepRef, event: &SessionEvent) {
        (**self).delta(step, event);
    }
}

/// What facts are recorded with.
pub(crate) type Entry = (Vec<Fact>, Attached);

/// Facts on their way to the disk.
#[must_use = "nothing may be done about facts that are not settled"]
pub(crate) struct Pending {
    recorded: Recorded,
    ticket: Ticket<()>,
}

/// Facts with the run that they lead to.
struct Recorded {
    events: Arc<[Event]>,
    run: Arc<Run>,
}

impl Pending {
    fn first(&self) -> u64 {
        self.recorded.events.first().map_or(0, |event| event.seq)
    }
}

/// A run under way: its state behind one lock, and who is told of what is durable.
pub(crate) struct SharedRun<'a> {
    state: Mutex<RunState>,
    /// Has whoever has nothing to do look again.
    wake: Box<dyn Fn() + Send + Sync + 'a>,
    telling: Mutex<Telling<'a>>,
    held: Mutex<Vec<Pending>>,
    /// What its turns are paid from, however many are under way at once.
    ledger: Arc<Ledger>,
    /// The time that they have together, if there is a limit.
    clock: Option<Clock>,
    spare_dirs: SpareDirs,
    unwritten: Unwritten,
}

/// The run, the end of its log, and who does what.
pub(crate) struct RunState {
    /// Shared with whoever was given it as it was at some moment.
    pub(crate) run: Arc<Run>,
    log: RunLog,
    pub(crate) claims: Claims,
    /// Why somebody could not continue: nobody does.
    failed: Option<Error>,
}

struct Telling<'a> {
    progress: Box<dyn Progress + 'a>,
    /// What is durable and waits for something before it.
    durable: BTreeMap<u64, Recorded>,
    /// The run as it was told: nothing in it may be taken back by a crash.
    settled: Arc<Run>,
}

impl<'a> SharedRun<'a> {
    /// `wake` is called, with nothing held, when somebody who works on nothing has to look. Whoever has done something looks
    /// by themselves.
    pub(crate) fn new(
        run: Run,
        log: RunLog,
        progress: Box<dyn Progress + 'a>,
        wake: Box<dyn Fn() + Send + Sync + 'a>,
    ) -> SharedRun<'a> {
        let ledger = Arc::new(ledger(&run));
        let clock = run.remaining_ms().map(|left| Clock::new(Duration::from_millis(left)));
        let run = Arc::new(run);
        let telling = Telling { progress, durable: BTreeMap::new(), settled: run.clone() };
        let state = RunState { run, log, claims: Claims::default(), failed: None };
        let (telling, held) = (Mutex::new(telling), Mutex::default());
        let (state, spare_dirs, unwritten) = (Mutex::new(state), SpareDirs::default(), Unwritten::default());
        SharedRun { state, wake, telling, held, ledger, clock, spare_dirs, unwritten }
    }

    /// What the run's turns are paid from.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The time that the run's turns have together.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Directories of turns that are over, for those to come.
    pub(crate) fn spare_dirs(&self) -> &SpareDirs {
        &self.spare_dirs
    }

    /// Directories that turns to come are shown.
    pub(crate) fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// The run as it is now.
    pub(crate) fn run(&self) -> Arc<Run> {
        self.state().run.clone()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run as it is on record, which is behind [`SharedRun::run`] while facts are on their way to the disk.
    pub(crate) fn settled(&self) -> Arc<Run> {
        self.telling().settled.clone()
    }

    /// Has somebody who works on nothing look for what there is to do.
    pub(crate) fn wake(&self) {
        (self.wake)();
    }

    /// Has everybody stop: something could not be done, and what follows might rely on it.
    pub(crate) fn give_up(&self, error: Error) {
        self.state().fail(error);
        self.wake();
    }

    /// Gives facts their place. What they are may depend on the run as it is at that moment.
    pub(crate) fn submit(&self, store: &Store, entry: impl FnOnce(&Run) -> Entry) -> (Pending, Arc<Run>) {
        self.submit_if(store, |run| Some(entry(run))).expect("BUG: there is something to submit")
    }

    /// The same, unless there turns out to be nothing to say.
    pub(crate) fn submit_if(
        &self,
        store: &Store,
        entry: impl FnOnce(&Run) -> Option<Entry>,
    ) -> Option<(Pending, Arc<Run>)> {
        let mut state = self.state();
        let (facts, files) = entry(&state.run)?;
        let submitted = store.submit_append(&state.log, facts, files);
        Some(state.count_on(submitted))
    }

    /// The same for facts that others follow before anybody waits for them.
    pub(crate) fn submit_patient(&self, store: &Store, (facts, files): Entry) -> (Pending, Arc<Run>) {
        let mut state = self.state();
        let submitted = store.submit_patient(&state.log, facts, files);
        state.count_on(submitted)
    }

    /// Waits until facts are durable, and tells them in the order of the log; what was held comes before them.
    pub(crate) fn settle(&self, pending: Pending) -> Result<()> {
        let first = pending.first();
        let Pending { recorded, ticket } = pending;
        ticket.wait()?;
        // Whatever comes before these in the log is durable with them.
        let before: Vec<Pending> = self.held().extract_if(.., |held| held.first() < first).collect();
        self.tell(before.into_iter().map(|held| held.recorded).chain([recorded]));
        Ok(())
    }

    /// Leaves it to whoever settles something next to wait for these facts and to tell them.
    pub(crate) fn hold(&self, pending: Pending) {
        self.held().push(pending);
    }

    /// Has nobody hold anything any more: nothing follows at once that would share a commit with it.
    pub(crate) fn settle_held(&self) -> Result<()> {
        let held = std::mem::take(&mut *self.held());
        let mut told = Vec::new();
        let settled = held.into_iter().try_for_each(|Pending { recorded, ticket }| {
            ticket.wait()?;
            told.push(recorded);
            Ok(())
        });
        self.tell(told);
        settled
    }

    fn held(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what is durable now, all that can be told as one: whoever watches is woken for each.
    fn tell(&self, durable: impl IntoIterator<Item = Recorded>) {
        let mut telling = self.telling();
        let durable = durable.into_iter().filter_map(|recorded| Some((recorded.events.first()?.seq, recorded)));
        telling.durable.extend(durable);
        let mut due = Vec::new();
        loop {
            let next = telling.settled.seq + 1;
            let Some(Recorded { events, run }) = telling.durable.remove(&next) else { break };
            telling.settled = run;
            due.push(events);
        }
        let due = match due.as_slice() {
            [] => return,
            [one] => one.clone(),
            several => several.iter().flat_map(|events| events.iter().cloned()).collect(),
        };
        let Telling { progress, settled, .. } = &mut *telling;
        progress.recorded(settled, &due);
    }

    /// Shows what an agent is in the middle of. It is not on record, and may never be.
    pub(crate) fn show(&self, step: StepRef, event: &SessionEvent) {
        self.telling().progress.delta(step, event);
    }

    fn telling(&self) -> MutexGuard<'_, Telling<'a>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The budgets of a run, with what it has spent so far.
fn ledger(run: &Run) -> Ledger {
    let budgets = run.budgets();
    let budget = Budget { max_tokens: budgets.max_tokens, max_cost_micro_usd: budgets.max_cost_usd.map(|most| most.0) };
    let spent = Amount { tokens: run.spent().tokens(), cost_micro_usd: run.spent().cost_micro_usd.unwrap_or(0) };
    Ledger::new(budget, spent)
}

impl RunState {
    /// The run with facts that have their place in its log.
    fn count_on(&mut self, (events, end, ticket): (Arc<[Event]>, RunLog, Ticket<()>)) -> (Pending, Arc<Run>) {
        let run = Arc::make_mut(&mut self.run);
        for event in events.iter() {
            run.admits(&event.fact).expect("BUG: only what is due is recorded");
            run.advance(event).expect("BUG: only what is legal is recorded");
        }
        self.log = end;
        (Pending { recorded: Recorded { events, run: self.run.clone() }, ticket }, self.run.clone())
    }

    /// Has everybody stop who asks what to do next.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    /// Whether somebody could not continue.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Why, for whoever lets go of the run.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }
}
