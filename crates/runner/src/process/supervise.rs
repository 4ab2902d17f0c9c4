//! The process between norma and a program: it keeps the whole tree in hand until all of it ends.
//!
//! It opens a session of its own, so that no terminal and no signal to norma's group reaches the
//! program, and becomes the tree's subreaper: whatever daemonises, double-forks or leaves for
//! another session is still its descendant when orphaned. When the program has ended, or when it
//! is told to stop, it kills every descendant and reaps it. "No children left" is then the kernel's
//! own word for "nothing of this tree exists". Then it can keep the next program's tree: starting norma again costs
//! more than most programs do. Each program has streams of its own, so nothing that got hold of one program's output
//! can speak in the next one's place.
//!
//! It is told to stop by SIGTERM, SIGINT or SIGHUP, and by norma's end: the control socket hangs
//! up, at whatever moment norma died, so there is no race to close as there is with the parent
//! death signal alone. That signal is set too, for the case that something else holds the socket.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command as StdCommand, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, set_parent_process_death_signal,
    setsid, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::control::{self, Report, Start};
use super::spec::{self, Spec};
use super::supervised::timespec;
use super::{STOP_GRACE, tree};

/// How long killed descendants may take to be gone. SIGKILL takes milliseconds; the bound is for
/// what cannot be killed, such as a process of another user or one stuck in a dead file system.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(4);

/// Longest time between two rounds of killing, when no child's end starts one earlier.
const ROUND_PAUSE: Duration = Duration::from_millis(10);

/// Exit code when the supervisor itself failed or was called wrongly. For people only: norma reads
/// the control socket.
const FAILED: i32 = 125;

/// Exit code when the program could not be started, as shells have it.
const NOT_STARTED: i32 = 127;

/// What shells add to a signal's number to make an exit code of it.
const SIGNALED_BASE: i32 = 128;

/// Waits for a program and runs it as the supervisor of [`run`](super::run); the process's exit code.
///
/// The process must be norma's own, with a single thread: standard input is the control socket,
/// and every child of the process is taken for one of the program's.
pub fn main() -> i32 {
    supervise().unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "norma: could not supervise: {error}");
        FAILED
    })
}

fn supervise() -> io::Result<i32> {
    let signals = Signals::listen()?;
    // Fails only for the leader of a process group, which norma does not make of it.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let stdin = io::stdin();
    let control = stdin.as_fd();
    let mut code = FAILED;
    // One that was told to stop, or could not end a tree, takes no further program.
    while let Some(start) = control::receive_start(control)? {
        let (report, rests) = run_one(start, &signals, control)?;
        control::send_report(control, &report);
        code = match report {
            Report::Exited(code) => code,
            Report::Signaled(signal) => SIGNALED_BASE + signal,
            Report::NotStarted(_) => NOT_STARTED,
        };
        if !rests {
            break;
        }
    }
    Ok(code)
}

/// Runs one program to the end of its tree; how it ended, and whether there is nothing left of it and nobody asked
/// for a stop.
fn run_one(start: Start, signals: &Signals, control: BorrowedFd<'_>) -> io::Result<(Report, bool)> {
    let spec = spec::unpack(start.spec)?;
    let complaints = start.stderr.try_clone()?;
    match spawn(&spec, start.stdin, start.stdout, start.stderr) {
        Ok(pid) => keep(Tree { program: pid, status: None, complaints }, signals, control),
        Err(error) => Ok((Report::NotStarted(why_not_started(&spec, &error)), true)),
    }
}

/// Starts the program in a process group of its own, so that a script's `kill 0` spares the
/// supervisor. Output goes straight to norma's pipes; nothing of the supervisor's environment is passed on.
fn spawn(spec: &Spec, stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Pid> {
    let mut command = StdCommand::new(&spec.program);
    command.args(&spec.args).current_dir(&spec.cwd).env_clear().envs(&spec.env);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    let child = command.process_group(0).spawn()?;
    Ok(Pid::from_child(&child))
}

fn why_not_started(spec: &Spec, error: &io::Error) -> String {
    let shown = spec.program.display();
    if !spec.cwd.is_dir() {
        return format!("could not run {shown} in {}: not a folder", spec.cwd.display());
    }
    if error.kind() == io::ErrorKind::NotFound && spec.program.exists() {
        return format!("could not run {shown}: the interpreter it names does not exist");
    }
    format!("could not run {shown}: {error}")
}

/// Waits for the program's end or for a stop, then ends everything, whatever went wrong before.
fn keep(mut tree: Tree, signals: &Signals, control: BorrowedFd<'_>) -> io::Result<(Report, bool)> {
    let waited = wait_for_end(&mut tree, signals, control);
    let gone = kill_all(&mut tree, signals);
    let rests = waited? && gone;
    let status = tree.status.ok_or_else(|| io::Error::other("the program outlived SIGKILL"))?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ok((Report::Exited(code), rests)),
        (None, Some(signal)) => Ok((Report::Signaled(signal), rests)),
        (None, None) => unreachable!("BUG: only ended children are waited for"),
    }
}

