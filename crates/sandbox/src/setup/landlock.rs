//! The second wall around the file system: Landlock, independent of every mount.
//!
//! A mistake in the mounts is still caught here, and the other way round. Landlock is three kernel
//! calls, made directly: the crate for it brings a dozen packages and its time at every start.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::elf;
use super::sys::{self, RulesetAttributes};
use crate::level::{LANDLOCK_ABI_FULL, Level};
use crate::policy::Policy;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
/// Since version 2: renaming and linking from one directory to another.
const REFER: u64 = 1 << 13;
/// Since version 3.
const TRUNCATE: u64 = 1 << 14;
/// Since version 5: device-specific requests.
const IOCTL_DEV: u64 = 1 << 15;
/// Since version 6: no abstract unix socket and no process outside can be reached.
const SCOPES: u64 = 0b11;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const CHANGE: u64 = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM;
/// Spoken for and given to nobody: device files are not made inside.
const NEVER: u64 = MAKE_CHAR | MAKE_BLOCK;

/// Rights that a single file can carry; the others are refused by the kernel for a file.
const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// The directories the sandbox makes itself, and what is allowed in each.
const OWN: [(&str, u64); 6] = [
    // Listing only: names of what is visible anyway, which many tools want of `/`.
    ("/", READ_DIR),
    ("/proc", READ_FILE | READ_DIR),
    ("/dev", READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV),
    ("/tmp", READ | CHANGE | REFER | TRUNCATE),
    ("/var/tmp", READ | CHANGE | REFER | TRUNCATE),
    ("/run", READ | CHANGE | REFER | TRUNCATE),
];

/// The machine's own places that a program without a view of its own gets: never a directory to write in.
const BARE: [(&str, u64); 6] = [
    // What tells of others is the kernel's to refuse: it asks whether they could be traced.
    ("/proc", READ_FILE | READ_DIR),
    ("/dev/null", READ_FILE | WRITE_FILE),
    ("/dev/zero", READ_FILE | WRITE_FILE),
    ("/dev/full", READ_FILE | WRITE_FILE),
    ("/dev/random", READ_FILE),
    ("/dev/urandom", READ_FILE),
];

/// Since version 4: to bind to and to connect to TCP ports.
const TCP: u64 = 0b11;

/// Confines the calling process to the policy's roots; the version that holds, 0 for none.
pub(super) fn enforce(policy: &Policy) -> io::Result<u32> {
    let abi = sys::landlock_abi();
    // A kernel with all of it gives a higher level; who asks for this one there wants to see what holds
    // without. An older kernel's part of it is taken.
    let unwanted = policy.level == Level::AMinus && abi >= LANDLOCK_ABI_FULL;
    if policy.startable.is_some() && abi == 0 {
        return Err(io::Error::other("there is none, and nothing else keeps other programs from being started"));
    }
    if abi == 0 || unwanted && policy.startable.is_none() {
        return Ok(0);
    }
    let namespaces = policy.level.has_namespaces();
    let handled = if unwanted { EXECUTE } else { handled(abi) };
    let scoped = if abi >= 6 && !unwanted { SCOPES } else { 0 };
    let tcp = if namespaces || abi < 6 { 0 } else { TCP };
    let attributes = RulesetAttributes { handled_access_fs: handled, handled_access_net: tcp, scoped };
    // An older kernel knows a shorter structure and refuses a longer one.
    let size = if abi >= 6 { size_of::<RulesetAttributes>() } else { size_of::<u64>() };
    let ruleset = sys::landlock_ruleset(&attributes, size)?;
    let unstarted = if policy.startable.is_some() { !EXECUTE } else { u64::MAX };
    let allow = |path: &Path, access: u64| -> io::Result<()> {
        let path = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&path)?.st_mode).is_dir();
        let access = access & handled & if is_dir { u64::MAX } else { OF_A_FILE };
        if access == 0 {
            return Ok(());
        }
        sys::landlock_allow(&ruleset, path.as_fd(), access)
    };
    for path in policy.startable.iter().flatten().map(|root| root.path.clone()).chain(loaders(policy)) {
        allow(&path, EXECUTE)?;
    }
    let allow = |path: &Path, access: u64| allow(path, access & unstarted);
    for (path, access) in if namespaces { OWN } else { BARE } {
        allow(Path::new(path), access)?;
    }
    if namespaces {
        allow(Path::new("/dev/shm"), READ | CHANGE | REFER | TRUNCATE)?;
        allow(&policy.home, READ | CHANGE | REFER | TRUNCATE)?;
    }
    // In the machine's own view a link leads out of the roots; what it should lead to is a root itself.
    let is_there = |path: &Path| namespaces || !path.is_symlink();
    for root in policy.read.iter().filter(|root| is_there(&root.path)) {
        match allow(&root.path, READ) {
            // A symbolic link whose target is in no root, or what the user may not reach anyway: there is
            // nothing to allow.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            other => other?,
        }
    }
    for root in &policy.empty {
        allow(&root.path, READ_DIR)?;
    }
    let placed = policy.placed.iter().filter(|it| !it.writable).map(|it| &it.path);
    for path in placed.chain(policy.overlays.iter().filter(|it| !it.writable).map(|it| &it.path)) {
        allow(path, READ)?;
    }
    for path in policy.changeable().filter(|path| is_there(path)) {
        allow(path, READ | CHANGE | REFER | TRUNCATE)?;
    }
    sys::landlock_enforce(&ruleset)?;
    Ok(abi)
}

/// What the kernel starts first when it starts a program: whoever starts a loader by itself is stopped by who listens.
fn loaders(policy: &Policy) -> Vec<PathBuf> {
    let Some(startable) = &policy.startable else { return Vec::new() };
    let named = startable.iter().filter_map(|root| elf::loader(&root.path));
    let mut loaders: Vec<PathBuf> = named.chain(elf::LOADERS.iter().map(PathBuf::from)).collect();
    loaders.retain(|path| path.exists());
    loaders
}

fn handled(abi: u32) -> u64 {
    let mut handled = READ | CHANGE | NEVER;
    for (since, right) in [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)] {
        if abi >= since {
            handled |= right;
        }
    }
    handled
}
