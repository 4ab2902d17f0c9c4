//! Which file a test command starts: one outside of the repository that PATH finds, or one of the tree that the command
//! names by its path. A file that a change puts into the tree is never found by name: an agent that writes a `pytest`
//! must not become the test runner.

use crate::git::ObjectId;
use crate::machine::Machine;
use crate::{Error, Result, process};
use contract::hash::DoubleHasher;
use contract::{Digest, RepoPath};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The only mode of a file in a tree that can be started.
const MODE_EXECUTABLE: u32 = crate::git::MODE_EXECUTABLE;

/// How much of a program is read at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// A program, and which one it is.
pub(super) struct Program {
    /// Absolute, as it is seen by what starts it.
    pub(super) path: PathBuf,
    pub(super) sha256: Digest,
}

impl Machine {
    /// What a command's first word means with the tree at `root`; none if there is no such program.
    pub(super) fn find_program(&self, name: &str, tree: ObjectId, root: &Path) -> Result<Option<Program>> {
        let inside = match Path::new(name).strip_prefix(&self.context.layout.root) {
            Ok(inside) => inside.to_str(),
            Err(_) => (name.contains('/') && !name.starts_with('/')).then_some(name),
        };
        match inside {
            Some(inside) => self.program_of_tree(inside, tree, root),
            None => self.program_outside(name, root),
        }
    }

    fn program_of_tree(&self, path: &str, tree: ObjectId, root: &Path) -> Result<Option<Program>> {
        let Ok(path) = RepoPath::parse(path) else { return Ok(None) };
        Ok(match self.objects.tree_entry(tree, path.as_str().as_bytes())? {
            Some((MODE_EXECUTABLE, id)) => {
                let sha256 = contract::hash::sha256(&self.objects.read_blob(id)?);
                Some(Program { path: root.join(path.as_str()), sha256 })
            }
            _ => None,
        })
    }

    fn program_outside(&self, name: &str, root: &Path) -> Result<Option<Program>> {
        let found = process::resolve(name, &self.outside_path(), root);
        let Some(path) = found.filter(|path| !self.lies_in_repository(path)) else { return Ok(None) };
        let sha256 = digest(&path).map_err(|source| Error::io("read", &path, source))?;
        Ok(Some(Program { path, sha256 }))
    }

    /// The search path without what lies in the repository.
    pub(super) fn outside_path(&self) -> OsString {
        let path = self.context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let outside = std::env::split_paths(&path).filter(|dir| dir.is_absolute() && !self.lies_in_repository(dir));
        std::env::join_paths(outside).unwrap_or_default()
    }

    /// Whether a path leads into the repository, by its name or by where it really is.
    fn lies_in_repository(&self, path: &Path) -> bool {
        let root = &self.context.layout.root;
        path.starts_with(root) || path.canonicalize().is_ok_and(|real| real.starts_with(root))
    }
}

fn digest(path: &Path) -> std::io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = DoubleHasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finish().sha256),
            count => drop(hasher.update(&chunk[..count])),
        }
    }
}
