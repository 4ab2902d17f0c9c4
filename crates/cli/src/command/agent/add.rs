//! `norma agent add`: from a command line to an agent that contracts can name. The program is found, started confined and
//! asked for a session; only then is anything written.

use super::super::init;
use super::require_own_config;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::documents::AgentRole;
use contract::{AgentConfig, AgentType, ModelApi};
use runner::{AgentChange, Context, HANDSHAKE_PATIENCE, Handshake, HandshakeProblem, handshake};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The port of a host that is given without one.
const HTTPS: u16 = 443;

/// Programs that fetch the agent when they are started, which no agent can where it is confined.
const FETCHERS: [(&str, &str); 4] = [
    ("npx", "npm install -g PACKAGE"),
    ("bunx", "npm install -g PACKAGE"),
    ("uvx", "uv tool install PACKAGE"),
    ("pipx", "pipx install PACKAGE"),
];

/// Add an agent: find its program, try it in a sandbox, write its entries, trust them
#[derive(clap::Args)]
#[command(
    after_help = "Nothing is written if the program is missing, does not start, does not use ACP or is not signed in; --unchecked skips this check.\n\nExamples:\n  norma agent add qwen --api openai --model qwen3-coder -- qwen --acp            # key in OPENAI_API_KEY, which norma holds\n  norma agent add claude-acp --key-env ANTHROPIC_API_KEY -- claude-agent-acp\n  norma agent add vibe --pass-env MISTRAL_API_KEY --host api.mistral.ai -- vibe-acp\n  norma agent add mine --type exec -- agents/mine"
)]
pub(super) struct Args {
    /// The name that contracts and --agent use
    name: String,
    /// Its protocol: the Agent Client Protocol, or one JSON request and answer (exec)
    #[arg(long = "type", value_name = "TYPE", value_parser = ["acp", "exec"], default_value = "acp")]
    kind: String,
    /// A role of the agent registry, such as WORKER or REVIEWER (can be repeated) [default: WORKER]
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// The API of its model; norma then forwards its calls and keeps the key
    #[arg(long, value_name = "API", value_parser = ModelApi::ALL.map(ModelApi::as_str))]
    api: Option<String>,
    /// The variable with its model's key, if it is not the usual one; the agent never sees the key
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// The address of its model, instead of the provider's own
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A host that the agent may reach itself, such as its provider's (can be repeated)
    #[arg(long, value_name = "HOST[:PORT]")]
    host: Vec<String>,
    /// A variable to set; {model_url}, {model_key} and {model} are filled in (can be repeated; never a key)
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A variable of your environment to pass on (can be repeated)
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// The directory of the repository in which it starts
    #[arg(long, value_name = "DIR")]
    path: Option<String>,
    /// Write the entries even if the handshake fails
    #[arg(long)]
    unchecked: bool,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    cmd: Vec<String>,
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        require_own_config(here)?;
        let context = Arc::new(here.context_to_be()?);
        let (agent, roles) = (self.agent(here, &context)?, self.roles()?);
        let change = AgentChange::adding(&context, &self.name, &agent, &roles)?;
        let found = match agent.kind {
            AgentType::Acp => handshake(&context, &change.settings().config, &agent, HANDSHAKE_PATIENCE)?,
            _ => resolved(here, &context, &agent),
        };
        if let Some(problem) = found.problem.as_ref().filter(|_| !self.unchecked) {
            return Err(self.refusal(problem, &found, &agent));
        }
        let made = (!context.layout.exists()).then(|| init::initialize(here, &context)).transpose()?;
        change.make(&context)?;
        let layout = &context.layout;
        let value = json!({
            "name": self.name, "type": agent.kind.as_str(), "cmd": agent.cmd, "roles": roles, "handshake": found,
            "config": layout.shown(&layout.config()), "initialized": made.is_some(), "trusted": true,
        });
        Ok(here.print(&value, || self.told(&context, &agent, &roles, &found, made.is_some())))
    }

    /// The entry, from what was typed.
    fn agent(&self, here: &Surroundings, context: &Context) -> Outcome<AgentConfig> {
        let kind = if self.kind == "exec" { AgentType::Exec } else { AgentType::Acp };
        let mut cmd = self.cmd.clone();
        if let Some((_, install)) = FETCHERS.iter().find(|(fetcher, _)| *fetcher == cmd[0]) {
            return Err(CommandError::usage(
                format!("{} would download the agent at every start, which the sandbox does not allow", cmd[0]),
                format!("install it once ({install}), and name its own program"),
            ));
        }
        cmd[0] = program(here, context, &cmd[0])?;
        Ok(AgentConfig {
            cmd,
            api: self.api()?,
            key_env: self.key_env.clone(),
            base_url: self.base_url.clone(),
            model: self.model.clone(),
            network: self.host.iter().map(|host| with_port(host)).collect(),
            env: self.variables()?,
            pass_env: self.pass_env.clone(),
            path: self.path.clone(),
            ..AgentConfig::of(kind)
        })
    }

    /// What the model speaks: as it was said, or as the variable of its key says.
    fn api(&self) -> Outcome<Option<ModelApi>> {
        if let Some(word) = &self.api {
            return Ok(ModelApi::ALL.into_iter().find(|api| api.as_str() == word));
        }
        let Some(variable) = self.key_env.as_deref() else { return Ok(None) };
        let by_variable =
            [("ANTHROPIC_", ModelApi::Anthropic), ("OPENAI_", ModelApi::Openai), ("GEMINI_", ModelApi::Gemini)];
        let found = by_variable.into_iter().find(|(begin, _)| variable.starts_with(begin)).map(|(_, api)| api);
        found.map(Some).ok_or_else(|| {
            CommandError::usage(
                format!("{variable} does not tell which API the model has"),
                format!(
                    "add --api anthropic, openai or gemini if norma is to hold the key; for any other provider give the agent \
                     the key and its hosts: --pass-env {variable} --host HOST"
                ),
            )
        })
    }

    fn variables(&self) -> Outcome<BTreeMap<String, String>> {
        let pair = |text: &String| {
            let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| CommandError::usage(format!("--env {text:?} has no value"), "write --env NAME=VALUE"))
        };
        self.env.iter().map(pair).collect()
    }

    fn roles(&self) -> Outcome<Vec<AgentRole>> {
        if self.role.is_empty() {
            return Ok(vec![AgentRole::Worker]);
        }
        let role = |word: &String| {
            let known = serde_json::from_value(json!(word.to_uppercase().replace('-', "_")));
            known.map_err(|_| {
                let hint = "roles are those of the agent registry: WORKER, REVIEWER, PM, TECH_LEAD, TEST_RUNNER, …";
                CommandError::usage(format!("{word:?} is not a role"), hint)
            })
        };
        self.role.iter().map(role).collect()
    }

    /// Why nothing was written, and what to do.
    fn refusal(&self, problem: &HandshakeProblem, found: &Handshake, agent: &AgentConfig) -> CommandError {
        let what = match problem {
            HandshakeProblem::NotInstalled(_) => "is not installed",
            HandshakeProblem::NotStarted(_) => "does not start",
            HandshakeProblem::NotSignedIn(_) => "is not signed in",
            HandshakeProblem::TimedOut(_) => "does not answer",
            HandshakeProblem::Protocol(_) => "does not use ACP",
        };
        let mut causes = vec![safe(problem.message())];
        if !found.refused_hosts.is_empty() {
            causes.push(format!("it tried to reach {}, and may not", found.refused_hosts.join(", ")));
        }
        let hint = advice(problem, found, agent);
        let message = format!("{} was not added: it {what}", self.name);
        CommandError::refused(code::ENVIRONMENT, message, causes, Some(hint))
    }

    fn told(
        &self,
        context: &Context,
        agent: &AgentConfig,
        roles: &[AgentRole],
        found: &Handshake,
        initialized: bool,
    ) -> String {
        let layout = &context.layout;
        let mut lines = Vec::new();
        if initialized {
            lines.push(format!("state directory {} created", layout.shown(&layout.state)));
        }
        let itself = found.agent.as_deref().map(|it| format!(": {}", safe(it))).unwrap_or_default();
        lines.push(format!("added {} ({}){itself}", self.name, safe(&agent.cmd.join(" "))));
        match (&found.problem, agent.kind) {
            (Some(problem), _) => lines.push(format!("unchecked: {}", safe(problem.message()))),
            (None, AgentType::Acp) => lines.push("handshake: it starts in the sandbox and opens a session".to_owned()),
            (None, _) => lines.push("its program was found; it was not started, since that would be a turn".to_owned()),
        }
        if let Some(api) = agent.api {
            lines.push(format!("model: through norma ({}), which keeps the key", api.as_str()));
        }
        if !agent.network.is_empty() {
            lines.push(format!("network: {}, for it and everything it starts", agent.network.join(", ")));
        }
        let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        lines.push(format!(
            "registered as {}; configuration and policies are trusted as they are now",
            roles.join(", ")
        ));
        lines.push(format!(
            "next: norma run --goal \"what you want\" --agent {} --allow PATH --test COMMAND",
            self.name
        ));
        lines.join("\n")
    }
}

