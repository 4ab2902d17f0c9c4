//! `cargo nextest run`: one line for all. What it quotes of failed tests is indented, their own summaries too.

use super::counts::{Found, added, failed, number_and_word, passed, skipped};

/// `Summary [   0.311s] 2 tests run: 1 passed (1 flaky), 1 failed, 1 timed out, 1 skipped`.
pub(super) fn line(line: &str) -> Found {
    let summary = line.trim_start().strip_prefix("Summary [")?;
    let (_, numbers) = summary.split_once(" run: ")?;
    without_remarks(numbers).split(',').filter_map(number_and_word).fold(None, |total, (number, word)| {
        let found = match word.trim_end() {
            "passed" => passed(number),
            "failed" | "exec failed" | "timed out" => failed(number),
            "skipped" => skipped(number),
            _ => None,
        };
        added(total, found)
    })
}

/// What is in parentheses says more about what is counted already.
fn without_remarks(text: &str) -> String {
    let mut depth = 0_usize;
    let keep = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    text.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::super::counts::check;

    #[test]
    fn its_summary_counts_and_what_it_quotes_does_not() {
        let output = "  stdout ───\n\n    failures:\n        bad\n\n    \
                      test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.27s\n\n\
                      ────────────\n     Summary [   0.311s] 2 tests run: 1 passed, 1 failed, 1 skipped\n        \
                      FAIL [   0.310s] (2/2) sample bad\nerror: test run failed\n";
        check(output, Some((1, 1, 1)));
        check("     Summary [   0.010s] 1 test run: 1 passed, 1 skipped\n", Some((1, 0, 1)));
    }

    #[test]
    fn tests_that_never_ended_or_started_failed() {
        let output = "     Summary [   9.010s] 9/12 tests run: 5 passed (1 slow, 2 flaky), 1 failed, 1 exec failed, \
                      2 timed out, 0 skipped\n";
        check(output, Some((5, 4, 0)));
    }
}
