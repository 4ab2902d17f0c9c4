//! norma's hold on one supervisor process: start it, ask it to stop, make sure it is gone.
//!
//! Dropping the hold kills the tree, so that an error on the way out of `run` leaves nothing
//! behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command as StdCommand, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::control::{self, Report, Start};
use super::{Command, Supervisor, spec, tree};

/// How long a supervisor killed with SIGKILL may take to be gone. It takes microseconds; the bound
/// is for a machine that swaps.
const KILLED_PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// A supervisor and the descriptors that reach it.
pub(super) struct Supervised {
    child: Child,
    pid: Pid,
    /// Readable when the supervisor has ended, and never another process's, unlike its id.
    pidfd: OwnedFd,
    control: OwnedFd,
    /// What it said about the program's end; from then on nothing of the tree is left but itself.
    report: Option<Report>,
    /// Whether it was told what to run. Until then there is no tree, and a hang-up is enough to end it.
    released: bool,
    reaped: bool,
}

/// How a program ended, as far as its supervisor told.
pub(super) enum Ending {
    Reported(Report),
    /// The supervisor itself ended first, in this way.
    Unreported(ExitStatus),
}

/// The program's ends of its streams.
pub(super) struct Streams {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The reading ends of the program's output.
pub(super) struct Output {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Supervised {
    /// Starts the supervisor, which waits for [`Supervised::release`] to tell it what to run.
    pub(super) fn start(supervisor: &Supervisor) -> io::Result<Self> {
        let (control, theirs) = control::pair()?;
        let child = StdCommand::new(&supervisor.program)
            .args(&supervisor.args)
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        let pid = Pid::from_child(&child);
        // From here on a failure hangs up `control`, and the supervisor ends by itself.
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { child, pid, pidfd, control, report: None, released: false, reaped: false })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Readable when the supervisor, and with it the tree, has ended.
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Readable when the supervisor has reported, or is gone.
    pub(super) fn reports(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Lets the supervisor start the program. One that has died already is noticed by its end.
    pub(super) fn release(&mut self, command: &Command, streams: Streams) -> io::Result<()> {
        let Streams { stdin, stdout, stderr } = streams;
        let start = Start { stdin, stdout, stderr, spec: spec::pack(command)? };
        (self.released, self.report) = (true, None);
        match control::send_start(self.control.as_fd(), &start) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(()),
            result => result,
        }
    }

    /// Asks for an orderly end: SIGTERM for the program, a grace, SIGKILL for the tree.
    pub(super) fn ask_to_stop(&self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        // A program of the same user can have stopped its supervisor, which then hears nothing.
        self.signal(Signal::CONT)
    }

    /// Kills the tree without the supervisor's help, then the supervisor.
    pub(super) fn kill(&self) -> io::Result<()> {
        // Stopped, not killed: as long as it lives, the orphans of the tree stay below it.
        self.signal(Signal::STOP)?;
        let tree_killed = tree::kill_below(self.pid);
        self.signal(Signal::KILL)?;
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        if retry_on_intr(|| rustix::event::poll(&mut watched, Some(&KILLED_PATIENCE)))? == 0 {
            let message = format!("could not kill the supervisor, process {}", self.pid);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        tree_killed
    }

    /// Takes the report if it is there; whether it is.
    pub(super) fn has_reported(&mut self) -> io::Result<bool> {
        if self.report.is_none() {
            self.report = control::receive_report(self.control.as_fd())?;
        }
        Ok(self.report.is_some())
    }

    /// How the program ended: what was reported, or, without a report, how the supervisor itself ended.
    pub(super) fn finish(&mut self) -> io::Result<Ending> {
        self.has_reported()?;
        if let Some(report) = &self.report {
            return Ok(Ending::Reported(report.clone()));
        }
        // It was killed before its work was done. Not reaped yet, it still keeps its id, and
        // so its session's, from being given to another.
        tree::kill_session(self.pid)?;
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(Ending::Unreported(status))
    }

    /// Tells a supervisor that has no program that there is none to come.
    fn dismiss(&self) {
        let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Both);
    }

    /// Waits for a supervisor that has nothing left to do; whether it went by itself.
    fn leaves(&self) -> bool {
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let polled = retry_on_intr(|| rustix::event::poll(&mut watched, Some(&KILLED_PATIENCE)));
        polled.is_ok_and(|ready| ready > 0)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        let rests = self.report.is_some() || !self.released;
        if rests {
            self.dismiss();
        }
        let gone = rests && self.leaves();
        if gone || self.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}

/// The timeout for a poll that may take this long.
pub(super) fn timespec(duration: Duration) -> Option<Timespec> {
    Timespec::try_from(duration).ok()
}
