//! Doing what is due: one thing about a run is done and recorded, and then it is asked again what is due. Nobody acts on
//! a fact, and nobody is told of it (progress), before it is durable. Who asks is the host, for all its runs
//! ([`crate::host::workers`]), or somebody who carries out a run alone.

pub(crate) mod conflict;
mod finish;
mod intent;
mod items;
mod judging;
mod nodes;
mod patch;
pub(crate) mod pipeline;

use crate::git::Objects;
use crate::record::claims::{Asking, Job, Next};
use crate::record::{Control, Driver, Progress, SharedRun, Stop, approval};
use crate::world::World;
use crate::{Result, landing, turn};
use contract::{End, Fact, Policies, Reason, Status};
use run::{Due, Run};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{PathLocks, Reader, RunLog, Store};

/// How often somebody who carries out a run alone looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Whether doing this would accept the run's result.
fn accepts(due: &Due) -> bool {
    matches!(due, Due::Land | Due::End { status: Status::Succeeded, .. })
}

impl Driver<'_, '_> {
    /// Does one thing.
    pub(crate) fn carry_out(&mut self, job: Job) -> Result<()> {
        // These begin by putting an intent on record, and what was held before with it. All others may read what is on
        // record, or take long before they add to it.
        if !matches!(job, Job::Work(_) | Job::Review(_) | Job::Node(_) | Job::Whole(Due::Turn(_) | Due::Change { .. }))
        {
            self.shared.settle_held()?;
        }
        match job {
            Job::Whole(due) => self.do_due(due),
            Job::Resume => self.record(vec![Fact::RunResumed { pid: std::process::id() }], Vec::new()),
            Job::Stop(stop) => self.stop(stop),
            Job::Deny(end) => self.end(vec![Fact::ended(Status::Denied, end)]),
            Job::Work(place) => items::work_on(self, place),
            Job::Review(place) => items::review(self, place),
            Job::Judge(place) => items::judge(self, place, None),
            Job::Land(_, judged) => items::land(self, *judged),
            Job::Node(place) if self.run.intent().is_some() => intent::take_turn(self, place),
            Job::Node(place) => nodes::take_turn(self, place),
            Job::Note(Due::FollowUp { item }) => pipeline::follow_up(self, item),
            Job::Note(due) => nodes::note(self, due),
            Job::Expire => intent::expire(self),
            Job::Lapse => nodes::lapse(self),
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
            Due::Plan => intent::plan(self),
            Due::Questions(waits) => intent::ask(self, waits),
            Due::Pause { end, until } => {
                self.record(vec![Fact::RunPaused(end)], Vec::new())?;
                until.into_iter().for_each(|until| self.shared.state().claims.rest_until(until));
                Ok(())
            }
            Due::Change { change, step } => patch::judge_and_apply(self, change, step),
            Due::Land => {
                let lane = self.lane;
                let _alone = lane.lock().unwrap_or_else(PoisonError::into_inner);
                landing::land(self, conflict::hand_back)
            }
            Due::End { status, end, budget } => {
                let mut facts: Vec<Fact> = budget.map(Fact::BudgetExceeded).into_iter().collect();
                facts.push(Fact::ended(status, end));
                self.end(facts)
            }
            Due::Advance(_) | Due::AskFor(_) | Due::Stall(_) => nodes::note(self, due),
            Due::FollowUp { item } => pipeline::follow_up(self, item),
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
    /// approved it by that; it goes on record as any other approval.
    fn wait_for_approval(&mut self) -> Result<()> {
        let wait = approval::ask(self.store, &self.run, self.run.started.contract.approval_for.clone())?;
        let approval = wait.approval;
        self.record(vec![Fact::RunWaiting(wait)], Vec::new())?;
        let Some(by) = self.consent.map(str::to_owned) else { return Ok(()) };
        approval::grant_typed(self.store, approval, by.clone())?;
        let used = Fact::ApprovalUsed { approval, by };
        self.record(vec![Fact::RunResumed { pid: std::process::id() }, used], Vec::new())
    }

    /// Asks about what a change makes of its tests, and leaves the run waiting. Nobody has approved that before.
    fn wait_for_approval_of_change(&mut self, reasons: Vec<String>) -> Result<()> {
        let wait = approval::ask(self.store, &self.run, reasons)?;
        self.record(vec![Fact::RunWaiting(wait)], Vec::new())
    }

    fn stop(&mut self, stop: Stop) -> Result<()> {
        match stop {
            Stop::Interrupt | Stop::Shutdown => {
                let message = match stop {
                    Stop::Shutdown => store::SERVER_ENDED.to_owned(),
                    _ => "interrupted; `norma resume` continues from the last step".to_owned(),
                };
                let stalled = self.run.graph().and_then(run::workflow::graph::stall_message);
                let (reason, message) = stalled.unwrap_or((Reason::Interrupted, message));
                self.record(vec![Fact::RunPaused(End { reason: Some(reason), message })], Vec::new())
            }
            Stop::Cancel => {
                let end = End { reason: Some(Reason::Canceled), message: "canceled on request".to_owned() };
                self.end(vec![Fact::ended(Status::Canceled, end)])
            }
        }
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
        let (run, lane, consent, left) = (shared.run(), &Mutex::default(), None, None);
        let let_go = &|| ();
        let mut driver =
            Driver { store, objects, reader, run, shared, world, control, policies, lane, left, consent, let_go };
        loop {
            let control = driver.control.clone();
            let next = Asking { control: &control, jobs: 1, locks }.claim(&mut driver.shared.state())?;
            let job = match next {
                Next::Do(job) => job,
                Next::At(time) => {
                    driver.shared.settle_held()?;
                    std::thread::sleep(time.saturating_duration_since(Instant::now()).min(LOOK));
                    continue;
                }
                Next::Wait => {
                    driver.shared.settle_held()?;
                    std::thread::sleep(LOOK);
                    continue;
                }
                Next::Over => return driver.shared.settle_held(),
            };
            let subject = job.subject();
            driver.refresh();
            driver.carry_out(job)?;
            driver.shared.state().claims.release(subject);
        }
    }
}
