//! `cargo test`: one line for each test program.

use super::counts::{Found, number_and_word};
use contract::work::TestCounts;

/// `test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.24s`.
pub(super) fn line(line: &str) -> Found {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut parts = numbers.split(';');
    let mut next = |word: &str| parts.next().and_then(number_and_word).filter(|(_, found)| *found == word);
    let (passed, _) = next("passed")?;
    let (failed, _) = next("failed")?;
    let (skipped, _) = next("ignored")?;
    Some(TestCounts { passed, failed, skipped })
}

#[cfg(test)]
mod tests {
    use super::super::counts::check;

    #[test]
    fn every_test_program_counts() {
        let output = "running 3 tests\ntest later ... ignored\ntest ok ... ok\ntest bad ... FAILED\n\n\
                      failures:\n    bad\n\n\
                      test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.19s\n\n\
                      error: test failed, to rerun pass `--lib`\n   Doc-tests sample\n\nrunning 1 test\n\
                      test src/lib.rs - f (line 1) ... ok\n\n\
                      test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.12s\n";
        check(output, Some((2, 1, 1)));
    }

    #[test]
    fn tests_that_were_filtered_out_are_no_tests() {
        let output = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n";
        check(output, Some((1, 0, 0)));
    }

    #[test]
    fn a_line_that_was_cut_off_counts_nothing() {
        check("test result: ok. 1 passed; 0 failed\n", None);
        check("test result: ok\n", None);
    }
}
