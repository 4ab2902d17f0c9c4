//! What the runner says about an agent before it starts: which one, with which model, where, and with which rights.

use crate::node_tools::ToolServer;
use contract::session::{Decision, ToolKind, Usage};
use contract::work::ShellRight;
use serde_json::Value;

/// The command lines that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// OpenAI's.
    Codex,
    /// Anthropic's.
    Claude,
    /// Google's.
    Gemini,
    /// The one for many providers.
    Opencode,
    /// Any other that speaks the Agent Client Protocol; the configuration has its program and arguments.
    Acp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Codex, Kind::Claude, Kind::Gemini, Kind::Opencode, Kind::Acp];

    /// Its word in configurations and evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Codex => "codex",
            Kind::Claude => "claude",
            Kind::Gemini => "gemini",
            Kind::Opencode => "opencode",
            Kind::Acp => "acp",
        }
    }
}

impl Kind {
    /// Whether a command that it asks about can be answered with another one, which it then runs.
    pub fn takes_another_command(self) -> bool {
        self == Kind::Claude
    }

    /// The file of a repository that it reads by itself, whatever it is told: what it is there, it knows.
    pub fn reads_by_itself(self) -> Option<&'static str> {
        (self == Kind::Gemini).then_some("GEMINI.md")
    }
}

/// Whether the agent can be talked with while it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Two-way: permissions, cancelling, further prompts. An agent that only speaks the Agent Client Protocol has
    /// no other.
    Live,
    /// One prompt on stdin, events on stdout, nobody to ask.
    OneShot,
}

/// What an agent is and may do. Pure data; all paths are absolute and as the agent sees them.
#[derive(Debug, Clone)]
pub struct Brief<'a> {
    /// Which command line.
    pub kind: Kind,
    /// The model; the command line's own choice without.
    pub model: Option<&'a str>,
    /// How hard to think, in the command line's words.
    pub effort: Option<&'a str>,
    /// Where the model is reached, as the command line's own setting wants it: codex and opencode put `/responses` and
    /// `/chat/completions` behind it, claude and gemini a version first. The provider's own place without.
    pub base_url: Option<&'a str>,
    /// The key given to the command line; where a gateway holds the real one, a placeholder.
    pub api_key: Option<&'a str>,
    /// The variable that it is given in, where the command line has several and they mean different things to it.
    pub key_variable: Option<&'a str>,
    /// Where it works.
    pub cwd: &'a str,
    /// Its private home.
    pub home: &'a str,
    /// Directories besides `cwd` that it may write, such as its step directory.
    pub extra_write: &'a [&'a str],
    /// What it may do.
    pub rights: Rights,
    /// Tools of norma's own that it is given.
    pub tools: Option<&'a ToolServer>,
    /// What its answer must look like.
    pub output_schema: Option<&'a Value>,
    /// The conversation to continue.
    pub resume: Option<&'a str>,
    /// What that conversation had used before, by the command line's own count: one of them continues counting from there.
    pub used: Usage,
    /// Further arguments from the configuration; for [`Kind::Acp`] all there are.
    pub args: &'a [String],
}

/// What an agent may do. The sandbox holds it to that; here it becomes settings of the command line, so that the
/// model is not offered what it may not use, and answers to what it asks nevertheless.
///
/// `shell` follows one table for all of them:
///
/// | right | codex `approvalPolicy` | the others | a request that still comes |
/// |---|---|---|---|
/// | `deny` | not set, shell tool off | no shell tool | denied |
/// | `never` | `never` | commands run unasked, inside the sandbox | denied |
/// | `on-request` | `on-request` | commands ask | is asked |
/// | `untrusted` | `untrusted` | commands ask | is asked |
///
/// One-shot there is nobody to ask, and an approval that is missing is a refusal: `on-request` and `untrusted` then have
/// no shell tool either.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    /// Whether it may change files: workers do, thinking roles do not.
    pub write: bool,
    /// Commands.
    pub shell: ShellRight,
    /// Whether it may use tools that reach the network; that it reaches its model is another matter.
    pub network: bool,
    /// Tools of MCP servers that it may use, as the command line names them.
    pub mcp_tools: Vec<String>,
}

impl Rights {
    /// The answer that the rights alone give to a request; none means that somebody has to be asked.
    pub(crate) fn refusal(&self, kind: ToolKind) -> Option<Decision> {
        let why = match (kind, self.shell) {
            (ToolKind::Write, _) if !self.write => "this role may not change files",
            (ToolKind::Shell, ShellRight::Deny) => "this role may not run commands",
            (ToolKind::Fetch, _) if !self.network => "this role may not reach the network",
            _ => return None,
        };
        Some(Decision::Deny { message: why.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_alone_refuse_what_a_role_may_not() {
        let none = Rights::default();
        for kind in [ToolKind::Write, ToolKind::Shell, ToolKind::Fetch] {
            assert!(none.refusal(kind).is_some(), "{kind:?}");
        }
        for kind in [ToolKind::Read, ToolKind::Search, ToolKind::Think, ToolKind::Mcp, ToolKind::Other] {
            assert_eq!(none.refusal(kind), None, "{kind:?}");
        }
        let shell = |shell| Rights { shell, ..Rights::default() }.refusal(ToolKind::Shell).is_some();
        assert!(shell(ShellRight::Deny));
        assert!(![ShellRight::Never, ShellRight::OnRequest, ShellRight::Untrusted].into_iter().any(shell));
        let all = Rights { write: true, shell: ShellRight::OnRequest, network: true, mcp_tools: Vec::new() };
        assert_eq!(all.refusal(ToolKind::Write), None);
        assert_eq!(all.refusal(ToolKind::Fetch), None);
    }
}
