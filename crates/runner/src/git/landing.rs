//! Landing: the one place where the user's branch, index and files change.
//!
//! The order is: objects, then checks, then the reference, then the files. Each stage can be repeated, and what
//! was reached is read from the repository, never remembered: a reference at the old commit means "from the
//! start", at the new commit means "bring the files forward", anywhere else means hands off. Files of the user's
//! that the change does not touch stay exactly as they are, dirty or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::command::{GitCommand, chunks, words};
use super::objects::Objects;
use super::patch::{Entries, index_info, parse_listing};
use super::repository::{Filters, Repository, Swap, parse_id, status, without_newline};
use super::touched::{self, Exchanged, Touched};
use super::tree::{Entry, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_SYMLINK, TreeChange};
use super::uncommitted::changed;
use super::{GitError, IoContext, ObjectId, sync_directory};

/// Files and directories in a git directory that say the user is in the middle of something that remembers
/// where HEAD was. Moving it underneath would spoil that.
const UNDER_WAY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge is in progress"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply", "a rebase or a series of patches is in progress"),
];

/// What became of a landing. In every case but `Done` the branch is where the user left it; the exception is a
/// landing that was killed twice and then edited, whose dirty paths are named while the branch stays moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Land {
    /// Branch and files are at the new commit.
    Done,
    /// The branch is neither at the old commit nor at the new one.
    Moved {
        /// Where it is.
        found: Option<ObjectId>,
    },
    /// The change touches paths the user has changed, or would put files where the user has others.
    DirtyPaths(Vec<Vec<u8>>),
    /// git, or a rule above it, would not move the files.
    CheckoutRefused(String),
}

/// A change of one branch of the user's repository: what lands, and what can be taken back.
#[derive(Clone, Copy)]
pub struct BranchMove<'a> {
    /// The user's repository.
    pub user: &'a Repository,
    /// Where the objects are.
    pub objects: &'a Objects,
    /// The branch; `None` is HEAD itself, which is detached.
    pub branch: Option<&'a str>,
    /// The commit before the landing.
    pub base: ObjectId,
    /// The commit that lands.
    pub new: ObjectId,
    /// What the reflog says.
    pub message: &'a str,
}

impl BranchMove<'_> {
    /// Moves the branch from `base` to `new`, and the files of the user's checkout with it, if HEAD is on that branch;
    /// else only the reference. `at` is told what has been reached: "exported", "ref_moved", "index_locked",
    /// "files_moved", "checked_out". May be called again after a crash at any point.
    pub fn land(self, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        let BranchMove { user, objects, branch, base, new, message } = self;
        objects.export(user, objects.tree_of(base)?, new)?;
        at("exported");
        Step::plan(user, objects, branch, base, new, message)?.take(at)
    }

    /// Takes a landing back: moves the branch from `new` to `base`, if it still is at `new`, and the files with it.
    pub fn undo(self, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        let BranchMove { user, objects, branch, base, new, message } = self;
        Step::plan(user, objects, branch, new, base, message)?.take(at)
    }
}

/// One move of the user's checkout, in either direction.
struct Step<'a> {
    user: &'a Repository,
    objects: &'a Objects,
    reference: &'a str,
    detached: bool,
    from: ObjectId,
    to: ObjectId,
    message: &'a str,
    changes: Vec<TreeChange>,
    /// Asked once: a landing takes a moment.
    filters: Filters,
}

/// What git made of the request to move the files.
enum FilesMove {
    Done,
    /// Nothing was moved; git's own words.
    Refused(String),
}

/// How a touched path stands between the two commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// Index and file are as before the move.
    Before,
    /// The file has moved, the index has not: git was killed between the two.
    FileAhead,
    /// The index has moved.
    After,
    /// The index is as before, the file is the user's.
    Dirty,
    /// The index has neither: the user staged something since.
    Staged,
}

