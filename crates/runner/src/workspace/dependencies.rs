//! Installed dependencies of the user's checkout that agents and tests see, read-only and where they lie: `.venv`,
//! `node_modules`, `vendor`. git ignores them, so they are in no tree, and without them most tests do not start.
//!
//! They are shown only where they belong to the commit: what locks their versions is the same in the checkout and in the
//! tree. `target` is not among them, since cargo writes to it; see [`super::builds`].

use crate::Result;
use crate::git::{ObjectId, Objects, Repository};
use std::fs;
use std::path::{Path, PathBuf};

/// More projects than this are a repository for which somebody has a setup.
const PROJECTS_MAX: usize = 64;

/// A directory that a package manager fills.
struct Kind {
    name: &'static str,
    /// The files beside it that say what belongs in it.
    locks: &'static [&'static str],
    /// What the user does to bring it up to date.
    refresh: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { name: ".venv", locks: PYTHON, refresh: "install its requirements" },
    Kind { name: "venv", locks: PYTHON, refresh: "install its requirements" },
    Kind {
        name: "node_modules",
        locks: &["package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"],
        refresh: "npm ci",
    },
    Kind { name: "vendor", locks: &["composer.lock", "Gemfile.lock", "go.sum"], refresh: "install it" },
];

const PYTHON: &[&str] = &["uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt"];

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// What is shown: absolute paths, those of the repository first.
    pub shown: Vec<PathBuf>,
    /// What is there and not shown, and what to do about it, in words.
    pub left_out: Vec<String>,
}

/// Looks at the checkout, and at the tree that a run starts from.
pub fn find(user: &Repository, objects: &Objects, tree: ObjectId) -> Result<Dependencies> {
    let mut found = Dependencies::default();
    let mut interpreters = Vec::new();
    for project in projects(&user.root) {
        for kind in &KINDS {
            let inside = joined(&project, kind.name);
            let path = user.root.join(&inside);
            if !is_own_directory(&path) || objects.tree_entry(tree, inside.as_bytes())?.is_some() {
                continue;
            }
            match changed_lock(user, objects, tree, &project, kind)? {
                None => {
                    interpreters.extend(interpreter_of(&path));
                    found.shown.push(path);
                }
                Some(lock) => found.left_out.push(format!(
                    "{inside} is not shown to the agent: {lock} differs from the commit; commit it, or {} for the commit",
                    kind.refresh
                )),
            }
        }
    }
    found.shown.extend(interpreters);
    found.shown.dedup();
    Ok(found)
}

/// The root and the directories in it: what they hold is not looked at, so that it costs the same in every repository.
pub(super) fn projects(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = directories.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names
        .filter(|name| !name.starts_with('.') && KINDS.iter().all(|kind| kind.name != name))
        .take(PROJECTS_MAX)
        .collect();
    found.push(String::new());
    found.sort();
    found
}

/// What locks a directory's versions and is not as the tree has it.
fn changed_lock(
    user: &Repository,
    objects: &Objects,
    tree: ObjectId,
    project: &str,
    kind: &Kind,
) -> Result<Option<String>> {
    for lock in kind.locks {
        let inside = joined(project, lock);
        let committed = match objects.tree_entry(tree, inside.as_bytes())? {
            Some((_, blob)) => Some(objects.read_blob(blob)?),
            None => None,
        };
        let here = fs::read(user.root.join(&inside)).ok();
        if committed.is_some() && committed != here {
            return Ok(Some(inside));
        }
    }
    Ok(None)
}

/// Where the interpreter of a virtual environment is installed, if that is not where programs usually are.
fn interpreter_of(venv: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(venv.join("pyvenv.cfg")).ok()?;
    let home = text.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='))?.trim();
    let bin = Path::new(home).canonicalize().ok()?;
    let prefix = bin.parent()?;
    let usual = ["/usr", "/usr/local", "/"].iter().any(|usual| prefix == Path::new(usual));
    (!usual && bin.ends_with("bin")).then(|| prefix.to_owned())
}

pub(super) fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

pub(super) fn joined(project: &str, name: &str) -> String {
    if project.is_empty() { name.to_owned() } else { format!("{project}/{name}") }
}
