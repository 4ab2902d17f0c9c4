//! The parts of a configuration that say how agents are confined and what their workspaces are made of.

use crate::backend::{Backend, Backends, E2bConfig, MicrosandboxConfig};
use crate::json::Violation;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a machine is trusted with. Production refuses what development only records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A person's own machine.
    #[default]
    Development,
    /// Only the sandboxes that are listed, and never none.
    Production,
}

/// What confines agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Which one.
    pub backend: Backend,
    /// Those that may be used in production mode.
    pub allowed: Vec<Backend>,
    /// Further files and directories that agents can read, as absolute paths.
    pub read: Vec<String>,
    /// What an agent may use up.
    pub limits: SandboxLimits,
    /// Virtual machines on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microsandbox: Option<MicrosandboxConfig>,
    /// Virtual machines of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e2b: Option<E2bConfig>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        SandboxConfig {
            backend: Backend::Native,
            allowed: vec![Backend::Native],
            read: Vec::new(),
            limits: SandboxLimits::default(),
            microsandbox: None,
            e2b: None,
        }
    }
}

impl SandboxConfig {
    pub(crate) fn violations(&self, mode: Mode) -> Vec<Violation> {
        let mut problems = Vec::new();
        let mut add = |field: &str, message: String| {
            problems.push(Violation { pointer: format!("/sandbox{field}"), message });
        };
        if let Err(why) = self.usable(mode) {
            add("/backend", why);
        }
        if let Some(why) = self.backends().missing(self.backend) {
            add("/backend", why);
        }
        for (index, path) in self.read.iter().enumerate() {
            let parts = path.split('/').skip(1);
            if !path.starts_with('/') || path == "/" || path.contains('\0') || parts.clone().any(|it| it == "..") {
                add(&format!("/read/{index}"), format!("{path:?} is not an absolute path to something below /"));
            }
        }
        problems.extend(self.backends().violations());
        problems
    }

    /// What the backends elsewhere are told.
    pub fn backends(&self) -> Backends {
        Backends { microsandbox: self.microsandbox.clone(), e2b: self.e2b.clone() }
    }

    /// Whether the configured backend may be used in this mode; if not, why.
    pub fn usable(&self, mode: Mode) -> Result<(), String> {
        self.allows(self.backend, mode)
    }

    /// Whether a document may ask for a backend in this mode; if not, why. None is never asked for: only a configuration
    /// says that nothing confines.
    pub fn may_be_asked_for(&self, backend: Backend, mode: Mode) -> Result<(), String> {
        if backend == Backend::None && self.backend != Backend::None {
            return Err("only a trusted configuration can say that nothing confines agents".to_owned());
        }
        self.allows(backend, mode)?;
        self.backends().missing(backend).map_or(Ok(()), Err)
    }

    fn allows(&self, backend: Backend, mode: Mode) -> Result<(), String> {
        match (mode, backend) {
            (Mode::Development, _) => Ok(()),
            (Mode::Production, Backend::None) => Err("agents are always confined in production mode".to_owned()),
            (Mode::Production, backend) if !self.allowed.contains(&backend) => {
                let allowed: Vec<&str> = self.allowed.iter().map(|it| it.as_str()).collect();
                let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
                Err(format!(
                    "{} is not in sandbox.allowed, which production mode asks for; it allows {allowed}",
                    backend.as_str()
                ))
            }
            (Mode::Production, _) => Ok(()),
        }
    }
}

/// What a confined agent may use up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Memory of all its processes.
    #[schemars(range(min = 16))]
    pub memory_mb: u32,
    /// Processes and threads at once.
    #[schemars(range(min = 301))]
    pub processes: u32,
    /// Processor time of all its processes.
    #[schemars(range(min = 1))]
    pub cpu_seconds: u32,
    /// Any one file it writes.
    #[schemars(range(min = 1))]
    pub file_mb: u32,
    /// Its home and temporary directories together; they live in memory.
    #[schemars(range(min = 1))]
    pub private_mb: u32,
    /// Files one process has open at once.
    #[schemars(range(min = 64))]
    pub open_files: u32,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        SandboxLimits {
            memory_mb: 8192,
            processes: 4096,
            cpu_seconds: 4 * 3600,
            file_mb: 4096,
            private_mb: 1024,
            open_files: 65_536,
        }
    }
}

/// How much of the history an agent's own repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// The commit it starts from.
    #[default]
    Shallow,
    /// Everything that led there.
    Full,
}

/// What a workspace is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkspaceConfig {
    /// What an agent may write in its workspace; it lives in memory until it is kept or dropped.
    #[schemars(range(min = 1))]
    pub layer_mb: u32,
    /// How much history the agent's own repository holds.
    pub history: History,
    /// Whether workspaces share layers, so that they cost what is changed in them; otherwise each run has a checkout
    /// of its own.
    pub layers: bool,
    /// Program and arguments that make a fresh workspace buildable; runs once for each tree, confined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// What the setup may reach, as `host:port`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup_network: Vec<String>,
    /// What of the setup's result the next setup starts from: directories such as `target` or `node_modules`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_paths: Vec<String>,
}

impl Default for WorkspaceConfig {
    fn default() -> Self {
        WorkspaceConfig {
            layer_mb: 4096,
            history: History::Shallow,
            layers: true,
            setup: Vec::new(),
            setup_network: Vec::new(),
            cache_paths: Vec::new(),
        }
    }
}

