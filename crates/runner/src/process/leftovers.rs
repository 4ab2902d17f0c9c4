//! Killing what an earlier norma left behind.
//!
//! A supervisor kills its tree when norma dies, but a supervisor can be killed too. Every program
//! that norma starts therefore carries a marker in its environment, which its children inherit
//! without knowing, and a recovering norma looks for that marker. The environment, not a recorded
//! process id, because ids are reused: a marker cannot point at an innocent process.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, getpid, getuid};

use super::tree::{self, Process};

/// Kills every process of this user whose environment has the exact entry `NAME=VALUE`, and what
/// is below it, until none is left; the number of processes killed. Never kills the caller, nor
/// what is known only as a child of the caller.
///
/// What a process is started with counts: one that was given an empty environment is found only
/// while a marked process is above it.
pub fn kill(marker_name: &str, marker_value: &str) -> io::Result<usize> {
    let entry = format!("{marker_name}={marker_value}");
    let own = getpid();
    let select = |processes: &[Process]| {
        let marked: Vec<Pid> = processes
            .iter()
            .map(|process| process.pid)
            .filter(|pid| *pid != own && is_marked(*pid, entry.as_bytes()))
            .collect();
        let mut selected: HashSet<Pid> = marked.iter().copied().collect();
        selected.extend(tree::below(processes, &marked, Some(own)));
        selected.remove(&own);
        selected.into_iter().collect()
    };
    tree::kill_until_none(select)
}

/// A process that is gone, or whose environment may not be read, is not marked.
fn is_marked(pid: Pid, entry: &[u8]) -> bool {
    let folder = format!("/proc/{pid}");
    fs::metadata(&folder).is_ok_and(|data| data.uid() == getuid().as_raw())
        && fs::read(format!("{folder}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|it| it == entry))
}
