//! `norma agent`: which agents there are, and adding one by its command line alone.

mod add;
mod list;
mod remove;

use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use clap::Subcommand;
use std::process::ExitCode;

/// Add, list and remove agents
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma agent add qwen --api openai --model qwen3-coder -- qwen --acp\n  norma agent list\n  norma agent remove qwen"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Add(Box<add::Args>),
    List(list::Args),
    Remove(remove::Args),
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Add(args) => args.run(here),
            Verb::List(args) => args.run(here),
            Verb::Remove(args) => args.run(here),
        }
    }
}

/// Refuses a configuration of somebody's own: what is changed is that of the state directory.
fn require_own_config(here: &Surroundings) -> Outcome<()> {
    match &here.config {
        None => Ok(()),
        Some(_) => Err(CommandError::usage(
            "--config names another file than the one that would be changed",
            "leave out --config, or edit that file yourself (norma help config)",
        )),
    }
}
