//! What the files of a layer look like, as one digest, and whether they still do.
//!
//! Everything an agent and its tests see below their own changes comes out of a layer. Something that was changed,
//! removed or added there behind norma's back could have tests pass that fail on the tree itself, so a layer is compared
//! with its digest before a process first uses it, unless that was done a moment ago (`looked.rs`). Content is not read: times can be set by anybody, but not the moment
//! at which an inode was last changed.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::looked::{self, Directory, Look};
use super::shelf::Shelf;
use crate::git::GitError;

/// A file beside the directory of a layer's files that belongs to them, where there is one.
pub(super) const BESIDE: &str = "index.marks";

/// How much of a directory is asked for at once.
const NAMES_BYTES: usize = 64 << 10;

/// How much is gathered before it is hashed: short pieces take longer.
const HASHED_BYTES: usize = 64 << 10;

/// What the files of a layer looked like when it was complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listing {
    /// Of every path its mode, size, inode and times.
    digest: String,
    /// When the last of them was changed, in nanoseconds since 1970: what is wrong later is newer.
    newest: u64,
    /// The time that counts.
    time: Time,
}

/// Which time of a file tells that it is what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Time {
    /// When its inode was last changed, which nobody can set.
    Changed,
    /// When it was last written to. For files with names in other layers, too: adding and removing a name is a
    /// change of the inode.
    Modified,
}

impl Time {
    /// In nanoseconds since 1970.
    fn of(self, stat: &Stat) -> u64 {
        let (seconds, nanos) = match self {
            Time::Changed => (stat.st_ctime, stat.st_ctime_nsec),
            Time::Modified => (stat.st_mtime, stat.st_mtime_nsec),
        };
        u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000_000).saturating_add(nanos)
    }
}

/// How a layer is not what it was.
#[derive(Debug)]
pub(super) struct Difference {
    path: PathBuf,
    what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.what)
    }
}

impl Listing {
    /// Lists what is in a directory now.
    pub(super) fn of(root: &Path, time: Time) -> io::Result<Listing> {
        Listing::look(root, time).map(|(listing, _)| listing)
    }

    /// What tells it from any other.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    fn look(root: &Path, time: Time) -> io::Result<(Listing, Look)> {
        let mut look = Look::default();
        let mut hashed = Hashed { hasher: blake3::Hasher::new(), bytes: Vec::with_capacity(2 * HASHED_BYTES) };
        let (mut newest, mut is_text) = (0, true);
        visit(root, &mut |path, stat| {
            let at = time.of(stat);
            newest = newest.max(at);
            hashed.add(path, stat, at);
            look.entries += 1;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                match Directory::of(path, stat) {
                    Some(directory) => look.directories.push(directory),
                    None => is_text = false,
                }
            }
        })
        .map_err(|problem| problem.1)?;
        if !is_text {
            look.directories.clear();
        }
        Ok((Listing { digest: hashed.finish(), newest, time }, look))
    }

    /// Compares it with what is in the directory now.
    pub(super) fn check(&self, root: &Path) -> Result<Look, Difference> {
        match Listing::look(root, self.time) {
            Ok((now, look)) if now == *self => Ok(look),
            _ => Err(self.explain(root)),
        }
    }

    /// Finds the first path that was changed since. Where something was removed, that is its directory.
    fn explain(&self, root: &Path) -> Difference {
        let mut first = None;
        let visited = visit(root, &mut |path, stat| {
            if first.is_none() && self.time.of(stat) > self.newest {
                let what = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => "something was added to it or removed from it, or it was changed itself",
                    _ => "it was changed or added",
                };
                first = Some((path.to_vec(), what.to_owned()));
            }
        });
        let failed = visited.err().map(|(path, error)| (path, error.to_string()));
        let found = first.or(failed).unwrap_or_else(|| (Vec::new(), "it is another one".to_owned()));
        Difference { path: root.join(OsStr::from_bytes(&found.0)), what: found.1 }
    }
}

/// Entries on their way into a digest.
struct Hashed {
    hasher: blake3::Hasher,
    bytes: Vec<u8>,
}

impl Hashed {
    fn add(&mut self, path: &[u8], stat: &Stat, time: u64) {
        self.bytes.extend_from_slice(path);
        self.bytes.push(0);
        self.bytes.extend_from_slice(&stat.st_mode.to_le_bytes());
        let numbers = [stat.st_size as u64, stat.st_ino, Time::Modified.of(stat), time];
        numbers.iter().for_each(|number| self.bytes.extend_from_slice(&number.to_le_bytes()));
        if self.bytes.len() >= HASHED_BYTES {
            self.hasher.update(&self.bytes);
            self.bytes.clear();
        }
    }

    fn finish(mut self) -> String {
        self.hasher.update(&self.bytes).finalize().to_hex().to_string()
    }
}