/// The program as the configuration names it: a file of the repository by its path there, anything else that lies
/// somewhere by its absolute path, and a bare name as it is.
fn program(here: &Surroundings, context: &Context, typed: &str) -> Outcome<String> {
    if !typed.contains('/') {
        return Ok(typed.to_owned());
    }
    let full = here.cwd.join(typed);
    // Only the directory: what the program itself is called is part of what it was installed with.
    let real = full.parent().and_then(|dir| dir.canonicalize().ok()).zip(full.file_name());
    let full = real.map_or(full.clone(), |(dir, name)| dir.join(name));
    let inside = full.strip_prefix(&context.layout.root).ok().and_then(Path::to_str);
    let is_committed = |path: &&str| context.user.has_committed(path).unwrap_or_default();
    match inside {
        // A name without a slash would be looked for on PATH.
        Some(path) if is_committed(&path) && path.contains('/') => Ok(path.to_owned()),
        Some(path) if is_committed(&path) => Ok(format!("./{path}")),
        Some(path) if full.is_file() && !is_installed(&full) => Err(CommandError::usage(
            format!("{path} is not committed, and agents see the files of the commit"),
            "commit it first: git add … && git commit",
        )),
        _ => Ok(full.to_string_lossy().into_owned()),
    }
}

/// Whether a program lies where packages are installed.
fn is_installed(program: &Path) -> bool {
    let in_package = program.components().any(|part| part.as_os_str() == "node_modules");
    let environment = program.parent().and_then(Path::parent);
    in_package || environment.is_some_and(|dir| dir.join("pyvenv.cfg").is_file())
}

