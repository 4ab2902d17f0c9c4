//! The runs that are being carried out, and those who carry them out. The workers are shared: each takes the next thing
//! that is due from the runs one after another, so that no run keeps the others waiting. A run that waits for a person, a
//! provider or a lock has no worker.

use crate::context::Context;
use crate::context::state_dir::StateDir;
use crate::host::feed::{DeltaObserver, Feed, Telling, Told};
use crate::host::request::Sender;
use crate::host::start::Resumed;
use crate::machine::Machine;
use crate::record::claims::{Asking, Claims, Job, Next};
use crate::record::{Control, Driver, SharedRun, Stop};
use crate::{Answer, Error, Result};
use contract::{Backend, Fact, Policies, Slug};
use run::Run;
use run::workflow::graph::edit::EditProblem;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Attached, PathLocks, Reader, StepFile, Store};

/// How long somebody waits for a run to pause: its turns have to end.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// A run to be carried out, and how.
pub(crate) struct Order {
    /// The run, at the end of its log.
    pub(crate) resumed: Resumed,
    /// Who asked for it.
    pub(crate) sender: Arc<Sender>,
    /// What their environment decides.
    pub(crate) context: Arc<Context>,
    /// What its changes are judged by.
    pub(crate) policies: Policies,
    /// How many of its items are worked on at once.
    pub(crate) jobs: usize,
    /// How many workers it may share with the others.
    pub(crate) workers: usize,
    /// Who has approved by asking for it.
    pub(crate) consent: Option<String>,
    /// Who watches.
    pub(crate) feed: Arc<Feed>,
}

/// A run that is being carried out.
pub(crate) struct LiveRun {
    pub(crate) slug: Slug,
    pub(crate) sender: Arc<Sender>,
    context: Arc<Context>,
    policies: Policies,
    pub(crate) jobs: usize,
    workers: usize,
    consent: Option<String>,
    feed: Arc<Feed>,
    control: Control,
    shared: Arc<SharedRun<'static>>,
    /// What those who worked on it left for the next: an agent continues the conversation that it had.
    tools: Mutex<Vec<Tools>>,
}

/// What one worker has of its own while it works on a run.
struct Tools {
    machine: Machine,
    reader: Reader,
}

impl LiveRun {
    /// The run as it is on record.
    pub(crate) fn settled(&self) -> Arc<Run> {
        self.shared.settled()
    }

    /// The run with what is on its way to the disk: never behind what anybody can read of it.
    pub(crate) fn now(&self) -> Arc<Run> {
        self.shared.run()
    }

    /// Records facts that depend on the run as it is at that moment, all of them or none.
    pub(crate) fn add(
        &self,
        store: &Store,
        files: Vec<(String, StepFile)>,
        facts: impl FnOnce(&Run) -> std::result::Result<Vec<Fact>, String>,
    ) -> Result<Vec<Fact>> {
        let mut found = Err(String::new());
        let submitted = self.shared.submit_if(store, |run| {
            found = facts(run);
            found.as_ref().ok().map(|facts| (facts.clone(), files.into()))
        });
        let look = format!("look at it: norma show {}", self.slug);
        let facts = found.map_err(|why| Error::declined(why, look))?;
        submitted.map_or(Ok(()), |(pending, _)| self.shared.settle(pending))?;
        self.shared.wake();
        Ok(facts)
    }

    /// The same of what people do to a graph.
    pub(crate) fn edit(
        &self,
        store: &Store,
        facts: impl FnOnce(&Run) -> std::result::Result<Vec<Fact>, EditProblem>,
    ) -> Result<Vec<Fact>> {
        let mut found = Ok(Vec::new());
        let submitted = self.shared.submit_if(store, |run| {
            found = facts(run);
            found.as_ref().ok().filter(|facts| !facts.is_empty()).map(|facts| (facts.clone(), Attached::default()))
        });
        let facts = found.map_err(Error::Edit)?;
        submitted.map_or(Ok(()), |(pending, _)| self.shared.settle(pending))?;
        self.shared.wake();
        Ok(facts)
    }

