//! What settings would have run and what they allow, for whoever is to trust them.

use crate::Settings;
use crate::context::policy::policy_path;
use contract::{Backend, printable};
use store::Layout;

/// So many differences of one policy are told.
const DIFFERENCES_MAX: usize = 20;

impl Settings {
    /// The files that trust is about, for people.
    pub fn files(&self, layout: &Layout) -> String {
        let changed = self.policies.changed();
        let policies: Vec<String> = changed.keys().map(|name| layout.shown(&policy_path(layout, name))).collect();
        let config = layout.shown(&self.path);
        if policies.is_empty() { config } else { format!("{config} with {}", policies.join(" and ")) }
    }

    /// What a configuration would run, and what its policies say otherwise than the built-in ones, for people.
    pub fn describe(&self, layout: &Layout) -> String {
        let runs = self.what_runs();
        let lines = if runs.is_empty() {
            "  nothing: it names no agents".to_owned()
        } else {
            format!("  {}", runs.join("\n  "))
        };
        let confined = match self.config.sandbox.backend {
            Backend::Native => "in a sandbox",
            Backend::Microsandbox => "in virtual machines of this machine (microsandbox)",
            Backend::E2b => "in virtual machines of a service (e2b), TO WHICH THE REPOSITORY'S FILES GO",
            Backend::None => "as you and WITHOUT A SANDBOX",
        };
        let mut text = format!("it would run, {confined}:\n{lines}\nsha256 {}", self.config_digest);
        text.push_str(&self.describe_policies(layout));
        text
    }

    /// What the changed policies say, each on lines of its own; nothing if none is changed.
    pub fn describe_policies(&self, layout: &Layout) -> String {
        let mut text = String::new();
        for (name, digest) in self.policies.changed() {
            let path = layout.shown(&policy_path(layout, name));
            let differences = self.policies.differences(name);
            text.push_str(&format!("\n{path} is not the built-in one:"));
            for difference in differences.iter().take(DIFFERENCES_MAX) {
                text.push_str(&format!("\n  {}", printable(difference)));
            }
            if differences.len() > DIFFERENCES_MAX {
                text.push_str(&format!("\n  and {} more", differences.len() - DIFFERENCES_MAX));
            }
            text.push_str(&format!("\nsha256 {digest}"));
        }
        text
    }

    /// What is said of policies that count although they are not there.
    pub(crate) fn missing_policies(&self, layout: &Layout) -> Option<String> {
        let (dir, names) = (layout.shown(&layout.policies()), self.policies.missing.join(", "));
        // Where the user's own settings count, nobody expects any there.
        let missing = !self.policies.missing.is_empty() && self.path == layout.config();
        missing.then(|| format!("the built-in {names} count, since they are not in {dir}; norma init writes them"))
    }

    /// Each program that would run.
    pub fn what_runs(&self) -> Vec<String> {
        let line = |(role, agent): (&String, &contract::AgentConfig)| {
            let mut text = format!("{role}: {} {}", agent.kind.as_str(), agent.cmd.join(" "));
            if !agent.env.is_empty() {
                let names: Vec<&str> = agent.env.keys().map(String::as_str).collect();
                text.push_str(&format!(" (sets {})", names.join(", ")));
            }
            if !agent.pass_env.is_empty() {
                text.push_str(&format!(" (is given {})", agent.pass_env.join(", ")));
            }
            if let Some(api) = agent.api {
                text.push_str(&format!(" (model over norma: {})", api.as_str()));
            }
            if !agent.network.is_empty() {
                text.push_str(&format!(" (reaches {})", agent.network.join(", ")));
            }
            printable(text.trim_end())
        };
        let setup = Some(&self.config.workspace.setup).filter(|cmd| !cmd.is_empty());
        let setup = setup.map(|cmd| printable(&format!("setup of workspaces: {}", cmd.join(" "))));
        self.config.agents.iter().map(line).chain(setup).collect()
    }
}
