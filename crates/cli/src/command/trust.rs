//! `norma trust`: this configuration, with the policies beside it, may choose what runs here and what that may do.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::load_settings;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Trust .norma/config.json and .norma/policies as they are now: they choose what runs
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma trust --show   # what would run\n  norma trust")]
pub(crate) struct Args {
    /// Only show what the configuration would run, which policies are changed, and whether they are trusted
    #[arg(long)]
    show: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = here.context_to_be()?;
        let path = context.layout.config();
        let settings = load_settings(&path, &context.layout)?;
        if !self.show {
            context.trust.trust(&settings)?;
            // Whoever trusts what lies there has made the directory theirs.
            context.layout.publish()?;
        }
        let trusted = context.trust.trusts(&settings);
        let changed = settings.policies.changed();
        let policies: Vec<Value> = changed
            .iter()
            .map(|(name, digest)| json!({"name": name, "sha256": digest, "differences": settings.policies.differences(name)}))
            .collect();
        let value = json!({"config": context.layout.shown(&path), "sha256": settings.config_digest, "trusted": trusted, "runs": settings.what_runs(), "policies": policies});
        Ok(here.print(&value, || {
            let verdict = if trusted { "trusted" } else { "not trusted; to trust it: norma trust" };
            format!("{}\n{} is {verdict}", settings.describe(&context.layout), settings.files(&context.layout))
        }))
    }
}
