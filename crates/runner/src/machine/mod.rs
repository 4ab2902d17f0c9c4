//! The real world: agents as processes in a private checkout, git with real objects.

mod acceptance;
pub(crate) mod base_tests;
pub(crate) mod confine;
pub(crate) mod elsewhere;
mod execute;
pub(crate) mod handshake;
pub(crate) mod landing;
pub(crate) mod setup;
mod startable;
pub(crate) mod state_hash;
pub(crate) mod trial;
pub(crate) mod view;

use crate::change::acceptance::Acceptance;
use crate::git::{BASES, id};
use crate::git::{ObjectId, Objects};
use crate::machine::confine::{Shown, Tools};
use crate::machine::landing::{carry_out, moved_to};
use crate::machine::state_hash::{Memo, hash_tree_with};
use crate::machine::view::{Ground, Workspace};
use crate::process::Cancel;
use crate::workspace::SetupLayers;
use crate::world::{Execution, LandResult, Place, TurnOrder, World};
use crate::{Context, Keys, Result, StateDir, load_policies};
use contract::policy::CommandPolicy;
use contract::{Backend, Digest, Item, Landing, Reason};
use execute::Waiting;
pub(crate) use execute::not_started;
use run::redact::{Known, Redactor};
use run::{Run, TurnSpec};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nobody's `.env` is longer.
const DOTENV_BYTES_MAX: u64 = 256 << 10;

/// Agents and git on this machine, for one run and one worker.
pub struct Machine {
    /// Tells it apart from the others of this process.
    number: u64,
    pub(crate) context: Arc<Context>,
    pub(crate) objects: Arc<Objects>,
    keys: Arc<Keys>,
    /// Ends a turn early: the run's own, or that of one turn.
    pub(crate) cancel: Cancel,
    of_run: Cancel,
    /// What shows the run's tree.
    pub(crate) workspace: Workspace,
    /// What every confined agent sees of the machine.
    pub(crate) tools: Option<Arc<Tools>>,
    /// What stands ready for the next turn.
    pub(crate) waiting: Waiting,
    /// State hashes that are known.
    memo: Option<Memo>,
    /// Knows the user's secrets.
    redactor: Option<Arc<Redactor>>,
    /// What commands are judged by: read once, since a run is bound to the policies that it was started under.
    commands: Option<Arc<CommandPolicy>>,
}

impl Machine {
    /// A machine without a checkout yet.
    pub fn new(context: Arc<Context>, state: &StateDir, cancel: Cancel) -> Machine {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Machine {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            context,
            objects: state.objects.clone(),
            keys: state.keys.clone(),
            of_run: cancel.clone(),
            cancel,
            workspace: Workspace::default(),
            tools: None,
            waiting: Waiting::default(),
            memo: None,
            redactor: None,
            commands: None,
        }
    }

    /// What commands are judged by.
    pub(crate) fn commands(&mut self) -> Result<Arc<CommandPolicy>> {
        if let Some(commands) = &self.commands {
            return Ok(commands.clone());
        }
        let read = match &self.context.policies {
            Some(policies) => policies.commands(),
            None => load_policies(&self.context.layout)?.commands(),
        };
        Ok(self.commands.insert(read).clone())
    }

    /// See [`redactor`]; made once.
    pub(crate) fn redactor(&mut self) -> Arc<Redactor> {
        let made = self.redactor.get_or_insert_with(|| Arc::new(redactor(&self.context)));
        Arc::clone(made)
    }
}

/// Finds what is secret by its form, what the user's environment holds under a name that says so, and the secrets of the
/// repository's `.env` files.
pub(crate) fn redactor(context: &Context) -> Redactor {
    let mut known = Known::new();
    for text in dotenv_files(&context.layout.root) {
        known.add_dotenv(&text);
    }
    for (name, value) in &context.user_env {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            known.add_variable(name, value);
        }
    }
    Redactor::new(&known)
}

/// The `.env` files that lie at the top of a repository, tracked or not, as far as they can be read.
fn dotenv_files(root: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let files = entries.filter(|entry| {
        let by_name = entry.file_name().as_encoded_bytes().starts_with(b".env");
        by_name && entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= DOTENV_BYTES_MAX)
    });
    files.filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
}

impl World for Machine {
    fn workspace(&mut self, run: &Run, spec: &TurnSpec) -> Result<Place> {
        let on = Ground::of(run, spec);
        Ok(match (on.backend, self.show(&on)?) {
            (Backend::None | Backend::Microsandbox | Backend::E2b, Shown::Directory { source, .. }) => {
                Place { repo_root: source, final_names: false }
            }
            _ => Place { repo_root: self.context.layout.root.clone(), final_names: true },
        })
    }

    fn prepare(&mut self, order: Option<&TurnOrder<'_>>) -> Result<()> {
        execute::prepare(self, order)
    }

    fn execute(&mut self, order: &TurnOrder<'_>) -> Result<Execution> {
        execute::execute(self, order)
    }

    fn accept(&mut self, run: &Run, item: &Item, candidate: ObjectId, base: ObjectId) -> Result<Acceptance> {
        Machine::accept(self, run, item, candidate, base)
    }

    fn state_hash(&mut self, tree: ObjectId) -> Result<Digest> {
        let memo = self.memo.get_or_insert_with(|| Memo::open(&self.context.layout.state_memo()));
        hash_tree_with(&self.objects, tree, memo)
    }

    fn moved_to(&mut self, landing: &Landing) -> Result<Option<ObjectId>> {
        moved_to(&self.context.user, landing)
    }

    fn land(&mut self, run: &Run, landing: &Landing) -> Result<LandResult> {
        carry_out(&self.context.user, &self.objects, run, landing)
    }

    fn end_with(&mut self, cancel: Option<Cancel>) {
        self.cancel = cancel.unwrap_or_else(|| self.of_run.clone());
    }

    fn templates(&self) -> run::prompt::Templates {
        self.context.templates.clone()
    }

    fn redactor(&mut self) -> Arc<Redactor> {
        Machine::redactor(self)
    }

    fn keys(&self) -> &Keys {
        &self.keys
    }

    fn release(&mut self, run: &Run) -> Result<()> {
        if let Some(memo) = self.memo.take().filter(Memo::has_news) {
            // It only saves work, so nothing fails for it.
            let _ = memo.save(&self.context.layout.state_memo());
        }
        (self.workspace, self.waiting) = (Workspace::default(), Waiting::default());
        let slug = run.id.slug();
        store::remove_tree(&self.context.layout.worktree(&slug))?;
        store::remove_tree(&self.context.layout.conversations(&slug))?;
        if !run.started.contract.workspace.setup.is_empty() {
            SetupLayers::open(&self.context.layout.cache())?.forget_run(&slug)?;
        }
        // A stopped run can be gone on from, so its base must outlive the user's own clean-up; others need not.
        if run.reason != Some(Reason::BudgetExceeded) && !self.context.layout.is_private() {
            let base = id(run.started.base.commit);
            let _ = self.context.user.swap_ref(&base_ref(&slug), None, Some(base), "norma: run ended")?;
        }
        Ok(())
    }
}

/// Keeps the base of a run alive in the user's repository, whatever the user deletes meanwhile.
pub(crate) fn base_ref(slug: &str) -> String {
    format!("{BASES}{slug}/base")
}
