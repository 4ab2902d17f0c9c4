//! The tests gate: what do the commands of an item prove? norma runs them itself, so that this gate reads exit codes and
//! never what somebody says about them. The counts in a runner's output are told to people and decide nothing: a test
//! can print anything.

mod cargo;
mod counts;
mod go;
mod jest;
mod junit;
mod nextest;
mod node;
mod pytest;

pub use counts::{counted, total};
pub use junit::{counted as counted_in_junit, file_named as junit_file_named};

use contract::ProcessEnd;
pub use contract::work::TestStatus;

/// The exit code of a command whose time was up, as `timeout` has it.
const EXIT_TIMEOUT: i32 = 124;

/// The exit code of a command that could not be started, as shells have it.
const EXIT_NOT_STARTED: i32 = 127;

/// What shells add to the number of a signal.
const EXIT_SIGNAL: i32 = 128;

const SIGKILL: i32 = 9;

/// The end of a command as the one number that reports have for it.
pub fn exit_code(end: &ProcessEnd) -> i32 {
    match end {
        ProcessEnd::Exited(code) => *code,
        ProcessEnd::Signaled(signal) => EXIT_SIGNAL + signal,
        ProcessEnd::WallDeadline | ProcessEnd::IdleDeadline => EXIT_TIMEOUT,
        ProcessEnd::Canceled | ProcessEnd::LimitReached(_) => EXIT_SIGNAL + SIGKILL,
        ProcessEnd::NotStarted(_) | ProcessEnd::NotConfined(_) | ProcessEnd::NotSetUp(_) => EXIT_NOT_STARTED,
    }
}

/// Whether nothing more needs to be tried after a command that ended like this.
pub fn stops(must_pass: bool, end: &ProcessEnd) -> bool {
    *end == ProcessEnd::Canceled || stops_at(must_pass, TestStatus::of(Some(end)))
}

/// The same by what a command came to, once it is over.
pub fn stops_at(must_pass: bool, status: TestStatus) -> bool {
    must_pass && status != TestStatus::Pass
}

/// What all commands prove, each with whether it must pass: the first that must and did not decides. Where none must,
/// nothing is proven.
pub fn verdict(commands: impl IntoIterator<Item = (bool, TestStatus)>) -> TestStatus {
    let mut verdict = TestStatus::Skipped;
    for (_, status) in commands.into_iter().filter(|(must_pass, _)| *must_pass) {
        match status {
            TestStatus::Pass => verdict = TestStatus::Pass,
            // One that was not tried proves nothing, whatever others proved.
            TestStatus::Skipped => return TestStatus::Error,
            TestStatus::Fail | TestStatus::Error => return status,
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::ProcessLimit;

    #[test]
    fn only_leaving_with_zero_passes() {
        let why = || "x".to_owned();
        for (end, status, code) in [
            (ProcessEnd::Exited(0), TestStatus::Pass, 0),
            (ProcessEnd::Exited(1), TestStatus::Fail, 1),
            (ProcessEnd::Exited(124), TestStatus::Fail, 124),
            (ProcessEnd::Signaled(11), TestStatus::Fail, 139),
            (ProcessEnd::WallDeadline, TestStatus::Error, 124),
            (ProcessEnd::IdleDeadline, TestStatus::Error, 124),
            (ProcessEnd::Canceled, TestStatus::Error, 137),
            (ProcessEnd::LimitReached(ProcessLimit::Memory), TestStatus::Error, 137),
            (ProcessEnd::NotStarted(why()), TestStatus::Error, 127),
            (ProcessEnd::NotConfined(why()), TestStatus::Error, 127),
            (ProcessEnd::NotSetUp(why()), TestStatus::Error, 127),
        ] {
            assert_eq!((TestStatus::of(Some(&end)), exit_code(&end)), (status, code), "{end:?}");
        }
        assert_eq!(TestStatus::of(None), TestStatus::Skipped);
    }

    #[test]
    fn the_first_command_that_must_pass_and_does_not_decides() {
        use TestStatus::{Error, Fail, Pass, Skipped};
        let check = |commands: &[(bool, TestStatus)], expected: TestStatus| {
            assert_eq!(verdict(commands.iter().copied()), expected, "{commands:?}");
        };
        check(&[], Skipped);
        check(&[(true, Pass), (true, Pass)], Pass);
        check(&[(true, Pass), (false, Fail), (false, Error)], Pass);
        check(&[(true, Pass), (true, Fail), (true, Skipped)], Fail);
        check(&[(true, Error), (true, Skipped)], Error);
        check(&[(false, Pass)], Skipped);
        check(&[(true, Pass), (true, Skipped)], Error);
        check(&[(true, Skipped)], Error);
    }

    #[test]
    fn a_command_that_may_fail_stops_nothing_unless_it_was_canceled() {
        assert!(!stops(false, &ProcessEnd::Exited(1)) && !stops(false, &ProcessEnd::WallDeadline));
        assert!(stops(true, &ProcessEnd::Exited(1)) && stops(true, &ProcessEnd::WallDeadline));
        assert!(!stops(true, &ProcessEnd::Exited(0)));
        assert!(stops(false, &ProcessEnd::Canceled));
    }
}
