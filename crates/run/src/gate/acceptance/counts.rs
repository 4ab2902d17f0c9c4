//! How many tests there were, as far as the output of a known runner says so. Each runner has a file that knows its
//! lines; every line is looked at once, in bounded time, and means the same wherever it stands, so that the output of
//! several runners adds up.

use super::{cargo, go, jest, junit, nextest, node, pytest};
use contract::work::TestCounts;

/// Longer lines are nobody's summary.
const LINE_BYTES_MAX: usize = 4096;

/// What a runner's line adds.
pub(super) type Found = Option<TestCounts>;

/// The runners whose summary is on lines that stand for themselves.
const SUMMARIES: [fn(&str) -> Found; 5] = [cargo::line, nextest::line, pytest::line, node::line, jest::line];

/// The counts in what a command printed; none if no known runner printed any.
pub fn counted(stdout: &[u8], stderr: &[u8]) -> Option<TestCounts> {
    let mut total = junit::counted(stdout);
    for stream in [stdout, stderr] {
        let mut go = go::Reader::default();
        for line in stream.split(|byte| *byte == b'\n').filter(|line| line.len() <= LINE_BYTES_MAX) {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let line = plain(line);
            go.line(&line);
            total = added(total, SUMMARIES.iter().find_map(|summary| summary(&line)));
        }
        total = added(total, go.counted());
    }
    total
}

/// The counts of several commands together; none if none of them has any.
pub fn total(counts: impl IntoIterator<Item = Option<TestCounts>>) -> Option<TestCounts> {
    counts.into_iter().fold(None, added)
}

/// Adds counts, without ever overflowing: the numbers are somebody else's.
pub(super) fn added(one: Found, other: Found) -> Found {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some(TestCounts {
        passed: one.passed.saturating_add(other.passed),
        failed: one.failed.saturating_add(other.failed),
        skipped: one.skipped.saturating_add(other.skipped),
    })
}

/// The sum of parts such as `2 passed`: the words that count as passed are the same everywhere, the others are the
/// runner's own, and what it knows no word for counts nothing. None if a part is not a number and a word.
pub(super) fn sum<'p>(
    mut total: Found,
    parts: impl Iterator<Item = Option<(u64, &'p str)>>,
    failed_words: &[&str],
    skipped_words: &[&str],
) -> Found {
    for part in parts {
        let (number, word) = part?;
        let found = match word {
            "passed" => passed(number),
            word if failed_words.contains(&word) => failed(number),
            word if skipped_words.contains(&word) => skipped(number),
            _ => None,
        };
        total = added(total, found);
    }
    total
}

/// What one test, or so many, add.
pub(super) fn passed(passed: u64) -> Found {
    Some(TestCounts { passed, ..TestCounts::default() })
}

pub(super) fn failed(failed: u64) -> Found {
    Some(TestCounts { failed, ..TestCounts::default() })
}

pub(super) fn skipped(skipped: u64) -> Found {
    Some(TestCounts { skipped, ..TestCounts::default() })
}

/// `3 passed` as a number and a word.
pub(super) fn number_and_word(text: &str) -> Option<(u64, &str)> {
    let (number, word) = text.trim().split_once(' ')?;
    Some((number.parse().ok()?, word))
}

/// A line without colours and the end that some systems give it.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut parts = line.trim_end().split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').map_or(part.len(), |at| at + 1);
        plain.push_str(part.get(end..).unwrap_or_default());
    }
    plain
}

/// Holds an output to its counts, on either stream.
#[cfg(test)]
#[track_caller]
pub(super) fn check(output: &str, expected: Option<(u64, u64, u64)>) {
    let expected = expected.map(|(passed, failed, skipped)| TestCounts { passed, failed, skipped });
    assert_eq!(counted(output.as_bytes(), b""), expected, "on stdout");
    assert_eq!(counted(b"", output.replace('\n', "\r\n").as_bytes()), expected, "on stderr");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn several_runners_add_up() {
        check("1 passed in 0.01s\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n", Some((3, 0, 1)));
        let counts = counted(b"1 passed in 0.01s\n", b"2 failed in 1s\n");
        assert_eq!(counts, Some(TestCounts { passed: 1, failed: 2, skipped: 0 }));
    }

    #[test]
    fn what_no_runner_says_counts_nothing() {
        check("", None);
        check("all tests passed\nok\n100% passed\n3 passed tests\n", None);
        check(&format!("{}1 passed in 0.01s", "=".repeat(LINE_BYTES_MAX)), None);
    }

    #[test]
    fn numbers_that_are_too_large_never_overflow() {
        let most = u64::MAX;
        check(&format!("{most} passed in 1s\n{most} passed in 1s\n"), Some((most, 0, 0)));
        check("99999999999999999999999999 passed in 1s\n", None);
    }

    #[test]
    fn much_output_is_read_once() {
        let output = "--- PASS: \u{1b}[".repeat(200_000);
        assert_eq!(counted(output.as_bytes(), output.as_bytes()), None);
        let open = format!("<testsuite>{}", "<testcase '<!--".repeat(200_000));
        assert_eq!(counted(open.as_bytes(), b""), Some(TestCounts::default()));
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(
            stdout in prop::collection::vec(any::<u8>(), 0..400),
            words in prop::collection::vec(prop::sample::select(vec![
                "test result: ", "ok. ", "1", "9", " passed", "; ", ", ", "failed", "Summary [", "] ", "tests run: ",
                "=", " in ", "s", "Tests: ", "total", "# pass ", "\u{2139} fail ", "--- PASS: ", "=== RUN ", "{\"Action\":",
                "\"pass\"", "}", "<testcase", "<failure", "/>", ">", "<![CDATA[", "<!--", "\"", "\n", "\u{1b}[", "é",
            ]), 0..60),
        ) {
            counted(&stdout, words.concat().as_bytes());
            counted(words.concat().as_bytes(), &stdout);
        }
    }
}
