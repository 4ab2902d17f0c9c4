//! The first process inside: builds the view, gives up its rights, reaps, and ends with the program.
//!
//! It is process 1 of the PID namespace, so the kernel kills whatever is left when it ends; without a
//! namespace it does so itself. It cannot be read or signaled by what runs below it, and it holds
//! nothing worth having.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libc::{SIGCHLD, SIGHUP, SIGTERM, pid_t};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Access;
use rustix::process::Pid;

use super::cgroup::Held;
use super::mounts::{self, View};
use super::tree::Tree;
use super::watch::{self, Sample};
use super::{payload, sys};
use crate::control::{self, Job, Message};
use crate::policy::{Identity, Limits, Network, Policy};
use crate::proxy::PROXY_PORT;
use crate::report::{End, Exhausted};

/// Any child.
const ANY: pid_t = -1;

/// The user and group as they are outside, and the process that stays there.
pub(super) struct Outside {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) set_up: Option<Pid>,
}

/// Runs the program to its end. Never returns: the end of this process is the end of the sandbox.
pub(super) fn run(job: &Job, outside: &Outside, streams: [OwnedFd; 3], control: BorrowedFd<'_>, held: Held) -> ! {
    let built = match job.policy.level.has_namespaces() {
        true => build(&job.policy, outside, control).map(Some),
        false => build_bare(&job.policy, outside).map(|()| None),
    };
    let code = match built.and_then(|view| start(job, streams, control, view.as_ref(), held)) {
        Ok(end) => i32::from(end != End::Exited(0)),
        Err(why) => {
            let _ = control::tell(control, &Message::BootFailure(why), &[]);
            1
        }
    };
    sys::exit_now(code)
}

fn build(policy: &Policy, outside: &Outside, control: BorrowedFd<'_>) -> Result<View, String> {
    let step = |what: &'static str| move |error: io::Error| format!("could not {what}: {error}");
    sys::die_with_parent().map_err(step("tie the sandbox to its parent"))?;
    if policy.level.maps_user() {
        map_identity(policy, outside).map_err(step("map the user"))?;
    }
    sys::leave_cgroup_namespace().map_err(step("leave the control groups' namespace"))?;
    rustix::process::umask(rustix::fs::Mode::empty());
    sys::bring_loopback_up().map_err(step("bring the loopback up"))?;
    listen(policy, control)?;
    rustix::system::sethostname(policy.hostname.as_bytes()).map_err(|error| step("set the host name")(error.into()))?;
    let view = mounts::enter(policy)?;
    let layers: Vec<_> = view.layers.iter().map(AsFd::as_fd).collect();
    if !layers.is_empty() {
        control::tell(control, &Message::Layers, &layers).map_err(step("hand out the layers"))?;
    }
    give_up_rights(policy, outside)?;
    // Dropping capabilities may have cut the tie.
    sys::die_with_parent().map_err(step("tie the sandbox to its parent"))?;
    Ok(view)
}

/// Without namespaces there is nothing to build. What is left to do is to be a second supervisor: the
/// first one kills what this one would leave behind, and this one hears of the first one's death.
fn build_bare(policy: &Policy, outside: &Outside) -> Result<(), String> {
    let step = |what: &'static str| move |error: io::Error| format!("could not {what}: {error}");
    sys::adopt_orphans().map_err(step("adopt orphans"))?;
    give_up_rights(policy, outside)?;
    sys::hear_parents_death(SIGHUP).map_err(step("tie the sandbox to its parent"))?;
    match rustix::process::getppid() == outside.set_up {
        true => Ok(()),
        false => Err("the set-up process is gone".to_owned()),
    }
}

/// From here on this process and all below it have no right that another process of the user has not.
fn give_up_rights(policy: &Policy, outside: &Outside) -> Result<(), String> {
    let step = |what: &'static str| move |error: io::Error| format!("could not {what}: {error}");
    sys::set_no_new_privileges().map_err(step("forbid new privileges"))?;
    sys::bound_capabilities();
    if let Some(Identity { uid, gid }) = policy.level.dedicated(outside.uid == 0) {
        sys::become_user(uid, gid).map_err(step("become the unprivileged user"))?;
        let write = policy.write.iter().map(|root| (&root.path, &root.path));
        let placed = policy.placed.iter().filter(|it| it.writable).map(|it| (&it.path, &it.source));
        write.chain(placed).try_for_each(|(path, source)| check_writable(path, source, uid))?;
    }
    sys::drop_capabilities().map_err(step("drop the capabilities"))?;
    sys::set_undumpable().map_err(step("close the sandbox's first process"))
}

/// Nothing of the user's changes hands for a sandbox: what is to be written must be given by him.
fn check_writable(path: &Path, source: &Path, uid: u32) -> Result<(), String> {
    let mut access = Access::WRITE_OK;
    if path.is_dir() {
        access |= Access::EXEC_OK;
    }
    rustix::fs::access(path, access).map_err(|error| {
        let path = source.display();
        format!(
            "{path} cannot be written by user {uid}, who the program is at this level ({error}); chown -R {uid} {path}"
        )
    })
}

