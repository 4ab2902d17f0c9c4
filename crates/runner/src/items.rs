//! Carrying out the items of a run: as many at once as there are workers. Each hand asks what is due that nobody else is
//! at, does it, and asks again. Agents work and changes are judged side by side; changes land one after another, in
//! the order of the contract.

use crate::Result;
use crate::change::{self, Judged, OnLine, Verdict, bring_onto_line, finish, with_gates};
use crate::drive::{Control, Driver};
use crate::shared::{Pending, RunState, SharedRun};
use crate::turn;
use contract::{Fact, StepRef};
use run::Due;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{Holder, PathLock, PathLocks, Taken, crash};

/// How often somebody who waits looks again.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is at what, and what was judged and waits for its turn to land.
#[derive(Default)]
pub(crate) struct Claims {
    taken: BTreeSet<u32>,
    judged: BTreeMap<u32, Judged>,
}

/// One thing to do about one item.
enum Job {
    /// Have its agent take a turn, and judge what comes of it.
    Work(u32),
    /// Judge what its agent left, or why it cannot start.
    Judge(u32),
    /// Bring what was judged onto the run's line.
    Land(u32, Box<Judged>),
}

impl Job {
    fn place(&self) -> u32 {
        match self {
            Job::Work(place) | Job::Judge(place) | Job::Land(place, _) => *place,
        }
    }
}

/// Works on items until none is due any more, or somebody asked to stop.
pub(crate) fn work(driver: &mut Driver<'_, '_>) -> Result<()> {
    let helpers = driver.workers.map_or(0, |workers| workers.jobs.min(driver.run.items.len()).saturating_sub(1));
    let done = std::thread::scope(|scope| {
        let contexts: Vec<_> = (0..helpers).map(|_| (driver.worker_context(), driver.workers)).collect();
        let spawned: Vec<_> = contexts
            .into_iter()
            .map(|(context, workers)| {
                scope.spawn(move || {
                    let mut machine = (workers.expect("BUG: helpers come with workers").machine)();
                    Driver::at(&context, &mut machine).and_then(|mut driver| serve(&mut driver))
                })
            })
            .collect();
        let mut done = serve(driver);
        for helper in spawned {
            let theirs = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done = done.and(theirs);
        }
        done
    });
    driver.refresh();
    done
}

fn serve(driver: &mut Driver<'_, '_>) -> Result<()> {
    while let Some(job) = claim(&driver.shared, &driver.control) {
        let place = job.place();
        driver.refresh();
        let done = carry_out(driver, job);
        if done.is_err() {
            driver.shared.give_up();
        }
        driver.shared.state().claims.taken.remove(&place);
        driver.shared.notify();
        done?;
    }
    Ok(())
}

/// The first thing that is due and that nobody is at; none when there will be no more.
fn claim(shared: &SharedRun<'_>, control: &Control) -> Option<Job> {
    let mut state = shared.state();
    loop {
        if state.is_broken() || control.requested().is_some() {
            return None;
        }
        if let Some(job) = next_job(&mut state) {
            state.claims.taken.insert(job.place());
            return Some(job);
        }
        if state.claims.taken.is_empty() {
            return None;
        }
        state = shared.wait(state);
    }
}

fn next_job(state: &mut RunState) -> Option<Job> {
    let RunState { run, claims, .. } = state;
    let mut found = None;
    for due in run.due() {
        let (place, turn) = match due {
            Due::Turn(StepRef { item: Some(place), .. }) => (place, true),
            Due::Item { item } => (item, false),
            _ => return None,
        };
        if claims.taken.contains(&place) {
            continue;
        }
        match claims.judged.contains_key(&place) {
            true if run.may_land(place) => found = Some((place, None)),
            true => continue,
            false => found = Some((place, Some(turn))),
        }
        break;
    }
    Some(match found? {
        (place, Some(true)) => Job::Work(place),
        (place, Some(false)) => Job::Judge(place),
        (place, None) => Job::Land(place, Box::new(claims.judged.remove(&place)?)),
    })
}

fn carry_out(driver: &mut Driver<'_, '_>, job: Job) -> Result<()> {
    match job {
        Job::Work(place) => work_on(driver, place),
        Job::Judge(place) => judge(driver, place, None),
        Job::Land(_, judged) => land(driver, *judged),
    }
}

