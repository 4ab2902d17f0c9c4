//! Overlays: a view of unchangeable directories in which everything can be changed, because every change goes to a
//! layer on top.
//!
//! A layer in memory is a file system of its own with a size, so it is the limit on what can be written; it is
//! gone when the last process and the last descriptor is. Directories are named to the kernel by descriptor: no
//! name has to be escaped, however long it is, and none can have come to mean another directory.
//!
//! A view shows who owns each file below, and lets nobody else change it. Where the program is somebody else than who
//! owns the files below, they are given to it in the view, which copies each of them to the layer.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::sys::{self, NODEV, NOSUID};
use crate::give::{give_entries, give_entry};
use crate::policy::{Identity, Overlay, Policy, Upper};

/// Files that a layer in memory may hold for each MiB it may hold: dependencies are many small files.
const FILES_PER_MIB: u64 = 1024;

/// Where the layer and the view stand while they are made, in the root that is being built.
const LAYER: &std::ffi::CStr = c".layer";
const VIEW: &std::ffi::CStr = c".view";

/// An overlay whose directories are open, so that they are found whatever is covered meanwhile.
pub(super) struct View {
    target: PathBuf,
    lower: Vec<OwnedFd>,
    upper: Place,
    /// Whom everything in it is given to; nobody, if that is who builds it, or if nothing in it may be changed.
    owner: Option<Identity>,
}

enum Place {
    Memory(u64),
    Directory(OwnedFd),
}

/// Opens the directories of every overlay.
pub(super) fn open(policy: &Policy) -> Result<Vec<View>, String> {
    let open = |path: &Path| {
        let opened = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(|error| format!("could not open {}: {error}", path.display()))
    };
    let view = |overlay: &Overlay| {
        let lower = overlay.lower.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
        let upper = match &overlay.upper {
            Upper::Memory { bytes } => Place::Memory(*bytes),
            Upper::Directory { path } => Place::Directory(open(path)?),
        };
        let owner = policy.level.dedicated(true).filter(|_| overlay.writable);
        Ok(View { target: overlay.path.clone(), lower, upper, owner })
    };
    policy.overlays.iter().map(view).collect()
}

impl View {
    /// Where it is to be seen.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Mounts it and takes it out of the way again: the view, attached nowhere, and its layer's directory.
    pub(super) fn mount(self) -> io::Result<(OwnedFd, OwnedFd)> {
        for place in [LAYER, VIEW] {
            rustix::fs::mkdir(place, Mode::from(0o755))?;
        }
        let in_memory = matches!(self.upper, Place::Memory(_));
        let root = match self.upper {
            Place::Directory(root) => root,
            Place::Memory(bytes) => {
                let files = (bytes >> 20).saturating_mul(FILES_PER_MIB).max(FILES_PER_MIB);
                let options = CString::new(format!("mode=0755,size={bytes},nr_inodes={files}"))?;
                sys::mount_new(c"tmpfs", LAYER, libc::MS_NOSUID | libc::MS_NODEV, &options)?;
                rustix::fs::open(LAYER, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?
            }
        };
        let (upper, work) = (directory_in(&root, "upper")?, directory_in(&root, "work")?);
        if let Some(owner) = self.owner {
            give_entry(&root, "upper", owner)?;
            give_entry(&root, "work", owner)?;
        }
        let by_descriptor = |file: &OwnedFd| format!("/proc/self/fd/{}", file.as_raw_fd());
        let lower: Vec<_> = self.lower.iter().map(by_descriptor).collect();
        // `userxattr`: without it a user's mount succeeds, and removing a directory then fails. `volatile`: a layer
        // that is dropped, or read back by its maker, needs no sync on each first change of a file.
        let options = format!(
            "userxattr,volatile,lowerdir={},upperdir={},workdir={}",
            lower.join(":"),
            by_descriptor(&upper),
            by_descriptor(&work)
        );
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        sys::mount_new(c"overlay", VIEW, flags, &CString::new(options)?)?;
        if let Some(owner) = self.owner {
            let view = rustix::fs::open(VIEW, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            give_entries(&view, owner).map_err(|error| not_given(owner, &error))?;
        }
        let tree = sys::open_tree(Path::new(".view"))?;
        sys::add_mount_attributes(tree.as_fd(), NOSUID | NODEV, true)?;
        sys::detach(VIEW)?;
        if in_memory {
            sys::detach(LAYER)?;
        }
        for place in [LAYER, VIEW] {
            rustix::fs::rmdir(place)?;
        }
        Ok((tree, upper))
    }
}

/// Says what the layer was needed for, which a full one does not tell.
fn not_given(owner: Identity, error: &io::Error) -> io::Error {
    let uid = owner.uid;
    io::Error::other(format!("its layer must hold a copy of all files for user {uid}, who the program is: {error}"))
}

/// A directory in an open one, made if it is missing.
fn directory_in(root: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(root, name, Mode::from(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(root, name, flags, Mode::empty())?)
}
