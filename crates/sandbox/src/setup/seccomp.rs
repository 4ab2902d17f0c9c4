//! The kernel calls a confined program cannot make.
//!
//! A deny list, not an allow list: an agent runs compilers, interpreters and test suites nobody
//! has listed, and a new harmless call must not break them. What is denied is what reaches past
//! the other walls or has no use but attack, one line with its reason each. The program is
//! assembled here instead of by `seccompiler`, which knows one answer per filter and no x32 guard:
//! this is one filter with three answers and a test that walks it.

use std::io;
use std::os::fd::OwnedFd;

use libc::{c_long, sock_filter};

use super::sys;
use crate::level::{Level, UNPRIVILEGED};

/// A call that is refused, and why.
pub struct Denied {
    /// Its name.
    pub name: &'static str,
    number: c_long,
    /// What it would allow.
    pub reason: &'static str,
}

macro_rules! denied {
    ($($call:ident $number:ident $reason:literal)*) => {
        &[$(Denied { name: stringify!($call), number: libc::$number, reason: $reason }),*]
    };
}

/// Every call that answers "not permitted", with its reason.
pub const DENIED: &[Denied] = denied! {
    mount SYS_mount "the view of the file system is fixed"
    umount2 SYS_umount2 "would lift a cover off a secret"
    pivot_root SYS_pivot_root "the view of the file system is fixed"
    chroot SYS_chroot "the view of the file system is fixed"
    open_tree SYS_open_tree "would copy a mount without its cover"
    move_mount SYS_move_mount "the view of the file system is fixed"
    mount_setattr SYS_mount_setattr "would make a read-only mount writable"
    fsopen SYS_fsopen "would open a new file system"
    fsconfig SYS_fsconfig "would open a new file system"
    fsmount SYS_fsmount "would open a new file system"
    fspick SYS_fspick "would change a mounted file system"
    unshare SYS_unshare "a new namespace gives capabilities inside it"
    setns SYS_setns "would enter another namespace"
    ptrace SYS_ptrace "would drive another process"
    process_vm_readv SYS_process_vm_readv "would read another process's memory"
    process_vm_writev SYS_process_vm_writev "would write another process's memory"
    process_madvise SYS_process_madvise "would change another process's memory"
    kcmp SYS_kcmp "compares kernel objects of other processes"
    pidfd_getfd SYS_pidfd_getfd "would take a descriptor out of another process"
    bpf SYS_bpf "loads programs into the kernel"
    perf_event_open SYS_perf_event_open "watches the kernel and other processes; many holes in its past"
    userfaultfd SYS_userfaultfd "stops the kernel mid-copy, which exploits are built on"
    io_uring_setup SYS_io_uring_setup "makes calls that this filter does not see"
    io_uring_enter SYS_io_uring_enter "makes calls that this filter does not see"
    io_uring_register SYS_io_uring_register "makes calls that this filter does not see"
    keyctl SYS_keyctl "key rings are not part of any namespace"
    add_key SYS_add_key "key rings are not part of any namespace"
    request_key SYS_request_key "key rings are not part of any namespace"
    init_module SYS_init_module "loads code into the kernel"
    finit_module SYS_finit_module "loads code into the kernel"
    delete_module SYS_delete_module "takes code out of the kernel"
    kexec_load SYS_kexec_load "replaces the kernel"
    kexec_file_load SYS_kexec_file_load "replaces the kernel"
    reboot SYS_reboot "stops the machine"
    swapon SYS_swapon "administration"
    swapoff SYS_swapoff "administration"
    acct SYS_acct "administration"
    quotactl SYS_quotactl "administration"
    quotactl_fd SYS_quotactl_fd "administration"
    syslog SYS_syslog "the kernel's log names addresses and other users' doings"
    settimeofday SYS_settimeofday "the clock is the whole machine's"
    clock_settime SYS_clock_settime "the clock is the whole machine's"
    clock_adjtime SYS_clock_adjtime "the clock is the whole machine's"
    adjtimex SYS_adjtimex "the clock is the whole machine's"
    sethostname SYS_sethostname "the name is fixed"
    setdomainname SYS_setdomainname "the name is fixed"
    name_to_handle_at SYS_name_to_handle_at "a handle reaches a file past the view"
    open_by_handle_at SYS_open_by_handle_at "a handle reaches a file past the view"
    lookup_dcookie SYS_lookup_dcookie "turns a number into a path past the view"
    fanotify_init SYS_fanotify_init "watches what others do with files"
    vhangup SYS_vhangup "would hang up a terminal"
    migrate_pages SYS_migrate_pages "moves another process's memory"
    move_pages SYS_move_pages "tells where another process's memory lies"
};

