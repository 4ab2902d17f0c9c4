//! `command_allowlist.json` and `forbidden_actions.json`: which commands may be started, rule by rule, each with its
//! reason and with examples that it must hold. The examples are looked at whenever a policy is read, so a rule that
//! does not mean what its writer thought is refused before it decides anything.

mod allow;
mod contracted;
mod refuse;
mod split;
mod words;

use crate::json::{self, Limits, Violation};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub use allow::{AllowRule, Fit};
pub use contracted::{forbidden_word, is_trivial};
pub use refuse::{RefuseRule, Wrapper};
pub use split::{SplitError, join, split};
pub use words::{Operands, Style, Words};

/// `command_allowlist.json`: what agents may have started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandAllowlist {
    /// Version of the form.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What is refused whatever is allowed below: known ways to start programs that no rule speaks of.
    #[serde(default)]
    pub deny: Vec<RefuseRule>,
    /// What a person is asked about, whatever is allowed below; refused where nobody may be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<RefuseRule>,
    /// What needs no question.
    pub allow: Vec<AllowRule>,
}

/// `forbidden_actions.json`: what nobody may have started, a contract that a person supplied included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForbiddenActions {
    /// Version of the form.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// What is refused.
    pub forbid: Vec<RefuseRule>,
    /// Programs that start others.
    #[serde(default)]
    pub wrappers: Vec<Wrapper>,
}

/// Both documents: everything the command gate decides from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPolicy {
    /// What agents may have started.
    pub allowlist: CommandAllowlist,
    /// What nobody may have started.
    pub forbidden: ForbiddenActions,
}

impl CommandAllowlist {
    /// Name of the file in `policies/`.
    pub const FILE: &'static str = "command_allowlist.json";

    /// What counts where there is no such file, and what a new state directory starts with.
    pub const BUILTIN: &'static str = include_str!("command_allowlist.json");

    /// Reads the document; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<CommandAllowlist, Vec<Violation>> {
        let list: CommandAllowlist = json::decode(bytes, &Limits::DOCUMENT)?;
        let matched = [("deny", &list.deny), ("ask", &list.ask)];
        let matched = matched
            .into_iter()
            .flat_map(|(key, rules)| rules.iter().zip(0..).map(move |(rule, at)| (rule, format!("/{key}/{at}"))));
        let allowed = || list.allow.iter().zip(0..).map(|(rule, at)| (rule, format!("/allow/{at}")));
        let names = matched.clone().map(|(rule, at)| (rule.name.as_str(), format!("{at}/name")));
        let names = names.chain(allowed().map(|(rule, at)| (rule.name.as_str(), format!("{at}/name"))));
        let duplicates = duplicates(names);
        let matched = matched.flat_map(|(rule, at)| rule.violations(&at));
        let allowed = allowed().flat_map(|(rule, at)| rule.violations(&at));
        let problems: Vec<Violation> = matched.chain(allowed).chain(duplicates).collect();
        if problems.is_empty() { Ok(list) } else { Err(problems) }
    }
}

impl ForbiddenActions {
    /// Name of the file in `policies/`.
    pub const FILE: &'static str = "forbidden_actions.json";

    /// What counts where there is no such file, and what a new state directory starts with.
    pub const BUILTIN: &'static str = include_str!("forbidden_actions.json");

    /// Reads the document; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<ForbiddenActions, Vec<Violation>> {
        let list: ForbiddenActions = json::decode(bytes, &Limits::DOCUMENT)?;
        let rules = list.forbid.iter().zip(0..).flat_map(|(rule, at)| rule.violations(&format!("/forbid/{at}")));
        let names = list.forbid.iter().zip(0..).map(|(rule, at)| (rule.name.as_str(), format!("/forbid/{at}/name")));
        let wrappers =
            list.wrappers.iter().zip(0..).flat_map(|(wrapper, at)| wrapper.violations(&format!("/wrappers/{at}")));
        let problems: Vec<Violation> = rules.chain(duplicates(names)).chain(wrappers).collect();
        if problems.is_empty() { Ok(list) } else { Err(problems) }
    }
}

impl CommandPolicy {
    /// What counts where a repository says nothing else.
    pub fn builtin() -> CommandPolicy {
        let allowlist = CommandAllowlist::parse(CommandAllowlist::BUILTIN.as_bytes());
        let forbidden = ForbiddenActions::parse(ForbiddenActions::BUILTIN.as_bytes());
        CommandPolicy {
            allowlist: allowlist.expect("BUG: the built-in allowlist is verified by a test"),
            forbidden: forbidden.expect("BUG: the built-in list of forbidden actions is verified by a test"),
        }
    }
}

/// A decision names its rule, so a name stands for one rule only.
fn duplicates<'a>(names: impl Iterator<Item = (&'a str, String)>) -> Vec<Violation> {
    let mut seen = BTreeSet::new();
    let again = names.filter(|(name, _)| !seen.insert(name.to_owned()));
    again.map(|(name, pointer)| violation(pointer, format!("another rule is called {name:?} too"))).collect()
}

fn violation(pointer: String, message: impl Into<String>) -> Violation {
    Violation { pointer, message: message.into() }
}

/// An example is a command line whose words are separated by single spaces: no quoting, nothing to misread.
fn example(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Holds a rule to its examples.
fn broken_examples(
    pointer: &str,
    holds: impl Fn(&[String]) -> bool,
    matching: &[String],
    others: &[String],
) -> Vec<Violation> {
    let of = |key: &str, lines: &[String], expected: bool| -> Vec<Violation> {
        let broken = lines.iter().zip(0..).filter(|(line, _)| holds(&example(line)) != expected);
        let what =
            if expected { "the rule does not match its own example" } else { "the rule matches it all the same" };
        broken.map(|(line, at)| violation(format!("{pointer}/{key}/{at}"), format!("{what}: {line:?}"))).collect()
    };
    [of("match", matching, true), of("not_match", others, false)].concat()
}

#[cfg(test)]
mod tests;
