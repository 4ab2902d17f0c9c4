//! `.worktreeinclude`: files that git ignores and that workspaces need all the same, such as local settings.
//!
//! The file at the root of the user's checkout lists patterns as `.gitignore` does. What matches one of them *and* is
//! ignored is copied, from the user's checkout, never from a tree that an agent made: regular files only, never
//! through a link, and nothing whose name says that it holds secrets.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use contract::{Digest, Domain, hash};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Secret;
use crate::git::objects::Objects;
use crate::git::tree::split;
use crate::git::{GitError, IoContext, ObjectId, Repository, sweep, tree};
use crate::{Error, Result};

/// The name of the list.
pub(crate) const LIST: &str = ".worktreeinclude";

/// How many files may be included. Settings are a handful; more is a pattern that catches a whole build directory,
/// which is for `workspace.setup` to make.
pub const FILES_MAX: usize = 1_000;

/// How large they may be together: they are copied for every run.
pub const BYTES_MAX: u64 = 64 << 20;

/// What a list names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Include {
    /// Paths from the root, sorted.
    pub files: Vec<Vec<u8>>,
    /// Those left out because their names say that they hold secrets.
    pub secrets: Vec<Vec<u8>>,
}

/// A file that was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludedFile {
    /// The path from the root.
    pub path: Vec<u8>,
    /// Its content.
    pub digest: Digest,
    executable: bool,
}

/// Whether a name says secret. What is not committed is nobody else's, so the longer list counts here.
pub(crate) fn is_secret(name: &str) -> bool {
    sandbox::visible::secret_name(name).is_some()
}

/// Finds what the user's checkout has to add.
pub fn find(user: &Repository, is_secret: Secret) -> Result<Include> {
    let list = user.root.join(LIST);
    match fs::symlink_metadata(&list) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Include::default()),
        Err(error) => return Err(Error::io("look at", &list, error)),
        Ok(found) if !found.is_file() => {
            let message = format!("{LIST} is not a regular file");
            return Err(Error::environment(
                message,
                "a list that lies elsewhere is not read; make it a file, or remove it",
            ));
        }
        Ok(_) => {}
    }
    let root = sweep::open_directory(&user.root)?;
    let mut matching = user.ignored_and_matching(&list)?;
    matching.retain(|path| is_regular(&root, path));
    let is_secret_path =
        |path: &[u8]| path.split(|byte| *byte == b'/').any(|name| is_secret(&String::from_utf8_lossy(name)));
    let (mut secrets, mut files): (Vec<_>, Vec<_>) = matching.into_iter().partition(|path| is_secret_path(path));
    if files.len() > FILES_MAX {
        let message = format!("{LIST} matches {} ignored files; at most {FILES_MAX} are copied", files.len());
        return Err(Error::environment(message, "narrow its patterns; what can be built is for workspace.setup"));
    }
    secrets.sort();
    files.sort();
    Ok(Include { files, secrets })
}

/// Those of the paths that a tree has room for: what it tracks is never covered.
pub fn fitting(objects: &Objects, at: ObjectId, paths: &[Vec<u8>]) -> std::result::Result<Vec<Vec<u8>>, GitError> {
    let reader = objects.reader()?;
    let mut fitting = Vec::new();
    for path in paths {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let mut fits = tree::lookup(&reader, at, path)?.is_none();
        for end in ends {
            fits &= tree::lookup(&reader, at, &path[..end])?.is_none_or(|entry| entry.is_tree());
        }
        fitting.extend(fits.then(|| path.clone()));
    }
    Ok(fitting)
}

/// Copies files of the user's checkout into a directory, with new times. What is not a regular file by now, or has
/// no place in the directory, is left out.
pub fn copy(user: &Repository, paths: &[Vec<u8>], into: &Path) -> Result<Vec<IncludedFile>> {
    let (from, to) = (sweep::open_directory(&user.root)?, sweep::open_directory(into)?);
    let mut copied = Vec::new();
    let mut left = BYTES_MAX;
    for path in paths {
        let read = read(&from, path, left).context("read", &user.root)?;
        let Some((bytes, executable)) = read else { continue };
        if bytes.len() as u64 > left {
            let message = format!("what {LIST} matches is larger than {} MB together", BYTES_MAX >> 20);
            return Err(Error::environment(message, "narrow its patterns; what can be built is for workspace.setup"));
        }
        left -= bytes.len() as u64;
        if write(&to, path, &bytes, executable).context("write", into)? {
            let digest = hash::digest(Domain::Artifact, &bytes);
            copied.push(IncludedFile { path: path.clone(), digest, executable });
        }
    }
    Ok(copied)
}

/// One digest of all that was copied.
pub fn digest_of(files: &[IncludedFile]) -> Digest {
    let mut hasher = hash::Hasher::new(Domain::Artifact);
    for file in files {
        hasher.field(&file.path).field(&[file.executable.into()]).field(file.digest.as_bytes());
    }
    hasher.finish()
}

/// Whether a path leads to a regular file, and through no link.
fn is_regular(root: &OwnedFd, path: &[u8]) -> bool {
    let (parent, name) = split(path);
    let stat = sweep::open_below(root, parent)
        .and_then(|parent| Ok(rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?));
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// A file's content, up to one byte more than allowed, and whether it can be executed; `None` if there is no such
/// regular file.
fn read(root: &OwnedFd, path: &[u8], most: u64) -> io::Result<Option<(Vec<u8>, bool)>> {
    let (parent, name) = split(path);
    let Ok(parent) = sweep::open_below(root, parent) else { return Ok(None) };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&parent, name, flags, Mode::empty()) {
        Ok(file) => file,
        // Gone, or a link.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::from(file).take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some((bytes, stat.st_mode & 0o100 != 0)))
}

/// Writes a new file; whether there was a place for it.
fn write(root: &OwnedFd, path: &[u8], bytes: &[u8], executable: bool) -> io::Result<bool> {
    let (parent, name) = split(path);
    let at = match sweep::make_below(root, parent) {
        Ok(at) => at,
        // Something else has the name of a directory.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
    match rustix::fs::openat(&at, name, flags, mode) {
        Ok(file) => File::from(file).write_all(bytes).map(|()| true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
