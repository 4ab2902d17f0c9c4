//! The view of the file system: an empty root, and in it only what the policy names.
//!
//! Every source is copied as a detached mount before anything is covered, given its attributes
//! while nobody can reach it, and then attached, shallow paths before deep ones. Targets are opened
//! without following symbolic links, so that a link inside a workspace cannot move a mount. What
//! is not attached is not there, which needs no list of what to keep out.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::layers;
use super::sys::{self, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::effective::{CANARY, PRIVATE, PROC_COVERED};
use crate::give::give_entry;
use crate::policy::Policy;

/// Bytes and files of the root directory itself, which holds mount points and nothing else.
const ROOT_OPTIONS: &std::ffi::CStr = c"mode=0755,size=1m";

/// Files the private directories may hold for each MiB they may hold: enough for a tree of small
/// files, and an end to filling the kernel's memory with empty ones.
const FILES_PER_MIB: u64 = 1024;

/// Device files that any program may expect.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Where the new root stands until it is the root. Every machine has it, and what it held is
/// reachable all the same, because all sources are copied first.
const STAGE: &std::ffi::CStr = c"/tmp";

/// Something that is ready and not in its place yet.
struct Pending {
    target: PathBuf,
    source: Source,
}

enum Source {
    Tree(OwnedFd),
    /// A symbolic link, which is made again with this target.
    Link(PathBuf),
}

/// The file systems in which mount points may be made: the sandbox's own. In any other, a missing
/// place is an error, because making it would change the machine.
struct Own {
    devices: Vec<u64>,
}

/// What the first process keeps of the view.
pub(super) struct View {
    /// Tells how full the private directories are.
    pub(super) scratch: OwnedFd,
    /// What is changed in each overlay, in the policy's order.
    pub(super) layers: Vec<OwnedFd>,
}

/// Builds the view and enters it.
pub(super) fn enter(policy: &Policy) -> Result<View, String> {
    sys::make_mounts_private().map_err(|error| format!("could not separate the mounts: {error}"))?;
    let mut pending = collect(policy)?;
    let views = layers::open(policy)?;
    let devices = DEVICES.map(|name| (name, sys::open_tree(Path::new("/dev").join(name).as_path())));
    let own = |error: io::Error| format!("could not build the root directory: {error}");
    sys::mount_new(c"tmpfs", STAGE, libc::MS_NOSUID | libc::MS_NODEV, ROOT_OPTIONS).map_err(own)?;
    rustix::process::chdir(STAGE).map_err(|error| own(error.into()))?;
    let scratch = scratch(policy, &mut pending).map_err(own)?;
    let mut devices_own = vec![device(CWD).map_err(own)?, device(scratch.as_fd()).map_err(own)?];
    let mut layers = Vec::new();
    for view in views {
        let (target, mounted) = (view.target().to_owned(), view.mount());
        let (tree, layer) =
            mounted.map_err(|error| format!("could not lay a view over {}: {error}", target.display()))?;
        devices_own.push(device(tree.as_fd()).map_err(own)?);
        pending.push(Pending { target, source: Source::Tree(tree) });
        layers.push(layer);
    }
    for (index, root) in policy.empty.iter().enumerate() {
        pending.push(Pending { target: root.path.clone(), source: Source::Tree(empty(index).map_err(own)?) });
    }
    pending.sort_by_key(|it| it.target.components().count());
    skeleton().map_err(own)?;
    proc(policy).map_err(|error| format!("could not mount /proc: {error}"))?;
    device_files(devices).map_err(|error| format!("could not fill /dev: {error}"))?;
    let place = Own { devices: devices_own };
    for Pending { target, source } in pending {
        let placed = place.place(&source, &target);
        placed.map_err(|error| format!("could not mount {}: {error}", target.display()))?;
    }
    // Everything is in its place; what may not be changed is closed, and what may be within it is laid over that.
    let opened: Vec<OwnedFd> = (policy.opened.iter().map(|root| place.copy(policy, &root.path)))
        .collect::<io::Result<_>>()
        .map_err(|error| format!("could not open a part of a view: {error}"))?;
    let views = policy.overlays.iter().filter(|it| !it.writable).map(|it| &it.path);
    for path in policy.empty.iter().map(|root| &root.path).chain(views) {
        let close = open_path(path).and_then(|place| sys::add_mount_attributes(place.as_fd(), RDONLY, false));
        close.map_err(|error| format!("could not close {}: {error}", path.display()))?;
    }
    for (root, tree) in policy.opened.iter().zip(opened) {
        let laid = open_path(&root.path).and_then(|place| sys::move_mount(tree.as_fd(), place.as_fd()));
        laid.map_err(|error| format!("could not open {}: {error}", root.path.display()))?;
    }
    carve(policy)?;
    let here =
        rustix::fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|error| own(error.into()))?;
    sys::add_mount_attributes(here.as_fd(), RDONLY, false).map_err(own)?;
    sys::pivot_to_cwd().map_err(|error| format!("could not enter the root directory: {error}"))?;
    Ok(View { scratch, layers })
}

