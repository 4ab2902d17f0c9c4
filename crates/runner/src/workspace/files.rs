//! Writing the files of a tree from git objects, and reading them back once.
//!
//! Files have exactly the bytes of their blobs: no filter, no line-ending conversion. Every file gets the same
//! time, the moment its layer was begun: then the index can be written without looking at any of them, and no
//! file is older than what an earlier layer had in its place, which build tools would take for unchanged.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use gix_object::Kind;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::index::Indexed;
use crate::git::blob::LARGE_BYTES_MIN;
use crate::git::objects::{Objects, Reader};
use crate::git::tree::{MODE_GITLINK, MODE_SYMLINK};
use crate::git::{Entry, GitError, IoContext, ObjectId, sweep};

/// How many files a worker takes at a time: few enough that both end together, enough to stay in one directory.
const CHUNK_FILES: usize = 256;

/// Writing is mostly the file system's work, which more workers do not speed up.
const WORKERS: usize = 2;

/// How much of a large file is in memory when it is read back.
const PIECE_BYTES: usize = 128 * 1024;

/// A directory that files are written to or read from.
pub(super) struct Place<'a> {
    pub(super) objects: &'a Objects,
    /// Where it is, for messages.
    pub(super) path: &'a Path,
    /// The directory itself.
    pub(super) root: &'a OwnedFd,
}

/// Makes the directories that lead to these paths.
pub(super) fn make_directories<'a>(place: &Place<'_>, paths: impl Iterator<Item = &'a [u8]>) -> Result<(), GitError> {
    let (mut made, mut last) = (BTreeSet::new(), None);
    for path in paths {
        // Neighbours in a list are mostly neighbours in a directory.
        let dir = path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash]);
        if dir == last {
            continue;
        }
        last = dir;
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            if made.insert(&path[..at]) {
                let mode = Mode::from_raw_mode(0o755);
                rustix::fs::mkdirat(place.root, &path[..at], mode)
                    .context("create directory", &at_path(place, path))?;
            }
        }
    }
    Ok(())
}

/// Writes all files and notes their sizes; `tick` is told how many were written since it was last called.
pub(super) fn write_all(place: &Place<'_>, files: &mut [Indexed], tick: &mut dyn FnMut(usize)) -> Result<(), GitError> {
    in_parallel(place, files, tick, &|reader, cursor, file| write_one(reader, cursor, file))
}

/// Reads all files back and compares kind, executable bit, time and content with what the tree says.
pub(super) fn verify_all(place: &Place<'_>, files: &mut [Indexed]) -> Result<(), GitError> {
    in_parallel(place, files, &mut |_| (), &|_, cursor, file| {
        let found = read_back(cursor, file)?;
        if found { Ok(()) } else { Err(std::io::Error::other("it is not what was written").into()) }
    })
}

type Work<'w> = &'w (dyn Fn(&Reader<'_>, &mut Cursor<'_>, &mut Indexed) -> Result<(), Problem> + Sync);

/// What can stop the work on one file; the path is added where it is known.
enum Problem {
    Git(GitError),
    Io(std::io::Error),
}

impl From<GitError> for Problem {
    fn from(error: GitError) -> Problem {
        Problem::Git(error)
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Problem {
        Problem::Io(error)
    }
}

impl From<Errno> for Problem {
    fn from(error: Errno) -> Problem {
        Problem::Io(error.into())
    }
}

fn in_parallel(
    place: &Place<'_>,
    files: &mut [Indexed],
    tick: &mut dyn FnMut(usize),
    work: Work<'_>,
) -> Result<(), GitError> {
    if files.len() <= CHUNK_FILES {
        // A thread would take longer to start than this to be done.
        let (sender, done) = channel();
        let mut chunks = Some(files);
        work_off(place, &mut || chunks.take(), &sender, work)?;
        drop(sender);
        done.iter().for_each(tick);
        return Ok(());
    }
    let chunks = Mutex::new(files.chunks_mut(CHUNK_FILES));
    std::thread::scope(|scope| {
        let (sender, done) = channel();
        let handles: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (sender, chunks) = (sender.clone(), &chunks);
                scope.spawn(move || {
                    let mut next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
                    work_off(place, &mut next, &sender, work)
                })
            })
            .collect();
        drop(sender);
        done.iter().for_each(&mut *tick);
        handles.into_iter().try_for_each(|handle| handle.join().expect("BUG: a worker panicked"))
    })
}

fn work_off<'f>(
    place: &Place<'_>,
    next: &mut dyn FnMut() -> Option<&'f mut [Indexed]>,
    done: &Sender<usize>,
    work: Work<'_>,
) -> Result<(), GitError> {
    let reader = place.objects.reader()?;
    let mut cursor = Cursor { root: place.root, at: None };
    while let Some(files) = next() {
        let count = files.len();
        for file in files {
            work(&reader, &mut cursor, file).map_err(|problem| match problem {
                Problem::Git(error) => error,
                Problem::Io(source) => GitError::Io { action: "write", path: at_path(place, &file.path), source },
            })?;
        }
        // The receiver outlives the workers.
        let _ = done.send(count);
    }
    Ok(())
}

