//! The caller's hold on a sandbox: prepare it, look at it, start the program, end it, hear its end.
//!
//! [`Sandbox::prepare`] builds the whole confinement and stops before the program. What comes back says what
//! holds in fact and gives the process id to put on record; only [`Prepared::start`] lets the
//! program run. Dropping either kills everything inside.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as StdCommand, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, pidfd_send_signal};

use crate::control::{self, DESCRIPTORS_MAX, Job, Message};
use crate::effective::{Effective, own_namespaces};
use crate::listen::{Judge, Listener, Notes};
use crate::policy::{Policy, Violation};
use crate::proxy::{Attempt, Proxy};
use crate::report::{End, Exhausted, Report, Usage};

/// How long building a sandbox may take. It takes milliseconds; the bound is for a machine that
/// swaps and for a source on a file system that does not answer.
const BOOT_PATIENCE: Duration = Duration::from_secs(30);

/// How long a sandbox that is being killed may take to be gone before its set-up process is killed
/// too, which the kernel turns into the death of the rest.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// The program that is executed as the set-up server and calls [`setup::main`](crate::setup::main).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// An executable, normally norma itself.
    pub program: PathBuf,
    /// Arguments that make it the set-up server.
    pub args: Vec<OsString>,
}

/// The program to confine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A path inside, or a name to be found on the policy's PATH.
    pub program: String,
    /// Without the program's own name.
    pub args: Vec<String>,
}

/// The program's standard streams, as it will hold them.
#[derive(Debug)]
pub struct Streams {
    /// Descriptor 0.
    pub stdin: OwnedFd,
    /// Descriptor 1.
    pub stdout: OwnedFd,
    /// Descriptor 2.
    pub stderr: OwnedFd,
}

