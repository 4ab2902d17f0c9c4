//! An open state directory, as everybody works with it who was let in by its owner.

use crate::context::keys::Keys;
use crate::git::{Objects, Repository};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;

/// An open state directory, with the repository that it belongs to.
pub struct StateDir {
    /// The record.
    pub store: Store,
    /// The user's repository.
    pub user: Repository,
    /// norma's own objects.
    pub objects: Arc<Objects>,
    /// The key that what is found here is signed with.
    pub keys: Arc<Keys>,
    /// Held while a run is started, or changed by somebody who does not work on it: each of these counts on what it has
    /// read, and clients are served side by side.
    changing: Mutex<()>,
    /// Held while a result is brought to the user's branch, or taken back from there.
    pub(crate) lane: Mutex<()>,
}

impl StateDir {
    /// What the owner of the directory has opened; nobody waits for anybody yet.
    pub(crate) fn new(store: Store, user: Repository, objects: Arc<Objects>, keys: Arc<Keys>) -> StateDir {
        StateDir { store, user, objects, keys, changing: Mutex::default(), lane: Mutex::default() }
    }

    /// Waits for everybody else who starts or changes a run.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for everybody else who moves the user's branch.
    pub(crate) fn lane(&self) -> MutexGuard<'_, ()> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
