//! Doing what is due: one thing about a run is done and recorded, and then it is asked again what is due. Nobody acts on
//! a fact, and nobody is told of it (progress), before it is durable. Who asks is the host, for all its runs
//! ([`crate::host::workers`]), or somebody who carries out a run alone.

use crate::claims::{Asking, Job, Next};
use crate::git::Objects;
use crate::host::approval;
use crate::machine::diff;
use crate::shared::{Pending, SharedRun};
use crate::world::World;
use crate::{Error, Result, change, items, landing, turn};
use contract::{End, Event, Fact, Policies, Reason, SessionEvent, Status, StepRef};
use run::{Due, Run};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{PathLocks, Reader, RunLog, Store, crash};

/// How often somebody who carries out a run alone looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

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
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
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
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Told of everything that is on record, in order.
pub trait Progress: Send {
    /// These events are durable, and this is the run with them.
    fn recorded(&mut self, run: &Arc<Run>, events: &[Event]);
    /// An agent is in the middle of something; this is on no record.
    fn delta(&mut self, _step: StepRef, _event: &SessionEvent) {}
}

impl<P: Progress + ?Sized> Progress for &mut P {
    fn recorded(&mut self, run: &Arc<Run>, events: &[Event]) {
        (**self).recorded(run, events);
    }

    fn delta(&mut self, step: StepRef, event: &SessionEvent) {
        (**self).delta(step, event);
    }
}

/// Whether doing this would accept the run's result.
fn accepts(due: &Due) -> bool {
    matches!(due, Due::Land | Due::End { status: Status::Succeeded, .. })
}

/// Whoever does one thing about a run, and what that takes.
pub(crate) struct Driver<'w, 'a> {
    /// The record.
    pub(crate) store: &'w Store,
    /// norma's own objects.
    pub(crate) objects: &'w Objects,
    /// Reads what was recorded before.
    pub(crate) reader: &'w Reader,
    /// The run, as it was after what this one recorded last.
    pub(crate) run: Run,
    /// The run as all who work on it know it.
    pub(crate) shared: Arc<SharedRun<'a>>,
    /// Agents and git.
    pub(crate) world: &'w mut dyn World,
    /// Who may stop it.
    pub(crate) control: Control,
    /// What its changes are judged by; those that its contract names.
    pub(crate) policies: &'w Policies,
    /// Held while a result is brought to the user's branch: results land one after another.
    pub(crate) lane: &'w Mutex<()>,
    /// Who has said yes to whatever the contract needs a yes for, by typing it.
    pub(crate) consent: Option<&'w str>,
}

impl Driver<'_, '_> {
    /// Does one thing.
    pub(crate) fn carry_out(&mut self, job: Job) -> Result<()> {
        match job {
            Job::Whole(due) => self.do_due(due),
            Job::Resume => self.record(vec![Fact::RunResumed { pid: std::process::id() }], Vec::new()),
            Job::Stop(stop) => self.stop(stop),
            Job::Deny(end) => self.end(vec![Fact::ended(Status::Denied, end)]),
            Job::Work(place) => items::work_on(self, place),
            Job::Judge(place) => items::judge(self, place, None),
            Job::Land(_, judged) => items::land(self, *judged),
        }
    }

    fn do_due(&mut self, due: Due) -> Result<()> {
        if accepts(&due) && self.freeze_if_evidence_is_lost()? {
            return Ok(());
        }
        match due {
            Due::Turn(step) => turn::take(self, step),
            Due::Approval => self.wait_for_approval(),
            Due::Ask(wait) => self.record(vec![Fact::Asked(wait)], Vec::new()),
            Due::Pause { end, until } => {
                self.record(vec![Fact::RunPaused(end)], Vec::new())?;
                until.into_iter().for_each(|until| self.shared.state().claims.rest_until(until));
                Ok(())
            }
            Due::Change { change, step } => change::judge_and_apply(self, change, step),
            Due::Land => {
                let lane = self.lane;
                let _alone = lane.lock().unwrap_or_else(PoisonError::into_inner);
                landing::land(self)
            }
            Due::End { status, end, budget } => {
                let mut facts: Vec<Fact> = budget.map(Fact::BudgetExceeded).into_iter().collect();
                facts.push(Fact::ended(status, end));
                self.end(facts)
            }
            Due::Item { .. } | Due::Nothing => Ok(()),
        }
    }

    /// Evidence that is not what was recorded proves nothing: the run ends here, before anything is accepted.
    fn freeze_if_evidence_is_lost(&mut self) -> Result<bool> {
        let findings = store::lost_evidence(self.reader, &self.run.id.slug())?;
        if findings.is_empty() {
            return Ok(false);
        }
        self.record(vec![Fact::EvidenceLost { findings: run::bounded(findings) }], Vec::new())?;
        self.world.release(&self.run)?;
        Ok(true)
    }

    /// Asks for the yes that the contract needs, and leaves the run waiting for it. Whoever typed what may change has
    /// said yes to it by that; it goes on record as any other yes.
    fn wait_for_approval(&mut self) -> Result<()> {
        let wait = approval::ask(self.store, &self.run, self.run.started.contract.approval_for.clone())?;
        let approval = wait.approval;
        self.record(vec![Fact::RunWaiting(wait)], Vec::new())?;
        let Some(by) = self.consent.map(str::to_owned) else { return Ok(()) };
        approval::grant_typed(self.store, approval, by.clone())?;
        let used = Fact::ApprovalUsed { approval, by };
        self.record(vec![Fact::RunResumed { pid: std::process::id() }, used], Vec::new())
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

/// A run that is carried out on one thread, with nobody else around: by recovery, in a simulation, to be measured.
pub struct Alone<'w, 'a> {
    /// The record.
    pub store: &'w Store,
    /// norma's own objects.
    pub objects: &'w Objects,
    /// Agents and git.
    pub world: &'w mut dyn World,
    /// Who is told.
    pub progress: Box<dyn Progress + 'a>,
    /// Who may stop it.
    pub control: Control,
    /// What its changes are judged by.
    pub policies: &'w Policies,
}

impl<'w, 'a> Alone<'w, 'a> {
    /// Goes on from the end of its log until the run has ended or is held.
    pub fn drive(self, run: Run, log: RunLog) -> Result<()> {
        let Alone { store, objects, world, progress, control, policies } = self;
        let (reader, locks) = (&Reader::open(&store.layout)?, &PathLocks::open(&store.layout)?);
        let shared = Arc::new(SharedRun::new(run, log, progress, Box::new(|| ())));
        let (run, lane, consent) = (shared.run(), &Mutex::default(), None);
        let mut driver = Driver { store, objects, reader, run, shared, world, control, policies, lane, consent };
        loop {
            let control = driver.control.clone();
            let next = Asking { control: &control, jobs: 1, locks }.claim(&mut driver.shared.state())?;
            let job = match next {
                Next::Do(job) => job,
                Next::At(time) => {
                    std::thread::sleep(time.saturating_duration_since(Instant::now()).min(LOOK));
                    continue;
                }
                Next::Wait => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                Next::Over => return Ok(()),
            };
            let subject = job.subject();
            driver.refresh();
            driver.carry_out(job)?;
            driver.shared.state().claims.release(subject);
        }
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
