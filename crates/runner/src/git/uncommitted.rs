//! Which paths of the user's checkout are not committed.
//!
//! git answers that by looking at every file through its whole path, and by reading an index as large as the
//! repository; on many files that was the dearest part of a run. So norma looks first: directory by directory, each file
//! against what the index says of it. What looks as it did when git last read it is not asked about. All else is
//! doubtful, and git is asked about that alone, with an index that holds nothing else: whether a file was really
//! changed, and which new names are ignored, is for git to say.
//!
//! The look is stricter than git's own, so it can doubt what git would not, but never the other way round. Where
//! something is unusual (conflicts, submodules, a sparse or split index, a directory that is none any more, staged
//! changes, very many doubts) git is asked about everything.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::io::Write;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::command::GitCommand;
use super::index_file::{IndexEntry, IndexFile};
use super::objects::Objects;
use super::repository::{DirtyPath, Repository, failed, status};
use super::tree::join;
use super::{GitError, IoContext, is_git_directory, sweep};

/// Of more doubtful entries and names git is asked about everything: it would take as long, and an argument list has an end.
const DOUBTFUL_MAX: usize = 256;

/// How deep directories may be; each level holds a descriptor.
const DEPTH_MAX: usize = 128;

/// How much of a directory is listed at once.
const LISTED_BYTES: usize = 32 << 10;

/// An untracked directory is one path, not all that is in it.
const UNTRACKED: &[&str] = &["--untracked-files=normal"];

impl Repository {
    /// Paths that differ between HEAD, index and files; untracked directories are one path, ignored files
    /// and norma's state directory are left out.
    pub fn dirty(&self, objects: &Objects) -> Result<Vec<DirtyPath>, GitError> {
        let all = match self.doubtful(objects) {
            Some(doubtful) => doubtful.ask(self, objects)?,
            None => status(self.git("status").streaming(), UNTRACKED, &[])?,
        };
        Ok(all.into_iter().filter(|dirty| !self.is_state(&dirty.path)).collect())
    }

    /// The paths that may not be committed; `None` if only git can tell.
    fn doubtful(&self, objects: &Objects) -> Option<Doubtful> {
        let index = IndexFile::read(&self.index(), self.format).ok()??;
        let tree = self.head().ok()?.tree;
        if !index.is_tree(&objects.reader().ok()?, tree).ok()? {
            return None;
        }
        let root = sweep::open_directory(&self.root).ok()?;
        let listed = Vec::with_capacity(LISTED_BYTES);
        let (entries, new) = (BTreeSet::new(), Vec::new());
        let mut look = Look { user: self, index: &index, listed, entries, is_changed: false, new };
        look.directory(&root, b"", 0, 0)?;
        let Look { entries, is_changed, new, .. } = look;
        Some(Doubtful { index, entries, is_changed, new })
    }
}

/// What git has to judge.
struct Doubtful {
    index: IndexFile,
    /// The entries of the index that git needs for that.
    entries: BTreeSet<usize>,
    /// Whether one of them is of a file that may be changed.
    is_changed: bool,
    /// Names that the index does not have.
    new: Vec<Vec<u8>>,
}

impl Doubtful {
    /// Not by `git status`: that would compare all of HEAD with an index in which most is missing.
    fn ask(&self, user: &Repository, objects: &Objects) -> Result<Vec<DirtyPath>, GitError> {
        if self.entries.is_empty() {
            return Ok(Vec::new());
        }
        let scratch = objects.scratch("status-index");
        let path = &scratch.path;
        let entries = self.entries.iter().filter_map(|at| self.index.nth(*at)).map(|entry| entry.bytes);
        let mut file = fs::File::create(path).context("create", path)?;
        file.write_all(&self.index.only(entries)).context("write", path)?;
        // As old as the one that git wrote: it reads files which are not older.
        file.set_modified(self.index.modified_at).context("set the time of", path)?;
        let mut dirty = Vec::new();
        if self.is_changed {
            let filters = user.filters()?;
            let git = |subcommand| user.git(subcommand).without(&filters).streaming().small_index(path);
            dirty.extend(changed(&git)?);
        }
        if !self.new.is_empty() {
            let new: Vec<&[u8]> = self.new.iter().map(Vec::as_slice).collect();
            let others = ["--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z"];
            let listed = user.git("ls-files").small_index(path).args(&others).paths(&new).run()?;
            let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            dirty.extend(paths.map(|path| DirtyPath { path: path.to_vec(), status: *b"??" }));
        }
        Ok(dirty)
    }
}

