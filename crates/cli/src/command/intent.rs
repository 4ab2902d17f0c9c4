//! `norma intent`: what somebody wants, compiled by an agent into a plan, a patch and tests; kept, and given again.

mod compile;
mod diff;
mod health;

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use clap::Subcommand;
use contract::{AgentType, Config};
use std::process::ExitCode;

/// Have an intent compiled into plan, patch and tests, or see what was recorded
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma intent compile intent.json --mode record   # ask the agent, and keep what it answers\n  norma intent compile intent.json                 # the same again, without asking anybody\n  norma intent compile - --seed 2 --mode live --json < intent.json\n  norma intent health\n  norma intent diff SESSION | git apply --check"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print plan, patch, tests and transcript of an intent
    Compile(compile::Args),
    /// Say whether the agent that compiles could do so now, and what to do if not
    Health(health::Args),
    /// Print the patch that came of a session, as it is on record
    Diff(diff::Args),
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Compile(args) => args.run(here),
            Verb::Health(args) => args.run(here),
            Verb::Diff(args) => args.run(here),
        }
    }
}

/// Who compiles: the agent that was named, else the configured one of type `opencode`, else `opencode` as it is known.
fn compiler(config: &Config, named: Option<String>) -> String {
    let is_opencode = |name: &&String| config.agents[*name].kind == AgentType::Opencode;
    let plain = AgentType::Opencode.as_str();
    let configured = || match config.agents.contains_key(plain) {
        true => None,
        false => config.agents.keys().find(is_opencode).cloned(),
    };
    named.or_else(configured).unwrap_or_else(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(agents: &[(&str, AgentType)]) -> Config {
        let mut config = Config::starting_point();
        config.agents =
            agents.iter().map(|(name, kind)| ((*name).to_owned(), contract::AgentConfig::of(*kind))).collect();
        config
    }

    #[test]
    fn opencode_compiles_unless_another_one_is_named() {
        let local = config(&[("a", AgentType::Codex), ("local", AgentType::Opencode), ("zeta", AgentType::Opencode)]);
        let both = config(&[("local", AgentType::Opencode), ("opencode", AgentType::Opencode)]);
        assert_eq!(compiler(&config(&[]), None), "opencode");
        assert_eq!(compiler(&local, None), "local");
        assert_eq!(compiler(&both, None), "opencode");
        assert_eq!(compiler(&local, Some("codex".to_owned())), "codex");
    }
}
