//! The escape drill: every attack as one row, with what stops it and whether it works unconfined.
//!
//! An attack returns `Ok` when it succeeded. Those aimed at the kernel count as successes when the
//! kernel looks at the request at all: "no such file" from a call that should not be permitted is a
//! way in. Every attack runs in a process of its own, so that one that is killed does not stop the
//! drill. None does harm where it succeeds: what it changes is its own world, or is set to what it
//! already was.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::Duration;
use std::{env, mem, ptr};

use libc::{c_int, c_long};

use crate::world::{CANARY, World};

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
    run: fn(&World) -> io::Result<()>,
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
    "leave a file in /tmp" Anyone, "private /tmp", |w| fs::write(left_in_tmp(w), "x").and_then(|()| outside_only(w));
    "leave a file in /dev/shm" Anyone, "private /dev/shm", |w| fs::write(left_in_shm(w), "x").and_then(|()| outside_only(w));
    "read password hashes" Root, "covered by an empty file", |_| non_empty("/etc/shadow");
    "read another process's environment" Anyone, "PID namespace", |w| expect_canary(&proc(w.victim, "environ"));
    "open another process's memory" Anyone, "PID namespace", |w| File::open(proc(w.victim, "mem")).map(drop);
    "open another process's descriptor" Anyone, "PID namespace", |w| File::open(proc(w.victim, "fd/1")).or_else(|_| File::options().write(true).open(proc(w.victim, "fd/1"))).map(drop);
    "enter another process's root" Anyone, "PID namespace", |w| expect_canary(&proc(w.victim, "root").join(w.outside.join("file").strip_prefix("/").expect("absolute")));
    "read the launcher's environment" Anyone, "PID namespace", |w| expect_canary(&proc(w.launcher as c_int, "environ"));
    "read the first process's environment" Depends("unconfined it is not the sandbox's, and is left alone"), "started with an empty environment; not dumpable", |w| { only_confined(w)?; expect_canary(&proc(1, "environ")) };
    "find a secret in the own environment" Anyone, "exact environment", |_| env::vars().any(|(_, value)| value.contains(CANARY)).then_some(()).ok_or_else(refused);
    "see other processes" Anyone, "PID namespace", |w| fs::metadata(proc(w.victim, "stat")).map(drop);
    "signal another process" Anyone, "PID namespace; Landlock", |w| call(libc::SYS_kill, &[w.victim as c_long, 0]).map(drop);
    "trace another process" Anyone, "PID namespace; seccomp", trace;
    "read another process's memory" Anyone, "PID namespace; seccomp", |w| read_memory(w.victim, w.victim_address);
    "take another process's descriptor" Anyone, "PID namespace; seccomp", take_descriptor;
    "trace the first process" Depends("unconfined it is not the sandbox's, and is left alone"), "seccomp; not dumpable; Landlock", |w| { only_confined(w)?; call(libc::SYS_ptrace, &[0x4206, 1, 0, 0]).map(drop) };
    "kill the first process" Depends("unconfined it is not the sandbox's, and is left alone"), "Landlock; the kernel's care for process 1", |w| { only_confined(w)?; call(libc::SYS_kill, &[1, c_long::from(libc::SIGKILL)]).map(drop) };
    "connect to the machine's loopback" Anyone, "network namespace", |w| hear_canary(TcpStream::connect(("127.0.0.1", w.tcp))?);
    "ask a service on the machine by UDP" Anyone, "network namespace", ask_udp;
    "connect to a unix socket" Anyone, "not in the view; seccomp", |w| hear_canary(UnixStream::connect(&w.unix)?);
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
    "change the root directory" Root, "seccomp; no capability", |w| { let path = CString::new(w.work.to_str().expect("text"))?; call(libc::SYS_chroot, &[path.as_ptr() as c_long]).map(drop) };
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
    "raise the own limits" Depends("root may be without CAP_SYS_RESOURCE; a user is refused anyway"), "hard limits; no capability", |_| raise_limit();
};

/// Runs every attack and prints `NAME<tab>escaped|stopped<tab>detail`.
pub fn all(world: &str) {
    let world: World = serde_json::from_str(world).expect("a world");
    for attack in ATTACKS {
        let (escaped, detail) = in_child(|| (attack.run)(&world));
        println!("{}\t{}\t{detail}", attack.name, if escaped { "escaped" } else { "stopped" });
    }
}

