//! Hearing of changes in a directory, so that nobody has to look for them where there are none.
//!
//! Only silence is believed. Anything that is heard, and anything that keeps norma from hearing (too many directories,
//! a limit of the system, an overflow, an error), leads to a look at every file. A write through a second name outside
//! of the tree is not heard; an agent that nothing confines, and that wants to deceive, has simpler ways to.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, FileType, RawDir};
use rustix::io::Errno;

use crate::git::{sweep, tree::join};

/// How many directories are watched. The system's limit is one for all programs of the user, and is often 65,536.
const DIRECTORIES_MAX: usize = 16_384;

/// How much of a directory is read at once.
const NAMES_BYTES: usize = 32 << 10;

/// Everything that is done to a tree besides reading it. A write to mapped memory is heard when the file is closed.
const HEARD: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// A directory that is watched with all below it.
#[derive(Debug)]
pub(super) struct Watch {
    events: OwnedFd,
}

impl Watch {
    /// Watches a directory and every directory below it. Only for when nobody makes new ones.
    pub(super) fn over(root: &Path) -> io::Result<Watch> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let top = sweep::open_directory(root).map_err(io::Error::other)?;
        let (mut due, mut count) = (vec![Vec::new()], 0);
        while let Some(path) = due.pop() {
            count += 1;
            if count > DIRECTORIES_MAX {
                return Err(io::Error::other("there are too many directories"));
            }
            inotify::add_watch(&events, root.join(OsStr::from_bytes(&path)), HEARD)?;
            directories_in(&sweep::open_below(&top, &path)?, |name| due.push(join(&path, name)))?;
        }
        Ok(Watch { events })
    }

    /// Whether nothing at all was done there since.
    pub(super) fn is_quiet(&self) -> bool {
        let mut event = [0; 512];
        matches!(rustix::io::read(&self.events, &mut event), Err(Errno::AGAIN))
    }
}

/// Calls `each` with the names of the directories in a directory.
fn directories_in(dir: &OwnedFd, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); NAMES_BYTES];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        let kind = match entry.file_type() {
            // Not every file system says it here.
            FileType::Unknown => {
                FileType::from_raw_mode(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            kind => kind,
        };
        if kind == FileType::Directory && !matches!(name.to_bytes(), b"." | b"..") {
            each(name.to_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    /// Whether a directory is quiet after this was done to it.
    fn is_quiet_after(act: impl FnOnce(&Path)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/deep")).unwrap();
        fs::write(dir.path().join("a/deep/file"), "content").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("a/link")).unwrap();
        let watch = Watch::over(dir.path()).unwrap();
        act(dir.path());
        watch.is_quiet()
    }

    #[test]
    fn whatever_is_done_is_heard() {
        assert!(is_quiet_after(|_| ()));
        assert!(is_quiet_after(|dir| drop((fs::read(dir.join("a/deep/file")), fs::read_dir(dir.join("a"))))));
        assert!(!is_quiet_after(|dir| fs::write(dir.join("a/deep/file"), "changed").unwrap()));
        assert!(!is_quiet_after(|dir| fs::write(dir.join("a/new"), "").unwrap()));
        assert!(!is_quiet_after(|dir| fs::create_dir(dir.join("a/deep/new")).unwrap()));
        assert!(!is_quiet_after(|dir| fs::remove_file(dir.join("a/link")).unwrap()));
        assert!(!is_quiet_after(|dir| fs::rename(dir.join("a"), dir.join("b")).unwrap()));
        assert!(!is_quiet_after(|dir| fs::rename(dir, dir.with_extension("moved")).unwrap()));
        assert!(!is_quiet_after(|dir| fs::set_permissions(dir, PermissionsExt::from_mode(0o700)).unwrap()));
        assert!(!is_quiet_after(|dir| {
            fs::set_permissions(dir.join("a/deep/file"), PermissionsExt::from_mode(0o755)).unwrap();
        }));
        // Opened for writing, as whoever maps it has to, and left as it is.
        assert!(!is_quiet_after(|dir| drop(File::options().append(true).open(dir.join("a/deep/file")).unwrap())));
    }
}