fn at_path(place: &Place<'_>, path: &[u8]) -> std::path::PathBuf {
    place.path.join(OsStr::from_bytes(path))
}

/// The directory worked in: neighbours in a list are neighbours on disk.
struct Cursor<'a> {
    root: &'a OwnedFd,
    at: Option<(Vec<u8>, OwnedFd)>,
}

impl Cursor<'_> {
    /// The directory of a path, and the last name of it.
    fn enter<'p>(&mut self, path: &'p [u8]) -> std::io::Result<(&OwnedFd, &'p [u8])> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok((self.root, path));
        };
        let (dir, name) = (&path[..slash], &path[slash + 1..]);
        let (_, handle) = match self.at.take() {
            Some(at) if at.0 == dir => self.at.insert(at),
            _ => self.at.insert((dir.to_vec(), sweep::open_below(self.root, dir)?)),
        };
        Ok((handle, name))
    }
}

fn write_one(reader: &Reader<'_>, cursor: &mut Cursor<'_>, file: &mut Indexed) -> Result<(), Problem> {
    let time = Timespec { tv_sec: file.time.seconds, tv_nsec: file.time.nanos.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    let (dir, name) = cursor.enter(&file.path)?;
    match file.entry.mode {
        MODE_GITLINK => match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)) {
            // Made before, for the names in it that a layer hides.
            Err(Errno::EXIST) if is_directory(dir, name)? => {}
            made => made?,
        },
        MODE_SYMLINK => {
            let target = reader.expect(file.entry.id, Kind::Blob)?;
            rustix::fs::symlinkat(target.as_slice(), dir, name)?;
            rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            file.size = target.len() as u64;
        }
        mode => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(if mode & 0o100 == 0 { 0o644 } else { 0o755 });
            let mut handle = std::fs::File::from(rustix::fs::openat(dir, name, flags, mode)?);
            file.size = reader.pieces(file.entry.id, &mut |piece| handle.write_all(piece))?;
            rustix::fs::futimens(&handle, &times)?;
        }
    }
    Ok(())
}

/// Whether what is on disk is what the tree says.
fn read_back(cursor: &mut Cursor<'_>, file: &Indexed) -> Result<bool, Problem> {
    let (dir, name) = cursor.enter(&file.path)?;
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    // Not every file system keeps fractions of a second, and git does not compare them.
    let stamped = stat.st_mtime == file.time.seconds && stat.st_size as u64 == file.size;
    Ok(match file.entry.mode {
        MODE_GITLINK => kind == FileType::Directory,
        MODE_SYMLINK => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            kind == FileType::Symlink && stamped && is_blob(file.entry, target.as_bytes())
        }
        mode => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let handle = rustix::fs::openat(dir, name, flags, Mode::empty())?;
            let executable = (mode & 0o100 != 0) == (stat.st_mode & 0o100 != 0);
            kind == FileType::RegularFile && executable && stamped && holds(handle.into(), file)?
        }
    })
}

/// Whether an open file has the content that it should have.
fn holds(mut handle: std::fs::File, file: &Indexed) -> Result<bool, Problem> {
    if file.size >= LARGE_BYTES_MIN {
        return Ok(blob_id_of(file.entry.id.kind(), &mut handle, file.size)? == Some(file.entry.id));
    }
    let mut bytes = Vec::with_capacity(file.size as usize);
    handle.read_to_end(&mut bytes)?;
    Ok(is_blob(file.entry, &bytes))
}

fn is_directory(dir: &OwnedFd, name: &[u8]) -> Result<bool, Problem> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn is_blob(entry: Entry, bytes: &[u8]) -> bool {
    blob_id(entry.id.kind(), bytes).is_some_and(|id| id == entry.id)
}

/// The id that so many bytes of a reader have as a blob. `None` only for bytes made to collide with others.
pub(super) fn blob_id_of(format: gix_hash::Kind, from: &mut dyn Read, size: u64) -> std::io::Result<Option<ObjectId>> {
    let mut hasher = gix_hash::hasher(format);
    hasher.update(&gix_object::encode::loose_header(Kind::Blob, size));
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(hasher.try_finalize().ok()),
            count => hasher.update(&piece[..count]),
        }
    }
}

/// The id these bytes have as a blob. `None` only for bytes made to collide with others.
pub(super) fn blob_id(format: gix_hash::Kind, bytes: &[u8]) -> Option<ObjectId> {
    gix_object::compute_hash(format, Kind::Blob, bytes).ok()
}
