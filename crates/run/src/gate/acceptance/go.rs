//! `go test`, with `-v` or `-json`: a line for each test and subtest. Without one of them it prints those that failed
//! and not how many passed, which counts nothing.

use super::counts::{Found, added, failed, passed, skipped};
use serde::Deserialize;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Whether tests are announced, so that all of them are told.
    verbose: bool,
    found: Found,
}

/// A line of `-json`, as far as it matters.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line<'a> {
    #[serde(borrow)]
    action: &'a str,
    /// Lines without one are about a package.
    test: Option<serde::de::IgnoredAny>,
    #[serde(rename = "Package")]
    _package: serde::de::IgnoredAny,
}

impl Reader {
    /// Looks at one line.
    pub(super) fn line(&mut self, line: &str) {
        self.verbose |= line.starts_with("=== RUN ");
        let found = match line.starts_with('{') {
            true => in_json(line),
            false => in_text(line),
        };
        self.verbose |= found.is_some() && line.starts_with('{');
        self.found = added(self.found, found);
    }

    /// What all lines say.
    pub(super) fn counted(self) -> Found {
        self.found.filter(|_| self.verbose)
    }
}

fn in_text(line: &str) -> Found {
    let (result, _) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    match result {
        "PASS" => passed(1),
        "FAIL" => failed(1),
        "SKIP" => skipped(1),
        _ => None,
    }
}

fn in_json(line: &str) -> Found {
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    line.test?;
    match line.action {
        "pass" => passed(1),
        "fail" => failed(1),
        "skip" => skipped(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::check;

    #[test]
    fn every_test_and_subtest_counts_when_it_is_verbose() {
        let output = "=== RUN   TestOk\n--- PASS: TestOk (0.00s)\n=== RUN   TestBad\n    a_test.go:4: no\n\
                      --- FAIL: TestBad (0.00s)\n=== RUN   TestSkip\n    a_test.go:5: later\n\
                      --- SKIP: TestSkip (0.00s)\n=== RUN   TestSub\n=== RUN   TestSub/one\n=== RUN   TestSub/two\n\
                      --- FAIL: TestSub (0.00s)\n    --- PASS: TestSub/one (0.00s)\n    \
                      --- FAIL: TestSub/two (0.00s)\nFAIL\nFAIL\texample.org/a\t0.010s\nFAIL\n";
        check(output, Some((2, 3, 1)));
    }

    #[test]
    fn json_counts_the_same() {
        let output = r#"{"Time":"2026-01-16T03:17:58.32Z","Action":"run","Package":"example.org/a","Test":"TestOk"}
{"Time":"2026-01-16T03:17:58.32Z","Action":"output","Package":"example.org/a","Test":"TestOk","Output":"=== RUN   TestOk\n"}
{"Time":"2026-01-16T03:17:58.32Z","Action":"output","Package":"example.org/a","Test":"TestOk","Output":"--- PASS: TestOk (0.00s)\n"}
{"Time":"2026-01-16T03:17:58.32Z","Action":"pass","Package":"example.org/a","Test":"TestOk","Elapsed":0}
{"Time":"2026-01-16T03:17:58.32Z","Action":"fail","Package":"example.org/a","Test":"TestBad","Elapsed":0}
{"Time":"2026-01-16T03:17:58.32Z","Action":"skip","Package":"example.org/a","Test":"TestSkip","Elapsed":0}
{"Time":"2026-01-16T03:17:58.32Z","Action":"fail","Package":"example.org/a","Elapsed":0.008}
"#;
        check(output, Some((1, 1, 1)));
    }

    #[test]
    fn without_a_word_about_those_that_passed_nothing_counts() {
        check("--- FAIL: TestBad (0.00s)\n    a_test.go:4: no\nFAIL\nFAIL\texample.org/a\t0.005s\nFAIL\n", None);
        check("ok  \texample.org/a/b\t0.004s\n", None);
    }
}
