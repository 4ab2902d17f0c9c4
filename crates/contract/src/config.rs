//! `config.json`: which agent fills which role, what a run may use up, how results land. A committed
//! configuration could choose what runs on somebody's machine, so it counts only once its digest is trusted;
//! here it is only read, with every violation named at once.

use crate::json::{self, Limits as JsonLimits, Violation};
use crate::policy::{Policies, allowed_path_outside};
use crate::{Digest, Mode, RepoPath, Role, SandboxConfig, Scope, WorkspaceConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Agents by name: those of the roles `plan`, `do`, `check` and `act`, and those that contracts name.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentConfig>,
    /// What a run may use up.
    pub budgets: Budgets,
    /// How a passed run reaches the user's branch.
    #[serde(default)]
    pub landing: LandingConfig,
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
}

/// The kinds of agent a configuration can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentType {
    /// Any executable: JSON on stdin and stdout.
    Exec,
    /// The Codex command line.
    Codex,
    /// The OpenCode command line.
    Opencode,
    /// The Gemini command line.
    Gemini,
}

impl AgentType {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentType::Exec => "exec",
            AgentType::Codex => "codex",
            AgentType::Opencode => "opencode",
            AgentType::Gemini => "gemini",
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
    /// `exec` only: program and arguments, never a shell line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// Model name for the kinds that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Context directory: the agent starts here; relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Variables added to the clean environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it may reach, as `host:port`; nothing else exists for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
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
        let mut scope = Scope { allowed_paths: Vec::new(), allow_binary: self.allow_binary };
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
    /// How many more times a turn is tried after an answer that breaks the protocol.
    #[schemars(range(max = 10))]
    pub protocol_retries: u32,
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
}

impl Default for TurnLimits {
    fn default() -> Self {
        TurnLimits {
            step_seconds: 3600,
            idle_seconds: None,
            protocol_retries: 0,
            output_mb: 16,
            evidence_mb: 256,
            evidence_files: 10_000,
            change_mb: 64,
        }
    }
}

impl Config {
    /// What `norma init` writes: budgets and defaults spelled out, no agents yet.
    pub fn starting_point() -> Config {
        Config {
            agents: BTreeMap::new(),
            budgets: Budgets {
                max_iterations: 5,
                max_patch_kb: Some(200),
                max_changed_files: None,
                max_risky_files: None,
                max_minutes: None,
            },
            landing: LandingConfig::default(),
            limits: TurnLimits::default(),
            mode: Mode::default(),
            sandbox: SandboxConfig::default(),
            workspace: WorkspaceConfig::default(),
            scope: ScopeConfig::default(),
        }
    }

    /// Reads a configuration; on failure every violation with its JSON pointer.
    pub fn parse(bytes: &[u8]) -> Result<Config, Vec<Violation>> {
        let config: Config = json::decode(bytes, &JsonLimits::DOCUMENT)?;
        let mut problems: Vec<Violation> =
            config.agents.iter().flat_map(|(name, agent)| agent.violations(name)).collect();
        problems.extend(config.sandbox.violations(config.mode));
        problems.extend(config.workspace.violations(config.sandbox.backend));
        problems.extend(config.scope.compile(None).err().into_iter().flatten());
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// The agents of the `pdca` roles, or what is missing.
    pub fn pdca_agents(&self) -> Result<BTreeMap<Role, AgentConfig>, Vec<Violation>> {
        let mut found = BTreeMap::new();
        let mut problems = Vec::new();
        for role in Role::PDCA {
            let pointer = format!("/agents/{role}");
            match self.agents.get(role.as_str()) {
                None => problems.push(Violation { pointer, message: format!("no agent for the role {role}") }),
                Some(agent) if agent.kind != AgentType::Exec => problems.push(Violation {
                    pointer: format!("{pointer}/type"),
                    message: format!("agents of type {} are not available yet; use exec", agent.kind.as_str()),
                }),
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
    fn violations(&self, name: &str) -> Vec<Violation> {
        let mut problems = Vec::new();
        let mut add = |field: &str, message: String| {
            problems.push(Violation { pointer: format!("/agents/{name}{field}"), message });
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
            add("", format!("{name:?} is not a name; one has up to 64 letters, digits, dots, dashes and underscores"));
        }
        match self.kind {
            AgentType::Exec if self.cmd.is_empty() => {
                add("", "an exec agent needs cmd, a list of program and arguments".into())
            }
            AgentType::Exec if self.cmd[0].is_empty() => add("/cmd/0", "the program is empty".into()),
            AgentType::Exec => {}
            kind if !self.cmd.is_empty() => {
                add("/cmd", format!("cmd is not supported for type {}: its program is fixed", kind.as_str()));
            }
            _ => {}
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
        for key in self.env.keys() {
            if key.is_empty() || key.contains(['=', '\0']) {
                add("/env", format!("{key:?} is not a variable name"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(text: &str) -> Vec<String> {
        Config::parse(text.as_bytes()).unwrap_err().into_iter().map(|v| v.pointer).collect()
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
        let missing = config.pdca_agents().unwrap_err();
        assert_eq!(missing[0].pointer, "/agents/act/type");
        assert!(missing[0].message.contains("not available yet"));
    }

    #[test]
    fn cmd_is_refused_for_agents_whose_program_is_fixed() {
        for kind in ["codex", "opencode", "gemini"] {
            let text =
                format!(r#"{{"agents":{{"act":{{"type":"{kind}","cmd":["x"]}}}},"budgets":{{"max_iterations":1}}}}"#);
            assert_eq!(pointers(&text), ["/agents/act/cmd"]);
        }
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
