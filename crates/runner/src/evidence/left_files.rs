//! Walks what a program left in a directory: regular files only, never through a link. Directories are opened by
//! descriptor with `O_NOFOLLOW`, so nothing that the program may still change can lead the walk elsewhere.

use crate::{Error, Result};
use contract::RepoPath;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// How deep a directory may be nested; nobody reads deeper.
const DEPTH_MAX: usize = 32;

/// NONBLOCK: opening a FIFO must not wait for a writer that never comes.
const FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Whoever wants to see what was left.
pub(crate) trait Visitor {
    /// Whether a name at the top is looked at.
    fn wants(&mut self, name: &str) -> bool;
    /// A regular file, by its path from the top.
    fn file(&mut self, file: File, path: &str) -> Result<()>;
    /// Something else, with the reason why it is not shown.
    fn left_out(&mut self, why: String);
}

/// Opens a directory, if it is one.
pub(crate) fn open(dir: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).ok()
}

/// Reads at most so much of a file of a directory, if it is a regular one.
pub(crate) fn read_file(dir: &OwnedFd, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let Ok(opened) = rustix::fs::openat(dir, name, FILE_FLAGS, Mode::empty()) else { return Ok(None) };
    if kind(&opened) != FileType::RegularFile {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::from(opened).take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Shows everything below a directory, in the order of the names.
pub(crate) fn visit(dir: OwnedFd, visitor: &mut dyn Visitor) -> Result<()> {
    below(dir, "", 0, visitor)
}

fn below(dir: OwnedFd, prefix: &str, depth: usize, visitor: &mut dyn Visitor) -> Result<()> {
    let unreadable = |e: rustix::io::Errno| Error::io("list", Path::new(prefix), e.into());
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name().to_owned());
    }
    names.sort();
    for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
        let path = format!("{prefix}{}", name.to_string_lossy());
        if prefix.is_empty() && !visitor.wants(&path) {
            continue;
        }
        match RepoPath::parse_bytes(name.to_bytes()) {
            Ok(_) => entry(&dir, name, &path, depth, visitor)?,
            Err(problem) => visitor.left_out(format!("{} was left out: {problem}", path.escape_debug())),
        }
    }
    Ok(())
}

fn entry(dir: &OwnedFd, name: &CStr, path: &str, depth: usize, visitor: &mut dyn Visitor) -> Result<()> {
    let opened = match rustix::fs::openat(dir, name, FILE_FLAGS, Mode::empty()) {
        Ok(opened) => opened,
        Err(rustix::io::Errno::LOOP) => {
            visitor.left_out(format!("{path} is a symbolic link and was left out"));
            return Ok(());
        }
        Err(e) => {
            visitor.left_out(format!("{path} could not be opened and was left out: {e}"));
            return Ok(());
        }
    };
    match kind(&opened) {
        FileType::Directory if depth < DEPTH_MAX => below(opened, &format!("{path}/"), depth + 1, visitor),
        FileType::RegularFile => visitor.file(File::from(opened), path),
        _ => {
            visitor.left_out(format!("{path} is not a regular file and was left out"));
            Ok(())
        }
    }
}

fn kind(opened: &OwnedFd) -> FileType {
    rustix::fs::fstat(opened).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}
