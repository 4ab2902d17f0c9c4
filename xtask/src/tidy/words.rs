//! Phrases that must not come back: a private dialect makes a newcomer learn twice. Messages, help texts and pages use the
//! words that everybody in the field uses; what stands here was stumbled over by people who tried norma.

use super::Tracked;
use super::text::without_unit_tests;

/// A phrase, and what to write instead.
type Phrase = (&'static str, &'static str);

/// Not in a message, a help text or a page.
const DIALECT: [Phrase; 27] = [
    ("mend it", "fix it"),
    ("mend them", "fix them"),
    ("mend .norma", "fix .norma"),
    ("is it safe:", "Your branch, index and files are unchanged."),
    ("files are as they were", "Your branch, index and files are unchanged."),
    ("every wall stands", "full isolation (level A)"),
    ("see it hold", "Verify: norma doctor --drill"),
    ("held by a control group", "cgroup memory limit"),
    ("durable before told", "synced to disk before they are reported"),
    ("needs somebody to do it", "no agent given; use --agent"),
    ("comes to, or everything that is wrong", "Validate …: print a summary or every error"),
    ("hold people's own commits", "Set the contract the git hooks enforce"),
    ("hold them to none", "clear"),
    ("what they are held to", "show"),
    ("is held to", "is checked against"),
    ("are held to", "are checked against"),
    ("or lies in the repository", "not found in the workspace"),
    ("nobody's business", "looks like a key file"),
    ("which is what counts unless told", "(default)"),
    ("and the agent its worker; else the loop", "otherwise the plan-do-check-act loop runs"),
    ("say yes", "approve"),
    ("said yes", "approved"),
    ("says yes", "approves"),
    ("had enough", "rate limited"),
    ("goes on with", "continues"),
    ("go on with", "continue"),
    ("start anew", "start over"),
];

/// Not even in a comment.
const NOWHERE: [Phrase; 2] =
    [("see the module.", "what the reader cannot guess, or nothing"), ("spoken with", "an interactive session")];

/// What is history, measured by a program, or this list.
const SPARED: [&str; 4] = ["CHANGELOG.md", "docs/benchmarks.md", "docs/conformance.md", "xtask/src/tidy/words.rs"];

pub(crate) fn check(files: &[Tracked]) -> Vec<String> {
    files.iter().filter(|file| is_read_by_people(&file.path)).flat_map(phrases).collect()
}

fn is_read_by_people(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let is_page = path.ends_with(".md") && !path.contains("/decisions/") && !path.starts_with("testing/");
    let is_test = ["/tests.rs", "/fixture.rs", "/examples.rs"].iter().any(|end| path.ends_with(end));
    (is_source || is_page) && !is_test && !SPARED.contains(&path)
}

fn phrases(file: &Tracked) -> Vec<String> {
    let mut problems = Vec::new();
    let text = without_unit_tests(&file.text);
    for (line, text) in (1..).zip(text.lines()) {
        let lower = text.to_lowercase();
        let shown = is_shown(&file.path, text.trim_start());
        let lists = if shown { [&DIALECT[..], &NOWHERE] } else { [&[][..], &NOWHERE] };
        for (phrase, instead) in lists.concat().iter().filter(|(phrase, _)| has_phrase(&lower, phrase)) {
            problems.push(format!("{}:{line}: \"{phrase}\": write: {instead}", file.path));
        }
        if file.path.ends_with(".rs") && shown && names_a_file_of_docs(text) {
            problems.push(format!("{}:{line}: an installed norma has no docs/: name `norma help TOPIC`", file.path));
        }
    }
    problems
}

/// Whether people who use norma read a line: a page, a literal, or the help of a verb, but no other comment.
fn is_shown(path: &str, line: &str) -> bool {
    let is_help = path.starts_with("crates/cli/src/command/") && line.starts_with("///");
    !path.ends_with(".rs") || !line.starts_with("//") || is_help
}

fn has_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| !text[..at].chars().next_back().is_some_and(char::is_alphanumeric))
}

/// A file of `docs/` in a message; a page that is built in has a path of the source.
fn names_a_file_of_docs(line: &str) -> bool {
    line.match_indices("docs/").any(|(at, _)| {
        let name = line[at..].split(|c: char| c.is_whitespace() || "\"`),;:".contains(c)).next().unwrap_or_default();
        name.ends_with(".md") && !line[..at].ends_with('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(check(&[Tracked { path: path.to_owned(), text: text.to_owned() }]), expected);
    }

    #[test]
    fn a_phrase_is_found_where_people_read_it() {
        let found = "crates/run/src/a.rs:1: \"mend it\": write: fix it";
        check_file("crates/run/src/a.rs", "let hint = \"Mend it\";", &[found]);
        check_file("crates/run/src/a.rs", "// recommend it, mend it", &[]);
        check_file("crates/run/src/a.rs", "let hint = \"recommend it\";", &[]);
        let help = "crates/cli/src/command/a.rs:1: \"say yes\": write: approve";
        check_file("crates/cli/src/command/a.rs", "/// say yes", &[help]);
        check_file("docs/a.md", "say yes", &["docs/a.md:1: \"say yes\": write: approve"]);
        check_file("CHANGELOG.md", "say yes", &[]);
    }

    #[test]
    fn messages_name_pages_and_not_files() {
        let found = "crates/run/src/a.rs:1: an installed norma has no docs/: name `norma help TOPIC`";
        check_file("crates/run/src/a.rs", "\"see docs/config.md\"", &[found]);
        check_file("crates/run/src/a.rs", "include_str!(\"../docs/config.md\")", &[]);
        check_file("crates/run/src/a.rs", "\"src/docs/\"", &[]);
    }
}
