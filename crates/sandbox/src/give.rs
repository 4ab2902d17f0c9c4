//! Giving or showing files to whom a program will be, at levels where nobody is mapped and that is somebody else.
//!
//! Only for files that norma made for the program: nothing of the user's changes hands for a sandbox.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use crate::level::Level;
use crate::policy::Identity;

/// A directory itself, not one that a link leads to.
const OPEN: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Gives a directory and everything in it to whom a program at this level is; at most levels that is the caller,
/// and nothing happens. No link is followed. Nobody else may be at work in there.
pub fn give_directory(path: &Path, level: Level) -> io::Result<()> {
    let Some(owner) = level.dedicated(rustix::process::geteuid().is_root()) else { return Ok(()) };
    let directory = rustix::fs::open(path, OPEN, Mode::empty())?;
    rustix::fs::fchown(&directory, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
    give_entries(&directory, owner)
}

/// Lets a program at this level read a directory and everything in it, where the program is not the caller. Whoever
/// can reach the directory can then read it, so a directory above must be closed.
pub fn open_directory(path: &Path, level: Level) -> io::Result<()> {
    if level.dedicated(rustix::process::geteuid().is_root()).is_none() {
        return Ok(());
    }
    let directory = rustix::fs::open(path, OPEN, Mode::empty())?;
    open_entries(&directory)
}

/// Opens what is in a directory and then itself, so that one that is open was done.
fn open_entries(directory: &OwnedFd) -> io::Result<()> {
    let all = Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    let own = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode);
    if own.contains(all) {
        return Ok(());
    }
    for name in names_in(directory)? {
        let mode = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => open_entries(&rustix::fs::openat(directory, &name, OPEN, Mode::empty())?)?,
            FileType::RegularFile => {
                let mode = Mode::from_raw_mode(mode) | Mode::RGRP | Mode::ROTH;
                rustix::fs::chmodat(directory, &name, mode, AtFlags::empty())?;
            }
            _ => {}
        }
    }
    Ok(rustix::fs::fchmod(directory, own | all)?)
}

/// Gives away one entry of a directory.
pub(crate) fn give_entry(directory: impl AsFd, name: impl rustix::path::Arg, owner: Identity) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    Ok(rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives away everything in a directory.
pub(crate) fn give_entries(directory: &OwnedFd, owner: Identity) -> io::Result<()> {
    // Listed first: in an overlay, what is given away moves to another layer.
    for name in names_in(directory)? {
        let stat = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (stat.st_uid, stat.st_gid) != (owner.uid, owner.gid) {
            give_entry(directory, &name, owner)?;
        }
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            give_entries(&rustix::fs::openat(directory, &name, OPEN, Mode::empty())?, owner)?;
        }
    }
    Ok(())
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::UNPRIVILEGED;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a directory");
        fs::create_dir(tree.path().join("inner")).expect("make");
        fs::write(tree.path().join("inner/file"), "x").expect("write");
        symlink("/etc/hosts", tree.path().join("inner/link")).expect("link");
        for (name, mode) in [("inner/file", 0o600), ("inner", 0o700), ("", 0o700)] {
            fs::set_permissions(tree.path().join(name), fs::Permissions::from_mode(mode)).expect("permit");
        }
        tree
    }

    fn look(tree: &tempfile::TempDir) -> [(u32, u32); 3] {
        ["", "inner", "inner/file"].map(|name| {
            let meta = fs::metadata(tree.path().join(name)).expect("there");
            (meta.uid(), meta.mode() & 0o777)
        })
    }

    #[test]
    fn nothing_changes_where_the_program_is_the_caller() {
        let (tree, own) = (tree(), rustix::process::geteuid().as_raw());
        give_directory(tree.path(), Level::A).expect("nothing to do");
        open_directory(tree.path(), Level::A).expect("nothing to do");
        assert_eq!(look(&tree), [(own, 0o700), (own, 0o700), (own, 0o600)]);
    }

    #[test]
    fn everything_but_what_links_lead_to_is_given_or_shown() {
        if !rustix::process::geteuid().is_root() {
            return not_run::because("only root can give away");
        }
        let outside = || fs::metadata("/etc/hosts").map(|it| (it.uid(), it.mode())).expect("there");
        let before = outside();
        let shown = tree();
        open_directory(shown.path(), Level::B).expect("show");
        assert_eq!(look(&shown), [(0, 0o755), (0, 0o755), (0, 0o644)]);
        let given = tree();
        give_directory(given.path(), Level::B).expect("give");
        let uid = UNPRIVILEGED.uid;
        assert_eq!(look(&given), [(uid, 0o700), (uid, 0o700), (uid, 0o600)]);
        assert_eq!(fs::symlink_metadata(given.path().join("inner/link")).expect("there").uid(), uid);
        assert_eq!(outside(), before);
    }
}
