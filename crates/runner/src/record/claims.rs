//! What there is to do about a run, and who is at it. Everybody who works on a run asks here; nobody is given what
//! somebody else is at. Items are worked on and judged side by side, as many at once as the run may have; everything
//! else that is due is done by one alone.

use crate::change::Judged;
use crate::record::RunState;
use crate::record::{Control, Stop};
use crate::{Error, Result};
use contract::{End, Item, RepoPath, Role, Status, StepRef, Timestamp};
use run::{Due, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use store::{Holder, PathLock, PathLocks, Taken};

/// How long a provider is waited for; a run that has to wait longer is left paused.
const LONGEST_WAIT_MS: u64 = 6 * 60 * 60 * 1000;

/// One thing to do about a run.
pub(crate) enum Job {
    /// What is due of the run as a whole.
    Whole(Due),
    /// Go on after a rest.
    Resume,
    /// Stop it, since somebody asked for that.
    Stop(Stop),
    /// End it, since a person said no.
    Deny(End),
    /// Have the agent of an item take a turn, and judge what comes of it.
    Work(u32),
    /// Have a reviewer look at what an item's agent left.
    Review(u32),
    /// Judge what an item's agent left, or why it cannot start.
    Judge(u32),
    /// Bring what was judged onto the run's line.
    Land(u32, Box<Judged>),
    /// Have the agent of a node take a turn.
    Node(u32),
    /// Put on record what follows for a graph, or ask a person something; nothing else waits for it.
    Note(Due),
    /// Have a question of a plan lapse that nobody has answered in time.
    Expire,
    /// The same of what a node has asked; the others work on meanwhile.
    Lapse,
}

impl Job {
    /// What nobody else may be at meanwhile.
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Job::Whole(_) | Job::Resume | Job::Stop(_) | Job::Deny(_) | Job::Expire => Subject::Run,
            // A person is asked when nothing else is under way.
            Job::Land(_, judged) if judged.asks => Subject::Run,
            Job::Work(place) | Job::Review(place) | Job::Judge(place) | Job::Land(place, _) => Subject::Item(*place),
            Job::Node(place) => Subject::Node(*place),
            Job::Note(_) | Job::Lapse => Subject::Notes,
        }
    }
}

/// What somebody is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The run as a whole.
    Run,
    /// One of its items.
    Item(u32),
    /// One of its nodes.
    Node(u32),
    /// What is only put on record.
    Notes,
}

/// What there is to do now.
pub(crate) enum Next {
    /// This, by whoever asked.
    Do(Job),
    /// Nothing before that time.
    At(Instant),
    /// Nothing until somebody is done, with this run or with paths that it needs.
    Wait,
    /// Nothing any more: the run has ended or is held.
    Over,
}

/// Who is at what, what was judged and waits for its turn to land, and what has to wait for its time.
#[derive(Default)]
pub(crate) struct Claims {
    taken: BTreeSet<Subject>,
    judged: BTreeMap<u32, Judged>,
    not_before: BTreeMap<u32, Instant>,
    locks: BTreeMap<Subject, PathLock>,
    resting: Option<Timestamp>,
    denied: Option<End>,
}

impl Claims {
    /// Has the run end, since a person said no.
    pub(crate) fn deny(&mut self, end: End) {
        self.denied = Some(end);
    }

    /// Keeps what passed its gates until it may land, and what somebody has to be asked about until nothing else is under
    /// way.
    pub(crate) fn keep_judged(&mut self, place: u32, judged: Judged) {
        self.judged.insert(place, judged);
    }

    /// Has an item wait before its agent is tried again.
    pub(crate) fn wait_before(&mut self, place: u32, left: Duration) {
        self.not_before.insert(place, Instant::now() + left);
    }

    /// Has a paused run continue by itself at a time, unless that is too long to wait for.
    pub(crate) fn rest_until(&mut self, until: Timestamp) {
        let left = until.unix_ms().saturating_sub(store::now().unix_ms());
        self.resting = (left <= LONGEST_WAIT_MS).then_some(until);
    }

