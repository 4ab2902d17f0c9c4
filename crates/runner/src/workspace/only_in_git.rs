//! What an agent has put into its own git and nowhere else. norma takes a change from the files of a workspace and never
//! runs git on what an agent could write, so a submodule that was moved by `git update-index`, a staged file without a
//! file, or a commit that was left on a branch is no part of any change. It is told instead of being lost without a word.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};

use super::capture::{Odd, OddKind};
use super::index;
use crate::git::index_file::plain_mode;
use crate::git::objects::Objects;
use crate::git::tree::{MODE_GITLINK, join};
use crate::git::{Entry, GitError, ObjectId, sweep};

/// A longer index is not read: norma's own for a million files is shorter.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// A name of a commit, or of a ref.
const REF_BYTES_MAX: u64 = 4096;

/// How deep the names of refs are looked at.
const REF_DEPTH_MAX: usize = 8;

/// How many paths are told.
const TOLD_MAX: usize = 20;

/// What is only in the agent's git, by what it left in a workspace at this tree. Where its files changed, what it staged
/// and committed on the way is no loss; a submodule is, since no file stands for it.
pub fn only_in_git(
    objects: &Objects,
    tree: ObjectId,
    workspace: BorrowedFd<'_>,
    has_changes: bool,
) -> Result<Vec<Odd>, GitError> {
    let Ok(git) = workspace.try_clone_to_owned().and_then(|root| sweep::open_below(&root, b".git")) else {
        return Ok(Vec::new());
    };
    let mut paths = staged(objects, tree, &git, has_changes)?;
    if !has_changes {
        paths.extend(own_commits(objects, &git));
    }
    paths.truncate(TOLD_MAX);
    Ok(paths.into_iter().map(|path| Odd { path, kind: OddKind::OnlyInGit, ignored: false }).collect())
}

/// What the index has and the tree has not: everything, or submodules alone.
fn staged(objects: &Objects, tree: ObjectId, git: &OwnedFd, submodules: bool) -> Result<Vec<Vec<u8>>, GitError> {
    let Some(bytes) = read(git, c"index", INDEX_BYTES_MAX) else { return Ok(Vec::new()) };
    let Some(staged) = index::decode(objects.format, &bytes) else { return Ok(Vec::new()) };
    let counts = |entry: &Entry| !submodules || entry.mode == MODE_GITLINK;
    let mut base = BTreeMap::new();
    objects.walk(tree, &mut |path, mode, id| {
        let entry = Entry { mode: plain_mode(mode), id };
        if counts(&entry) {
            base.insert(path.to_vec(), entry);
        }
    })?;
    let mut found = Vec::new();
    for entry in staged {
        let before = base.remove(&entry.path);
        if counts(&entry.entry) && !entry.covered && before != Some(entry.entry) {
            found.push(entry.path);
        }
    }
    // A file that is only gone from the index is still there.
    found.extend(base.into_iter().filter(|(_, entry)| entry.mode == MODE_GITLINK).map(|(path, _)| path));
    Ok(found)
}

/// The refs of the agent's repository that name something which norma does not have.
fn own_commits(objects: &Objects, git: &OwnedFd) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let is_own = |bytes: &[u8]| {
        let id = ObjectId::from_hex(bytes.trim_ascii());
        id.is_ok_and(|id| matches!(objects.raw(id), Err(GitError::MissingObject { .. })))
    };
    if read(git, c"HEAD", REF_BYTES_MAX).is_some_and(|bytes| is_own(&bytes)) {
        found.push(b".git/HEAD".to_vec());
    }
    let mut due = match sweep::open_below(git, b"refs") {
        Ok(refs) => vec![(refs, b".git/refs".to_vec(), 0)],
        Err(_) => Vec::new(),
    };
    while let Some((dir, path, depth)) = due.pop() {
        for name in sweep::names_in(&dir).unwrap_or_default() {
            let path = join(&path, name.to_bytes());
            match sweep::look(&dir, &name).map(|(kind, ..)| kind) {
                Ok(FileType::Directory) if depth < REF_DEPTH_MAX => {
                    due.extend(sweep::open_below(&dir, name.to_bytes()).map(|below| (below, path, depth + 1)));
                }
                Ok(FileType::RegularFile) if read(&dir, &name, REF_BYTES_MAX).is_some_and(|bytes| is_own(&bytes)) => {
                    found.push(path);
                }
                _ => {}
            }
        }
    }
    found
}

/// A regular file that is not too long; what cannot be read says nothing.
fn read(dir: &OwnedFd, name: &CStr, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size as u64 <= bytes_max;
    let mut bytes = Vec::new();
    let all: io::Result<usize> = File::from(file).take(bytes_max).read_to_end(&mut bytes);
    (is_file && all.is_ok()).then_some(bytes)
}
