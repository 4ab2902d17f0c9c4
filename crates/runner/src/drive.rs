//! The loop. It asks the run what is due, does that one thing, records it, and asks again. Nobody acts on a fact, and
//! nobody is told of it (progress), before it is durable.

use crate::git::Objects;
use crate::host::approval;
use crate::machine::diff;
use crate::shared::{Pending, SharedRun};
use crate::world::World;
use crate::{Error, Machine, Result, change, items, landing, turn};
use contract::{End, Event, Fact, Policies, Reason, Status, StepRef, Timestamp};
use run::{Due, Run};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Reader, RunLog, Store, crash};

/// How long a provider is waited for; a run that has to wait longer is left paused.
const LONGEST_WAIT_MS: u64 = 6 * 60 * 60 * 1000;

/// How often it is looked whether somebody wants a waiting run to stop.
const LOOK_MS: u64 = 100;

/// Why the loop should stop before the run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Leave it paused; it can go on later.
    Interrupt,
    /// End it.
    Cancel,
}

/// The way to ask a run to stop, from a signal handler's thread or another terminal.
#[derive(Clone)]
pub struct Control {
    requested: Arc<Mutex<Option<Stop>>>,
    /// Ends the turn that is under way.
    pub cancel: crate::process::Cancel,
    waiters: turn::answers::Waiters,
}

impl Control {
    /// Nothing is asked yet.
    pub fn new() -> Result<Control> {
        let cancel = crate::process::Cancel::new()
            .map_err(|source| Error::io("make a wake-up for", Path::new("the run"), source))?;
        Ok(Control { requested: Arc::default(), cancel, waiters: Default::default() })
    }

    /// Asks for a stop; a cancel is not weakened by a later interrupt.
    pub fn request(&self, stop: Stop) {
        let mut requested = self.requested.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *requested != Some(Stop::Cancel) {
            *requested = Some(stop);
        }
        self.cancel.cancel();
    }

    /// Has the turns that wait for a person look for their answers.
    pub fn wake_turns(&self) {
        self.waiters.wake();
    }

    /// Lets a turn be woken while it lasts.
    pub(crate) fn join_turn(&self) -> Result<turn::answers::Waiter> {
        self.waiters.join().map_err(|source| Error::io("make a wake-up for", Path::new("a turn"), source))
    }

    /// What was asked.
    pub fn requested(&self) -> Option<Stop> {
        *self.requested.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Told of everything that is on record, in order.
pub trait Progress: Send {
    /// These events are durable.
    fn recorded(&mut self, run: &Run, events: &[Event]);
}

/// Whether doing this would accept the run's result.
fn accepts(due: &Due) -> bool {
    matches!(due, Due::Land | Due::End { status: Status::Succeeded, .. })
}

/// Who carries out items: as many machines as may be at work at once.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    /// How many.
    pub jobs: usize,
    /// Makes one more.
    pub machine: &'a (dyn Fn() -> Machine<'a> + Sync),
}

/// What those who work on the same run have in common.
pub(crate) struct WorkerContext<'a> {
    store: &'a Store,
    objects: &'a Objects,
    shared: Arc<SharedRun<'a>>,
    control: Control,
    policies: &'a Policies,
}

/// One run being carried out, by one of those who work on it.
pub struct Driver<'w, 'a> {
    /// The record.
    pub store: &'a Store,
    /// norma's own objects.
    pub(crate) objects: &'a Objects,
    /// Reads what was recorded before.
    pub(crate) reader: Reader,
    /// The run, as it was after what this one recorded last.
    pub run: Run,
    /// The run as all who work on it know it.
    pub(crate) shared: Arc<SharedRun<'a>>,
    /// Agents and git.
    pub(crate) world: &'w mut dyn World,
    /// Others who may help.
    pub(crate) workers: Option<Workers<'a>>,
    /// Who may stop it.
    pub(crate) control: Control,
    /// What its changes are judged by; those that its contract names.
    pub(crate) policies: &'a Policies,
}

impl<'w, 'a> Driver<'w, 'a> {
    /// A driver for a run whose log ends here.
    #[expect(clippy::too_many_arguments, reason = "everything that carrying out a run needs, once")]
    pub fn new(
        store: &'a Store,
        objects: &'a Objects,
        run: Run,
        log: RunLog,
        world: &'w mut dyn World,
        progress: &'a mut dyn Progress,
        control: Control,
        policies: &'a Policies,
    ) -> Result<Driver<'w, 'a>> {
        let reader = Reader::open(&store.layout)?;
        let shared = Arc::new(SharedRun::new(run.clone(), log, progress));
        Ok(Driver { store, objects, reader, run, shared, world, workers: None, control, policies })
    }

    /// The same with others who help with items.
    pub fn with_workers(mut self, workers: Workers<'a>) -> Driver<'w, 'a> {
        self.workers = Some(workers);
        self
    }

