//! Where `cargo xtask agents` puts the real agent programs, for tests that drive them if they are there. What is named
//! here is the native program of each, not the wrapper that npm puts before it: a wrapper is one more process, and
//! signals to it do not reach the agent.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where the program of each is, by the kind of machine; `cargo xtask agents` reads it too.
const PROGRAMS: &str = include_str!("../../agents/programs.json");

/// The folder they are installed in, below the workspace's root.
pub const PLACE: &str = "target/agents";
/// What is written there last: the digest of the lock file that was installed.
pub const STAMP: &str = "installed.sha256";

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// OpenAI's codex.
    Codex,
    /// Anthropic's claude.
    Claude,
    /// Google's gemini: a script, which needs `node`.
    Gemini,
    /// opencode.
    Opencode,
}

/// What of them is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents {
    /// `None`: not installed.
    pub codex: Option<PathBuf>,
    /// `None`: not installed.
    pub claude: Option<PathBuf>,
    /// `None`: not installed. A script for `node`.
    pub gemini: Option<PathBuf>,
    /// `None`: not installed.
    pub opencode: Option<PathBuf>,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Codex, Self::Claude, Self::Gemini, Self::Opencode];

    /// What its program is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Its program below the folder that npm fills, if there is one for this kind of machine.
    fn program(self) -> Option<String> {
        let all: Value = serde_json::from_str(PROGRAMS).expect("BUG: the list of programs is read by a test");
        all[std::env::consts::ARCH][self.name()].as_str().map(str::to_owned)
    }

    /// Its program in the workspace of `root`, if it is installed there completely.
    #[must_use]
    pub fn find_in(self, root: &Path) -> Option<PathBuf> {
        let place = root.join(PLACE);
        let program = place.join("node_modules").join(self.program()?);
        (place.join(STAMP).is_file() && program.is_file()).then_some(program)
    }
}

/// Looks in this workspace.
#[must_use]
pub fn find() -> Agents {
    Agents {
        codex: program(Agent::Codex),
        claude: program(Agent::Claude),
        gemini: program(Agent::Gemini),
        opencode: program(Agent::Opencode),
    }
}

/// One of them in this workspace, if it is installed.
#[must_use]
pub fn program(agent: Agent) -> Option<PathBuf> {
    agent.find_in(root())
}

/// The same for a test that cannot do without: where it is missing the test counts as not run, and in CI it fails.
///
/// # Panics
/// In CI, if the agent is not installed.
#[must_use]
#[track_caller]
pub fn needed(agent: Agent) -> Option<PathBuf> {
    let program = program(agent);
    if program.is_none() {
        let reason = format!("{} is not installed (cargo xtask agents)", agent.name());
        assert!(!not_run::in_ci(), "{reason}");
        not_run::because(reason);
    }
    program
}

/// An agent that norma knows nothing of, by the link that npm made of its program; the same where it is missing.
///
/// # Panics
/// In CI, if the agent is not installed.
#[must_use]
#[track_caller]
pub fn needed_link(name: &str) -> Option<PathBuf> {
    let link = place().join("node_modules/.bin").join(name);
    if place().join(STAMP).is_file() && link.exists() {
        return Some(link);
    }
    let reason = format!("{name} is not installed (cargo xtask agents)");
    assert!(!not_run::in_ci(), "{reason}");
    not_run::because(reason);
    None
}

/// The folder they are installed in.
#[must_use]
pub fn place() -> PathBuf {
    root().join(PLACE)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("BUG: this crate is in testing/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_found_only_once_all_of_it_is_there() {
        let root = std::env::temp_dir().join(format!("scripted-model-agents-{}", std::process::id()));
        let program = root.join(PLACE).join("node_modules").join(Agent::Gemini.program().unwrap());
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, "").unwrap();
        assert_eq!(Agent::Gemini.find_in(&root), None);
        std::fs::write(root.join(PLACE).join(STAMP), "").unwrap();
        assert_eq!(Agent::Gemini.find_in(&root), Some(program));
        assert_eq!(Agent::Codex.find_in(&root), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
