//! `norma man`: the manual pages, one a verb, from the same texts as `--help`. Archives ship them; whoever installed
//! from source writes them once.

use super::Cli;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use clap::CommandFactory;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the manual pages into a directory
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma man ~/.local/share/man/man1 && man norma-run")]
pub(crate) struct Args {
    /// Where to write them; it is created if needed
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let dir = here.cwd.join(&self.dir);
        let written = write(&dir).map_err(|error| {
            let message = format!("could not write manual pages to {}: {error}", dir.display());
            CommandError::new(code::ENVIRONMENT, message, "name a directory that you can write")
        })?;
        Ok(here.print(&serde_json::json!({"dir": dir, "pages": written}), || {
            format!("{} pages written to {}", written.len(), dir.display())
        }))
    }
}

/// A page for norma and each verb, with its subcommands; answers their names.
fn write(dir: &Path) -> io::Result<Vec<String>> {
    std::fs::create_dir_all(dir)?;
    let mut command = Cli::command();
    command.build();
    let mut written = Vec::new();
    let mut open = vec![&command];
    while let Some(command) = open.pop() {
        let page = clap_mangen::Man::new(command.clone());
        let mut text = Vec::new();
        page.render(&mut text)?;
        std::fs::write(dir.join(page.get_filename()), text)?;
        written.push(page.get_filename());
        open.extend(command.get_subcommands().filter(|verb| !verb.is_hide_set()));
    }
    written.sort();
    Ok(written)
}