impl<'a> Step<'a> {
    fn plan(
        user: &'a Repository,
        objects: &'a Objects,
        branch: Option<&'a str>,
        from: ObjectId,
        to: ObjectId,
        message: &'a str,
    ) -> Result<Step<'a>, GitError> {
        let changes = objects.diff(objects.tree_of(from)?, objects.tree_of(to)?)?;
        let reference = branch.unwrap_or("HEAD");
        let filters = user.filters()?;
        Ok(Step { user, objects, reference, detached: branch.is_none(), from, to, message, changes, filters })
    }

    fn take(&self, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        let head = self.user.head_branch()?;
        let found = self.user.read_ref(self.reference)?;
        if self.detached && head.is_some() {
            return Ok(Land::Moved { found });
        }
        let here = self.detached || head.as_deref() == Some(self.reference);
        if here {
            touched::release(self.user)?;
        }
        match (found == Some(self.from), found == Some(self.to)) {
            (true, _) if here => self.move_all(at),
            (true, _) => self.move_reference_only(at),
            (false, true) if here => self.catch_up(at),
            (false, true) => Ok(Land::Done),
            (false, false) => Ok(Land::Moved { found }),
        }
    }

    /// The checkout is on another branch: it has nothing to do with this move.
    fn move_reference_only(&self, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        let command = self.user.git("for-each-ref").args(&["--format=%(worktreepath)", "--", self.reference]);
        let elsewhere = without_newline(command.run()?);
        if !elsewhere.is_empty() {
            let place = String::from_utf8_lossy(&elsewhere).into_owned();
            return Ok(Land::CheckoutRefused(format!("{} is checked out in {place}", self.reference)));
        }
        match self.swap(self.to, self.from)? {
            Swap::Moved { found } => Ok(Land::Moved { found }),
            Swap::Done => {
                at("ref_moved");
                Ok(Land::Done)
            }
        }
    }

    fn move_all(&self, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        let touched = Touched::take(self.user, self.objects, &self.changes)?;
        if let Some(refused) = self.objections(touched.as_ref())? {
            return Ok(refused);
        }
        if let Swap::Moved { found } = self.swap(self.to, self.from)? {
            return Ok(Land::Moved { found });
        }
        at("ref_moved");
        let moved = self.read_tree(touched.as_ref(), &[])?;
        let moved = match (moved, &touched) {
            (FilesMove::Done, Some(touched)) => match touched.exchange(&mut || at("index_locked"))? {
                Exchanged::Done => FilesMove::Done,
                Exchanged::Refused(why) => FilesMove::Refused(why),
            },
            (moved, _) => moved,
        };
        self.finish(moved, at)
    }

    /// A git command that sees the touched part of the index, or all of it.
    fn git(&self, touched: Option<&Touched<'_>>, subcommand: &'static str) -> GitCommand {
        let command = touched.map_or_else(|| self.user.git(subcommand), |touched| touched.git(subcommand));
        command.without(&self.filters).streaming()
    }

    /// Everything that speaks against moving, before anything has moved.
    fn objections(&self, touched: Option<&Touched<'_>>) -> Result<Option<Land>, GitError> {
        let found = UNDER_WAY.iter().find(|(name, _)| self.user.git_dir.join(name).exists());
        if let Some((_, reason)) = found {
            return Ok(Some(Land::CheckoutRefused((*reason).to_owned())));
        }
        let mut dirty = self.dirty_tracked(touched)?;
        dirty.extend(self.in_the_way());
        if !dirty.is_empty() {
            return Ok(Some(Land::DirtyPaths(dirty.into_iter().collect())));
        }
        if let Some((path, filter)) =
            self.user.filtered(self.objects, self.to, &self.changes, &self.filters)?.first_key_value()
        {
            let path = String::from_utf8_lossy(path);
            return Ok(Some(Land::CheckoutRefused(format!(
                "{path} goes through the git filter {filter:?}, which norma does not run; your own git does: git merge"
            ))));
        }
        if let FilesMove::Done = self.read_tree(touched, &["-n"])? {
            return Ok(None);
        }
        self.refresh_index(touched)?;
        Ok(match self.read_tree(touched, &["-n"])? {
            FilesMove::Done => None,
            FilesMove::Refused(words) => Some(Land::CheckoutRefused(words)),
        })
    }

    /// Has the index learn the times of files that were rewritten with the same bytes; otherwise git takes them
    /// for changed. It complains about files that really are, which is no news here.
    fn refresh_index(&self, touched: Option<&Touched<'_>>) -> Result<(), GitError> {
        let command = self.git(touched, "update-index").durable().args(&["-q", "--ignore-submodules", "--refresh"]);
        command.outcome().map(drop)
    }

    /// Touched paths that differ between HEAD, index and file.
    fn dirty_tracked(&self, index: Option<&Touched<'_>>) -> Result<BTreeSet<Vec<u8>>, GitError> {
        // The touched part is of the tree that the branch is at, and nothing else is in it.
        if index.is_some() {
            let found = changed(&|subcommand| self.git(index, subcommand))?;
            return Ok(found.into_iter().map(|found| found.path).collect());
        }
        let touched: Vec<&[u8]> = self.changes.iter().map(|change| change.path.as_slice()).collect();
        let mut dirty = BTreeSet::new();
        for group in chunks(&touched) {
            // Untracked files are found by looking, which sees the ignored ones too.
            let found = status(self.git(index, "status"), &["--untracked-files=no"], &group)?;
            dirty.extend(found.into_iter().map(|found| found.path));
        }
        Ok(dirty)
    }

    /// Files of the user's, ignored or not, that stand where the change puts new ones.
    fn in_the_way(&self) -> BTreeSet<Vec<u8>> {
        let leaving: BTreeSet<&[u8]> =
            self.changes.iter().filter(|change| change.new.is_none()).map(|change| change.path.as_slice()).collect();
        let added = self.changes.iter().filter(|change| change.old.is_none());
        added.flat_map(|change| obstacles(&self.user.root, &change.path, &leaving)).collect()
    }

    /// The two-tree merge: touched paths go from one commit to the other, all else stays.
    fn read_tree(&self, touched: Option<&Touched<'_>>, options: &[&str]) -> Result<FilesMove, GitError> {
        let command = self.git(touched, "read-tree").args(&["-m", "-u", "--no-recurse-submodules"]);
        // The small index is read again and gone.
        let command = if touched.is_none() { command.durable() } else { command };
        let (from, to) = touched.map_or((self.from, self.to), |touched| (touched.from, touched.to));
        let output = command.args(options).id(from).id(to).outcome()?;
        if output.status.success() {
            return Ok(FilesMove::Done);
        }
        let words = words(&output.stderr);
        // A child that was killed says nothing.
        Ok(FilesMove::Refused(if words.is_empty() { format!("git ended with {}", output.status) } else { words }))
    }

    fn swap(&self, new: ObjectId, expected: ObjectId) -> Result<Swap, GitError> {
        self.user.swap_ref(self.reference, Some(new), Some(expected), self.message)
    }

    /// After the files were asked to move: says so, or takes the reference back.
    fn finish(&self, moved: FilesMove, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        match moved {
            FilesMove::Done => {
                // Until then the new index may still be `index.lock`, which would stop every git after a power cut.
                sync_directory(&self.user.git_dir)?;
                at("files_moved");
                self.sync_files()?;
                at("checked_out");
                Ok(Land::Done)
            }
            FilesMove::Refused(words) => {
                let stands = self.stands()?;
                self.step_back(&stands)?;
                Ok(Land::CheckoutRefused(words))
            }
        }
    }

    /// git brings its index to disk, but not the files it writes; a power cut would leave them empty.
    fn sync_files(&self) -> Result<(), GitError> {
        let mut directories = BTreeSet::new();
        for change in &self.changes {
            let path = self.user.root.join(OsStr::from_bytes(&change.path));
            if look_without_links(&self.user.root, &change.path).is_some_and(|found| found.is_file()) {
                fs::File::open(&path).and_then(|file| file.sync_all()).context("sync", &path)?;
            }
            // Of a file that is gone the directory may be gone too.
            directories.extend(path.ancestors().skip(1).find(|dir| dir.is_dir()).map(Path::to_owned));
        }
        directories.iter().try_for_each(|dir| sync_directory(dir))
    }

    /// Puts files that a power cut left unfinished to what the index says, old or new, so that nobody takes them
    /// for the user's.
    fn mend_unfinished(&self) -> Result<(), GitError> {
        let index = self.index_entries()?;
        let mut restore = Vec::new();
        for change in &self.changes {
            let path = self.user.root.join(OsStr::from_bytes(&change.path));
            match change.new {
                Some(new) if self.is_unfinished(&change.path, new)? => {}
                _ => continue,
            }
            if index.contains_key(&change.path) {
                restore.extend([change.path.as_slice(), b"\0"].concat());
            } else {
                fs::remove_file(&path).context("remove", &path)?;
            }
        }
        if !restore.is_empty() {
            self.git(None, "checkout-index").args(&["-f", "-z", "--stdin"]).input(restore).run()?;
        }
        Ok(())
    }

    /// Whether a file is what a power cut leaves of a blob: cut short, or with blocks that were never written.
    fn is_unfinished(&self, path: &[u8], new: Entry) -> Result<bool, GitError> {
        if !matches!(new.mode, MODE_FILE | MODE_EXECUTABLE)
            || !look_without_links(&self.user.root, path).is_some_and(|found| found.is_file())
        {
            return Ok(false);
        }
        let at = self.user.root.join(OsStr::from_bytes(path));
        let (found, whole) = (fs::read(&at).context("read", &at)?, self.objects.read_blob(new.id)?);
        let partial = found.len() <= whole.len() && found.iter().zip(&whole).all(|(f, w)| f == w || *f == 0);
        Ok(partial && found != whole)
    }

    /// The reference has moved already; the files may be before, behind or in the middle.
    fn catch_up(&self, at: &mut dyn FnMut(&str)) -> Result<Land, GitError> {
        self.mend_unfinished()?;
        let stands = self.stands()?;
        if stands.values().all(|stand| matches!(stand, Stand::After | Stand::Staged)) {
            // The index is written last and in one piece: the files were done. What is staged came later.
            self.sync_files()?;
            at("checked_out");
            return Ok(Land::Done);
        }
        let theirs = |stand: &Stand| matches!(stand, Stand::Dirty | Stand::Staged);
        let dirty: Vec<Vec<u8>> =
            stands.iter().filter(|(_, stand)| theirs(stand)).map(|(path, _)| path.to_vec()).collect();
        if !dirty.is_empty() {
            // Never half: while the index is the old one, the landing has not happened.
            if !stands.values().any(|stand| *stand == Stand::After) {
                self.step_back(&stands)?;
            }
            return Ok(Land::DirtyPaths(dirty));
        }
        self.advance_index(&stands)?;
        self.refresh_index(None)?;
        let moved = self.read_tree(None, &[])?;
        self.finish(moved, at)
    }

    /// Tells the index about files that have moved without it, so that git does not take them for the user's.
    fn advance_index(&self, stands: &Stands<'_>) -> Result<(), GitError> {
        let ahead = self.changes.iter().filter(|change| stands.get(change.path.as_slice()) == Some(&Stand::FileAhead));
        let lines = index_info(self.user.format, ahead.map(|change| (change.path.as_slice(), change.new)));
        if lines.is_empty() {
            return Ok(());
        }
        self.git(None, "update-index").durable().args(&["-z", "--index-info"]).input(lines).run().map(drop)
    }

    /// Puts files that had moved back to what the index says, then the reference.
    fn step_back(&self, stands: &Stands<'_>) -> Result<(), GitError> {
        let mut restore = Vec::new();
        for change in self.changes.iter().filter(|change| stands.get(change.path.as_slice()) == Some(&Stand::FileAhead))
        {
            match change.old {
                Some(_) => restore.extend([change.path.as_slice(), b"\0"].concat()),
                // It has the landing's own bytes and was not there before.
                None => drop(fs::remove_file(self.user.root.join(OsStr::from_bytes(&change.path)))),
            }
        }
        if !restore.is_empty() {
            self.git(None, "checkout-index").args(&["-f", "-z", "--stdin"]).input(restore).run()?;
        }
        // If somebody moved it meanwhile, it is theirs.
        let _ = self.swap(self.from, self.to)?;
        Ok(())
    }

    /// Looks at every touched path.
    fn stands(&self) -> Result<Stands<'_>, GitError> {
        let index = self.index_entries()?;
        let files = self.file_entries()?;
        let mut stands = Stands::new();
        for change in &self.changes {
            let path = change.path.as_slice();
            let stand = stand(change, index.get(path).copied(), files.get(path).copied());
            stands.insert(path, stand);
        }
        Ok(stands)
    }

    fn index_entries(&self) -> Result<Entries, GitError> {
        let touched: Vec<&[u8]> = self.changes.iter().map(|change| change.path.as_slice()).collect();
        let mut entries = Entries::new();
        for group in chunks(&touched) {
            entries.extend(parse_listing(&self.user.git("ls-files").args(&["-s", "-z"]).paths(&group).run()?)?);
        }
        Ok(entries)
    }

    /// What the files of the touched paths would be as objects, with the line endings of the user's git and no filter.
    fn file_entries(&self) -> Result<BTreeMap<&[u8], Entry>, GitError> {
        let mut entries = BTreeMap::new();
        let mut regular = Vec::new();
        for change in &self.changes {
            let path = self.user.root.join(OsStr::from_bytes(&change.path));
            match kind_of(&self.user.root, &change.path) {
                Some(MODE_SYMLINK) => {
                    if let Some(id) = symlink_id(&path, self.user.format) {
                        entries.insert(change.path.as_slice(), Entry { mode: MODE_SYMLINK, id });
                    }
                }
                // A submodule's directory says nothing about its commit: it is as it was.
                Some(MODE_GITLINK) => {
                    let entry = change.old.or(change.new).filter(|entry| entry.mode == MODE_GITLINK);
                    entries.extend(entry.map(|entry| (change.path.as_slice(), entry)));
                }
                Some(mode) => regular.push((change.path.as_slice(), mode)),
                None => {}
            }
        }
        let paths: Vec<&[u8]> = regular.iter().map(|(path, _)| *path).collect();
        let mut modes = regular.iter();
        for group in chunks(&paths) {
            let ids = self.git(None, "hash-object").paths(&group).run()?;
            for (line, (path, mode)) in ids.split(|byte| *byte == b'\n').zip(modes.by_ref().take(group.len())) {
                entries.insert(path, Entry { mode: *mode, id: parse_id("hash-object", line)? });
            }
        }
        Ok(entries)
    }
}

