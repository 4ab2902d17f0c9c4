//! The first process inside: builds the view, gives up its rights, reaps, and ends with the program.
//!
//! It is process 1 of the PID namespace, so the kernel kills whatever is left when it ends. It
//! cannot be read or signaled by what runs below it, and it holds nothing worth having.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{SIGCHLD, SIGTERM, pid_t};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::mounts::{self, View};
use super::watch::{self, Sample};
use super::{payload, sys};
use crate::control::{self, Job, Message};
use crate::policy::{Limits, Network, Policy};
use crate::proxy::PROXY_PORT;
use crate::report::{End, Exhausted};

/// Any child.
const ANY: pid_t = -1;

/// The user and group as they are outside.
pub(super) struct Outside {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Runs the program to its end. Never returns: the end of this process is the end of the sandbox.
pub(super) fn run(job: &Job, outside: &Outside, streams: [OwnedFd; 3], control: BorrowedFd<'_>) -> ! {
    let code = match build(&job.policy, outside, control).and_then(|view| start(job, streams, control, &view)) {
        Ok(()) => 0,
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
    map_identity(policy, outside).map_err(step("map the user"))?;
    rustix::process::umask(rustix::fs::Mode::empty());
    sys::bring_loopback_up().map_err(step("bring the loopback up"))?;
    listen(policy, control)?;
    rustix::system::sethostname(policy.hostname.as_bytes()).map_err(|error| step("set the host name")(error.into()))?;
    let view = mounts::enter(policy)?;
    let layers: Vec<_> = view.layers.iter().map(AsFd::as_fd).collect();
    if !layers.is_empty() {
        control::tell(control, &Message::Layers, &layers).map_err(step("hand out the layers"))?;
    }
    sys::set_no_new_privileges().map_err(step("forbid new privileges"))?;
    sys::drop_capabilities().map_err(step("drop the capabilities"))?;
    sys::set_undumpable().map_err(step("close the sandbox's first process"))?;
    // Dropping capabilities may have cut the tie.
    sys::die_with_parent().map_err(step("tie the sandbox to its parent"))?;
    Ok(view)
}

/// One user and one group: this one. The kernel takes that from anybody, without help from root.
fn map_identity(policy: &Policy, outside: &Outside) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {} 1", policy.identity.uid, outside.uid))?;
    fs::write("/proc/self/gid_map", format!("{} {} 1", policy.identity.gid, outside.gid))
}

/// Opens the sockets whose other side is the caller: the proxy's, and one at each allowed loopback
/// address. They belong to this network namespace for ever, whoever accepts on them.
fn listen(policy: &Policy, control: BorrowedFd<'_>) -> Result<(), String> {
    let Network::Allow(allowed) = &policy.network else { return Ok(()) };
    let mut addresses = vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PROXY_PORT)];
    addresses.extend(allowed.iter().filter_map(|entry| Some(SocketAddr::new(entry.loopback()?, entry.port))));
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

fn start(job: &Job, streams: [OwnedFd; 3], control: BorrowedFd<'_>, view: &View) -> Result<(), String> {
    let signals = sys::signals_as_descriptor(&[SIGCHLD, SIGTERM]).map_err(|error| error.to_string())?;
    let program = match sys::fork().map_err(|error| format!("could not fork: {error}"))? {
        None => payload::become_program(job, streams, control),
        Some(program) => program,
    };
    // The streams end when the program's side ends, not when this process does.
    drop(streams);
    let limits = &job.policy.limits;
    let (end, mut exhausted) = until_ended(program, signals.as_fd(), limits);
    let is_full = |file: &OwnedFd| rustix::fs::fstatvfs(file).is_ok_and(|it| it.f_bavail == 0 || it.f_ffree == 0);
    if is_full(&view.scratch) || view.layers.iter().any(is_full) {
        exhausted.push(Exhausted::Disk);
    }
    let _ = control::tell(control, &Message::Ended(end, exhausted), &[]);
    Ok(())
}

/// Reaps until the program itself has ended; all else that lives then dies with this process.
fn until_ended(program: pid_t, signals: BorrowedFd<'_>, limits: &Limits) -> (End, Vec<Exhausted>) {
    let mut exhausted = Vec::new();
    let mut peak = 0;
    let mut interval = watch::INTERVAL_SHORT;
    loop {
        let mut watched = [PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        let woken = rustix::event::poll(&mut watched, Timespec::try_from(interval).ok().as_ref());
        if woken == Ok(0) {
            let sample = Sample::take();
            peak = peak.max(sample.memory_bytes);
            interval = sample.next_look(limits);
            if let Some(limit) = sample.over(limits).filter(|it| !exhausted.contains(it)) {
                exhausted.push(limit);
                sys::signal(program, libc::SIGKILL);
            }
        }
        while let Some(signal) = sys::next_signal(signals) {
            if signal == SIGTERM {
                // To every process here but this one.
                sys::signal(ANY, SIGTERM);
            }
        }
        while let Some(child) = sys::reap(ANY, false) {
            if child.pid == program {
                let end = end_of(child.status);
                peak = peak.max(child.usage.ru_maxrss as u64 * 1024);
                note_limits(end, peak, limits, &mut exhausted);
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
fn note_limits(end: End, peak_bytes: u64, limits: &Limits, exhausted: &mut Vec<Exhausted>) {
    let by_signal = match end {
        End::Signaled(libc::SIGXCPU) => Some(Exhausted::Cpu),
        End::Signaled(libc::SIGXFSZ) => Some(Exhausted::FileSize),
        _ => None,
    };
    let nearly = (end != End::Exited(0) && watch::is_nearly_all(peak_bytes, limits)).then_some(Exhausted::Memory);
    for limit in [by_signal, nearly].into_iter().flatten() {
        if !exhausted.contains(&limit) {
            exhausted.push(limit);
        }
    }
}
