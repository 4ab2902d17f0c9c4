//! The word that somebody probably meant: for names and keys that are not known, one that differs by little.

/// The known word that is nearest to one that is not known, if it is near enough to be what was meant.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    // Half of a short word could be anything.
    let most = (word.chars().count() / 3).clamp(1, 3);
    let near = known.into_iter().map(|other| (folded_distance(word, other), other));
    near.filter(|(distance, _)| (1..=most).contains(distance)).min_by_key(|(distance, _)| *distance).map(|(_, it)| it)
}

/// The distance of two words whose case does not count.
fn folded_distance(one: &str, other: &str) -> usize {
    edit_distance(&one.to_lowercase(), &other.to_lowercase())
}

/// How many letters have to be added, left out, changed or swapped with their neighbour.
pub fn edit_distance(one: &str, other: &str) -> usize {
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

    #[test]
    fn a_word_is_near_if_few_letters_differ() {
        let known = ["max_tokens", "max_minutes", "agents", "w"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(nearest(word, known), expected, "{word}");
        check("max_token", Some("max_tokens"));
        check("max_miuntes", Some("max_minutes"));
        check("agnets", Some("agents"));
        check("agent", Some("agents"));
        check("landing", None);
        check("", Some("w"));
        check("x", Some("w"));
        check("agents", None);
    }
}