/// The same for calls that libc does not name yet; their numbers are the same on every architecture.
pub const DENIED_NEW: &[Denied] = &[
    Denied { name: "open_tree_attr", number: 467, reason: "would copy a mount without its cover" },
    Denied { name: "lsm_get_self_attr", number: 459, reason: "tells what security modules hold the program to" },
    Denied { name: "lsm_set_self_attr", number: 460, reason: "changes what security modules know of the program" },
    Denied { name: "lsm_list_modules", number: 461, reason: "tells which security modules the machine has" },
    Denied { name: "file_getattr", number: 468, reason: "flags of files are the file system's administration" },
    Denied { name: "file_setattr", number: 469, reason: "flags of files are the file system's administration" },
    Denied { name: "listns", number: 470, reason: "tells of namespaces that are not the program's" },
];

/// The same for calls of the first architecture only.
#[cfg(target_arch = "x86_64")]
const DENIED_X86: &[Denied] = denied! {
    ioperm SYS_ioperm "gives access to the machine's ports"
    iopl SYS_iopl "gives access to the machine's ports"
    uselib SYS_uselib "maps a library as only programs of the last century do"
    ustat SYS_ustat "tells of file systems by their device, whatever the view"
    sysfs SYS_sysfs "tells which file systems the kernel knows"
};
#[cfg(not(target_arch = "x86_64"))]
const DENIED_X86: &[Denied] = &[];

/// What is refused besides where there are no namespaces, and the machine's own processes and names are
/// in reach.
pub const DENIED_BARE: &[Denied] = denied! {
    shmget SYS_shmget "shared memory of the machine, by number"
    shmat SYS_shmat "shared memory of the machine, by number"
    shmctl SYS_shmctl "shared memory of the machine, by number"
    msgget SYS_msgget "message queues of the machine, by number"
    msgsnd SYS_msgsnd "message queues of the machine, by number"
    msgrcv SYS_msgrcv "message queues of the machine, by number"
    msgctl SYS_msgctl "message queues of the machine, by number"
    semget SYS_semget "semaphores of the machine, by number"
    semop SYS_semop "semaphores of the machine, by number"
    semtimedop SYS_semtimedop "semaphores of the machine, by number"
    semctl SYS_semctl "semaphores of the machine, by number"
    mq_open SYS_mq_open "message queues of the machine, by name"
    mq_unlink SYS_mq_unlink "message queues of the machine, by name"
    inotify_add_watch SYS_inotify_add_watch "tells names in directories that cannot be listed"
    ioprio_set SYS_ioprio_set "changes the standing of other processes of the user"
    fchown SYS_fchown "touches a file outside even where it changes nothing"
    fchownat SYS_fchownat "touches a file outside even where it changes nothing"
    setxattr SYS_setxattr "changes attributes outside"
    lsetxattr SYS_lsetxattr "changes attributes outside"
    fsetxattr SYS_fsetxattr "changes attributes outside"
    removexattr SYS_removexattr "changes attributes outside"
    lremovexattr SYS_lremovexattr "changes attributes outside"
    fremovexattr SYS_fremovexattr "changes attributes outside"
};

/// The same by the older calls of the first architecture.
#[cfg(target_arch = "x86_64")]
const DENIED_BARE_OLD: &[Denied] = denied! {
    chown SYS_chown "touches a file outside even where it changes nothing"
    lchown SYS_lchown "touches a file outside even where it changes nothing"
};
#[cfg(not(target_arch = "x86_64"))]
const DENIED_BARE_OLD: &[Denied] = &[];

