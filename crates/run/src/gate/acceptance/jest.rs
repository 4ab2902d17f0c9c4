//! `jest`: one line for all test files.

use super::counts::{Found, number_and_word, passed, sum};

/// `Tests:       1 failed, 1 skipped, 1 todo, 2 passed, 5 total`.
pub(super) fn line(line: &str) -> Found {
    let numbers = line.strip_prefix("Tests:")?;
    let mut parts = numbers.split(',').map(number_and_word);
    let (_, last) = parts.next_back()??;
    if last != "total" {
        return None;
    }
    sum(passed(0), parts, &["failed"], &["skipped", "todo", "pending"])
}

#[cfg(test)]
mod tests {
    use super::super::counts::check;

    #[test]
    fn its_tests_count_and_its_suites_do_not() {
        let output = "PASS ./b.test.js\n\nTest Suites: 1 failed, 1 passed, 2 total\n\
                      Tests:       1 failed, 1 skipped, 1 todo, 2 passed, 5 total\nSnapshots:   0 total\n\
                      Time:        1.347 s\nRan all test suites.\n";
        check(output, Some((2, 1, 2)));
        check("Tests:       1 passed, 1 total\n", Some((1, 0, 0)));
        check("Tests:       0 total\n", Some((0, 0, 0)));
    }

    #[test]
    fn another_use_of_the_word_counts_nothing() {
        check("Tests: see docs, 3 total\nTests: 1 passed\nTests:\n", None);
    }
}
