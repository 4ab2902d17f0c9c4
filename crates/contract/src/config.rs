//! `config.json`: which agent fills which role, what a run may use up, how results land. A committed
//! configuration could choose what runs on somebody's machine, so it counts only once its digest is trusted;
//! here it is only read, with every violation named at once.

use crate::json::{self, Limits as JsonLimits, Violation};
use crate::policy::{Policies, allowed_path_outside};
use crate::schema::JsonSchema;
use crate::{CompileMode, ConnectorConfig, Digest, Mode, RepoPath, Role, SandboxConfig, Scope, WorkspaceConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Agents by name: those of the roles `plan`, `do`, `check` and `act`, and those that contracts name.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentConfig>,
    /// Who works where nobody is named: one of `agents`, or codex, claude, gemini or opencode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// What a run may use up.
    pub budgets: Budgets,
    /// How a passed run reaches the user's branch.
    #[serde(default)]
    pub landing: LandingConfig,
    /// What the owner of the state directory carries out at once.
    #[serde(default, skip_serializing_if = "HostConfig::is_default")]
    pub host: HostConfig,
    /// What `norma serve` allows.
    #[serde(default, skip_serializing_if = "ServerConfig::is_default")]
    pub server: ServerConfig,
    /// What graphs start with that people build.
    #[serde(default, skip_serializing_if = "GraphConfig::is_default")]
    pub graph: GraphConfig,
    /// How intents are compiled that are carried out.
    #[serde(default, skip_serializing_if = "IntentsConfig::is_default")]
    pub intents: IntentsConfig,
    /// How changes are reviewed.
    #[serde(default, skip_serializing_if = "PipelineConfig::is_default")]
    pub pipeline: PipelineConfig,
    /// What intents may reach, by the names that they use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connectors: BTreeMap<String, ConnectorConfig>,
    /// Limits on a single turn.
    #[serde(default)]
    pub limits: TurnLimits,
    /// How much the machine is trusted with.
    #[serde(default)]
    pub mode: Mode,
    /// What confines agents.
    #[serde(default)]
    pub sandbox: SandboxConfig,
    /// What their workspaces are made of.
    #[serde(default)]
    pub workspace: WorkspaceConfig,
    /// What a run may change.
    #[serde(default, skip_serializing_if = "ScopeConfig::is_default")]
    pub scope: ScopeConfig,
    /// What models cost, by name, in place of the built-in list prices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// Whom norma itself believes when it speaks to providers.
    #[serde(default, skip_serializing_if = "TlsConfig::is_default")]
    pub tls: TlsConfig,
}

/// The entry of `agents` that compiles intents unless another one is named.
const COMPILER: &str = "compiler";

/// How intents are compiled that are carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IntentsConfig {
    /// Who compiles, decides and works: one of `agents`; `compiler` if there is such an entry, else `opencode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether it is asked to compile, or a recording answers.
    pub mode: CompileMode,
}

impl IntentsConfig {
    fn is_default(&self) -> bool {
        *self == IntentsConfig::default()
    }
}

/// How changes are reviewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PipelineConfig {
    /// How many reviewers look at each change, where there is an agent for it.
    #[schemars(range(min = 1, max = 9))]
    pub reviewers: u32,
    /// How many of them must say PASS.
    #[schemars(range(min = 1, max = 9))]
    pub quorum: u32,
}

impl Default for PipelineConfig {
    fn default() -> PipelineConfig {
        PipelineConfig { reviewers: 1, quorum: 1 }
    }
}

impl PipelineConfig {
    fn is_default(&self) -> bool {
        *self == PipelineConfig::default()
    }
}

/// What graphs start with that people build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GraphConfig {
    /// Commands that every change must pass; no shell is involved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub tests: Vec<String>,
    /// Where documents are: what may be changed while a graph only plans.
    pub docs_root: String,
    /// How many times in a row a node may do the same before its run is paused.
    pub stall: crate::graph::StallLimits,
}

impl Default for GraphConfig {
    fn default() -> GraphConfig {
        GraphConfig {
            tests: Vec::new(),
            docs_root: crate::graph::DOCS_ROOT.to_owned(),
            stall: crate::graph::StallLimits::default(),
        }
    }
}

impl GraphConfig {
    fn is_default(&self) -> bool {
        *self == GraphConfig::default()
    }
}

/// Whom norma itself believes when it speaks to providers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// A PEM file with certificates that are trusted besides the public ones: absolute, or from the repository's root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_roots: Option<String>,
}