/// What attacks on private directories left on the machine; printed like [`all`], by the launcher.
pub fn judge_left(world: &World) {
    for path in [world.home.join(".bashrc"), left_in_tmp(world), left_in_shm(world)] {
        if fs::remove_file(&path).is_ok() {
            println!("left on the machine: {}\tescaped\t", path.display());
        }
    }
}

/// Runs in a forked child; whether it succeeded, and its error.
fn in_child(run: impl FnOnce() -> io::Result<()>) -> (bool, String) {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    // SAFETY: the attacker has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = run();
        if let Err(error) = &result {
            let _ = io::Write::write_all(&mut &writer, error.to_string().as_bytes());
        }
        // SAFETY: no preconditions.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    drop(writer);
    let (mut detail, mut status) = (String::new(), 0);
    let _ = reader.read_to_string(&mut detail);
    // SAFETY: the status outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if libc::WIFSIGNALED(status) {
        detail = format!("killed by signal {}", libc::WTERMSIG(status));
    }
    (libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, detail.replace(['\n', '\t'], " "))
}

fn refused() -> io::Error {
    io::Error::other("nothing found")
}

fn call(number: c_long, arguments: &[c_long]) -> io::Result<c_long> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: whatever pointers the caller put into the numbers outlive the call.
    let value = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Success is any answer but "not permitted" and "no such call": the kernel looked at the request.
fn reaches(number: c_long, arguments: &[c_long]) -> io::Result<()> {
    match call(number, arguments) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES)) => Err(error),
        _ => Ok(()),
    }
}

fn proc(pid: c_int, what: &str) -> std::path::PathBuf {
    format!("/proc/{pid}/{what}").into()
}

fn contains_canary(bytes: &[u8]) -> io::Result<()> {
    bytes.windows(CANARY.len()).any(|it| it == CANARY.as_bytes()).then_some(()).ok_or_else(refused)
}

fn expect_canary(path: &Path) -> io::Result<()> {
    contains_canary(&fs::read(path)?)
}

fn hear_canary(mut stream: impl Read) -> io::Result<()> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    contains_canary(&bytes)
}

fn non_empty(path: &str) -> io::Result<()> {
    let mut byte = [0];
    File::open(path)?.read_exact(&mut byte)
}

fn append(path: &Path) -> io::Result<()> {
    io::Write::write_all(&mut OpenOptions::new().append(true).open(path)?, b"\n")
}

fn touch(path: &Path) -> io::Result<()> {
    let path = CString::new(path.to_str().expect("text"))?;
    call(libc::SYS_utimensat, &[c_long::from(libc::AT_FDCWD), path.as_ptr() as c_long, 0, 0]).map(drop)
}

fn attribute(path: &Path) -> io::Result<()> {
    let path = CString::new(path.to_str().expect("text"))?;
    let (name, value) = (c"user.norma".as_ptr() as c_long, c"x".as_ptr() as c_long);
    call(libc::SYS_setxattr, &[path.as_ptr() as c_long, name, value, 1, 0]).map(drop)
}

fn through_link(world: &World) -> io::Result<()> {
    let link = world.work.join("link");
    symlink(world.outside.join("file"), &link)?;
    append(&link)
}

fn system_file(_: &World) -> io::Result<()> {
    let path = format!("/usr/bin/norma-drill-{}", std::process::id());
    fs::write(&path, "x")?;
    fs::remove_file(&path)
}

fn exchange_git(world: &World) -> io::Result<()> {
    fs::create_dir_all(world.work.join("other"))?;
    let [one, two] =
        ["other", ".git"].map(|it| CString::new(world.work.join(it).to_str().expect("text")).expect("no zero"));
    let at = c_long::from(libc::AT_FDCWD);
    let exchange = || call(libc::SYS_renameat2, &[at, one.as_ptr() as c_long, at, two.as_ptr() as c_long, 2]);
    exchange()?;
    exchange().map(drop)
}

/// Where the marks of the attacks on private directories would appear.
fn left_in_tmp(world: &World) -> std::path::PathBuf {
    format!("/tmp/norma-drill-{}", world.launcher).into()
}

fn left_in_shm(world: &World) -> std::path::PathBuf {
    format!("/dev/shm/norma-drill-{}", world.launcher).into()
}

/// Writing there is allowed and must not arrive. The launcher judges what arrived; here it counts
/// only when the machine itself is in view.
fn outside_only(world: &World) -> io::Result<()> {
    fs::metadata(proc(world.victim, "stat")).map(drop)
}