/// What is refused besides where the program is the user himself, who owns files outside: Landlock does
/// not speak of a file's mode and times.
pub const DENIED_OWNER: &[Denied] = denied! {
    fchmod SYS_fchmod "changes a mode outside"
    fchmodat SYS_fchmodat "changes a mode outside"
    utimensat SYS_utimensat "changes times outside"
};

/// The same by the older calls of the first architecture.
#[cfg(target_arch = "x86_64")]
const DENIED_OWNER_OLD: &[Denied] = denied! {
    chmod SYS_chmod "changes a mode outside"
    utime SYS_utime "changes times outside"
    utimes SYS_utimes "changes times outside"
    futimesat SYS_futimesat "changes times outside"
};
#[cfg(not(target_arch = "x86_64"))]
const DENIED_OWNER_OLD: &[Denied] = &[];

/// The last call before those that were added for what [`DENIED_OWNER`] refuses: `fchmodat2` and its
/// successors. Without namespaces all later ones are unknown, and libraries then use the older ones.
const LAST_KNOWN: c_long = libc::SYS_landlock_restrict_self;

/// Requests to a file or terminal that can be made where there are no namespaces. All others are refused:
/// some file systems let a directory that is open for reading be changed by a request of their own.
const REQUESTS: [u32; 11] = [
    libc::TCGETS as u32,
    libc::TCSETS as u32,
    libc::TCSETSW as u32,
    libc::TCSETSF as u32,
    libc::TIOCGWINSZ as u32,
    libc::TIOCGPGRP as u32,
    libc::TIOCSPGRP as u32,
    libc::FIONREAD as u32,
    libc::FIONBIO as u32,
    libc::FIOCLEX as u32,
    libc::FIONCLEX as u32,
];

/// Calls whose first argument names the process that is changed; 0 is the caller itself.
const BY_PROCESS: [c_long; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// Kinds of pairs that can be made: connected for good. A datagram socket of a pair can still send to any
/// path and name.
const PAIRS: [i32; 2] = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];

/// Namespaces a `clone` may not make; their bits do not overlap with those of the exit signal.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

/// Families of sockets that can be made; every other, AF_VSOCK and AF_NETLINK among them, is
/// refused because network namespaces do not hold it back. AF_UNIX is not here: a path or an
/// abstract name may lead to a service outside. Pairs of unix sockets are made by another call.
const FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// Terminal requests that put words into the mouth of whoever sits at the terminal.
const TERMINAL_REQUESTS: [u32; 2] = [libc::TIOCSTI as u32, 0x541C];

/// Calls of the x32 interface carry this bit and would pass under other numbers.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const ALLOW: u32 = 0x7fff_0000;
/// Whoever listens is asked.
const ASK: u32 = libc::SECCOMP_RET_USER_NOTIF;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

/// Where the kernel puts the call's number, its architecture and its arguments.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENT_AT: [u32; 2] = [16, 24];
/// Both halves of the fifth argument.
const FIFTH_AT: [u32; 2] = [48, 52];

/// Calls that are heard of where somebody listens: what starts programs, what reaches out, and what every program does
/// first of all, when nobody else can change what it is any more.
const HEARD: [c_long; 4] = [libc::SYS_execve, libc::SYS_execveat, libc::SYS_connect, libc::SYS_set_tid_address];

/// The flag of a file in memory that can never be executed.
const NEVER_EXECUTED: u32 = 0x8;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER: u16 = 0x25;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

fn load(at: u32) -> sock_filter {
    sock_filter { code: LOAD, jt: 0, jf: 0, k: at }
}

fn answer(value: u32) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: value }
}

/// Continues when the loaded word equals `value`, else skips `skip` instructions.
fn unless_equal_skip(value: u32, skip: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: skip, k: value }
}

fn if_equal_skip(value: u32, skip: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_EQUAL, jt: skip, jf: 0, k: value }
}

fn unless_greater_skip(value: u32, skip: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_GREATER, jt: 0, jf: skip, k: value }
}

fn unless_any_bit_skip(bits: u32, skip: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_ANY_BIT, jt: 0, jf: skip, k: bits }
}