impl TlsConfig {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == TlsConfig::default()
    }
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// What is sent.
    pub input: Usd,
    /// What is generated.
    pub output: Usd,
    /// What is sent and was in the provider's cache; as other input without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<Usd>,
}

/// What a run may use up. At the limit the run is `stopped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// Rounds of the loop.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_iterations: u32,
    /// Size of one patch in KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_patch_kb: Option<u32>,
    /// Paths one patch may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_changed_files: Option<u32>,
    /// Paths on the risky list that one patch may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_risky_files: Option<u32>,
    /// Minutes that the run's turns may take together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_minutes: Option<u32>,
    /// Tokens that models may read and write for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub max_tokens: Option<u64>,
    /// What models may cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Usd>,
}

/// The kinds of agent a configuration can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentType {
    /// Any executable: JSON on stdin and stdout.
    Exec,
    /// The Codex command line.
    Codex,
    /// The Claude command line.
    Claude,
    /// The OpenCode command line.
    Opencode,
    /// The Gemini command line.
    Gemini,
    /// Any program that speaks the Agent Client Protocol.
    Acp,
}

impl AgentType {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentType::Exec => "exec",
            AgentType::Codex => "codex",
            AgentType::Claude => "claude",
            AgentType::Opencode => "opencode",
            AgentType::Gemini => "gemini",
            AgentType::Acp => "acp",
        }
    }

    /// The kinds whose program is known by name, which need no entry in a configuration.
    pub fn named(name: &str) -> Option<AgentType> {
        use AgentType::{Claude, Codex, Gemini, Opencode};
        [Codex, Claude, Gemini, Opencode].into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether its answers have the form that is asked for: it is a program, or it can hold its model to a schema.
    pub fn holds_to_a_form(self) -> bool {
        !matches!(self, AgentType::Gemini | AgentType::Opencode)
    }

    /// Whether the configuration says what to execute.
    pub fn has_command(self) -> bool {
        matches!(self, AgentType::Exec | AgentType::Acp)
    }
}

/// The APIs of models that norma's gateway speaks, for agents of which nothing else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelApi {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses and chat completions, which many others serve too.
    Openai,
    /// Gemini's generateContent.
    Gemini,
}

impl ModelApi {
    /// All of them.
    pub const ALL: [ModelApi; 3] = [ModelApi::Anthropic, ModelApi::Openai, ModelApi::Gemini];

    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            ModelApi::Anthropic => "anthropic",
            ModelApi::Openai => "openai",
            ModelApi::Gemini => "gemini",
        }
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Which kind.
    #[serde(rename = "type")]
    pub kind: AgentType,
    /// `exec` and `acp` only: program and arguments, never a shell line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// Model name for the kinds that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model thinks, in the agent's own words, for the kinds that have that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Where the model is, instead of the provider's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The variable of the user's environment that holds the provider's key, instead of the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// `acp` only: what its model speaks. The agent then reaches it over norma, which holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ModelApi>,
    /// The program, where it is not the one on PATH that has the agent's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin: Option<String>,
    /// Further arguments for the kinds whose program is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Whether a later turn of the same role continues the conversation of the one before, in a loop and for the kinds
    /// whose conversations can be kept; `true` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
    /// Context directory: the agent starts here; relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Variables added to the clean environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables of the user's environment that it is given as they are, by name: keys that norma cannot hold for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_env: Vec<String>,
    /// What it may reach, as `host:port`; nothing else exists for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
}

/// What the owner of the state directory carries out at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// How many workers all its runs share; one run may have more by itself (`--jobs`).
    pub workers: u32,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig { workers: 16 }
    }
}

impl HostConfig {
    /// More only wait for each other.
    const WORKERS_MAX: u32 = 256;

    fn is_default(&self) -> bool {
        *self == HostConfig::default()
    }

    fn violations(&self) -> Option<Violation> {
        let message = format!("must be a number from 1 to {}", HostConfig::WORKERS_MAX);
        let fits = (1..=HostConfig::WORKERS_MAX).contains(&self.workers);
        (!fits).then(|| Violation { pointer: "/host/workers".to_owned(), message })
    }
}

/// What `norma serve` allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// How many connections are open at once; one more is closed as soon as it is made.
    pub connections: u32,
    /// How long runs may finish what they are doing once the server is asked to end.
    pub drain_seconds: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig { connections: 64, drain_seconds: 10 }
    }
}

impl ServerConfig {
    /// Each is a descriptor, and a process has a thousand of them where nobody raised that.
    const CONNECTIONS_MAX: u32 = 10_000;
    /// Longer, whoever stops services kills them.
    const DRAIN_SECONDS_MAX: u32 = 3600;