    /// Whether nobody is at anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.taken.is_empty()
    }

    /// Whether somebody more may be at something, of a run that may have so many at once.
    fn has_room(&self, jobs: usize) -> bool {
        self.taken.len() < jobs && !self.taken.contains(&Subject::Run)
    }

    /// Whether nobody is at this.
    fn is_free(&self, due: &Due) -> bool {
        match due {
            Due::Turn(StepRef { item: Some(place), .. }) | Due::Item { item: place } => {
                !self.taken.contains(&Subject::Item(*place))
            }
            Due::Nothing => false,
            _ => true,
        }
    }

    /// Lets go of what somebody was at.
    pub(crate) fn release(&mut self, subject: Subject) {
        self.taken.remove(&subject);
        if let Subject::Item(_) | Subject::Node(_) = subject {
            self.locks.remove(&subject);
        }
    }
}

impl RunState {
    /// Whether somebody more may find something to do about the run, or a time to wait for: being woken for nothing costs
    /// them, and whoever wakes them, more than this look.
    pub(crate) fn may_have_more(&self, jobs: usize) -> bool {
        let RunState { run, claims, .. } = self;
        let has_times =
            || !claims.not_before.is_empty() || run.plan_deadline().is_some() || run.node_deadline().is_some();
        claims.has_room(jobs) && (has_times() || run.due().any(|due| claims.is_free(&due)))
    }
}

/// Who asks.
pub(crate) struct Asking<'c> {
    /// Whether the run is to stop.
    pub(crate) control: &'c Control,
    /// How many items may be worked on at once.
    pub(crate) jobs: usize,
    /// What other runs may change.
    pub(crate) locks: &'c PathLocks,
}