fn refuse(errno: i32) -> u32 {
    ERRNO | errno as u32
}

/// What the filter must hold by itself, because no other wall does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// The machine is out of view.
    Namespaces,
    /// It is in view, and the program is one who owns nothing in it.
    Bare,
    /// It is in view, and the program is a user who owns files in it.
    BareOwner,
}

impl Ground {
    fn of(level: Level, uid: u32) -> Self {
        match level.has_namespaces() {
            true => Self::Namespaces,
            false if uid == UNPRIVILEGED.uid => Self::Bare,
            false => Self::BareOwner,
        }
    }

    /// The lists of calls that are refused.
    fn denied(self) -> &'static [&'static [Denied]] {
        match self {
            Self::Namespaces => &[DENIED, DENIED_NEW, DENIED_X86],
            Self::Bare => &[DENIED, DENIED_NEW, DENIED_X86, DENIED_BARE, DENIED_BARE_OLD],
            Self::BareOwner => {
                &[DENIED, DENIED_NEW, DENIED_X86, DENIED_BARE, DENIED_BARE_OLD, DENIED_OWNER, DENIED_OWNER_OLD]
            }
        }
    }
}

/// What a filter is to do besides refusing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// Somebody listens.
    pub(super) heard: bool,
    /// Nothing can be executed that is in no directory.
    pub(super) no_files_in_memory: bool,
}

/// The whole filter.
fn program(ground: Ground, wanted: Wanted) -> Vec<sock_filter> {
    let native = if_equal_skip(ARCHITECTURE, 1);
    let mut code = vec![load(ARCHITECTURE_AT), native, answer(KILL), load(NUMBER_AT)];
    #[cfg(target_arch = "x86_64")]
    code.extend([unless_any_bit_skip(X32_BIT, 1), answer(refuse(libc::ENOSYS))]);
    for call in ground.denied().iter().copied().flatten() {
        code.extend([unless_equal_skip(call.number as u32, 1), answer(refuse(libc::EPERM))]);
    }
    // Its flags lie in memory, where a filter cannot look; libraries then use `clone`.
    code.extend([unless_equal_skip(libc::SYS_clone3 as u32, 1), answer(refuse(libc::ENOSYS))]);
    let clone = [load(ARGUMENT_AT[0]), unless_any_bit_skip(NAMESPACES, 1), answer(refuse(libc::EPERM)), answer(ALLOW)];
    extend_for(&mut code, libc::SYS_clone, &clone);
    let families: &[i32] = if ground == Ground::Namespaces { &FAMILIES } else { &[] };
    extend_for(&mut code, libc::SYS_socket, &only(ARGUMENT_AT[0], families, libc::EAFNOSUPPORT));
    let mut pair = vec![load(ARGUMENT_AT[0]), if_equal_skip(libc::AF_UNIX as u32, 1)];
    pair.push(answer(refuse(libc::EAFNOSUPPORT)));
    pair.extend(only(ARGUMENT_AT[1], &kinds_of_pairs(), libc::EAFNOSUPPORT));
    extend_for(&mut code, libc::SYS_socketpair, &pair);
    extend_for(&mut code, libc::SYS_ioctl, &requests(ground));
    if ground != Ground::Namespaces {
        extend_bare(&mut code);
    }
    if wanted.no_files_in_memory {
        let flags = [load(ARGUMENT_AT[1]), unless_any_bit_skip(NEVER_EXECUTED, 1), answer(ALLOW)];
        // Unknown: programs that want one for something else then use a file.
        extend_for(&mut code, libc::SYS_memfd_create, &[&flags[..], &[answer(refuse(libc::ENOSYS))]].concat());
    }
    if wanted.heard {
        extend_heard(&mut code);
    }
    code.push(answer(ALLOW));
    code
}

fn extend_heard(code: &mut Vec<sock_filter>) {
    for call in HEARD {
        code.extend([unless_equal_skip(call as u32, 1), answer(ASK)]);
    }
    // Go's programs do this first.
    extend_for(
        code,
        libc::SYS_sched_getaffinity,
        &[load(ARGUMENT_AT[0]), unless_equal_skip(0, 1), answer(ASK), answer(ALLOW)],
    );
    // A packet that names where it goes.
    let [low, high] = FIFTH_AT;
    let named = [load(low), unless_equal_skip(0, 3), load(high), unless_equal_skip(0, 1), answer(ALLOW), answer(ASK)];
    extend_for(code, libc::SYS_sendto, &named);
}