    fn is_default(&self) -> bool {
        *self == ServerConfig::default()
    }

    fn violations(&self) -> Vec<Violation> {
        let numbers = [
            ("connections", self.connections, 1, ServerConfig::CONNECTIONS_MAX),
            ("drain_seconds", self.drain_seconds, 0, ServerConfig::DRAIN_SECONDS_MAX),
        ];
        let wrong = numbers.into_iter().filter(|(_, number, least, most)| !(least..=most).contains(&number));
        wrong
            .map(|(name, _, least, most)| Violation {
                pointer: format!("/server/{name}"),
                message: format!("it must be a number from {least} to {most}"),
            })
            .collect()
    }
}

/// How a passed run reaches the user's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LandingConfig {
    /// `auto` moves the branch where that is safe; `branch` always leaves `norma/<run>`.
    #[serde(default)]
    pub mode: LandingMode,
}

impl Default for LandingConfig {
    fn default() -> Self {
        LandingConfig { mode: LandingMode::Auto }
    }
}

/// See [`LandingConfig`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LandingMode {
    /// Move the user's branch if it is unmoved and the touched paths are clean.
    #[default]
    Auto,
    /// Leave the result on `norma/<run>`.
    Branch,
}

/// What a run may change, as it is written. Protected paths need to be named here even so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeConfig {
    /// Files and directories, from the repository's root; without them, the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub allowed_paths: Option<Vec<String>>,
    /// Whether files may have binary content.
    pub allow_binary: bool,
}

impl ScopeConfig {
    fn is_default(&self) -> bool {
        *self == ScopeConfig::default()
    }

    /// What it means where the state directory lies here, or every violation with its JSON pointer.
    pub fn compile(&self, state_dir: Option<&RepoPath>) -> Result<Scope, Vec<Violation>> {
        let mut scope = Scope { allow_binary: self.allow_binary, ..Scope::default() };
        let mut problems = Vec::new();
        for (index, text) in self.allowed_paths.iter().flatten().enumerate() {
            match allowed_path_outside(text, state_dir) {
                Ok(path) => scope.allowed_paths.push(path),
                Err(message) => problems.push((index, message)),
            }
        }
        let violation = |(index, message)| Violation { pointer: format!("/scope/allowed_paths/{index}"), message };
        if problems.is_empty() { Ok(scope) } else { Err(problems.into_iter().map(violation).collect()) }
    }
}

/// Limits on a single turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TurnLimits {
    /// Wall clock of one turn.
    #[schemars(range(min = 1))]
    pub step_seconds: u32,
    /// Silence after which a turn is ended; none = only the wall clock counts.
    #[schemars(range(min = 1))]
    pub idle_seconds: Option<u32>,
    /// How long a turn waits for a person to allow what its agent asks for; what nobody approves is denied.
    #[serde(skip_serializing_if = "is_usual_patience")]
    #[schemars(range(min = 1))]
    pub approval_seconds: u32,
    /// How many more times a turn is tried after an answer that breaks the protocol. Without it, once where an agent cannot
    /// hold its model to a form, else not at all; the contract of a run always says the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10))]
    pub protocol_retries: Option<u32>,
    /// How long a call to a model is made again that its provider failed for the moment: rate limited, overloaded, out of
    /// reach. Without it, 120 seconds; 0 makes every call once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 240))]
    pub provider_seconds: Option<u32>,
    /// How many times in a row a run whose turn was ended by a rate limit continues by itself; then it is left waiting.
    /// Without it, 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1000))]
    pub provider_retries: Option<u32>,
    /// Kept per output stream of an agent; the rest is counted and dropped.
    #[schemars(range(min = 1, max = 1024))]
    pub output_mb: u32,
    /// Kept of the files an agent leaves in its step directory.
    #[schemars(range(min = 1))]
    pub evidence_mb: u32,
    /// How many files are kept of a step directory.
    #[schemars(range(min = 1))]
    pub evidence_files: u32,
    /// The largest patch norma reads at all, and the largest content one may produce.
    #[schemars(range(min = 1))]
    pub change_mb: u32,
    /// How many earlier steps a turn is told of: the last ones, oldest first. Without it, 40.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10000))]
    pub look_back: Option<u32>,
}

/// How many earlier steps a turn is told of unless somebody says otherwise.
const LOOK_BACK: u32 = 40;

/// How long a call that failed for the moment is made again unless somebody says otherwise.
const PROVIDER_SECONDS: u32 = 120;

/// How often a run continues by itself after a rate limit unless somebody says otherwise.
const PROVIDER_RETRIES: u32 = 3;

