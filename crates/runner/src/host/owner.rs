//! The owner of a state directory: it holds the lock, has recovered what was left, and keeps a signed checkpoint. What it
//! does for whoever asks is the host's ([`crate::host::Host`]).

use crate::context::Context;
use crate::context::state_dir::StateDir;
use crate::drive::Alone;
use crate::git::Objects;
use crate::host::checkpoint::{self, Compared, Keeper};
use crate::host::start::take_up;
use crate::machine::Machine;
use crate::process::MARKER;
use crate::record::{Control, Progress};
use crate::{Error, Keys, Result, Trust, workspace};
use contract::{AuditHead, Policies, Status};
use std::sync::Arc;
use store::{Layout, OwnerLock, Reader, Recovery, Store};

/// What came of asking for the lock.
pub enum Taken {
    /// It is ours.
    Ours(Box<Owner>),
    /// Somebody else has it.
    Theirs(Option<store::Owner>),
}

/// The process that holds the lock of a state directory.
pub struct Owner {
    state: Arc<StateDir>,
    /// What was found and done on taking the lock.
    pub recovery: Recovery,
    checkpoints: Option<Keeper>,
    // Dropped last: the lock is given back when everything else is closed.
    _lock: OwnerLock,
}

impl Owner {
    /// Takes the lock if it is free, recovers, and starts to listen.
    pub fn take(context: &Arc<Context>) -> Result<Taken> {
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
        let (objects, keys) = (Arc::new(objects), Arc::new(keys));
        let state = Arc::new(StateDir::new(store, context.user.clone(), objects, keys));
        recovery.notes.extend(finish_landings(&state, context)?);
        clear_worktrees(&state)?;
        workspace::clear_leftovers(&layout.cache());
        drop_bases(&state, false)?;
        let checkpoints = Some(keep_checkpoints(&state, &context.trust)?);
        Ok(Taken::Ours(Box::new(Owner { state, recovery, checkpoints, _lock: lock })))
    }

    /// Puts on record that a person continues a state directory that was rolled back. Nothing else is done to it.
    pub fn accept_rollback(context: &Context, reason: String, by: String) -> Result<AuditHead> {
        let Context { layout, trust, .. } = context;
        let me = store::Owner { pid: std::process::id(), command: context.command.clone(), since: store::now() };
        let Some(_lock) = OwnerLock::try_take(layout, &me)? else {
            return Err(Error::environment(
                "another norma is running here",
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

    /// What is owned.
    pub fn state(&self) -> &Arc<StateDir> {
        &self.state
    }

    /// The record.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// norma's own objects.
    pub fn objects(&self) -> &Objects {
        &self.state.objects
    }

    /// The key that what is found here is signed with.
    pub fn keys(&self) -> &Keys {
        &self.state.keys
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // What keeps where the record ends goes before the lock does.
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
    let said = ("the state directory was created again".to_owned(), context.command.clone());
    checkpoint::accept(store, &context.trust, keys, heads, said)?;
    Ok(Some(format!(
        "there was a state directory here before, with {} lines in its audit log; it is gone",
        expected.seq
    )))
}

fn keep_checkpoints(shared: &Arc<StateDir>, trust: &Trust) -> Result<Keeper> {
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
fn finish_landings(shared: &StateDir, context: &Arc<Context>) -> Result<Vec<String>> {
    let reader = Reader::open(&shared.store.layout)?;
    let mut notes = Vec::new();
    for slug in reader.landing()? {
        let (run, log) = match reader.load(&slug) {
            Ok(loaded) => loaded,
            Err(store::Error::Damaged { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let Some(open) = run.landing().cloned() else { continue };
        let moved = shared.user.read_ref(&open.target)? == Some(crate::git::id(open.commit));
        if !moved || run.status != Status::Paused || run.started.contract.unknown_rules().is_some() {
            continue;
        }
        let control = Control::new()?;
        let cancel = control.cancel.clone();
        let mut machine = Machine::new(context.clone(), shared, cancel);
        let (run, log) = take_up(&shared.store, run, log)?;
        // Everything was judged before the landing began; no policy is asked any more.
        let policies = Policies::built_in();
        let (store, objects, world, progress) = (&shared.store, &shared.objects, &mut machine, Box::new(Untold));
        Alone { store, objects, world, progress, control, policies: &policies }.drive(run, log)?;
        notes.push(format!("{slug}: its landing on {} had moved the branch already and was completed", open.target));
    }
    Ok(notes)
}

/// Nobody watches.
struct Untold;

impl Progress for Untold {
    fn recorded(&mut self, _: &Arc<run::Run>, _: &Arc<[contract::Event]>) {}
}

/// Checkouts of runs that are not being driven by anybody: the lock is ours, so nobody works in them.
fn clear_worktrees(shared: &StateDir) -> Result<()> {
    let dir = shared.store.layout.state.join("worktrees");
    for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
        store::remove_tree(&entry.path())?;
    }
    Ok(())
}

/// Lets go of the bases of runs that have ended, and of those that never came to be: a process may have died
/// between keeping a base and the first fact, or between the last fact and letting go. A stopped run keeps its
/// base, so that it can be gone on from; `gone_on_from` lets go of those that were.
pub(super) fn drop_bases(shared: &StateDir, gone_on_from: bool) -> Result<u64> {
    let reader = Reader::open(&shared.store.layout)?;
    let mut removed = 0;
    for (name, at) in shared.user.refs_below(crate::git::BASES)? {
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
