//! The command gate: may this command be started? A pure function of the words, of who asks for them and of the
//! policy. Three answers: a rule allows it, a rule refuses it, or a person has to be asked. Only words that a rule
//! knows one by one are allowed, so whatever the gate does not understand is at most a question.

use crate::bounded::cut;
use contract::policy::{AllowRule, CommandPolicy, Fit, ForbiddenActions, RefuseRule};
use serde::Serialize;
use std::sync::Arc;

pub use contract::policy::{SplitError, split};

/// Most bytes of a command, words and the ends between them: nobody can look through more before approving it.
pub const ARGV_BYTES_MAX: usize = 32 << 10;

/// Longest quotation of a program in a reason, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// The name under which commands that are no commands are refused.
const RULE_FORM: &str = "form";

/// The name under which a person's contract allows what it says.
const RULE_CONTRACT: &str = "contract";

/// The name under which a contract that has nobody asked allows what no rule speaks of.
const RULE_UNASKED: &str = "unasked";

/// Who asks for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An agent that proposes it, or a contract that an agent wrote.
    Agent,
    /// A contract that a person supplied.
    Contract,
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// It may be started.
    Allow {
        /// The rule that allows it.
        rule: String,
        /// That rule's reason.
        why: String,
    },
    /// It may be started once a person has said so.
    Ask {
        /// The rule that has somebody asked; none where no rule fits.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// That rule's reason, or what no rule knows.
        why: String,
    },
    /// It may not be started.
    Deny {
        /// The rule that refuses it.
        rule: String,
        /// That rule's reason.
        why: String,
    },
}

impl Decision {
    /// Whether it may be started without a question.
    pub fn is_allow(&self) -> bool {
        matches!(self, Decision::Allow { .. })
    }

    /// Whether it may not be started.
    pub fn is_deny(&self) -> bool {
        matches!(self, Decision::Deny { .. })
    }

    fn allow(rule: &str, why: &str) -> Decision {
        Decision::Allow { rule: rule.to_owned(), why: why.to_owned() }
    }

    fn deny(rule: &str, why: &str) -> Decision {
        Decision::Deny { rule: rule.to_owned(), why: why.to_owned() }
    }

    fn refused_by(rule: &RefuseRule) -> Decision {
        Decision::deny(&rule.name, &rule.reason)
    }

    fn asked_by(rule: &RefuseRule) -> Decision {
        Decision::Ask { rule: Some(rule.name.clone()), why: rule.reason.clone() }
    }

    fn unknown(why: String) -> Decision {
        Decision::Ask { rule: None, why }
    }

    /// The decision where nobody may be asked: what no rule covers runs where it is confined, and what a rule has
    /// somebody asked about does not.
    pub fn unasked(self) -> Decision {
        match self {
            Decision::Ask { rule: Some(rule), why } => {
                Decision::Deny { rule, why: format!("{why}; it needs approval, and the contract has nobody asked") }
            }
            Decision::Ask { rule: None, why } => Decision::Allow { rule: RULE_UNASKED.to_owned(), why },
            decision => decision,
        }
    }
}

/// Decides. What is refused comes before what is allowed, and what everybody is refused comes first.
pub fn decide(argv: &[String], origin: Origin, policy: &CommandPolicy) -> Decision {
    if let Some(problem) = malformed(argv) {
        return Decision::deny(RULE_FORM, problem);
    }
    if let Some(rule) = forbidden(argv, &policy.forbidden) {
        return Decision::refused_by(rule);
    }
    match origin {
        Origin::Contract => Decision::allow(RULE_CONTRACT, "a person's contract asks for it"),
        Origin::Agent => {
            let matching = |rules: &[RefuseRule]| rules.iter().position(|rule| rule.refuses(argv));
            let list = &policy.allowlist;
            match (matching(&list.deny), matching(&list.ask)) {
                (Some(at), _) => Decision::refused_by(&list.deny[at]),
                (None, Some(at)) => Decision::asked_by(&list.ask[at]),
                (None, None) => listed(argv, &list.allow),
            }
        }
    }
}

/// Decides about a line that an agent wants a shell to run. One that needs no shell is judged by its words; of any other
/// only what everybody is refused is known, and a person looks at it whole.
pub fn decide_line(line: &str, policy: &CommandPolicy) -> Decision {
    let code = shell_code(line);
    let line = code.as_deref().unwrap_or(line);
    let decision = match split(line) {
        Ok(argv) => decide(&argv, Origin::Agent, policy),
        Err(_) => decide_code(line, policy),
    };
    // What a rule has asked about anywhere in a line is asked about: the line, once allowed, allows it to start.
    match policy.allowlist.ask.iter().find(|rule| is_in(rule, line)) {
        Some(rule) if !decision.is_deny() => Decision::asked_by(rule),
        _ => decision,
    }
}

