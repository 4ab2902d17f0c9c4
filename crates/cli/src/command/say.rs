//! `norma say`: tells a node of a graph something.

use super::graph::edit;
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use contract::graph::GraphEdit;
use std::process::ExitCode;

/// Tell a node of a graph something, which starts its next turn
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma say Coder \"use the standard library\"\n  norma say Coder \"stop: the other file\" --interrupt"
)]
pub(crate) struct Args {
    /// Its label, or its id
    node: String,
    /// What it is told
    text: String,
    /// End the turn that it is in, and have it read this first
    #[arg(long)]
    interrupt: bool,
    /// The run, a unique prefix of its id, or @last for the newest graph
    #[arg(long, default_value = "@last")]
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let Args { node, text: content, interrupt, run } = self;
        edit(here, &run, GraphEdit::Say { id: store::new_uuid(), node, content, interrupt })
    }
}