/// The machine's own first process is none of the drill's business.
fn only_confined(world: &World) -> io::Result<()> {
    if fs::metadata(proc(world.launcher as c_int, "stat")).is_ok() { Err(refused()) } else { Ok(()) }
}

fn trace(world: &World) -> io::Result<()> {
    call(libc::SYS_ptrace, &[0x4206, world.victim as c_long, 0, 0])?;
    call(libc::SYS_ptrace, &[17, world.victim as c_long, 0, 0]).map(drop).or(Ok(()))
}

fn read_memory(pid: c_int, address: u64) -> io::Result<()> {
    let mut bytes = [0u8; CANARY.len()];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    let (local, remote) = (&raw const local as c_long, &raw const remote as c_long);
    call(libc::SYS_process_vm_readv, &[pid as c_long, local, 1, remote, 1, 0])?;
    contains_canary(&bytes)
}

fn take_descriptor(world: &World) -> io::Result<()> {
    let pidfd = call(libc::SYS_pidfd_open, &[world.victim as c_long, 0])?;
    call(libc::SYS_pidfd_getfd, &[pidfd, 1, 0]).map(drop)
}

fn ask_udp(world: &World) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(300)))?;
    socket.send_to(b"?", ("127.0.0.1", world.udp))?;
    let mut bytes = [0; 64];
    let count = socket.recv(&mut bytes)?;
    contains_canary(&bytes[..count])
}

fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<()> {
    call(libc::SYS_socket, &[family.into(), kind.into(), protocol.into()]).map(drop)
}

/// Asks for the next program's id, which root may do and a user is told that there is no such
/// right; with seccomp both are told that the call is not permitted. So the map type is tried too.
fn bpf(_: &World) -> io::Result<()> {
    let attributes = [0u32; 32];
    let attributes = attributes.as_ptr() as c_long;
    // A malformed request is judged before rights are.
    let answer = call(libc::SYS_bpf, &[-1, attributes, 4096 * 2]);
    match answer {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => reaches(libc::SYS_bpf, &[11, attributes, 128]),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Err(error),
        _ => Ok(()),
    }
}

