//! `norma edge`: which nodes of a graph hand work to which.

use super::graph::edit;
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use clap::Subcommand;
use contract::graph::{EdgeInput, GraphEdit};
use contract::view::graph::EdgeKind;
use std::process::ExitCode;

/// Draw and remove edges of a graph
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma edge add Lead Coder\n  norma edge add Coder Reviewer --one-way --label \"please review\"\n  norma graph show   # has the ids of edges\n  norma edge rm 019beb59-f9b2-7f01-8203-040506abcdef"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Draw an edge; its id is the last line
    Add {
        /// The node that hands work on: its label, or its id
        from: String,
        /// The node that gets it
        to: String,
        /// Results do not come back over it
        #[arg(long)]
        one_way: bool,
        /// Whether what goes over it starts a turn, or only tells; without this, it tells whoever leads
        #[arg(long, value_name = "TYPE", value_parser = ["handoff", "report"])]
        r#type: Option<String>,
        /// What people read beside it
        #[arg(long)]
        label: Option<String>,
        /// The run, a unique prefix of its id, or @last for the newest graph
        #[arg(long, default_value = "@last")]
        run: String,
    },
    /// Remove an edge
    Rm {
        /// Its id
        edge: String,
        /// The run, a unique prefix of its id, or @last for the newest graph
        #[arg(long, default_value = "@last")]
        run: String,
    },
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Add { from, to, one_way, r#type, label, run } => {
                let kind = r#type.map(|word| if word == "report" { EdgeKind::Report } else { EdgeKind::Handoff });
                let edge = EdgeInput { id: None, from, to, bidirectional: Some(!one_way), kind, label };
                edit(here, &run, GraphEdit::SetEdge { edge, id: store::new_uuid() })
            }
            Verb::Rm { edge, run } => edit(here, &run, GraphEdit::RemoveEdge { edge }),
        }
    }
}
