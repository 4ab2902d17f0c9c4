//! `locks/run.lock`: one process writes a state directory. The lock is an flock, so it is gone with the process
//! that held it, however that ended; the text in the file only tells people who that is.

use crate::{IoContext, Layout, Result};
use contract::Timestamp;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, Write};

/// Who holds the lock, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// What it does, as typed.
    pub command: String,
    /// Since when.
    pub since: Timestamp,
}

/// The right to write; given back when dropped.
#[derive(Debug)]
pub struct OwnerLock {
    file: File,
}

impl OwnerLock {
    /// Takes the lock, or says that somebody else has it.
    pub fn try_take(layout: &Layout, owner: &Owner) -> Result<Option<OwnerLock>> {
        let path = layout.locks().join("run.lock");
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).at("open", &path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e).at("lock", &path),
        }
        let text = serde_json::to_string(owner).expect("BUG: an owner is plain data");
        file.set_len(0).at("write", &path)?;
        file.rewind().at("write", &path)?;
        file.write_all(text.as_bytes()).at("write", &path)?;
        Ok(Some(OwnerLock { file }))
    }
}

impl Drop for OwnerLock {
    /// Closing would not be enough: a process that another thread is just starting has a copy of the descriptor until
    /// it executes its program, and the lock with it.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Who the lock file says holds the lock. Only for people: the text may be old.
pub fn owner_of(layout: &Layout) -> Option<Owner> {
    let mut text = String::new();
    File::open(layout.locks().join("run.lock")).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_of_the_run_lock_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), None);
        layout.create().unwrap();
        let owner = Owner { pid: 7, command: "norma run 1".into(), since: Timestamp::from_unix_ms(0) };
        let held = OwnerLock::try_take(&layout, &owner).unwrap().unwrap();
        assert!(OwnerLock::try_take(&layout, &owner).unwrap().is_none());
        assert_eq!(owner_of(&layout), Some(owner.clone()));
        drop(held);
        assert!(OwnerLock::try_take(&layout, &owner).unwrap().is_some());
        assert!(layout.locks().join("run.lock").is_file());
    }

    #[test]
    fn a_lock_that_is_given_back_is_free_even_while_a_new_process_has_a_copy_of_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), None);
        layout.create().unwrap();
        let owner = Owner { pid: 7, command: "norma run 1".into(), since: Timestamp::from_unix_ms(0) };
        let held = OwnerLock::try_take(&layout, &owner).unwrap().unwrap();
        let _copy = held.file.try_clone().unwrap();
        drop(held);
        assert!(OwnerLock::try_take(&layout, &owner).unwrap().is_some());
    }
}
