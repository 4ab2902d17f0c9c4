//! The kernel calls a confined program cannot make.
//!
//! A deny list, not an allow list: an agent runs compilers, interpreters and test suites nobody
//! has listed, and a new harmless call must not break them. What is denied is what reaches past
//! the other walls or has no use but attack, one line with its reason each. The program is
//! assembled here instead of by `seccompiler`, which knows one answer per filter and no x32 guard:
//! this is one filter with three answers and a test that walks it.

use std::io;

use libc::{c_long, sock_filter};

use super::sys;

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
    reboot SYS_reboot "stops the machine"
    swapon SYS_swapon "administration"
    swapoff SYS_swapoff "administration"
    acct SYS_acct "administration"
    quotactl SYS_quotactl "administration"
    syslog SYS_syslog "the kernel's log names addresses and other users' doings"
    settimeofday SYS_settimeofday "the clock is the whole machine's"
    clock_settime SYS_clock_settime "the clock is the whole machine's"
    clock_adjtime SYS_clock_adjtime "the clock is the whole machine's"
    adjtimex SYS_adjtimex "the clock is the whole machine's"
    sethostname SYS_sethostname "the name is fixed"
    setdomainname SYS_setdomainname "the name is fixed"
    name_to_handle_at SYS_name_to_handle_at "a handle reaches a file past the view"
    open_by_handle_at SYS_open_by_handle_at "a handle reaches a file past the view"
    fanotify_init SYS_fanotify_init "watches what others do with files"
    vhangup SYS_vhangup "would hang up a terminal"
    migrate_pages SYS_migrate_pages "moves another process's memory"
    move_pages SYS_move_pages "tells where another process's memory lies"
};

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
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

/// Where the kernel puts the call's number, its architecture and its arguments.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENT_AT: [u32; 2] = [16, 24];

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
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

fn unless_any_bit_skip(bits: u32, skip: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_ANY_BIT, jt: 0, jf: skip, k: bits }
}

fn refuse(errno: i32) -> u32 {
    ERRNO | errno as u32
}

/// The whole filter.
fn program() -> Vec<sock_filter> {
    let native = sock_filter { code: JUMP_IF_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE };
    let mut code = vec![load(ARCHITECTURE_AT), native, answer(KILL), load(NUMBER_AT)];
    #[cfg(target_arch = "x86_64")]
    code.extend([unless_any_bit_skip(X32_BIT, 1), answer(refuse(libc::ENOSYS))]);
    for call in DENIED {
        code.extend([unless_equal_skip(call.number as u32, 1), answer(refuse(libc::EPERM))]);
    }
    // Its flags lie in memory, where a filter cannot look; libraries then use `clone`.
    code.extend([unless_equal_skip(libc::SYS_clone3 as u32, 1), answer(refuse(libc::ENOSYS))]);
    let clone = [load(ARGUMENT_AT[0]), unless_any_bit_skip(NAMESPACES, 1), answer(refuse(libc::EPERM)), answer(ALLOW)];
    extend_for(&mut code, libc::SYS_clone, &clone);
    let mut socket = vec![load(ARGUMENT_AT[0])];
    for family in FAMILIES {
        socket.extend([unless_equal_skip(family as u32, 1), answer(ALLOW)]);
    }
    socket.push(answer(refuse(libc::EAFNOSUPPORT)));
    extend_for(&mut code, libc::SYS_socket, &socket);
    let pair = [
        load(ARGUMENT_AT[0]),
        unless_equal_skip(libc::AF_UNIX as u32, 1),
        answer(ALLOW),
        answer(refuse(libc::EAFNOSUPPORT)),
    ];
    extend_for(&mut code, libc::SYS_socketpair, &pair);
    let mut ioctl = vec![load(ARGUMENT_AT[1])];
    for request in TERMINAL_REQUESTS {
        ioctl.extend([unless_equal_skip(request, 1), answer(refuse(libc::EPERM))]);
    }
    ioctl.push(answer(ALLOW));
    extend_for(&mut code, libc::SYS_ioctl, &ioctl);
    code.push(answer(ALLOW));
    code
}

/// Adds a block for one call, which must end with an answer, since it loads another word.
fn extend_for(code: &mut Vec<sock_filter>, call: c_long, block: &[sock_filter]) {
    let length = u8::try_from(block.len()).expect("BUG: a block is longer than a jump reaches");
    code.push(unless_equal_skip(call as u32, length));
    code.extend_from_slice(block);
}

/// Puts the calling process and all below it under the filter.
pub(super) fn enforce() -> io::Result<()> {
    sys::install_seccomp(&program())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the filter as the kernel would.
    fn judge(architecture: u32, number: c_long, arguments: [u32; 2]) -> u32 {
        let code = program();
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
                JUMP_IF_ANY_BIT => at += usize::from(if word & step.k != 0 { step.jt } else { step.jf }),
                _ => return step.k,
            }
        }
    }

    fn check(number: c_long, arguments: [u32; 2], expected: u32) {
        assert_eq!(judge(ARCHITECTURE, number, arguments), expected, "call {number} {arguments:x?}");
    }

    #[test]
    fn every_listed_call_is_refused_and_ordinary_ones_are_not() {
        for call in DENIED {
            check(call.number, [0, 0], refuse(libc::EPERM));
            assert!(!call.reason.is_empty(), "{}", call.name);
        }
        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_openat, libc::SYS_seccomp, libc::SYS_exit_group] {
            check(number, [u32::MAX, u32::MAX], ALLOW);
        }
    }

    #[test]
    fn arguments_decide_for_clone_socket_and_ioctl() {
        check(libc::SYS_clone3, [0, 0], refuse(libc::ENOSYS));
        check(libc::SYS_clone, [libc::SIGCHLD as u32, 0], ALLOW);
        check(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as u32, 0], refuse(libc::EPERM));
        check(libc::SYS_socket, [libc::AF_INET as u32, 0], ALLOW);
        check(libc::SYS_socket, [libc::AF_UNIX as u32, 0], refuse(libc::EAFNOSUPPORT));
        check(libc::SYS_socket, [libc::AF_VSOCK as u32, 0], refuse(libc::EAFNOSUPPORT));
        check(libc::SYS_socketpair, [libc::AF_UNIX as u32, 0], ALLOW);
        check(libc::SYS_ioctl, [0, libc::TIOCSTI as u32], refuse(libc::EPERM));
        check(libc::SYS_ioctl, [0, libc::TCGETS as u32], ALLOW);
    }

    #[test]
    fn another_calling_convention_is_no_way_around() {
        assert_eq!(judge(0x4000_0003, libc::SYS_read, [0, 0]), KILL);
        #[cfg(target_arch = "x86_64")]
        check(libc::SYS_mount | c_long::from(X32_BIT), [0, 0], refuse(libc::ENOSYS));
    }
}