fn decide_code(line: &str, policy: &CommandPolicy) -> Decision {
    // Lines and tabs are how code is written, and are shown as they are.
    let argv = ["sh".to_owned(), "-c".to_owned(), line.replace(['\n', '\t'], " ")];
    if let Some(problem) = malformed(&argv) {
        return Decision::deny(RULE_FORM, problem);
    }
    match forbidden(&argv, &policy.forbidden) {
        Some(rule) => Decision::refused_by(rule),
        None => Decision::unknown("only a shell understands it".to_owned()),
    }
}

/// Whether a command that a rule is about could begin anywhere in a line.
fn is_in(rule: &RefuseRule, line: &str) -> bool {
    let words = inner_words(&[line.to_owned()]);
    (0..words.len()).any(|start| rule.refuses(&words[start..]))
}

/// Rules against commands in which others hide. Where it is seen what is started, those are seen when they start, and are
/// judged by themselves.
const SEEN_THROUGH: [&str; 22] = [
    "git-settings",
    "git-programs",
    "git-grep-pager",
    "git-clone-upload-pack",
    "git-rebase-exec",
    "git-starters",
    "shell-code",
    "python-code",
    "javascript-code",
    "perl-ruby-code",
    "other-code",
    "eval",
    "awk",
    "wrappers",
    "package-runners",
    "package-runners-of-managers",
    "npm-settings",
    "cargo-settings",
    "go-programs",
    "ripgrep-programs",
    "tar-programs",
    "make-code",
];

/// The rules for programs that an agent starts: nobody is asked about them when they start. Those that a build
/// starts in turn are checked against the contract alone: policy is about commands that somebody chose.
#[derive(Debug, Clone)]
pub struct Started {
    /// The lists.
    pub policy: Arc<CommandPolicy>,
    /// What the contract forbids.
    pub words: Vec<String>,
    /// The state directory: an agent's own step is in there, and names no other part of it.
    pub state: String,
    /// Whether the agent's contract has somebody asked.
    pub asks: bool,
}

impl Started {
    /// Why a program may not be started, if it may not. `allowed` are the lines that the agent asked for and may run.
    pub fn refuses(&self, argv: &[String], chosen: bool, allowed: &[String]) -> Option<String> {
        // These are told which program to be.
        let is_other = |program: &str| program.starts_with("ld-") || ["ld.so", "busybox", "toybox"].contains(&program);
        let argv = if argv.first().is_some_and(|program| is_other(name(program))) { &argv[1..] } else { argv };
        let does = |forbidden: &&String| does(argv, &forbidden.split_whitespace().collect::<Vec<_>>());
        if let Some(words) = self.words.iter().find(does) {
            return Some(format!("the contract forbids {words:?}"));
        }
        if !chosen {
            return None;
        }
        let runs = format!("{}/runs/", self.state.trim_end_matches('/'));
        let argv: Vec<String> = argv.iter().map(|word| word.replace(&runs, "/")).collect();
        let denied = self.policy.allowlist.deny.iter().filter(|rule| !SEEN_THROUGH.contains(&rule.name.as_str()));
        if let Some(rule) = self.policy.forbidden.forbid.iter().chain(denied).find(|rule| rule.refuses(&argv)) {
            return Some(format!("{}: {}", rule.name, rule.reason));
        }
        let rule = self.policy.allowlist.ask.iter().find(|rule| rule.refuses(&argv))?;
        let was_allowed = self.asks && allowed.iter().any(|line| is_in(rule, line));
        (!was_allowed).then(|| format!("{}: {}; it needs approval, and nobody was asked", rule.name, rule.reason))
    }
}

/// Whether a command is code for a shell that is no part of what was allowed, nor has any of that in it. Programs put
/// code of their own around a line, and quote it anew.
pub fn was_not_asked(argv: &[String], allowed: &[String]) -> bool {
    let is_shell = argv.first().is_some_and(|program| ["sh", "bash", "dash", "zsh"].contains(&name(program)));
    let option = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let Some(at) = argv.iter().position(option).filter(|_| is_shell) else { return false };
    let plain = |text: &str| text.replace(|c: char| c.is_whitespace() || "'\"\\".contains(c), "");
    let code = plain(&argv[at + 1..].join(" "));
    !allowed
        .iter()
        .map(|line| plain(line))
        .any(|line| !line.is_empty() && (code.contains(&line) || line.contains(&code)))
}

