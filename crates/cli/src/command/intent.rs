//! `norma intent`: what somebody wants, compiled by an agent into a plan, a patch and tests; kept, given again, and carried out.

mod answer;
mod compile;
mod diff;
mod health;
mod run;
mod show;

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use clap::Subcommand;
use runner::{Compiler, Context};
use std::process::ExitCode;
use store::Reader;

/// Carry out an intent, or only compile it into plan, patch and tests
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma intent run intent.json                     # compile it, apply its patch, carry out its plan\n  norma intent show @last                          # its steps, and what it waits for\n  norma intent answer @last approve\n  norma intent compile intent.json --mode record   # ask the agent, and keep what it answers\n  norma intent compile intent.json                 # the recorded answer; no agent is started\n  norma intent compile - --seed 2 --mode live --json < intent.json\n  norma intent health\n  norma intent diff SESSION | git apply --check"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Carry out an intent; the id of its run is the last line
    Run(run::Args),
    /// Answer what a plan waits for
    Answer(answer::Args),
    /// Show the steps of a run and what it waits for
    Show(show::Args),
    /// Print plan, patch, tests and transcript of an intent
    Compile(compile::Args),
    /// Check whether the agent that compiles is available, and what to do if not
    Health(health::Args),
    /// Print the recorded patch of a session
    Diff(diff::Args),
}

/// The run that is meant: by any of its names, or by the intent that it carries out.
fn find_run(reader: &Reader, given: &str) -> Outcome<String> {
    let of_intent = match contract::intent::is_intent_id(given) {
        true => reader.run_of_intent(given)?,
        false => None,
    };
    Ok(of_intent.map_or_else(|| reader.find_run(given), Ok)?)
}

/// A server that somebody else runs; Ctrl-C ends whatever is asked of it.
fn compiler<'c>(here: &Surroundings, context: &'c Context, url: &str) -> Outcome<Compiler<'c>> {
    let mode = runner::settings_in_force(context, here.config.as_deref())?.settings.config.mode.max(here.mode);
    Ok(Compiler::new(context, url, mode, super::sandbox::cancel()?)?)
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Run(args) => args.run(here),
            Verb::Answer(args) => args.run(here),
            Verb::Show(args) => args.run(here),
            Verb::Compile(args) => args.run(here),
            Verb::Health(args) => args.run(here),
            Verb::Diff(args) => args.run(here),
        }
    }
}
