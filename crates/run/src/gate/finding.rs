//! Findings: what a gate on a change has to say, in a form that `gates.json` keeps and people read.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a finding is about; the word in `gates.json` and in docs/gates.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A name that cannot be trusted to mean what it shows.
    OddName,
    /// norma's own directory.
    StateDirectory,
    /// Not below any allowed path.
    OutsideScope,
    /// On the list of protected paths, or git's own.
    ProtectedPath,
    /// A symbolic link, on either side.
    Symlink,
    /// A submodule, on either side.
    Submodule,
    /// A file mode other than 644 and 755.
    Mode,
    /// Binary content, where the contract does not allow it.
    Binary,
    /// Two names that some file system takes for one.
    CaseTwin,
    /// An ignored file outside both the allowed and the scratch paths; only in runs that do not record what is left out.
    IgnoredOutside,
    /// A repository inside the workspace.
    NestedRepository,
    /// A pipe, a socket, a device or the like.
    SpecialFile,
    /// Deeper than anything is looked at.
    TooDeep,
    /// Larger than anything is looked at.
    TooLarge,
    /// Only in the agent's own git, and in no file.
    OnlyInGit,
    /// Could not be looked at.
    Unreadable,
    /// A line is added that is shown in another order than it is read.
    ReorderedText,
    /// Something is added that looks like a secret.
    Secret,
    /// The patch did not become a tree.
    PatchFailed,
    /// A budget is exceeded.
    Budget,
    /// More paths differ than the item may change.
    MaxFiles,
    /// The agent used more tools than the item allows.
    MaxToolOps,
    /// The deltas have more entries than the item allows.
    MaxDeltaSize,
    /// The patch has more bytes than the item allows.
    MaxPatchBytes,
    /// The same change has landed already.
    Duplicate,
    /// An expected file is not there.
    OutputMissing,
    /// The change touches what decides whether it passes its tests.
    TestsChanged,
    /// A test did not pass, or could not be run.
    TestsFailed,
    /// A file that must be there first is not, or is another.
    InputMissing,
    /// The agent did not answer as asked.
    Output,
    /// Something changed where nothing may.
    ReadOnly,
    /// Something else landed at the same path meanwhile.
    Conflict,
    /// A contract that an agent wrote asks for what it may not, or is none.
    Contract,
    /// A reviewer blocks it, or gave no answer.
    Review,
    /// A reviewer changed what it was to judge.
    ReviewerChanged,
}

/// One reason why a change may not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What it is about.
    pub rule: Rule,
    /// The path, escaped so that it can be shown; none where it is about the change as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The exact bytes of the path in hexadecimal digits, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl Finding {
    /// A finding about one path.
    pub fn at(rule: Rule, path: &[u8], message: impl Into<String>) -> Finding {
        let exact = std::str::from_utf8(path).is_err();
        let hex = exact.then(|| path.iter().map(|byte| format!("{byte:02x}")).collect());
        Finding { rule, path: Some(shown(path)), path_hex: hex, message: message.into() }
    }

    /// A finding about the change as a whole.
    pub fn whole(rule: Rule, message: impl Into<String>) -> Finding {
        Finding { rule, path: None, path_hex: None, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A path as people may be shown it: whatever would move the cursor, hide or reorder text is spelled out.
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}
