//! The host of a state directory: it owns it, carries out every run that somebody asks for, and does for the command line
//! and for whoever speaks over `norma.sock` the same things in the same way. There is no hidden daemon: the host is the
//! process that came first, and it is there for as long as it has something to do.

mod budgets;
pub(crate) mod checkpoint;
mod commands;
pub(crate) mod continuation;
pub(crate) mod export;
pub(crate) mod facts;
pub(crate) mod feed;
pub(crate) mod follow;
mod fork;
mod garbage;
mod graph;
pub(crate) mod intake;
pub(crate) mod intent;
pub(crate) mod opencode;
pub(crate) mod owner;
pub(crate) mod pipeline;
pub(crate) mod preview;
pub(crate) mod request;
pub(crate) mod results;
mod review;
mod service;
pub(crate) mod socket;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod survey;
pub(crate) mod workers;

use crate::context::Context;
use crate::context::state_dir::StateDir;
use crate::host::feed::{DeltaObserver, Told};
use crate::host::follow::Follower;
use crate::host::owner::{Owner, Taken};
use crate::host::request::{Answer, Request, Sender, Start, Started};
use crate::host::socket::{Listener, Reply};
use crate::host::workers::{LiveRun, Order, Workers};
use crate::record::Stop;
use crate::{Error, Result};
use contract::Status;
use run::Run;
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use store::{Reader, Recovery};

/// The owner of a state directory, as the command line holds it: dropping it has every run stop at its next step.
pub struct Hosting {
    host: Arc<Host>,
    listener: Option<Listener>,
    // Dropped last: the lock is given back when everything else is closed.
    owner: Box<Owner>,
}

/// What came of asking for the state directory.
pub enum Hosted {
    /// It is ours.
    Ours(Box<Hosting>),
    /// Somebody else has it.
    Theirs(Option<store::Owner>),
}

/// What carries out requests, on whichever thread they come.
pub(crate) struct Host {
    context: Arc<Context>,
    state: Arc<StateDir>,
    workers: Arc<Workers>,
    waiting: Arc<Mutex<BTreeMap<String, Held>>>,
    /// For whom the runs are continued that waited before this host was there.
    heir: OnceLock<Held>,
    /// Who asked last: mostly it is the same again, and then there is one of it.
    last_sender: Mutex<Arc<Sender>>,
    /// Set, while nobody starts anything, once the host is about to end.
    leaving: Mutex<bool>,
}

/// How a run that waits for a person continues.
#[derive(Clone)]
struct Held {
    sender: Arc<Sender>,
    jobs: usize,
}

/// A run that is under way.
pub(crate) struct Launched {
    /// As it was when it began to be worked on.
    pub(crate) run: Run,
    /// What happens to it since.
    pub(crate) told: Receiver<Told>,
    /// What the one who asked should know.
    pub(crate) notes: Vec<String>,
}

impl Launched {
    fn told(&self) -> serde_json::Value {
        let started = Started { run_id: self.run.id.slug(), seq: self.run.seq, notes: self.notes.clone() };
        serde_json::to_value(started).expect("BUG: what was started is plain data")
    }
}

impl Hosting {
    /// Takes the lock if it is free, recovers, and starts to listen.
    pub fn take(context: &Arc<Context>) -> Result<Hosted> {
        let owner = match Owner::take(context)? {
            Taken::Ours(owner) => owner,
            Taken::Theirs(holder) => return Ok(Hosted::Theirs(holder)),
        };
        let (state, context) = (owner.state().clone(), context.clone());
        let waiting: Arc<Mutex<BTreeMap<String, Held>>> = Arc::default();
        let holding = waiting.clone();
        let itself: Arc<OnceLock<Weak<Host>>> = Arc::default();
        let known = itself.clone();
        let over = move |live: &LiveRun| {
            let run = live.settled();
            if run.status == Status::Waiting {
                let held = Held { sender: live.sender.clone(), jobs: live.jobs };
                lock(&holding).insert(live.slug.to_string(), held);
                let host = known.get().cloned().unwrap_or_default();
                Host::go_on_if_answered(host, run);
            }
        };
        let workers = Arc::new(Workers::new(state.clone(), Box::new(over))?);
        let host = Arc::new(Host {
            context,
            state,
            workers,
            waiting,
            heir: OnceLock::new(),
            last_sender: Mutex::default(),
            leaving: Mutex::default(),
        });
        let _ = itself.set(Arc::downgrade(&host));
        let serving = host.clone();
        let listener = socket::listen(&host.context.layout, Arc::new(move |request| serving.reply(request)))?;
        Ok(Hosted::Ours(Box::new(Hosting { host, listener: Some(listener), owner })))
    }