impl WorkspaceConfig {
    pub(crate) fn violations(&self, backend: Backend) -> Vec<Violation> {
        let mut problems = Vec::new();
        let mut add = |field: String, message: String| {
            problems.push(Violation { pointer: format!("/workspace/{field}"), message });
        };
        if !self.setup.is_empty() && !self.layers {
            add("setup".to_owned(), "workspace.setup needs workspace.layers, where its result is kept".to_owned());
        }
        if !self.setup.is_empty() && backend != Backend::Native {
            let message =
                format!("workspace.setup needs the native sandbox to run in; sandbox.backend is {}", backend.as_str());
            add("setup".to_owned(), message);
        }
        if self.setup.first().is_some_and(String::is_empty) {
            add("setup/0".to_owned(), "the program is empty".to_owned());
        }
        if self.setup.is_empty() && !self.cache_paths.is_empty() {
            add("cache_paths".to_owned(), "nothing fills a cache without workspace.setup".to_owned());
        }
        if self.setup.is_empty() && !self.setup_network.is_empty() {
            add("setup_network".to_owned(), "there is no workspace.setup to use it".to_owned());
        }
        for (index, path) in self.cache_paths.iter().enumerate() {
            if let Err(problem) = crate::RepoPath::parse(path) {
                add(format!("cache_paths/{index}"), format!("must be a directory of the repository: {problem}"));
            }
            let overlaps = |other: &&String| is_below(path, other) || is_below(other, path);
            if let Some(other) = self.cache_paths[..index].iter().find(overlaps) {
                add(format!("cache_paths/{index}"), format!("{path:?} and {other:?} hold each other"));
            }
        }
        for (index, entry) in self.setup_network.iter().enumerate() {
            if !is_host_port(entry) {
                add(format!("setup_network/{index}"), format!("{entry:?} is not host:port"));
            }
        }
        problems
    }
}

/// Whether a path is another one, or lies in it.
fn is_below(path: &str, other: &str) -> bool {
    let parts =
        |path: &str| path.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect::<Vec<_>>();
    parts(path).starts_with(&parts(other))
}

/// Whether a text has the form `host:port`; what it means is the sandbox's to say.
pub(crate) fn is_host_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|it| it > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_never_runs_without_a_sandbox() {
        let mut sandbox = SandboxConfig { backend: Backend::None, ..SandboxConfig::default() };
        assert!(sandbox.usable(Mode::Development).is_ok());
        sandbox.allowed.push(Backend::None);
        assert!(sandbox.usable(Mode::Production).is_err());
        sandbox.backend = Backend::Native;
        assert!(sandbox.usable(Mode::Production).is_ok());
        sandbox.allowed.clear();
        assert!(sandbox.usable(Mode::Production).is_err());
    }

    #[test]
    fn a_document_may_ask_for_what_is_configured_and_never_for_nothing() {
        let e2b = Some(E2bConfig::default());
        let mut sandbox = SandboxConfig { e2b, ..SandboxConfig::default() };
        let asked = |sandbox: &SandboxConfig, backend, mode| sandbox.may_be_asked_for(backend, mode).is_ok();
        assert!(asked(&sandbox, Backend::E2b, Mode::Development));
        assert!(!asked(&sandbox, Backend::E2b, Mode::Production));
        assert!(!asked(&sandbox, Backend::Microsandbox, Mode::Development));
        assert!(!asked(&sandbox, Backend::None, Mode::Development));
        sandbox.allowed.push(Backend::E2b);
        assert!(asked(&sandbox, Backend::E2b, Mode::Production));
        sandbox.backend = Backend::Microsandbox;
        let pointers: Vec<_> = sandbox.violations(Mode::Development).into_iter().map(|it| it.pointer).collect();
        assert_eq!(pointers, ["/sandbox/backend"]);
    }

    #[test]
    fn every_violation_of_the_confinement_is_named() {
        let sandbox = SandboxConfig { read: vec!["x".into(), "/a/../b".into(), "/".into()], ..Default::default() };
        assert_eq!(sandbox.violations(Mode::Development).len(), 3);
        let workspace = WorkspaceConfig {
            cache_paths: vec!["../x".into()],
            setup_network: vec!["host".into()],
            ..WorkspaceConfig::default()
        };
        let pointers: Vec<_> = workspace.violations(Backend::Native).into_iter().map(|it| it.pointer).collect();
        assert_eq!(
            pointers,
            [
                "/workspace/cache_paths",
                "/workspace/setup_network",
                "/workspace/cache_paths/0",
                "/workspace/setup_network/0"
            ]
        );
    }

    #[test]
    fn a_setup_has_a_sandbox_to_run_in_and_layers_to_be_kept_in() {
        let pointers = |workspace: &WorkspaceConfig, backend| -> Vec<String> {
            workspace.violations(backend).into_iter().map(|it| it.pointer).collect()
        };
        let setup = || vec!["make".to_owned()];
        let workspace = WorkspaceConfig { setup: setup(), ..WorkspaceConfig::default() };
        assert!(pointers(&workspace, Backend::Native).is_empty());
        assert_eq!(pointers(&workspace, Backend::None), ["/workspace/setup"]);
        let workspace = WorkspaceConfig { layers: false, ..workspace };
        assert_eq!(pointers(&workspace, Backend::Native), ["/workspace/setup"]);
        let cache_paths = ["a", "a/b", "ab", "c/", "c"].map(str::to_owned).to_vec();
        let workspace = WorkspaceConfig { setup: setup(), cache_paths, ..WorkspaceConfig::default() };
        let found = pointers(&workspace, Backend::Native);
        assert!(found.contains(&"/workspace/cache_paths/1".to_owned()), "{found:?}");
        assert!(!found.contains(&"/workspace/cache_paths/2".to_owned()), "{found:?}");
    }
}
