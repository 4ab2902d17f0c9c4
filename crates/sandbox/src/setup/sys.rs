//! The kernel calls that no safe interface offers, each wrapped once.
//!
//! Every `unsafe` block of the crate's set-up is here, behind functions that take and return owned
//! descriptors and plain values. Nothing here decides anything.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libc::{c_int, c_long, c_uint, c_ulong, pid_t};

/// A mount that cannot be written through.
pub(super) const RDONLY: u64 = 0x1;
/// A mount whose set-user-id bits mean nothing.
pub(super) const NOSUID: u64 = 0x2;
/// A mount whose device files are dead.
pub(super) const NODEV: u64 = 0x4;
/// A mount nothing can be executed from.
pub(super) const NOEXEC: u64 = 0x8;

/// `AT_RECURSIVE` of the mount calls: the mounts below as well.
const RECURSIVE: c_int = 0x8000;
/// The flag of `clone3` that libc has in too narrow a type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const OPEN_TREE_CLONE: c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: c_uint = 0x40;
const CLOSE_RANGE_CLOEXEC: c_uint = 4;
/// `PR_SET_NO_NEW_PRIVS` and friends take unsigned longs; unused arguments must be zero.
const ZERO: c_ulong = 0;
/// The third version of the capability interface, with two words per set.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
/// Capability numbers the kernel could know; those it does not know end the loop.
const CAPABILITIES_MAX: c_ulong = 64;

#[repr(C)]
struct MountAttributes {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

fn result(value: c_long) -> io::Result<c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// A path for the kernel.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

/// Makes a child in new namespaces; `None` in the child, its id and descriptor in the parent.
///
/// The caller must have one thread only, so that the child finds no lock taken by a thread that
/// was not copied.
pub(super) fn clone_into(namespaces: c_int) -> io::Result<Option<(pid_t, OwnedFd)>> {
    let mut pidfd: c_int = -1;
    let flags = (namespaces | libc::CLONE_PIDFD | libc::SIGCHLD) as c_ulong;
    let (stack, tls) = (ptr::null_mut::<u8>(), ptr::null_mut::<u8>());
    // SAFETY: without CLONE_VM the child gets a copy of this address space and of this stack, as
    // with fork; `pidfd` outlives the call and is written only by the kernel, in the parent.
    let pid =
        result(unsafe { libc::syscall(libc::SYS_clone, flags, stack, &raw mut pidfd, ptr::null_mut::<c_int>(), tls) })?;
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Some((pid as pid_t, pidfd)))
}

/// The same, with the child made in a control group. Older kernels and some containers do not know the
/// call.
pub(super) fn clone_into_group(namespaces: c_int, group: BorrowedFd<'_>) -> io::Result<Option<(pid_t, OwnedFd)>> {
    let mut pidfd: c_int = -1;
    // SAFETY: the structure is plain numbers, for which zero is "not asked for".
    let mut asked: libc::clone_args = unsafe { mem::zeroed() };
    asked.flags = (namespaces | libc::CLONE_PIDFD) as u64 | CLONE_INTO_CGROUP;
    asked.pidfd = &raw mut pidfd as u64;
    asked.exit_signal = libc::SIGCHLD as u64;
    asked.cgroup = group.as_raw_fd() as u64;
    // SAFETY: without CLONE_VM and without a stack the child gets a copy of this address space and of
    // this stack, as with fork; the structure and `pidfd` outlive the call, and its true size is given.
    let pid = result(unsafe { libc::syscall(libc::SYS_clone3, &raw const asked, size_of_val(&asked)) })?;
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Some((pid as pid_t, pidfd)))
}

/// Makes the control groups that this process is in the only ones in view.
pub(super) fn leave_cgroup_namespace() -> io::Result<()> {
    // SAFETY: plain numbers.
    result(c_long::from(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) })).map(drop)
}

/// Makes a child in the same namespaces; `None` in the child. One thread only, as above.
pub(super) fn fork() -> io::Result<Option<pid_t>> {
    // SAFETY: the process has one thread, so the child is in a consistent state.
    let pid = result(c_long::from(unsafe { libc::fork() }))?;
    Ok((pid != 0).then_some(pid as pid_t))
}

/// Ends the process at once: no destructors, no handlers, which belong to the parent's copy.
pub(super) fn exit_now(code: c_int) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// A copy of the mounts at and below a path, attached nowhere yet.
pub(super) fn open_tree(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    open_tree_at(libc::AT_FDCWD, &path, 0)
}

