//! Running one command with its files where a backend confines it: files go in, the command runs, what it changed comes
//! back. The same for a job that somebody hands over, for the tests of a change and for an agent that is a program.
//!
//! A backend that is not there is refused with what to do about it. Nothing is ever run on the machine instead.

mod e2b;
mod job;
mod microsandbox;
mod native;
pub(crate) mod tree;

pub use job::{Ran, run_job};

use crate::process::{Cancel, Captured, End, Limits};
use crate::{Error, Result};
use contract::{Backend, Backends};
use gateway::Way;
use sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::Duration;
pub(crate) use tree::{File, Files, Left};

/// How long a machine may take until it can be told something.
const BOOT_MAX: Duration = Duration::from_secs(180);

/// How long ending a machine may take; one that cannot be reached ends by itself.
const END_MAX: Duration = Duration::from_secs(20);

/// A command to run. Paths of files begin at a directory of the backend's choice, which [`root`] tells.
pub(crate) struct Work<'w> {
    /// Program and arguments; no shell is involved.
    pub(crate) argv: &'w [String],
    pub(crate) files: &'w Files,
    /// Variables besides those of the backend.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: &'w [u8],
    /// Where it starts, below the root.
    pub(crate) cwd: &'w str,
    /// What it finds around it, where that is not what the configuration names.
    pub(crate) image: Option<&'w str>,
    pub(crate) limits: Limits,
}

/// What came of it.
pub(crate) struct Done {
    pub(crate) end: End,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    /// What it did to the files.
    pub(crate) left: Left,
    /// How long it took until the command could be started.
    pub(crate) boot: Duration,
    pub(crate) elapsed: Duration,
    /// What confined it, for the record.
    pub(crate) record: Value,
}

/// Why a backend could not do it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is not there, or not as it is configured.
    Unavailable {
        /// What is wrong.
        what: String,
        /// What to do.
        fix: String,
    },
    /// It stopped doing what it should in the middle, or what it said makes no sense.
    Broken(String),
}

impl Trouble {
    fn unavailable(what: impl Into<String>, fix: impl Into<String>) -> Trouble {
        Trouble::Unavailable { what: what.into(), fix: fix.into() }
    }

    pub(crate) fn into_error(self, backend: Backend) -> Error {
        let name = backend.as_str();
        match self {
            Trouble::Unavailable { what, fix } => {
                Error::environment(format!("sandbox_unavailable: {name}: {what}"), format!("nothing was run; {fix}"))
            }
            Trouble::Broken(what) => {
                let hint = "nothing of it counts; try again, or use another backend (--backend native)";
                Error::environment(format!("{name} did not carry the command out: {what}"), hint)
            }
        }
    }
}

/// For an outcome that is on record.
impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Unavailable { what, fix } => write!(f, "{what}; {fix}"),
            Trouble::Broken(what) => f.write_str(what),
        }
    }
}

/// What backends need of whoever uses them.
pub struct Means<'m> {
    /// The kernel's own means.
    pub sandbox: &'m Sandbox,
    /// The supervisor of programs that norma runs outside of a sandbox: `msb`.
    pub supervisor: &'m crate::process::Supervisor,
    /// The clean environment that programs start from.
    pub env: &'m BTreeMap<OsString, OsString>,
    /// The user's own, which has the keys.
    pub user_env: &'m BTreeMap<OsString, OsString>,
    /// What the backends elsewhere are told.
    pub backends: &'m Backends,
    /// Certificates that are trusted besides the public ones.
    pub extra_roots_pem: Option<String>,
}

impl Means<'_> {
    fn variable(&self, name: &str) -> Option<&str> {
        self.user_env.get(OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    fn way(&self) -> Way {
        let one_of = |names: [&str; 2]| names.into_iter().find_map(|name| self.variable(name)).map(str::to_owned);
        Way {
            extra_roots_pem: self.extra_roots_pem.clone(),
            proxy: one_of(["HTTPS_PROXY", "https_proxy"]),
            no_proxy: one_of(["NO_PROXY", "no_proxy"]),
        }
    }
}

/// Where the files of a command are on a backend.
pub(crate) fn root(backend: Backend) -> &'static str {
    match backend {
        Backend::E2b => e2b::ROOT,
        Backend::Native | Backend::Microsandbox | Backend::None => microsandbox::ROOT,
    }
}

/// Whether a backend elsewhere could be used now, as far as that can be told without starting anything on it.
pub fn check_backend(backend: Backend, means: &Means<'_>, cancel: &Cancel) -> Result<()> {
    let checked = match backend {
        Backend::Native | Backend::None => Ok(()),
        Backend::Microsandbox => microsandbox::check(means, cancel),
        Backend::E2b => e2b::check(means),
    };
    checked.map_err(|trouble| trouble.into_error(backend))
}

/// Runs a command to its end.
pub(crate) fn run(
    backend: Backend,
    work: &Work<'_>,
    means: &Means<'_>,
    cancel: &Cancel,
) -> std::result::Result<Done, Trouble> {
    match backend {
        Backend::Native => native::run(work, means, cancel),
        Backend::Microsandbox => microsandbox::run(work, means, cancel),
        Backend::E2b => e2b::run(work, means, cancel),
        Backend::None => Err(Trouble::unavailable(
            "nothing confines it, and a job is always confined",
            "use native, microsandbox or e2b",
        )),
    }
}