/// Copies every root of the policy, with its attributes. A root that is a symbolic link stays one.
fn collect(policy: &Policy) -> Result<Vec<Pending>, String> {
    let mut pending = Vec::new();
    let read = policy.read.iter().map(|root| (root, RDONLY | NOSUID | NODEV));
    let write = policy.write.iter().map(|root| (root, NOSUID | NODEV));
    for (root, attributes) in read.chain(write) {
        let target = root.path.clone();
        if let Ok(link) = fs::read_link(&root.path) {
            pending.push(Pending { target, source: Source::Link(link) });
            continue;
        }
        pending.push(Pending { target, source: copied(&root.path, attributes)? });
    }
    for placed in &policy.placed {
        let attributes = if placed.writable { NOSUID | NODEV } else { RDONLY | NOSUID | NODEV };
        pending.push(Pending { target: placed.path.clone(), source: copied(&placed.source, attributes)? });
    }
    Ok(pending)
}

/// A copy of what is at a path, with its attributes.
fn copied(path: &Path, attributes: u64) -> Result<Source, String> {
    let copy = sys::open_tree(path).and_then(|tree| {
        sys::add_mount_attributes(tree.as_fd(), attributes, true)?;
        Ok(Source::Tree(tree))
    });
    copy.map_err(|error| format!("could not copy {}: {error}", path.display()))
}

/// An empty directory in the root's own file system, under a name that is found nowhere.
fn empty(index: usize) -> io::Result<OwnedFd> {
    let name = format!(".empty-{index}");
    rustix::fs::mkdir(&name, Mode::from(0o755))?;
    let tree = sys::open_tree(Path::new(&name))?;
    sys::add_mount_attributes(tree.as_fd(), NOSUID | NODEV | NOEXEC, false)?;
    Ok(tree)
}

/// The number of the file system an open file is on.
fn device(file: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::statat(file, ".", rustix::fs::AtFlags::empty())?.st_dev)
}