/// Why there is no confined program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy cannot be meant.
    #[error("the policy is not sound: {}", list(.0))]
    Policy(Vec<Violation>),
    /// The confinement could not be built.
    #[error("{0}")]
    BootFailure(String),
    /// What was built is less than what was asked for.
    #[error("the sandbox is weaker than asked: {}", list(.0))]
    Weaker(Vec<String>),
    /// The confinement stood, but the program could not be executed.
    #[error("{0}")]
    NotStarted(String),
    /// The set-up process could not be run or spoken to.
    #[error("could not run the sandbox's set-up process {}: {error}", .program.display())]
    SetUp {
        /// The program that was to be run.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A sandbox in which everything stands and nothing runs.
#[must_use = "dropping it kills the sandbox"]
pub struct Prepared {
    held: Held,
    policy: Policy,
    effective: Effective,
}

/// A running confined program.
#[must_use = "dropping it kills the program"]
pub struct Confined {
    held: Held,
    effective: Effective,
}

/// The set-up process and the descriptors that reach it.
struct Held {
    pid: Pid,
    pidfd: OwnedFd,
    control: OwnedFd,
    proxy: Option<Proxy>,
    /// What listens behind the policy's door.
    door: Option<TcpListener>,
    /// Where kernel calls are heard, until somebody listens.
    calls: Option<OwnedFd>,
    listener: Option<Listener>,
    /// What is changed in each overlay.
    layers: Vec<OwnedFd>,
    /// Messages read and not used yet.
    messages: VecDeque<Message>,
    program: PathBuf,
    ended: bool,
}

/// A way to confine programs: holds the set-up server, which is started when it is first needed and
/// again when it was lost. To be shared by all threads.
#[derive(Debug)]
pub struct Sandbox {
    set_up: SetUp,
    server: Mutex<Option<Server>>,
}

/// The set-up server: a process that does nothing but fork set-up processes.
#[derive(Debug)]
struct Server {
    child: Child,
    socket: OwnedFd,
}

impl Sandbox {
    /// Starts nothing yet.
    pub fn new(set_up: SetUp) -> Self {
        Self { set_up, server: Mutex::new(None) }
    }

    /// Builds the confinement and reads it back; refuses what is weaker than the policy.
    pub fn prepare(&self, policy: &Policy, command: &Command, streams: &Streams) -> Result<Prepared, Error> {
        let violations = policy.violations();
        if !violations.is_empty() {
            return Err(Error::Policy(violations));
        }
        let failed = |error| Error::SetUp { program: self.set_up.program.clone(), error };
        let job = Job { policy: policy.clone(), program: command.program.clone(), args: command.args.clone() };
        let mut held = self.request(&job, streams).map_err(failed)?;
        // Read while the other side works.
        let outside = own_namespaces().map_err(failed)?;
        let effective = held.until_ready(policy)?;
        let weaker = effective.weaker_than(policy, &outside);
        if !weaker.is_empty() {
            return Err(Error::Weaker(weaker));
        }
        if policy.heard.is_some() && held.calls.is_none() {
            return Err(Error::Weaker(vec!["what the program starts is not heard".to_owned()]));
        }
        Ok(Prepared { held, policy: policy.clone(), effective })
    }

    /// A new set-up process at work. A server that was lost meanwhile is replaced once.
    fn request(&self, job: &Job, streams: &Streams) -> io::Result<Held> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*server
            && let Ok(held) = running.request(job, streams, &self.set_up.program)
        {
            return Ok(held);
        }
        *server = None;
        server.insert(Server::start(&self.set_up)?).request(job, streams, &self.set_up.program)
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl Server {
    fn start(set_up: &SetUp) -> io::Result<Self> {
        let (socket, theirs) = control::pair()?;
        let child = StdCommand::new(&set_up.program)
            .args(&set_up.args)
            // Nothing of the caller's environment can then be found inside, not even in `/proc/1`.
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, socket })
    }

    /// Has a process forked for the job; it works already while the answer is on its way. Whatever
    /// fails here hangs up its socket, and it ends by itself without having run the program.
    fn request(&self, job: &Job, streams: &Streams, program: &Path) -> io::Result<Held> {
        let (control, theirs) = control::pair()?;
        let fds = [streams.stdin.as_fd(), streams.stdout.as_fd(), streams.stderr.as_fd()];
        control::send_request(self.socket.as_fd(), job, fds, theirs.as_fd())?;
        drop(theirs);
        let patience = Timespec::try_from(BOOT_PATIENCE).ok();
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        if retry_on_intr(|| rustix::event::poll(&mut watched, patience.as_ref()))? == 0 {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        let (pid, pidfd) = control::receive_process(self.socket.as_fd())?;
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the set-up server names no process"))?;
        let program = program.to_owned();
        Ok(Held {
            pid,
            pidfd,
            control,
            proxy: None,
            door: None,
            calls: None,
            listener: None,
            layers: Vec::new(),
            messages: VecDeque::new(),
            program,
            ended: false,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Hung up, it ends by itself; one that does not would not end by a polite signal either.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prepared {
    /// The set-up process, for the record: as long as it lives, the sandbox may.
    pub fn pid(&self) -> u32 {
        self.held.pid.as_raw_pid().cast_unsigned()
    }

    /// What holds.
    pub fn effective(&self) -> &Effective {
        &self.effective
    }

    /// What the program reaches at the policy's door, for the caller to accept on: no address of the machine, and no
    /// route out of the sandbox but the caller's own answers.
    pub fn take_door(&mut self) -> Option<TcpListener> {
        self.held.door.take()
    }

    /// Lets the program run.
    pub fn start(self) -> Result<Confined, Error> {
        self.start_judged(None)
    }

    /// The same, and has somebody judge every program that is started inside, where the policy has that heard.
    pub fn start_judged(mut self, judge: Option<Judge>) -> Result<Confined, Error> {
        if let Some(calls) = self.held.calls.take() {
            let control = self.held.control.try_clone();
            let started = control.and_then(|control| Listener::start(calls, control, &self.policy, judge));
            let failed = |error| Error::SetUp { program: self.held.program.clone(), error };
            self.held.listener = Some(started.map_err(failed)?);
        }
        match control::send_go(self.held.control.as_fd()) {
            // It died meanwhile, which its end will tell.
            Err(error) if !is_hang_up(&error) => Err(Error::SetUp { program: self.held.program.clone(), error }),
            _ => Ok(Confined { held: self.held, effective: self.effective }),
        }
    }
}

impl Confined {
    /// The set-up process.
    pub fn pid(&self) -> u32 {
        self.held.pid.as_raw_pid().cast_unsigned()
    }

    /// What holds.
    pub fn effective(&self) -> &Effective {
        &self.effective
    }

    /// Readable when the program and everything it started is gone. For the caller's poll loop.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.held.pidfd.as_fd()
    }

    /// Asks for an orderly end: SIGTERM to every process inside. The caller decides how long to
    /// wait before it kills.
    pub fn ask_to_stop(&self) -> io::Result<()> {
        self.held.signal(Signal::TERM)
    }

    /// Has the whole tree killed; [`Confined::ended`] tells when it is gone.
    pub fn kill(&self) -> io::Result<()> {
        self.held.hang_up()
    }

    /// What was tried on the network so far.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.held.proxy.as_ref().map(|proxy| proxy.attempts().0).unwrap_or_default()
    }

    /// The directories that hold what is changed in each overlay, in the policy's order. To be read when the
    /// program has ended; a layer in memory lives as long as its descriptor.
    pub fn take_layers(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.held.layers)
    }

    /// Waits for the end, and says how it came.
    pub fn finish(mut self) -> Result<Report, Error> {
        let program = self.held.program.clone();
        self.held.finish().map_err(|error| match error {
            Unfinished::Refused(error) => error,
            Unfinished::Io(error) => Error::SetUp { program, error },
        })
    }
}

impl Held {
    /// Waits until the confinement stands.
    fn until_ready(&mut self, policy: &Policy) -> Result<Effective, Error> {
        let deadline = Instant::now() + BOOT_PATIENCE;
        let failed = |program: &PathBuf, error| Error::SetUp { program: program.clone(), error };
        loop {
            let ended = self.wait(deadline).map_err(|error| failed(&self.program, error))?;
            while let Some((message, descriptors)) =
                control::hear(self.control.as_fd()).map_err(|error| failed(&self.program, error))?
            {
                match message {
                    Message::Ready(effective) => return Ok(*effective),
                    Message::BootFailure(why) => return Err(Error::BootFailure(why)),
                    Message::Layers => self.layers = descriptors,
                    Message::Listener => self.calls = descriptors.into_iter().next(),
                    Message::Listening(addresses) => {
                        let started = self.start_proxy(policy, &addresses, descriptors);
                        started.map_err(|error| failed(&self.program, error))?;
                    }
                    // The end of a set-up that failed; its reason came first or comes next.
                    other => self.messages.push_back(other),
                }
            }
            match ended {
                Some(true) => return Err(Error::BootFailure("the set-up process ended without a word".to_owned())),
                Some(false) => {}
                None => return Err(Error::BootFailure(format!("no sandbox within {BOOT_PATIENCE:?}"))),
            }
        }
    }

    fn start_proxy(&mut self, policy: &Policy, addresses: &[String], sockets: Vec<OwnedFd>) -> io::Result<()> {
        let addresses = addresses.iter().map(|it| it.parse::<SocketAddr>().map_err(io::Error::other));
        let addresses = addresses.collect::<io::Result<Vec<_>>>()?;
        if addresses.len() != sockets.len() {
            return Err(io::Error::other(format!("more than {DESCRIPTORS_MAX} listeners")));
        }
        let mut listeners: Vec<_> = addresses.into_iter().zip(sockets).collect();
        if policy.door.is_some() {
            self.door = Some(TcpListener::from(listeners.remove(0).1));
        }
        if !listeners.is_empty() {
            self.proxy = Some(Proxy::start(policy.network.allowed(), listeners)?);
        }
        Ok(())
    }

    /// Waits for a message or the end: whether it is the end, `None` when the time is up.
    fn wait(&self, deadline: Instant) -> io::Result<Option<bool>> {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
        let mut watched = [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.pidfd, PollFlags::IN)];
        match retry_on_intr(|| rustix::event::poll(&mut watched, left.as_ref()))? {
            0 => Ok(None),
            _ => Ok(Some(!watched[1].revents().is_empty())),
        }
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hangs up, at which the set-up process kills everything; its last words can still be read.
    fn hang_up(&self) -> io::Result<()> {
        match rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn finish(&mut self) -> Result<Report, Unfinished> {
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        retry_on_intr(|| rustix::event::poll(&mut watched, None)).map_err(io::Error::from)?;
        while let Some((message, _)) = control::hear(self.control.as_fd())? {
            self.messages.push_back(message);
        }
        self.ended = true;
        let mut report = Report {
            end: End::Killed,
            exhausted: Vec::new(),
            usage: Usage::default(),
            network: Vec::new(),
            network_dropped: 0,
            commands: None,
        };
        if let Some(mut proxy) = self.proxy.take() {
            proxy.stop();
            (report.network, report.network_dropped) = proxy.attempts();
        }
        if let Some(Notes { commands, reached }) = self.listener.take().map(Listener::finish) {
            let (refused, dropped) = reached.refused();
            report.network.extend(refused);
            report.network_dropped += dropped;
            report.commands = Some(commands);
        }
        for message in self.messages.drain(..) {
            match message {
                Message::NotStarted(why) => return Err(Unfinished::Refused(Error::NotStarted(why))),
                Message::BootFailure(why) => return Err(Unfinished::Refused(Error::BootFailure(why))),
                Message::Ended(end, exhausted) => (report.end, report.exhausted) = (end, exhausted),
                Message::Used(usage, exhausted) => {
                    report.usage = usage;
                    let unknown = |limit: &Exhausted| !report.exhausted.contains(limit);
                    let more: Vec<_> = exhausted.into_iter().filter(unknown).collect();
                    report.exhausted.extend(more);
                }
                Message::Ready(_) | Message::Listening(_) | Message::Layers | Message::Listener => {}
            }
        }
        Ok(report)
    }
}

/// Why there is no report of a program.
enum Unfinished {
    /// It was never started.
    Refused(Error),
    /// What its set-up process says could not be read.
    Io(io::Error),
}

impl From<io::Error> for Unfinished {
    fn from(error: io::Error) -> Unfinished {
        Unfinished::Io(error)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _ = self.hang_up();
        let patience = Timespec::try_from(KILL_PATIENCE).ok();
        let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
        if !matches!(retry_on_intr(|| rustix::event::poll(&mut watched, patience.as_ref())), Ok(count) if count > 0) {
            let _ = self.signal(Signal::KILL);
        }
    }
}
