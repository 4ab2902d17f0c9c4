//! The merge of texts: case by case, by what must hold of any three texts, and against git itself.

use super::lines::{LineConflict, MergedText, merge_lines};
use super::{ConflictKind, three_way};
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;

/// How many random texts git is asked about; each costs a process.
const ASKED_OF_GIT: u32 = 200;

fn merged(base: &str, ours: &str, theirs: &str) -> Option<String> {
    match merge_lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
        MergedText::Clean(text) => Some(String::from_utf8(text).unwrap()),
        MergedText::Conflicts(_) => None,
    }
}

fn check(base: &str, ours: &str, theirs: &str, expected: Option<&str>) {
    assert_eq!(merged(base, ours, theirs).as_deref(), expected, "{base:?} {ours:?} {theirs:?}");
    assert_eq!(merged(base, theirs, ours).as_deref(), expected, "{base:?} {theirs:?} {ours:?}");
    let git = ask_git(tempfile::tempdir().unwrap().path(), [base, ours, theirs]);
    assert_eq!(git.as_deref(), expected, "git: {base:?} {ours:?} {theirs:?}");
}

/// What `git merge-file` makes of three texts.
fn ask_git(dir: &Path, [base, ours, theirs]: [&str; 3]) -> Option<String> {
    for (name, text) in [("base", base), ("ours", ours), ("theirs", theirs)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(dir)
        .args(["merge-file", "-p", "-q", "ours", "base", "theirs"])
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn changes_of_different_lines_meet_in_one_text() {
    check("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", Some("one\n2\n3\n4\nfive\n"));
    check("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n3\n4\n", Some("0\n1\n2\n3\n4\n"));
    check("1\n2\n3\n4\n", "2\n3\n4\n", "1\n2\n3\n", Some("2\n3\n"));
    check("a\nb\nc\n", "a\nb\nc\n", "a\nb\n", Some("a\nb\n"));
}

#[test]
fn the_same_change_on_both_sides_is_made_once() {
    check("1\n2\n3\n", "1\nX\n3\n", "1\nX\n3\n", Some("1\nX\n3\n"));
    check("1\n2\n3\n4\n5\n", "0\n1\nX\n3\n4\n5\n", "1\nX\n3\n4\n6\n", Some("0\n1\nX\n3\n4\n6\n"));
    check("1\n2\n3\n4\n5\n6\n", "1\n3\n4\n5\n6\n7\n", "1\n3\n4\n5\n6\n", Some("1\n3\n4\n5\n6\n7\n"));
    check("", "new\n", "new\n", Some("new\n"));
}

#[test]
fn changes_that_touch_or_overlap_conflict() {
    check("1\n2\n3\n", "1\nX\n3\n", "1\nY\n3\n", None);
    check("1\n2\n3\n4\n", "1\nX\n3\n4\n", "1\n2\nY\n4\n", None);
    check("1\n2\n", "1\nX\n2\n", "1\nY\n2\n", None);
    check("1\n2\n3\n4\n", "1\n4\n", "1\n2\nX\n4\n", None);
    check("1\n2\n3\n4\n", "1\n3\n4\n", "1\n2\n4\n", None);
    check("", "X\n", "Y\n", None);
}

#[test]
fn line_ends_and_empty_texts_are_differences_like_any_other() {
    check("1\r\n2\r\n3\r\n", "one\r\n2\r\n3\r\n", "1\r\n2\r\nthree\r\n", Some("one\r\n2\r\nthree\r\n"));
    check("1\r\n2\r\n3\r\n", "1\n2\n3\n", "1\r\n2\r\nthree\r\n", None);
    check("1\n2\n3", "one\n2\n3", "1\n2\n3\n", Some("one\n2\n3\n"));
    check("1\n2\n3\n", "one\n2\n3\n", "1\n2\n3", Some("one\n2\n3"));
    check("1\n2\n3", "1\n2\n3\n4", "1\n2\n3\n5\n", None);
    check("1\n2\n3\n", "", "1\n2\n3\n", Some(""));
    check("1\n2\n3\n", "", "1\nX\n3\n", None);
    check("", "1\n", "", Some("1\n"));
    let long = "x".repeat(1 << 20);
    check(
        &format!("a\n{long}\nb\n"),
        &format!("A\n{long}\nb\n"),
        &format!("a\n{long}\nB\n"),
        Some(&format!("A\n{long}\nB\n")),
    );
}

#[test]
fn conflicts_say_which_lines_they_are_about() {
    let base = (1..=40).map(|line| format!("{line}\n")).collect::<String>();
    let (ours, theirs) = (base.replace('5', "x"), base.replace('5', "y"));
    let MergedText::Conflicts(parts) = merge_lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) else {
        panic!("these conflict")
    };
    assert_eq!(parts[0], LineConflict { base: 4..5, ours: 4..5, theirs: 4..5 });
    assert_eq!(
        ConflictKind::Lines(parts).to_string(),
        "both sides changed line 5, line 15, line 25, 1 more differently"
    );
    let added = ConflictKind::Lines(vec![LineConflict { base: 3..3, ours: 3..5, theirs: 3..4 }]);
    assert_eq!(added.to_string(), "both sides changed after line 3 differently");
}

#[test]
fn a_mode_that_one_side_changed_is_kept() {
    assert_eq!(three_way([1, 1, 2]), Some(2));
    assert_eq!(three_way([1, 2, 1]), Some(2));
    assert_eq!(three_way([1, 2, 2]), Some(2));
    assert_eq!(three_way([1, 2, 3]), None);
}

/// What happens to a text: a line taken out, put in or replaced, by its place.
type Edits = Vec<(usize, u8, u8)>;

/// Three texts that follow from one, with lines that repeat.
fn texts() -> impl Strategy<Value = [String; 3]> {
    let edits = || proptest::collection::vec((0..14usize, 0..3u8, 0..9u8), 0..4);
    (proptest::collection::vec(0..6u8, 0..14), edits(), edits(), any::<bool>()).prop_map(|(base, ours, theirs, end)| {
        let text = |lines: &[u8]| {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            if end { text } else { text.trim_end().to_owned() }
        };
        [text(&base), text(&edited(&base, &ours)), text(&edited(&base, &theirs))]
    })
}

fn edited(base: &[u8], edits: &Edits) -> Vec<u8> {
    let mut lines = base.to_vec();
    for (at, what, line) in edits {
        match (what, *at < lines.len()) {
            (0, _) => lines.insert((*at).min(lines.len()), *line),
            (1, true) => drop(lines.remove(*at)),
            (_, true) => lines[*at] = *line,
            (_, false) => {}
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn of_any_three_texts([base, ours, theirs] in texts()) {
        prop_assert_eq!(merged(&base, &ours, &ours), Some(ours.clone()));
        prop_assert_eq!(merged(&base, &ours, &base), Some(ours.clone()));
        prop_assert_eq!(merged(&base, &base, &theirs), Some(theirs.clone()));
        prop_assert_eq!(merged(&base, &ours, &theirs), merged(&base, &theirs, &ours));
    }

    #[test]
    fn no_line_that_a_side_added_is_lost(base in proptest::collection::vec(0..6u8, 0..14), at in [0..15usize, 0..15usize]) {
        let text = |lines: &[String]| lines.concat();
        let base: Vec<String> = base.iter().map(|line| format!("{line}\n")).collect();
        let with = |line: &str, at: usize| {
            let mut lines = base.clone();
            lines.insert(at.min(base.len()), line.to_owned());
            lines
        };
        if let Some(found) = merged(&text(&base), &text(&with("ours\n", at[0])), &text(&with("theirs\n", at[1]))) {
            prop_assert!(found.contains("ours\n") && found.contains("theirs\n"), "{found}");
            prop_assert_eq!(found.lines().count(), base.len() + 2);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ASKED_OF_GIT, ..ProptestConfig::default() })]

    /// A clean result is git's, and what git calls a conflict is never clean.
    #[test]
    fn nothing_is_merged_otherwise_than_by_git([base, ours, theirs] in texts()) {
        let dir = tempfile::tempdir().unwrap();
        let git = ask_git(dir.path(), [&base, &ours, &theirs]);
        if let Some(text) = merged(&base, &ours, &theirs) {
            prop_assert_eq!(Some(text), git);
        }
    }
}
