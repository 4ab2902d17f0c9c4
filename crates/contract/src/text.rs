//! Words that people read wherever they are shown, in a terminal or by a program: how long something took, a line that is
//! short enough, a list that ends.

use crate::printable;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many names a line of the summary has.
const NAMES_SHOWN: usize = 8;

/// One line of at most `chars` characters.
pub fn short(text: &str, chars: usize) -> String {
    let line = printable(text.lines().next().unwrap_or(""));
    match line.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// `80ms`, `1.8s`, `12s`, `3m05s`, `2h07m`.
pub fn duration(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0 => format!("{}ms", elapsed.as_millis()),
        1..10 => format!("{:.1}s", elapsed.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// One word of a shell: as it is where that is the same, else in quotes.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Each name once, as many as a line holds.
pub fn named(names: impl Iterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let names: Vec<String> = names.filter(|name| seen.insert(name.clone())).map(|name| short(&name, 80)).collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count > NAMES_SHOWN => format!("{} and {} more", names[..NAMES_SHOWN].join(", "), count - NAMES_SHOWN),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_as_short_as_it_has_to_be() {
        assert_eq!(short("one\ntwo", 10), "one");
        assert_eq!(short("abcdef", 3), "abc…");
    }

    #[test]
    fn durations_are_short() {
        let shown: Vec<String> =
            [80, 1800, 12_000, 185_000, 7_620_000].map(|ms| duration(Duration::from_millis(ms))).into();
        assert_eq!(shown, ["80ms", "1.8s", "12s", "3m05s", "2h07m"]);
    }
}