/// How each touched path stands.
type Stands<'a> = BTreeMap<&'a [u8], Stand>;

fn stand(change: &TreeChange, index: Option<Entry>, file: Option<Entry>) -> Stand {
    if index == change.new {
        return Stand::After;
    }
    match (index == change.old, file) {
        (true, file) if file == change.old => Stand::Before,
        (true, file) if file == change.new => Stand::FileAhead,
        (true, _) => Stand::Dirty,
        (false, _) => Stand::Staged,
    }
}

/// The mode git would give to a file, `None` if there is none or a symlink stands on the way to it.
fn kind_of(root: &Path, path: &[u8]) -> Option<u32> {
    let found = look_without_links(root, path)?;
    let kind = found.file_type();
    if kind.is_symlink() {
        Some(MODE_SYMLINK)
    } else if kind.is_dir() {
        Some(MODE_GITLINK)
    } else {
        Some(if found.permissions().mode() & 0o100 == 0 { MODE_FILE } else { MODE_EXECUTABLE })
    }
}

fn look_without_links(root: &Path, path: &[u8]) -> Option<fs::Metadata> {
    let mut at = root.to_owned();
    let mut names = path.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        at.push(OsStr::from_bytes(name));
        let found = fs::symlink_metadata(&at).ok()?;
        if names.peek().is_none() {
            return Some(found);
        }
        if !found.is_dir() {
            return None;
        }
    }
    None
}

