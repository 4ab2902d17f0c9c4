//! The processes of a sandbox, told from the machine's.
//!
//! With a PID namespace they are all that there are, and the kernel kills them with the first one.
//! Without one they are what descends from their supervisors, who adopt whatever loses its parent.

use std::collections::HashMap;
use std::fs;

use libc::pid_t;

use super::sys;

/// Which processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Everything in this PID namespace but its first process, which is the one that asks.
    Namespace,
    /// Everything that descends from the process that asks.
    Descendants,
}

impl Tree {
    /// All of them at this moment.
    pub(super) fn pids(self) -> Vec<pid_t> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<pid_t>().ok());
        match self {
            Self::Namespace => pids.filter(|pid| *pid > 1).collect(),
            Self::Descendants => {
                let parent = |pid| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
                descendants(rustix::process::getpid().as_raw_pid(), &pids.filter_map(parent).collect::<Vec<_>>())
            }
        }
    }

    /// Sends a signal to each.
    pub(super) fn signal(self, signal: i32) {
        match self {
            // To every process here but this one, at one stroke.
            Self::Namespace => sys::signal(-1, signal),
            Self::Descendants => self.pids().into_iter().for_each(|pid| sys::signal(pid, signal)),
        }
    }

    /// Kills what descends from the calling process until nothing is left. They are stopped first, until
    /// a look shows no new one: stopped ones make no others, and still count against their limit.
    pub(super) fn kill_descendants() {
        let mut stopped = Vec::new();
        loop {
            let found = Self::Descendants.pids();
            let is_new = found.iter().any(|pid| !stopped.contains(pid));
            if !is_new {
                break;
            }
            found.iter().for_each(|pid| sys::signal(*pid, libc::SIGSTOP));
            stopped = found;
        }
        loop {
            Self::Descendants.signal(libc::SIGKILL);
            // Whatever loses its parent becomes a child of this process, and is waited for.
            if sys::reap(-1, true).is_none() {
                return;
            }
            while sys::reap(-1, false).is_some() {}
        }
    }
}

/// The fourth field; the name before it may hold anything.
fn parent(stat: &str) -> Option<pid_t> {
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse().ok()
}

fn descendants(of: pid_t, parents: &[(pid_t, pid_t)]) -> Vec<pid_t> {
    let mut children: HashMap<pid_t, Vec<pid_t>> = HashMap::new();
    for (pid, parent) in parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let (mut found, mut next) = (Vec::new(), vec![of]);
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        next.extend(&below);
        found.extend(below);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_descends_is_found_and_nothing_else() {
        let parents = [(1, 0), (5, 1), (7, 5), (8, 7), (9, 5), (6, 1), (10, 6)];
        let mut found = descendants(5, &parents);
        found.sort_unstable();
        assert_eq!(found, [7, 8, 9]);
        assert_eq!(descendants(10, &parents), [0; 0]);
        assert_eq!(parent("7 (a) b) S 4 7 7 0"), Some(4));
    }
}
