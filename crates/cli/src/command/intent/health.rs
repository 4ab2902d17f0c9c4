//! `norma intent health`: could the agent that compiles intents do so now? Nobody is asked; it is what `norma doctor` knows
//! of that agent, of its configuration and of what would confine it.

use crate::command::contract::settings;
use crate::command::doctor;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Which: an entry of "agents", or codex, claude, gemini or opencode
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// An opencode server of this machine instead
    #[arg(long, value_name = "URL", conflicts_with = "agent")]
    server: Option<String>,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = here.context()?;
        if let Some(url) = &self.server {
            let health = super::compiler(here, &context, url)?.health()?;
            let value = serde_json::json!({"ok": health.healthy, "server": url, "version": health.version});
            here.print(&value, || format!("opencode {} answers", crate::text::safe(&health.version)));
            return Ok(if health.healthy { ExitCode::SUCCESS } else { ExitCode::from(code::ENVIRONMENT) });
        }
        let settings = settings(here, &context)?;
        let name = settings.config.compiler(self.agent);
        let agent = settings.config.agent(&name).ok_or_else(|| {
            CommandError::usage(format!("there is no agent {name:?}"), "`norma doctor` lists those that are known")
        })?;
        let checks = doctor::fitness(here, &context, &settings, (&name, &agent));
        let ok = checks.iter().all(doctor::Check::is_good);
        here.print(&serde_json::json!({"ok": ok, "agent": name, "checks": checks}), || doctor::told(&checks));
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(code::ENVIRONMENT) })
    }
}
