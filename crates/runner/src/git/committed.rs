//! Files of a commit that a document relies on.

use super::{GitError, ObjectId, Objects};
use contract::RepoPath;

/// The type bits of a mode, and those of a regular file and a directory.
const MODE_TYPE: u32 = 0o170_000;
const MODE_FILE: u32 = 0o100_000;
const MODE_DIRECTORY: u32 = 0o040_000;

/// The largest file that a document may rely on: it is read whole to be hashed.
const FILE_BYTES_MAX: u64 = 64 << 20;

impl Objects {
    /// Whether a tree has a directory there. What cannot be read is none, and is named when it is needed.
    pub(crate) fn has_directory(&self, tree: ObjectId, path: &RepoPath) -> bool {
        let entry = self.tree_entry(tree, path.as_str().as_bytes()).ok().flatten();
        entry.is_some_and(|(mode, _)| mode & MODE_TYPE == MODE_DIRECTORY)
    }

    /// A file of a tree, or why there is none.
    pub(crate) fn committed_file(&self, tree: ObjectId, path: &RepoPath) -> Result<Vec<u8>, String> {
        let shown = path.as_str();
        let failed = |error: GitError| format!("{shown:?} could not be read: {error}");
        match self.tree_entry(tree, shown.as_bytes()).map_err(failed)? {
            None => Err(format!("there is no file {shown:?} in the commit; commit it first")),
            Some((mode, _)) if mode & MODE_TYPE != MODE_FILE => Err(format!("{shown:?} is not a regular file")),
            Some((_, id)) if self.size(id).map_err(failed)? > FILE_BYTES_MAX => {
                Err(format!("{shown:?} is larger than {} MiB", FILE_BYTES_MAX >> 20))
            }
            Some((_, id)) => self.read_blob(id).map_err(failed),
        }
    }
}