/// Returns when the program has ended, or when its grace after a stop is over; whether nobody asked for a stop.
fn wait_for_end(tree: &mut Tree, signals: &Signals, control: BorrowedFd<'_>) -> io::Result<bool> {
    let mut grace_until: Option<Instant> = None;
    loop {
        tree.reap();
        if tree.status.is_some() || grace_until.is_some_and(|until| until <= Instant::now()) {
            return Ok(grace_until.is_none());
        }
        let mut watched = vec![PollFd::new(&signals.child, PollFlags::IN)];
        if grace_until.is_none() {
            watched.push(PollFd::new(&signals.stop, PollFlags::IN));
            watched.push(PollFd::from_borrowed_fd(control, PollFlags::IN));
        }
        let timeout = grace_until.and_then(|until| timespec(until.saturating_duration_since(Instant::now())));
        match rustix::event::poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // norma sends nothing after the start, so anything on the control socket is a hang-up.
        if watched.iter().skip(1).any(|fd| !fd.revents().is_empty()) {
            // The program may have ended at the same moment; its id is kept until it is reaped.
            let _ = kill_process(tree.program, Signal::TERM);
            grace_until = Some(Instant::now() + STOP_GRACE);
        }
        signals.forget_child();
    }
}

/// Kills and reaps until the kernel knows no child, in rounds: a killed process's children become
/// the supervisor's, and a child forked during one round is found in the next. Whether all are gone.
fn kill_all(tree: &mut Tree, signals: &Signals) -> bool {
    let patience_until = Instant::now() + KILL_PATIENCE;
    while tree.reap() == Children::Some {
        if Instant::now() >= patience_until {
            tree.complain("could not kill every process the program left behind");
            return false;
        }
        if let Err(error) = tree::kill_own_descendants_once() {
            tree.complain(&format!("could not look for processes: {error}"));
        }
        let mut watched = [PollFd::new(&signals.child, PollFlags::IN)];
        let _ = rustix::event::poll(&mut watched, timespec(ROUND_PAUSE).as_ref());
        signals.forget_child();
    }
    true
}

/// The program and, once it was reaped, how it ended.
struct Tree {
    program: Pid,
    status: Option<WaitStatus>,
    /// The program's standard error: words about it appear at the end of its captured output.
    complaints: OwnedFd,
}

/// Whether the supervisor still has children.
#[derive(PartialEq, Eq)]
enum Children {
    Some,
    None,
}

impl Tree {
    fn complain(&self, message: &str) {
        let _ = rustix::io::write(&self.complaints, format!("norma: {message}\n").as_bytes());
    }

    /// Reaps every child that has ended, orphans of the tree included.
    fn reap(&mut self) -> Children {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.program => self.status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Children::Some,
                Err(_) => return Children::None,
            }
        }
    }
}

/// Signals turned into descriptors that can be polled, since a handler may do almost nothing.
struct Signals {
    stop: UnixStream,
    child: UnixStream,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let (stop, stop_sender) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            pipe::register(signal, stop_sender.try_clone()?)?;
        }
        let (child, child_sender) = UnixStream::pair()?;
        pipe::register(SIGCHLD, child_sender)?;
        child.set_nonblocking(true)?;
        Ok(Self { stop, child })
    }

    /// Empties the child descriptor, so that the next poll waits for the next child. Whoever calls
    /// this reaps afterwards, so that a child that ended in between is not missed.
    fn forget_child(&self) {
        let mut buffer = [0; 64];
        while (&self.child).read(&mut buffer).is_ok_and(|count| count == buffer.len()) {}
    }
}