/// How long a turn waits for a person unless somebody says otherwise.
const APPROVAL_SECONDS: u32 = 900;

/// Left out where it is the usual one: contracts from before it could be said keep their digests.
fn is_usual_patience(seconds: &u32) -> bool {
    *seconds == APPROVAL_SECONDS
}

impl Default for TurnLimits {
    fn default() -> Self {
        TurnLimits {
            step_seconds: 3600,
            idle_seconds: None,
            approval_seconds: APPROVAL_SECONDS,
            protocol_retries: None,
            provider_seconds: None,
            provider_retries: None,
            output_mb: 16,
            evidence_mb: 256,
            evidence_files: 10_000,
            change_mb: 64,
            look_back: None,
        }
    }
}

impl TurnLimits {
    /// How many earlier steps a turn is told of.
    pub fn look_back(&self) -> u32 {
        self.look_back.unwrap_or(LOOK_BACK)
    }

    /// How long a call that failed for the moment is made again.
    pub fn provider_seconds(&self) -> u32 {
        self.provider_seconds.unwrap_or(PROVIDER_SECONDS)
    }

    /// How many times in a row a run continues by itself after a rate limit.
    pub fn provider_retries(&self) -> u32 {
        self.provider_retries.unwrap_or(PROVIDER_RETRIES)
    }

    /// With every number that depends on who takes the turns.
    pub fn for_agents<'a>(&self, agents: impl IntoIterator<Item = &'a AgentConfig>) -> TurnLimits {
        let by_kind = || agents.into_iter().any(|agent| !agent.kind.holds_to_a_form()).into();
        TurnLimits { protocol_retries: Some(self.protocol_retries.unwrap_or_else(by_kind)), ..self.clone() }
    }
}

impl Config {
    /// What `norma init` writes: budgets and defaults spelled out, no agents yet.
    pub fn starting_point() -> Config {
        Config {
            graph: GraphConfig::default(),
            intents: IntentsConfig::default(),
            pipeline: PipelineConfig::default(),
            connectors: BTreeMap::new(),
            agents: BTreeMap::new(),
            default_agent: None,
            budgets: Budgets {
                max_iterations: 5,
                max_patch_kb: Some(200),
                max_changed_files: None,
                max_risky_files: None,
                max_minutes: None,
                max_tokens: None,
                max_cost_usd: None,
            },
            landing: LandingConfig::default(),
            host: HostConfig::default(),
            server: ServerConfig::default(),
            limits: TurnLimits::default(),
            mode: Mode::default(),
            sandbox: SandboxConfig::default(),
            workspace: WorkspaceConfig::default(),
            scope: ScopeConfig::default(),
            prices: BTreeMap::new(),
            tls: TlsConfig::default(),
        }
    }

    /// Reads a configuration; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<Config, Vec<Violation>> {
        let config: Config = json::decode(bytes, &JsonLimits::DOCUMENT)?;
        let mut problems: Vec<Violation> =
            config.agents.iter().flat_map(|(name, agent)| agent.violations(name)).collect();
        problems.extend(config.sandbox.violations(config.mode));
        problems.extend(config.workspace.violations(config.sandbox.backend));
        problems.extend(config.host.violations());
        problems.extend(config.server.violations());
        problems.extend(config.scope.compile(None).err().into_iter().flatten());
        problems.extend(config.default_agent_violation());
        problems.extend(config.connector_violations());
        problems.extend(config.quorum_violation());
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// The same for the user's own configuration, in which everything can be left out.
    pub fn parse_own(bytes: &[u8]) -> Result<Config, Vec<Violation>> {
        let mut document = json::parse(bytes, &JsonLimits::DOCUMENT)?;
        if let Some(members) = document.as_object_mut() {
            let budgets =
                || serde_json::to_value(Config::starting_point().budgets).expect("BUG: budgets are plain data");
            members.entry("budgets").or_insert_with(budgets);
        }
        Config::parse(document.to_string().as_bytes())
    }

    fn default_agent_violation(&self) -> Option<Violation> {
        let name = self.default_agent.as_ref().filter(|name| self.agent(name).is_none())?;
        let message =
            format!("there is no agent {name:?}: name one of \"agents\", or codex, claude, gemini or opencode");
        Some(Violation { pointer: "/default_agent".to_owned(), message })
    }

    /// The agent of this name; the known command lines need no entry.
    pub fn agent(&self, name: &str) -> Option<AgentConfig> {
        self.agents.get(name).cloned().or_else(|| AgentType::named(name).map(AgentConfig::of))
    }