/// Every spelling of the kinds of pairs, which may carry two flags.
fn kinds_of_pairs() -> Vec<i32> {
    let flags = [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK];
    PAIRS.iter().flat_map(|kind| flags.map(|flags| kind | flags)).collect()
}

fn requests(ground: Ground) -> Vec<sock_filter> {
    if ground != Ground::Namespaces {
        return only(ARGUMENT_AT[1], &REQUESTS.map(|it| it as i32), libc::EPERM);
    }
    let mut ioctl = vec![load(ARGUMENT_AT[1])];
    for request in TERMINAL_REQUESTS {
        ioctl.extend([unless_equal_skip(request, 1), answer(refuse(libc::EPERM))]);
    }
    ioctl.push(answer(ALLOW));
    ioctl
}

/// What keeps the hands off the machine's other processes, and off calls that this list does not know.
fn extend_bare(code: &mut Vec<sock_filter>) {
    for call in BY_PROCESS {
        extend_for(code, call, &only(ARGUMENT_AT[0], &[0], libc::EPERM));
    }
    // The first argument says that the second names a process, and that is the caller itself.
    let mut priority = vec![load(ARGUMENT_AT[0]), if_equal_skip(0, 1)];
    priority.push(answer(refuse(libc::EPERM)));
    priority.extend(only(ARGUMENT_AT[1], &[0], libc::EPERM));
    extend_for(code, libc::SYS_setpriority, &priority);
    code.extend([unless_greater_skip(LAST_KNOWN as u32, 1), answer(refuse(libc::ENOSYS))]);
}

/// A block that allows these values of an argument and refuses all others.
fn only(argument: u32, values: &[i32], errno: i32) -> Vec<sock_filter> {
    let mut code = vec![load(argument)];
    for value in values {
        code.extend([unless_equal_skip(*value as u32, 1), answer(ALLOW)]);
    }
    code.push(answer(refuse(errno)));
    code
}

/// Adds a block for one call, which must end with an answer, since it loads another word.
fn extend_for(code: &mut Vec<sock_filter>, call: c_long, block: &[sock_filter]) {
    let length = u8::try_from(block.len()).expect("BUG: a block is longer than a jump reaches");
    code.push(unless_equal_skip(call as u32, length));
    code.extend_from_slice(block);
}

