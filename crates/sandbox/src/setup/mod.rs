//! The set-up processes: norma, executed again, between the caller and the confined programs.
//!
//! The server is a fresh process with one thread and an empty environment, which is why it may fork
//! at all, and it is executed once, because executing costs as much as the rest of a start. Each
//! process that it forks makes one sandbox. It makes the namespaces, stays outside them, and waits for two things: the end of the sandbox,
//! and the caller's hang-up, at which it kills the sandbox. The order of the walls is the order of
//! the modules' calls in [`init`] and [`payload`].

pub(crate) mod cgroup;
mod elf;
mod init;
mod landlock;
mod layers;
mod mounts;
mod payload;
mod seccomp;
pub(crate) mod sys;
mod tree;
mod watch;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use libc::{SIGTERM, pid_t};
use rustix::event::{PollFd, PollFlags};

use self::cgroup::{Groups, Leaf, Wanted};
pub(crate) use self::elf::loader as loader_of;
pub(crate) use self::mounts::kernel_version;
pub use self::seccomp::{DENIED, DENIED_BARE, DENIED_NEW, DENIED_OWNER, Denied};
use self::tree::Tree;
use crate::control::{self, Message};
use crate::level::Level;
use crate::policy::Identity;
use crate::report::{Exhausted, Usage};

/// What a sandbox with namespaces never shares with the machine; it leaves the control groups' one later,
/// when it is in its own group. Only some levels have a user namespace.
const NAMESPACES: i32 =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// The set-up server's `main`: to be called first thing, before any thread is made, by the program
/// that a [`SetUp`](crate::SetUp) names. Its standard input is the socket on which it is asked for
/// set-up processes; it ends when that hangs up. Its children do not end with it: each has a socket
/// of its own to listen to.
pub fn main() -> ExitCode {
    let Ok(server) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    // What is typed at the caller's terminal is the caller's to answer. It cannot fail for a process
    // that was just made.
    let _ = rustix::process::setsid();
    sys::forget_children(true);
    let groups = Groups::find();
    let mut swept = false;
    while let Ok(Some(request)) = control::receive_request(server.as_fd()) {
        match sys::clone_into(0) {
            Ok(None) => {
                sys::forget_children(false);
                // Held by nobody but the server, so that its death shows.
                drop(server);
                return set_up(request, &groups);
            }
            Ok(Some((pid, pidfd))) if control::send_process(server.as_fd(), pid, pidfd.as_fd()).is_ok() => {
                // Once, and when nobody waits for it.
                if !swept {
                    groups.sweep();
                    swept = true;
                }
            }
            _ => return ExitCode::FAILURE,
        }
    }
    ExitCode::SUCCESS
}

/// One set-up process.
fn set_up([document, stdin, stdout, stderr, control]: control::Request, groups: &Groups) -> ExitCode {
    if rustix::stdio::dup2_stdin(&control).is_err() {
        return ExitCode::FAILURE;
    }
    match supervise(document, [stdin, stdout, stderr], control.as_fd(), groups) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = control::tell(control.as_fd(), &Message::BootFailure(why), &[]);
            ExitCode::FAILURE
        }
    }
}

fn supervise(document: OwnedFd, streams: [OwnedFd; 3], control: BorrowedFd<'_>, groups: &Groups) -> Result<(), String> {
    let job = control::read_job(document).map_err(|error| format!("could not read the job: {error}"))?;
    let own = |error: io::Error| format!("could not prepare the set-up process: {error}");
    let signals = sys::signals_as_descriptor(&[SIGTERM]).map_err(own)?;
    let Identity { uid, gid } = Identity::own();
    let outside = init::Outside { uid, gid, set_up: Some(rustix::process::getpid()) };
    if outside.uid == 0 {
        // Root may be in groups that own devices and sockets; inside it is in none but its own.
        sys::drop_groups().map_err(own)?;
    }
    let level = job.policy.level;
    if !level.has_namespaces() {
        sys::adopt_orphans().map_err(own)?;
    }
    let leaf = groups.leaf(Wanted::of(&job.policy, mounts::has_own_pid_max()));
    let cloned = match clone_first(level, &leaf) {
        Ok(cloned) => cloned,
        Err(error) => {
            leaf.remove();
            return Err(format!("could not make the namespaces: {error}"));
        }
    };
    let Some((first, pidfd)) = cloned else {
        let held = leaf.join();
        init::run(&job, &outside, streams, control, held)
    };
    drop(streams);
    let (used, well) = until_ended(first, &pidfd, control, signals.as_fd());
    if !level.has_namespaces() {
        leaf.kill();
        Tree::kill_descendants();
    }
    let exhausted = if !well && leaf.ran_out_of_memory() { vec![Exhausted::Memory] } else { Vec::new() };
    leaf.remove();
    let _ = control::tell(control, &Message::Used(used, exhausted), &[]);
    Ok(())
}

/// Makes the first process inside, in its control group where it can be made there.
fn clone_first(level: Level, leaf: &Leaf) -> io::Result<Option<(pid_t, OwnedFd)>> {
    let mut namespaces = if level.has_namespaces() { NAMESPACES } else { 0 };
    if level.maps_user() {
        namespaces |= libc::CLONE_NEWUSER;
    }
    match leaf.to_be_made_in().map(|group| sys::clone_into_group(namespaces, group)) {
        Some(Ok(cloned)) => Ok(cloned),
        // Whether it is the call or the group that cannot be had, the next attempt needs neither.
        Some(Err(_)) | None => sys::clone_into(namespaces),
    }
}

/// Waits for the end of the sandbox, passing on a wish to stop and turning a hang-up into a kill. What it
/// used, and whether the program ended well.
fn until_ended(first: pid_t, pidfd: &OwnedFd, control: BorrowedFd<'_>, signals: BorrowedFd<'_>) -> (Usage, bool) {
    let mut hung_up = false;
    loop {
        let mut watched = [
            PollFd::new(pidfd, PollFlags::IN),
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
            PollFd::from_borrowed_fd(control, if hung_up { PollFlags::empty() } else { PollFlags::RDHUP }),
        ];
        // A hang-up stays visible, so after the kill only the end is of interest.
        let watched = if hung_up { &mut watched[..1] } else { &mut watched[..] };
        if rustix::event::poll(watched, None).is_err() {
            continue;
        }
        if !watched[0].revents().is_empty() {
            // The first process ends after every other one of its namespace, so the tree is gone.
            let end = sys::reap(first, true);
            return end.map_or_else(|| (Usage::default(), false), |it| (usage(&it.usage), it.status == 0));
        }
        if watched.len() > 1 && !watched[1].revents().is_empty() {
            while sys::next_signal(signals).is_some() {
                sys::signal(first, SIGTERM);
            }
        }
        if watched.len() > 2 && !watched[2].revents().is_empty() {
            sys::signal(first, libc::SIGKILL);
            hung_up = true;
        }
    }
}

fn usage(usage: &libc::rusage) -> Usage {
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Usage {
        user_micros: micros(usage.ru_utime),
        system_micros: micros(usage.ru_stime),
        resident_bytes_max: usage.ru_maxrss as u64 * 1024,
    }
}
