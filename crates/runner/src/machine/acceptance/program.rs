//! Which file a test command starts: one outside of the repository that PATH finds, or one of the tree that the command
//! names by its path. A file that a change puts into the tree is never found by name: an agent that writes a `pytest`
//! must not become the test runner. What the contract shows read-only of the user's checkout (a virtual environment) no
//! change can write to, so that its programs are found by path and, where they are on the user's PATH, by name.

use crate::git::{ObjectId, Objects};
use crate::{Context, Error, Result, process};
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
pub(crate) struct Program {
    /// Absolute, as it is seen by what starts it.
    pub(crate) path: PathBuf,
    pub(crate) sha256: Digest,
}

/// Where programs of tests are looked for.
pub(crate) struct Places<'a> {
    pub(crate) context: &'a Context,
    pub(crate) objects: &'a Objects,
    /// The tree that is tested.
    pub(crate) tree: ObjectId,
    /// Where it is shown.
    pub(crate) root: &'a Path,
    /// What the contract shows read-only besides.
    pub(crate) shown: &'a [String],
}

impl Places<'_> {
    /// What a command's first word means; none if there is no such program.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Program>> {
        let repository = &self.context.layout.root;
        let inside = match Path::new(name).strip_prefix(repository) {
            Ok(inside) => inside.to_str(),
            Err(_) => (name.contains('/') && !name.starts_with('/')).then_some(name),
        };
        match inside {
            Some(inside) if is_shown(&repository.join(inside), self.shown) => program_at(repository.join(inside)),
            Some(inside) => self.of_tree(inside),
            None => self.outside(name),
        }
    }

    fn of_tree(&self, path: &str) -> Result<Option<Program>> {
        let Ok(path) = RepoPath::parse(path) else { return Ok(None) };
        Ok(match self.objects.tree_entry(self.tree, path.as_str().as_bytes())? {
            Some((MODE_EXECUTABLE, id)) => {
                let sha256 = contract::hash::sha256(&self.objects.read_blob(id)?);
                Some(Program { path: self.root.join(path.as_str()), sha256 })
            }
            _ => None,
        })
    }

    fn outside(&self, name: &str) -> Result<Option<Program>> {
        let found = process::resolve(name, &outside_path(self.context, self.shown), self.root);
        let is_fit = |path: &PathBuf| is_shown(path, self.shown) || !lies_in_repository(self.context, path);
        found.filter(is_fit).map_or(Ok(None), program_at)
    }
}

/// The search path without what lies in the repository, unless nothing can be written there.
pub(crate) fn outside_path(context: &Context, shown: &[String]) -> OsString {
    let path = context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let is_fit = |dir: &PathBuf| dir.is_absolute() && (is_shown(dir, shown) || !lies_in_repository(context, dir));
    let outside = std::env::split_paths(&path).filter(is_fit);
    std::env::join_paths(outside).unwrap_or_default()
}

/// Whether a path leads into the repository, by its name or by where it really is.
fn lies_in_repository(context: &Context, path: &Path) -> bool {
    let root = &context.layout.root;
    path.starts_with(root) || path.canonicalize().is_ok_and(|real| real.starts_with(root))
}

/// Whether a path is below something that the contract shows read-only.
fn is_shown(path: &Path, shown: &[String]) -> bool {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    plain && shown.iter().any(|root| path.starts_with(root))
}

/// A file that can be started, as it is on this machine.
fn program_at(path: PathBuf) -> Result<Option<Program>> {
    if process::resolve(&path.to_string_lossy(), OsStr::new(""), &path).is_none() {
        return Ok(None);
    }
    let sha256 = digest(&path).map_err(|source| Error::io("read", &path, source))?;
    Ok(Some(Program { path, sha256 }))
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