    /// A place beside this one for somebody who works on the same run.
    pub(crate) fn worker_context(&self) -> WorkerContext<'a> {
        let (shared, control) = (self.shared.clone(), self.control.clone());
        WorkerContext { store: self.store, objects: self.objects, shared, control, policies: self.policies }
    }

    /// Somebody in such a place.
    pub(crate) fn at(context: &WorkerContext<'a>, world: &'w mut dyn World) -> Result<Driver<'w, 'a>> {
        Ok(Driver {
            store: context.store,
            objects: context.objects,
            reader: Reader::open(&context.store.layout)?,
            run: context.shared.run(),
            shared: context.shared.clone(),
            world,
            workers: None,
            control: context.control.clone(),
            policies: context.policies,
        })
    }

    /// Goes on until the run has ended or was asked to stop.
    pub fn drive(&mut self) -> Result<()> {
        loop {
            if let Some(stop) = self.control.requested() {
                return self.stop(stop);
            }
            let due = self.run.next();
            if accepts(&due) && self.freeze_if_evidence_is_lost()? {
                return Ok(());
            }
            match due {
                Due::Turn(StepRef { item: Some(_), .. }) | Due::Item { .. } => items::work(self)?,
                Due::Turn(step) => turn::take(self, step)?,
                Due::Approval => self.wait_for_approval()?,
                Due::Pause { end, until } => {
                    self.record(vec![Fact::RunPaused(end)], Vec::new())?;
                    if !self.sleep_until(until) {
                        let canceled = self.control.requested() == Some(Stop::Cancel);
                        return if canceled { self.stop(Stop::Cancel) } else { Ok(()) };
                    }
                    self.record(vec![Fact::RunResumed { pid: std::process::id() }], Vec::new())?;
                }
                Due::Change { change, step } => change::judge_and_apply(self, change, step)?,
                Due::Land => landing::land(self)?,
                Due::End { status, end, budget } => {
                    let mut facts: Vec<Fact> = budget.map(Fact::BudgetExceeded).into_iter().collect();
                    facts.push(Fact::ended(status, end));
                    return self.end(facts);
                }
                Due::Nothing => return Ok(()),
            }
        }
    }

    /// Waits for a provider; false if nobody knows how long, it would be too long, or somebody asked to stop.
    fn sleep_until(&self, until: Option<Timestamp>) -> bool {
        let Some(until) = until else { return false };
        let left = || until.unix_ms().saturating_sub(store::now().unix_ms());
        if left() > LONGEST_WAIT_MS {
            return false;
        }
        while left() > 0 && self.control.requested().is_none() {
            std::thread::sleep(Duration::from_millis(left().min(LOOK_MS)));
        }
        self.control.requested().is_none()
    }

    /// Ends a run that a person said no to.
    pub fn deny(&mut self, end: End) -> Result<()> {
        self.end(vec![Fact::ended(Status::Denied, end)])
    }

    /// Evidence that is not what was recorded proves nothing: the run ends here, before anything is accepted.
    fn freeze_if_evidence_is_lost(&mut self) -> Result<bool> {
        let findings = store::lost_evidence(&self.reader, &self.run.id.slug())?;
        if findings.is_empty() {
            return Ok(false);
        }
        self.record(vec![Fact::EvidenceLost { findings: run::bounded(findings) }], Vec::new())?;
        self.world.release(&self.run)?;
        Ok(true)
    }

    /// Asks for the yes that the contract needs, and leaves the run waiting for it.
    fn wait_for_approval(&mut self) -> Result<()> {
        let wait = approval::ask(self.store, &self.run, self.run.started.contract.approval_for.clone())?;
        self.record(vec![Fact::RunWaiting(wait)], Vec::new())
    }

    fn stop(&mut self, stop: Stop) -> Result<()> {
        match stop {
            Stop::Interrupt => {
                let message = "interrupted; `norma resume` goes on from the last step".to_owned();
                self.record(vec![Fact::RunPaused(End { reason: Some(Reason::Interrupted), message })], Vec::new())
            }
            Stop::Cancel => {
                let end = End { reason: Some(Reason::Canceled), message: "canceled on request".to_owned() };
                self.end(vec![Fact::ended(Status::Canceled, end)])
            }
        }
    }

    /// The end: what the run changed is written down beside its evidence, then the end goes on record, then
    /// its bundle is completed and the directory is sealed.
    pub(crate) fn end(&mut self, facts: Vec<Fact>) -> Result<()> {
        keep_diff(&self.run_dir(), diff(self.objects, &self.run)?)?;
        self.record(facts, Vec::new())?;
        crash::point("end.after_commit");
        self.world.release(&self.run)?;
        let keys = self.world.keys();
        Ok(store::seal(self.store, &self.run.id.slug(), &|said| keys.sign(said))?)
    }

    /// Durable first, believed second, told third.
    pub(crate) fn record(&mut self, facts: Vec<Fact>, files: Vec<(String, store::StepFile)>) -> Result<()> {
        self.record_while(facts, files, |_, _| Ok(()))
    }

    /// The same, with something to do while the disk is waited for: something that has no effect by itself.
    pub(crate) fn record_while(
        &mut self,
        facts: Vec<Fact>,
        files: Vec<(String, store::StepFile)>,
        meanwhile: impl FnOnce(&mut dyn World, &Run) -> Result<()>,
    ) -> Result<()> {
        let pending = self.submit(facts, files);
        let done = meanwhile(self.world, &self.run);
        self.shared.settle(pending)?;
        done
    }

    /// Puts facts on their way to the disk. They are counted on from here, and acted on only once they are settled.
    pub(crate) fn submit(&mut self, facts: Vec<Fact>, files: Vec<(String, store::StepFile)>) -> Pending {
        let (pending, run) = self.shared.submit(self.store, |_| (facts, files));
        self.run = run;
        pending
    }

    /// The run as it is now, whoever recorded last.
    pub(crate) fn refresh(&mut self) {
        self.run = self.shared.run();
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.store.layout.run(&self.run.id.slug())
    }
}

/// Writes down what a run changed, before its end is on record.
pub(crate) fn keep_diff(run_dir: &Path, (patch, names): (Vec<u8>, Vec<u8>)) -> Result<()> {
    write_synced(&run_dir.join("patch.diff"), &patch)?;
    write_synced(&run_dir.join("diff_name_only.txt"), &names)
}

/// On disk when this returns: no commit holds these bytes, and recovery has no git to make them again.
fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create(path).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(|source| Error::io("write", path, source))
}