/// One file system with one size for all private directories, so that one limit bounds them all.
fn scratch(policy: &Policy, pending: &mut Vec<Pending>) -> io::Result<OwnedFd> {
    const NAME: &std::ffi::CStr = c"scratch";
    let bytes = policy.limits.disk_bytes;
    let files = (bytes >> 20).saturating_mul(FILES_PER_MIB).max(FILES_PER_MIB);
    let options = CString::new(format!("mode=0755,size={bytes},nr_inodes={files}"))?;
    rustix::fs::mkdir(NAME, Mode::from(0o755))?;
    sys::mount_new(c"tmpfs", NAME, libc::MS_NOSUID | libc::MS_NODEV, &options)?;
    let root = open_dir(Path::new("scratch"))?;
    let places = PRIVATE.iter().map(PathBuf::from).chain([policy.home.clone()]);
    for (index, target) in places.enumerate() {
        let is_home = target == policy.home;
        let name = index.to_string();
        rustix::fs::mkdirat(&root, &name, Mode::from(if is_home { 0o700 } else { 0o1777 }))?;
        give_away(policy, &root, &name)?;
        let directory = rustix::fs::openat(&root, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        pending.push(Pending { target, source: Source::Tree(sys::open_tree_of(directory.as_fd())?) });
    }
    sys::detach(NAME)?;
    rustix::fs::rmdir(NAME)?;
    Ok(root)
}

/// Gives a directory of the sandbox's own to whom the program will be, where that is not who builds it.
fn give_away(policy: &Policy, at: impl AsFd, name: &str) -> io::Result<()> {
    policy.level.dedicated(true).map_or(Ok(()), |owner| give_entry(at, name, owner))
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// What the root directory holds besides mount points.
fn skeleton() -> io::Result<()> {
    for name in ["proc", "dev", "dev/shm", "dev/pts"] {
        rustix::fs::mkdir(name, Mode::from(0o755))?;
    }
    for (name, target) in
        [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx")]
    {
        rustix::fs::symlink(target, format!("dev/{name}"))?;
    }
    fs::write(relative(Path::new(CANARY)), "readable without the second wall\n")?;
    Ok(())
}

/// A new `/proc` for the new PID namespace, read-only, since as root its files command the machine.
fn proc(policy: &Policy) -> io::Result<()> {
    sys::mount_new(c"proc", c"proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, c"")?;
    if has_own_pid_max() {
        // The only limit that holds for root without a control group. Whether it took is read back.
        let _ = fs::write("proc/sys/kernel/pid_max", policy.limits.pids.to_string());
    }
    let mount = open_path(Path::new("/proc"))?;
    sys::add_mount_attributes(mount.as_fd(), RDONLY, false)?;
    let covered: Vec<_> = PROC_COVERED.iter().map(Path::new).filter(|it| relative(it).exists()).collect();
    for path in covered {
        let tree = sys::open_tree(Path::new("/dev/null"))?;
        sys::add_mount_attributes(tree.as_fd(), RDONLY | NOSUID | NOEXEC, false)?;
        sys::move_mount(tree.as_fd(), open_path(path)?.as_fd())?;
    }
    Ok(())
}

/// Whether `pid_max` belongs to the PID namespace, as it does since Linux 6.14. Before, it is the
/// whole machine's, and root must not touch it from in here.
pub(super) fn has_own_pid_max() -> bool {
    kernel_version() >= (6, 14)
}

/// The kernel's version, as far as it decides anything.
pub(crate) fn kernel_version() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut parts = release.split(|it: char| !it.is_ascii_digit()).map(|it| it.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn device_files(devices: [(&str, io::Result<OwnedFd>); DEVICES.len()]) -> io::Result<()> {
    for (name, tree) in devices {
        let tree = tree?;
        // Read-only keeps root inside from changing the mode of the machine's device file; writing
        // to the device itself goes through all the same.
        sys::add_mount_attributes(tree.as_fd(), RDONLY | NOSUID | NOEXEC, false)?;
        let place = Path::new("dev").join(name);
        fs::File::create_new(&place)?;
        sys::move_mount(tree.as_fd(), open_path(&place)?.as_fd())?;
    }
    sys::mount_new(c"devpts", c"dev/pts", libc::MS_NOSUID | libc::MS_NOEXEC, c"newinstance,ptmxmode=0666,mode=0600")
}

/// The path as seen from the working directory, which is the new root.
fn relative(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
        Ok(rest) => rest,
        Err(_) => path,
    }
}

/// Opens a target inside the new root: no symbolic link, nothing outside.
fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(CWD, relative(path), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

impl Own {
    /// Puts something where it belongs, making the mount point where that is allowed.
    fn place(&self, source: &Source, target: &Path) -> io::Result<()> {
        let tree = match source {
            Source::Link(link) => {
                let (parent, name) = self.parent(target)?;
                return Ok(rustix::fs::symlinkat(link, &parent, name)?);
            }
            Source::Tree(tree) => tree,
        };
        let place = match open_path(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = self.parent(target)?;
                let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir();
                if is_dir {
                    rustix::fs::mkdirat(&parent, name, Mode::from(0o755))?;
                } else {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    rustix::fs::openat(&parent, name, flags, Mode::from(0o644))?;
                }
                open_path(target)?
            }
            other => other?,
        };
        sys::move_mount(tree.as_fd(), place.as_fd())
    }

    /// A copy of the part of a view that is at a path, as it can be changed now; a directory, where nothing is there.
    fn copy(&self, policy: &Policy, path: &Path) -> io::Result<OwnedFd> {
        let found = match open_path(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = self.parent(path)?;
                self.check(&parent)?;
                rustix::fs::mkdirat(&parent, name, Mode::from(0o755))?;
                if let Some(owner) = policy.level.dedicated(true) {
                    give_entry(&parent, name, owner)?;
                }
                open_path(path)
            }
            other => other,
        };
        sys::open_tree_of(found?.as_fd())
    }

    /// The directory above a target, made if need be, and the target's name in it.
    fn parent<'a>(&self, target: &'a Path) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
        let target = relative(target);
        let missing = || io::Error::other("the path has no last part");
        let (above, name) = (target.parent().ok_or_else(missing)?, target.file_name().ok_or_else(missing)?);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |at: &OwnedFd, name: &std::ffi::OsStr| rustix::fs::openat2(at, name, flags, Mode::empty(), resolve);
        let mut at = rustix::fs::open(".", flags, Mode::empty())?;
        for part in above.components() {
            let part = part.as_os_str();
            at = match open(&at, part) {
                Err(rustix::io::Errno::NOENT) => {
                    self.check(&at)?;
                    rustix::fs::mkdirat(&at, part, Mode::from(0o755))?;
                    open(&at, part)?
                }
                other => other?,
            };
        }
        self.check(&at)?;
        Ok((at, name))
    }

    fn check(&self, directory: &OwnedFd) -> io::Result<()> {
        if self.devices.contains(&device(directory)?) {
            return Ok(());
        }
        Err(io::Error::other("the place does not exist, and making it would change the machine"))
    }
}

/// Protects and hides what lies inside other roots. A place that is missing is refused: a program
/// could make it, and would then own what was to be kept from it.
fn carve(policy: &Policy) -> Result<(), String> {
    for root in &policy.protected {
        let protect = || {
            let place = open_path(&root.path)?;
            let tree = sys::open_tree_of(place.as_fd())?;
            sys::add_mount_attributes(tree.as_fd(), RDONLY | NOSUID | NODEV, true)?;
            sys::move_mount(tree.as_fd(), place.as_fd())
        };
        protect().map_err(|error| format!("could not protect {}: {error}", root.path.display()))?;
    }
    let make = || -> io::Result<(OwnedFd, OwnedFd)> {
        rustix::fs::mkdir(".nothing", Mode::from(0o555))?;
        fs::write(".empty", "")?;
        rustix::fs::chmod(".empty", Mode::from(0o444))?;
        Ok((open_path(Path::new("/.nothing"))?, open_path(Path::new("/.empty"))?))
    };
    let (nothing, empty) = make().map_err(|error| format!("could not make the covers: {error}"))?;
    for root in &policy.hidden {
        let hide = || {
            let place = open_path(&root.path)?;
            let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode).is_dir();
            let cover = sys::open_tree_of(if is_dir { nothing.as_fd() } else { empty.as_fd() })?;
            sys::add_mount_attributes(cover.as_fd(), RDONLY | NOSUID | NODEV | NOEXEC, false)?;
            sys::move_mount(cover.as_fd(), place.as_fd())
        };
        hide().map_err(|error| format!("could not hide {}: {error}", root.path.display()))?;
    }
    Ok(())
}
