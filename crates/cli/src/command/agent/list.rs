//! `norma agent list`: who there is, and what each lacks.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::documents::AgentRegistry;
use contract::{AgentType, Config};
use runner::{Context, Reach, Surveyed, load_policies, load_settings};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// List agents: the built-in ones and yours, with program, version, sign-in and roles
#[derive(clap::Args)]
#[command(
    after_help = "Each program is started to print its version, and those that use ACP to open a session. Nothing of an untrusted configuration is started.\n\nExample:\n  norma agent list --json"
)]
pub(super) struct Args {}

#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Whether the configuration names it.
    configured: bool,
    program: Option<PathBuf>,
    version: Option<String>,
    /// Whether it could take a turn, as far as that can be told.
    ready: bool,
    /// How it reaches its model, or what is missing.
    state: String,
    roles: Vec<&'static str>,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = here.context_to_be()?;
        let path = context.layout.config();
        let policies = load_policies(&context.layout)?;
        let registry = policies.agent_registry();
        let (config, is_trusted) = match path.exists() {
            false => (Config::starting_point(), true),
            true => {
                let settings = load_settings(&path, &context.layout)?;
                let is_trusted = context.trust.trusts(&settings);
                (settings.config, is_trusted)
            }
        };
        let looked_at = if is_trusted { config.clone() } else { Config::starting_point() };
        let mut rows: Vec<Row> = runner::survey(&context, &looked_at).into_iter().map(|it| row(it, registry)).collect();
        let others = config.agents.keys().filter(|name| !rows.iter().any(|row| row.name == **name && row.configured));
        let others: Vec<Row> =
            others.map(|name| not_asked(here, &context, &config, name, is_trusted, registry)).collect();
        rows.retain(|row| !others.iter().any(|other| other.name == row.name));
        rows.extend(others);
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(here.print(&rows, || rows.iter().map(line).collect::<Vec<_>>().join("\n")))
    }
}

fn roles(registry: &AgentRegistry, name: &str) -> Vec<&'static str> {
    registry.agents.iter().filter(|agent| agent.agent_id == name).map(|agent| agent.role.as_str()).collect()
}

fn row(agent: Surveyed, registry: &AgentRegistry) -> Row {
    let problem = agent.handshake.as_ref().and_then(|handshake| handshake.problem.as_ref());
    let (ready, state) = match (&agent.program, problem, &agent.reach) {
        (None, ..) => {
            let install = agent.install.map(|command| format!(": {command}")).unwrap_or_default();
            (false, format!("not installed{install}"))
        }
        (_, Some(problem), _) => (false, problem.message().to_owned()),
        (.., Reach::Key(variable)) => (true, format!("key in {variable}, kept by norma")),
        (.., Reach::Address(url)) => (true, format!("model at {url}")),
        (.., Reach::SignIn) => (true, "signed in".to_owned()),
        (.., Reach::Own) => (true, "opens a session".to_owned()),
        (.., Reach::Not(what_to_do)) => (false, what_to_do.clone()),
    };
    Row {
        roles: roles(registry, &agent.name),
        name: agent.name,
        kind: agent.kind.as_str(),
        configured: agent.configured,
        program: agent.program,
        version: agent.version,
        ready,
        state,
    }
}

/// An agent of which nothing is started: an executable works as soon as it is, and nothing of a configuration that nobody
/// trusts is.
fn not_asked(
    here: &Surroundings,
    context: &Context,
    config: &Config,
    name: &str,
    is_trusted: bool,
    registry: &AgentRegistry,
) -> Row {
    let agent = &config.agents[name];
    let program = runner::process::resolve(agent.program(), &here.agent_path(), &context.user.root);
    let state = match (is_trusted, &program, agent.kind) {
        (false, ..) => "not trusted, so it was not started: norma trust --show",
        (true, None, _) => "its program was not found",
        (true, Some(_), AgentType::Exec) => "its program was found",
        (true, Some(_), _) => "not started",
    };
    Row {
        name: name.to_owned(),
        kind: agent.kind.as_str(),
        configured: true,
        ready: is_trusted && program.is_some(),
        program,
        version: None,
        state: state.to_owned(),
        roles: roles(registry, name),
    }
}

fn line(row: &Row) -> String {
    let mark = if row.ready { "ok" } else { "--" };
    let version = row.version.as_deref().map(|version| format!("{}  ", safe(version))).unwrap_or_default();
    let program = row.program.as_ref().map(|program| format!("\n   program: {}", safe(&program.to_string_lossy())));
    let roles = match row.roles.is_empty() {
        true => "\n   roles: none, so no contract can name it (policies/agent_registry.json)".to_owned(),
        false => format!("\n   roles: {}", row.roles.join(", ")),
    };
    let (name, kind, state) = (&row.name, row.kind, safe(&row.state));
    format!("{mark} {name} ({kind})  {version}{state}{}{roles}", program.unwrap_or_default())
}
