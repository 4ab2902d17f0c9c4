//! Removing what an agent left behind.
//!
//! An agent may leave anything: directories without permissions, directories nested deeper than a path can
//! be long, symlinks to anywhere. Nothing here follows a symlink, and nothing recurses: a directory that is
//! not empty is first moved to a flat trash directory and emptied there. The agent's processes are dead by
//! the time this runs, so nothing changes between a look and a deed.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{GitError, IoContext};

/// A directory that removed directories are moved to.
pub(crate) struct Trash {
    path: PathBuf,
    handle: OwnedFd,
    due: Vec<String>,
    names: u64,
}

impl Trash {
    /// Makes the trash directory, which must be on the same file system as what will be removed.
    pub(crate) fn open(path: &Path) -> Result<Trash, GitError> {
        fs::create_dir_all(path).context("create directory", path)?;
        let mut trash = Trash { handle: open_directory(path)?, path: path.to_owned(), due: Vec::new(), names: 0 };
        // A sweep that was killed left its directories here.
        for name in names_in(&trash.handle).context("list", path)? {
            trash.discard(&trash.handle.try_clone().context("open", path)?, &name).context("remove from", path)?;
        }
        Ok(trash)
    }

    /// Takes an entry out of a directory, whatever it is.
    pub(crate) fn discard(&mut self, dir: &OwnedFd, name: &CStr) -> io::Result<()> {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        if rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        // A directory must be writable to be moved, for the sake of its `..`.
        rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
        let new_name = loop {
            self.names += 1;
            let candidate = format!("{}-{}", std::process::id(), self.names);
            if rustix::fs::statat(&self.handle, &candidate, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                break candidate;
            }
        };
        rustix::fs::renameat(dir, name, &self.handle, &new_name)?;
        self.due.push(new_name);
        Ok(())
    }

    /// Empties and removes the trash directory.
    pub(crate) fn empty(mut self) -> Result<(), GitError> {
        while let Some(name) = self.due.pop() {
            let place = self.path.join(&name);
            let dir = open_at(&self.handle, &name).context("open", &place)?;
            for entry in names_in(&dir).context("list", &place)? {
                self.discard(&dir, &entry).context("remove from", &place)?;
            }
            rustix::fs::unlinkat(&self.handle, &name, AtFlags::REMOVEDIR).context("remove", &place)?;
        }
        fs::remove_dir(&self.path).context("remove", &self.path)
    }
}

/// Opens a directory that norma itself made.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, GitError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).context("open", path)
}

/// Opens a directory in another, unless the name is a symlink.
pub(crate) fn open_at(dir: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// Opens a directory below another, name by name, refusing symlinks on the way.
pub(crate) fn open_below(root: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    let mut at = root.try_clone()?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        at = open_at(&at, name)?;
    }
    Ok(at)
}

/// The same, making the directories that are missing.
pub(crate) fn make_below(root: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    let mut at = root.try_clone()?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = open_at(&at, name)?;
    }
    Ok(at)
}

/// The names in a directory but `.` and `..`.
pub(crate) fn names_in(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// What an entry is, the entry itself and not what it points to: kind, permission bits, number of links.
pub(crate) fn look(dir: &OwnedFd, name: &CStr) -> io::Result<(FileType, Mode, u64)> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let links = stat.st_nlink as u64; // The width differs between systems.
    Ok((FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode), links))
}

/// Removes a directory and everything in it.
pub(crate) fn remove(dir: &Path, trash: &Path) -> Result<(), GitError> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Ok(());
    };
    let name = rustix::path::Arg::into_c_str(name).context("remove", dir)?.into_owned();
    let mut bin = Trash::open(trash)?;
    bin.discard(&open_directory(parent)?, &name).context("remove", dir)?;
    bin.empty()
}
