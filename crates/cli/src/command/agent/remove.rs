//! `norma agent remove`: an agent's entries are taken out of the configuration and the registry.

use super::require_own_config;
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::AgentChange;
use serde_json::json;
use std::process::ExitCode;

/// Remove an agent that was added; runs that it took part in stay as they are
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma agent remove qwen")]
pub(super) struct Args {
    /// Its name
    name: String,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        require_own_config(here)?;
        let context = here.context()?;
        AgentChange::removing(&context, &self.name)?.make(&context)?;
        let text = || format!("removed {}; configuration and policies are trusted as they are now", self.name);
        Ok(here.print(&json!({"name": self.name, "removed": true, "trusted": true}), text))
    }
}