/// Whether a command is the one that these words name. Letters of options may stand together or apart.
fn does(argv: &[String], words: &[&str]) -> bool {
    let (Some((program, arguments)), Some((wanted, options))) = (argv.split_first(), words.split_first()) else {
        return false;
    };
    let letters = |word: &str| word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).map(str::to_owned);
    let given: String = arguments.iter().filter_map(|word| letters(word)).collect();
    let has = |option: &&str| match letters(option) {
        Some(letters) => letters.chars().all(|letter| given.contains(letter)),
        None => arguments.iter().any(|word| word.eq_ignore_ascii_case(option)),
    };
    name(program).eq_ignore_ascii_case(name(wanted)) && options.iter().all(has)
}

fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The code in `bash -lc CODE`: agents that start a shell themselves name it so.
fn shell_code(line: &str) -> Option<String> {
    let [shell, option, code] = <[String; 3]>::try_from(split(line).ok()?).ok()?;
    let name = shell.rsplit('/').next().unwrap_or_default();
    (["sh", "bash", "zsh"].contains(&name) && ["-c", "-lc"].contains(&option.as_str())).then_some(code)
}

/// What is wrong with words that cannot be a command, or that people would misread.
fn malformed(argv: &[String]) -> Option<&'static str> {
    let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
        return Some("there is no program in it");
    };
    let is_hidden = |c: char| c.is_control() || contract::path::is_invisible(c);
    if argv.iter().any(|word| word.contains(is_hidden)) {
        return Some("it has control or invisible characters in it");
    }
    if argv.iter().map(|word| word.len() + 1).sum::<usize>() > ARGV_BYTES_MAX {
        return Some("it is longer than anybody can look through");
    }
    let assigns = program.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    assigns.then_some("it begins with an assignment, which only a shell understands")
}

/// The rule that refuses this to everybody. A program that starts others is never looked through to allow something,
/// but every place in its words where another command could begin is held against the list.
fn forbidden<'p>(argv: &[String], forbidden: &'p ForbiddenActions) -> Option<&'p RefuseRule> {
    if let Some(rule) = forbidden.forbid.iter().find(|rule| rule.refuses(argv)) {
        return Some(rule);
    }
    let carried = forbidden.wrappers.iter().find_map(|wrapper| wrapper.carried(argv))?;
    let inner = inner_words(carried);
    // Rules about any program have seen every word already.
    let of_programs = || forbidden.forbid.iter().filter(|rule| !rule.exec.is_empty());
    (0..inner.len()).find_map(|start| of_programs().find(|rule| rule.refuses(&inner[start..])))
}

/// The words within words: what a shell, or a program like it, would find in them.
fn inner_words(words: &[String]) -> Vec<String> {
    let ends = |c: char| c.is_whitespace() || ";&|<>()$`'\"{}[],!\\".contains(c);
    words.iter().flat_map(|word| word.split(ends)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// What the list of allowed commands says, once nothing refuses it.
fn listed(argv: &[String], rules: &[AllowRule]) -> Decision {
    let fits: Vec<(&AllowRule, Fit)> = rules.iter().map(|rule| (rule, rule.fit(argv))).collect();
    if let Some((rule, _)) = fits.iter().find(|(_, fit)| *fit == Fit::Allowed) {
        return Decision::allow(&rule.name, &rule.reason);
    }
    // One that is not complete yet is not bad yet.
    let incomplete = fits.iter().find_map(|(rule, fit)| match fit {
        Fit::Incomplete(what) => Some(format!("{what} (rule {})", rule.name)),
        _ => None,
    });
    if let Some(why) = incomplete {
        return Decision::unknown(why);
    }
    if let Some((rule, why)) = rules.iter().find_map(|rule| Some((rule, rule.denies_rest_of(&argv[0])?))) {
        return Decision::deny(&rule.name, why);
    }
    let why = fits.iter().find_map(|(rule, fit)| match fit {
        Fit::Unknown(what) => Some(format!("{what} (rule {})", rule.name)),
        _ => None,
    });
    Decision::unknown(why.unwrap_or_else(|| unknown(&argv[0], rules)))
}

fn unknown(program: &str, rules: &[AllowRule]) -> String {
    let shown = cut(&program.escape_debug().to_string(), SHOWN_CHARS_MAX);
    if rules.iter().any(|rule| rule.is_about(program)) {
        format!("no rule for {shown} knows this sub-command")
    } else if program.contains('/') {
        format!("{shown} is a program by its path, and no rule names it so")
    } else {
        format!("no rule speaks of {shown}")
    }
}

#[cfg(test)]
mod tests;