/// Where something failed, and how.
type Problem = (Vec<u8>, io::Error);

fn failed(path: &[u8]) -> impl Fn(Errno) -> Problem + '_ {
    |error| (path.to_vec(), error.into())
}

/// Calls `each` with the path and the look of a directory and of everything below it, always in the same order. No link
/// is followed.
fn visit(root: &Path, each: &mut dyn FnMut(&[u8], &Stat)) -> Result<(), Problem> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::open(root, flags, Mode::empty()).map_err(failed(b""))?;
    each(b"", &rustix::fs::fstat(&top).map_err(failed(b""))?);
    if let Some(beside) = root.parent().map(|dir| dir.join(BESIDE)) {
        match rustix::fs::lstat(&beside) {
            Err(Errno::NOENT) => {}
            stat => each(b"../index.marks", &stat.map_err(failed(b"../index.marks"))?),
        }
    }
    let (mut names, mut path, mut due) = (Names::default(), Vec::new(), vec![Vec::new()]);
    while let Some(dir) = due.pop() {
        let opened: OwnedFd;
        let handle = match dir.as_slice() {
            b"" => &top,
            below => {
                opened = rustix::fs::openat(&top, below, flags, Mode::empty()).map_err(failed(below))?;
                &opened
            }
        };
        names.read(handle).map_err(failed(&dir))?;
        for name in names.sorted() {
            path.clear();
            path.extend_from_slice(&dir);
            path.extend_from_slice(if dir.is_empty() { b"" } else { b"/" });
            path.extend_from_slice(name.to_bytes());
            let stat = rustix::fs::statat(handle, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed(&path))?;
            each(&path, &stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                due.push(path.clone());
            }
        }
    }
    Ok(())
}

/// The names in a directory, one after the other in one piece of memory that is used again for the next.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    /// Where each begins and, behind its zero byte, ends.
    places: Vec<(usize, usize)>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Names {
    fn read(&mut self, dir: &OwnedFd) -> rustix::io::Result<()> {
        self.bytes.clear();
        self.places.clear();
        self.buffer.resize(NAMES_BYTES, MaybeUninit::uninit());
        let mut entries = RawDir::new(dir, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes_with_nul();
            if !matches!(name, b".\0" | b"..\0") {
                let begin = self.bytes.len();
                self.bytes.extend_from_slice(name);
                self.places.push((begin, self.bytes.len()));
            }
        }
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|left, right| bytes[left.0..left.1].cmp(&bytes[right.0..right.1]));
        Ok(())
    }

    fn sorted(&self) -> impl Iterator<Item = &CStr> {
        let name = |(begin, end): &(usize, usize)| CStr::from_bytes_with_nul(&self.bytes[*begin..*end]);
        self.places.iter().map(move |place| name(place).expect("BUG: a name ends with its only zero byte"))
    }
}

/// What this process found of the layers that it has looked at, by the directories of their files. One look counts for all of its
/// threads, for as long as it would for another process.
static VERDICTS: Mutex<Option<Verdicts>> = Mutex::new(None);

type Verdicts = HashMap<PathBuf, (Listing, Verdict)>;

#[derive(Debug, Clone, Copy)]
struct Verdict {
    is_sound: bool,
    at: Instant,
}

impl Verdict {
    fn now(is_sound: bool) -> Verdict {
        Verdict { is_sound, at: Instant::now() }
    }

    /// What is damaged stays so until it is set aside.
    fn counts(self) -> bool {
        !self.is_sound || self.at.elapsed() < looked::COUNTS
    }
}

/// Whether the files of a layer are what they were when it was made; looked at every few minutes.
pub(super) fn is_sound(files: &Path, listing: &Listing) -> bool {
    with_verdicts(|verdicts| {
        let known = verdicts.get(files).filter(|(known, verdict)| known == listing && verdict.counts());
        if let Some((_, verdict)) = known {
            return verdict.is_sound;
        }
        let before = looked::age(files, listing.digest()).and_then(|age| Instant::now().checked_sub(age));
        let verdict = match before {
            Some(at) => Verdict { is_sound: true, at },
            None => Verdict::now(is_sound_now(files, listing)),
        };
        verdicts.insert(files.to_owned(), (listing.clone(), verdict));
        verdict.is_sound
    })
}

fn is_sound_now(files: &Path, listing: &Listing) -> bool {
    match listing.check(files) {
        Ok(look) => {
            looked::note(files, listing.digest(), look);
            true
        }
        Err(difference) => {
            let name = files.parent().and_then(Path::file_name).unwrap_or_default().display();
            tracing::warn!(target: "norma::workspace", "the layer {name} was changed after it was made, and is made again: {difference}");
            false
        }
    }
}