fn work_on(driver: &mut Driver<'_, '_>, place: u32) -> Result<()> {
    let mut judged = Judged::of_item(&driver.run, place);
    // Nothing is paid for that could not start.
    if let Some(refusal) = with_gates(driver, &mut None, |gates, _| gates.inputs(&mut judged))? {
        return finish(driver, judged.ends(refusal), None);
    }
    if !wait_before_retry(driver, place) {
        return Ok(());
    }
    let Some(_locked) = lock_paths(driver, place)? else { return Ok(()) };
    let Some((step, opened)) = open(driver, place) else { return Ok(()) };
    let sealed = turn::carry_out(driver, step, opened)?;
    crash::point("step.after_commit");
    if driver.run.items[place as usize].worked().is_some() {
        return judge(driver, place, Some(sealed));
    }
    // It is tried again, by whoever comes to it next.
    driver.shared.settle(sealed)
}

/// Judges what an item's agent left. `sealed` is the record of its turn, where that is still on its way to the disk. What
/// passed every gate lands when its turn comes; what changes nothing has nothing to wait for.
fn judge(driver: &mut Driver<'_, '_>, place: u32, mut sealed: Option<Pending>) -> Result<()> {
    let mut judged = Judged::of_item(&driver.run, place);
    match with_gates(driver, &mut sealed, |gates, tests| change::judge(gates, &mut judged, tests))? {
        Verdict::Refused(refusal) => return finish(driver, judged.ends(refusal), sealed),
        Verdict::Passed if judged.change.paths.is_empty() => return finish(driver, judged.succeeds(None), sealed),
        Verdict::Passed => drop(driver.shared.state().claims.judged.insert(place, judged)),
        Verdict::Interrupted => {}
    }
    sealed.map_or(Ok(()), |sealed| driver.shared.settle(sealed))
}

/// Brings a judged change onto the run's line.
fn land(driver: &mut Driver<'_, '_>, mut judged: Judged) -> Result<()> {
    let on_line = with_gates(driver, &mut None, |gates, tests| bring_onto_line(gates, &mut judged, tests))?;
    let ending = match on_line {
        OnLine::At(landed) => judged.succeeds(landed),
        OnLine::Refused(refusal) => judged.ends(refusal),
        OnLine::Interrupted => return Ok(()),
    };
    finish(driver, ending, None)
}

/// Puts the intent of a turn on its way. Which turn it is depends on what others have opened until this moment, and whether
/// there is one on what became of theirs: a provider that has had enough holds the whole run.
fn open(driver: &mut Driver<'_, '_>, place: u32) -> Option<(StepRef, Pending)> {
    let mut opened = None;
    let (pending, run) = driver.shared.submit_if(driver.store, |run| {
        let step = run.due().find_map(|due| match due {
            Due::Turn(step) if step.item == Some(place) => Some(step),
            _ => None,
        })?;
        opened = Some(step);
        Some((vec![Fact::StepStarted { step, base: Some(run.base_for(place)) }], Vec::new()))
    })?;
    driver.run = run;
    Some((opened?, pending))
}

/// Waits as long as the contract says before a turn that failed is taken again; false if it was asked to stop.
fn wait_before_retry(driver: &Driver<'_, '_>, place: u32) -> bool {
    let state = &driver.run.items[place as usize];
    let failed = state.turns.last().is_some_and(|turn| turn.end != contract::TurnEnd::Interrupted);
    let mut left = Duration::from_millis(if failed { state.item.retry_backoff_ms } else { 0 });
    while !left.is_zero() && driver.control.requested().is_none() {
        std::thread::sleep(left.min(PAUSE));
        left = left.saturating_sub(PAUSE);
    }
    driver.control.requested().is_none()
}

/// Locks what an item declares to write, waiting for whoever has some of it; none if it was asked to stop meanwhile.
/// Items of one run that declare the same paths follow each other anyway: this is about other runs.
fn lock_paths(driver: &Driver<'_, '_>, place: u32) -> Result<Option<Option<PathLock>>> {
    let item = &driver.run.items[place as usize].item;
    if item.read_only || item.scope.allowed_paths.is_empty() {
        return Ok(Some(None));
    }
    let run_id = driver.run.id.slug().to_string();
    let pid = std::process::id();
    let owner = format!("run:{run_id}:pid:{pid}");
    let who = Holder { run_id, task: item.id.clone(), pid, owner, since: store::now() };
    let locks = PathLocks::open(&driver.store.layout)?;
    while driver.control.requested().is_none() {
        match locks.try_take(&item.scope.allowed_paths, &who)? {
            Taken::Ours(lock) => return Ok(Some(Some(lock))),
            Taken::Theirs(_) => std::thread::sleep(PAUSE),
        }
    }
    Ok(None)
}
