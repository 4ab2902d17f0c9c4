//! `norma intent diff`: the patch that came of a session in which an intent was compiled.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{patch_out, raw_out};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The session, as the transcript and `norma show` name it
    session: String,
    /// What an opencode server of this machine says that the session changed, as JSON
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if let Some(url) = &self.server {
            let context = here.context()?;
            let diff = super::compiler(here, &context, url)?.diff(&self.session)?;
            return Ok(here.print(&diff, || diff.to_string()));
        }
        let patch = runner::patch_of_session(&here.reader()?, &self.session)?;
        if here.json {
            return Ok(here.print(&patch, String::new));
        }
        for file in &patch.files {
            patch_out(file.diff.as_bytes(), here.terminal);
            // The next file's diff begins a line of its own.
            if !file.diff.is_empty() && !file.diff.ends_with('\n') {
                raw_out("\n");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
