//! `pytest`: the last line, between equals signs or, with `-q`, bare.

use super::counts::{Found, number_and_word, passed, sum};

/// `==== 1 failed, 2 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 error in 0.08s =====`. What was expected to fail neither
/// passed nor failed, whatever it did.
pub(super) fn line(line: &str) -> Found {
    let (numbers, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let seconds = time.split_once(' ').map_or(time, |(seconds, _)| seconds).strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if numbers == "no tests ran" {
        return passed(0);
    }
    let parts = numbers.split(", ").map(number_and_word);
    sum(None, parts, &["failed", "error", "errors"], &["skipped", "xfailed", "xpassed"])
}

#[cfg(test)]
mod tests {
    use super::super::counts::check;

    #[test]
    fn its_last_line_counts() {
        let output = "=========================== short test summary info ============================\n\
                      FAILED test_a.py::test_bad - assert 1 == 2\nERROR test_a.py::test_err - RuntimeError: x\n\
                      ==== 1 failed, 2 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 error in 0.08s =====\n";
        check(output, Some((2, 2, 3)));
        check(".                                                    [100%]\n1 passed in 0.01s\n", Some((1, 0, 0)));
        check("======================= 2 passed, 5 deselected in 0.02s ========================\n", Some((2, 0, 0)));
        check("= 3 passed, 1 warning in 75.01s (0:01:15) =\n", Some((3, 0, 0)));
    }

    #[test]
    fn colours_do_not_matter() {
        let output = "\u{1b}[31m==== \u{1b}[31m\u{1b}[1m1 failed\u{1b}[0m, \u{1b}[32m2 passed\u{1b}[0m, \
                      \u{1b}[33m1 skipped\u{1b}[0m\u{1b}[31m in 0.15s\u{1b}[0m\u{1b}[31m =====\u{1b}[0m\n";
        check(output, Some((2, 1, 1)));
    }

    #[test]
    fn no_tests_are_none_passed() {
        check("============================ no tests ran in 0.01s =============================\n", Some((0, 0, 0)));
    }

    #[test]
    fn a_sentence_is_no_summary() {
        check("1 passed in time\nbuilt in 3s\n2 warnings in 1s\n1 passed, they say, in 1s\n", None);
    }
}
