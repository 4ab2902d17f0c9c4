//! The owner of a state directory: it holds the lock, has recovered what was left, and takes requests from
//! other terminals over `norma.sock` while it works. Every verb that changes something goes through it.

use crate::drive::keep_diff;
use crate::drive::{Control, Driver, Progress, Stop};
use crate::git::{Objects, Repository};
use crate::host::checkpoint::{self, Compared, Keeper};
use crate::host::socket::{self, Listener};
use crate::host::start::take_up;
use crate::machine::{Machine, diff};
use crate::process::MARKER;
use crate::process::Supervisor;
use crate::{Answer, Error, Keys, Request, Result, Trust, landing, workspace};
use contract::{ApprovalDecision, AuditHead, Policies, Status};
use sandbox::Sandbox;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Layout, OwnerLock, Reader, Recovery, Store};

/// How many layers of workspaces a clean-up leaves, besides those that these stand on: the next tree is made from one of
/// the trees used last.
const LAYERS_KEPT: usize = 4;

/// What a process knows of its surroundings; only the command line reads the environment.
pub struct Context {
    /// Where things are.
    pub layout: Layout,
    /// The user's repository.
    pub user: Repository,
    /// What is kept outside the repository.
    pub trust: Trust,
    /// The clean environment agents start from.
    pub agent_env: BTreeMap<OsString, OsString>,
    /// The user's own environment, from which keys of providers are taken, and nothing else.
    pub user_env: BTreeMap<OsString, OsString>,
    /// What models are told, as far as the user wrote it.
    pub templates: run::prompt::Templates,
    /// How norma becomes the supervisor of an agent.
    pub supervisor: Supervisor,
    /// What confines agents.
    pub sandbox: Sandbox,
    /// Is told what takes its time before an agent can start.
    pub told: Box<dyn Fn(News<'_>) + Send + Sync>,
    /// What was typed, for whoever waits.
    pub command: String,
}

/// What takes its time before an agent can start.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// The first workspace of a repository, which takes as long as the repository is large.
    Checkout(workspace::Progress),
    /// The configured setup, with its program and arguments.
    Setup(&'a [String]),
}

/// What came of asking for the lock.
pub enum Taken {
    /// It is ours.
    Ours(Box<Owner>),
    /// Somebody else has it.
    Theirs(Option<store::Owner>),
}

/// What the listener and the owner share.
struct Shared {
    store: Store,
    user: Repository,
    objects: Objects,
    keys: Keys,
    /// Held while a request changes a run or moves a ref: each of these counts on what it has read, and clients are
    /// served side by side.
    changing: Mutex<()>,
    /// The run that is being driven, and how to stop it.
    current: Mutex<Option<(String, Control)>>,
}

/// See the module.
pub struct Owner {
    shared: Arc<Shared>,
    /// What was found and done on taking the lock.
    pub recovery: Recovery,
    listener: Option<Listener>,
    checkpoints: Option<Keeper>,
    // Dropped last: the lock is given back when everything else is closed.
    _lock: OwnerLock,
}

impl Owner {
    /// Takes the lock if it is free, recovers, and starts to listen.
    pub fn take(context: &Context) -> Result<Taken> {
        let layout = &context.layout;
        layout.create()?;
        let me = store::Owner { pid: std::process::id(), command: context.command.clone(), since: store::now() };
        let Some(lock) = OwnerLock::try_take(layout, &me)? else {
            return Ok(Taken::Theirs(store::owner_of(layout)));
        };
        let store = Store::open(layout)?;
        let keys = context.trust.keys()?;
        let anew = require_own_history(&store, context, &keys)?;
        let objects = Objects::open_or_create(&layout.git(), &context.user)?;
        let killed = kill_leftovers(layout)?;
        let mut recovery = store::recover(&store, &|said| keys.sign(said))?;
        recovery.notes.extend(anew.into_iter().chain(killed));
        if store.journal != store::JournalMode::Wal {
            let note = "the file system cannot do WAL; norma.db uses a rollback journal, which is slower";
            recovery.notes.push(note.into());
        }
        let (user, changing, current) = (context.user.clone(), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { store, user, objects, keys, changing, current });
        recovery.notes.extend(finish_landings(&shared, context)?);
        clear_worktrees(&shared)?;
        workspace::clear_leftovers(&layout.cache());
        drop_bases(&shared, false)?;
        let checkpoints = Some(keep_checkpoints(&shared, &context.trust)?);
        let serving = shared.clone();
        let listener = Some(socket::listen(layout, Arc::new(move |request| handle(&serving, request)))?);
        Ok(Taken::Ours(Box::new(Owner { shared, recovery, listener, checkpoints, _lock: lock })))
    }

