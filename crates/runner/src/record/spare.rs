//! Directories that turns of a run had and that the next ones get. They are below the run's, under temporary names: after
//! a crash recovery removes them, and otherwise they are removed before the run is sealed, held or let go of.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// As many as turns of the run were taken at once, at most.
#[derive(Default)]
pub(crate) struct SpareDirs(Mutex<Vec<PathBuf>>);

impl SpareDirs {
    /// Leaves one to the next turn.
    pub(crate) fn add(&self, dir: PathBuf) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(dir);
    }

    /// One that nobody uses.
    pub(crate) fn take(&self) -> Option<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Removes what there is.
    pub(crate) fn clear(&self) -> store::Result<()> {
        while let Some(dir) = self.take() {
            store::remove_tree(&dir)?;
        }
        Ok(())
    }
}

impl Drop for SpareDirs {
    fn drop(&mut self) {
        // Best effort: what stays behind is removed by recovery.
        let _ = self.clear();
    }
}
