//! Directories of evidence whose bytes are on their way to the disk in a commit, and that a later turn will be shown. They are
//! written when that turn begins, while its intent is waited for: whoever made them has the next thing to do by then.

use crate::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::StepFile;

/// How many are kept in memory for turns to come.
const DIRS_MAX: usize = 64;

/// What is shown of each, by its place below the run.
#[derive(Default)]
pub(crate) struct Unwritten(Mutex<Dirs>);

#[derive(Default)]
struct Dirs {
    kept: BTreeMap<String, Vec<StepFile>>,
    /// Those that are there.
    written: BTreeSet<String>,
}

impl Unwritten {
    /// Whether one more may be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().kept.len() < DIRS_MAX
    }

    /// Keeps what is shown of a directory.
    pub(crate) fn keep(&self, dir: &str, files: &[(String, StepFile)]) {
        self.lock().kept.insert(dir.to_owned(), store::shown(files));
    }

    /// Has a directory be there: one that is kept here is written now. Nobody looks for it meanwhile.
    pub(crate) fn show(&self, run_dir: &Path, dir: &str, otherwise: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut dirs = self.lock();
        if dirs.written.contains(dir) {
            return Ok(());
        }
        match dirs.kept.remove(dir) {
            Some(files) => store::write_dir(&run_dir.join(dir), &files)?,
            None => otherwise()?,
        }
        dirs.written.insert(dir.to_owned());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Dirs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