impl Asking<'_> {
    /// Gives out the first thing that is due and that nobody is at.
    pub(crate) fn claim(&self, state: &mut RunState) -> Result<Next> {
        let next = self.next(state)?;
        if let Next::Do(job) = &next {
            state.claims.taken.insert(job.subject());
        }
        Ok(next)
    }

    fn next(&self, state: &mut RunState) -> Result<Next> {
        let stop = self.control.requested();
        if state.claims.taken.contains(&Subject::Run) {
            return Ok(Next::Wait);
        }
        if stop.is_some() || state.has_failed() {
            let idle = state.claims.taken.is_empty();
            return Ok(if idle { last(stop.filter(|_| !state.has_failed()), &state.run) } else { Next::Wait });
        }
        if let Some(end) = state.claims.denied.take() {
            return Ok(Next::Do(Job::Deny(end)));
        }
        if let Some(until) = state.claims.resting {
            if let Some(at) = still_to_come(until) {
                return Ok(Next::At(at));
            }
            state.claims.resting = None;
            return Ok(Next::Do(Job::Resume));
        }
        self.due(state)
    }

    fn due(&self, state: &mut RunState) -> Result<Next> {
        let RunState { run, claims, .. } = state;
        let (mut earliest, mut blocked, mut asks) = (None, false, None);
        if let Some((_, deadline)) = run.plan_deadline().filter(|_| claims.taken.is_empty()) {
            match still_to_come(deadline) {
                Some(at) => earliest = Some(at),
                None => return Ok(Next::Do(Job::Expire)),
            }
        }
        let lapses = run.node_deadline().filter(|_| !claims.taken.contains(&Subject::Notes)).map(still_to_come);
        if lapses == Some(None) {
            return Ok(Next::Do(Job::Lapse));
        }
        for due in run.due() {
            let (place, turn) = match due {
                Due::Turn(StepRef { node: Some(place), .. }) => match self.node(run, claims, place)? {
                    Some(next) => return Ok(next),
                    None => continue,
                },
                due if is_note(&due) && claims.taken.contains(&Subject::Notes) => continue,
                due if is_note(&due) => return Ok(Next::Do(Job::Note(due))),
                Due::Turn(StepRef { item: Some(place), role, .. }) => (place, Some(role)),
                Due::Item { item } => (item, None),
                Due::Nothing => break,
                due => return self.whole(run, claims, due),
            };
            if claims.taken.contains(&Subject::Item(place)) {
                continue;
            }
            if claims.taken.len() >= self.jobs {
                return Ok(Next::Wait);
            }
            if turn == Some(Role::Reviewer) {
                return Ok(Next::Do(Job::Review(place)));
            }
            if claims.judged.contains_key(&place) && !run.may_land(place) {
                continue;
            }
            if claims.judged.get(&place).is_some_and(|judged| judged.asks) {
                asks = Some(place);
                continue;
            }
            if let Some(judged) = claims.judged.remove(&place) {
                return Ok(Next::Do(Job::Land(place, Box::new(judged))));
            }
            if turn.is_none() {
                return Ok(Next::Do(Job::Judge(place)));
            }
            if let Some(at) = claims.not_before.get(&place).filter(|at| **at > Instant::now()) {
                earliest = Some(earliest.map_or(*at, |sooner: Instant| sooner.min(*at)));
                continue;
            }
            let item = &run.items()[place as usize].item;
            if self.lock(run, claims, Subject::Item(place), writes(item), &item.id)? {
                claims.not_before.remove(&place);
                return Ok(Next::Do(Job::Work(place)));
            }
            blocked = true;
        }
        let idle = earliest.is_none() && !blocked && claims.taken.is_empty();
        if let Some((place, judged)) = asks.filter(|_| idle).and_then(|place| claims.judged.remove_entry(&place)) {
            return Ok(Next::Do(Job::Land(place, Box::new(judged))));
        }
        Ok(match earliest.into_iter().chain(lapses.flatten()).min() {
            Some(at) => Next::At(at),
            None if blocked || !claims.taken.is_empty() || run.stays_open() => Next::Wait,
            None => Next::Over,
        })
    }

    /// The turn of a node, unless somebody is at it or another run has what it says it changes.
    fn node(&self, run: &Run, claims: &mut Claims, place: u32) -> Result<Option<Next>> {
        if claims.taken.contains(&Subject::Node(place)) || claims.taken.len() >= self.jobs {
            return Ok(None);
        }
        // What a node of a plan changes is not kept.
        if run.intent().is_some() {
            return Ok(Some(Next::Do(Job::Node(place))));
        }
        let Some(node) = run.graph().and_then(|graph| graph.node(place).ok()) else { return Ok(None) };
        let locked = self.lock(run, claims, Subject::Node(place), &node.terms.scope, &node.terms.label)?;
        Ok(locked.then_some(Next::Do(Job::Node(place))))
    }

    /// What is due of the run as a whole, once nobody is at any of its items. The turn that proposes a change locks what
    /// it may change until that is judged.
    fn whole(&self, run: &Run, claims: &mut Claims, due: Due) -> Result<Next> {
        if !claims.taken.is_empty() {
            return Ok(Next::Wait);
        }
        match &due {
            Due::Turn(step) if step.role == Role::Act => {
                let paths = &run.started.contract.scope.allowed_paths;
                if !self.lock(run, claims, Subject::Run, paths, step.role.as_str())? {
                    return Ok(Next::Wait);
                }
            }
            Due::Change { .. } => {}
            _ => drop(claims.locks.remove(&Subject::Run)),
        }
        Ok(Next::Do(Job::Whole(due)))
    }

    /// Locks what is declared to be written; false if another run has some of it. Items of one run that declare the same
    /// paths follow each other anyway.
    fn lock(&self, run: &Run, claims: &mut Claims, of: Subject, paths: &[RepoPath], task: &str) -> Result<bool> {
        if paths.is_empty() || claims.locks.contains_key(&of) {
            return Ok(true);
        }
        let (run_id, pid) = (run.id.slug().to_string(), std::process::id());
        let owner = format!("run:{run_id}:pid:{pid}");
        let who = Holder { run_id, task: task.to_owned(), pid, owner, since: store::now() };
        match self.locks.try_take(paths, &who).map_err(Error::from)? {
            Taken::Ours(lock) => drop(claims.locks.insert(of, lock)),
            Taken::Theirs(_) => return Ok(false),
        }
        Ok(true)
    }
}

/// Whether something is only put on record, or asked.
fn is_note(due: &Due) -> bool {
    matches!(due, Due::Advance(_) | Due::AskFor(_) | Due::Stall(_) | Due::FollowUp { .. })
}

/// The last thing to do about a run that is to stop, or that cannot continue.
fn last(stop: Option<Stop>, run: &Run) -> Next {
    match (stop, run.status) {
        (Some(stop), Status::Running) => Next::Do(Job::Stop(stop)),
        (Some(Stop::Cancel), Status::Paused | Status::Waiting) => Next::Do(Job::Stop(Stop::Cancel)),
        _ => Next::Over,
    }
}

/// When a time comes; none if it has come.
fn still_to_come(at: Timestamp) -> Option<Instant> {
    let left = at.unix_ms().saturating_sub(store::now().unix_ms());
    (left > 0).then(|| Instant::now() + Duration::from_millis(left))
}

/// What an item declares to write.
fn writes(item: &Item) -> &[RepoPath] {
    if item.read_only { &[] } else { &item.scope.allowed_paths }
}