    /// Ends the turn that a node is in.
    pub(crate) fn interrupt(&self, node: u32) {
        self.control.interrupt_node(node);
    }

    /// Has everything on record that was held for what would follow.
    fn settle(&self) {
        if let Err(error) = self.shared.settle_held() {
            self.shared.give_up(error);
        }
    }

    fn tools(&self, state: &StateDir) -> Result<Tools> {
        if let Some(tools) = lock(&self.tools).pop() {
            return Ok(tools);
        }
        let machine = Machine::new(self.context.clone(), state, self.control.cancel.clone());
        Ok(Tools { machine, reader: Reader::open(&state.store.layout)? })
    }

    fn carry_out(&self, state: &StateDir, job: Job) -> Result<()> {
        let mut tools = self.tools(state)?;
        let done = Driver {
            store: &state.store,
            objects: &state.objects,
            reader: &tools.reader,
            run: self.shared.run(),
            shared: self.shared.clone(),
            world: &mut tools.machine,
            control: self.control.clone(),
            policies: &self.policies,
            lane: &state.lane,
            left: None,
            consent: self.consent.as_deref(),
            let_go: &|| lock(&self.tools).clear(),
        }
        .carry_out(job);
        lock(&self.tools).push(tools);
        done
    }
}

pub(crate) struct Workers {
    state: Arc<StateDir>,
    locks: PathLocks,
    pool: Mutex<Pool>,
    /// There may be something to do.
    more: Condvar,
    /// A run is over.
    one_less: Condvar,
    /// Is told of every run that is over.
    over: Box<dyn Fn(&LiveRun) + Send + Sync>,
    /// Is told what the agents of all runs are in the middle of.
    pub(crate) observer: Arc<OnceLock<DeltaObserver>>,
}

#[derive(Default)]
struct Pool {
    /// The run whose turn it is comes first.
    live: VecDeque<Arc<LiveRun>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    /// How many runs are over and not let go of yet.
    ending: usize,
    closing: bool,
}

impl Workers {
    pub(crate) fn new(state: Arc<StateDir>, over: Box<dyn Fn(&LiveRun) + Send + Sync>) -> Result<Workers> {
        let locks = PathLocks::open(&state.store.layout)?;
        let (pool, more, one_less) = (Mutex::default(), Condvar::new(), Condvar::new());
        Ok(Workers { state, locks, pool, more, one_less, over, observer: Arc::default() })
    }

    /// Begins to carry out a run; answers who watches it from its first new event.
    pub(crate) fn begin(self: &Arc<Workers>, order: Order) -> Result<Receiver<Told>> {
        let Order { resumed: Resumed { run, log, denied }, sender, context, policies, jobs, workers, consent, feed } =
            order;
        let (slug, control, waking) = (run.id.slug(), Control::new()?, Arc::downgrade(self));
        let wake = Box::new(move || waking.upgrade().iter().for_each(|workers| workers.wake()));
        let telling = Telling { slug, feed: feed.clone(), observer: self.observer.clone() };
        let shared = Arc::new(SharedRun::new(run, log, Box::new(telling), wake));
        if let Some(end) = denied {
            shared.state().claims.deny(end);
        }
        let (watched, tools) = (feed.watch(), Mutex::default());
        let live = LiveRun { slug, sender, context, policies, jobs, workers, consent, feed, control, shared, tools };
        // What it took to start a run, a large one above all, is not needed to carry it out.
        contract::schema::let_go();
        sandbox::give_memory_back();
        let mut pool = self.lock();
        pool.live.push_back(Arc::new(live));
        if pool.idle == 0 {
            self.hire(&mut pool)?;
        }
        drop(pool);
        self.more.notify_one();
        Ok(watched)
    }

