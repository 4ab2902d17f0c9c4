//! `norma exec-check`: what the command gate says about a command, without starting it.

use crate::error::{Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::Policies;
use contract::policy::{CommandAllowlist, ForbiddenActions};
use run::gate::command::{Decision, Origin, decide};
use std::process::ExitCode;

/// Check whether a command may be started, and by which rule; nothing is started
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma exec-check -- git log --oneline       # may an agent run this?\n  norma exec-check --origin contract -- make deploy\n\nExit codes: 0 allowed, 1 denied, 3 needs approval, 4 unusable policy"
)]
pub(crate) struct Args {
    /// Who asks: an agent, or a contract that a person supplied
    #[arg(long, value_enum, default_value = "agent", value_name = "WHO")]
    origin: Who,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Who {
    Agent,
    Contract,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        // Outside of a repository, and before `norma init`, what counts is what is built in.
        let policies = match here.layout()? {
            Some(layout) => told(runner::load_policies(&layout)?, here),
            None => Policies::built_in(),
        };
        let origin = match self.origin {
            Who::Agent => Origin::Agent,
            Who::Contract => Origin::Contract,
        };
        let decision = decide(&self.argv, origin, &policies.commands());
        here.print(&decision, || describe(&self.argv, &decision));
        Ok(match decision {
            Decision::Allow { .. } => ExitCode::SUCCESS,
            Decision::Deny { .. } => ExitCode::from(code::FAILED),
            Decision::Ask { .. } => ExitCode::from(code::WAITING),
        })
    }
}

/// Tells people which policies they could have here and have not.
fn told(policies: Policies, here: &Surroundings) -> Policies {
    let asked = [CommandAllowlist::FILE, ForbiddenActions::FILE];
    for name in policies.missing.iter().filter(|name| !here.json && asked.contains(name)) {
        crate::text::err(&format!("note: no policies/{name} here; the built-in one applies"));
    }
    policies
}

fn describe(argv: &[String], decision: &Decision) -> String {
    let is_plain = |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"".contains(c));
    let shown = |word: &String| if is_plain(word) { safe(word) } else { safe(&format!("{word:?}")) };
    let command = argv.iter().map(shown).collect::<Vec<_>>().join(" ");
    match decision {
        Decision::Allow { rule, why } => format!("allow: {command}\nrule {}: {}", safe(rule), safe(why)),
        Decision::Deny { rule, why } => format!("deny: {command}\nrule {}: {}", safe(rule), safe(why)),
        Decision::Ask { rule: Some(rule), why } => format!("ask: {command}\nrule {}: {}", safe(rule), safe(why)),
        Decision::Ask { rule: None, why } => format!("ask: {command}\n{}", safe(why)),
    }
}