/// The same for an open directory or file.
pub(super) fn open_tree_of(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_tree_at(fd.as_raw_fd(), c"", libc::AT_EMPTY_PATH as c_uint)
}

fn open_tree_at(dir: RawFd, path: &CStr, more: c_uint) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as c_uint | RECURSIVE as c_uint | more;
    // SAFETY: the path is a terminated string that outlives the call.
    let fd = result(unsafe { libc::syscall(libc::SYS_open_tree, dir, path.as_ptr(), flags) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Attaches a copied tree on top of an open file or directory.
pub(super) fn move_mount(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    let (tree, target, empty) = (tree.as_raw_fd(), target.as_raw_fd(), c"".as_ptr());
    // SAFETY: both paths are the empty terminated string; both descriptors are borrowed.
    result(unsafe { libc::syscall(libc::SYS_move_mount, tree, empty, target, empty, flags) }).map(drop)
}

/// Adds attributes to the mount at a descriptor, and with `recursive` to all below it.
pub(super) fn add_mount_attributes(mount: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attributes = MountAttributes { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { RECURSIVE } else { 0 };
    let (size, empty) = (size_of_val(&attributes), c"".as_ptr());
    let call = libc::SYS_mount_setattr;
    // SAFETY: the structure outlives the call and its true size is given.
    result(unsafe { libc::syscall(call, mount.as_raw_fd(), empty, flags, &raw const attributes, size) }).map(drop)
}

/// Mounts a new file system at a path relative to the working directory.
pub(super) fn mount_new(kind: &CStr, target: &CStr, flags: c_ulong, options: &CStr) -> io::Result<()> {
    let data = options.as_ptr().cast();
    // SAFETY: all four strings are terminated and outlive the call.
    result(c_long::from(unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data) })).map(drop)
}

/// Lets no mount event pass between this namespace and the one it was copied from.
pub(super) fn make_mounts_private() -> io::Result<()> {
    let (none, root, flags) = (c"none".as_ptr(), c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: the strings are terminated; a change of propagation takes no type and no data.
    result(c_long::from(unsafe { libc::mount(none, root, ptr::null(), flags, ptr::null()) })).map(drop)
}

/// Makes the working directory the root and forgets the old root.
pub(super) fn pivot_to_cwd() -> io::Result<()> {
    let here = c".".as_ptr();
    // SAFETY: terminated strings; the kernel checks that they are mount points.
    result(unsafe { libc::syscall(libc::SYS_pivot_root, here, here) })?;
    detach(c".")
}

/// Takes a mount away, now from the view and later, when nothing uses it, for good.
pub(super) fn detach(path: &CStr) -> io::Result<()> {
    // SAFETY: a terminated string.
    result(c_long::from(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })).map(drop)
}

fn prctl(option: c_int, value: c_ulong) -> io::Result<c_long> {
    // SAFETY: the options used here take plain numbers, never pointers.
    result(c_long::from(unsafe { libc::prctl(option, value, ZERO, ZERO, ZERO) }))
}

/// Has the kernel kill this process when its parent's thread ends.
pub(super) fn die_with_parent() -> io::Result<()> {
    hear_parents_death(libc::SIGKILL)
}

/// Has the kernel send this process a signal when its parent's thread ends.
pub(super) fn hear_parents_death(signal: c_int) -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, signal as c_ulong).map(drop)
}

/// Makes this process the parent of whatever below it loses its own.
pub(super) fn adopt_orphans() -> io::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map(drop)
}

/// Becomes another user and group, with no way back. Needs the right to, which only root has.
pub(super) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    drop_groups()?;
    // SAFETY: plain numbers; the process has one thread, so that none is left behind as another user.
    result(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: as above.
    result(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }).map(drop)
}

/// Keeps other processes of the same user out of this one's memory, descriptors and environment.
pub(super) fn set_undumpable() -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, 0).map(drop)
}

/// Makes set-user-id programs ordinary ones, for this process and all below it, for ever.
pub(super) fn set_no_new_privileges() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop)
}

/// Empties the bounding set: what is given up after it can never be had again.
pub(super) fn bound_capabilities() {
    for capability in 0..CAPABILITIES_MAX {
        if prctl(libc::PR_CAPBSET_DROP, capability).is_err() {
            break;
        }
    }
}

/// Gives up every capability.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let clear_all = libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong;
    prctl(libc::PR_CAP_AMBIENT, clear_all)?;
    let header = [CAPABILITY_VERSION_3, 0];
    let sets = [0u32; 6];
    // SAFETY: the header and the two triples of words have the layout of version 3.
    result(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) }).map(drop)
}