    /// A run that is being carried out.
    pub(crate) fn find(&self, slug: &str) -> Option<Arc<LiveRun>> {
        self.lock().live.iter().find(|live| live.slug == slug).cloned()
    }

    /// Watches a run that is being carried out.
    pub(crate) fn watch(&self, slug: &str) -> Option<Receiver<Told>> {
        Some(self.find(slug)?.feed.watch())
    }

    /// Asks a run to stop; false if nobody works on it.
    pub(crate) fn stop(&self, slug: &str, stop: Stop) -> bool {
        let Some(live) = self.find(slug) else { return false };
        live.control.request(stop);
        self.wake();
        true
    }

    /// Has the turns of a run look for their answers; false if nobody works on it.
    pub(crate) fn wake_turns(&self, slug: &str) -> bool {
        self.find(slug).inspect(|live| live.control.wake_turns()).is_some()
    }

    /// Asks every run to stop.
    pub(crate) fn stop_all(&self, stop: Stop) {
        self.lock().live.iter().for_each(|live| live.control.request(stop));
        self.wake();
    }

    /// The runs that are being carried out.
    pub(crate) fn live(&self) -> Vec<String> {
        self.lock().live.iter().map(|live| live.slug.to_string()).collect()
    }

    /// Whether agents of one of them are not confined.
    pub(crate) fn unconfined(&self) -> bool {
        self.lock().live.iter().any(|live| live.settled().started.contract.sandbox == Backend::None)
    }

    /// Waits until nothing is being carried out.
    pub(crate) fn wait_for_all(&self) {
        let busy = |pool: &mut Pool| !pool.live.is_empty() || pool.ending > 0;
        drop(self.one_less.wait_while(self.lock(), busy));
    }

    /// Waits until a run that was asked to pause is let go of, but not for ever.
    pub(crate) fn wait_for_pause(&self, slug: &str) {
        let pauses =
            |live: &Arc<LiveRun>| live.slug.as_str() == slug && live.control.requested() == Some(Stop::Interrupt);
        let busy = |pool: &mut Pool| pool.ending > 0 || pool.live.iter().any(pauses);
        drop(self.one_less.wait_timeout_while(self.lock(), PAUSE_MAX, busy));
    }

