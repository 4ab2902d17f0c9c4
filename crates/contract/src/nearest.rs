//! The name that somebody probably meant: for files, keys, agents and verbs that are not known, one that differs by little.

/// Which of the names is nearest to a word, if one is near enough to have been meant. Names are compared part by part
/// (`test_b.py` beside `test_a.py` is another file, `tset_a.py` is a slip), and one that has other digits is another.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let folded = word.to_lowercase();
    let ranked = names.into_iter().filter(|name| *name != word).filter_map(|name| {
        let steps = slips(&folded, &name.to_lowercase())?;
        Some((steps, name))
    });
    ranked.min_by_key(|(steps, name)| (*steps, name.len())).map(|(_, name)| name)
}

/// How many slips lie between two names, if they are few for their length.
fn slips(one: &str, other: &str) -> Option<usize> {
    let without_digits = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    if one != other && without_digits(one) == without_digits(other) {
        return None;
    }
    let parts = |text: &str| text.split(['_', '-', '.', ' ']).map(str::to_owned).collect::<Vec<_>>();
    let (these, those) = (parts(one), parts(other));
    if these.len() != those.len() {
        // A separator that was left out, or put in.
        return distance(one, other, 1).filter(|_| these.concat() == those.concat());
    }
    these.iter().zip(&those).map(|(this, that)| distance(this, that, slips_max(this))).sum()
}

/// How many slips a word of this length may have.
fn slips_max(word: &str) -> usize {
    match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    }
}

/// How many letters differ; none if more than `most`.
fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    Some(edit_distance(one, other)).filter(|steps| *steps <= most)
}

/// How many letters have to be added, left out, changed or swapped with their neighbour.
fn edit_distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.chars().collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut least = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], word: &str, expected: Option<&str>) {
        assert_eq!(nearest(word, names.iter().copied()), expected, "{word}");
    }

    #[test]
    fn the_nearest_name_is_one_that_may_have_been_meant() {
        let names = ["src", "tests", "parser.py", "README.md", "status"];
        check(&names, "scr", Some("src"));
        check(&names, "test", Some("tests"));
        check(&names, "praser.py", Some("parser.py"));
        check(&names, "readme.md", Some("README.md"));
        check(&names, "completely-else", None);
        check(&names, "x", None);
        check(&names, "", None);
        check(&names, "src", None);
    }

    #[test]
    fn names_are_compared_part_by_part() {
        let names = ["test_a.py", "file10.txt", "my-module", "max_tokens", "max_minutes"];
        check(&names, "test_b.py", None);
        check(&names, "tset_a.py", Some("test_a.py"));
        check(&names, "file11.txt", None);
        check(&names, "fiel10.txt", Some("file10.txt"));
        check(&names, "mymodule", Some("my-module"));
        check(&names, "max_token", Some("max_tokens"));
        check(&names, "max_miuntes", Some("max_minutes"));
    }
}