/// Puts the calling process and all below it under the filter; gives back what the one who listens needs.
pub(super) fn enforce(level: Level, wanted: Wanted) -> io::Result<Option<OwnedFd>> {
    let uid = rustix::process::geteuid().as_raw();
    let program = program(Ground::of(level, uid), wanted);
    match wanted.heard {
        true => sys::install_seccomp_heard(&program).map(Some),
        false => sys::install_seccomp(&program).map(|()| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the filter as the kernel would.
    fn judge(ground: Ground, architecture: u32, number: c_long, arguments: [u32; 2]) -> u32 {
        walk(&program(ground, Wanted::default()), architecture, number, arguments)
    }

    /// The fifth argument is as the second one.
    fn walk(code: &[sock_filter], architecture: u32, number: c_long, arguments: [u32; 2]) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let step = &code[at];
            at += 1;
            match step.code {
                LOAD => {
                    word = match step.k {
                        NUMBER_AT => number as u32,
                        ARCHITECTURE_AT => architecture,
                        16 => arguments[0],
                        _ => arguments[1],
                    }
                }
                JUMP_IF_EQUAL => at += usize::from(if word == step.k { step.jt } else { step.jf }),
                JUMP_IF_GREATER => at += usize::from(if word > step.k { step.jt } else { step.jf }),
                JUMP_IF_ANY_BIT => at += usize::from(if word & step.k != 0 { step.jt } else { step.jf }),
                _ => return step.k,
            }
        }
    }

    fn check(number: c_long, arguments: [u32; 2], expected: u32) {
        let answer = judge(Ground::Namespaces, ARCHITECTURE, number, arguments);
        assert_eq!(answer, expected, "call {number} {arguments:x?}");
    }

    fn check_bare(ground: Ground, number: c_long, arguments: [u32; 2], expected: u32) {
        let answer = judge(ground, ARCHITECTURE, number, arguments);
        assert_eq!(answer, expected, "call {number} {arguments:x?} on {ground:?}");
    }

    #[test]
    fn every_listed_call_is_refused_and_ordinary_ones_are_not() {
        for call in Ground::Namespaces.denied().iter().copied().flatten() {
            check(call.number, [0, 0], refuse(libc::EPERM));
            assert!(!call.reason.is_empty(), "{}", call.name);
        }
        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_openat, libc::SYS_seccomp, libc::SYS_exit_group] {
            check(number, [u32::MAX, u32::MAX], ALLOW);
        }
    }

    /// What the default profile of Docker (moby/profiles at cd3bed8, `seccomp/default.json`) gives to no program, or only to one
    /// with a capability: of all calls that a 64-bit kernel has, those it does not allow outright. `clone3` is unknown here.
    const DOCKER: [&str; 54] = [
        "acct",
        "add_key",
        "bpf",
        "chroot",
        "clock_settime",
        "delete_module",
        "fanotify_init",
        "file_getattr",
        "file_setattr",
        "finit_module",
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "init_module",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "kcmp",
        "kexec_file_load",
        "kexec_load",
        "keyctl",
        "listns",
        "lookup_dcookie",
        "lsm_get_self_attr",
        "lsm_list_modules",
        "lsm_set_self_attr",
        "migrate_pages",
        "mount",
        "mount_setattr",
        "move_mount",
        "move_pages",
        "open_by_handle_at",
        "open_tree",
        "open_tree_attr",
        "perf_event_open",
        "pidfd_getfd",
        "pivot_root",
        "process_madvise",
        "quotactl",
        "quotactl_fd",
        "reboot",
        "request_key",
        "setdomainname",
        "sethostname",
        "setns",
        "settimeofday",
        "swapoff",
        "swapon",
        "syslog",
        "umount2",
        "unshare",
        "userfaultfd",
        "vhangup",
    ];

    /// The same, of the first architecture only.
    const DOCKER_X86: [&str; 5] = ["ioperm", "iopl", "sysfs", "uselib", "ustat"];

    /// What of that passes here, and why.
    const KEPT: [(&str, &str); 4] = [
        ("get_mempolicy", "tells where the caller's own memory lies; runtimes for large machines ask"),
        ("mbind", "places the caller's own memory"),
        ("set_mempolicy", "places the caller's own memory"),
        ("set_mempolicy_home_node", "places the caller's own memory"),
    ];

    #[test]
    fn what_docker_refuses_is_refused() {
        let refused: Vec<_> = Ground::Namespaces.denied().iter().copied().flatten().map(|call| call.name).collect();
        let of_x86 = DOCKER_X86.iter().filter(|_| cfg!(target_arch = "x86_64"));
        let missing: Vec<_> = DOCKER.iter().chain(of_x86).filter(|name| !refused.contains(name)).collect();
        assert_eq!(missing, [&""; 0]);
        assert!(KEPT.iter().all(|(name, reason)| !refused.contains(name) && !reason.is_empty()));
    }

    #[test]
    fn arguments_decide_for_clone_socket_and_ioctl() {
        check(libc::SYS_clone3, [0, 0], refuse(libc::ENOSYS));
        check(libc::SYS_clone, [libc::SIGCHLD as u32, 0], ALLOW);
        check(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as u32, 0], refuse(libc::EPERM));
        check(libc::SYS_socket, [libc::AF_INET as u32, 0], ALLOW);
        check(libc::SYS_socket, [libc::AF_UNIX as u32, 0], refuse(libc::EAFNOSUPPORT));
        check(libc::SYS_socket, [libc::AF_VSOCK as u32, 0], refuse(libc::EAFNOSUPPORT));
        let pair = |kind: i32| [libc::AF_UNIX as u32, kind as u32];
        check(libc::SYS_socketpair, pair(libc::SOCK_STREAM | libc::SOCK_CLOEXEC), ALLOW);
        check(libc::SYS_socketpair, pair(libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK), ALLOW);
        check(libc::SYS_socketpair, pair(libc::SOCK_DGRAM), refuse(libc::EAFNOSUPPORT));
        check(libc::SYS_socketpair, [libc::AF_INET as u32, libc::SOCK_STREAM as u32], refuse(libc::EAFNOSUPPORT));
        check(libc::SYS_ioctl, [0, libc::TIOCSTI as u32], refuse(libc::EPERM));
        check(libc::SYS_ioctl, [0, libc::TCGETS as u32], ALLOW);
    }

    #[test]
    fn without_namespaces_nothing_of_the_machine_is_in_reach() {
        for ground in [Ground::Bare, Ground::BareOwner] {
            let check = |number, arguments, expected| check_bare(ground, number, arguments, expected);
            let refused = refuse(libc::EPERM);
            for call in ground.denied().iter().copied().flatten() {
                check(call.number, [0, 0], refused);
            }
            check(libc::SYS_socket, [libc::AF_INET as u32, 0], refuse(libc::EAFNOSUPPORT));
            check(libc::SYS_socketpair, [libc::AF_UNIX as u32, libc::SOCK_STREAM as u32], ALLOW);
            check(libc::SYS_prlimit64, [0, 0], ALLOW);
            check(libc::SYS_prlimit64, [7, 0], refused);
            check(libc::SYS_setpriority, [0, 0], ALLOW);
            check(libc::SYS_setpriority, [0, 7], refused);
            check(libc::SYS_setpriority, [libc::PRIO_USER, 0], refused);
            check(libc::SYS_ioctl, [0, libc::TCGETS as u32], ALLOW);
            check(libc::SYS_ioctl, [0, libc::FS_IOC_SETFLAGS as u32], refused);
            check(LAST_KNOWN + 6, [0, 0], refuse(libc::ENOSYS));
            check(libc::SYS_execve, [0, 0], ALLOW);
        }
        check_bare(Ground::Bare, libc::SYS_fchmodat, [0, 0], ALLOW);
        check_bare(Ground::BareOwner, libc::SYS_fchmodat, [0, 0], refuse(libc::EPERM));
    }

    #[test]
    fn who_listens_hears_what_is_started_and_reached() {
        let heard = program(Ground::Namespaces, Wanted { heard: true, no_files_in_memory: true });
        let check = |number, arguments, expected| assert_eq!(walk(&heard, ARCHITECTURE, number, arguments), expected);
        for call in HEARD {
            check(call, [0, 0], ASK);
        }
        check(libc::SYS_sched_getaffinity, [0, 0], ASK);
        check(libc::SYS_sched_getaffinity, [7, 0], ALLOW);
        check(libc::SYS_sendto, [0, 0], ALLOW);
        check(libc::SYS_sendto, [0, 1], ASK);
        check(libc::SYS_mount, [0, 0], refuse(libc::EPERM));
        check(libc::SYS_memfd_create, [0, 1], refuse(libc::ENOSYS));
        check(libc::SYS_memfd_create, [0, 1 | NEVER_EXECUTED], ALLOW);
        check(libc::SYS_read, [0, 0], ALLOW);
    }

    #[test]
    fn the_ground_is_the_levels_and_the_users() {
        assert_eq!(Ground::of(Level::B, UNPRIVILEGED.uid), Ground::Namespaces);
        assert_eq!(Ground::of(Level::C, UNPRIVILEGED.uid), Ground::Bare);
        assert_eq!(Ground::of(Level::C, 1000), Ground::BareOwner);
    }

    #[test]
    fn another_calling_convention_is_no_way_around() {
        assert_eq!(judge(Ground::Namespaces, 0x4000_0003, libc::SYS_read, [0, 0]), KILL);
        #[cfg(target_arch = "x86_64")]
        check(libc::SYS_mount | c_long::from(X32_BIT), [0, 0], refuse(libc::ENOSYS));
    }
}
