//! Directories of evidence whose bytes are on their way to the disk in a commit, and that a later turn will be shown. They are
//! written when that turn begins, while its intent is waited for: whoever made them has the next thing to do by then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{Result, StepFile};

/// How many are kept in memory for turns to come.
const DIRS_MAX: usize = 64;

/// The small files of each, by its place below the run.
#[derive(Default)]
pub(crate) struct Unwritten(Mutex<BTreeMap<String, Vec<StepFile>>>);

impl Unwritten {
    /// Whether one more may be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().len() < DIRS_MAX
    }

    /// Keeps the files of a directory.
    pub(crate) fn keep(&self, dir: &str, files: &[(String, StepFile)]) {
        self.lock().insert(dir.to_owned(), files.iter().map(|(_, file)| file.clone()).collect());
    }

    /// Writes a directory if it is kept here; whether it was. Nobody looks for it meanwhile.
    pub(crate) fn write(&self, run_dir: &Path, dir: &str) -> Result<bool> {
        let mut kept = self.lock();
        let Some(files) = kept.remove(dir) else { return Ok(false) };
        store::write_dir(&run_dir.join(dir), &files)?;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<StepFile>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
