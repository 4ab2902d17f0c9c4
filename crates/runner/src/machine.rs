//! The real world: agents as processes in a private checkout, git with real objects.

use crate::acceptance::Acceptance;
use crate::agent::Conversations;
use crate::confine::{Shown, Tools};
use crate::execute::{self, Waiting};
use crate::git::{CommitSpec, Identity, ObjectId, Objects, PatchLimits, PatchProblem};
use crate::landing::{carry_out, id, own_branch};
use crate::process::Cancel;
use crate::show::{Ground, Workspace};
use crate::state_hash::{Memo, hash_tree_with};
use crate::workspace::Captured;
use crate::workspace::SetupLayers;
use crate::world::{Execution, LandResult, PatchResult, Place, TurnOrder, World};
use crate::{Context, ItemWorld, Keys, Result, observe};
use contract::path::PathProblem;
use contract::{Backend, Digest, Item, Landing, LandingMode, Reason, RepoPath, StepRef, Workflow};
use run::Run;
use run::gate::{Finding, Rule, shown};
use run::redact::{Known, Redactor};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Names the run in the environment of every process that belongs to it, so that what outlives a killed norma
/// can be found.
pub(crate) const MARKER: &str = "NORMA_RUN_ID";

/// Nobody's `.env` is longer.
const DOTENV_BYTES_MAX: u64 = 256 << 10;

/// See the module.
pub struct Machine<'a> {
    pub(crate) context: &'a Context,
    pub(crate) objects: &'a Objects,
    keys: &'a Keys,
    /// Ends a turn early.
    pub(crate) cancel: Cancel,
    /// What shows the run's tree.
    pub(crate) workspace: Workspace,
    /// What every confined agent sees of the machine.
    pub(crate) tools: Option<Rc<Tools>>,
    /// What stands ready for the next turn.
    pub(crate) waiting: Waiting,
    /// State hashes that are known.
    memo: Option<Memo>,
    /// What agents of a loop were told before.
    pub(crate) conversations: Conversations,
    /// Knows the user's secrets.
    redactor: Option<Arc<Redactor>>,
}

impl<'a> Machine<'a> {
    /// A machine without a checkout yet.
    pub fn new(context: &'a Context, objects: &'a Objects, keys: &'a Keys, cancel: Cancel) -> Machine<'a> {
        Machine {
            context,
            objects,
            keys,
            cancel,
            workspace: Workspace::default(),
            tools: None,
            waiting: Waiting::default(),
            memo: None,
            conversations: Conversations::default(),
            redactor: None,
        }
    }

    /// The one commit of a run whose turns made one tree.
    fn commit_of(&self, run: &Run) -> Result<ObjectId> {
        let spec = CommitSpec {
            tree: id(&run.tree)?,
            parents: vec![id(&run.started.base.commit)?],
            author: Machine::identity(run),
            seconds: (run.verdict_at.unwrap_or_default().unix_ms() / 1000) as i64,
            message: commit_message(run),
        };
        Ok(self.objects.commit(&spec)?)
    }

    pub(crate) fn identity(run: &Run) -> Identity {
        let author = &run.started.author;
        Identity { name: author.name.clone(), email: author.email.clone() }
    }
}

impl Machine<'_> {
    /// Finds what is secret by its form, what the user's environment holds under a name that says so, and the secrets of
    /// the repository's `.env` files.
    pub(crate) fn redactor(&mut self) -> Arc<Redactor> {
        let Context { user_env, layout, .. } = self.context;
        let made = self.redactor.get_or_insert_with(|| {
            let mut known = Known::new();
            for text in dotenv_files(&layout.root) {
                known.add_dotenv(&text);
            }
            for (name, value) in user_env {
                if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
                    known.add_variable(name, value);
                }
            }
            Arc::new(Redactor::new(&known))
        });
        Arc::clone(made)
    }
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

