//! Walking over what an agent left: the upper directory of an overlay, or a whole checkout.
//!
//! The two differ in one thing only: what the absence of a name means. In an upper directory an absent name is
//! unchanged and a whiteout is a deletion; in a whole checkout, and in a directory that hides the one below it, an
//! absent name is a deletion.
//!
//! A new file is left out if the base ignores it and the candidate does too. The base alone would leave out a file that
//! the same change stops ignoring; the candidate alone would let an agent decide what is seen of its work. What a build
//! made is left out in the same way ([`run::gate::build_products`]).
//!
//! Names are hostile input. They are opened one at a time, relative to a descriptor, never through a link; what is
//! read is looked at first.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use contract::hash::sha256;
use gix_ignore::glob::pattern::Case;
use run::gate::build_products::{self, HEAD_BYTES};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::capture::{CaptureRules, IgnoredFile, Odd, OddKind};
use super::files::{blob_id, blob_id_of};
use super::line_endings::{ATTRIBUTES, Attributes};
use super::stat_cache::StatCache;
use crate::git::blob::LARGE_BYTES_MIN;
use crate::git::objects::{Objects, Reader};
use crate::git::tree::{self, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_SYMLINK, join};
use crate::git::{Entry, GitError, ObjectId, is_git_directory, sweep};

/// Where the rules of a directory are.
const RULES: &CStr = c".gitignore";

/// How deep a tree may be: the same as for patches. Each level holds a descriptor.
const DEPTH_MAX: usize = 128;

/// Largest `.gitignore` of a candidate that is read, unless the base's own is larger. What is longer ignores nothing: an
/// agent wrote it, and every rule is tried on every name.
const RULES_BYTES_MAX: u64 = 64 << 10;

/// How an overlay marks a directory that hides what is below it. Only the prefix of the mount's own mode counts.
const OPAQUE: &str = "user.overlay.opaque";

/// What kind of directory is walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The upper directory of an overlay.
    Upper,
    /// A checkout.
    Whole,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// How the base has to be edited.
    pub(super) edits: Vec<(Vec<u8>, Option<Entry>)>,
    pub(super) ignored: Vec<IgnoredFile>,
    pub(super) ignored_names: Vec<Vec<u8>>,
    pub(super) ignored_more: u64,
    pub(super) ignored_more_bytes: u64,
    pub(super) ignored_at: Vec<Vec<u8>>,
    pub(super) odd: Vec<Odd>,
    pub(super) bytes: u64,
    ignored_bytes: u64,
}

impl Found {
    fn ignored_count(&self) -> u64 {
        self.ignored.len() as u64 + self.ignored_more
    }
}

/// One walk.
pub(super) struct Walk<'a> {
    objects: &'a Objects,
    reader: &'a Reader<'a>,
    rules: &'a CaptureRules,
    view: View,
    cache: Option<&'a mut StatCache>,
    /// The base's rules that hold in the directory being walked, the outermost first.
    base_rules: gix_ignore::Search,
    /// The same of the candidate.
    candidate_rules: gix_ignore::Search,
    /// The base's attributes that hold in the directory being walked.
    attributes: Attributes,
    found: Found,
}

/// A directory on the way.
struct Directory<'d> {
    handle: &'d OwnedFd,
    path: &'d [u8],
    /// What the base has there.
    base: Option<ObjectId>,
    /// Whether the base's names are deleted unless they are found here.
    complete: bool,
    /// Who ignores everything untracked in it.
    ignored: Ignored,
    depth: usize,
}

/// Who ignores something.
#[derive(Debug, Clone, Copy, Default)]
struct Ignored {
    by_base: bool,
    by_candidate: bool,
}

impl Ignored {
    fn by_both(self) -> bool {
        self.by_base && self.by_candidate
    }
}