/// Notes the files of a layer that was just made, and listed.
pub(super) fn is_made(files: &Path, listing: &Listing) {
    with_verdicts(|verdicts| drop(verdicts.insert(files.to_owned(), (listing.clone(), Verdict::now(true)))));
}

/// Has nobody find the layers of a shelf that this process found to be something else than what was made. Only for who
/// holds the shelf's lock.
pub(super) fn set_damaged_aside(shelf: &Shelf) -> Result<(), GitError> {
    let layers = shelf.layers();
    let is_damaged = |files: &PathBuf, sound: bool| !sound && files.ancestors().nth(2) == Some(&layers);
    let damaged: Vec<_> =
        with_verdicts(|known| known.extract_if(|files, it| is_damaged(files, it.1.is_sound)).collect());
    for (files, (listing, _)) in damaged {
        let name = files.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        // Another process may have made it anew meanwhile, or another part of it may be what was damaged first.
        if shelf.document_of(&name).is_some_and(|text| text.contains(&listing.digest)) {
            shelf.set_aside(&name)?;
        }
    }
    Ok(())
}

/// A thread that needs a verdict waits for the one that is about to give it.
fn with_verdicts<T>(act: impl FnOnce(&mut Verdicts) -> T) -> T {
    act(VERDICTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
mod tests {
    use super::*;
    use std::fs;

    /// What a check says of a small directory after this was done to it, without where that directory is.
    fn said_after(act: impl Fn(&Path)) -> Option<String> {
        said_by(Time::Changed, act)
    }

    fn said_by(time: Time, act: impl Fn(&Path)) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/deep")).unwrap();
        for path in ["a/one", "a/deep/two", "b"] {
            fs::write(dir.path().join(path), path).unwrap();
        }
        std::os::unix::fs::symlink("b", dir.path().join("link")).unwrap();
        let listing = Listing::of(dir.path(), time).unwrap();
        // Times of files move in ticks of a few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        act(dir.path());
        let said = listing.check(dir.path()).err()?.to_string();
        Some(said.strip_prefix(&format!("{}/", dir.path().display())).unwrap().to_owned())
    }

    #[test]
    fn the_first_path_that_differs_is_named() {
        let rewrite = |dir: &Path, path: &str| {
            let time = fs::metadata(dir.join(path)).unwrap().modified().unwrap();
            fs::write(dir.join(path), "A/DEEP/TWO").unwrap();
            fs::File::options().write(true).open(dir.join(path)).unwrap().set_modified(time).unwrap();
        };
        let directory = "something was added to it or removed from it, or it was changed itself";
        assert_eq!(said_after(|_| ()), None);
        assert_eq!(said_after(|dir| drop(fs::read(dir.join("b")).unwrap())), None);
        let said = said_after(|dir| rewrite(dir, "a/deep/two"));
        assert_eq!(said.as_deref(), Some("a/deep/two: it was changed or added"));
        let said = said_after(|dir| fs::remove_file(dir.join("a/deep/two")).unwrap());
        assert_eq!(said, Some(format!("a/deep: {directory}")));
        let said = said_after(|dir| fs::write(dir.join("a/deep/three"), "").unwrap());
        assert_eq!(said, Some(format!("a/deep: {directory}")));
        let said = said_after(|dir| fs::rename(dir.join("b"), dir.join("c")).unwrap());
        assert_eq!(said, Some(format!(": {directory}")));
    }

    #[test]
    fn what_lies_beside_a_layers_files_and_belongs_to_them_is_part_of_it() {
        let layer = tempfile::tempdir().unwrap();
        let (files, marks) = (layer.path().join("files"), layer.path().join(BESIDE));
        fs::create_dir(&files).unwrap();
        fs::write(&marks, "marks").unwrap();
        let listing = Listing::of(&files, Time::Changed).unwrap();
        assert!(listing.check(&files).is_ok());
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&marks, "bent!").unwrap();
        let said = listing.check(&files).unwrap_err().to_string();
        assert!(said.ends_with("index.marks: it was changed or added"), "{said}");
        fs::remove_file(&marks).unwrap();
        assert!(listing.check(&files).is_err());
    }

    #[test]
    fn another_name_for_a_file_is_a_change_where_nobody_else_has_one() {
        let link = |dir: &Path| fs::hard_link(dir.join("b"), dir.with_extension("other-name")).unwrap();
        assert_eq!(said_by(Time::Changed, link).as_deref(), Some("b: it was changed or added"));
        assert_eq!(said_by(Time::Modified, link), None);
        let write = |dir: &Path| fs::write(dir.join("b"), "B").unwrap();
        assert_eq!(said_by(Time::Modified, write).as_deref(), Some("b: it was changed or added"));
        assert!(said_by(Time::Modified, |dir| fs::remove_file(dir.join("b")).unwrap()).is_some());
    }
}
