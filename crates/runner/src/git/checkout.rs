//! Private checkouts: where agents work.
//!
//! A checkout has three parts: the files; an index beside them, `<dir>.index`, which only norma writes and
//! which tells it cheaply what an agent touched; and inside, a `.git` of the agent's own that borrows objects
//! and shares nothing else with the user's repository. norma never runs git with that `.git`: it is the
//! agent's to write, and git runs what a repository's configuration says.
//!
//! Files have exactly the bytes of their blobs. Attributes that ask for conversion are overridden.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode};

use super::objects::{Objects, RAW_ATTRIBUTES, Reader, core_config};
use super::sweep::{self, Trash};
use super::tree::{Entry, MODE_GITLINK, MODE_SYMLINK, MODE_TREE};
use super::{GitError, IoContext, ObjectId, remove_if_there};

/// A directory with the files of a commit, for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Where the files are.
    pub dir: PathBuf,
}

impl Checkout {
    /// Makes a checkout of `tree` in a directory that does not exist yet.
    pub fn create(objects: &Objects, dir: &Path, commit: ObjectId, tree: ObjectId) -> Result<Checkout, GitError> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).context("create directory", parent)?;
        }
        fs::create_dir(dir).context("create directory", dir)?;
        let checkout = Checkout { dir: dir.canonicalize().context("resolve", dir)? };
        remove_if_there(&checkout.beside("index"))?;
        checkout.fill(objects, commit, tree)?;
        Ok(checkout)
    }

    /// Opens a checkout made before.
    pub fn open(dir: &Path) -> Result<Checkout, GitError> {
        let checkout = Checkout { dir: dir.canonicalize().context("resolve", dir)? };
        let index = checkout.beside("index");
        fs::metadata(&index).context("find", &index)?;
        Ok(checkout)
    }

    /// Makes the files exactly those of `tree`, whatever the agent did to them: untracked and ignored files
    /// are gone, and the private `.git` is new.
    pub fn advance(&self, objects: &Objects, commit: ObjectId, tree: ObjectId) -> Result<(), GitError> {
        let mut trash = Trash::open(&self.beside("trash"))?;
        let root = sweep::open_directory(&self.dir)?;
        rustix::fs::fchmod(&root, Mode::from_raw_mode(0o755)).context("set the mode of", &self.dir)?;
        clear(&objects.reader()?, &root, tree, &mut trash).map_err(|problem| problem.within(&self.dir))?;
        trash.empty()?;
        self.fill(objects, commit, tree)
    }

    /// Removes the checkout and its index.
    pub fn remove(self) -> Result<(), GitError> {
        sweep::remove(&self.dir, &self.beside("trash"))?;
        remove_if_there(&self.beside("index.lock"))?;
        remove_if_there(&self.beside("index"))
    }

    /// The path `<dir>.<suffix>`.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.dir.clone().into_os_string();
        path.push(".");
        path.push(suffix);
        path.into()
    }

    /// Lets git write what is missing or touched, into a directory in which every name already has the right
    /// kind and there is no `.git`; then makes that.
    fn fill(&self, objects: &Objects, commit: ObjectId, tree: ObjectId) -> Result<(), GitError> {
        let index = self.beside("index");
        // norma is the only one who writes this index: a lock is left over from a killed child.
        remove_if_there(&self.beside("index.lock"))?;
        let command = objects.git("read-tree").index(&index).work_tree(&self.dir);
        command.args(&["--reset", "-u", "--no-recurse-submodules"]).id(tree).run()?;
        self.make_private_repository(objects, commit)
    }

    /// Writes the agent's `.git`: detached at the commit, borrowing objects, without remotes or hooks.
    fn make_private_repository(&self, objects: &Objects, commit: ObjectId) -> Result<(), GitError> {
        let git = self.dir.join(".git");
        for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            let part = git.join(part);
            fs::create_dir_all(&part).context("create directory", &part)?;
        }
        let config = format!(
            "{}\tbare = false\n[gc]\n\tauto = 0\n[user]\n\tname = agent\n\temail = agent@localhost\n",
            core_config(objects.format)
        );
        let head = format!("{commit}\n");
        let alternates = objects.alternates();
        let files: [(&str, &[u8]); 4] = [
            ("config", config.as_bytes()),
            ("objects/info/alternates", &alternates),
            ("info/attributes", RAW_ATTRIBUTES.as_bytes()),
            ("HEAD", head.as_bytes()),
        ];
        for (name, content) in files {
            let path = git.join(name);
            fs::write(&path, content).context("write", &path)?;
        }
        let index = git.join("index");
        fs::copy(self.beside("index"), &index).map(drop).context("write", &index)
    }
}

/// What can stop [`clear`].
enum ClearProblem {
    Git(GitError),
    Io(Vec<u8>, std::io::Error),
}

impl ClearProblem {
    fn within(self, root: &Path) -> GitError {
        match self {
            ClearProblem::Git(error) => error,
            ClearProblem::Io(path, source) => {
                let path = root.join(String::from_utf8_lossy(&path).as_ref());
                GitError::Io { action: "clear", path, source }
            }
        }
    }
}

/// Removes every name the tree does not have, and every name that is not of the kind the tree says. After
/// this, directories on the way to tracked files are real directories, so git cannot be led elsewhere.
fn clear(reader: &Reader<'_>, root: &OwnedFd, tree: ObjectId, trash: &mut Trash) -> Result<(), ClearProblem> {
    let mut due = vec![(Vec::new(), tree)];
    while let Some((path, tree)) = due.pop() {
        let wanted = reader.tree(tree).map_err(ClearProblem::Git)?;
        let wanted: HashMap<&[u8], Entry> = wanted.iter().map(|line| (&*line.name, line.entry)).collect();
        let below =
            clear_directory(root, &path, &wanted, trash).map_err(|error| ClearProblem::Io(path.clone(), error))?;
        due.extend(below.into_iter().map(|(name, id)| ([path.as_slice(), b"/", &name].concat(), id)));
    }
    Ok(())
}

/// Clears one directory; returns the directories in it that stay.
fn clear_directory(
    root: &OwnedFd,
    path: &[u8],
    wanted: &HashMap<&[u8], Entry>,
    trash: &mut Trash,
) -> std::io::Result<Vec<(Vec<u8>, ObjectId)>> {
    let dir = sweep::open_below(root, path)?;
    let mut below = Vec::new();
    for name in sweep::names_in(&dir)? {
        match wanted.get(name.to_bytes()) {
            Some(entry) if stays(&dir, &name, *entry)? => {
                if entry.mode == MODE_TREE {
                    below.push((name.into_bytes(), entry.id));
                }
            }
            _ => trash.discard(&dir, &name)?,
        }
    }
    Ok(below)
}

/// Whether an entry has the kind the tree says. Content is git's to compare.
fn stays(dir: &OwnedFd, name: &CStr, entry: Entry) -> std::io::Result<bool> {
    let (kind, mode, links) = sweep::look(dir, name)?;
    Ok(match (entry.mode, kind) {
        (MODE_TREE, FileType::Directory) => {
            if !mode.contains(Mode::RWXU) {
                rustix::fs::chmodat(dir, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
            }
            true
        }
        // A submodule is an empty directory here, and git makes it anew; what an agent put there goes.
        (MODE_TREE | MODE_GITLINK, _) => false,
        (MODE_SYMLINK, kind) => kind == FileType::Symlink,
        // A second name elsewhere would let a later write change the file behind norma's back.
        (_, kind) => kind == FileType::RegularFile && links == 1,
    })
}
