//! Adding an agent to a state directory and taking one away: its entry of the configuration, and its entries of the agent
//! registry. Both files change as one, and trust with them: whoever typed the program has chosen it. Settings that were
//! not trusted before are not changed, since trusting them would trust what somebody else wrote beside it.

use crate::context::policy::{load_policies, policy_path, read};
use crate::context::trust::invalid;
use crate::{Context, Error, Result, Settings};
use contract::documents::agent_registry::{ApprovalPolicy, Defaults, Platform, RegisteredAgent};
use contract::documents::task_result::ProducerRole;
use contract::documents::{AgentRegistry, AgentRole};
use contract::json::pretty;
use contract::work::NetworkRight;
use contract::{AgentConfig, AgentType, Config, Policies};
use serde_json::{Value, json};
use std::path::Path;

/// What is written, and under what it was thought out.
pub struct AgentChange {
    /// The configuration as it was found.
    found: Vec<u8>,
    config: Vec<u8>,
    /// Only where it changes.
    registry: Option<Vec<u8>>,
    /// What counts once the registry is written and the configuration is not.
    between: Settings,
    after: Settings,
}

/// A configuration to start from, as it is written.
pub fn starting_config() -> Vec<u8> {
    let text = String::from_utf8(pretty(&Config::starting_point())).expect("BUG: JSON is text");
    contract::schema::with_reference(&text, "schemas/config.v1.json").into_bytes()
}

impl AgentChange {
    /// Adds an agent in these roles. Nothing is written yet.
    pub fn adding(context: &Context, name: &str, agent: &AgentConfig, roles: &[AgentRole]) -> Result<AgentChange> {
        let (found, policies) = trusted_files(context)?;
        if AgentType::named(name).is_some() {
            let hint = format!("use it: norma run --agent {name} …; or give yours another name");
            return Err(Error::usage(format!("{name} is built in and needs no entry"), hint));
        }
        let mut config = document(&found);
        if config["agents"].get(name).is_some() {
            let hint = format!("remove it first: norma agent remove {name}; or choose another name");
            return Err(Error::usage(format!("there is an agent {name} already"), hint));
        }
        config["agents"][name] = serde_json::to_value(agent).expect("BUG: an agent is plain data");
        let mut registry = policies.agent_registry().clone();
        let known = registry.agents.len();
        for role in roles {
            if registry.find(name, *role).is_none() {
                registry.agents.push(registered(name, *role));
            }
        }
        let registry = (registry.agents.len() > known).then_some(registry);
        AgentChange::new(context, found, &config, registry, policies)
    }

    /// Takes an agent away, with its entries of the registry that are not built in.
    pub fn removing(context: &Context, name: &str) -> Result<AgentChange> {
        let (found, policies) = trusted_files(context)?;
        let mut config = document(&found);
        let mut registry = policies.agent_registry().clone();
        let (known, built_in) = (registry.agents.len(), Policies::built_in());
        let built_in = built_in.agent_registry();
        registry.agents.retain(|agent| agent.agent_id != name || built_in.agents.contains(agent));
        let is_registered = registry.agents.len() < known;
        let was_there = config["agents"].as_object_mut().and_then(|agents| agents.remove(name)).is_some();
        if !was_there && !is_registered {
            let what = match AgentType::named(name) {
                Some(_) => format!("{name} is built in, and there is no entry of it to remove"),
                None => format!("there is no agent {name}"),
            };
            return Err(Error::usage(what, "see which there are: norma agent list"));
        }
        AgentChange::new(context, found, &config, is_registered.then_some(registry), policies)
    }

    fn new(
        context: &Context,
        found: Vec<u8>,
        config: &Value,
        registry: Option<AgentRegistry>,
        policies: Policies,
    ) -> Result<AgentChange> {
        let path = context.layout.config();
        let registry = registry.map(|registry| pretty(&registry));
        let policies = match &registry {
            None => policies,
            Some(bytes) => policies.with(AgentRegistry::FILE, bytes.clone()).map_err(|problems| {
                let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
                Error::usage(format!("the agent registry would not be valid:{}", lines.concat()), "norma help agents")
            })?,
        };
        let config = pretty(config);
        let settings = |bytes: &[u8]| -> Result<Settings> {
            let read = Config::parse(bytes).map_err(|violations| invalid(&path, &violations))?;
            let settings = Settings::new(read, bytes, &path, policies.clone());
            settings.refuse_plain_secrets().map(|()| settings)
        };
        Ok(AgentChange { between: settings(&found)?, after: settings(&config)?, found, config, registry })
    }

    /// The settings as they will be.
    pub fn settings(&self) -> &Settings {
        &self.after
    }

    /// Writes both files and trusts them. Whatever it is cut off at leaves files that are trusted and valid.
    pub fn make(&self, context: &Context) -> Result<()> {
        let (layout, path) = (&context.layout, context.layout.config());
        let lock = std::fs::File::open(&layout.state).map_err(|source| Error::io("open", &layout.state, source))?;
        let locked = rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive);
        locked.map_err(|errno| Error::io("lock", &layout.state, errno.into()))?;
        let (found, _) = trusted_files(context)?;
        if found != self.found {
            let message = format!("{} has changed meanwhile, so nothing was written", layout.shown(&path));
            return Err(Error::environment(message, "try it again"));
        }
        if let Some(registry) = &self.registry {
            context.trust.trust(&self.between)?;
            store::write_whole(&policy_path(layout, AgentRegistry::FILE), registry)?;
        }
        context.trust.trust(&self.after)?;
        Ok(store::write_whole(&path, &self.config)?)
    }
}

/// An entry that gives a role what the built-in registry gives it.
fn registered(name: &str, role: AgentRole) -> RegisteredAgent {
    let built_in = Policies::built_in();
    let mut agents = built_in.agent_registry().agents.iter();
    let usual = agents.find(|agent| agent.role == role).map(|agent| agent.defaults.clone());
    let defaults = usual.unwrap_or(Defaults {
        sandbox: Platform::WorkspaceWrite,
        approval_policy: ApprovalPolicy::Never,
        network: NetworkRight::Deny,
    });
    let (agent_id, codex_home) = (name.to_owned(), String::new());
    let role = ProducerRole::Agent(role);
    RegisteredAgent { agent_id, role, codex_home, defaults, description: None, capabilities: None }
}

/// The configuration's bytes and the policies, if a person trusts them; those to start from where there are none.
fn trusted_files(context: &Context) -> Result<(Vec<u8>, Policies)> {
    let (layout, path) = (&context.layout, context.layout.config());
    let (bytes, policies) = (found(&path)?, load_policies(layout)?);
    let is_trusted = match &bytes {
        None => context.trust.trusts_policies(&policies),
        Some(bytes) => {
            let config = Config::parse(bytes).map_err(|violations| invalid(&path, &violations))?;
            context.trust.trusts(&Settings::new(config, bytes, &path, policies.clone()))
        }
    };
    if is_trusted {
        return Ok((bytes.unwrap_or_else(starting_config), policies));
    }
    let message = format!("{} or its policies are not trusted, so nothing was run or written", layout.shown(&path));
    Err(Error::environment(message, "read them: norma trust --show; then: norma trust"))
}

fn found(path: &Path) -> Result<Option<Vec<u8>>> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("read", path, source)),
    }
}

/// A configuration that was found valid, as it is written.
fn document(bytes: &[u8]) -> Value {
    let mut document: Value = serde_json::from_slice(bytes).expect("BUG: it was read before");
    if document.get("agents").is_none() {
        document["agents"] = json!({});
    }
    document
}
