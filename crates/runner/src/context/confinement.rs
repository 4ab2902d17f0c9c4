//! Whether this machine can confine agents as they must be, found out before anything of a run exists.

use crate::{Error, Result};
use contract::{Backend, Config, Mode, SandboxConfig, WorkspaceConfig};
use sandbox::{Level, Probe, Sandbox};

/// The least confinement for agents. One without namespaces cannot hide anything in a tree, nor show one.
pub const LEVEL_MIN: Level = Level::B;

/// Whether agents can be confined here as they must be, before anything of a run exists. Nothing is started
/// otherwise: the machine's own user is never the fallback.
pub fn check_sandbox(config: &SandboxConfig, mode: Mode, sandbox: &Sandbox) -> Result<()> {
    if let Err(why) = config.usable(mode) {
        let hint = "production mode comes from \"mode\" in config.json or from NORMA_MODE";
        return Err(Error::environment(format!("sandbox_unavailable: {why}"), hint));
    }
    match config.backend {
        Backend::Native => level(sandbox).map(drop),
        Backend::None | Backend::Microsandbox | Backend::E2b => Ok(()),
    }
}

/// The level at which agents are confined here.
pub(crate) fn level(sandbox: &Sandbox) -> Result<Level> {
    let probe = sandbox::probe(sandbox);
    if probe.level != Level::A {
        let missing: Vec<&str> = probe.missing.iter().map(|missing| missing.what.as_str()).collect();
        tracing::warn!(target: "norma::sandbox", level = ?probe.level, "isolation is incomplete: {}", missing.join("; "));
    }
    probe.at_least(LEVEL_MIN).ok_or_else(|| refusal(probe))
}

fn refusal(probe: &Probe) -> Error {
    let (mut what, mut fix): (Vec<_>, Vec<_>) =
        probe.missing.iter().map(|it| (it.what.as_str(), it.fix.as_str())).unzip();
    // What keeps the machine from one level often keeps it from the next.
    fix.dedup();
    if probe.level == Level::C {
        what.insert(0, "level C cannot hide files or show a workspace");
    }
    let message = format!("sandbox_unavailable: this machine cannot confine agents: {}", what.join("; "));
    Error::environment(message, format!("{}; then look again: norma doctor", fix.join("; ")))
}

/// Whether workspaces can show installed dependencies of the checkout: where they are layers. What a setup makes takes
/// their place.
pub fn shows_dependencies(sandbox: &Sandbox, config: &Config) -> bool {
    let Config { sandbox: SandboxConfig { backend, .. }, workspace, .. } = config;
    *backend == Backend::Native && workspace.layers && workspace.setup.is_empty() && sandbox::has_overlays(sandbox)
}

/// Whether workspaces can be made here as they are configured, before anything of a run exists.
pub fn check_workspace(workspace: &WorkspaceConfig, backend: Backend, sandbox: &Sandbox) -> Result<()> {
    let wants_layers = backend == Backend::Native && workspace.layers;
    let has_layers = wants_layers && sandbox::has_overlays(sandbox);
    if wants_layers && !has_layers {
        tracing::warn!(target: "norma::sandbox", "there are no overlays here, so workspaces are checked out file by file");
    }
    if workspace.setup.is_empty() || has_layers {
        return Ok(());
    }
    let message = "workspace.setup needs a sandbox with overlays, which keep its result, and there are none here";
    Err(Error::environment(message, "see what the machine lacks: norma doctor; or run without workspace.setup"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::probe::Missing;

    fn check(level: Level, expected: &str) {
        let missing = vec![Missing { what: "no namespaces".to_owned(), fix: "allow them".to_owned() }];
        let probe = Probe { level, landlock_abi: 7, memory_by: None, missing };
        assert_eq!(
            refusal(&probe).to_string(),
            format!("sandbox_unavailable: this machine cannot confine agents: {expected}")
        );
    }

    #[test]
    fn a_refusal_says_what_the_best_level_lacks() {
        check(Level::C, "level C cannot hide files or show a workspace; no namespaces");
        check(Level::Refuse, "no namespaces");
    }
}