    /// What was found and done on taking the lock.
    pub fn recovery(&self) -> &Recovery {
        &self.owner.recovery
    }

    /// What is owned.
    pub fn state(&self) -> &Arc<StateDir> {
        self.owner.state()
    }

    /// Carries out a request, as the listener would.
    pub fn handle(&self, request: Request) -> Answer {
        commands::carry_out(&self.host, request).unwrap_or_else(|error| Answer::from(&error))
    }

    /// The same for whoever maps errors itself.
    pub fn ask(&self, request: Request) -> Result<(String, serde_json::Value)> {
        match commands::carry_out(&self.host, request)? {
            Answer::Done { message, value } => Ok((message, value)),
            Answer::Leaving => Err(Error::Leaving),
            Answer::Refused { message, hint, .. } => Err(Error::Declined { message, hint }),
        }
    }

    /// Starts a run, or continues one; answers who follows it, and what the one who asked should know.
    pub fn start(&self, sender: &Sender, start: Start) -> Result<(Follower, Vec<String>)> {
        let Launched { run, told, notes } = self.host.start(sender, start)?;
        Ok((Follower::here(&self.host.state.store.layout, run, told)?, notes))
    }

    /// What this process knows of its surroundings.
    pub fn context(&self) -> &Arc<Context> {
        &self.host.context
    }

    /// The same for somebody who asks: with what their environment decides.
    pub fn context_of(&self, sender: &Sender) -> Result<Context> {
        self.host.context_for(sender, &Arc::default())
    }

    /// Has somebody told of everything that is recorded of any run from now on, and of what agents are in the middle of.
    pub fn observe(&self, recorded: store::Observer, deltas: DeltaObserver) {
        self.state().store.observe(recorded);
        assert!(self.host.workers.observer.set(deltas).is_ok(), "BUG: one server observes a host");
    }

    /// A run that is being carried out, as it is on record.
    pub fn live(&self, slug: &str) -> Option<Arc<Run>> {
        self.host.workers.find(slug).map(|live| live.settled())
    }

    /// Waits until a run that was asked to pause has done so: whoever asks to continue it right after that means to.
    pub fn wait_for_pause(&self, slug: &str) {
        self.host.workers.wait_for_pause(slug);
    }

    /// Whether an agent that is not confined may be at work: it is a process of the same user, and could pass for them.
    pub fn is_unconfined(&self) -> bool {
        self.host.workers.unconfined()
    }

    /// Goes on with every run that nobody paused: whoever worked on it died, or was a server that ended. Each is checked
    /// as if somebody resumed it. Answers which, and why not, if one could not. What waits for a person goes on when it is
    /// answered.
    pub fn take_over(&self, sender: &Sender, jobs: usize) -> Result<Vec<(String, Option<Error>)>> {
        let _ = self.host.heir.set(Held { sender: Arc::new(sender.clone()), jobs });
        let reader = Reader::open(&self.host.state.store.layout)?;
        let mut slugs = reader.abandoned()?;
        // What a plan asks may be over while nobody looks.
        let of_plan = |slug: &String| reader.load(slug).is_ok_and(|(run, _)| run.waits_with_plan());
        slugs.extend(reader.waiting_intents()?.into_iter().filter(of_plan));
        let go_on = |run: String| {
            let failed = self.host.start(sender, Start::Resume { run: run.clone(), jobs, approved_by: None }).err();
            (run, failed)
        };
        Ok(slugs.into_iter().map(go_on).collect())
    }

    /// Takes nothing on any more.
    pub fn leave(&self) {
        *lock(&self.host.leaving) = true;
    }

    /// The same, and has every run stop for the next server to continue; answers when all have.
    pub fn shut_down(&self) {
        self.leave();
        self.host.workers.stop_all(Stop::Shutdown);
        self.host.workers.wait_for_all();
    }