/// An entry of a directory.
struct Name<'e> {
    name: &'e CStr,
    path: Vec<u8>,
    stat: Stat,
    /// What the base has there.
    before: Option<Entry>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        reader: &'a Reader<'a>,
        rules: &'a CaptureRules,
        view: View,
        cache: Option<&'a mut StatCache>,
    ) -> Walk<'a> {
        let (base_rules, candidate_rules) = (gix_ignore::Search::default(), gix_ignore::Search::default());
        let (attributes, found) = (Attributes::default(), Found::default());
        Walk { objects, reader, rules, view, cache, base_rules, candidate_rules, attributes, found }
    }

    pub(super) fn run(mut self, root: BorrowedFd<'_>, base: ObjectId) -> Result<Found, GitError> {
        let root = root.try_clone_to_owned().map_err(|error| at(b"", error))?;
        if let Some(cache) = &mut self.cache {
            cache.begin();
        }
        let mode = rustix::fs::fstat(&root).map_err(|error| at(b"", error))?.st_mode;
        if !Mode::from_raw_mode(mode).contains(Mode::RWXU) {
            rustix::fs::fchmod(&root, Mode::RWXU).map_err(|error| at(b"", error))?;
        }
        let complete = self.hides(&root);
        let ignored = Ignored::default();
        let root = Directory { handle: &root, path: b"", base: Some(base), complete, ignored, depth: 0 };
        self.directory(&root)?;
        Ok(self.found)
    }

    /// Recursion is bounded by [`DEPTH_MAX`].
    fn directory(&mut self, dir: &Directory<'_>) -> Result<(), GitError> {
        let lines = self.reader.tree_or_nothing(dir.base)?;
        let mut before: BTreeMap<&[u8], Entry> = lines.iter().map(|line| (&*line.name, line.entry)).collect();
        let mut names = sweep::names_in(dir.handle).map_err(|error| at(dir.path, error))?;
        // The order decides which of too many files are the ones too many.
        names.sort();
        let (of_base, of_candidate) = self.enter_rules(dir, before.get(RULES.to_bytes()), &names)?;
        let has_attributes = self.enter_attributes(dir, before.get(ATTRIBUTES))?;
        for name in &names {
            let path = join(dir.path, name.to_bytes());
            let before = before.remove(name.to_bytes());
            if self.is_left_out(&path) {
                continue;
            }
            if self.is_full(&path) {
                return Ok(());
            }
            let stat = rustix::fs::statat(dir.handle, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(|error| at(&path, error))?;
            self.entry(dir, Name { name, path, stat, before })?;
        }
        if dir.complete {
            for (name, entry) in before {
                self.delete(&join(dir.path, name), Some(entry))?;
            }
        }
        if has_attributes {
            self.attributes.leave();
        }
        if of_base {
            self.base_rules.patterns.pop();
        }
        if of_candidate {
            self.candidate_rules.patterns.pop();
        }
        Ok(())
    }

    /// Whether more has changed than may; the first path that is too many is told.
    fn is_full(&mut self, path: &[u8]) -> bool {
        let full = self.found.edits.len() > self.rules.paths_max;
        if full && !self.found.odd.iter().any(|odd| odd.kind == OddKind::TooMany) {
            self.found.odd.push(Odd { path: path.to_vec(), kind: OddKind::TooMany, ignored: false });
        }
        full
    }

    fn entry(&mut self, dir: &Directory<'_>, found: Name<'_>) -> Result<(), GitError> {
        let odd = match FileType::from_raw_mode(found.stat.st_mode) {
            FileType::CharacterDevice if self.view == View::Upper && found.stat.st_rdev == 0 => {
                return self.delete(&found.path, found.before);
            }
            _ if is_git_directory(found.name.to_bytes()) => OddKind::NestedRepository,
            FileType::Directory if dir.depth >= DEPTH_MAX => OddKind::TooDeep,
            FileType::Directory => return self.subdirectory(dir, found),
            FileType::RegularFile | FileType::Symlink => return self.leaf(dir, found),
            FileType::Fifo => OddKind::Fifo,
            FileType::Socket => OddKind::Socket,
            _ => OddKind::Device,
        };
        let ignored = self.is_ignored(dir, &found.path);
        self.delete(&found.path, found.before)?;
        self.found.odd.push(Odd { path: found.path, kind: odd, ignored });
        Ok(())
    }

    fn subdirectory(&mut self, dir: &Directory<'_>, found: Name<'_>) -> Result<(), GitError> {
        let handle = open_directory(dir.handle, &found).map_err(|error| at(&found.path, error))?;
        let base = found.before.filter(|entry| entry.is_tree()).map(|entry| entry.id);
        let is_built = self.is_built_directory(dir, &found)?;
        let ignored = Ignored {
            by_base: is_built || dir.ignored.by_base || matches(&self.base_rules, &found.path, true),
            by_candidate: is_built || dir.ignored.by_candidate || matches(&self.candidate_rules, &found.path, true),
        };
        let below = Directory {
            handle: &handle,
            path: &found.path,
            base,
            // Below a directory that hides there is nothing left to hide, so nothing there is marked.
            complete: dir.complete || self.hides(&handle),
            ignored,
            depth: dir.depth + 1,
        };
        let (edits, count) = (self.found.edits.len(), self.found.ignored_count());
        self.directory(&below)?;
        if ignored.by_both() && !dir.ignored.by_both() && self.found.ignored_count() > count {
            self.found.ignored_at.push(found.path.clone());
        }
        // An empty directory is what a submodule looks like here; one with files in it is something else.
        let is_submodule = found.before.is_some_and(|entry| entry.mode == MODE_GITLINK);
        let stays = is_submodule && self.found.edits.len() == edits;
        if base.is_none() && !stays { self.delete(&found.path, found.before) } else { Ok(()) }
    }

    /// Whether a directory hides what the base has there.
    fn hides(&self, dir: &OwnedFd) -> bool {
        self.view == View::Whole || is_opaque(dir)
    }

    fn leaf(&mut self, dir: &Directory<'_>, found: Name<'_>) -> Result<(), GitError> {
        let tracked = found.before.filter(|entry| !entry.is_tree());
        let is_named = self.rules.named.contains(&found.path);
        let is_new = tracked.is_none() && !is_named;
        let now = if is_new && (self.is_ignored(dir, &found.path) || self.is_built(dir, &found)?) {
            self.ignore(dir, &found)?;
            if !dir.ignored.by_both() {
                self.found.ignored_at.push(found.path.clone());
            }
            None
        } else {
            self.read(dir, &found, tracked)?
        };
        match (tracked, now) {
            (Some(before), Some(now)) if is_same(before, now) => {}
            (_, Some(now)) => {
                self.delete(&found.path, found.before.filter(|entry| entry.is_tree()))?;
                self.found.edits.push((found.path, Some(now)));
            }
            (_, None) => self.delete(&found.path, found.before)?,
        }
        Ok(())
    }

    /// What a file or link is now, stored if it is not what it was; `None` if it is too large.
    fn read(
        &mut self,
        dir: &Directory<'_>,
        found: &Name<'_>,
        tracked: Option<Entry>,
    ) -> Result<Option<Entry>, GitError> {
        let size = found.stat.st_size as u64;
        let mode = mode_of(&found.stat);
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&found.path, &found.stat));
        let (mut id, mut content) = match cached {
            Some(id) => (id, None),
            None if size > self.rules.file_bytes_max && !self.has_size(tracked, size)? => {
                return Ok(self.too_large(dir, found));
            }
            None => {
                let mut content = Content::of(dir.handle, found).map_err(|error| at(&found.path, error))?;
                let id = content.id(self.objects.format).map_err(|error| at(&found.path, error))?;
                (id, Some(content))
            }
        };
        let mut is_converted = false;
        if tracked.is_none_or(|before| before.id != id)
            && let Some(Content::Small(bytes)) = &mut content
            && let Some(stored) = self.stored(&found.path, mode, bytes, tracked)?
        {
            id = blob_id(self.objects.format, &stored).ok_or_else(|| at(&found.path, collides()))?;
            (*bytes, is_converted) = (stored, true);
        }
        let now = Entry { mode, id };
        if !tracked.is_some_and(|before| is_same(before, now)) {
            if size > self.rules.file_bytes_max || self.found.bytes + size > self.rules.total_bytes_max {
                return Ok(self.too_large(dir, found));
            }
            self.found.bytes += size;
            match &content {
                Some(Content::Small(bytes)) => drop(self.objects.write_blob(bytes)?),
                Some(Content::Large(file)) => self.objects.write_large_blob(id, file, size)?,
                None => {}
            }
        }
        if let (Some(cache), Some(_)) = (&mut self.cache, content.filter(|_| !is_converted)) {
            cache.put(&found.path, &found.stat, id);
        }
        Ok(Some(now))
    }

    /// What git would store of a file whose line endings it converts.
    fn stored(
        &self,
        path: &[u8],
        mode: u32,
        bytes: &[u8],
        tracked: Option<Entry>,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let Some(auto) = self.rules.line_endings.as_ref().filter(|_| mode_is_file(mode)) else { return Ok(None) };
        let before = || match tracked.filter(|entry| mode_is_file(entry.mode)) {
            Some(entry) => Ok(Some(self.reader.find(entry.id)?.1)),
            None => Ok(None),
        };
        self.attributes.stored(path, bytes, auto, before)
    }

    /// Adds the base's attributes of a directory, where they count; answers whether there are any.
    fn enter_attributes(&mut self, dir: &Directory<'_>, base: Option<&Entry>) -> Result<bool, GitError> {
        let counts = |entry: &&Entry| self.rules.line_endings.is_some() && mode_is_file(entry.mode);
        let Some(file) = base.filter(counts) else { return Ok(false) };
        self.attributes.enter(dir.path, &self.reader.find(file.id)?.1);
        Ok(true)
    }

    /// A file as large as the base's own may be that one, touched; only reading it tells.
    fn has_size(&self, tracked: Option<Entry>, size: u64) -> Result<bool, GitError> {
        match tracked.filter(|entry| entry.mode != MODE_GITLINK) {
            Some(entry) => Ok(self.reader.size(entry.id)? == size),
            None => Ok(false),
        }
    }

    fn too_large(&mut self, dir: &Directory<'_>, found: &Name<'_>) -> Option<Entry> {
        let (path, ignored) = (found.path.clone(), dir.ignored.by_both());
        self.found.odd.push(Odd { path, kind: OddKind::TooLarge, ignored });
        None
    }

    fn ignore(&mut self, dir: &Directory<'_>, found: &Name<'_>) -> Result<(), GitError> {
        let size = found.stat.st_size as u64;
        if self.found.ignored.len() >= self.rules.ignored_files_max {
            self.found.ignored_more += 1;
            self.found.ignored_more_bytes = self.found.ignored_more_bytes.saturating_add(size);
            if self.found.ignored_names.len() < self.rules.ignored_names_max {
                self.found.ignored_names.push(found.path.clone());
            }
            return Ok(());
        }
        let mut content = None;
        if size <= self.rules.ignored_bytes_max.saturating_sub(self.found.ignored_bytes) {
            self.found.ignored_bytes += size;
            let bytes = read_leaf(dir.handle, found).map_err(|error| at(&found.path, error))?;
            content = Some(sha256(&bytes));
        }
        self.found.ignored.push(IgnoredFile { path: found.path.clone(), size, sha256: content });
        Ok(())
    }

    /// Whether a new file is what a build makes, and nothing that the contract speaks of.
    fn is_built(&self, dir: &Directory<'_>, found: &Name<'_>) -> Result<bool, GitError> {
        let is_file = FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile;
        if !self.rules.leaves_builds_out || !is_file || self.rules.speaks_of(&found.path) {
            return Ok(false);
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let read = open_leaf(dir.handle, found).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
        read.map_err(|error| at(&found.path, error))?;
        Ok(build_products::is_built(found.name.to_bytes(), &head))
    }

    /// Whether a new directory is one that tools fill, beside a file of the base that says so where its name alone does not.
    fn is_built_directory(&self, dir: &Directory<'_>, found: &Name<'_>) -> Result<bool, GitError> {
        if !self.rules.leaves_caches_out || found.before.is_some() || self.rules.names(&found.path) {
            return Ok(false);
        }
        let lines = dir.base.map_or(Ok(Arc::default()), |base| self.reader.tree(base))?;
        let has = |name: &[u8]| lines.iter().any(|line| *line.name == *name && mode_is_file(line.entry.mode));
        Ok(build_products::is_built_directory(found.name.to_bytes(), has))
    }

    /// Deletes what the base has at a path, with everything below it.
    fn delete(&mut self, path: &[u8], before: Option<Entry>) -> Result<(), GitError> {
        match before {
            Some(_) if self.is_left_out(path) => Ok(()),
            Some(entry) if entry.is_tree() => {
                let edits = &mut self.found.edits;
                tree::walk(self.reader, entry.id, &mut |below, _, _| edits.push((join(path, below), None)))
            }
            Some(_) => {
                self.found.edits.push((path.to_vec(), None));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The repository itself and norma's state are not part of what an agent made.
    fn is_left_out(&self, path: &[u8]) -> bool {
        path == b".git" || self.rules.state_directory.as_deref() == Some(path)
    }

    /// Adds the rules of a directory: those that the base has, and those that the candidate has. Answers of which there
    /// are any.
    fn enter_rules(
        &mut self,
        dir: &Directory<'_>,
        base: Option<&Entry>,
        names: &[CString],
    ) -> Result<(bool, bool), GitError> {
        let of_base = match base.filter(|entry| mode_is_file(entry.mode)) {
            Some(file) => Some(self.reader.find(file.id)?.1),
            None => None,
        };
        let of_candidate = self.rules_left(dir, of_base.as_deref(), names)?;
        let has = (of_base.is_some(), of_candidate.is_some());
        let source = PathBuf::from(OsStr::from_bytes(&join(dir.path, RULES.to_bytes())));
        let both = [(&mut self.base_rules, of_base), (&mut self.candidate_rules, of_candidate)];
        for (rules, bytes) in both.into_iter().filter_map(|(rules, bytes)| Some((rules, bytes?))) {
            let parse = gix_ignore::search::Ignore { support_precious: false };
            let added = rules.add_patterns_buffer(&bytes, source.clone(), Some("".as_ref()), parse);
            added.map_err(|error| at(dir.path, error))?;
        }
        Ok(has)
    }

    /// What the agent left of a directory's rules: the base's if it did not touch them, none if they are gone or are no
    /// regular file. As for git, they count whether they are part of the tree or not.
    fn rules_left(
        &self,
        dir: &Directory<'_>,
        base: Option<&[u8]>,
        names: &[CString],
    ) -> Result<Option<Vec<u8>>, GitError> {
        let Ok(place) = names.binary_search_by(|name| name.as_c_str().cmp(RULES)) else {
            return Ok(base.filter(|_| !dir.complete).map(<[u8]>::to_vec));
        };
        let (name, path) = (names[place].as_c_str(), join(dir.path, RULES.to_bytes()));
        let failed = |error: io::Error| at(&join(dir.path, RULES.to_bytes()), error);
        let stat = rustix::fs::statat(dir.handle, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| failed(e.into()))?;
        let bytes_max = RULES_BYTES_MAX.max(base.map_or(0, <[u8]>::len) as u64);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size as u64 > bytes_max {
            return Ok(None);
        }
        read_leaf(dir.handle, &Name { name, path, stat, before: None }).map(Some).map_err(failed)
    }

    /// Whether a file is ignored.
    fn is_ignored(&self, dir: &Directory<'_>, path: &[u8]) -> bool {
        (dir.ignored.by_base || matches(&self.base_rules, path, false))
            && (dir.ignored.by_candidate || matches(&self.candidate_rules, path, false))
    }
}

/// Whether rules ignore a path, given that they do not ignore a directory it is in.
fn matches(rules: &gix_ignore::Search, path: &[u8], is_dir: bool) -> bool {
    let found = rules.pattern_matching_relative_path(path.into(), Some(is_dir), Case::Sensitive);
    found.is_some_and(|found| !found.pattern.is_negative())
}

/// Whether a directory of an upper layer hides what the layers below have there.
pub(super) fn is_opaque(dir: &OwnedFd) -> bool {
    let mut value = [0; 8];
    rustix::fs::fgetxattr(dir, OPAQUE, &mut value).is_ok_and(|length| &value[..length] == b"y")
}

fn at(path: &[u8], error: impl Into<io::Error>) -> GitError {
    let path = PathBuf::from(OsStr::from_bytes(if path.is_empty() { b"." } else { path }));
    GitError::Io { action: "capture", path, source: error.into() }
}

fn mode_is_file(mode: u32) -> bool {
    mode & 0o170_000 == 0o100_000
}

/// Old trees have modes that git does not write any more; they mean the same.
fn is_same(before: Entry, now: Entry) -> bool {
    let executable = |mode: u32| mode_is_file(mode).then_some(mode & 0o100);
    let same_mode = before.mode == now.mode
        || (executable(before.mode).is_some() && executable(before.mode) == executable(now.mode));
    before.id == now.id && same_mode
}

fn mode_of(stat: &Stat) -> u32 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => MODE_SYMLINK,
        _ if stat.st_mode & 0o100 != 0 => MODE_EXECUTABLE,
        _ => MODE_FILE,
    }
}

/// Opens a directory, giving itself the permission to if an agent took it away.
fn open_directory(dir: &OwnedFd, found: &Name<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if !Mode::from_raw_mode(found.stat.st_mode).contains(Mode::RWXU) {
        rustix::fs::chmodat(dir, found.name, Mode::RWXU, AtFlags::empty())?;
    }
    Ok(rustix::fs::openat(dir, found.name, flags, Mode::empty())?)
}

/// What a file or link holds. A large file is read piece by piece.
enum Content {
    Small(Vec<u8>),
    Large(File),
}

impl Content {
    fn of(dir: &OwnedFd, found: &Name<'_>) -> io::Result<Content> {
        let is_file = FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile;
        match is_file && found.stat.st_size as u64 >= LARGE_BYTES_MIN {
            true => open_leaf(dir, found).map(Content::Large),
            false => read_leaf(dir, found).map(Content::Small),
        }
    }

    /// Its id as a blob.
    fn id(&mut self, format: gix_hash::Kind) -> io::Result<ObjectId> {
        let id = match self {
            Content::Small(bytes) => blob_id(format, bytes),
            Content::Large(file) => {
                let size = file.metadata()?.len();
                blob_id_of(format, file, size)?
            }
        };
        id.ok_or_else(collides)
    }
}

fn collides() -> io::Error {
    io::Error::other("its content was made to collide with another")
}

/// The bytes of a file, or the target of a link.
fn read_leaf(dir: &OwnedFd, found: &Name<'_>) -> io::Result<Vec<u8>> {
    if FileType::from_raw_mode(found.stat.st_mode) == FileType::Symlink {
        return Ok(rustix::fs::readlinkat(dir, found.name, Vec::new())?.into_bytes());
    }
    let mut bytes = Vec::with_capacity(found.stat.st_size as usize);
    open_leaf(dir, found)?.take(found.stat.st_size as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file, giving itself the permission to if an agent took it away.
fn open_leaf(dir: &OwnedFd, found: &Name<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(dir.as_fd(), found.name, flags, Mode::empty());
    let file = match open() {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(dir, found.name, Mode::RUSR, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if stat.st_ino != found.stat.st_ino || stat.st_size != found.stat.st_size {
        return Err(io::Error::other("it changed while it was looked at"));
    }
    Ok(File::from(file))
}
