//! A place where the kernel refuses user namespaces, as hardened machines and many containers do.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// Runs this helper with other words in a user namespace that may not have another one below it, as this
/// user there: `0` has every right in it, and any other has none.
pub fn run(user: u32, words: &[&str]) -> ExitCode {
    let (mut ready, tell_ready) = io::pipe().expect("a pipe");
    let (mut go, tell_go) = io::pipe().expect("a pipe");
    // SAFETY: the helper has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWUSER) }, 0, "{}", io::Error::last_os_error());
        (&tell_ready).write_all(b"x").expect("tell");
        go.read_exact(&mut [0]).expect("hear");
        become_there(user, words);
    }
    ready.read_exact(&mut [0]).expect("hear");
    map(child);
    (&tell_go).write_all(b"x").expect("tell");
    let mut status = 0;
    // SAFETY: the status outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    ExitCode::from(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as u8 } else { 126 })
}

/// As root all the users that a container has, else only this one.
fn map(child: libc::pid_t) {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let range = |id: u32| if uid == 0 { "0 0 65536".to_owned() } else { format!("{id} {id} 1") };
    if uid != 0 {
        fs::write(format!("/proc/{child}/setgroups"), "deny").expect("deny");
    }
    fs::write(format!("/proc/{child}/uid_map"), range(uid)).expect("map users");
    fs::write(format!("/proc/{child}/gid_map"), range(gid)).expect("map groups");
}

fn become_there(user: u32, words: &[&str]) -> ! {
    // The kernel takes it from whoever has all rights in the namespace, and means this one only.
    fs::write("/proc/sys/user/max_user_namespaces", "0").expect("refuse");
    // SAFETY: plain numbers, an empty list, and terminated strings with a terminated list of them.
    unsafe {
        if user != 0 && rustix::process::geteuid().is_root() {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(user, user, user), 0);
            assert_eq!(libc::setresuid(user, user, user), 0);
        }
        let own = std::env::current_exe().expect("own path").display().to_string();
        let all: Vec<_> = [own.as_str()].iter().chain(words).map(|it| CString::new(*it).expect("no zero")).collect();
        let mut list: Vec<_> = all.iter().map(|it| it.as_ptr()).collect();
        list.push(std::ptr::null());
        libc::execv(list[0], list.as_ptr());
    }
    panic!("{}", io::Error::last_os_error());
}