/// One user and one group: this one. The kernel takes that from anybody, without help from root.
fn map_identity(policy: &Policy, outside: &Outside) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {} 1", policy.identity.uid, outside.uid))?;
    fs::write("/proc/self/gid_map", format!("{} {} 1", policy.identity.gid, outside.gid))
}

/// Opens the sockets whose other side is the caller: the door, the proxy's, and one at each allowed loopback
/// address. They belong to this network namespace for ever, whoever accepts on them.
fn listen(policy: &Policy, control: BorrowedFd<'_>) -> Result<(), String> {
    let own = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let mut addresses: Vec<_> = policy.door.map(own).into_iter().collect();
    if let Network::Allow(allowed) = &policy.network {
        addresses.push(own(PROXY_PORT));
        addresses.extend(allowed.iter().filter_map(|entry| Some(SocketAddr::new(entry.loopback()?, entry.port))));
    }
    if addresses.is_empty() {
        return Ok(());
    }
    // `localhost` and its address are one place.
    let mut seen = HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    let mut listeners = Vec::new();
    for address in &addresses {
        let listener = TcpListener::bind(address).map_err(|error| format!("could not listen on {address}: {error}"))?;
        listeners.push(listener);
    }
    let names = addresses.iter().map(SocketAddr::to_string).collect();
    let descriptors: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    control::tell(control, &Message::Listening(names), &descriptors)
        .map_err(|error| format!("could not hand out the listeners: {error}"))
}

fn start(
    job: &Job,
    streams: [OwnedFd; 3],
    control: BorrowedFd<'_>,
    view: Option<&View>,
    held: Held,
) -> Result<End, String> {
    let signals = sys::signals_as_descriptor(&[SIGCHLD, SIGTERM, SIGHUP]).map_err(|error| error.to_string())?;
    let program = match sys::fork().map_err(|error| format!("could not fork: {error}"))? {
        None => payload::become_program(job, streams, control, held),
        Some(program) => program,
    };
    // The streams end when the program's side ends, not when this process does.
    drop(streams);
    let limits = &job.policy.limits;
    let tree = if job.policy.level.has_namespaces() { Tree::Namespace } else { Tree::Descendants };
    let (end, mut exhausted) = until_ended(program, signals.as_fd(), limits, tree);
    if tree == Tree::Descendants {
        Tree::kill_descendants();
    }
    let is_full = |file: &OwnedFd| rustix::fs::fstatvfs(file).is_ok_and(|it| it.f_bavail == 0 || it.f_ffree == 0);
    if view.is_some_and(|view| is_full(&view.scratch) || view.layers.iter().any(is_full)) {
        exhausted.push(Exhausted::Disk);
    }
    let _ = control::tell(control, &Message::Ended(end, exhausted), &[]);
    Ok(end)
}

/// Reaps until the program itself has ended; all else that lives then dies with this process.
fn until_ended(program: pid_t, signals: BorrowedFd<'_>, limits: &Limits, tree: Tree) -> (End, Vec<Exhausted>) {
    let mut exhausted = Vec::new();
    let mut peak = 0;
    let mut interval = watch::INTERVAL_SHORT;
    loop {
        let mut watched = [PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        let woken = rustix::event::poll(&mut watched, Timespec::try_from(interval).ok().as_ref());
        if woken == Ok(0) {
            let sample = Sample::take(tree);
            peak = peak.max(sample.memory_bytes);
            interval = sample.next_look(limits);
            if let Some(limit) = sample.over(limits).filter(|it| !exhausted.contains(it)) {
                exhausted.push(limit);
                sys::signal(program, libc::SIGKILL);
            }
        }
        while let Some(signal) = sys::next_signal(signals) {
            match signal {
                SIGTERM => tree.signal(SIGTERM),
                // The set-up process died; where there is a namespace, the kernel kills this one instead.
                SIGHUP if tree == Tree::Descendants => return (End::Killed, exhausted),
                _ => {}
            }
        }
        while let Some(child) = sys::reap(ANY, false) {
            if child.pid == program {
                let end = end_of(child.status);
                peak = peak.max(child.usage.ru_maxrss as u64 * 1024);
                let used = Sample { memory_bytes: peak, cpu: watch::reaped_cpu() };
                note_limits(end, used, limits, &mut exhausted);
                return (end, exhausted);
            }
        }
    }
}

fn end_of(status: i32) -> End {
    match libc::WIFSIGNALED(status) {
        true => End::Signaled(libc::WTERMSIG(status)),
        false => End::Exited(libc::WEXITSTATUS(status)),
    }
}

/// What an end says about the limits, beyond what was seen while it ran.
fn note_limits(end: End, used: Sample, limits: &Limits, exhausted: &mut Vec<Exhausted>) {
    let by_signal = match end {
        End::Signaled(libc::SIGXCPU) => Some(Exhausted::Cpu),
        End::Signaled(libc::SIGXFSZ) => Some(Exhausted::FileSize),
        _ => None,
    };
    let nearly = used.nearly_over(limits).filter(|_| end != End::Exited(0));
    for limit in [by_signal, nearly].into_iter().flatten() {
        if !exhausted.contains(&limit) {
            exhausted.push(limit);
        }
    }
}
