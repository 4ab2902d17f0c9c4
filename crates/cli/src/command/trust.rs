//! `norma trust`: this configuration may choose what runs here.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::{Config, Digest};
use runner::load_config;
use serde_json::json;
use std::process::ExitCode;

/// Trust .norma/config.json as it is now: it chooses what runs on this machine
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma trust --show   # what would run\n  norma trust")]
pub(crate) struct Args {
    /// Only show what the configuration would run, and whether it is trusted
    #[arg(long)]
    show: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = here.context_to_be()?;
        let path = context.layout.config();
        let (config, digest) = load_config(&path)?;
        if !self.show {
            context.trust.trust(digest)?;
        }
        let trusted = context.trust.trusts(&digest);
        let value = json!({"config": context.layout.shown(&path), "sha256": digest, "trusted": trusted, "runs": what_runs(&config)});
        Ok(here.print(&value, || {
            let verdict = if trusted { "trusted" } else { "not trusted; to trust it: norma trust" };
            format!("{}\n{} is {verdict}", describe(&config, &digest), context.layout.shown(&path))
        }))
    }
}

fn what_runs(config: &Config) -> Vec<String> {
    let line = |(role, agent): (&String, &contract::AgentConfig)| {
        let mut text = format!("{role}: {} {}", agent.kind.as_str(), agent.cmd.join(" "));
        if !agent.env.is_empty() {
            let names: Vec<&str> = agent.env.keys().map(String::as_str).collect();
            text.push_str(&format!(" (sets {})", names.join(", ")));
        }
        safe(text.trim_end())
    };
    config.agents.iter().map(line).collect()
}

/// What a configuration would run, for people.
pub(crate) fn describe(config: &Config, digest: &Digest) -> String {
    let runs = what_runs(config);
    let lines =
        if runs.is_empty() { "  nothing: it names no agents".to_owned() } else { format!("  {}", runs.join("\n  ")) };
    format!("it would run, as you and without a sandbox:\n{lines}\nsha256 {digest}")
}
