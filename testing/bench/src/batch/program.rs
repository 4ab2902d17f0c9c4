//! Running a program to its end, for its time or for its memory: not both at once, because looking at every process
//! of a machine over and over takes time from what is looked at.

use crate::Result;
use crate::memory::{read, rolled_up_kb, tree_below};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// What every item starts; the same for all, and not what is compared.
const STARTED: &str = "echo";

/// The kernel's mark of a process that has not executed a program yet (`PF_FORKNOEXEC`).
const NOT_EXECUTED: u64 = 0x40;

/// A program that ended well.
pub(crate) struct Ended {
    pub(crate) seconds: f64,
    pub(crate) stdout: String,
}

/// Takes the time of a program that must succeed.
pub(crate) fn time(command: &mut Command) -> Result<Ended> {
    let started = Instant::now();
    let output = spawn(command)?.wait_with_output()?;
    judge(command, started, &output)
}

/// What processes hold together, in MB; a page that several of them share counts once.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Held {
    /// All of it.
    pub(crate) all_mb: f64,
    /// What is in no file: what was allocated, and pages of a program that were written to.
    pub(crate) anonymous_mb: f64,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1})", self.all_mb, self.anonymous_mb)
    }
}

/// Takes the memory of a program that must succeed: the most that it and everything it started held together, at one of the
/// moments at which that was looked at.
pub(crate) fn peak(command: &mut Command) -> Result<(Ended, Held)> {
    let started = Instant::now();
    let child = spawn(command)?;
    let (root, done) = (child.id(), AtomicBool::new(false));
    let (output, peak) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| watch(root, &done));
        let output = child.wait_with_output();
        done.store(true, Ordering::Relaxed);
        (output, looking.join().unwrap_or_else(|_| Err("the watch panicked".into())))
    });
    Ok((judge(command, started, &output?)?, peak?))
}

fn spawn(command: &mut Command) -> Result<Child> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.map_err(|error| format!("could not start {}: {error}", command.get_program().display()).into())
}

fn judge(command: &Command, started: Instant, output: &Output) -> Result<Ended> {
    let seconds = started.elapsed().as_secs_f64();
    if !output.status.success() {
        let name = command.get_program().display();
        return Err(format!("{name} ended with {}: {}", output.status, last_line(&output.stderr)).into());
    }
    Ok(Ended { seconds, stdout: String::from_utf8_lossy(&output.stdout).into_owned() })
}

/// What a program said last, which is mostly why it failed; fit for a cell of a table.
pub(crate) fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    last.trim().replace('|', "/")
}

fn watch(root: u32, done: &AtomicBool) -> Result<Held> {
    let mut most = (0, 0);
    while !done.load(Ordering::Relaxed) {
        let held: Vec<(u64, u64)> = tree_below(root)?.into_iter().map(held_kb).collect();
        let (all, anonymous): (Vec<u64>, Vec<u64>) = held.into_iter().unzip();
        most = (most.0.max(all.iter().sum()), most.1.max(anonymous.iter().sum()));
        std::thread::sleep(PAUSE);
    }
    let mb = |kb: u64| kb as f64 * 1024.0 / 1e6;
    Ok(Held { all_mb: mb(most.0), anonymous_mb: mb(most.1) })
}

/// What this process holds now, all and anonymous, as far as it counts. One that was only forked does not: until it executes
/// something, its memory is its parent's, and would count twice.
fn held_kb(pid: u32) -> (u64, u64) {
    let counts = executed(&read(pid, "stat")) && read(pid, "comm").trim_end() != STARTED;
    let rollup = if counts { read(pid, "smaps_rollup") } else { String::new() };
    (rolled_up_kb(&rollup, "Pss").unwrap_or(0), rolled_up_kb(&rollup, "Pss_Anon").unwrap_or(0))
}

/// Whether a process runs a program of its own, by its line in `stat`; its name there may hold anything.
fn executed(stat: &str) -> bool {
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & NOT_EXECUTED == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_once_it_has_executed_a_program() {
        let stat = |flags: u32| format!("7 (a) b) S 1 7 7 0 -1 {flags} 100 0");
        assert!(executed(&stat(0x400000)));
        assert!(!executed(&stat(0x400040)));
        assert!(!executed(""));
    }

    #[test]
    fn the_memory_of_all_processes_counts() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 0.3 & sleep 0.3; wait; echo said"]).stdin(Stdio::null());
        let (ended, two) = peak(&mut command).expect("it runs");
        assert_eq!(ended.stdout, "said\n");
        assert!(two.all_mb > 0.2 && two.anonymous_mb > 0.05, "{two} MB for a shell and two programs");
        assert!(two.anonymous_mb < two.all_mb, "{two}");
    }

    #[test]
    fn a_failure_tells_the_last_line() {
        let mut command = Command::new("/bin/sh");
        let error = time(command.args(["-c", "echo a; echo 'b|c' >&2; echo >&2; exit 3"])).err().expect("it failed");
        assert_eq!(error.to_string(), "/bin/sh ended with exit status: 3: b/c");
    }
}
