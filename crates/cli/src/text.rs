//! Words on a terminal: the one place that prints, and how times, ids and counts are shown.

/// Makes what an agent or a repository said safe to show.
pub(crate) use contract::printable as safe;
pub(crate) use contract::text::{duration, named, shell_word, short};
use std::fmt::Display;
use std::io::Write;

/// Prints a line to stdout; a closed pipe ends the program quietly, as pagers expect.
pub(crate) fn out(line: &str) {
    raw_out(&format!("{line}\n"));
}

/// Prints bytes to stdout as they are.
pub(crate) fn raw_out(text: &str) {
    bytes_out(text.as_bytes());
}

/// Prints bytes to stdout as they are.
pub(crate) fn bytes_out(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Prints a patch to stdout: as it is, or, on a terminal, without anything that would move its cursor, change its title or
/// show a line in another order than it is read.
pub(crate) fn patch_out(patch: &[u8], terminal: bool) {
    match terminal {
        true => bytes_out(shown_lines(patch).as_bytes()),
        false => bytes_out(patch),
    }
}

fn shown_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = |line: &str| line.split('\t').map(safe).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// JSON that a terminal shows as it is: what it escapes anyway, and characters that would be acted on or hide something.
pub(crate) fn shown_json(text: &str) -> String {
    let hidden = |c: char| c.is_control() || contract::path::is_invisible(c);
    let mut units = [0; 2];
    let mut shown = |c: char| match hidden(c) {
        true => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        false => c.to_string(),
    };
    text.chars().map(&mut shown).collect()
}

/// The longest line of a log that is shown.
const LOG_CHARS_MAX: usize = 400;

/// What a program printed, line by line, for people: without colours, and with whatever a terminal would act on spelled
/// out. Of a line that was drawn over, what was drawn last.
pub(crate) fn log_lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(log_line).collect()
}

fn log_line(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\t' => text.push_str("    "),
            // `ESC [ … letter`: how lines are coloured.
            '\u{1b}' if rest.as_str().starts_with('[') => drop(rest.by_ref().skip(1).find(char::is_ascii_alphabetic)),
            c => text.push(c),
        }
    }
    let cut = text.char_indices().nth(LOG_CHARS_MAX).map(|(end, _)| end);
    match cut {
        Some(end) => format!("{}…", safe(&text[..end])),
        None => safe(&text),
    }
}

/// A text of several lines as one block: every line safe to show, and all but the first indented and marked, so that none
/// is taken for a line of norma's own.
pub(crate) fn block(text: &str, indent: &str) -> String {
    let lines: Vec<String> = text.trim_end().split('\n').map(safe).collect();
    lines.join(&format!("\n{indent}| "))
}

/// What a model used: `1200 tokens read, 300 written, $0.01`.
pub(crate) fn used(usage: &contract::Usage) -> String {
    let cost = usage.cost_micro_usd.map(|cost| format!(", ${}", contract::Usd(cost))).unwrap_or_default();
    format!("{} tokens read, {} written{cost}", usage.input_tokens, usage.output_tokens)
}

/// Asks on stderr; the answer is typed behind it.
pub(crate) fn prompt(question: &str) {
    let _ = std::io::stderr().write_all(question.as_bytes());
    let _ = std::io::stderr().flush();
}

/// Reads one key from the terminal, without waiting for the end of a line where it is one; none at the end of input.
pub(crate) fn key() -> Option<char> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use std::io::Read;
    let stdin = std::io::stdin();
    let before = tcgetattr(&stdin).ok();
    if let Some(mut terms) = before.clone() {
        terms.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let _ = tcsetattr(&stdin, OptionalActions::Now, &terms);
    }
    let mut byte = [0];
    let read = stdin.lock().read(&mut byte).unwrap_or(0);
    if let Some(terms) = before {
        let _ = tcsetattr(&stdin, OptionalActions::Now, &terms);
    }
    err("");
    (read == 1).then(|| char::from(byte[0]))
}

/// Prints a line to stderr.
pub(crate) fn err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The first characters of an object id.
pub(crate) fn short_id(id: impl Display) -> String {
    format!("{id:.10}")
}

/// `refs/heads/main` as people say it.
pub(crate) fn short_ref(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

/// Most names that a line lists.
const NAMES_MAX: usize = 5;

/// A line on the files, ignored or made by a build, that an item's agent left: they are not in the change, which a person may have expected.
pub(crate) fn left_out(item: &str, left_out: &contract::LeftOut) -> String {
    let names: Vec<&str> = left_out.files.iter().take(NAMES_MAX).map(|file| file.path.as_str()).collect();
    let more = if left_out.count > names.len() as u64 { ", …" } else { "" };
    let files = if left_out.count == 1 { "1 file" } else { &format!("{} files", left_out.count) };
    format!(
        "left out of {}: {files}, ignored or built ({} bytes): {}{more}; to have a file in, name it in allowed_paths or output_files\n",
        safe(item),
        left_out.bytes,
        safe(&names.join(", "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_spelled_out() {
        let patch = "+a\tb \u{1b}]0;x\u{7} \u{9b}2J \u{202e}c\r\n+d\n";
        assert_eq!(shown_lines(patch.as_bytes()), "+a\tb \\u{1b}]0;x\\u{7} \\u{9b}2J \\u{202e}c\\u{d}\n+d\n");
        let json = serde_json::json!({"a": "\u{1b}\u{9b}\u{202e}\u{e0001}é\n"}).to_string();
        let shown = shown_json(&json);
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{e0001}']), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap().to_string(), json);
    }

    #[test]
    fn text_of_agents_cannot_write_to_the_terminal() {
        assert_eq!(safe("a\u{1b}[2Jb\u{202e}"), "a\\u{1b}[2Jb\\u{202e}");
        assert_eq!(safe("a\u{200b}b\u{e0100}"), "a\\u{200b}b\\u{e0100}");
    }

    #[test]
    fn what_programs_print_is_shown_without_colours_and_harmless() {
        let printed = "a\tb\r\n10%\r100%\n\u{1b}[31;1mred\u{1b}[0m \u{1b}]0;title\u{7}\n";
        assert_eq!(log_lines(printed.as_bytes()), ["a    b", "100%", "red \\u{1b}]0;title\\u{7}"]);
        assert_eq!(block("one\ntwo\rx\n", "  "), "one\n  | two\\u{d}x");
    }
}
