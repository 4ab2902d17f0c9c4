//! A rule that allows: a program by its exact name, the sub-command right after it, and every option that may
//! follow. It is a list of what is known to be harmless, so an option that a program learns tomorrow is not allowed.

use super::words::{self, Misfit, Operands, Style, Words, misspelled, shown};
use super::{broken_examples, violation};
use crate::json::Violation;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// One rule of the command gate that allows a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowRule {
    /// What decisions call it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Why it is harmless.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// The first word, exactly: `git` is neither `/usr/bin/git` nor `./git`.
    #[schemars(length(min = 1))]
    pub exec: Vec<String>,
    /// Options that may stand before the sub-command, spelled as in `options`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leading: Vec<String>,
    /// Sub-commands, each as the words that follow the program; none = the program has no sub-command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<Vec<String>>,
    /// How the program reads its options.
    #[serde(default)]
    pub style: Style,
    /// Options by exact spelling: `-x` and `--name` take no value, `-x=` and `--name=` take one (in the same word or
    /// in the next), `-x[=]` and `--name[=]` may have one in the same word, `-#` is a dash and a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What may stand beside the options.
    #[serde(default)]
    pub operands: Operands,
    /// What may follow `--`, for a program that hands it to another one; without it, operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_dashes: Option<Words>,
    /// Why whatever else this program is asked to do is denied; without it, a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny_rest: Option<String>,
    /// Command lines that it allows.
    #[serde(rename = "match")]
    #[schemars(length(min = 1))]
    pub matching: Vec<String>,
    /// Command lines that it does not allow.
    #[schemars(length(min = 1))]
    pub not_match: Vec<String>,
}

/// How a command fits a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// Another program, or another sub-command.
    Other,
    /// Allowed, if only the rest were there: what is missing.
    Incomplete(String),
    /// The program and the sub-command, but with something the rule does not know: what.
    Unknown(String),
    /// Allowed.
    Allowed,
}

impl AllowRule {
    /// Whether the rule speaks of a program with this exact first word.
    pub fn is_about(&self, program: &str) -> bool {
        self.exec.iter().any(|name| name == program)
    }

    /// Why whatever the rules do not allow this program is denied, under whatever path it is called.
    pub fn denies_rest_of(&self, program: &str) -> Option<&str> {
        let name = program.rsplit('/').next().unwrap_or(program);
        self.deny_rest.as_deref().filter(|_| self.is_about(program) || self.is_about(name))
    }

    /// How a command fits. Where several sub-commands of the rule do, the best counts.
    pub fn fit(&self, argv: &[String]) -> Fit {
        match argv.split_first() {
            Some((program, words)) if self.is_about(program) => self.fit_words(words),
            _ => Fit::Other,
        }
    }

    fn fit_words(&self, words: &[String]) -> Fit {
        if self.prefixes.is_empty() {
            return self.fit_rest(words);
        }
        let mut rest = words.iter();
        loop {
            let here = rest.as_slice();
            let fits = self.prefixes.iter().filter_map(|prefix| here.strip_prefix(prefix.as_slice()));
            if let Some(best) = fits.map(|rest| self.fit_rest(rest)).max_by_key(rank) {
                return best;
            }
            if self.prefixes.iter().any(|prefix| prefix.starts_with(here)) {
                return Fit::Incomplete("the sub-command is not complete".to_owned());
            }
            let Some(word) = rest.next() else { return Fit::Other };
            if !words::is_option(word) || words::option(&self.leading, self.style, word, &mut rest).is_err() {
                return Fit::Other;
            }
        }
    }

    fn fit_rest(&self, words: &[String]) -> Fit {
        let known = Words { options: self.options.clone(), operands: self.operands };
        match words::check(&known, self.style, self.after_dashes.as_ref(), words) {
            Ok(()) => Fit::Allowed,
            Err(Misfit::Incomplete(what)) => Fit::Incomplete(what),
            Err(Misfit::Unknown(what)) => Fit::Unknown(what),
        }
    }

    pub(super) fn violations(&self, pointer: &str) -> Vec<Violation> {
        let mut problems = Vec::new();
        for (name, at) in self.exec.iter().zip(0..) {
            if name.is_empty() || name.contains('*') {
                let message = format!("{name:?} is not the exact name of a program");
                problems.push(violation(format!("{pointer}/exec/{at}"), message));
            }
        }
        for (prefix, at) in self.prefixes.iter().zip(0..) {
            if prefix.is_empty() {
                let message = "a sub-command has at least one word; leave `prefixes` out where there is none";
                problems.push(violation(format!("{pointer}/prefixes/{at}"), message));
            }
        }
        let theirs = self.after_dashes.as_ref().map_or(&[][..], |words| &words.options);
        let lists = [("options", &self.options[..]), ("leading", &self.leading), ("after_dashes/options", theirs)];
        for (key, options) in lists {
            for (text, at) in options.iter().zip(0..) {
                let problem = misspelled(text, self.style).map(|what| format!("{}: {what}", shown(text)));
                problems.extend(problem.map(|message| violation(format!("{pointer}/{key}/{at}"), message)));
            }
        }
        let allows = |argv: &[String]| self.fit(argv) == Fit::Allowed;
        problems.extend(broken_examples(pointer, allows, &self.matching, &self.not_match));
        problems
    }
}

/// How good a fit is.
fn rank(fit: &Fit) -> u8 {
    match fit {
        Fit::Other => 0,
        Fit::Unknown(_) => 1,
        Fit::Incomplete(_) => 2,
        Fit::Allowed => 3,
    }
}
