//! What the test programs came to, from what libtest printed and from the list of tests that were not run. A test that
//! said it was not run counts as skipped, though libtest counts it as passed.

use super::schedule::Ended;
use std::collections::{BTreeMap, BTreeSet};

/// The tests of all programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: usize,
    /// A line for each test that failed, and for each program that did not even say so.
    pub(super) failed: Vec<String>,
    /// Tests that passed only when they were run again with nothing beside them.
    second: Vec<String>,
    /// Tests that were not run and why, by program and test.
    not_run: BTreeMap<String, String>,
}

impl Tally {
    /// Counts what programs printed; `not_run` is the file that tests write to.
    pub(super) fn of(ended: &[Ended], not_run: &str) -> Tally {
        let mut tally = Tally::default();
        for program in ended {
            let name = &program.program.name;
            let file_name = program.program.path.file_name().unwrap_or_default().to_string_lossy();
            let unable = unable(not_run, &file_name);
            tally.add(name, &program.stdout, &unable);
            let silent = failed_tests(&program.stdout).is_empty();
            if let Some(failure) = program.failure.as_ref().filter(|_| silent) {
                tally.failed.push(format!("FAILED {name}: {failure}"));
            }
        }
        tally
    }

    fn add(&mut self, program: &str, printed: &str, unable: &BTreeMap<String, String>) {
        let mut named = BTreeSet::new();
        for (test, ended) in printed.lines().filter_map(test_line) {
            let reason = unable.get(test);
            named.insert(test);
            match (ended, reason) {
                ("FAILED", _) => self.failed.push(format!("FAILED {program} {test}")),
                ("ok", None) => self.passed += 1,
                ("ok", Some(reason)) => self.skip(program, test, reason),
                (ignored, _) => self.skip(program, test, ignored.trim_start_matches("ignored, ")),
            }
        }
        // With one thread for all tests a place stands for the name, and a test that passed there was counted.
        for (place, reason) in unable.iter().filter(|(test, _)| !named.contains(test.as_str())) {
            self.passed = self.passed.saturating_sub(1);
            self.skip(program, place, reason);
        }
    }

    fn skip(&mut self, program: &str, test: &str, reason: &str) {
        self.not_run.insert(format!("{program} {test}"), reason.to_owned());
    }

    /// Takes back the failures of tests that passed when they were run again.
    pub(super) fn settle(&mut self, again: &[Ended]) {
        for program in again {
            let name = &program.program.name;
            for (test, _) in program.stdout.lines().filter_map(test_line).filter(|(_, ended)| *ended == "ok") {
                let failure = format!("FAILED {name} {test}");
                if let Some(index) = self.failed.iter().position(|failed| *failed == failure) {
                    self.failed.remove(index);
                    self.passed += 1;
                    self.second.push(format!("passed only when run again alone: {name} {test}"));
                }
            }
        }
    }

    /// A line for each test that did not simply pass: those that were not run, with the reason, and those that needed
    /// a second time.
    pub(super) fn remarks(&self) -> Vec<String> {
        let not_run = self.not_run.iter().map(|(test, reason)| format!("not run: {test}: {reason}"));
        not_run.chain(self.second.iter().cloned()).collect()
    }

    /// The counts, as other programs read them.
    pub(crate) fn closing_line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.not_run.len())
    }
}

/// A test and how it ended, from a line such as `test store::tests::it_works ... ok`.
fn test_line(line: &str) -> Option<(&str, &str)> {
    let (test, ended) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let test = test.split_once(" - should panic").map_or(test, |(test, _)| test);
    (ended == "ok" || ended == "FAILED" || ended.starts_with("ignored")).then_some((test, ended))
}

/// The tests that failed, by name.
pub(super) fn failed_tests(printed: &str) -> Vec<String> {
    let failed = printed.lines().filter_map(test_line).filter(|(_, ended)| *ended == "FAILED");
    failed.map(|(test, _)| test.to_owned()).collect()
}

/// The tests of one program that said they were not run, with all their reasons.
fn unable(not_run: &str, file_name: &str) -> BTreeMap<String, String> {
    let mut unable: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for line in not_run.lines() {
        let mut fields = line.splitn(3, '\t');
        if let (Some(program), Some(test), Some(reason)) = (fields.next(), fields.next(), fields.next())
            && program == file_name
        {
            unable.entry(test.to_owned()).or_default().insert(reason);
        }
    }
    unable.into_iter().map(|(test, reasons)| (test, reasons.into_iter().collect::<Vec<_>>().join("; "))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::build::Program;
    use super::*;
    use std::time::Duration;

    fn ended(printed: &str, failure: Option<&str>) -> Ended {
        let program =
            Program { name: "store::store".into(), path: "/t/deps/store-1a".into(), package_dir: "/r".into() };
        Ended { program, stdout: printed.to_owned(), took: Duration::ZERO, failure: failure.map(str::to_owned) }
    }

    #[track_caller]
    fn check(printed: &str, failure: Option<&str>, not_run: &str, closing: &str, lines: &[&str]) {
        let tally = Tally::of(&[ended(printed, failure)], not_run);
        assert_eq!(tally.closing_line(), closing);
        assert_eq!([tally.remarks(), tally.failed].concat(), lines);
    }

    #[test]
    fn what_passes_only_alone_is_named_and_what_fails_again_has_failed() {
        let first = "test a ... ok\ntest b ... FAILED\ntest c ... FAILED\n";
        let mut tally = Tally::of(&[ended(first, Some("ended with exit status: 101"))], "");
        tally.settle(&[ended("test b ... ok\ntest c ... FAILED\n", Some("ended with exit status: 101"))]);
        assert_eq!(tally.closing_line(), "2 passed, 1 failed, 0 skipped");
        assert_eq!(tally.remarks(), ["passed only when run again alone: store::store b"]);
        assert_eq!(tally.failed, ["FAILED store::store c"]);
    }

    #[test]
    fn what_was_not_run_did_not_pass() {
        let printed = "running 4 tests\ntest a::b ... ok\ntest a::c ... ok\ntest d ... ignored, for people\n\
                       test e - should panic ... ok\n\ntest result: ok. 3 passed; 0 failed; 1 ignored\n";
        let not_run = "store-1a\ta::c\tno strace\nother-2b\ta::b\tno root\nstore-1a\ta::c\tno root\n";
        let lines = ["not run: store::store a::c: no root; no strace", "not run: store::store d: for people"];
        check(printed, None, not_run, "2 passed, 0 failed, 2 skipped", &lines);
        let by_place = ["not run: store::store tests/x.rs:7: no strace"];
        check(
            "test a ... ok\n",
            None,
            "store-1a\ttests/x.rs:7\tno strace\n",
            "0 passed, 0 failed, 1 skipped",
            &by_place,
        );
    }

    #[test]
    fn a_program_that_dies_without_a_word_has_failed() {
        let status = Some("ended with signal: 9");
        check(
            "test a ... ok\n",
            status,
            "",
            "1 passed, 1 failed, 0 skipped",
            &["FAILED store::store: ended with signal: 9"],
        );
        check("test a ... FAILED\n", status, "", "0 passed, 1 failed, 0 skipped", &["FAILED store::store a"]);
    }
}
