//! What a process of norma works with, whatever it does: where things are, what a person trusts, the policies, the keys,
//! and whether this machine can confine agents. All of it is read or made before a run is touched.

pub(crate) mod agents;
pub(crate) mod confinement;
pub(crate) mod keys;
pub(crate) mod own;
pub(crate) mod policy;
pub(crate) mod scratch;
pub(crate) mod state_dir;
pub(crate) mod trust;

use crate::git::Repository;
use crate::process::Supervisor;
use crate::workspace;
use contract::Policies;
use sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use store::Layout;
use trust::Trust;

/// What a process knows of its surroundings; only the command line reads the environment.
#[derive(Clone)]
pub struct Context {
    /// Where things are.
    pub layout: Layout,
    /// The user's repository.
    pub user: Repository,
    /// What is kept outside the repository.
    pub trust: Trust,
    /// The clean environment agents start from.
    pub agent_env: BTreeMap<OsString, OsString>,
    /// The user's own environment, from which keys of providers are taken, and nothing else.
    pub user_env: BTreeMap<OsString, OsString>,
    /// What models are told, as far as the user wrote it.
    pub templates: run::prompt::Templates,
    /// How norma becomes the supervisor of an agent.
    pub supervisor: Supervisor,
    /// What confines agents.
    pub sandbox: Arc<Sandbox>,
    /// Is told what takes its time before an agent can start.
    pub told: Arc<dyn Fn(News) + Send + Sync>,
    /// What was typed, for whoever waits.
    pub command: String,
    /// The user's own configuration, whether or not there is one.
    pub own_config: PathBuf,
    /// The policies that a run is held to, once they are decided; else those of the state directory.
    pub policies: Option<Arc<Policies>>,
}

/// What takes its time apart from agents: before one can start, and after it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The first workspace of a repository, which takes as long as the repository is large.
    Checkout(workspace::Progress),
    /// The configured setup, with its program and arguments.
    Setup(Vec<String>),
    /// A test command of an item starts.
    Test {
        /// The item's id.
        item: String,
        /// Which of its commands, from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// Its program and arguments.
        argv: Vec<String>,
    },
    /// A test command of an item is over.
    Tested {
        /// The item's id.
        item: String,
        /// Whether it passed.
        passed: bool,
        /// How long it took.
        took_ms: u64,
    },
}
