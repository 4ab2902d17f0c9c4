//! Secrets that a change adds. A change becomes history that others read, and nothing takes a secret out of it again, so
//! this refuses what redaction would only hide. Only what is added counts: what was there before is not the change's doing.
//!
//! What a value is known by is its form alone, never a value that norma knows, so that whoever judges again finds the same.

use super::{Finding, Rule};
use crate::redact::{Kind, Redactor, Span, marks};
use std::collections::BTreeSet;

/// What a person writes beside a secret that may be there. It counts where the base has it already: an agent cannot allow
/// its own.
pub const ALLOWED: &str = "norma:allow-secret";

/// Larger files are not looked at.
pub const BYTES_MAX: u64 = 1 << 20;

/// Most findings about one path.
const FINDINGS_MAX: usize = 5;

/// A secret that a change adds; never the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddedSecret {
    /// In which line of the new content, from 1.
    pub line: u64,
    /// What it looks like.
    pub kind: Kind,
    /// Whether it is only the mark of one that was redacted.
    pub mark: bool,
}

/// The first few secrets in content that are not in the content before. `old` is asked for only if there is a secret at
/// all.
pub fn added<E>(new: &[u8], old: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<AddedSecret>, E> {
    added_by(&Redactor::patterns(), new, old)
}

/// The same as they are known by.
pub fn added_by<E>(
    patterns: &Redactor,
    new: &[u8],
    old: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Vec<AddedSecret>, E> {
    let spans = patterns.spans(new);
    let marks = marks(new);
    if spans.is_empty() && marks.is_empty() {
        return Ok(Vec::new());
    }
    let old = old()?;
    let mut before = Before::new(&old, new);
    let secrets = spans.iter().map(|span| (span, false));
    let all = secrets.chain(marks.iter().map(|span| (span, true)));
    let added = all.filter(|(span, _)| !before.excuses(new, span));
    let place =
        |(span, mark): (&Span, bool)| AddedSecret { line: line_number(new, span.range.start), kind: span.kind, mark };
    let added: BTreeSet<AddedSecret> = added.map(place).collect();
    Ok(added.into_iter().take(FINDINGS_MAX).collect())
}

/// What the gate says about the secrets that are added to a path.
pub(super) fn findings(path: &[u8], added: &[AddedSecret]) -> Vec<Finding> {
    let finding = |added: &AddedSecret| {
        let AddedSecret { line, kind, mark } = added;
        let message = match mark {
            false => format!("line {line} adds what looks like {}", kind.description()),
            true => format!("line {line} adds a mark in place of what was redacted ({kind})"),
        };
        Finding::at(Rule::Secret, path, message)
    };
    added.iter().take(FINDINGS_MAX).map(finding).collect()
}

/// The content before a change.
struct Before<'o> {
    lines: BTreeSet<&'o [u8]>,
    /// Lines with the marker that the change takes away; each excuses one that takes its place.
    allowed: Vec<&'o [u8]>,
}

impl<'o> Before<'o> {
    fn new(old: &'o [u8], new: &[u8]) -> Before<'o> {
        let lines: BTreeSet<&[u8]> = lines(old).collect();
        let kept: BTreeSet<&[u8]> = self::lines(new).filter(|line| lines.contains(line)).collect();
        let allowed = self::lines(old).filter(|line| has_marker(line) && !kept.contains(line)).collect();
        Before { lines, allowed }
    }

    /// Whether a secret was there before, or is in a line in which a person allowed one.
    fn excuses(&mut self, new: &[u8], span: &Span) -> bool {
        let (start, end) = (line_start(new, span.range.start), line_end(new, span.range.end));
        let present = lines(&new[start..end]).all(|line| self.lines.contains(line));
        present || self.allows(&new[start..span.range.start], &new[span.range.end..end])
    }

    /// Whether a line with the marker becomes this one by another value in place of its own.
    fn allows(&mut self, head: &[u8], tail: &[u8]) -> bool {
        let marked = has_marker(head) || has_marker(tail);
        let same =
            |line: &&[u8]| line.len() >= head.len() + tail.len() && line.starts_with(head) && line.ends_with(tail);
        let found = self.allowed.iter().position(same).filter(|_| marked);
        found.map(|index| self.allowed.swap_remove(index)).is_some()
    }
}

fn has_marker(line: &[u8]) -> bool {
    line.windows(ALLOWED.len()).any(|window| window == ALLOWED.as_bytes())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1)
}

fn line_end(text: &[u8], at: usize) -> usize {
    let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |offset| at + offset);
    if end > at && text[end - 1] == b'\r' { end - 1 } else { end }
}