    /// Who compiles intents: the agent that was named, else the configured one of type `opencode`, else `opencode` as it
    /// is known.
    pub fn compiler(&self, named: Option<String>) -> String {
        let is_opencode = |name: &&String| self.agents[*name].kind == AgentType::Opencode;
        let plain = AgentType::Opencode.as_str();
        let configured = || match self.agents.contains_key(plain) {
            true => None,
            false => self.agents.keys().find(is_opencode).cloned(),
        };
        named.or_else(configured).unwrap_or_else(|| plain.to_owned())
    }

    fn quorum_violation(&self) -> Option<Violation> {
        let PipelineConfig { reviewers, quorum } = self.pipeline;
        let message = format!("{reviewers} reviewer(s) cannot say PASS {quorum} times");
        (quorum > reviewers).then(|| Violation { pointer: "/pipeline/quorum".to_owned(), message })
    }

    /// Who reviews the changes of a worker, one name for each review: the agents `reviewer`, `reviewer2`, … of the
    /// configuration, first those of another make than the worker. Nobody where there is none.
    pub fn reviewers(&self, worker: &str, named: Option<&str>) -> Option<crate::ReviewTerms> {
        let make = |name: &str| self.agent(name).map(|agent| agent.kind);
        let more = (2..=9).map(|number| format!("reviewer{number}"));
        let mut names: Vec<String> = match named {
            Some(name) => vec![name.to_owned()],
            None => std::iter::once("reviewer".to_owned())
                .chain(more)
                .filter(|name| self.agents.contains_key(name))
                .collect(),
        };
        names.sort_by_key(|name| make(name) == make(worker));
        let PipelineConfig { reviewers, quorum } = self.pipeline;
        let agents: Vec<String> = names.iter().cycle().take(reviewers as usize).cloned().collect();
        (!agents.is_empty()).then_some(crate::ReviewTerms { agents, quorum })
    }

    fn connector_violations(&self) -> Vec<Violation> {
        let hosts = |(name, connector): (&String, &ConnectorConfig)| {
            let at = format!("/connectors/{}/hosts", name.replace('~', "~0").replace('/', "~1"));
            let wrong = |(index, host): (usize, &String)| {
                let message = format!("{host:?} is not host:port");
                let is_wrong = !crate::confinement::is_host_port(host);
                is_wrong.then(|| Violation { pointer: format!("{at}/{index}"), message })
            };
            connector.hosts.iter().enumerate().filter_map(wrong).collect::<Vec<_>>()
        };
        self.connectors.iter().flat_map(hosts).collect()
    }

    /// Who compiles intents that are carried out.
    pub fn intent_agent(&self) -> String {
        let named = self.intents.agent.clone();
        named.unwrap_or_else(|| match self.agents.contains_key(COMPILER) {
            true => COMPILER.to_owned(),
            false => self.compiler(None),
        })
    }