/// Empties the list of supplementary groups; needs the right to, which only root has.
pub(super) fn drop_groups() -> io::Result<()> {
    // SAFETY: an empty list is read from nowhere.
    result(c_long::from(unsafe { libc::setgroups(0, ptr::null()) })).map(drop)
}

/// Marks every descriptor from 3 on to be closed when the program starts.
pub(super) fn close_all_on_exec() -> io::Result<()> {
    // SAFETY: only a flag is set; no descriptor is closed under anybody's feet.
    result(unsafe { libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// The set of these signals.
fn signal_set(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain bits; `sigemptyset` initialises it, and the numbers are valid.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks exactly these signals and returns a descriptor that is readable when one is pending.
pub(super) fn signals_as_descriptor(signals: &[c_int]) -> io::Result<OwnedFd> {
    block_exactly(signals)?;
    let set = signal_set(signals);
    // SAFETY: the set is initialised.
    let fd =
        result(c_long::from(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) }))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Blocks these signals and no other.
pub(super) fn block_exactly(signals: &[c_int]) -> io::Result<()> {
    let set = signal_set(signals);
    // SAFETY: the set is initialised, and the old one is not asked for.
    result(c_long::from(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut()) })).map(drop)
}

/// Lets ended children vanish without being waited for, or be waited for again.
pub(super) fn forget_children(forget: bool) {
    // SAFETY: neither action runs code of ours.
    unsafe { libc::signal(libc::SIGCHLD, if forget { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// Signals that somebody may have told this process to ignore, which a program would inherit: Rust
/// does so with the first, `nohup` with the second, shells with most of the others. Handlers need no
/// care: executing a program forgets them.
const OFTEN_IGNORED: [c_int; 14] = [
    libc::SIGPIPE,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Gives these signals their ordinary meaning.
pub(super) fn reset_signals() {
    for signal in OFTEN_IGNORED {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The next pending signal of a descriptor made by [`signals_as_descriptor`].
pub(super) fn next_signal(signals: BorrowedFd<'_>) -> Option<c_int> {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
    let count = rustix::io::read(signals, &mut buffer).ok()?;
    let number = buffer.get(..4).filter(|_| count == buffer.len())?;
    Some(u32::from_ne_bytes([number[0], number[1], number[2], number[3]]) as c_int)
}

/// A child that ended.
pub(super) struct Reaped {
    pub(super) pid: pid_t,
    pub(super) status: c_int,
    pub(super) usage: libc::rusage,
}

/// Takes one ended child, or waits for it when `wait`.
pub(super) fn reap(pid: pid_t, wait: bool) -> Option<Reaped> {
    let flags = if wait { 0 } else { libc::WNOHANG };
    let mut status = 0;
    loop {
        // SAFETY: `rusage` is plain numbers, for which zero is a value; both outlive the call.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = mem::zeroed();
            (libc::wait4(pid, &raw mut status, flags, &raw mut usage), usage)
        };
        match pid {
            0 => return None,
            pid if pid > 0 => return Some(Reaped { pid, status, usage }),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
}

/// What the reaped children of this process used.
pub(super) fn children_usage() -> libc::rusage {
    // SAFETY: plain numbers, written by the kernel.
    unsafe {
        let mut usage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    }
}

/// Sends a signal; a target that is gone already is no error worth hearing of.
pub(crate) fn signal(pid: pid_t, signal: c_int) {
    // SAFETY: `kill` has no preconditions.
    unsafe { libc::kill(pid, signal) };
}

/// Brings the loopback interface of this network namespace up.
pub(super) fn bring_loopback_up() -> io::Result<()> {
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, rustix::net::SocketFlags::CLOEXEC, None)?;
    // SAFETY: `ifreq` is plain data, for which zero is a value; the name is terminated by it, and
    // the structure outlives the call.
    unsafe {
        let mut request: libc::ifreq = mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        result(c_long::from(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request))).map(drop)
    }
}

/// Installs a seccomp program over this process and all below it.
pub(super) fn install_seccomp(program: &[libc::sock_filter]) -> io::Result<()> {
    install_seccomp_with(program, 0).map(drop)
}

/// The same, with a descriptor on which the calls are heard that the program answers with "ask". A call that is being
/// asked about is not broken off by signals where the kernel knows how: it would be made, and heard, twice.
pub(super) fn install_seccomp_heard(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let heard = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let patient = heard | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let fd = install_seccomp_with(program, patient).or_else(|_| install_seccomp_with(program, heard))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn install_seccomp_with(program: &[libc::sock_filter], flags: c_ulong) -> io::Result<c_long> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let (call, mode) = (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER);
    // SAFETY: the program outlives the call and is only read.
    result(unsafe { libc::syscall(call, mode, flags as c_uint, &raw const filter) })
}

/// A kernel call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) id: u64,
    /// The thread that makes it, by its number in the namespace of who listens.
    pub(crate) thread: u32,
    pub(crate) call: c_long,
    pub(crate) arguments: [u64; 6],
}

/// `SECCOMP_IOCTL_NOTIF_RECV`, `_SEND` and `_ID_VALID`.
const HEAR: c_ulong = 0xc050_2100;
const ANSWER: c_ulong = 0xc018_2101;
const IS_WAITING: c_ulong = 0x4008_2102;

/// The next call that waits for an answer.
pub(crate) fn hear_call(listener: BorrowedFd<'_>) -> io::Result<Heard> {
    // SAFETY: plain numbers, which the kernel wants to be zero.
    let mut heard: libc::seccomp_notif = unsafe { mem::zeroed() };
    // SAFETY: the structure has the size that the request names, and outlives the call.
    result(c_long::from(unsafe { libc::ioctl(listener.as_raw_fd(), HEAR as _, &raw mut heard) }))?;
    let (call, arguments) = (c_long::from(heard.data.nr), heard.data.args);
    Ok(Heard { id: heard.id, thread: heard.pid, call, arguments })
}

/// Whether a call still waits: only then what was read of its process was that process's.
pub(crate) fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the number outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_WAITING as _, &raw const id) == 0 }
}

/// Lets a call be made, or has it fail with an error. One that is gone meanwhile needs no answer.
pub(crate) fn answer_call(listener: BorrowedFd<'_>, id: u64, refused: Option<c_int>) {
    let flags = if refused.is_none() { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
    let answer = libc::seccomp_notif_resp { id, val: 0, error: -refused.unwrap_or(0), flags };
    // SAFETY: the structure has the size that the request names, and outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), ANSWER as _, &raw const answer) };
}

/// What a Landlock ruleset speaks for.
#[repr(C)]
pub(crate) struct RulesetAttributes {
    pub(crate) handled_access_fs: u64,
    pub(crate) handled_access_net: u64,
    pub(crate) scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The kernel's Landlock version; 0 when it has none.
pub(crate) fn landlock_abi() -> u32 {
    let (none, version) = (ptr::null::<u8>(), 1 as c_uint);
    // SAFETY: with the version flag no structure is read.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, version) };
    u32::try_from(abi).unwrap_or(0)
}

/// An empty ruleset: all that it speaks for is refused.
pub(super) fn landlock_ruleset(attributes: &RulesetAttributes, size: usize) -> io::Result<OwnedFd> {
    assert!(size <= size_of_val(attributes), "BUG: the kernel would read past the structure");
    let call = libc::SYS_landlock_create_ruleset;
    // SAFETY: the kernel reads `size` bytes, which the structure has.
    let fd = result(unsafe { libc::syscall(call, &raw const *attributes, size, 0 as c_uint) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Allows `access` at and below an open path.
pub(super) fn landlock_allow(ruleset: &OwnedFd, path: BorrowedFd<'_>, access: u64) -> io::Result<()> {
    let rule = PathBeneath { allowed_access: access, parent_fd: path.as_raw_fd() };
    let (call, beneath) = (libc::SYS_landlock_add_rule, 1 as c_uint);
    // SAFETY: the rule has the kernel's packed layout and outlives the call.
    result(unsafe { libc::syscall(call, ruleset.as_raw_fd(), beneath, &raw const rule, 0 as c_uint) }).map(drop)
}

/// Puts this process and all below it under a ruleset, for ever.
pub(super) fn landlock_enforce(ruleset: &OwnedFd) -> io::Result<()> {
    let (call, ruleset) = (libc::SYS_landlock_restrict_self, ruleset.as_fd().as_raw_fd());
    // SAFETY: plain numbers.
    result(unsafe { libc::syscall(call, ruleset, 0 as c_uint) }).map(drop)
}

/// Becomes another program; returns only with an error.
pub(super) fn execute(program: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| strings.iter().map(|it| it.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both lists end with a null pointer and point to strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
