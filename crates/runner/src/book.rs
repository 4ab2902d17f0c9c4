//! The record of a run as all who work on it share it. Facts are given their place in the log one after another and
//! reach the disk in that order; whoever put them there waits until they have, before acting on them or telling them.

use crate::drive::Progress;
use crate::items::Desk;
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

/// See the module.
pub(crate) struct Book<'a> {
    page: Mutex<Page>,
    turned: Condvar,
    telling: Mutex<Telling<'a>>,
    /// What its turns are paid from, however many are under way at once.
    ledger: Arc<Ledger>,
}

/// The run, the end of its log, and who does what.
pub(crate) struct Page {
    pub(crate) run: Run,
    log: RunLog,
    pub(crate) desk: Desk,
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

impl<'a> Book<'a> {
    pub(crate) fn new(run: Run, log: RunLog, progress: &'a mut dyn Progress) -> Book<'a> {
        let ledger = Arc::new(ledger(&run));
        let telling = Telling { progress, durable: BTreeMap::new(), told: run.seq };
        let page = Page { run, log, desk: Desk::default(), broken: false };
        Book { page: Mutex::new(page), turned: Condvar::new(), telling: Mutex::new(telling), ledger }
    }

    /// What the run's turns are paid from.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The run as it is now.
    pub(crate) fn run(&self) -> Run {
        self.page().run.clone()
    }

    pub(crate) fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may have changed.
    pub(crate) fn wait<'p>(&self, page: MutexGuard<'p, Page>) -> MutexGuard<'p, Page> {
        self.turned.wait(page).unwrap_or_else(PoisonError::into_inner)
    }

    /// Has everybody who waits look again.
    pub(crate) fn turn(&self) {
        self.turned.notify_all();
    }

    /// Has everybody stop: something could not be done, and what follows might rely on it.
    pub(crate) fn give_up(&self) {
        self.page().broken = true;
        self.turn();
    }

    /// Gives facts their place. What they are may depend on the run as it is at that moment.
    pub(crate) fn submit(&self, store: &Store, entry: impl FnOnce(&Run) -> Entry) -> (Pending, Run) {
        self.submit_if(store, |run| Some(entry(run))).expect("BUG: there is something to submit")
    }

    /// The same, unless there turns out to be nothing to say.
    pub(crate) fn submit_if(&self, store: &Store, entry: impl FnOnce(&Run) -> Option<Entry>) -> Option<(Pending, Run)> {
        let mut page = self.page();
        let (facts, files) = entry(&page.run)?;
        let (events, end, ticket) = store.submit_append(&page.log, facts, files);
        for event in &events {
            page.run.admits(&event.fact).expect("BUG: only what is due is recorded");
            page.run.apply(event).expect("BUG: only what is legal is recorded");
        }
        page.log = end;
        Some((Pending { events, ticket }, page.run.clone()))
    }

    /// Waits until facts are durable, and tells them in the order of the log.
    pub(crate) fn settle(&self, Pending { events, ticket }: Pending) -> Result<()> {
        if let Err(error) = ticket.wait() {
            self.give_up();
            return Err(Error::from(error));
        }
        self.tell(events);
        self.turn();
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
    let budgets = &run.started.contract.budgets;
    let budget = Budget { max_tokens: budgets.max_tokens, max_cost_micro_usd: budgets.max_cost_usd.map(|most| most.0) };
    let spent = Amount { tokens: run.spent.tokens(), cost_micro_usd: run.spent.cost_micro_usd.unwrap_or(0) };
    Ledger::new(budget, spent)
}

impl Page {
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}