    /// The agents of the `pdca` roles, or what is missing.
    pub fn pdca_agents(&self) -> Result<BTreeMap<Role, AgentConfig>, Vec<Violation>> {
        let mut found = BTreeMap::new();
        let mut problems = Vec::new();
        for role in Role::PDCA {
            let pointer = format!("/agents/{role}");
            match self.agents.get(role.as_str()) {
                None => problems.push(Violation { pointer, message: format!("no agent for the role {role}") }),
                Some(agent) => {
                    found.insert(role, agent.clone());
                }
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    /// The digest that trust is bound to: of the file's own bytes, and of every policy beside it that is not the
    /// built-in one, since a policy can weaken protection as a configuration can.
    pub fn trust_digest(bytes: &[u8], policies: &Policies) -> Digest {
        let config = crate::hash::sha256(bytes);
        match policies.trust_digest() {
            None => config,
            Some(policies) => crate::hash::sha256(format!("norma trust v2\n{config}\n{policies}\n").as_bytes()),
        }
    }
}

impl AgentConfig {
    /// An agent of this kind with nothing further said about it.
    pub fn of(kind: AgentType) -> AgentConfig {
        AgentConfig {
            kind,
            cmd: Vec::new(),
            model: None,
            effort: None,
            base_url: None,
            key_env: None,
            api: None,
            bin: None,
            args: Vec::new(),
            resume: None,
            path: None,
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            network: Vec::new(),
        }
    }

    /// What is executed: a name on PATH, an absolute path, or a file of the tree.
    pub fn program(&self) -> &str {
        let said = if self.kind.has_command() { self.cmd.first() } else { self.bin.as_ref() };
        said.map_or_else(|| if self.kind.has_command() { "" } else { self.kind.as_str() }, String::as_str)
    }

    fn violations(&self, name: &str) -> Vec<Violation> {
        let mut problems = Vec::new();
        let mut add = |field: &str, message: String| {
            problems.push(Violation { pointer: format!("/agents/{name}{field}"), message });
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
            add("", format!("{name:?} is not a name; one has up to 64 letters, digits, dots, dashes and underscores"));
        }
        let kind = self.kind.as_str();
        match (self.kind.has_command(), self.cmd.first()) {
            (true, None) => add("", format!("an {kind} agent needs cmd, a list of program and arguments")),
            (true, Some(program)) if program.is_empty() => add("/cmd/0", "the program is empty".into()),
            (false, Some(_)) => {
                add("/cmd", format!("cmd is not supported for type {kind}: its program is fixed; give its path as bin"))
            }
            _ => {}
        }
        if self.kind.has_command() {
            let others = [("/bin", self.bin.is_some()), ("/args", !self.args.is_empty())];
            for (field, _) in others.into_iter().filter(|(_, is_there)| *is_there) {
                add(field, format!("not supported for type {kind}: cmd has the program and its arguments"));
            }
        }
        for (field, why) in self.untold() {
            add(field, why);
        }
        if let Some(bin) = self.bin.as_deref().filter(|bin| !bin.starts_with('/') && bin.contains('/')) {
            add("/bin", format!("{bin:?} is neither a name on PATH nor an absolute path"));
        }
        if let Some(url) = &self.base_url
            && !is_http_url(url)
        {
            add("/base_url", format!("{url:?} is not an address that starts with http:// or https://"));
        }
        if let Some(path) = &self.path
            && path != "."
            && let Err(problem) = RepoPath::parse(path)
        {
            add("/path", format!("path must be a directory of the repository: {problem}"));
        }
        for (index, entry) in self.network.iter().enumerate() {
            if !crate::confinement::is_host_port(entry) {
                add(&format!("/network/{index}"), format!("{entry:?} is not host:port"));
            }
        }
        let named = self.env.keys().map(|key| ("/env", key)).chain(self.pass_env.iter().map(|key| ("/pass_env", key)));
        for (field, key) in named {
            if key.is_empty() || key.contains(['=', '\0']) {
                add(field, format!("{key:?} is not a variable name"));
            }
        }
        problems
    }

    /// What is said about its model and cannot be told to an agent of this type.
    fn untold(&self) -> Vec<(&'static str, String)> {
        let kind = self.kind.as_str();
        let said = [
            ("/model", self.model.is_some()),
            ("/effort", self.effort.is_some()),
            ("/base_url", self.base_url.is_some()),
            ("/key_env", self.key_env.is_some()),
        ];
        let said = said.into_iter().filter(|(_, is_there)| *is_there).map(|(field, _)| field);
        let apis = ModelApi::ALL.map(ModelApi::as_str).join(", ");
        match (self.kind, self.api) {
            (AgentType::Acp, Some(_)) => said
                .filter(|field| *field == "/effort")
                .map(|field| (field, "norma cannot set this for an acp agent: use cmd or env".to_owned()))
                .collect(),
            (AgentType::Acp, None) => said
                .map(|field| {
                    let why = format!(
                        "for an acp agent this needs \"api\", the API of its model ({apis}); otherwise use cmd or env, as its \
                         program expects"
                    );
                    (field, why)
                })
                .collect(),
            (AgentType::Exec, api) => said
                .chain(api.map(|_| "/api"))
                .map(|field| (field, format!("norma cannot set this for an {kind} agent: use cmd or env")))
                .collect(),
            (_, Some(_)) => vec![("/api", format!("not supported for type {kind}: the API of its model is known"))],
            (_, None) => Vec::new(),
        }
    }
}

/// Whether this can be the address of a model: a scheme, a host, perhaps a port and a path; no user and no query, which
/// could hold what nobody looks for there.
fn is_http_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(plain))
}

/// An amount of money in US dollars, kept in millionths: what is added up must not be rounded. Written as a decimal
/// text, read from a text or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Usd(pub u64);

impl Usd {
    /// From a decimal such as `2.50`.
    pub fn parse(text: &str) -> Option<Usd> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) || text.ends_with('.') {
            return None;
        }
        let micros: u64 = format!("{part:0<6}").parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros).map(Usd)
    }
}

impl std::fmt::Display for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = format!("{:06}", self.0 % 1_000_000);
        write!(f, "{}.{:0<2}", self.0 / 1_000_000, part.trim_end_matches('0'))
    }
}