impl World for Machine<'_> {
    fn workspace(&mut self, run: &Run, step: StepRef) -> Result<Place> {
        let shown = self.show(&Ground::of(run, step))?;
        Ok(match (run.started.contract.sandbox, shown) {
            (Backend::None, Shown::Directory(dir)) => Place { repo_root: dir, final_names: false },
            _ => Place { repo_root: self.context.layout.root.clone(), final_names: true },
        })
    }

    fn prepare(&mut self, order: Option<&TurnOrder<'_>>) -> Result<()> {
        execute::prepare(self, order)
    }

    fn execute(&mut self, order: &TurnOrder<'_>) -> Result<Execution> {
        execute::execute(self, order)
    }

    fn apply(&mut self, run: &Run, patch: &[u8]) -> Result<PatchResult> {
        let applied = apply_patch(self.objects, run, patch)?;
        if let PatchResult::Tree { tree, .. } = &applied {
            // Durable before it can be mentioned.
            self.objects.pin(&format!("runs/{}/tree", run.id.slug()), id(tree)?)?;
        }
        Ok(applied)
    }

    fn patch(&mut self, run: &Run, captured: &Captured) -> Result<Vec<u8>> {
        let tree = id(&run.tree)?;
        Ok(if captured.tree == tree { Vec::new() } else { self.objects.diff_text(tree, captured.tree)? })
    }

    fn plan_landing(&mut self, run: &Run) -> Result<Landing> {
        let slug = run.id.slug();
        let commit = match run.started.contract.workflow {
            Workflow::Pdca => self.commit_of(run)?,
            // What the items made is a line of commits already.
            Workflow::Batch => id(&run.line.head.commit)?,
        };
        self.objects.pin(&format!("runs/{slug}/result"), commit)?;
        let commit = commit.to_string();
        if run.declined.is_some() || run.started.contract.landing.mode == LandingMode::Branch {
            return Ok(Landing { target: own_branch(&slug), from: None, commit, checkout: false });
        }
        let target = run.started.base.branch.clone().unwrap_or_else(|| "HEAD".to_owned());
        Ok(Landing { target, from: Some(run.started.base.commit.clone()), commit, checkout: true })
    }

    fn land(&mut self, run: &Run, landing: &Landing) -> Result<LandResult> {
        carry_out(&self.context.user, self.objects, run, landing)
    }

    fn diff(&mut self, run: &Run) -> Result<(Vec<u8>, Vec<u8>)> {
        diff(self.objects, run)
    }

    fn items(&mut self) -> Option<&mut dyn ItemWorld> {
        Some(self)
    }

    fn redactor(&mut self) -> Arc<Redactor> {
        Machine::redactor(self)
    }

    fn keys(&self) -> &Keys {
        self.keys
    }

    fn release(&mut self, run: &Run) -> Result<()> {
        (self.workspace, self.waiting) = (Workspace::default(), Waiting::default());
        self.conversations = Conversations::default();
        let slug = run.id.slug();
        store::remove_tree(&self.context.layout.worktree(&slug))?;
        if !run.started.contract.workspace.setup.is_empty() {
            SetupLayers::open(&self.context.layout.cache())?.forget_run(&slug)?;
        }
        // A stopped run can be gone on from, so its base must outlive the user's own clean-up; others need not.
        if run.reason != Some(Reason::BudgetExceeded) {
            let base = id(&run.started.base.commit)?;
            let _ = self.context.user.swap_ref(&base_ref(&slug), None, Some(base), "norma: run ended")?;
        }
        Ok(())
    }
}

impl ItemWorld for Machine<'_> {
    fn objects(&self) -> &Objects {
        self.objects
    }

    fn state_hash(&mut self, tree: ObjectId) -> Result<Digest> {
        let memo = self.memo.get_or_insert_with(|| Memo::open(&self.context.layout.state_memo()));
        hash_tree_with(self.objects, tree, memo)
    }

    fn accept(&mut self, run: &Run, item: &Item, candidate: ObjectId, base: ObjectId) -> Result<Acceptance> {
        Machine::accept(self, run, item, candidate, base)
    }
}

/// Applies a patch to a run's tree, on objects.
pub(crate) fn apply_patch(objects: &Objects, run: &Run, patch: &[u8]) -> Result<PatchResult> {
    let most = u64::from(run.started.contract.limits.change_mb) << 20;
    let binary = run.started.contract.scope.allow_binary;
    let limits = PatchLimits { patch_bytes_max: most, result_bytes_max: most, binary };
    let applied = match objects.apply(id(&run.tree)?, patch, &limits) {
        Ok(applied) => applied,
        Err(PatchProblem::Git(error)) => return Err(error.into()),
        Err(problem) => return Ok(refused(&problem)),
    };
    let changes = observe::changes(objects, &applied.changes)?;
    Ok(PatchResult::Tree { tree: applied.tree.to_string(), changes })
}

/// The whole change of a run so far, as text and as names.
pub(crate) fn diff(objects: &Objects, run: &Run) -> Result<(Vec<u8>, Vec<u8>)> {
    let (old, new) = (id(&run.started.base.tree)?, id(&run.tree)?);
    if old == new {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut names = Vec::new();
    for change in objects.diff(old, new)? {
        names.extend_from_slice(shown(&change.path).as_bytes());
        names.push(b'\n');
    }
    Ok((objects.diff_text(old, new)?, names))
}

/// Where the bases of runs are kept.
pub(crate) const BASES: &str = "refs/norma/";

/// Keeps the base of a run alive in the user's repository, whatever the user deletes meanwhile.
pub(crate) fn base_ref(slug: &str) -> String {
    format!("{BASES}{slug}/base")
}

fn commit_message(run: &Run) -> String {
    let goal = run.started.contract.goal.trim();
    let (subject, rest) = goal.split_once('\n').unwrap_or((goal, ""));
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    let digest = run.started.contract_digest;
    format!("{subject}\n\n{body}Norma-Run: {}\nNorma-Contract: {digest}\n", run.id.slug())
}

fn refused(problem: &PatchProblem) -> PatchResult {
    let (reason, rule) = match problem {
        PatchProblem::Binary | PatchProblem::BinaryDelta => (Reason::PolicyViolation, Rule::Binary),
        PatchProblem::UnsafePath { path, .. } if names_git(path) => (Reason::PolicyViolation, Rule::ProtectedPath),
        PatchProblem::UnsafePath { .. } => (Reason::PolicyViolation, Rule::OddName),
        PatchProblem::TooLarge { .. } | PatchProblem::Inflates { .. } => (Reason::PolicyViolation, Rule::TooLarge),
        _ => (Reason::PatchFailed, Rule::PatchFailed),
    };
    PatchResult::Refused { reason, findings: vec![Finding::whole(rule, problem.to_string())] }
}

fn names_git(path: &[u8]) -> bool {
    matches!(RepoPath::parse_bytes(path), Err(PathProblem::GitDirectory(_)))
}