fn with_port(host: &str) -> String {
    if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:{HTTPS}")
    }
}

/// What can be known of an `exec` agent without having it work: that its program is there.
fn resolved(here: &Surroundings, context: &Context, agent: &AgentConfig) -> Handshake {
    let (program, root) = (agent.program(), &context.layout.root);
    let full = match program.contains('/') && !program.starts_with('/') {
        true => root.join(program).to_string_lossy().into_owned(),
        false => program.to_owned(),
    };
    let is_there = runner::process::resolve(&full, &here.agent_path(), root).is_some();
    let message = format!("{program:?} is not an executable file here");
    let problem = (!is_there).then_some(HandshakeProblem::NotInstalled(message));
    Handshake { problem, ..Handshake::default() }
}

/// What a person can do about it.
fn advice(problem: &HandshakeProblem, found: &Handshake, agent: &AgentConfig) -> String {
    match problem {
        HandshakeProblem::NotInstalled(_) => "install it, or give its path; then run the same command again".to_owned(),
        HandshakeProblem::NotSignedIn(_) if agent.api.is_some() || !agent.pass_env.is_empty() => {
            "set the variable, then run the same command again; to skip the check: --unchecked".to_owned()
        }
        HandshakeProblem::NotSignedIn(_) => {
            "give it a key: --api anthropic, openai or gemini if norma is to hold it (in \
                                             ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY), or --pass-env NAME \
                                             --host HOST for the agent's own"
                .to_owned()
        }
        _ if !found.refused_hosts.is_empty() => {
            let hosts: Vec<String> = found.refused_hosts.iter().map(|host| format!("--host {host}")).collect();
            format!("if these belong to its provider: {}; to skip the check: --unchecked", hosts.join(" "))
        }
        _ => "start it yourself to see its output; if it reads one JSON request and prints one answer: --type exec; to skip the check: --unchecked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port() {
        for (typed, written) in [("api.x.ai", "api.x.ai:443"), ("localhost:8080", "localhost:8080"), ("a:b", "a:b:443")]
        {
            assert_eq!(with_port(typed), written);
        }
    }
}