fn line_number(text: &[u8], at: usize) -> u64 {
    text[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const KEY: &str = concat!("AK", "IAIOSFODNN7EXAMPLE");
    const OTHER: &str = concat!("AK", "IAJ4XQ2WZ7R5T9V1B3");

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let added = added(new.as_bytes(), || Ok::<_, Infallible>(old.as_bytes().to_vec())).unwrap();
        let found: Vec<String> = findings(b"src/config.py", &added).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{new}");
        assert!(!found.concat().contains(&KEY[4..]));
    }

    #[test]
    fn what_is_added_is_named_by_its_line_and_never_shown() {
        let aws = "src/config.py: line 2 adds what looks like an access key (aws)";
        check("", &format!("# x\nkey = '{KEY}'\n"), &[aws]);
        let key = concat!("sk", "-proj-a1B2c3D4e5F6g7H8i9J0kLmN");
        check(
            "",
            &format!("a\nb\nkey = '{key}'\n"),
            &["src/config.py: line 3 adds what looks like a provider key (openai)"],
        );
        check("", "nothing = 'secret'\n", &[]);
    }

    #[test]
    fn what_was_there_before_is_not_the_changes_doing() {
        let old = format!("a\nkey = '{KEY}'\n");
        check(&old, &format!("{old}b\n"), &[]);
        check(&old, &format!("b\n\nkey = '{KEY}'\r\n"), &[]);
        check(
            &old,
            &format!("a\nkeys = '{KEY}'\n"),
            &["src/config.py: line 2 adds what looks like an access key (aws)"],
        );
    }

    #[test]
    fn a_block_counts_if_any_of_its_lines_is_new() {
        let block = |line: &str| format!("x\n-----BEGIN {0} KEY-----\n{line}\n-----END {0} KEY-----\n", "PRIVATE");
        let (one, other) = ("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj", "MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSi");
        let found = "src/config.py: line 2 adds what looks like a private key";
        check("", &block(one), &[found]);
        check(&block(one), &block(other), &[found]);
        check(&block(one), &format!("y\n{}", block(one)), &[]);
    }

    #[test]
    fn a_marker_counts_only_where_the_base_has_it_and_only_for_the_value() {
        let line = |name: &str, key: &str| format!("{name} = '{key}' # norma:allow-secret\n");
        let found = "src/config.py: line 1 adds what looks like an access key (aws)";
        check("", &line("a", KEY), &[found]);
        check(&format!("a = '{KEY}'\n"), &line("a", OTHER), &[found]);
        check(&line("a", KEY), &line("a", OTHER), &[]);
        check(&line("a", "none"), &line("a", OTHER), &[]);
        check(&line("a", KEY), &line("b", OTHER), &[found]);
        check(&line("a", KEY), &format!("a = '{OTHER}'\n"), &[found]);
        // One line was allowed, not two.
        let twice = format!("{}{}", line("a", OTHER), line("a", KEY).replace("5", "6").replace("7", "8"));
        check(&line("a", "none"), &twice, &["src/config.py: line 2 adds what looks like an access key (aws)"]);
    }

    #[test]
    fn a_mark_is_what_became_of_a_secret() {
        let text = format!("a\nkey = '{}'\n", Kind::AwsKey.mark());
        check("", &text, &["src/config.py: line 2 adds a mark in place of what was redacted (aws_key)"]);
        check(&text, &text, &[]);
    }

    #[test]
    fn only_the_first_few_are_named() {
        let text: String = (0..9).map(|_| format!("{KEY}\n")).collect();
        let found: Vec<String> = (1..=5)
            .map(|line| format!("src/config.py: line {line} adds what looks like an access key (aws)"))
            .collect();
        check("", &text, &found.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn the_content_before_is_not_read_where_there_is_no_secret() {
        let found = added(b"nothing", || Err("read")).unwrap();
        assert_eq!(found, []);
    }
}
