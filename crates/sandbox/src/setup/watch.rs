//! Watching what the whole tree uses, where the kernel's limits see only single processes.
//!
//! The first process inside looks at every process of its tree now and then. Between two
//! looks a tree can overshoot, and each single process is held by its own limit meanwhile.

use std::fs;
use std::time::Duration;

use super::sys;
use super::tree::Tree;
use crate::policy::Limits;
use crate::report::Exhausted;

/// Time between two looks at a tree that uses much: short against what filling gigabytes takes.
pub(super) const INTERVAL_SHORT: Duration = Duration::from_millis(50);

/// Time between two looks at a tree that uses little, such as an agent that waits for its model: a
/// look costs a fraction of a millisecond, and there may be many sandboxes.
const INTERVAL_LONG: Duration = Duration::from_millis(250);

/// Part of the memory limit above which a failed program is said to have run out of memory. One
/// that was refused a further allocation never reaches the limit itself.
const NEARLY_ALL: (u64, u64) = (7, 8);

/// The kernel compares another clock with the limit than it reports afterwards; they differ by ticks.
const CPU_SLACK_MAX: Duration = Duration::from_secs(1);

/// What the tree uses at one moment.
#[derive(Clone, Copy, Default)]
pub(super) struct Sample {
    /// Resident memory that is not shared with a file.
    pub(super) memory_bytes: u64,
    /// Processor time of all that lives and of all that was waited for.
    pub(super) cpu: Duration,
}

impl Sample {
    /// Looks at every process of the tree.
    pub(super) fn take(tree: Tree) -> Self {
        let page = rustix::param::page_size() as u64;
        let tick = rustix::param::clock_ticks_per_second();
        let mut sample = Self { memory_bytes: 0, cpu: reaped_cpu() };
        for pid in tree.pids() {
            let read = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
            sample.memory_bytes += private_pages(&read("statm")).unwrap_or(0) * page;
            let ticks = cpu_ticks(&read("stat")).unwrap_or(0);
            sample.cpu += Duration::from_millis(ticks * 1000 / tick.max(1));
        }
        sample
    }

    /// When to look again.
    pub(super) fn next_look(&self, limits: &Limits) -> Duration {
        let little = self.memory_bytes < limits.memory_bytes / 4;
        // In the longer time every processor of a large machine could be at work.
        let little = little && self.cpu + Duration::from_secs(5) < Duration::from_secs(limits.cpu_seconds);
        if little { INTERVAL_LONG } else { INTERVAL_SHORT }
    }

    /// The limit that is passed, if one is.
    pub(super) fn over(&self, limits: &Limits) -> Option<Exhausted> {
        if self.memory_bytes > limits.memory_bytes {
            return Some(Exhausted::Memory);
        }
        (self.cpu > Duration::from_secs(limits.cpu_seconds)).then_some(Exhausted::Cpu)
    }

    /// The limit that a failure is put down to, if what was used at most is near enough to one. The kernel ends a
    /// process that is out of processor time, and its parent fails before anybody looks.
    pub(super) fn nearly_over(&self, limits: &Limits) -> Option<Exhausted> {
        if self.memory_bytes / NEARLY_ALL.0 >= limits.memory_bytes / NEARLY_ALL.1 {
            return Some(Exhausted::Memory);
        }
        let limit = Duration::from_secs(limits.cpu_seconds);
        (self.cpu + CPU_SLACK_MAX.min(limit / 8) >= limit).then_some(Exhausted::Cpu)
    }
}

/// Processor time of all that was waited for, here or by those that were waited for here.
pub(super) fn reaped_cpu() -> Duration {
    let usage = sys::children_usage();
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Duration::from_micros(micros(usage.ru_utime) + micros(usage.ru_stime))
}

/// `SIZE RESIDENT SHARED …`, in pages.
fn private_pages(statm: &str) -> Option<u64> {
    let mut fields = statm.split(' ').skip(1).map(|field| field.parse::<u64>().ok());
    let (resident, shared) = (fields.next()??, fields.next()??);
    Some(resident.saturating_sub(shared))
}

/// The process's own time and that of its waited-for children: fields 14 to 17.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_by_position() {
        assert_eq!(private_pages("900 120 20 1 0 5 0\n"), Some(100));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(100));
        assert_eq!(cpu_ticks(""), None);
    }
}
