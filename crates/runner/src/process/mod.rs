//! Running one foreign program to its end: an agent's turn, a gate's command.
//!
//! A program that norma starts may fork, daemonise, ignore SIGTERM, flood its output or never end.
//! Whatever it does, [`run`] returns in bounded time, with bounded memory, and with nothing of the
//! program's process tree left alive. Two processes share that work. The caller's thread drives
//! one poll loop over the pipes and the deadlines ([`run`], in `drive.rs`). Between norma and the
//! program stands a supervisor ([`supervise`]), which is norma executed again: it opens the
//! session, adopts every orphan of the tree and kills what is left, and it does so even when norma
//! itself is killed with SIGKILL. A supervisor, not a `pre_exec` hook, because code between fork
//! and exec needs `unsafe` and dies with the exec, while the tree needs a keeper until its end.
//!
//! The two halves talk over one socket (`control.rs`). [`leftovers`] is the second line of defence
//! for what outlived even the supervisor, for example a machine-wide kill of norma's processes.

mod cancel;
mod capture;
mod clock;
pub mod confined;
mod control;
mod drive;
mod editor;
mod input;
pub mod leftovers;
mod resolve;
mod spec;
pub mod supervise;
mod supervised;
mod tree;
mod wake;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use cancel::Cancel;
pub use capture::Captured;
pub use clock::Clock;
pub use contract::ProcessEnd as End;
pub use drive::{Ready, get_ready, run};
pub use editor::edit;
pub use input::{Said, Talk};
pub use resolve::resolve;
pub use wake::Wake;

/// Names the run in the environment of every process that belongs to it, so that what outlives a killed norma
/// can be found.
pub(crate) const MARKER: &str = "NORMA_RUN_ID";

/// How long a program may take to end by itself after SIGTERM. Long enough for an agent to flush
/// its transcript and remove its lock files, short enough that a canceled run feels canceled.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// One program to run, with everything it will see.
#[derive(Clone, Debug)]
pub struct Command {
    /// Absolute path of the program; [`resolve`] makes one from a name.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<OsString>,
    /// The folder it starts in.
    pub cwd: PathBuf,
    /// The whole environment: nothing is inherited from norma.
    pub env: BTreeMap<OsString, OsString>,
    /// Bytes written to its standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// What it may use.
    pub limits: Limits,
}

/// The bounds of one process run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest time from start to end.
    pub wall: Duration,
    /// Longest time without a byte on stdout or stderr.
    pub idle: Option<Duration>,
    /// Bytes kept of each stream; what comes after is read, counted and dropped.
    pub output_bytes_max: u64,
    /// Time that it shares with other programs.
    pub clock: Option<Clock>,
}

/// The command line that becomes [`supervise::main`].
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The program to execute, usually norma itself.
    pub program: PathBuf,
    /// The arguments that select its supervisor mode, for example `__supervise`.
    pub args: Vec<OsString>,
}

/// Everything known about a finished process run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// Time from the call to the end of the whole tree.
    pub elapsed: Duration,
    /// The supervisor's process id, which is also the program's session id; 0 when no process was
    /// made at all.
    pub pid: u32,
}
