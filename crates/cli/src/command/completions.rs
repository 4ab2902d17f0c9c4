//! `norma completions`: a completion script for a shell.

use crate::error::Outcome;
use clap::CommandFactory;
use std::process::ExitCode;

/// Print a completion script for your shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma completions bash > ~/.local/share/bash-completion/completions/norma")]
pub(crate) struct Args {
    /// Which shell
    shell: clap_complete::Shell,
}

impl Args {
    pub(crate) fn run(self) -> Outcome<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "norma", &mut script);
        crate::text::bytes_out(&script);
        Ok(ExitCode::SUCCESS)
    }
}
