//! The record of a run as all who work on it share it. Facts are given their place in the log one after another and
//! reach the disk in that order; whoever put them there waits until they have, before acting on them or telling them.

use crate::drive::Progress;
use crate::items::Claims;
use crate::{Error, Result};
use contract::{Event, Fact};
use gateway::{Amount, Budget, Ledger};
use run::Run;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use store::{RunLog, StepFile, Store, Ticket};

/// What facts are recorded with.
pub(crate) type Entry = (Vec<Fact>, Vec<(String, StepFile)>);

/// Facts on their way to the disk.
#[must_use = "nothing may be done about facts that are not settled"]
pub(crate) struct Pending {
    events: Vec<Event>,
    ticket: Ticket<()>,
}

/// A run under way: its state behind one lock, and who is told of what is durable.
pub(crate) struct SharedRun<'a> {
    state: Mutex<RunState>,
    changed: Condvar,
    telling: Mutex<Telling<'a>>,
    /// What its turns are paid from, however many are under way at once.
    ledger: Arc<Ledger>,
}

/// The run, the end of its log, and who does what.
pub(crate) struct RunState {
    pub(crate) run: Run,
    log: RunLog,
    pub(crate) claims: Claims,
    /// Somebody could not go on: nobody does.
    broken: bool,
}

struct Telling<'a> {
    progress: &'a mut dyn Progress,
    /// What is durable and waits for something before it.
    durable: BTreeMap<u64, Vec<Event>>,
    /// How many events were told.
    told: u64,
}

impl<'a> SharedRun<'a> {
    pub(crate) fn new(run: Run, log: RunLog, progress: &'a mut dyn Progress) -> SharedRun<'a> {
        let ledger = Arc::new(ledger(&run));
        let telling = Telling { progress, durable: BTreeMap::new(), told: run.seq };
        let state = RunState { run, log, claims: Claims::default(), broken: false };
        SharedRun { state: Mutex::new(state), changed: Condvar::new(), telling: Mutex::new(telling), ledger }
    }

    /// What the run's turns are paid from.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The run as it is now.
    pub(crate) fn run(&self) -> Run {
        self.state().run.clone()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may have changed.
    pub(crate) fn wait<'p>(&self, state: MutexGuard<'p, RunState>) -> MutexGuard<'p, RunState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everybody who waits look again.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Has everybody stop: something could not be done, and what follows might rely on it.
    pub(crate) fn give_up(&self) {
        self.state().broken = true;
        self.notify();
    }

    /// Gives facts their place. What they are may depend on the run as it is at that moment.
    pub(crate) fn submit(&self, store: &Store, entry: impl FnOnce(&Run) -> Entry) -> (Pending, Run) {
        self.submit_if(store, |run| Some(entry(run))).expect("BUG: there is something to submit")
    }

    /// The same, unless there turns out to be nothing to say.
    pub(crate) fn submit_if(&self, store: &Store, entry: impl FnOnce(&Run) -> Option<Entry>) -> Option<(Pending, Run)> {
        let mut state = self.state();
        let (facts, files) = entry(&state.run)?;
        let (events, end, ticket) = store.submit_append(&state.log, facts, files);
        for event in &events {
            state.run.admits(&event.fact).expect("BUG: only what is due is recorded");
            state.run.apply(event).expect("BUG: only what is legal is recorded");
        }
        state.log = end;
        Some((Pending { events, ticket }, state.run.clone()))
    }

    /// Waits until facts are durable, and tells them in the order of the log.
    pub(crate) fn settle(&self, Pending { events, ticket }: Pending) -> Result<()> {
        if let Err(error) = ticket.wait() {
            self.give_up();
            return Err(Error::from(error));
        }
        self.tell(events);
        self.notify();
        Ok(())
    }

    fn tell(&self, events: Vec<Event>) {
        let Some(first) = events.first().map(|event| event.seq) else { return };
        let mut telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        telling.durable.insert(first, events);
        let next = telling.told + 1;
        let Some(mut due) = telling.durable.remove(&next) else { return };
        let run = self.run();
        loop {
            telling.progress.recorded(&run, &due);
            telling.told += due.len() as u64;
            let next = telling.told + 1;
            match telling.durable.remove(&next) {
                Some(more) => due = more,
                None => return,
            }
        }
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
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}