    /// Puts on record that a person goes on with a state directory that was rolled back. Nothing else is done to it.
    pub fn accept_rollback(context: &Context, reason: String, by: String) -> Result<AuditHead> {
        let Context { layout, trust, .. } = context;
        let me = store::Owner { pid: std::process::id(), command: context.command.clone(), since: store::now() };
        let Some(_lock) = OwnerLock::try_take(layout, &me)? else {
            return Err(Error::environment(
                "another norma is at work here",
                "wait for it; see who it is: norma doctor",
            ));
        };
        let store = Store::open(layout)?;
        let Compared::RolledBack(rollback) = checkpoint::compare(&store, trust)? else {
            return Err(Error::declined(
                "the state directory is the one that norma left, so there is nothing to accept",
                "look at a run: norma verify RUN",
            ));
        };
        let heads = (rollback.expected, rollback.found);
        checkpoint::accept(&store, trust, &trust.keys()?, heads, (reason, by))
    }

    /// The record.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// norma's own objects.
    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    /// The key that what is found here is signed with.
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// Makes a run the one that `cancel` can stop.
    pub fn set_current(&self, current: Option<(String, Control)>) {
        *self.shared.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// Carries out a request, as the listener would; what takes tests, only here: whoever listens must not be kept from
    /// listening.
    pub fn handle(&self, context: &Context, request: Request) -> Answer {
        match request {
            Request::Land { run } => {
                land(&self.shared, Some(context), &run).unwrap_or_else(|error| Answer::from(&error))
            }
            request => handle(&self.shared, request),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // First who could still add to the record, then what keeps where it ends.
        drop(self.listener.take());
        drop(self.checkpoints.take());
    }
}

/// Refuses a state directory that was rolled back. One that was made anew where an earlier one was says so in its first
/// lines; answers a note about that.
fn require_own_history(store: &Store, context: &Context, keys: &Keys) -> Result<Option<String>> {
    let expected = match checkpoint::compare(store, &context.trust)? {
        Compared::Same => return Ok(None),
        Compared::RolledBack(rollback) => return Err(rollback.into()),
        Compared::Anew(expected) => expected,
    };
    let (seq, hash) = store.audit_head()?;
    let heads = (Some(expected), AuditHead { seq, hash });
    let said = ("the state directory was made anew".to_owned(), context.command.clone());
    checkpoint::accept(store, &context.trust, keys, heads, said)?;
    Ok(Some(format!(
        "there was a state directory here before, with {} lines in its audit log; it is gone",
        expected.seq
    )))
}

fn keep_checkpoints(shared: &Arc<Shared>, trust: &Trust) -> Result<Keeper> {
    let (keeping, elsewhere) = (shared.clone(), trust.clone());
    Keeper::start(&shared.store, trust, move |head| {
        // Losing a checkpoint weakens a later `verify`; it must not fail what was done.
        let _ = elsewhere.keep_checkpoint(head, &keeping.keys);
    })
}

/// Before anything is read or removed, nobody writes there any more. A run that is still running on record is one
/// whose process died; the record changes only after this, so a crash in between has it done again.
fn kill_leftovers(layout: &Layout) -> Result<Vec<String>> {
    let reader = Reader::open(layout)?;
    let mut notes = Vec::new();
    for slug in reader.unsealed()? {
        // Of a run whose rows cannot be read nobody knows; looking for what is not there does no harm.
        let status = reader.run(&slug).map(|run| run.map(|run| run.status));
        if status.is_err() || matches!(status, Ok(Some(Status::Running))) {
            let killed = crate::process::leftovers::kill(MARKER, &slug).unwrap_or(0);
            notes.extend((killed > 0).then(|| format!("{slug}: {killed} left-over process(es) were killed")));
        }
    }
    Ok(notes)
}

/// A landing whose ref had already moved when its process died is completed; no agent is asked for that. The
/// others wait for `resume`.
fn finish_landings(shared: &Shared, context: &Context) -> Result<Vec<String>> {
    let reader = Reader::open(&shared.store.layout)?;
    let mut notes = Vec::new();
    for (run, log) in reader.open_runs()? {
        let slug = run.id.slug();
        let run::Stage::LandingOpen(open) = run.stage.clone() else { continue };
        let moved = shared.user.read_ref(&open.target)? == Some(crate::git::id(open.commit));
        if !moved || run.status != Status::Paused || run.started.contract.unknown_rules().is_some() {
            continue;
        }
        let control = Control::new()?;
        let cancel = control.cancel.clone();
        let mut machine = Machine::new(context, &shared.objects, &shared.keys, cancel);
        let (run, log) = take_up(&shared.store, run, log)?;
        // Everything was judged before the landing began; no policy is asked any more.
        let policies = Policies::built_in();
        Driver::new(&shared.store, &shared.objects, run, log, &mut machine, &mut Untold, control, &policies)?
            .drive()?;
        notes.push(format!("{slug}: its landing on {} had moved the branch already and was completed", open.target));
    }
    Ok(notes)
}

/// Nobody watches.
struct Untold;

impl Progress for Untold {
    fn recorded(&mut self, _: &run::Run, _: &[contract::Event]) {}
}

/// Checkouts of runs that are not being driven by anybody: the lock is ours, so nobody works in them.
fn clear_worktrees(shared: &Shared) -> Result<()> {
    let dir = shared.store.layout.state.join("worktrees");
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        store::remove_tree(&entry.path())?;
    }
    Ok(())
}

fn handle(shared: &Shared, request: Request) -> Answer {
    carry_out(shared, request).unwrap_or_else(|error| Answer::from(&error))
}

/// Waits for every other request that changes a run or moves a ref.
fn alone(shared: &Shared) -> MutexGuard<'_, ()> {
    shared.changing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lands a run on demand. Without a context there is nothing to run tests with.
fn land(shared: &Shared, context: Option<&Context>, run: &str) -> Result<Answer> {
    let _alone = alone(shared);
    let control = Control::new()?;
    let mut machine =
        context.map(|context| Machine::new(context, &shared.objects, &shared.keys, control.cancel.clone()));
    let later = landing::Later { store: &shared.store, user: &shared.user, objects: &shared.objects };
    let landing = later.land(run, machine.as_mut())?;
    let message = format!("landed on {}; undo: norma undo {run}", landing::short_ref(&landing.target));
    Ok(Answer::Done { message, value: value(&landing) })
}

fn carry_out(shared: &Shared, request: Request) -> Result<Answer> {
    let done = |message: String, value: serde_json::Value| Ok(Answer::Done { message, value });
    match request {
        Request::TaskAdd { goal, criteria } => {
            let task = shared.store.add_task(goal, criteria).wait()?;
            done(format!("task {task} added"), task.into())
        }
        Request::TaskLink { task, depends_on } => {
            let shown: Vec<String> = depends_on.iter().map(ToString::to_string).collect();
            shared.store.link_task(task, depends_on).wait()?;
            done(format!("task {task} waits for {}", shown.join(", ")), task.into())
        }
        Request::TaskDone { task } => {
            shared.store.finish_task(task).wait()?;
            done(format!("task {task} is done"), task.into())
        }
        Request::Cancel { run } => cancel(shared, &run),
        Request::Land { run } => land(shared, None, &run),
        Request::Undo { run } => {
            let _alone = alone(shared);
            let back = landing::undo(&shared.store, &shared.user, &shared.objects, &run)?;
            let branch = landing::short_ref(&back.target);
            let message = match back.commit {
                None => format!("{branch} is gone again"),
                Some(commit) => format!("{branch} is back at {commit}"),
            };
            done(message, value(&back))
        }
        Request::KeepReplay { run, mode, status, at, report } => {
            let mut bytes = serde_json::to_vec_pretty(&report).expect("BUG: a report is plain data");
            bytes.push(b'\n');
            let path = shared.store.keep_replay(&run, mode, status, at, &bytes)?;
            let shown = shared.store.layout.shown(&path);
            done(format!("the report is in {shown}"), shown.into())
        }
        Request::ContractRefused { sha256, kind, violations } => {
            shared.store.audit(contract::Audit::contract_refused(sha256, kind, violations)).wait()?;
            done("the refusal is on record".to_owned(), sha256.to_string().into())
        }
        Request::Answer { approval, decision, by, reason, terms } => {
            let answered = shared.store.answer_approval(approval, decision, by, reason, terms).wait()?;
            let is_running = wake_turns(shared, &answered.run_id);
            let next = match decision {
                ApprovalDecision::Granted if is_running => {
                    format!("granted; run {} goes on", answered.run_id)
                }
                ApprovalDecision::Granted => format!("granted; go on: norma resume {}", answered.run_id),
                ApprovalDecision::Denied => format!("denied; run {} does not go on with it", answered.run_id),
            };
            done(next, serde_json::to_value(answered).expect("BUG: an approval is plain data"))
        }
        Request::Reindex => {
            let store::Reindexed { runs, damaged } = store::reindex(&shared.store)?;
            let left = match damaged.is_empty() {
                true => String::new(),
                false => format!("; damaged, so left as they were: {}", damaged.join(", ")),
            };
            done(format!("the index was rebuilt from the logs of {runs} run(s){left}"), runs.into())
        }
        Request::Gc => gc(shared),
        Request::Quarantine { run, reason, by } => quarantine(shared, run, reason, by),
    }
}

fn value(landing: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(landing).expect("BUG: a landing is plain data")
}

fn cancel(shared: &Shared, slug: &str) -> Result<Answer> {
    let done = |message: &str| Ok(Answer::Done { message: message.to_owned(), value: slug.into() });
    if let Some((current, control)) = &*shared.current.lock().unwrap_or_else(PoisonError::into_inner)
        && current == slug
    {
        control.request(Stop::Cancel);
        return done("the run is asked to end; its turn is being stopped");
    }
    let _alone = alone(shared);
    let (run, mut log) = Reader::open(&shared.store.layout)?.load(slug)?;
    if run.status.is_terminal() {
        return Err(Error::declined(
            format!("run {slug} is {} already", run.status),
            format!("look at it: norma show {slug}"),
        ));
    }
    keep_diff(&shared.store.layout.run(slug), diff(&shared.objects, &run)?)?;
    let end = contract::End { reason: Some(contract::Reason::Canceled), message: "canceled on request".into() };
    shared.store.append(&mut log, vec![contract::Fact::RunCanceled(end)], Vec::new())?;
    store::seal(&shared.store, slug, &|said| shared.keys.sign(said))?;
    done("canceled")
}

/// Sets a damaged run aside. Whatever is not damaged has other ends.
fn quarantine(shared: &Shared, slug: String, reason: String, by: String) -> Result<Answer> {
    let _alone = alone(shared);
    let reader = Reader::open(&shared.store.layout)?;
    let done = |message: String, aside: &store::Quarantine| {
        let value = serde_json::to_value(aside).expect("BUG: a quarantine is plain data");
        Ok(Answer::Done { message, value })
    };
    if let Some(aside) = reader.quarantined_runs()?.into_iter().find(|aside| aside.run_id == slug) {
        return done(format!("run {slug} was set aside already, by {}: {}", aside.by, aside.reason), &aside);
    }
    let missing = reader.missing_runs()?.into_iter().find(|missing| missing.run_id == slug);
    let Some(damage) = reader.damage(&slug)?.or(missing) else {
        return Err(Error::declined(
            format!("the log of run {slug} is not damaged, so it is not set aside"),
            format!("end it: norma cancel {slug}; look for changed evidence: norma verify {slug}"),
        ));
    };
    let aside = shared.store.quarantine_run(damage, reason, by)?;
    let moved = if aside.to.is_some() { "; its directory is in quarantine/" } else { "" };
    done(format!("run {slug} is set aside{moved}; its lines stay in the log"), &aside)
}

/// Lets go of the bases of runs that have ended, and of those that never came to be: a process may have died
/// between keeping a base and the first fact, or between the last fact and letting go. A stopped run keeps its
/// base, so that it can be gone on from; `gone_on_from` lets go of those that were.
fn drop_bases(shared: &Shared, gone_on_from: bool) -> Result<u64> {
    let reader = Reader::open(&shared.store.layout)?;
    let mut removed = 0;
    for (name, at) in shared.user.refs_below(crate::machine::BASES)? {
        let slug = name.split('/').nth(2).unwrap_or_default();
        let keep = match reader.run(slug).map(|run| run.map(|run| run.status)) {
            Ok(Some(Status::Running | Status::Paused | Status::Waiting)) => true,
            Ok(Some(Status::Stopped)) => !(gone_on_from && reader.has_child(slug)?),
            Ok(_) => false,
            // Nobody knows whether it has ended.
            Err(store::Error::Damaged { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        if !keep && name == crate::machine::base_ref(slug) {
            let _ = shared.user.swap_ref(&name, None, Some(at), "norma: run ended")?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Has the turns of a run look for their answers, if this process works on it at this moment; whether it does.
fn wake_turns(shared: &Shared, slug: &str) -> bool {
    let current = shared.current.lock().unwrap_or_else(PoisonError::into_inner);
    let control = current.as_ref().filter(|(running, _)| running == slug).map(|(_, control)| control);
    control.inspect(|control| control.wake_turns()).is_some()
}

/// Removes what nobody needs any more of what is kept alive in the user's repository, and of what workspaces are made
/// of. Events and evidence are never deleted.
fn gc(shared: &Shared) -> Result<Answer> {
    let refs = drop_bases(shared, true)?;
    let mut message = format!("{refs} ref(s) of ended runs removed");
    let cache = shared.store.layout.cache();
    if cache.is_dir() {
        // What history and which names count does not matter to who only removes.
        let layers = workspace::Workspaces::new(&cache, contract::History::default(), |_| false)?.gc(LAYERS_KEPT)?;
        let setups = workspace::SetupLayers::open(&cache)?.gc(workspace::SETUPS_KEPT)?;
        let (count, mib) = (layers.layers + setups.layers, (layers.bytes + setups.bytes) >> 20);
        if count > 0 {
            message.push_str(&format!("; {count} layer(s) of workspaces removed, {mib} MiB"));
        }
        if layers.busy || setups.busy {
            message.push_str("; one is being made, so not all were looked at");
        }
    }
    Ok(Answer::Done { message, value: refs.into() })
}
