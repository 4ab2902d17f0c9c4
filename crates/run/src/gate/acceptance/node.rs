//! `node --test`: a number a line, at the end of its TAP (`# pass 2`) or of what it prints for people (`ℹ pass 2`).

use super::counts::{Found, failed, passed, skipped};

/// One of those lines. A test that is still to be written is none that passed.
pub(super) fn line(line: &str) -> Found {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("\u{2139} "))?;
    let (word, number) = rest.split_once(' ')?;
    let number = number.parse().ok()?;
    match word {
        "pass" => passed(number),
        "fail" | "cancelled" => failed(number),
        "skipped" | "todo" => skipped(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::check;

    #[test]
    fn tap_counts() {
        let output = "TAP version 13\n# Subtest: ok\nok 1 - ok\n  ---\n  duration_ms: 9.681984\n  ...\n\
                      not ok 2 - bad\nok 3 - skip # SKIP\nok 4 - todo # TODO\n1..5\n# tests 5\n# suites 1\n# pass 2\n\
                      # fail 1\n# cancelled 0\n# skipped 1\n# todo 1\n# duration_ms 429.108015\n";
        check(output, Some((2, 1, 2)));
    }

    #[test]
    fn what_is_for_people_counts_the_same() {
        let output = "✔ ok (0.9ms)\n✖ bad (1.1ms)\n﹣ skip (0.132196ms) # SKIP\n✔ todo (0.1275ms) # TODO\nℹ tests 5\n\
                      ℹ suites 1\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 1\nℹ duration_ms 378.684113\n";
        check(output, Some((2, 1, 2)));
    }

    #[test]
    fn a_heading_is_no_number() {
        check("# pass it on\n# fail\n## pass 2\n# tests 5\n", None);
    }
}
