//! Texts that go into the log are bounded: an event line has a limit, and what an agent says has none. The whole
//! of it stays in the evidence.

/// How many texts of one kind an event carries.
const TEXTS_MAX: usize = 40;

/// How long each of them may be.
const TEXT_CHARS_MAX: usize = 300;

/// The first texts, each cut to its limit, and a last one that says how many more there are.
pub fn bounded(mut texts: Vec<String>) -> Vec<String> {
    let more = texts.len().saturating_sub(TEXTS_MAX);
    texts.truncate(TEXTS_MAX);
    let mut kept: Vec<String> = texts.iter().map(|text| cut(text, TEXT_CHARS_MAX)).collect();
    if more > 0 {
        kept.push(format!("… and {more} more"));
    }
    kept
}

/// Whether [`bounded`] may have made this of these texts and others that follow them.
pub fn bounded_begins_with(kept: &[String], texts: &[String]) -> bool {
    let texts = &texts[..texts.len().min(TEXTS_MAX)];
    kept.starts_with(texts)
}

/// How many texts [`bounded`] makes of so many.
pub(crate) fn bounded_len(texts: u64) -> u64 {
    texts.min(TEXTS_MAX as u64) + u64::from(texts > TEXTS_MAX as u64)
}

/// At most so many characters, with a mark where more were.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_bounded_begins_with_what_it_was_made_of() {
        let texts = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        let check = |all: usize, first: &[String], expected: bool| {
            assert_eq!(bounded_begins_with(&bounded(texts(all)), first), expected, "{all}: {first:?}");
        };
        check(5, &texts(5), true);
        check(5, &texts(3), true);
        check(5, &[], true);
        check(3, &texts(5), false);
        check(5, &["other".to_owned()], false);
        check(90, &bounded(texts(60)), true);
        check(90, &bounded(texts(10)), true);
    }
}
