//! `norma intent`: what somebody wants, compiled by an agent into a plan, a patch and tests; kept, and given again.

mod compile;
mod diff;
mod health;

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use clap::Subcommand;
use std::process::ExitCode;

/// Compile an intent into plan, patch and tests, or print the recorded result
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma intent compile intent.json --mode record   # ask the agent, and keep what it answers\n  norma intent compile intent.json                 # the recorded answer; no agent is started\n  norma intent compile - --seed 2 --mode live --json < intent.json\n  norma intent health\n  norma intent diff SESSION | git apply --check"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print plan, patch, tests and transcript of an intent
    Compile(compile::Args),
    /// Check whether the agent that compiles is available, and what to do if not
    Health(health::Args),
    /// Print the recorded patch of a session
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