    /// Asks a run to stop at its next step, one way or the other.
    pub fn stopper(&self, slug: String) -> impl Fn(Stop) + Send + Sync + 'static {
        let workers = self.host.workers.clone();
        move |stop| {
            workers.stop(&slug, stop);
        }
    }

    /// The same for every run.
    pub fn stop_all(&self) -> impl Fn() + Send + Sync + 'static {
        let workers = self.host.workers.clone();
        move || workers.stop_all(Stop::Interrupt)
    }

    /// The runs that are being carried out.
    pub fn under_way(&self) -> Vec<String> {
        self.host.workers.live()
    }

    /// Waits until nothing is being carried out, and takes nothing on from then on.
    pub fn wait_for_others(&self) {
        loop {
            self.host.workers.wait_for_all();
            let mut leaving = lock(&self.host.leaving);
            if self.host.workers.live().is_empty() {
                *leaving = true;
                return;
            }
        }
    }
}

impl Drop for Hosting {
    fn drop(&mut self) {
        *lock(&self.host.leaving) = true;
        self.host.workers.stop_all(Stop::Interrupt);
        self.host.workers.wait_for_all();
        self.host.workers.close();
        drop(self.listener.take());
    }
}

impl Host {
    fn reply(self: &Arc<Host>, request: Request) -> Reply {
        match request {
            Request::Follow { run, after } => Reply::Follow { told: self.workers.watch(&run), run, after },
            request => Reply::Answer(commands::carry_out(self, request).unwrap_or_else(|error| Answer::from(&error))),
        }
    }

    /// Has a run carried out that somebody has begun or taken up, while the host is not leaving.
    fn launch(&self, order: Order, notes: Vec<String>) -> Result<Launched> {
        let run = order.resumed.run.clone();
        let told = self.workers.begin(order)?;
        Ok(Launched { run, told, notes })
    }

    /// Waits for everybody else who starts something; refuses if the host is about to end.
    fn starting(&self) -> Result<MutexGuard<'_, bool>> {
        let leaving = lock(&self.leaving);
        if *leaving { Err(Error::Leaving) } else { Ok(leaving) }
    }

    /// Continues a run that a person was asked about, if it waits here; a turn that waits is woken. Answers whether
    /// somebody works on it.
    fn go_on_with(&self, slug: &str) -> bool {
        if self.workers.wake_turns(slug) {
            // What a node asked is answered in the run's own log; where that fails, the next look does it.
            let _ = graph::take_answers(self, slug);
            return true;
        }
        let held = lock(&self.waiting).remove(slug);
        let Some(Held { sender, jobs }) = held.or_else(|| self.inherited(slug)) else { return false };
        // Where it cannot continue, whoever resumes it is told why.
        self.start(&sender, Start::Resume { run: slug.to_owned(), jobs, approved_by: None }).is_ok()
    }

    /// Continues a run that was answered between its question and the moment from which it waits: whoever answered found
    /// nothing to wake.
    fn go_on_if_answered(host: Weak<Host>, run: Arc<Run>) {
        // Starting something waits for others, so it is not for the worker that let go of the run.
        std::thread::spawn(move || {
            let Some(host) = host.upgrade() else { return };
            let asked = run.approval_wait().map(|wait| wait.approval.to_string());
            let decided = |id: String| Some(host.reader().ok()?.approval(&id).ok()?.decision.is_some());
            if asked.and_then(decided) == Some(true) {
                host.go_on_with(&run.id.slug());
            }
        });
    }

    /// How a run goes on that has waited since before this host was there.
    fn inherited(&self, slug: &str) -> Option<Held> {
        let heir = self.heir.get()?;
        let (run, _) = self.reader().ok()?.load(slug).ok()?;
        (run.status == Status::Waiting).then(|| heir.clone())
    }

    /// Refuses a run that somebody works on already.
    fn require_idle(&self, slug: &str) -> Result<()> {
        if self.workers.find(slug).is_none() {
            return Ok(());
        }
        Err(Error::declined(
            format!("run {slug} is being carried out already"),
            format!("watch it: norma events {slug} --follow"),
        ))
    }

    /// Whether a run has not come to its end.
    fn live_or_held(&self, slug: &str) -> Result<bool> {
        Ok(self.workers.find(slug).is_some() || !self.reader()?.load(slug)?.0.status.is_terminal())
    }

    fn reader(&self) -> Result<Reader> {
        Ok(Reader::open(&self.state.store.layout)?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
