//! The attacks, each as one row: what stops it, and whether it works unconfined.
//!
//! An attack returns `Ok` when it succeeded. Those aimed at the kernel count as successes when the
//! kernel looks at the request at all: "no such file" from a call that should not be permitted is a
//! way in. None does harm where it succeeds: what it changes is the drill's own world, or is set to
//! what it already was.

use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::Command;

use libc::{c_int, c_long};

use super::means::*;
use super::world::World;

/// Who succeeds with an attack when nothing confines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Any user.
    Anyone,
    /// Root; an ordinary user is refused by the kernel anyway.
    Root,
    /// It depends on the machine, as said.
    Depends(&'static str),
}
use Alone::{Anyone, Depends, Root};

/// One row of the drill.
pub struct Attack {
    /// A short name.
    pub name: &'static str,
    /// The wall that stops it first, and the next one.
    pub stopped_by: &'static str,
    /// Who succeeds unconfined.
    pub alone: Alone,
    pub(super) run: fn(&World) -> io::Result<()>,
}

macro_rules! attacks {
    ($($name:literal $alone:expr, $stopped_by:literal, $run:expr;)*) => {
        &[$(Attack { name: $name, stopped_by: $stopped_by, alone: $alone, run: $run }),*]
    };
}

/// The drill.
pub const ATTACKS: &[Attack] = attacks! {
    "create a file outside" Anyone, "not in the view; Landlock", |w| fs::write(w.outside.join("new"), "x");
    "append to a file outside" Anyone, "not in the view; Landlock", |w| append(&w.outside.join("file"));
    "write through a symbolic link" Anyone, "not in the view; Landlock", through_link;
    "hard link a file outside into the workspace" Anyone, "not in the view; Landlock", |w| fs::hard_link(w.outside.join("file"), w.work.join("linked"));
    "rename a file out of the workspace" Anyone, "not in the view; Landlock", |w| { fs::write(w.work.join("out"), "x")?; fs::rename(w.work.join("out"), w.outside.join("out")) };
    "delete a file outside" Anyone, "not in the view; Landlock", |w| fs::remove_file(w.outside.join("second"));
    "truncate a file outside" Anyone, "not in the view; Landlock", |w| File::options().write(true).open(w.outside.join("file"))?.set_len(11);
    "make a directory outside" Anyone, "not in the view; Landlock", |w| fs::create_dir(w.outside.join("directory"));
    "change a mode outside" Anyone, "not in the view", |w| fs::set_permissions(w.outside.join("file"), PermissionsExt::from_mode(0o644));
    "change times outside" Anyone, "not in the view", |w| touch(&w.outside.join("file"));
    "change an owner outside" Anyone, "not in the view", |w| std::os::unix::fs::chown(w.outside.join("file"), None, None);
    "set an attribute outside" Depends("not every file system has user attributes"), "not in the view", |w| attribute(&w.outside.join("file"));
    "read a file outside" Anyone, "not in the view; Landlock", |w| expect_canary(&w.outside.join("file"));
    "list a directory outside" Anyone, "not in the view", |w| fs::read_dir(&w.outside).map(drop);
    "be told of names in a directory outside" Anyone, "not in the view; seccomp", watch_names;
    "climb out with .." Anyone, "not in the view", |w| expect_canary(&w.work.join("../outside/file"));
    "open a system file for writing" Root, "read-only mount; Landlock", |_| File::options().write(true).open("/etc/hosts").map(drop);
    "create a file among the system's programs" Root, "read-only mount; Landlock", system_file;
    "change a device file's mode" Root, "read-only mount", |_| fs::set_permissions("/dev/null", PermissionsExt::from_mode(0o666));
    "write a git hook" Anyone, "read-only mount over .git", |w| fs::write(w.work.join(".git/hooks/pre-commit"), "x");
    "change git's configuration" Anyone, "read-only mount over .git", |w| append(&w.work.join(".git/config"));
    "rename .git" Anyone, "a mount point cannot be renamed", |w| { fs::rename(w.work.join(".git"), w.work.join("old"))?; fs::rename(w.work.join("old"), w.work.join(".git")) };
    "exchange .git for another directory" Anyone, "a mount point cannot be renamed", exchange_git;
    "read .env in the workspace" Anyone, "covered by an empty file", |w| expect_canary(&w.work.join(".env"));
    "move .env away" Anyone, "a mount point cannot be renamed", |w| { fs::rename(w.work.join(".env"), w.work.join("e"))?; fs::rename(w.work.join("e"), w.work.join(".env")) };
    "hard link .env" Anyone, "a cover is another file system", |w| { fs::hard_link(w.work.join(".env"), w.work.join("e2"))?; expect_canary(&w.work.join("e2")) };
    "read an SSH key" Anyone, "private HOME", |w| expect_canary(&w.home.join(".ssh/id_rsa"));
    "read a toolchain's credentials" Anyone, "covered by an empty file", |w| expect_canary(&w.home.join(".cargo/credentials.toml"));
    "plant a program in a toolchain" Anyone, "read-only mount; Landlock", |w| fs::write(w.home.join(".cargo/bin/ls"), "x");
    "change a start-up file of the user" Anyone, "private HOME", |w| fs::write(w.home.join(".bashrc"), "x").and_then(|()| outside_only(w));
    "leave a file in /tmp" Anyone, "private /tmp", |w| fs::write(w.mark_in("/tmp"), "x").and_then(|()| outside_only(w));
    "leave a file in /dev/shm" Anyone, "private /dev/shm", |w| fs::write(w.mark_in("/dev/shm"), "x").and_then(|()| outside_only(w));
    "read password hashes" Root, "covered by an empty file", |_| non_empty("/etc/shadow");
    "read another process's environment" Anyone, "PID namespace", |w| expect_canary(&proc(w.victim, "environ"));
    "open another process's memory" Anyone, "PID namespace", |w| File::open(proc(w.victim, "mem")).map(drop);
    "open another process's descriptor" Anyone, "PID namespace", |w| File::open(proc(w.victim, "fd/1")).or_else(|_| File::options().write(true).open(proc(w.victim, "fd/1"))).map(drop);
    "enter another process's root" Anyone, "PID namespace", |w| expect_canary(&proc(w.victim, "root").join(w.outside.join("file").strip_prefix("/").map_err(io::Error::other)?));
    "read the launcher's environment" Anyone, "PID namespace", |w| expect_canary(&proc(w.launcher as c_int, "environ"));
    "read the first process's environment" Depends("unconfined it is not the sandbox's, and is left alone"), "started with an empty environment; not dumpable", |w| { only_confined(w)?; expect_canary(&proc(1, "environ")) };
    "find a secret in the own environment" Anyone, "exact environment", |_| expect_canary(Path::new("/proc/self/environ"));
    "see other processes" Anyone, "PID namespace", |w| fs::metadata(proc(w.victim, "stat")).map(drop);
    "signal another process" Anyone, "PID namespace; Landlock", |w| call(libc::SYS_kill, &[w.victim as c_long, 0]).map(drop);
    "trace another process" Anyone, "PID namespace; seccomp", trace;
    "read another process's memory" Anyone, "PID namespace; seccomp", |w| read_memory(w.victim, w.victim_address);
    "take another process's descriptor" Anyone, "PID namespace; seccomp", take_descriptor;
    "change another process's limits" Anyone, "PID namespace; seccomp", change_limits;
    "open the machine's shared memory" Anyone, "IPC namespace; seccomp", |w| call(libc::SYS_shmget, &[w.launcher as c_long, 0, 0]).map(drop);
    "trace the first process" Depends("unconfined it is not the sandbox's, and is left alone"), "seccomp; not dumpable; Landlock", |w| { only_confined(w)?; call(libc::SYS_ptrace, &[0x4206, 1, 0, 0]).map(drop) };
    "kill the first process" Depends("unconfined it is not the sandbox's, and is left alone"), "Landlock; the kernel's care for process 1", kill_first;
    "connect to the machine's loopback" Anyone, "network namespace", |w| hear_canary(TcpStream::connect(("127.0.0.1", w.tcp))?);
    "ask a service on the machine by UDP" Anyone, "network namespace", ask_udp;
    "connect to a unix socket" Anyone, "not in the view; seccomp", |w| hear_canary(UnixStream::connect(&w.unix)?);
    "send to a unix socket through a pair" Anyone, "not in the view; seccomp", |w| send_through_pair(&w.datagrams);
    "connect to an abstract unix socket" Anyone, "network namespace; seccomp; Landlock", |w| hear_canary(UnixStream::connect_addr(&SocketAddr::from_abstract_name(&w.abstract_name)?)?);
    "open a socket to the hypervisor" Depends("a kernel without vsock has none"), "seccomp", |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0);
    "open a netlink socket" Anyone, "seccomp", |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, 0);
    "open a packet socket" Root, "seccomp", |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0x0300);
    "open a kernel crypto socket" Depends("a kernel without AF_ALG has none"), "seccomp", |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0);
    "use the session's key ring" Anyone, "seccomp", |_| call(libc::SYS_keyctl, &[0, -3, 0]).map(drop);
    "set up io_uring" Depends("kernel.io_uring_disabled"), "seccomp", |_| reaches(libc::SYS_io_uring_setup, &[4, 0]);
    "load a BPF program" Anyone, "seccomp", bpf;
    "make a user namespace" Depends("user.max_user_namespaces"), "seccomp", |_| call(libc::SYS_unshare, &[c_long::from(libc::CLONE_NEWUSER)]).map(drop);
    "make a user namespace with clone" Depends("user.max_user_namespaces"), "seccomp", |_| clone_user();
    "make a user namespace with clone3" Depends("user.max_user_namespaces"), "seccomp (no such call)", |_| clone3_user();
    "enter another namespace" Root, "seccomp; PID namespace", enter_namespace;
    "mount a file system" Root, "seccomp; no capability; Landlock", |w| mount("tmpfs", &w.work.join(".git/hooks"), libc::MS_NOSUID);
    "mount with the new calls" Root, "seccomp; no capability", |_| fsopen();
    "lift the cover off .env" Depends("there is no cover unconfined"), "seccomp; no capability", |w| { unmount(&w.work.join(".env"))?; expect_canary(&w.work.join(".env")) };
    "make the root writable again" Root, "seccomp; no capability", |_| mount("none", Path::new("/"), libc::MS_REMOUNT | libc::MS_BIND);
    "copy a mount without its cover" Root, "seccomp; no capability", |w| open_tree(&w.work);
    "take the read-only flag off a mount" Root, "seccomp; no capability", |_| mount_setattr();
    "change the root directory" Root, "seccomp; no capability", |w| { let path = c_path(&w.work)?; call(libc::SYS_chroot, &[path.as_ptr() as c_long]).map(drop) };
    "command the kernel's core dumps" Root, "read-only /proc", |_| File::options().write(true).open("/proc/sys/kernel/core_pattern").map(drop);
    "press the magic key" Depends("a kernel without the magic key has none; a user is refused anyway"), "read-only /proc", |_| File::options().write(true).open("/proc/sysrq-trigger").map(drop);
    "read the kernel's memory" Depends("many kernels have no /proc/kcore; a user is refused anyway"), "covered; no capability", |_| non_empty("/proc/kcore");
    "hold capabilities" Root, "capabilities dropped", |_| has_capabilities();
    "gain privileges from a set-user-id program" Anyone, "no_new_privs; nosuid mounts", |_| may_gain();
    "make a device file" Root, "no capability; Landlock; nodev", make_device;
    "open the raw disk" Depends("a devices control group may forbid it; a user is refused anyway"), "private /dev", |_| open_disk();
    "open the virtual machine monitor" Depends("a machine without /dev/kvm"), "private /dev", |_| File::options().read(true).write(true).open("/dev/kvm").map(drop);
    "open the kernel's log device" Root, "private /dev", |_| File::open("/dev/kmsg").map(drop);
    "open the machine's memory" Depends("many kernels have no /dev/mem"), "private /dev", |_| File::open("/dev/mem").map(drop);
    "leave the control group" Depends("where control groups are mounted; a user is refused anyway"), "no /sys; cgroup namespace", |_| leave_cgroup();
    "change a kernel setting in /sys" Depends("the settings that there are; a user is refused anyway"), "no /sys", |_| File::options().write(true).open("/sys/kernel/mm/transparent_hugepage/enabled").or_else(|_| File::options().write(true).open("/sys/kernel/uevent_helper")).map(drop);
    "open a file by its handle" Root, "seccomp; no capability", |w| by_handle(&w.outside);
    "watch the machine's performance counters" Depends("kernel.perf_event_paranoid, hardware"), "seccomp", |_| reaches(libc::SYS_perf_event_open, &[0, 0, -1, -1, 0]);
    "handle page faults in user space" Anyone, "seccomp", |_| call(libc::SYS_userfaultfd, &[1]).map(drop);
    "read the kernel's log" Depends("kernel.dmesg_restrict for a user"), "seccomp; no capability", |_| call(libc::SYS_syslog, &[10, 0, 0]).map(drop);
    "set the clock" Root, "seccomp; no capability", |_| call(libc::SYS_settimeofday, &[0, 0]).map(drop);
    "rename the machine" Root, "seccomp; no capability", |_| { let name = fs::read_to_string("/proc/sys/kernel/hostname")?; let name = name.trim(); call(libc::SYS_sethostname, &[name.as_ptr() as c_long, name.len() as c_long]).map(drop) };
    "load a kernel module" Depends("a kernel without modules has no such call; a user is refused anyway"), "seccomp; no capability", |_| reaches(libc::SYS_init_module, &[0, 0, c"".as_ptr() as c_long]);
    "unload a kernel module" Depends("a kernel without modules has no such call; a user is refused anyway"), "seccomp; no capability", |_| reaches(libc::SYS_delete_module, &[c"norma_no_such_module".as_ptr() as c_long, 0]);
    "replace the kernel" Depends("a kernel without kexec has no such call; a user is refused anyway"), "seccomp; no capability", |_| reaches(libc::SYS_kexec_load, &[0, 0, 0, -1]);
    "stop swapping" Root, "seccomp; no capability", |_| reaches(libc::SYS_swapoff, &[c"/norma-no-such-file".as_ptr() as c_long]);
    "type into the terminal" Depends("dev.tty.legacy_tiocsti for a user"), "seccomp", |_| type_into_terminal();
    "use the 32-bit calls" Depends("kernels without IA32 emulation have none"), "seccomp (killed)", |_| call_32_bit();
    "use an inherited descriptor" Anyone, "descriptors closed", inherited;
    "start a shell" Anyone, "Landlock", |_| started(&mut Command::new(SHELL));
    "start a copy of a shell" Anyone, "Landlock", |w| { fs::copy(SHELL, w.work.join("copy"))?; started(&mut Command::new(w.work.join("copy"))) };
    "start a script whose interpreter is a shell" Anyone, "Landlock", script_of_a_shell;
    "start a shell through the loader" Anyone, "held before it runs, and killed", |_| started(Command::new(loader()?).arg(SHELL));
    "start a program through /proc/self/exe" Anyone, "held before it runs, and killed", |_| through_own_name();
    "start a shell through a descriptor of it" Anyone, "Landlock", |_| started(&mut Command::new(descriptor_of(&File::open(SHELL)?)?));
    "start a shell from memory" Anyone, "seccomp; held before it runs, and killed", |_| from_memory();
    "raise the own limits" Depends("root may be without CAP_SYS_RESOURCE; a user is refused anyway"), "hard limits; no capability", |_| raise_limit();
};
