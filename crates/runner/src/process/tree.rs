//! Finding processes through `/proc`, and killing them.
//!
//! There are two ways to look. A whole scan reads every process's `stat` file and knows parents,
//! sessions and who is only a zombie; it takes milliseconds. The kernel's `children` lists go
//! straight down one tree; they take microseconds, which matters against a program that forks and
//! exits faster than a scan can follow. Neither is a snapshot, so every killer here is one round
//! of a loop that somebody repeats until nothing is left.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, RawPid, Signal, getpid, kill_process};

/// Rounds of scanning and killing before giving up. With [`ROUND_PAUSE`] about four seconds:
/// far more than SIGKILL takes on a loaded machine, and an end for what cannot be killed at all,
/// such as a process stuck in a dead network file system.
const ROUNDS_MAX: u32 = 400;

/// Time between rounds, for killed processes to be gone before they are looked for again.
const ROUND_PAUSE: Duration = Duration::from_millis(10);

/// What one line of `/proc/<pid>/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    parent: RawPid,
    session: RawPid,
    /// Whether it is more than an entry waiting to be reaped.
    alive: bool,
}

/// Every living process. Those that end during the scan may be missing.
pub(super) fn living() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && let Ok(stat) = fs::read(entry.path().join("stat"))
            && let Some(process) = parse_stat(&stat)
            && process.alive
        {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// `PID (NAME) STATE PARENT GROUP SESSION …`, where NAME may hold anything, parentheses too.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = str::from_utf8(&stat[..stat.iter().position(|byte| *byte == b' ')?]).ok()?;
    let mut fields = str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    Some(Process { pid, parent, session, alive: !matches!(state, "Z" | "X") })
}

/// The processes below `roots`, without the roots and without descending through `barrier`.
pub(super) fn below(processes: &[Process], roots: &[Pid], barrier: Option<Pid>) -> Vec<Pid> {
    let mut children: BTreeMap<RawPid, Vec<Pid>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = Vec::new();
    let mut open = roots.to_vec();
    while let Some(pid) = open.pop() {
        if Some(pid) == barrier {
            continue;
        }
        // Taken out, so that a scan that caught a process twice cannot make a circle.
        for child in children.remove(&pid.as_raw_pid()).unwrap_or_default() {
            found.push(child);
            open.push(child);
        }
    }
    found
}

/// Kills whatever `select` picks from a scan, again and again until it picks nothing; the number
/// of processes killed.
pub(super) fn kill_until_none(select: impl Fn(&[Process]) -> Vec<Pid>) -> io::Result<usize> {
    let mut killed = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        let selected = select(&living()?);
        if selected.is_empty() {
            return Ok(killed.len());
        }
        for pid in selected {
            kill(pid);
            killed.insert(pid);
        }
        thread::sleep(ROUND_PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "could not kill every process: some outlive SIGKILL"))
}

/// Kills everything below `root`, which stays.
pub(super) fn kill_below(root: Pid) -> io::Result<()> {
    kill_until_none(|processes| below(processes, &[root], None)).map(drop)
}

/// Kills what is left of a session. A process that opened a session of its own is not found.
pub(super) fn kill_session(session: Pid) -> io::Result<()> {
    let session = session.as_raw_pid();
    let members =
        |processes: &[Process]| processes.iter().filter(|it| it.session == session).map(|it| it.pid).collect();
    kill_until_none(members).map(drop)
}

/// One round against everything below the calling process, by the kernel's own lists.
pub(super) fn kill_own_descendants_once() -> io::Result<()> {
    let own = getpid();
    if !Path::new("/proc/thread-self/children").exists() {
        // A kernel built without the lists: a scan is slower but finds the same tree.
        below(&living()?, &[own], None).into_iter().for_each(kill);
        return Ok(());
    }
    let mut open = children(own);
    while let Some(pid) = open.pop() {
        // Its children first: once it is dead they are somebody else's.
        open.extend(children(pid));
        kill(pid);
    }
    Ok(())
}

/// The children of all threads of a process; none when it is gone.
fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_ascii_whitespace().filter_map(parse_pid).collect::<Vec<_>>())
        .collect()
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

/// The process may be gone already, which is what is wanted, or belong to another user, which
/// shows in the next round.
fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: RawPid) -> Pid {
        Pid::from_raw(raw).expect("a test names positive ids")
    }

    #[test]
    fn a_process_name_cannot_forge_the_fields_after_it() {
        let stat = b"42 (a) Z 1 1 1 (b)) S 7 42 40 0 -1";
        let expected = Process { pid: pid(42), parent: 7, session: 40, alive: true };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat(b"42 (gone"), None);
    }

    #[test]
    fn only_what_is_below_the_roots_is_found() {
        let process = |id, parent| Process { pid: pid(id), parent, session: 1, alive: true };
        let processes = [process(2, 1), process(3, 2), process(9, 3), process(4, 1), process(5, 4)];
        let check = |roots: &[Pid], barrier, expected: &[Pid]| {
            let mut found = below(&processes, roots, barrier);
            found.sort_unstable_by_key(|pid| pid.as_raw_pid());
            assert_eq!(found, expected);
        };
        check(&[pid(2)], None, &[pid(3), pid(9)]);
        check(&[pid(2), pid(4)], None, &[pid(3), pid(5), pid(9)]);
        check(&[pid(2)], Some(pid(3)), &[pid(3)]);
        check(&[pid(9)], None, &[]);
    }

    #[test]
    fn the_calling_process_is_among_the_living() {
        let found = living().expect("scan /proc");
        assert!(found.iter().any(|process| process.pid == getpid()));
    }
}
