//! `norma trust`: this configuration, with the policies beside it, may choose what runs here and what that may do.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::{Backend, Config};
use runner::{Settings, load_settings};
use serde_json::{Value, json};
use std::process::ExitCode;
use store::Layout;

/// How many differences of a policy are shown; the rest is counted.
const DIFFERENCES_MAX: usize = 20;

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
        }
        let trusted = context.trust.trusts(&settings);
        let changed = settings.policies.changed();
        let policies: Vec<Value> = changed
            .iter()
            .map(|(name, digest)| json!({"name": name, "sha256": digest, "differences": settings.policies.differences(name)}))
            .collect();
        let value = json!({"config": context.layout.shown(&path), "sha256": settings.config_digest, "trusted": trusted, "runs": what_runs(&settings.config), "policies": policies});
        Ok(here.print(&value, || {
            let verdict = if trusted { "trusted" } else { "not trusted; to trust it: norma trust" };
            format!("{}\n{} is {verdict}", describe(&settings, &context.layout), named(&settings, &context.layout))
        }))
    }
}

/// The files that trust is about, for people.
pub(crate) fn named(settings: &Settings, layout: &Layout) -> String {
    let changed = settings.policies.changed();
    let policies: Vec<String> = changed.keys().map(|name| layout.shown(&layout.policies().join(name))).collect();
    let config = layout.shown(&settings.path);
    if policies.is_empty() { config } else { format!("{config} with {}", policies.join(" and ")) }
}

fn what_runs(config: &Config) -> Vec<String> {
    let line = |(role, agent): (&String, &contract::AgentConfig)| {
        let mut text = format!("{role}: {} {}", agent.kind.as_str(), agent.cmd.join(" "));
        if !agent.env.is_empty() {
            let names: Vec<&str> = agent.env.keys().map(String::as_str).collect();
            text.push_str(&format!(" (sets {})", names.join(", ")));
        }
        if !agent.network.is_empty() {
            text.push_str(&format!(" (reaches {})", agent.network.join(", ")));
        }
        safe(text.trim_end())
    };
    let setup = Some(&config.workspace.setup).filter(|cmd| !cmd.is_empty());
    let setup = setup.map(|cmd| safe(&format!("setup of workspaces: {}", cmd.join(" "))));
    config.agents.iter().map(line).chain(setup).collect()
}

/// What a configuration would run, and what its policies say otherwise than the built-in ones, for people.
pub(crate) fn describe(settings: &Settings, layout: &Layout) -> String {
    let runs = what_runs(&settings.config);
    let lines =
        if runs.is_empty() { "  nothing: it names no agents".to_owned() } else { format!("  {}", runs.join("\n  ")) };
    let confined = match settings.config.sandbox.backend {
        Backend::Native => "in a sandbox",
        Backend::None => "as you and WITHOUT A SANDBOX",
    };
    let mut text = format!("it would run, {confined}:\n{lines}\nsha256 {}", settings.config_digest);
    text.push_str(&describe_policies(settings, layout));
    text
}

/// What the changed policies say, each on lines of its own; nothing if none is changed.
pub(crate) fn describe_policies(settings: &Settings, layout: &Layout) -> String {
    let mut text = String::new();
    for (name, digest) in settings.policies.changed() {
        let path = layout.shown(&layout.policies().join(name));
        let differences = settings.policies.differences(name);
        text.push_str(&format!("\n{path} is not the built-in one:"));
        for difference in differences.iter().take(DIFFERENCES_MAX) {
            text.push_str(&format!("\n  {}", safe(difference)));
        }
        if differences.len() > DIFFERENCES_MAX {
            text.push_str(&format!("\n  and {} more", differences.len() - DIFFERENCES_MAX));
        }
        text.push_str(&format!("\nsha256 {digest}"));
    }
    text
}
