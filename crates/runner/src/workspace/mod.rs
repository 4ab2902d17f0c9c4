//! Workspaces whose cost follows what is changed in them, not what the repository weighs.
//!
//! Below a workspace lie read-only layers that all workspaces share ([`Workspaces::stand`]): one whole checkout, and
//! thin layers with the differences to later trees. Above lies a directory of the workspace's own, laid over them by
//! the sandbox. When every process in it is dead, [`capture`] reads that directory alone and makes a tree of it.
//!
//! | file | holds |
//! |---|---|
//! | `shelf.rs` | where layers are kept: complete or not there, locked while they are used |
//! | `lower.rs` | the layers there are: taken, made, removed |
//! | `layer.rs` | one layer: a base or a difference, and its `layer.json` |
//! | `listing.rs` | whether a layer is still what was made |
//! | `synced.rs` | bringing a large base to the disk while it is used |
//! | `difference.rs` | what differs between two trees, as a layer needs it |
//! | `files.rs` | writing files from objects, and reading them back |
//! | `private_git.rs` | the agent's own repository, in parts |
//! | `pack.rs` | a pack of few objects |
//! | `index.rs` | its index, as bytes |
//! | `capture.rs` | what an agent made of a tree |
//! | `walk.rs` | how that is found, in an upper directory or in a whole checkout |
//! | `watch.rs` | hearing that there is nothing to be found |
//! | `stat_cache.rs` | what files looked like when they were last read |
//! | `only_in_git.rs` | what an agent has put into its own git alone |
//! | `include.rs` | files of the user's checkout that workspaces show besides |
//! | `dependencies.rs` | installed dependencies of the user's checkout, shown read-only |
//! | `builds.rs` | what cargo has built of dependencies in the user's checkout, shown as a layer |
//! | `setup.rs` | what `workspace.setup` made of a tree |
//! | `plain.rs` | workspaces where there is no overlay |

pub mod builds;
mod capture;
pub mod dependencies;
mod difference;
mod files;
pub mod include;
mod index;
mod layer;
mod line_endings;
mod listing;
mod looked;
mod lower;
mod only_in_git;
mod pack;
mod plain;
mod private_git;
mod setup;
mod shelf;
mod stat_cache;
mod synced;
mod walk;
mod watch;

use std::path::Path;

use crate::git::{GitError, ObjectId, Objects};
pub use capture::{CaptureRules, Captured, IgnoredFile, Odd, OddKind, capture};
pub use contract::History;
pub use line_endings::AutoCrlf;
pub use lower::{Removed, Stand};
pub use only_in_git::only_in_git;
pub use plain::PlainWorkspace;
use private_git::Position;
pub use setup::{SETUPS_KEPT, SetupLayer, SetupLayers, SetupMaking, SetupOrder};

/// Whether the name of a file says that it holds a secret.
pub type Secret = fn(&str) -> bool;

/// How far the making of a base has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Files written.
    pub done: usize,
    /// Files there will be.
    pub of: usize,
}

/// The shared part of all workspaces of one repository and one user.
#[derive(Debug)]
pub struct Workspaces {
    cache: lower::Cache,
    history: History,
    is_secret: Secret,
}

impl Workspaces {
    /// Opens the layers kept below `cache`, in a directory for the user norma runs as.
    pub fn new(cache: &Path, history: History, is_secret: Secret) -> Result<Workspaces, GitError> {
        Ok(Workspaces { cache: lower::Cache::open(cache)?, history, is_secret })
    }

    /// The layers that show `tree`, with HEAD at `commit`. Makes what is missing: a whole checkout the first time,
    /// which `progress` is told about, and a thin layer after that.
    pub fn stand(
        &self,
        objects: &Objects,
        commit: ObjectId,
        tree: ObjectId,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Stand, GitError> {
        let position = Position { commit, tree, history: self.history };
        self.cache.stand(objects, position, self.is_secret, progress)
    }

    /// Removes layers, but for the `keep` used last, what those stand on, and whatever is in use.
    pub fn gc(&self, keep: usize) -> Result<Removed, GitError> {
        self.cache.gc(keep)
    }
}

/// Removes what a killed process left half made, as far as that is possible now; whoever makes something next does
/// it, too.
pub fn clear_leftovers(cache: &Path) {
    if !cache.join(rustix::process::geteuid().as_raw().to_string()).is_dir() {
        return;
    }
    for part in [None, Some("setup")] {
        let cleared = shelf::Shelf::open(cache, part).and_then(|shelf| {
            let making = shelf.try_making()?;
            if making.is_some() { shelf.clear_leftovers() } else { Ok(()) }
        });
        drop(cleared);
    }
}