fn symlink_id(path: &Path, format: gix_hash::Kind) -> Option<ObjectId> {
    let target = fs::read_link(path).ok()?;
    gix_object::compute_hash(format, gix_object::Kind::Blob, target.as_os_str().as_bytes()).ok()
}

/// What stands where a new file goes, or on the way to it, and does not leave with the same change.
fn obstacles(root: &Path, path: &[u8], leaving: &BTreeSet<&[u8]>) -> Vec<Vec<u8>> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in slashes.chain([path.len()]) {
        let part = &path[..end];
        match fs::symlink_metadata(root.join(OsStr::from_bytes(part))) {
            Err(_) => return Vec::new(),
            Ok(found) if found.is_dir() => {}
            Ok(_) if leaving.contains(part) => return Vec::new(),
            Ok(_) => return vec![part.to_vec()],
        }
    }
    files_that_stay(root, path, leaving)
}

/// The files in a directory that do not leave with the change.
fn files_that_stay(root: &Path, directory: &[u8], leaving: &BTreeSet<&[u8]>) -> Vec<Vec<u8>> {
    let mut due: Vec<PathBuf> = vec![root.join(OsStr::from_bytes(directory))];
    let mut stay = Vec::new();
    while let Some(dir) = due.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let relative = path.strip_prefix(root).map(|path| path.as_os_str().as_bytes().to_vec());
            match (entry.file_type(), relative) {
                (Ok(kind), _) if kind.is_dir() => due.push(path),
                (_, Ok(relative)) if !leaving.contains(relative.as_slice()) => stay.push(relative),
                _ => {}
            }
        }
    }
    stay
}