/// The files that are not what a small index of norma's says, and how. git reads those of which it cannot be sure, and
/// the index learns what they look like.
pub(super) fn changed(git: &dyn Fn(&'static str) -> GitCommand) -> Result<Vec<DirtyPath>, GitError> {
    let output = git("update-index").args(&["--ignore-submodules", "--refresh"]).outcome()?;
    match output.status.code() {
        Some(0) => return Ok(Vec::new()),
        // Some are changed.
        Some(1) => {}
        _ => return Err(failed("update-index", &output)),
    }
    let listed = git("diff-files").args(&["--name-status", "-z", "--no-renames", "--ignore-submodules=all"]).run()?;
    let mut parts = listed.split(|byte| *byte == 0);
    let mut dirty = Vec::new();
    while let (Some([letter]), Some(path)) = (parts.next(), parts.next()) {
        dirty.push(DirtyPath { path: path.to_vec(), status: [b' ', *letter] });
    }
    Ok(dirty)
}

/// A look at the checkout.
struct Look<'a> {
    user: &'a Repository,
    index: &'a IndexFile,
    /// Room for the names of a directory.
    listed: Vec<u8>,
    entries: BTreeSet<usize>,
    is_changed: bool,
    new: Vec<Vec<u8>>,
}

impl Look<'_> {
    /// Looks at what the index has below a directory, from one entry on, and at the names that are there. `path` is empty
    /// or ends with a slash. Answers with the first entry that is not below it, or nothing if only git can tell.
    fn directory(&mut self, dir: &OwnedFd, path: &[u8], first: usize, depth: usize) -> Option<usize> {
        let index = self.index;
        let (mut at, mut present) = (first, 0);
        while let Some(entry) = index.nth(at).filter(|entry| entry.path().starts_with(path)) {
            let rest = &entry.path()[path.len()..];
            let Some(end) = rest.iter().position(|byte| *byte == b'/') else {
                present += usize::from(self.file(dir, path.len(), at, entry)?);
                at += 1;
                continue;
            };
            let below = &entry.path()[..=path.len() + end];
            if self.user.is_state(&below[..below.len() - 1]) {
                at = index.end_of(below, at);
                continue;
            }
            // Not there, or no directory: files in it may have become anything.
            let handle = sweep::open_at(dir, &rest[..end]).ok().filter(|_| depth < DEPTH_MAX)?;
            at = self.directory(&handle, below, at, depth + 1)?;
            present += 1;
        }
        self.names(dir, path, first..at, present)?;
        Some(at)
    }

    /// Looks at a tracked file, and answers whether it is there.
    fn file(&mut self, dir: &OwnedFd, name_at: usize, at: usize, entry: IndexEntry<'_>) -> Option<bool> {
        if !entry.is_usual() {
            return None;
        }
        let found = match rustix::fs::statat(dir, entry.name_from(name_at)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(_) => return None,
        };
        if !found.is_some_and(|found| self.index.is_unchanged(entry, &found)) {
            self.is_changed = true;
            self.doubt(at)?;
        }
        Some(found.is_some())
    }

    /// Looks for names that the index does not have. As long as there are as many names as there are tracked ones, there
    /// are no others.
    fn names(&mut self, dir: &OwnedFd, path: &[u8], tracked: Range<usize>, present: usize) -> Option<()> {
        let mut count = 0;
        let mut listed = std::mem::take(&mut self.listed);
        each_name(dir, &mut listed, |_| {
            count += 1;
            Some(())
        })?;
        if count != present {
            rustix::fs::seek(dir, SeekFrom::Start(0)).ok()?;
            each_name(dir, &mut listed, |name| self.name(path, name.to_bytes(), &tracked))?;
        }
        self.listed = listed;
        Some(())
    }

    fn name(&mut self, path: &[u8], name: &[u8], tracked: &Range<usize>) -> Option<()> {
        let full = join(path.strip_suffix(b"/").unwrap_or(path), name);
        if self.user.is_state(&full) || full == b".git" || self.index.knows(&full) {
            return Some(());
        }
        if is_git_directory(name) {
            return None;
        }
        self.new.push(full);
        // git must see that the directory is one with tracked files in it.
        if tracked.is_empty() { None } else { self.doubt(tracked.start) }
    }

    /// Has git judge an entry, or see it; `None` if it has too much to judge already.
    fn doubt(&mut self, entry: usize) -> Option<()> {
        self.entries.insert(entry);
        (self.entries.len() + self.new.len() <= DOUBTFUL_MAX).then_some(())
    }
}

/// Calls for each name of a directory but `.` and `..`; `None` if it cannot be listed, or if a call says so.
fn each_name(dir: &OwnedFd, room: &mut Vec<u8>, mut each: impl FnMut(&CStr) -> Option<()>) -> Option<()> {
    let room: &mut [MaybeUninit<u8>] = room.spare_capacity_mut();
    let mut entries = RawDir::new(dir, room);
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            each(entry.file_name())?;
        }
    }
    Some(())
}
