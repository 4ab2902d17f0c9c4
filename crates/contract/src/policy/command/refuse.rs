//! A rule that refuses, or has a person asked. It errs on the strict side: a program counts under any path and in any case, an option
//! counts bundled with others, abbreviated, after `--`, and with its value in the same word or in the next. What it
//! does not recognise is still not allowed by that; it only becomes a question.

use super::words::{is_option, misspelled, shown};
use super::{Style, broken_examples, violation};
use crate::json::Violation;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// One rule that refuses a command, or under `ask` has a person asked about it. Everything that is given must be found in
/// a command for it to be refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefuseRule {
    /// What decisions call it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Why it is refused.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// Programs by name, whatever their path; a name may end in `*`. None = any program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exec: Vec<String>,
    /// One of these sub-commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subcommands: Vec<String>,
    /// One of these options: `-x`, `--name`, or `-name` for programs that spell long options so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// And one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_with: Vec<String>,
    /// Whether options count only before the first operand: what follows belongs to somebody else.
    #[serde(default)]
    pub leading: bool,
    /// Options of the program whose value may be the next word, or the rest of the word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// A word that names one of these files or directories, as any component of any path in it; a name may end in
    /// `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Command lines that it refuses.
    #[serde(rename = "match")]
    #[schemars(length(min = 1))]
    pub matching: Vec<String>,
    /// Command lines that it does not refuse.
    #[schemars(length(min = 1))]
    pub not_match: Vec<String>,
}

/// Programs that start other programs which their arguments name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wrapper {
    /// Programs by name, whatever their path; a name may end in `*`.
    #[schemars(length(min = 1))]
    pub exec: Vec<String>,
    /// Words after which the other program is named; none = it may be anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How they start others.
    #[schemars(length(min = 1))]
    pub reason: String,
}

impl Wrapper {
    /// The words of a command in which another one may begin, if it is one of these programs.
    pub fn carried<'a>(&self, argv: &'a [String]) -> Option<&'a [String]> {
        let (program, words) = argv.split_first()?;
        if !self.exec.iter().any(|name| names_program(name, program)) {
            return None;
        }
        match words.iter().position(|word| self.after.contains(word)) {
            Some(at) => words.get(at + 1..),
            None => self.after.is_empty().then_some(words),
        }
    }

    pub(super) fn violations(&self, pointer: &str) -> Vec<Violation> {
        program_violations(&self.exec, pointer)
    }
}

impl RefuseRule {
    /// Whether it refuses a command.
    pub fn refuses(&self, argv: &[String]) -> bool {
        let Some((program, words)) = argv.split_first() else { return false };
        let is_program = self.exec.is_empty() || self.exec.iter().any(|name| names_program(name, program));
        is_program
            && self.has_subcommand(words)
            && self.has_option(&self.options, words)
            && self.has_option(&self.together_with, words)
            && self.has_argument(argv)
    }

    fn has_subcommand(&self, words: &[String]) -> bool {
        self.subcommands.is_empty()
            || words.get(self.first_operand(words)).is_some_and(|word| self.subcommands.contains(word))
    }

    fn has_option(&self, refused: &[String], words: &[String]) -> bool {
        let end = if self.leading { self.first_operand(words) } else { words.len() };
        let options = || words.iter().take(end).filter(|word| is_option(word));
        refused.is_empty() || options().any(|word| refused.iter().any(|option| self.spells(word, option)))
    }

    fn has_argument(&self, argv: &[String]) -> bool {
        let names_one = |word: &String| components(word).any(|name| self.arguments.iter().any(|it| matches(it, &name)));
        self.arguments.is_empty() || argv.iter().any(names_one)
    }

    /// Index of the first word that is neither an option nor the value of one.
    fn first_operand(&self, words: &[String]) -> usize {
        let mut at = 0;
        while words.get(at).is_some_and(|word| is_option(word)) {
            at += if self.wants_next(&words[at]) { 2 } else { 1 };
        }
        at.min(words.len())
    }