impl Serialize for Usd {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let wrong = || serde::de::Error::custom(format!("{text} is not an amount such as 2.50"));
        Usd::parse(&text).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(text: &str) -> Vec<String> {
        Config::parse(text.as_bytes()).unwrap_err().into_iter().map(|v| v.pointer).collect()
    }

    #[test]
    fn the_number_of_workers_is_one_that_makes_sense() {
        let of = |workers: u32| {
            format!(r#"{{"agents": {{}}, "budgets": {{"max_iterations": 1}}, "host": {{"workers": {workers}}}}}"#)
        };
        assert_eq!(Config::parse(of(3).as_bytes()).unwrap().host.workers, 3);
        assert_eq!(
            (pointers(&of(0)), pointers(&of(257))),
            (vec!["/host/workers".to_owned()], vec!["/host/workers".to_owned()])
        );
        let written = serde_json::to_string(&Config::starting_point()).unwrap();
        assert!(!written.contains("workers"), "what nobody changed is not written");
    }

    #[test]
    fn the_users_own_configuration_may_leave_everything_out() {
        assert_eq!(Config::parse_own(b"{}").unwrap(), Config::starting_point());
        let own = Config::parse_own(br#"{"default_agent": "claude"}"#).unwrap();
        assert_eq!(own.default_agent.as_deref(), Some("claude"));
        let problems = Config::parse_own(br#"{"default_agent": "nobody"}"#).unwrap_err();
        assert_eq!(problems[0].pointer, "/default_agent");
        assert!(Config::parse_own(b"[]").is_err());
    }

    #[test]
    fn the_documents_example_is_accepted() {
        let text = r#"{
          "agents": {
            "plan":  { "type": "exec",  "cmd": ["./bin/norma-agent-plan"] },
            "do":    { "type": "exec",  "cmd": ["./bin/norma-agent-do"] },
            "check": { "type": "exec",  "cmd": ["./bin/norma-agent-check"] },
            "act":   { "type": "codex", "model": "gpt-5-codex" }
          },
          "budgets": { "max_iterations": 5, "max_patch_kb": 200 }
        }"#;
        let config = Config::parse(text.as_bytes()).unwrap();
        assert_eq!(config.limits.step_seconds, 3600);
        assert_eq!(config.landing.mode, LandingMode::Auto);
        assert_eq!(config.pdca_agents().unwrap()[&Role::Act].kind, AgentType::Codex);
    }

    #[test]
    fn cmd_is_refused_for_agents_whose_program_is_fixed() {
        for kind in ["codex", "claude", "opencode", "gemini"] {
            let text =
                format!(r#"{{"agents":{{"act":{{"type":"{kind}","cmd":["x"]}}}},"budgets":{{"max_iterations":1}}}}"#);
            assert_eq!(pointers(&text), ["/agents/act/cmd"]);
        }
    }

    #[test]
    fn money_is_read_exactly_and_written_as_text() {
        for (text, micros) in [("2.50", 2_500_000), ("0.000001", 1), ("7", 7_000_000), ("0.1", 100_000)] {
            assert_eq!(Usd::parse(text), Some(Usd(micros)), "{text}");
        }
        for text in ["", ".5", "5.", "-1", "1e3", "1.0000001", "99999999999999999999"] {
            assert_eq!(Usd::parse(text), None, "{text}");
        }
        assert_eq!(serde_json::from_str::<Usd>("2.5").unwrap(), serde_json::from_str("\"2.50\"").unwrap());
        assert_eq!(serde_json::to_string(&Usd(2_500_000)).unwrap(), "\"2.50\"");
        assert_eq!(Usd(1).to_string(), "0.000001");
    }

    #[test]
    fn what_an_agent_cannot_have_is_refused_by_kind() {
        let one = |agent: &str| format!(r#"{{"agents":{{"a":{agent}}},"budgets":{{"max_iterations":1}}}}"#);
        for (agent, pointer) in [
            (r#"{"type":"acp"}"#, "/agents/a"),
            (r#"{"type":"exec","cmd":["x"],"bin":"/y"}"#, "/agents/a/bin"),
            (r#"{"type":"acp","cmd":["x"],"args":["y"]}"#, "/agents/a/args"),
            (r#"{"type":"claude","bin":"./claude"}"#, "/agents/a/bin"),
            (r#"{"type":"claude","base_url":"ftp://x"}"#, "/agents/a/base_url"),
            (r#"{"type":"claude","base_url":"https://user:pw@host"}"#, "/agents/a/base_url"),
            (r#"{"type":"claude","api":"anthropic"}"#, "/agents/a/api"),
            (r#"{"type":"exec","cmd":["x"],"api":"anthropic"}"#, "/agents/a/api"),
            (r#"{"type":"exec","cmd":["x"],"model":"m"}"#, "/agents/a/model"),
            (r#"{"type":"acp","cmd":["x"],"key_env":"K"}"#, "/agents/a/key_env"),
            (r#"{"type":"acp","cmd":["x"],"api":"openai","effort":"high"}"#, "/agents/a/effort"),
            (r#"{"type":"acp","cmd":["x"],"pass_env":["A=b"]}"#, "/agents/a/pass_env"),
        ] {
            assert_eq!(pointers(&one(agent)), [pointer], "{agent}");
        }
        let fine = r#"{"type":"claude","base_url":"http://127.0.0.1:8765/v1","bin":"/opt/claude","effort":"high","args":["--x"]}"#;
        Config::parse(one(fine).as_bytes()).unwrap();
        let fine = r#"{"type":"acp","cmd":["x"],"api":"openai","model":"m","base_url":"http://127.0.0.1:1/v1","key_env":"K","pass_env":["T"]}"#;
        Config::parse(one(fine).as_bytes()).unwrap();
    }

    #[test]
    fn every_violation_is_reported_at_once() {
        let text = r#"{"agents":{"plan":{"type":"exec","cmd":[],"path":"../x"},"the boss":{"type":"exec","cmd":["x"]}},
                       "budgets":{"max_iterations":1}}"#;
        assert_eq!(pointers(text), ["/agents/plan", "/agents/plan/path", "/agents/the boss"]);
        let text = r#"{"agent":{},"budgets":{"max_iterations":0,"max_patch_kb":"many"}}"#;
        let mut found = pointers(text);
        found.sort();
        assert_eq!(found, ["/agent", "/budgets/max_iterations", "/budgets/max_patch_kb"]);
    }

    #[test]
    fn max_iterations_is_required() {
        assert!(pointers(r#"{"budgets":{}}"#)[0].starts_with("/budgets"));
        assert_eq!(pointers("{}").len(), 1);
    }

    #[test]
    fn a_scope_names_paths_and_never_the_whole_tree_or_the_state_directory() {
        let config =
            |paths: &str| format!(r#"{{"budgets":{{"max_iterations":1}},"scope":{{"allowed_paths":{paths}}}}}"#);
        let good = Config::parse(config(r#"["src/", "/docs", "a/b.txt"]"#).as_bytes()).unwrap();
        let scope = good.scope.compile(None).unwrap();
        assert_eq!(scope.allowed_paths.iter().map(RepoPath::as_str).collect::<Vec<_>>(), ["src", "docs", "a/b.txt"]);
        assert!(!scope.allow_binary);
        let bad = config(r#"["", ".", "/", "**", "src/*", "../a", "ok", "./src", 7]"#);
        let pointer = |index: usize| format!("/scope/allowed_paths/{index}");
        assert_eq!(pointers(&bad), [pointer(8)]);
        let bad = config(r#"["", ".", "/", "**", "src/*", "../a", "ok", "./src"]"#);
        assert_eq!(pointers(&bad), [0, 1, 2, 3, 4, 5, 7].map(pointer));
        assert_eq!(pointers(&config("[]")), ["/scope/allowed_paths"]);
        let state = RepoPath::parse("var/norma").unwrap();
        for (path, held) in [("var/norma", true), ("var/Norma/runs", true), ("var", false), ("var/normal", false)] {
            let scope = ScopeConfig { allowed_paths: Some(vec![path.to_owned()]), allow_binary: false };
            assert_eq!(scope.compile(Some(&state)).is_err(), held, "{path}");
        }
    }

    #[test]
    fn trust_covers_every_policy_that_is_not_the_built_in_one() {
        let other = r#"{"rules":[]}"#.as_bytes().to_vec();
        let with = |name: &str| Policies::check([(name.to_owned(), other.clone())].into()).unwrap();
        let plain = Config::trust_digest(b"{}", &Policies::built_in());
        assert_eq!(plain, crate::hash::sha256(b"{}"));
        let digests = [
            plain,
            Config::trust_digest(b"{}", &with("scratch_paths.json")),
            Config::trust_digest(b"{}", &with("protected_paths.json")),
            Config::trust_digest(b"{ }", &with("protected_paths.json")),
        ];
        assert_eq!(digests.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn the_starting_point_is_valid() {
        let bytes = serde_json::to_vec(&Config::starting_point()).unwrap();
        assert_eq!(Config::parse(&bytes).unwrap(), Config::starting_point());
    }
}