fn clone_user() -> io::Result<()> {
    let flags = c_long::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    if call(libc::SYS_clone, &[flags])? == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

fn clone3_user() -> io::Result<()> {
    let mut arguments = [0u64; 8];
    arguments[0] = libc::CLONE_NEWUSER as u64;
    arguments[4] = libc::SIGCHLD as u64;
    if call(libc::SYS_clone3, &[arguments.as_ptr() as c_long, size_of_val(&arguments) as c_long])? == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

fn enter_namespace(world: &World) -> io::Result<()> {
    let file = File::open(proc(world.victim, "ns/uts")).or_else(|_| File::open("/proc/self/ns/uts"))?;
    call(libc::SYS_setns, &[file.as_raw_fd().into(), 0]).map(drop)
}

fn mount(kind: &str, target: &Path, flags: u64) -> io::Result<()> {
    let (kind, target) = (CString::new(kind)?, CString::new(target.to_str().expect("text"))?);
    let (source, target) = (kind.as_ptr() as c_long, target.as_ptr() as c_long);
    call(libc::SYS_mount, &[source, target, source, flags as c_long, 0]).map(drop)
}

fn unmount(target: &Path) -> io::Result<()> {
    let target = CString::new(target.to_str().expect("text"))?;
    call(libc::SYS_umount2, &[target.as_ptr() as c_long, libc::MNT_DETACH.into()]).map(drop)
}

fn fsopen() -> io::Result<()> {
    call(libc::SYS_fsopen, &[c"tmpfs".as_ptr() as c_long, 0]).map(drop)
}

fn open_tree(path: &Path) -> io::Result<()> {
    let path = CString::new(path.to_str().expect("text"))?;
    call(libc::SYS_open_tree, &[libc::AT_FDCWD.into(), path.as_ptr() as c_long, 1]).map(drop)
}

fn mount_setattr() -> io::Result<()> {
    let attributes = [0u64, 1, 0, 0];
    let (at, root) = (c_long::from(libc::AT_FDCWD), c"/".as_ptr() as c_long);
    call(libc::SYS_mount_setattr, &[at, root, 0, attributes.as_ptr() as c_long, 32]).map(drop)
}

fn has_capabilities() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let sets = status.lines().filter_map(|it| it.strip_prefix("CapEff:").or(it.strip_prefix("CapPrm:")));
    sets.map(str::trim).any(|it| !it.trim_start_matches('0').is_empty()).then_some(()).ok_or_else(refused)
}

fn may_gain() -> io::Result<()> {
    // SAFETY: plain numbers.
    let set = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
    (set == 0).then_some(()).ok_or_else(refused)
}

fn make_device(world: &World) -> io::Result<()> {
    let path = CString::new(world.work.join("disk").to_str().expect("text"))?;
    let mode = c_long::from(libc::S_IFBLK | 0o600);
    call(libc::SYS_mknodat, &[libc::AT_FDCWD.into(), path.as_ptr() as c_long, mode, 7 << 8]).map(drop)
}

fn open_disk() -> io::Result<()> {
    let partitions = fs::read_to_string("/proc/partitions")?;
    let names = partitions.lines().skip(2).filter_map(|line| line.split_whitespace().nth(3));
    let mut last = refused();
    for name in names {
        match File::open(Path::new("/dev").join(name)) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn leave_cgroup() -> io::Result<()> {
    let all =
        ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs"];
    let mut last = refused();
    for path in all {
        match File::options().write(true).open(path) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn by_handle(path: &Path) -> io::Result<()> {
    let path = CString::new(path.to_str().expect("text"))?;
    let mut handle = [0u8; 136];
    handle[..4].copy_from_slice(&128u32.to_ne_bytes());
    let (at, mut mount_id) = (c_long::from(libc::AT_FDCWD), 0i32);
    let handle = handle.as_mut_ptr() as c_long;
    call(libc::SYS_name_to_handle_at, &[at, path.as_ptr() as c_long, handle, &raw mut mount_id as c_long, 0])?;
    let root = File::open("/")?;
    call(libc::SYS_open_by_handle_at, &[root.as_raw_fd().into(), handle, libc::O_RDONLY.into()]).map(drop)
}

/// On a terminal of its own, which in this test has nobody in front of it.
fn type_into_terminal() -> io::Result<()> {
    let master = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx")?;
    let (mut number, unlock) = (0i32, 0i32);
    call(libc::SYS_ioctl, &[master.as_raw_fd().into(), libc::TIOCSPTLCK as c_long, &raw const unlock as c_long])?;
    call(libc::SYS_ioctl, &[master.as_raw_fd().into(), libc::TIOCGPTN as c_long, &raw mut number as c_long])?;
    // Closed by the end of the process and not before, since closing it hangs this process up.
    mem::forget(master);
    // SAFETY: no preconditions.
    unsafe { libc::setsid() };
    let terminal = File::options().read(true).write(true).open(format!("/dev/pts/{number}"))?;
    call(libc::SYS_ioctl, &[terminal.as_raw_fd().into(), libc::TIOCSTI as c_long, c"x".as_ptr() as c_long]).map(drop)
}

/// `getpid` by the old way into the kernel, whose numbers mean other calls.
fn call_32_bit() -> io::Result<()> {
    #[cfg(target_arch = "x86_64")]
    {
        let mut value: u64 = 20;
        // SAFETY: the call has no arguments and changes nothing but the register.
        unsafe {
            std::arch::asm!("int 0x80", inout("rax") value, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
        };
        if value as i32 > 0 {
            return Ok(());
        }
    }
    Err(refused())
}

fn inherited(world: &World) -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        if fs::read_link(entry.path()).is_ok_and(|target| target == world.outside) {
            let number = entry.file_name().to_string_lossy().parse().map_err(io::Error::other)?;
            // SAFETY: the descriptor was inherited and nobody else in this process knows it.
            let directory = unsafe { OwnedFd::from_raw_fd(number) };
            let file = rustix::fs::openat(&directory, "file", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())?;
            return hear_canary(File::from(file));
        }
    }
    Err(refused())
}

fn raise_limit() -> io::Result<()> {
    // SAFETY: plain numbers, read and written by the kernel.
    unsafe {
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit);
        let lowered = libc::rlimit { rlim_cur: limit.rlim_cur.min(limit.rlim_max - 1), rlim_max: limit.rlim_max - 1 };
        for limit in [lowered, limit] {
            let (which, new) = (c_long::from(libc::RLIMIT_MEMLOCK as i32), &raw const limit as c_long);
            call(libc::SYS_prlimit64, &[0, which, new, ptr::null::<u8>() as c_long])?;
        }
        Ok(())
    }
}