    /// Whether the value of an option is the word that follows.
    fn wants_next(&self, word: &str) -> bool {
        if self.values.iter().any(|option| option == word) {
            return true;
        }
        let mut letters = word.chars().skip(1);
        !word.starts_with("--")
            && letters.find(|letter| self.takes_value(*letter)).is_some()
            && letters.next().is_none()
    }

    fn takes_value(&self, letter: char) -> bool {
        self.values.iter().any(|option| is_letter(option, letter))
    }

    /// Whether a word of options has this option in it.
    fn spells(&self, word: &str, option: &str) -> bool {
        let name = word.split('=').next().unwrap_or(word).trim_start_matches('-');
        let wanted = option.trim_start_matches('-');
        if wanted.chars().count() > 1 {
            let is_short_for = option.starts_with("--") && word.starts_with("--") && !name.is_empty();
            return name == wanted || is_short_for && wanted.starts_with(name);
        }
        if word.starts_with("--") {
            return false;
        }
        let mut letters = word.chars().skip(1).take_while(|letter| *letter != '=');
        letters
            .find(|letter| is_letter(option, *letter) || self.takes_value(*letter))
            .is_some_and(|letter| is_letter(option, letter))
    }

    pub(super) fn violations(&self, pointer: &str) -> Vec<Violation> {
        let mut problems = program_violations(&self.exec, pointer);
        if self.exec.is_empty() && self.arguments.is_empty() {
            problems.push(violation(pointer.to_owned(), "without `exec` and `arguments` it would refuse everything"));
        }
        let lists = [("options", &self.options), ("together_with", &self.together_with), ("values", &self.values)];
        for (key, options) in lists {
            for (text, at) in options.iter().zip(0..) {
                // `-name` is one option here, whatever the program.
                let problem = match text.ends_with(['=', ']']) {
                    true => Some("a rule that refuses names options only: -x, --name or -name"),
                    false => misspelled(text, Style::SingleDash),
                };
                let problem = problem.map(|what| format!("{}: {what}", shown(text)));
                problems.extend(problem.map(|message| violation(format!("{pointer}/{key}/{at}"), message)));
            }
        }
        for (name, at) in self.arguments.iter().zip(0..) {
            if name.trim_end_matches('*').is_empty() || components(name.trim_end_matches('*')).count() != 1 {
                let message = format!("{} is not the name of one file or directory", shown(name));
                problems.push(violation(format!("{pointer}/arguments/{at}"), message));
            }
        }
        problems.extend(broken_examples(pointer, |argv| self.refuses(argv), &self.matching, &self.not_match));
        problems
    }
}

fn program_violations(exec: &[String], pointer: &str) -> Vec<Violation> {
    let is_odd = |name: &str| name.trim_end_matches('*').is_empty() || name.contains('/');
    let odd = exec.iter().zip(0..).filter(|(name, _)| is_odd(name));
    odd.map(|(name, at)| {
        let message = format!("{} is not the name of a program; it counts under any path", shown(name));
        violation(format!("{pointer}/exec/{at}"), message)
    })
    .collect()
}

fn is_letter(option: &str, letter: char) -> bool {
    let mut letters = option.chars().skip(1);
    letters.next() == Some(letter) && letters.next().is_none()
}

/// Whether a name, perhaps with `*` at its end, means this program under whatever path.
fn names_program(name: &str, program: &str) -> bool {
    matches(name, program.rsplit('/').next().unwrap_or(program))
}

/// Compares without case: some file systems do.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// The names in a word: the components of every path in it, however it is wrapped (`--file=a/b`, `of=b`, `-fb`,
/// `HEAD:a/b`, `cat "b"`).
fn components(word: &str) -> impl Iterator<Item = String> + '_ {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '~' | '\\' | '%');
    let pieces = word.split(move |c| !is_part(c)).filter(|piece| !piece.is_empty());
    pieces.flat_map(|piece| {
        // `-f.env`: a letter and its value; the dashes alone may be part of a name.
        let bare = piece.trim_start_matches('-');
        let value = (bare.len() < piece.len()).then(|| bare.chars().skip(1).collect::<String>());
        std::iter::once(piece.to_owned()).chain(value)
    })
}