    /// Sends the workers away, once nothing is being carried out.
    pub(crate) fn close(&self) {
        let mut pool = self.lock();
        pool.closing = true;
        let threads = std::mem::take(&mut pool.threads);
        drop(pool);
        self.more.notify_all();
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Has somebody who has nothing to do look again.
    pub(crate) fn wake(&self) {
        // Whoever looks holds this from its look to its wait.
        let idle = self.lock().idle;
        if idle > 0 {
            self.more.notify_one();
        }
    }

    fn hire(self: &Arc<Workers>, pool: &mut Pool) -> Result<()> {
        let workers = self.clone();
        let thread = std::thread::Builder::new().name("norma-worker".into()).spawn(move || workers.work());
        let thread = thread.map_err(|source| Error::io("start a worker for", &self.state.store.layout.state, source));
        pool.threads.push(thread?);
        Ok(())
    }

    fn work(self: Arc<Workers>) {
        let mut last: Option<Arc<LiveRun>> = None;
        while let Some((live, job)) = self.claim(&mut last) {
            let subject = job.subject();
            // A run that norma itself fails in is the only one that it fails in.
            let done = catch_unwind(AssertUnwindSafe(|| live.carry_out(&self.state, job)));
            if let Err(error) = done.unwrap_or_else(|panic| Err(Error::Panicked(words(&*panic)))) {
                live.shared.give_up(error);
            }
            live.shared.state().claims.release(subject);
            last = Some(live);
        }
    }

    /// The next thing to do of the run whose turn it is; none when there will be no more. `last` is the run that this
    /// worker did something about before, which may hold facts until it does the next thing about it.
    fn claim(self: &Arc<Workers>, last: &mut Option<Arc<LiveRun>>) -> Option<(Arc<LiveRun>, Job)> {
        let found = self.look(last);
        if let Some(last) = last.take().filter(|last| found.as_ref().is_none_or(|(live, _)| !Arc::ptr_eq(live, last))) {
            last.settle();
        }
        found
    }

    fn look(self: &Arc<Workers>, last: &mut Option<Arc<LiveRun>>) -> Option<(Arc<LiveRun>, Job)> {
        let mut pool = self.lock();
        loop {
            let (mut earliest, mut again): (Option<Instant>, bool) = (None, false);
            for _ in 0..pool.live.len() {
                let Some(live) = pool.live.pop_front() else { break };
                match self.ask(&live) {
                    Next::Do(job) => {
                        pool.live.push_back(live.clone());
                        self.bring_another(&mut pool);
                        return Some((live, job));
                    }
                    Next::At(time) => earliest = Some(earliest.map_or(time, |sooner| sooner.min(time))),
                    Next::Wait => {}
                    Next::Over => {
                        pool.ending += 1;
                        drop(pool);
                        self.let_go(&live);
                        drop(live);
                        pool = self.lock();
                        pool.ending -= 1;
                        if pool.live.is_empty() {
                            // A server may rest for days now.
                            sandbox::give_memory_back();
                        }
                        self.one_less.notify_all();
                        // What it had locked is free for those that were asked before.
                        again = true;
                        continue;
                    }
                }
                pool.live.push_back(live);
            }
            if pool.closing {
                return None;
            }
            if again {
                continue;
            }
            if let Some(last) = last.take() {
                // Nothing follows: it is settled before anybody rests, and looked again for what that brought.
                drop(pool);
                last.settle();
                pool = self.lock();
                continue;
            }
            pool.idle += 1;
            pool = match earliest.map(|time| time.saturating_duration_since(Instant::now())) {
                None => self.more.wait(pool).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.more.wait_timeout(pool, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            pool.idle -= 1;
        }
    }

    fn ask(&self, live: &LiveRun) -> Next {
        let asking = Asking { control: &live.control, jobs: live.jobs, locks: &self.locks };
        let mut state = live.shared.state();
        match asking.claim(&mut state) {
            Ok(next) => next,
            Err(error) => {
                state.fail(error);
                if state.claims.is_idle() { Next::Over } else { Next::Wait }
            }
        }
    }

    /// Whoever has found something to do has somebody else look for more, if there may be more.
    fn bring_another(self: &Arc<Workers>, pool: &mut Pool) {
        if !pool.live.iter().any(|live| live.shared.state().may_have_more(live.jobs)) {
            return;
        }
        let most = pool.live.iter().map(|live| live.jobs.max(live.workers)).max().unwrap_or(0);
        if pool.idle > 0 {
            self.more.notify_one();
        } else if pool.threads.len() < most {
            // Without one more it only takes longer.
            let _ = self.hire(pool);
        }
    }

    /// Lets go of a run that nobody works on any more.
    fn let_go(&self, live: &LiveRun) {
        live.settle();
        let failure = {
            let mut state = live.shared.state();
            state.claims = Claims::default();
            state.take_failure()
        };
        let outcome = failure.map(|error| {
            self.recover(live);
            Answer::from(&error)
        });
        (self.over)(live);
        live.feed.end(outcome);
    }

    /// Brings what a failure left of a run into a state that it can continue from, as the next owner would. Where that fails
    /// too, the next owner does it.
    fn recover(&self, live: &LiveRun) {
        let StateDir { store, keys, .. } = &*self.state;
        lock(&live.tools).clear();
        if crate::process::leftovers::kill(crate::process::MARKER, &live.slug).is_ok() {
            let _ = store::recover_one(store, &live.slug, &|said| keys.sign(said));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        lock(&self.pool)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it does not say why".to_owned())
}
