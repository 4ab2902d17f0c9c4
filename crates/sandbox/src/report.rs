//! How a confined program ended and what it cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::listen::Commands;
use crate::proxy::Attempt;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Together with its sandbox, which was told to kill it or was itself killed.
    Killed,
}

/// A limit the program ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// The memory of the whole tree.
    Memory,
    /// The private directories.
    Disk,
    /// The size of one file.
    FileSize,
    /// Processor time.
    Cpu,
}

/// What the whole tree used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in the program.
    pub user_micros: u64,
    /// Processor time in the kernel.
    pub system_micros: u64,
    /// The largest resident set of any one process.
    pub resident_bytes_max: u64,
}

impl Usage {
    /// All processor time.
    pub fn cpu(&self) -> Duration {
        Duration::from_micros(self.user_micros + self.system_micros)
    }
}

/// Everything known at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How it ended.
    pub end: End,
    /// The limits it ran into, in no order.
    pub exhausted: Vec<Exhausted>,
    /// What it used; zero when the sandbox was killed from outside.
    pub usage: Usage,
    /// What it tried to reach, allowed and refused.
    pub network: Vec<Attempt>,
    /// Attempts that were made but not kept, beyond the first ones.
    pub network_dropped: u64,
    /// What it started, where that was heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Commands>,
}

/// Why a program did not end well, where the sandbox knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// More memory than allowed.
    #[error("out of memory")]
    OutOfMemory,
    /// More disk than allowed, in one file or in all private directories.
    #[error("disk full")]
    DiskFull,
    /// More processor time than allowed.
    #[error("out of processor time")]
    OutOfTime,
    /// A destination that is not on the list.
    #[error("network refused")]
    NetworkRefused,
    /// A signal.
    #[error("killed")]
    Killed,
}

impl Report {
    /// The most telling cause of an end that was not a success; `None` for success and for a
    /// failure of the program's own.
    pub fn failure(&self) -> Option<Failure> {
        if self.end == End::Exited(0) {
            return None;
        }
        let ran_into = |limit| self.exhausted.contains(&limit);
        if ran_into(Exhausted::Memory) {
            return Some(Failure::OutOfMemory);
        }
        if ran_into(Exhausted::Disk) || ran_into(Exhausted::FileSize) {
            return Some(Failure::DiskFull);
        }
        if ran_into(Exhausted::Cpu) {
            return Some(Failure::OutOfTime);
        }
        if !matches!(self.end, End::Exited(_)) {
            return Some(Failure::Killed);
        }
        self.network.iter().any(|attempt| !attempt.verdict.is_allowed()).then_some(Failure::NetworkRefused)
    }
}
