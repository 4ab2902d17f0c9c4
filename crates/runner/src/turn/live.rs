//! The directory of a turn while it lasts: the agent's input is in it, and what the agent leaves. A confined agent is
//! shown it under its final name and writes into a layer above it, so it is as norma made it when the turn ends; that of
//! an agent that nothing confines is, if it left nothing there. The next turn then has it under another name: making and
//! removing a directory and a file for each turn costs more than all that is written to them.

use crate::record::SpareDirs;
use crate::{Error, Result};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const INPUT: &str = "input.json";

/// What a directory that waits for its next turn has in place of the input.
const NO_INPUT: &[u8] = b"\n";

/// The directory an agent writes while its turn lasts, or one that is below what it writes.
pub(super) struct LiveDir {
    pub(super) path: PathBuf,
    /// Whether a later turn may have it, if the agent left nothing there: others follow soon.
    is_reusable: bool,
}

impl LiveDir {
    /// The directory that `target` is made from. Nothing is there yet.
    pub(super) fn new(target: &Path, is_reusable: bool) -> LiveDir {
        LiveDir { path: store::temporary_name(target), is_reusable }
    }

    /// Makes it, with the input in it.
    pub(super) fn create(&self, spare: &SpareDirs, input: &[u8]) -> Result<()> {
        let path = self.path.join(INPUT);
        let taken = spare.take().is_some_and(|spare| fs::rename(spare, &self.path).is_ok());
        let written = if taken {
            open_again(&path).and_then(|file| write_over(&file, input))
        } else {
            fs::create_dir_all(&self.path).map_err(|source| Error::io("create", &self.path, source))?;
            fs::write(&path, input)
        };
        written.map_err(|source| Error::io("write", &path, source))
    }

    /// Removes it, or leaves it to the next turn, without its input: nobody else is told that.
    pub(super) fn leave(&self, spare: &SpareDirs) -> Result<()> {
        let forget_input = || open_again(&self.path.join(INPUT)).and_then(|file| write_over(&file, NO_INPUT));
        if self.is_reusable && self.is_as_made() && forget_input().is_ok() {
            spare.add(self.path.clone());
            return Ok(());
        }
        Ok(store::remove_tree(&self.path)?)
    }

    /// Whether it has the input alone, and may be written by the next agent. An agent on another machine has what it left
    /// brought here.
    fn is_as_made(&self) -> bool {
        let is_writable = |found: fs::Metadata| found.is_dir() && found.mode() & 0o700 == 0o700;
        if !fs::symlink_metadata(&self.path).is_ok_and(is_writable) {
            return false;
        }
        let Ok(mut entries) = fs::read_dir(&self.path) else { return false };
        let first = entries.next().and_then(io::Result::ok).is_some_and(|entry| entry.file_name() == OsStr::new(INPUT));
        first && entries.next().is_none()
    }
}

/// Has a file consist of these bytes. It is not emptied first: ext4 takes that for the replacement of a file by somebody
/// who forgot to sync it, and has it written to disk when it is closed, which the next commit then waits for.
fn write_over(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

/// Opens a file that is there: one that is nowhere else, whoever may have been able to replace it.
fn open_again(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().write(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn inode(dir: &LiveDir) -> u64 {
        fs::metadata(dir.path.join(INPUT)).expect("it is there").ino()
    }

    #[test]
    fn a_directory_in_which_the_agent_left_nothing_is_used_again() {
        let place = tempfile::tempdir().expect("there is room");
        let (target, spare) = (place.path().join("001-plan"), SpareDirs::default());
        let first = LiveDir::new(&target, true);
        first.create(&spare, b"the first input").expect("it can be made");
        let made = inode(&first);
        first.leave(&spare).expect("it can be left");
        assert_eq!(fs::read(first.path.join(INPUT)).expect("it is there"), NO_INPUT);
        let second = LiveDir::new(&target, true);
        second.create(&spare, b"another").expect("it can be made");
        assert!(!first.path.exists());
        assert_eq!(
            (inode(&second), fs::read(second.path.join(INPUT)).expect("it is there")),
            (made, b"another".into())
        );
        second.leave(&spare).expect("it can be left");
        drop(spare);
        assert_eq!(fs::read_dir(place.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn nothing_that_an_agent_left_is_used_again() {
        let place = tempfile::tempdir().expect("there is room");
        let (target, spare, outside) = (place.path().join("001-plan"), SpareDirs::default(), place.path().join("mine"));
        fs::write(&outside, b"mine").expect("it can be written");
        let check = |is_reusable: bool, act: &dyn Fn(&Path)| {
            let live = LiveDir::new(&target, is_reusable);
            live.create(&spare, b"input").expect("it can be made");
            act(&live.path);
            live.leave(&spare).expect("it can be left");
            assert_eq!((live.path.exists(), spare.take()), (false, None));
        };
        check(false, &|_| ());
        check(true, &|dir| fs::write(dir.join("plan.md"), b"plan").expect("it can be written"));
        check(true, &|dir| fs::remove_file(dir.join(INPUT)).expect("it can be removed"));
        let locked = fs::Permissions::from_mode(0o500);
        check(true, &|dir| fs::set_permissions(dir, locked.clone()).expect("they can be set"));
        let replaced = |dir: &Path, link: &dyn Fn(&Path) -> io::Result<()>| {
            fs::remove_file(dir.join(INPUT)).and_then(|()| link(&dir.join(INPUT))).expect("it can be replaced");
        };
        check(true, &|dir| replaced(dir, &|input| symlink(&outside, input)));
        check(true, &|dir| replaced(dir, &|input| fs::hard_link(&outside, input)));
        assert_eq!(fs::read(&outside).expect("it is there"), b"mine");
    }
}
